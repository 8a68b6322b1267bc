# SPDX-License-Identifier: GPL-2.0-only
"""What there is on the paths of a pool, and directories there: asked by nfsmulti-export.

That is the engine's own client, over whatever the pool says; the harness needs none of its own.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nfsmulti import typed
from nfsmulti.errors import HarnessError
from nfsmulti.paths import built
from nfsmulti.pool import GRAMMAR
from nfsmulti.processes import Completed, run

_SECONDS, _TREE_SECONDS = 120.0, 3600.0
_INFO_SECONDS = 3600.0  # paths are asked one after the other, each until it is given up
_NAME = "nfsmulti-export: "
_DIFFERENT_FILES, _NO_MARK = 3, 4  # exit statuses


class DifferentFilesError(HarnessError):
    """The paths of a pool do not lead to the same files."""


class UnmarkedError(HarnessError):
    """A directory does not hold the mark of who has made it."""


_KINDS = {_DIFFERENT_FILES: DifferentFilesError, _NO_MARK: UnmarkedError}


@dataclass(frozen=True)
class PathInfo:
    """What one path offers, or the error that it cannot be used by. None: not told."""

    label: str
    version: str  # "3", "4.1", "4.2", or "mount"
    proto: str  # "tcp", "rdma", or "mount"
    read_max: int = 0  # bytes of one READ and one WRITE; 0: of a mount, or not known
    write_max: int = 0
    bytes_total: int | None = None
    bytes_available: int | None = None
    files_available: int | None = None
    may_read: bool | None = None
    may_write: bool | None = None
    reserved_port: bool = False
    flavors: Sequence[str] = ()  # of security, that the export takes: nfs(5)'s, and "none"
    flavors_error: str = ""  # why they are not known
    error: str = ""
    remedy: str = ""
    errno: int = 0


@dataclass(frozen=True)
class Entry:
    """One name in a directory; `type` is "file", "directory", "symlink" or "other"."""

    name: str
    type: str
    size: int


@dataclass(frozen=True)
class Usage:
    """How much there is, or was removed."""

    entries: int
    bytes: int


_Tell = Callable[[Usage], None]  # what has gone so far


def info(pool: str) -> list[PathInfo]:
    """Ask each path of a pool (its text or name); one that cannot be used has an error.

    Raises HarnessError where the pool cannot be read, or not all of its paths were asked in time.
    """
    done = _call("info", pool, seconds=_INFO_SECONDS)
    found = [typed.read(PathInfo, line) for line in _lines(done)]
    if done.status is None or (done.status != 0 and not any(path.error for path in found)):
        error = _error(done)
        raise HarnessError(error.what, error.remedy or GRAMMAR)
    return found


def make(pool: str, directory: str) -> None:
    """Make a new directory, and see that each path of the pool leads to it.

    Raises HarnessError, with nothing left behind, also where it is there already;
    DifferentFilesError where one does not.
    """
    _checked(_call("make", pool, directory, seconds=_SECONDS))


def listing(pool: str, directory: str = "") -> list[Entry]:
    """Return what lies in a directory of the first path; "" is the export. Raises HarnessError."""
    words = [directory] if directory else []
    done = _checked(_call("list", pool, *words, seconds=_TREE_SECONDS))
    return [Entry(**line) for line in _lines(done)]


def remove(pool: str, directory: str, mark: str, tell: _Tell | None = None) -> Usage:
    """Remove a directory and all below it; what is not there is no error.

    `tell` is told each second what has gone. Raises UnmarkedError where it holds no directory
    `mark`, which goes last, and HarnessError.
    """
    return _usage(_call("remove", pool, directory, mark, seconds=_TREE_SECONDS, tell=tell))


def remove_empty(pool: str, directory: str) -> None:
    """Remove an empty directory; what is not there is no error. Raises HarnessError."""
    _checked(_call("remove-empty", pool, directory, seconds=_SECONDS))


def remove_unmarked(
    pool: str,
    directory: str,
    *,
    enter: Sequence[str] = (),
    seconds: float = _TREE_SECONDS,
) -> Usage:
    """Remove a directory that the caller knows to be ours, with all that anybody has in it.

    `enter` are the words that lead to where clients are. Raises HarnessError.
    """
    words = ("remove-unmarked", pool, directory)
    return _usage(_call(*words, seconds=seconds, enter=enter))


def _usage(done: Completed) -> Usage:
    *_, line = _lines(_checked(done))
    return Usage(**line)


def _call(
    *words: str, seconds: float, enter: Sequence[str] = (), tell: _Tell | None = None
) -> Completed:
    def each_second(said: str) -> None:
        whole, _, _ = said.rpartition("\n")
        if tell and whole:
            tell(Usage(**json.loads(whole.splitlines()[-1])))

    argv = [*enter, str(built("nfsmulti-export")), *words]
    return run(argv, timeout=seconds, each_second=each_second)


def _checked(done: Completed) -> Completed:
    if done.status != 0:
        raise _error(done)
    return done


def _error(done: Completed) -> HarnessError:
    if done.status is None:
        return HarnessError("nfsmulti-export did not end in time", "does the server answer?")
    said = done.stderr.strip().splitlines() or [f"nfsmulti-export: exit status {done.status}"]
    return _KINDS.get(done.status, HarnessError)(said[-1].removeprefix(_NAME))


def _lines(done: Completed) -> Iterator[dict[str, Any]]:
    """Yield what it printed; bytes of names stand as U+0080 to U+00FF (json_line.h)."""
    for line in done.stdout.splitlines():
        found: dict[str, Any] = json.loads(line)
        for key, value in found.items():
            if isinstance(value, str):
                found[key] = value.encode("latin-1").decode(errors="surrogateescape")
        yield found
