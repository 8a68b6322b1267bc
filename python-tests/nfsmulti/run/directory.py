# SPDX-License-Identifier: GPL-2.0-only
"""The directory on a user's servers that holds all files of a run.

A run makes it, which fails where the name is taken, so that nothing in it is anybody else's, and
removes it at its end. While it is there, `directory.json` in the run's folder says so: a run that
was killed is found by that. That file proves nothing: whoever hands on a folder may write one. The
proof lies on the server: in the directory is another, empty one, whose name is the run's secret.
"""

import contextlib
import dataclasses
import itertools
import re
import secrets
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from nfsmulti import export, typed
from nfsmulti.errors import HarnessError
from nfsmulti.paths import COMMAND, RESULTS, shown, write_json
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
