# SPDX-License-Identifier: GPL-2.0-only
"""The harness in a guest: runs the cells of one place of a run. `python -m` FOLDER PLACE.

It prints a JSON line for each event: {"begin": cell}, {"tick": seconds}, {"end": cell},
{"note": line}.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.hosts import RemoteFio
from nfsmulti.lab.kernel import ADDRESSES, EXPORT
from nfsmulti.processes import end_politely
from nfsmulti.run import guest_network
from nfsmulti.run.cellmount import CellMounts
from nfsmulti.run.place import speaks_nfs4, write_files
from nfsmulti.run.plan import PlannedCell
from nfsmulti.run.record import Record
from nfsmulti.run.runner import run_in_place
from nfsmulti.run.server import Ask, local
from nfsmulti.stories import SCENARIOS, CellSpec, GuestPlace
from nfsmulti.summary import Cell

# In memory: several jobs append to one file, and the shared folder keeps no order among them.
_SCRATCH = Path("/run/nfsmulti-cells")
_THREADS = Path("/proc/fs/nfsd/threads")


class InGuest:
    """The guest's own server, over its addresses and its mounts."""

    enter: Sequence[str] = ()
    scratch: Path | None = _SCRATCH
    remote: RemoteFio | None = None

    def __init__(self, place: GuestPlace):
        self._place = place
        self.ask: Ask | None = local
        self._mounted = CellMounts()

    def __enter__(self) -> Self:
        if self._place.threads:
            _THREADS.write_text(f"{self._place.threads}\n")
        if self._place.limits:
            guest_network.create(self._place)
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

    def trouble(self) -> str | None:
        """Tell nothing: a server in the kernel goes with the kernel."""
        return None

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
