# SPDX-License-Identifier: GPL-2.0-only
"""What this machine's NFS client tells of its mounts' READ and WRITE calls: /proc/self/mountstats.

It has sums of ms since each mount was made (fs/nfs/super.c, net/sunrpc/stats.c): means can be had
of them, and no percentiles. psutil does not read it; nfs-utils' mountstats is a program alone.
"""

import contextlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from nfsmulti.summary import MountCalls

_FILE = Path("/proc/self/mountstats")
_POOL = re.compile(r"(?:--pool=|--directory=|IOTRAP_MOUNT_POOLS=\w+:)(.*)")
_MOUNT = re.compile(r".* mounted on (\S+) with fstype (nfs4? statvers=1\.1)?.*")
# Operations; transmissions, timeouts, bytes sent and received; ms of queue, RTT and execute; later
# kernels: errors. A line is of all connections of a mount (nconnect), and NFSv4.2 has READ_PLUS.
_CALLS = re.compile(r"\s*(READ|READ_PLUS|WRITE): (\d+) (?:\d+ ){4}(\d+ \d+ \d+)(?: \d+)?\s*")
Sums = dict[str, tuple[int, ...]]  # of calls, and ms of queue, RTT and execute: by read and write


def folders(argv: Sequence[str]) -> list[str]:
    """Return the directories that a fio's command uses as its pool; none beside URLs."""
    found = ",".join(pool[1] for word in argv if (pool := _POOL.fullmatch(word))).split(",")
    return found if all(path.startswith("/") for path in found) else []


def parse(text: str) -> dict[str, Sums]:
    """Return the sums of each mount; another file system, or version of statistics, has none."""
    found, sums = dict[str, Sums](), Sums()
    for line in text.splitlines():
        if mount := _MOUNT.fullmatch(line):
            point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), mount[1])
            sums = found[point] = {way: (0,) * 4 for way in ("read", "write") if mount[2]}
        elif sums and (calls := _CALLS.fullmatch(line)):
            way = calls[1].lower().removesuffix("_plus")
            sums[way] = _added(sums[way], [*map(int, [calls[2], *calls[3].split()])])
    return found


def _added(*every: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*every, strict=True)))


def sums(
    folders: Sequence[str],
    text: str = "",
    device: Callable[[str], int] = lambda point: Path(point).stat().st_dev,
) -> Sums:
    """Add up the mounts that hold directories, those of one st_dev once: they tell the same.

    {} where one is no NFS mount, or no kernel tells.
    """
    with contextlib.suppress(OSError):
        found = parse(text or _FILE.read_text())
        above = [filter(Path(one).resolve().is_relative_to, found) for one in folders]
        points = [max(inside, key=len, default="") for inside in above]
        if points and all(map(found.get, points)):
            each = {device(at): found[at] for at in points}.values()
            return {way: _added(*(one[way] for one in each)) for way in ("read", "write")}
    return {}


def means(before: Sums, after: Sums) -> dict[str, MountCalls]:
    """Return the means of the calls that came in between; of a direction without any, none."""
    found = {}
    for way, then in before.items():
        calls, *ms = (one - other for one, other in zip(after.get(way, then), then, strict=True))
        if calls > 0:
            lag, service, execute = (1000 * one / calls for one in ms)
            found[way] = MountCalls(calls, lag, service, max(execute - lag - service, 0.0))
    return found
