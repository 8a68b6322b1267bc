# SPDX-License-Identifier: GPL-2.0-only
"""The directory on a user's servers that holds all files of a run.

A run makes it, which fails where the name is taken, so that nothing in it is anybody else's, and
removes it at its end. While it is there, `directory.json` in the run's folder says so: a run that
was killed is found by that. That file proves nothing: whoever hands on a folder may write one. The
proof lies on the server: in the directory is another, empty one, whose name is the run's secret.

The last part is ./nfsmulti clean, which removes the directories that runs have left.
"""

import contextlib
import dataclasses
import itertools
import json
import re
import secrets
import shlex
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from nfsmulti import export, typed
from nfsmulti.errors import HarnessError
from nfsmulti.paths import COMMAND, RESULTS, built, shown, write_json
from nfsmulti.processes import claimed
from nfsmulti.run.place import split_pool
from nfsmulti.terminal import Lines
from nfsmulti.texts import amount

FILE = "directory.json"
_NAME = re.compile(r"nfsmulti-\d{8}T\d{6}Z-[0-9a-f]{8}")
_MARK = re.compile(r"(nfsmulti-mark-[0-9a-f]{32})?")
_POOL = re.compile(r"[^\0-\x1f\x7f-\x9f\ud800-\udc7f\udd00-\udfff]+")  # what an argument can be
_FIRST, _EVERY = 5, 60  # seconds of a removal that are told


def new_name() -> str:
    """Return a directory a name that is nobody's: of this run alone, whoever else runs one."""
    return f"nfsmulti-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def is_name(name: str) -> bool:
    """Tell whether new_name() has made this up."""
    return bool(_NAME.fullmatch(name))


_SOUND: dict[str, Callable[[Any], object]] = {
    "pool": _POOL.fullmatch,
    "directory": _NAME.fullmatch,
    "mark": _MARK.fullmatch,
    "bytes": lambda value: 0 <= value < 1 << 63,
}


@dataclass(frozen=True)
class Leftover:
    """A directory that a run has made and not removed yet.

    `mark` is the name of a directory in it, which none has that somebody else has made, there or in
    its place; "" where version 0.6.0 made it, without one. `bytes` are those that it may hold.
    """

    pool: str
    directory: str
    mark: str
    bytes: int

    @classmethod
    def of(cls, run: Path) -> Self | None:
        """Return that of the run in the folder `run`; None where it has none.

        Raises HarnessError where what is there is not what a run writes. A link is not: it may lead
        to the note of a run that is going on.
        """
        file = run / FILE
        if file.is_symlink():
            raise HarnessError(f"{shown(file)}: a link, which no run makes: nothing is removed")
        try:
            note = typed.load_as(cls, file)
        except FileNotFoundError:
            return None
        for one in dataclasses.fields(cls):
            if not _SOUND[one.name](getattr(note, one.name)):
                raise HarnessError(
                    f"{shown(file)}: its {one.name} is none that a run writes: nothing is removed."
                    " If version 0.6.0 wrote it, remove the directory by hand, and this file"
                )
        return note

    def save(self, run: Path) -> None:
        """Write it to the folder of its run."""
        write_json(run / FILE, dataclasses.asdict(self))

    def remove(self, run: Path) -> export.Usage | None:
        """Remove it from the server, and the note of it. Raises HarnessError.

        None: it is not there, and stays noted, for another server or folder may be mounted now.
        """
        if not self.mark:
            raise export.UnmarkedError(
                f'"{self.directory}" has no mark, which runs make since 0.7.0'
            )
        with _progress(self.directory) as tell:
            gone = export.remove(self.pool, self.directory, self.mark, tell)
        if not gone.entries:
            return None
        (run / FILE).unlink(missing_ok=True)
        return gone

    def text(self, results: Path) -> str:
        """Say in a line what stays, and how it is removed."""
        given = "" if results == RESULTS else f" --results {shlex.quote(shown(results))}"
        clean = f"{COMMAND} clean --pool={shlex.quote(self.pool)}{given}"
        stays = f"{self.directory}/ stays on the server (up to {amount(self.bytes)})"
        return f"{stays}; remove it with: {clean}"


@contextlib.contextmanager
def _progress(directory: str) -> Iterator[Callable[[export.Usage], None]]:
    """Show on a terminal how a removal goes on; elsewhere say it after some seconds, and then."""
    out, calls = Lines(), itertools.count(1)

    def tell(gone: export.Usage) -> None:
        text = f"removing {directory}/: {gone.entries:,} entries so far"
        out.passing(text)
        if not out.is_terminal and next(calls) % _EVERY == _FIRST:
            out.print(text)

    out.passing(f"removing {directory}/")
    try:
        yield tell
    finally:
        out.passing()


@contextlib.contextmanager
def run_directory(run: Path, pool: str, most_bytes: int) -> Iterator[str]:
    """Make the directory of the run in the folder `run`, yield its name, and remove it at the end.

    Raises HarnessError where it cannot be made, or where paths of the pool do not lead to the same
    files. What cannot be removed stays noted.
    """
    noted = Leftover(pool, new_name(), f"nfsmulti-mark-{secrets.token_hex(16)}", most_bytes)
    noted.save(run)  # before it is there: one that is killed from here on is found
    _make(noted, run)
    try:
        yield noted.directory
    finally:
        with contextlib.suppress(HarnessError):  # what stays is told when everything else was
            noted.remove(run)


def _make(noted: Leftover, run: Path) -> None:
    try:
        export.make(noted.pool, noted.directory)
    except HarnessError:
        (run / FILE).unlink(missing_ok=True)
        raise
    try:
        export.make(noted.pool, f"{noted.directory}/{noted.mark}")
    except BaseException:  # of a signal, too: without its mark nobody knows the directory
        with contextlib.suppress(HarnessError):
            export.remove_empty(noted.pool, noted.directory)
            (run / FILE).unlink(missing_ok=True)
        raise


# --- ./nfsmulti clean ---

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
