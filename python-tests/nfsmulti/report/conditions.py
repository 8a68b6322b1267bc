# SPDX-License-Identifier: GPL-2.0-only
"""Under which conditions a run was made: where (summary.place) and on what (environment.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nfsmulti.errors import HarnessError
from nfsmulti.report import texts
from nfsmulti.report.story import Table
from nfsmulti.summary import Summary

FILE = "environment.json"


def table(summary: Summary, folder: Path) -> Table:
    """List place and environment, one line each; a run without environment.json says so."""
    rows = [["place", *row] for row in _flat(summary.place)]
    environment = load(folder)
    rows += [["environment", *row] for row in _flat(environment)]
    if not environment:
        rows.append(["environment", FILE, "missing"])
    when = [["run", "started", summary.started], ["run", "ended", summary.ended or "not ended"]]
    return Table(["", "what", "value"], when + rows, text_columns=3)


def load(folder: Path) -> dict[str, Any]:
    """Read a run's environment.json; empty where there is none."""
    file = folder / FILE
    try:
        data = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise HarnessError(f"{file}: {error}") from None
    if not isinstance(data, dict):
        raise HarnessError(f"{file}: not an object")
    return data


def in_short(summary: Summary) -> str:
    """Give the place in one line: lab, pool nfs://…, link 1gbit."""
    place = {name: value for name, value in summary.place.items() if name != "kind"}
    rest = [f"{name} {value}" for name, value in _flat(place) if value]
    return ", ".join([str(summary.place.get("kind", "unknown place")), *rest])


def _flat(data: Any, name: str = "") -> list[list[str]]:
    """Turn nested objects into lines, such as "sysctls net.ipv4.tcp_rmem"."""
    if isinstance(data, dict):
        return [
            line for key, value in data.items() for line in _flat(value, f"{name} {key}".strip())
        ]
    if isinstance(data, list):
        if any(isinstance(value, dict | list) for value in data):
            return _flat({str(number): value for number, value in enumerate(data, 1)}, name)
        data = ", ".join(map(str, data))
    return [[name, texts.MISSING if data is None or data == "" else str(data)]]
