# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti clean: removes the directories that runs have left on servers."""

from __future__ import annotations

import dataclasses
import functools
import json
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from nfsmulti import export
from nfsmulti.errors import HarnessError
from nfsmulti.paths import COMMAND, shown
from nfsmulti.processes import claimed
from nfsmulti.run.directory import FILE, Leftover, is_name
from nfsmulti.run.place import split_pool
from nfsmulti.terminal import Lines
from nfsmulti.texts import amount

_out = Lines()


class _Told:
    """What became of each directory: said at once, or at the end as JSON."""

    def __init__(self, *, as_json: bool):
        self.as_json, self.found = as_json, dict[str, dict[str, str]]()

    def say(self, directory: str, became: str, text: str) -> None:
        """Tell that it was removed, stays, is missing, or that removing it failed; and why."""
        self.found[directory] = {"became": became, "text": text}
        if not self.as_json:
            _out.print(text)


def clean(
    pool: str | None, results: Path, names: Sequence[str], *, everything: bool, as_json: bool
) -> None:
    """Remove what the runs that are kept here have left; with --all only `names`, on --pool.

    What is named goes whoever has made it: only that has no proof on the server.
    """
    if everything and pool is None:
        raise HarnessError("--all needs the --pool where it is to look")
    if names and not everything:
        raise HarnessError(f"clean {names[0]}: names are for --all", "clean --pool=POOL --all NAME")
    if others := [name for name in names if not is_name(name)]:
        raise HarnessError(
            f"clean --all {others[0]}: runs make up no such name, as nfsmulti-TIME-RANDOM is",
            "remove it by hand if it is yours",
        )
    there = _directories(pool) if pool else set()
    told = _Told(as_json=as_json)
    failed = False
    for file in sorted(results.glob(f"*/*/{FILE}")):
        try:
            left = _noted(file.parent, pool, there)
        except HarnessError as error:
            if not names:
                told.say(shown(file.parent), "failed", str(error))
                failed = True
            continue
        if left and (not names or left.directory in names):
            failed |= not _removed(told, file.parent, left, names)
    for name in sorted({*(names or filter(is_name, there))} - told.found.keys()):
        failed |= not _removed_other(told, pool or "", name, names, everything)
    if as_json:
        print(json.dumps(told.found, indent="\t"))
    elif not told.found:
        _out.print("no run has left anything" + ("" if pool else f" (in {shown(results)})"))
    sys.exit(failed)


def _noted(run: Path, pool: str | None, there: Collection[str]) -> Leftover | None:
    """Return what the run in the folder `run` has left, on --pool where one is given."""
    left = Leftover.of(run)
    if left is None or pool is None:
        return left
    if left.directory in there or _paths_of(pool) & _paths_of(left.pool):
        return dataclasses.replace(left, pool=pool)
    return None


def _paths_of(pool: str) -> set[str]:
    """Return a pool's paths, without their arguments."""
    return {path.partition("?")[0] for path in split_pool(pool)}


def _removed(told: _Told, run: Path, left: Leftover, names: Collection[str]) -> bool:
    """Remove what a run has left, unless it is going on; tells whether it is gone."""
    with claimed(run) as idle:
        if not idle:
            text = f"{left.directory}/ stays: its run is going on ({shown(run)})"
            told.say(left.directory, "stays", text)
            return True
        return _gone(
            told,
            left.directory,
            lambda: left.remove(run, unmarked=left.directory in names),
            f"{left.directory}/ is not there: is that export mounted, and is it the same server?"
            f" If it was removed by hand: rm {shlex.quote(shown(run / FILE))}",
        )


def _directories(pool: str) -> set[str]:
    """Return those of the export."""
    return {entry.name for entry in export.listing(pool) if entry.type == "directory"}


def _removed_other(
    told: _Told, pool: str, name: str, names: Collection[str], everything: bool
) -> bool:
    """Remove, where it is named, or only tell what looks like a run's and is of none kept here."""
    if name not in names:
        command = f"{COMMAND} clean --pool={shlex.quote(pool)} --all {name}"
        told.say(
            name,
            "stays",
            f"{name}/ stays: its run is not kept here, and may be going on elsewhere;"
            f" if it is yours: {command}",
        )
        return not everything
    remove = functools.partial(export.remove_unmarked, pool, name)
    return _gone(told, name, remove, f"{name}/ is not there")


def _gone(
    told: _Told, directory: str, remove: Callable[[], export.Usage | None], missing: str
) -> bool:
    """Remove a directory, and say what became of it; tells whether it is gone."""
    try:
        gone = remove()
    except HarnessError as error:
        unknown = isinstance(error, export.UnmarkedError) and is_name(directory)
        hint = f"; if it is yours: clean --pool=POOL --all {directory}" if unknown else ""
        told.say(directory, "failed", f"{directory}/ is NOT removed: {error}{hint}")
        return False
    if not gone or not gone.entries:
        told.say(directory, "missing", missing)
        return False
    much = f"{gone.entries:,} {'entry' if gone.entries == 1 else 'entries'}"
    text = f"{directory}/ is removed ({much}, {amount(gone.bytes)})"
    told.say(directory, "removed", text)
    return True
