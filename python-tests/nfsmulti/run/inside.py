# SPDX-License-Identifier: GPL-2.0-only
"""The harness in a guest: runs the cells of one place of a run. `python -m` FOLDER PLACE.

It prints a JSON line for each event: {"begin": cell}, {"tick": seconds}, {"end": cell},
{"note": line}.
"""

from __future__ import annotations

import functools
import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.lab.kernel import ADDRESSES, EXPORT, Mount
from nfsmulti.lab.network import Limits, Network, batch
from nfsmulti.paths import write_files
from nfsmulti.pool import CellMounts
from nfsmulti.processes import end_politely, run
from nfsmulti.run.place import Serving, speaks_nfs4
from nfsmulti.run.plan import PlannedCell
from nfsmulti.run.record import Record
from nfsmulti.run.runner import run_in_place
from nfsmulti.run.watch import local
from nfsmulti.stories import SCENARIOS, CellSpec, GuestPlace
from nfsmulti.summary import Cell

# In memory: several jobs append to one file, and the shared folder keeps no order among them.
_SCRATCH = Path("/run/nfsmulti-cells")
_THREADS = Path("/proc/fs/nfsd/threads")
_SERVER, _BRIDGE = "10.77.0.1", "br0"
_NETWORK_SECONDS = 120.0


class InGuest(Serving):
    """The guest's own server, over its addresses and its mounts, which goes with its kernel."""

    scratch = _SCRATCH

    def __init__(self, place: GuestPlace):
        self._place = place
        self.ask = local
        self._mounted = CellMounts()

    def __enter__(self) -> Self:
        if self._place.threads:
            _THREADS.write_text(f"{self._place.threads}\n")
        if self._place.limits:
            _create_links(self._place)
        return self

    def __exit__(self, *_: object) -> None:
        self._mounted.end()

    def pool(self, spec: CellSpec) -> str:
        """Give the pool of the server's first addresses; to NFSv4 the export is the root."""
        export = "/" if speaks_nfs4(spec) else EXPORT
        query = f"?{spec.query}" if spec.query else ""
        return ",".join(f"nfs://{address}{export}{query}" for address in ADDRESSES[: spec.paths])

    def mounts(self, spec: CellSpec) -> list[str]:
        """Give the first mounts of the cell's group, or one that is made for the cell."""
        if spec.mount_options:
            export = EXPORT if "vers=3" in spec.mount_options else "/"
            return self._mounted.make([(f"{ADDRESSES[0]}:{export}", spec.mount_options)])
        return [mount.folder for mount in self._place.mounts[spec.mounts]][: spec.paths]

    def prepare(self, files: Mapping[str, int]) -> None:
        """Write the files behind the server's back, which no limit slows down."""
        write_files(Path(EXPORT), files)

    def servers(self) -> list[str]:
        """Name it."""
        threads = _THREADS.read_text().strip()
        return [f"the guest's own nfsd, {threads} threads, on {', '.join(ADDRESSES)}"]


class _Lines:
    """Tells the harness outside."""

    def begin(self, cell: PlannedCell) -> None:
        self._say("begin", cell.id)

    def tick(self, seconds: float) -> None:
        self._say("tick", seconds)

    def end(self, cell: Cell) -> None:
        self._say("end", cell.id)

    def note(self, line: str) -> None:
        self._say("note", line)

    @staticmethod
    def _say(event: str, what: str | float) -> None:
        print(json.dumps({event: what}), flush=True)


# --- limited links, a mount on each: kernel mounts whose connections have caps ---
# Two mounts of one server share a connection (v4.1 finds out by itself that two addresses are one
# server), so that each needs a client of its own: a network namespace with a link into a bridge, at
# which the server listens, and a host name of its own, by which v4.1 tells clients apart. The
# server limits what it sends: each client's rate, and the bridge's.


def _create_links(place: GuestPlace) -> None:
    """Make a client for each mount of a group, and all mounts. Raises CommandError."""
    count = max(len(group) for group in place.mounts.values())
    lines = [
        f"link add {_BRIDGE} type bridge",
        f"addr add {_SERVER}/24 dev {_BRIDGE}",
        f"link set {_BRIDGE} up",
    ]
    for number in range(1, count + 1):
        _command("ip", "netns", "add", _client(number))
        lines += [
            f"link add s{number} type veth peer name c{number} netns {_client(number)}",
            f"link set s{number} master {_BRIDGE} up",
        ]
    batch("ip", None, lines)
    for number in range(1, count + 1):
        inner = [
            "link set lo up",
            f"addr add {_address(number)}/24 dev c{number}",
            f"link set c{number} up",
        ]
        batch("ip", _client(number), inner)
    limits = Limits(link=place.link, per_address=place.per_mount)
    addresses = [(_address(number), f"fd77::{number:x}") for number in range(1, count + 1)]
    batch("tc", None, limits.commands(_BRIDGE, "dst", addresses))
    for group in place.mounts.values():
        for number, mount in enumerate(group, start=1):
            _mount(number, mount)


def _mount(number: int, mount: Mount) -> None:
    """Mount as a client; the mount itself is seen by all."""
    there = Mount(mount.folder, mount.options, _SERVER)
    _command("mkdir", "-p", mount.folder)
    script = f"hostname {_client(number)}; exec {shlex.join(there.command)}"
    _command(*Network.enter(_client(number)), "unshare", "--uts", "sh", "-ec", script)


def _client(number: int) -> str:
    return f"client{number}"


def _address(number: int) -> str:
    return f"10.77.0.{100 + number}"


def _command(*argv: str) -> None:
    run(argv, timeout=_NETWORK_SECONDS).check()


# --- the program ---


def main() -> None:
    """Run what waits. Exit status 1 where the place does not start."""
    end_politely()
    folder, name = sys.argv[1:]
    record = Record.resume(Path(folder))
    place = SCENARIOS[record.plan.scenario].places[name]
    assert isinstance(place, GuestPlace)
    try:
        make = functools.partial(InGuest, place)
        run_in_place(record, name, make, Engine.built(), _Lines())
    except HarnessError as error:
        sys.exit(f"nfsmulti: {error}")


if __name__ == "__main__":
    main()
