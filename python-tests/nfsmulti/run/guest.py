# SPDX-License-Identifier: GPL-2.0-only
"""Runs cells in a guest of the kernel lab, all in one boot, by the harness there (inside.py).

That writes into the folder of the run, which the guest shares, and tells on its output how it goes.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Sequence

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.lab.kernel import GuestConfig, run_in_guest
from nfsmulti.run.plan import PlannedCell, warm_ups, warmed
from nfsmulti.run.progress import Watcher, expected_seconds
from nfsmulti.run.record import Record, waiting_cell
from nfsmulti.stories import GuestPlace

# A boot may take so many times what is expected, and so much longer. A cell that hangs is ended by
# the harness inside; this ends a guest in which that hangs too.
_PATIENCE, _SPARE_SECONDS = 5.0, 600.0


def run_in_guests(record: Record, name: str, place: GuestPlace, watcher: Watcher) -> None:
    """Run the waiting cells of the place `name`: in one boot, or in more where a guest dies.

    The cell under way has then failed. Raises HarnessError where a guest runs no cell.
    """
    while waiting := record.waiting(name):
        teller = Teller(record, waiting, watcher)
        why = _boot(record, name, place, teller, waiting)
        record.reload()
        if cell := teller.under_way:
            cell = cell if cell.repeat else warmed(cell, waiting)
            watcher.end(record.fail(cell, why))
        elif len(record.waiting(name)) == len(waiting):
            raise HarnessError(f"{record.plan.scenario}, {name}: {why}")


def _boot(
    record: Record, name: str, place: GuestPlace, teller: Teller, waiting: Sequence[PlannedCell]
) -> str:
    """Run one guest; say why it ended, for the case that this was too early."""
    folder = record.folder.absolute()
    mounts = [mount for group in place.mounts.values() for mount in group]
    config = GuestConfig(
        # Where links are limited, the mounts need these links first: inside.py makes both.
        mounts=() if place.limits else tuple(mounts),
        results=folder,
        timeout=_PATIENCE * expected_seconds(waiting, {name}) + _SPARE_SECONDS,
    )
    command = [sys.executable, "-m", "nfsmulti.run.inside", str(folder), name]
    with tempfile.TemporaryFile() as said:
        try:
            status = run_in_guest(command, config, stdout=teller, stderr=said)
        except MissingError:
            raise
        except HarnessError as error:
            return error.what
        said.seek(0)
        last = said.read().decode(errors="replace").strip().splitlines()[-1:]
    return f"the harness in the guest ended with status {status}: {''.join(last)}"


class Teller(io.BytesIO):
    """Takes what the harness in the guest prints, a JSON line for each event, to a watcher."""

    def __init__(self, record: Record, cells: Sequence[PlannedCell], watcher: Watcher):
        super().__init__()
        self._record, self._watcher = record, watcher
        self._cells = {cell.id: cell for cell in [*warm_ups(cells), *cells]}
        self._rest = b""
        self.under_way: PlannedCell | None = None

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        """Take some output, which may end within a line."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._tell(json.loads(line))
        return len(data)

    def _tell(self, event: dict[str, str | float]) -> None:
        if "begin" in event:
            self.under_way = self._cells[str(event["begin"])]
            self._watcher.begin(self.under_way)
        elif "tick" in event:
            self._watcher.tick(float(event["tick"]))
        elif "note" in event:
            self._watcher.note(str(event["note"]))
        else:
            planned, self.under_way = self._cells[str(event["end"])], None
            self._record.reload()
            done = self._record.cell(planned.id) if planned.repeat else waiting_cell(planned)
            self._watcher.end(done)
