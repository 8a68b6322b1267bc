# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti clean: removes the directories that runs have left on servers."""

import dataclasses
import json
import shlex
import sys
from collections.abc import Collection
from pathlib import Path

from nfsmulti import export
from nfsmulti.errors import HarnessError
from nfsmulti.paths import RESULTS, built, shown
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


def clean(pool: str | None, results: Path, *, as_json: bool) -> None:
    """Remove what the runs that are kept here have left; name what else on --pool looks like it."""
    entries = export.listing(pool) if pool else []
    there = {entry.name for entry in entries if entry.type == "directory"}
    if results != RESULTS and not results.is_dir():
        raise HarnessError(
            f"{shown(results)}: there is no such folder", "name the folder that holds the runs"
        )
    told = _Told(as_json=as_json)
    failed = False
    for file in sorted(results.glob(f"*/*/{FILE}")):
        try:
            left = _noted(file.parent, pool, there)
        except HarnessError as error:
            told.say(shown(file.parent), "failed", str(error))
            failed = True
            continue
        if left:
            failed |= not _removed(told, file.parent, left)
    for name in sorted({*filter(is_name, there)} - told.found.keys()):
        told.say(
            name,
            "stays",
            f"{name}/ stays: its run is not kept here, and may be going on elsewhere"
            f"{_by_hand(name, pool or '')}",
        )
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


def _by_hand(name: str, pool: str) -> str:
    """Say what removes a directory of which nothing proves that a run has made it."""
    words = [shown(built("nfsmulti-export")), "remove-unmarked", pool, name]
    return f"; if it is yours: {shlex.join(words)}"


def _removed(told: _Told, run: Path, left: Leftover) -> bool:
    """Remove what a run has left, unless it is going on; tells whether it is gone."""
    forget = f"rm {shlex.quote(shown(run / FILE))}"
    with claimed(run) as idle:
        if not idle:
            text = f"{left.directory}/ stays: its run is going on ({shown(run)})"
            told.say(left.directory, "stays", text)
            return True
        try:
            gone = left.remove(run)
        except HarnessError as error:
            unknown = isinstance(error, export.UnmarkedError)
            hint = f"{_by_hand(left.directory, left.pool)} && {forget}" if unknown else ""
            text = f"{left.directory}/ is NOT removed: {error}{hint}"
            told.say(left.directory, "failed", text)
            return False
        if not gone:
            text = (
                f"{left.directory}/ is not there: is that export mounted, and is it the same"
                f" server? If it was removed by hand: {forget}"
            )
            told.say(left.directory, "missing", text)
            return False
        much = f"{gone.entries:,} {'entry' if gone.entries == 1 else 'entries'}"
        text = f"{left.directory}/ is removed ({much}, {amount(gone.bytes)})"
        told.say(left.directory, "removed", text)
        return True
