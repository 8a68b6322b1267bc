# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti clean: removes the directories that runs have left on servers."""

from __future__ import annotations

import sys
from pathlib import Path

from rich import filesize
from rich.console import Console

from nfsmulti import export
from nfsmulti.errors import HarnessError
from nfsmulti.paths import shown
from nfsmulti.processes import claimed
from nfsmulti.run.directory import FILE, Leftover, is_name
from nfsmulti.run.place import split_pool

_out = Console(highlight=False, soft_wrap=True)


def clean(pool: str | None, results: Path, *, everything: bool) -> None:
    """Remove what the runs that are kept here have left, and of --pool the rest."""
    if everything and pool is None:
        raise HarnessError("--all needs the --pool where it is to look")
    paths = None if pool is None else _paths_of(pool)
    there = set() if pool is None else _directories(pool)
    known: set[str] = set()
    failed = False
    for file in sorted(results.glob(f"*/*/{FILE}")):
        try:
            left = Leftover.of(file.parent)
            if left is None or not (
                paths is None or left.directory in there or paths & _paths_of(left.pool)
            ):
                continue
        except HarnessError as error:
            _out.print(str(error), markup=False)
            failed = True
            continue
        known.add(left.directory)
        failed |= not _removed(file.parent, left)
    if pool is not None:
        others = {name for name in there if is_name(name)} - known
        known |= others
        for name in sorted(others):
            failed |= not _removed_other(pool, name, everything)
    if not known:
        _out.print("no run has left anything" + ("" if pool else f" (in {shown(results)})"))
    sys.exit(failed)


def _paths_of(pool: str) -> set[str]:
    """Return a pool's paths, without their arguments."""
    return {path.partition("?")[0] for path in split_pool(pool)}


def _removed(run: Path, left: Leftover) -> bool:
    """Remove what a run has left, unless it is going on; tells whether it is gone."""
    with claimed(run) as idle:
        if not idle:
            _out.print(f"{left.directory}/ stays: its run is going on ({shown(run)})")
            return True
        try:
            gone = left.remove(run)
        except HarnessError as error:
            _say_kept(left.directory, error)
            return False
    if gone is None:
        _out.print(
            f"{left.directory}/ is not there: is that export mounted, and is it the same server?"
            f" If it was removed by hand: rm {shown(run / FILE)}"
        )
        return False
    _say_removed(left.directory, gone)
    return True


def _directories(pool: str) -> set[str]:
    """Return those of the export."""
    return {entry.name for entry in export.listing(pool) if entry.type == "directory"}


def _removed_other(pool: str, name: str, really: bool) -> bool:
    """Remove, or only name, what looks like a run's and is of none that is kept here."""
    if not really:
        _out.print(
            f"{name}/ stays: its run is not kept here, and may be going on elsewhere;"
            " --all removes it, too"
        )
        return True
    try:
        _say_removed(name, export.remove(pool, name))
    except HarnessError as error:
        _say_kept(name, error)
        return False
    return True


def _say_kept(directory: str, error: HarnessError) -> None:
    _out.print(f"{directory}/ is NOT removed: {error}", markup=False)


def _say_removed(directory: str, gone: export.Usage) -> None:
    much = f"{gone.entries:,} entries, {filesize.decimal(gone.bytes)}"
    _out.print(f"{directory}/ is removed ({much})", markup=False)
