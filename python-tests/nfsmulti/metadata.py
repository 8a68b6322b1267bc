# SPDX-License-Identifier: GPL-2.0-only
"""What jobs on metadata are: operations on entries, by the engine and by fio's own engines."""

from collections.abc import Mapping
from typing import NamedTuple

from nfsmulti.scenario import Entries
from nfsmulti.story import Levels, Options


class Operation(NamedTuple):
    """The engine's options, what they do to entries, how several are called; fio's own engine."""

    options: Options
    entries: Entries
    many: str
    peer: str = ""


OPERATIONS: Mapping[str, Operation] = {
    "create": Operation({"meta_write": "create"}, "makes", "creates", "filecreate"),
    "getattr": Operation({"meta_read": "getattr"}, "uses", "GETATTRs"),
    "lookup": Operation({"meta_read": "lookup"}, "uses", "LOOKUPs", "filestat"),
    "remove": Operation({"meta_write": "remove"}, "removes", "removes", "filedelete"),
}
MOST = 1 << 20  # entries of a cell that makes them; those that it has no time for are not made
# Options of the job files that fio's own engines do without.
_OURS = (
    "metadata", "meta_read", "meta_write", "tree_depth", "iodepth", "nconnect", "spread",
    "norandommap", "size", "time_based", "runtime",
)  # fmt: skip


def size_of(entries: int) -> Options:
    """Return the size of a job on so many entries: 1 KiB stands for one, as in fio's logs."""
    return {"size": f"{entries}k"}


def by_engine(operation: str, depth: int, nconnect: int) -> Options:
    """Return the options of a job of the engine."""
    return {
        "metadata": 1, **OPERATIONS[operation].options, "bs": "1k", "tree_depth": 0,
        "iodepth": depth, "nconnect": nconnect, "spread": "roundrobin",
    }  # fmt: skip


def by_peer(operation: str, jobs: int, entries: int) -> Options:
    """Return those of jobs of fio's own engine, which share the entries."""
    known = OPERATIONS[operation]
    return {
        **dict.fromkeys(_OURS), "ioengine": known.peer, "numjobs": jobs, "bs": "1k",
        "filesize": "1k", "rw": "read" if known.entries == "uses" else "write", "openfiles": 1,
        "fallocate": "none", "nrfiles": max(1, entries // jobs),
    }  # fmt: skip


def operation(levels: Levels) -> Operation:
    """Return what a cell of a story does."""
    return OPERATIONS[str(levels["operation"])]
