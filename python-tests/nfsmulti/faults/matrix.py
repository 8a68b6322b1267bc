# SPDX-License-Identifier: GPL-2.0-only
"""The cells of the fault matrix, as matrix.txt has them: what may come of one, by its words there.

What is promised stands in docs/promises.md and nfs(5).
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from nfsmulti.faults import guest_faults, lab_faults, scripted_faults
from nfsmulti.faults.job import Cell, Expected, Fault, Mode, Place, Work

_TABLE = Path(__file__).with_suffix(".txt")
_FAULTS: Mapping[tuple[Place, str], Fault] = {
    (fault.place, fault.name): fault
    for fault in (*scripted_faults.FAULTS, *lab_faults.FAULTS, *guest_faults.FAULTS)
}

_SILENT = "server not responding, still trying"
_STOPS = f"connection lost with|{_SILENT}"
_MENDED = ("bytes again", "all of it is durable now")
_HELD = Expected("held", first=_STOPS, says=("giving up",))
_MOVED = Expected("done", first="does not answer", moves=True)
_LOST = Expected("failed", errno.EIO, says=("bytes of",), loses=True)
_WORDS: Mapping[str, Expected] = {
    "done": Expected("done"),
    "again": Expected("done", first=_STOPS, says=("server OK",)),
    "silent": Expected("done", first=_SILENT, says=("server OK",)),
    "without it": Expected("done", says=("cannot reach port",)),
    "mended": Expected("done", says=_MENDED),
    "moved": _MOVED,
    "moved slowly": replace(
        _MOVED,
        short="fio reopens the file before it verifies, and asks the dead path first: that takes"
        " eight seconds, where `timeo` promises half a second",
    ),
    "held": _HELD,
    "held silent": replace(_HELD, first=_SILENT),
    "no way back": replace(
        _HELD,
        short="the link came back, but rdma_rxe of Linux 6.1 makes no new connection after a send"
        " while the link was down: the job keeps waiting instead of continuing",
    ),
    "lost": _LOST,
    "not mended": replace(_LOST, says=("written again 3 times, and the write verifier changed",)),
    "timed out": Expected("failed", errno.ETIMEDOUT, first="no answer within"),
    "unreachable": Expected("failed", errno.ECONNREFUSED, says=("cannot reach port",)),
    "gave up": Expected("failed", errno.EPROTO, says=("the server broke the protocol 3 times",)),
    "refuted": Expected("failed", errno.EPROTO, says=("contradicts the call or itself",)),
    "no data": Expected("failed", errno.EIO, says=("no data came, and not the end of file",)),
    "none taken": Expected("failed", errno.EIO, says=("the server took no data",)),
    "stale": Expected("failed", errno.ESTALE, says=("the server does not know the file any more",)),
    "no space": Expected("failed", errno.ENOSPC),
    "no room": Expected("failed", errno.ENOSPC, says=("the server has no room for more entries",)),
    "no session": Expected("failed", errno.ENOSPC, says=("NFS4ERR_NOSPC",)),
}


def _expected(words: str) -> Expected:
    """Read what is expected: one of _WORDS, to which "lost", "lost?" or "mended" may be added.

    "lost?": the server may be back in time for the COMMIT, or for what hold_writes writes again.
    """
    first, _, also = words.partition(", ")
    expected = _WORDS[first]
    if also == "mended":
        return replace(expected, says=(*expected.says, *_MENDED))
    return replace(expected, loses={"lost": True, "lost?": None}[also]) if also else expected


def _cells() -> Iterator[Cell]:
    for line in filter(None, _TABLE.read_text().splitlines()):
        if line.startswith("["):
            place = Place(line.strip("[]"))
        elif line[0] not in "# ":
            fault = _FAULTS[place, line]
        elif line[0] == " ":
            works, *modes = re.split(r" {2,}", line.strip())
            for number, work in enumerate(works.split(", ")):
                for mode, words in zip(Mode, modes, strict=True):
                    if words != "-":
                        brief = words.endswith("*") and number == 0
                        yield Cell(fault, Work(work), mode, _expected(words.strip("*")), brief)


CELLS = tuple(_cells())
