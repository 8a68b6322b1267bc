# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti doctor."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console

from nfsmulti.doctor import Finding, Level, fail, machine, server
from nfsmulti.errors import HarnessError
from nfsmulti.nfs.pool import PoolPath, read_pool
from nfsmulti.paths import as_typed

_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


def doctor(
    pool: Annotated[
        str | None, typer.Option(help="Check the servers of this pool (its text or its name) too.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check this machine, and the servers of a pool; every finding comes with its remedy.

    The exit status is 0 unless something failed. With --pool an empty file is created in each
    export and removed at once; on a path with version=4.1 only port and version are checked.
    """
    out = Console(highlight=False, soft_wrap=True)
    findings = []
    for finding in _look(pool):
        findings.append(finding)
        if not as_json:
            out.print(f"[{_STYLES[finding.level]}]{finding.level:4}[/]  ", end="")
            out.print(as_typed(finding.what), markup=False)
            if finding.remedy:
                out.print(f"      → {as_typed(finding.remedy)}", markup=False)
    if as_json:
        print(json.dumps([dataclasses.asdict(finding) for finding in findings], indent="\t"))
    raise typer.Exit(any(finding.level is Level.FAIL for finding in findings))


def _look(pool: str | None) -> Iterator[Finding]:
    paths: list[PoolPath] = []
    trouble: HarnessError | None = None
    if pool is not None:
        try:
            paths = read_pool(pool)
        except HarnessError as error:
            trouble = error
    yield from machine.look(rdma_wanted=any(path.rdma for path in paths))
    if trouble:
        yield fail(f"--pool: {trouble.what}", trouble.remedy or "docs/pools.md has the grammar")
    yield from server.look(paths)
    yield from machine.capacity(path.address for path in paths if path.address)
