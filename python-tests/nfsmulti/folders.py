# SPDX-License-Identifier: GPL-2.0-only
"""The folder that one run fills, and no other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.paths import shown
from nfsmulti.processes import claimed


def run_folder(below: Path, label: str = "") -> Path:
    """Make the folder of a run that begins now; its name is the time, and the label.

    Of two that begin in one second the later has the first second that is free.
    """
    below.mkdir(parents=True, exist_ok=True)
    ending, at = f"-{label}" if label else "", datetime.now(UTC)
    while True:
        with contextlib.suppress(FileExistsError):
            folder = below / f"{at:%Y%m%dT%H%M%SZ}{ending}"
            folder.mkdir()
            return folder
        at += timedelta(seconds=1)


@contextlib.contextmanager
def own_folder(given: Path | None, below: Path) -> Iterator[Path]:
    """Yield the folder that one run fills until the end: `given`, or a new one in `below`.

    Raises HarnessError where it is not empty, or another run has it.
    """
    folder = (given or run_folder(below)).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with claimed(folder) as mine:
        if not mine or any(folder.iterdir()):
            raise HarnessError(
                f"{shown(folder)} is not empty, or another run has it", "name another --results"
            )
        yield folder
