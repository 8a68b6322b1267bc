# SPDX-License-Identifier: GPL-2.0-only
"""The passes of a soak: fios at work in a lab while its paths fail and return."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from operator import itemgetter
from pathlib import Path

from nfsmulti.fiorun import Fio, FioProcess
from nfsmulti.lab import Lab
from nfsmulti.lab.faults import FaultKind, Faults
from nfsmulti.processes import run
from nfsmulti.soak import jobs
from nfsmulti.soak.jobs import GROUPS, JOBS, Direction
from nfsmulti.soak.meter import Meter
from nfsmulti.soak.schedule import Fault, schedule
from nfsmulti.soak.totals import Totals

_STEP_SECONDS = 0.1  # between two looks at the clock and at the fios
_OPEN_SECONDS = 60.0
_END_SECONDS = 60.0  # for what is left to be done once all paths are whole
_COMPARE_SECONDS = 120.0


class Passes:
    """Runs rounds of two passes, one that writes and one that reads, and counts into `totals`.

    `seconds` is how long paths fail in a pass. Files are opened while all paths are whole: names
    are not retried, whatever `hard` says of data.
    """

    def __init__(
        self,
        lab: Lab,
        fio: Fio,
        folder: Path,
        totals: Totals,
        meter: Meter,
        *,
        seed: int,
        seconds: int,
    ):
        self._lab, self._fio, self._folder = lab, fio, folder
        self._totals, self._meter = totals, meter
        self._seed, self._seconds = seed, seconds
        self._faults = Faults(lab)
        self.version = "3"  # of NFS
        self._files = [lab.export_dir / job.name for job in JOBS]

    def run(self, rounds: int) -> None:
        """Run them all; ends early where one has failed, which `totals` tells then."""
        self._meter.expect(2 * rounds * self._seconds)
        for job, file in zip(JOBS, self._files, strict=True):  # for the first round, as for others
            file.touch()
            run(["truncate", f"--size={job.size(self._seconds)}", str(file)], timeout=10).check()
        for number in range(rounds):
            self._pass(2 * number, "write", number)
            if not self._totals.troubles:
                self._pass(2 * number + 1, "read", number)
            if not self._totals.troubles:
                self._compare(number)
            if self._totals.troubles:
                return

    def _pass(self, number: int, direction: Direction, round_number: int) -> None:
        faults = schedule(self._seed, number, self._seconds, self._lab.config.addresses)
        folder = self._folder / f"{number:03}-{direction}"
        name = f"round {round_number + 1}, {direction}"
        with ExitStack() as stack:
            stack.callback(self._faults.end_all)
            touched = self._touched()
            fios = {
                group.name: stack.enter_context(
                    self._fio.start(
                        folder / group.name,
                        pool=self._pool(),
                        options=jobs.options(group, direction, round_number),
                        arguments=jobs.arguments(group, direction, self._seconds),
                    )
                )
                for group in GROUPS
            }
            _write_schedule(faults, folder / "faults.json")
            self._await_first_io(list(fios.values()), touched)
            self._break_paths(faults, list(fios.values()), name, number * self._seconds)
            self._faults.end_all()
            deadline = time.monotonic() + _END_SECONDS
            for group, process in fios.items():
                result = process.result(max(deadline - time.monotonic(), 0))
                self._totals.add(f"{name}, {group}", result)

    def _pool(self) -> str:
        version = None if self.version == "3" else self.version
        count = self._lab.config.addresses
        return ",".join(self._lab.path(number, version=version) for number in range(count))

    def _touched(self) -> list[int]:
        """Give when each file was last written or read, at the server."""
        status = [file.stat() for file in self._files]
        return [max(one.st_mtime_ns, one.st_atime_ns) for one in status]

    def _await_first_io(self, fios: Sequence[FioProcess], before: list[int]) -> None:
        """Wait until each job has moved data: it has opened its file on all paths then."""
        deadline = time.monotonic() + _OPEN_SECONDS
        while any(map(int.__eq__, before, self._touched())):
            if time.monotonic() > deadline or not all(process.running for process in fios):
                return  # the fio's status will tell
            time.sleep(_STEP_SECONDS)

    def _break_paths(
        self, faults: list[Fault], fios: Sequence[FioProcess], name: str, done: float
    ) -> None:
        """Let paths fail and return as the schedule says, while any fio runs."""
        begins = [(fault.begin, True, fault) for fault in faults]
        ends = [(fault.end, False, fault) for fault in faults]
        steps = sorted([*begins, *ends], key=itemgetter(0))
        start = time.monotonic()
        broken: dict[int, FaultKind] = {}
        for moment, begin, fault in steps:
            while (now := time.monotonic() - start) < moment:
                what = ", ".join(f"{path}: {kind}" for path, kind in sorted(broken.items()))
                self._meter.show(f"{name}: {what or 'all paths are whole'}", done + now)
                time.sleep(min(_STEP_SECONDS, moment - now))
            if not any(process.running for process in fios):
                return
            if not begin:
                self._faults.end(fault.path)
                broken.pop(fault.path, None)
            elif self._faults.begin(fault.kind, fault.path):
                self._totals.faults[fault.kind] += 1
                broken[fault.path] = fault.kind

    def _compare(self, round_number: int) -> None:
        """Read the files where the servers keep them, without NFS, and count what is right."""
        for job, file in zip(JOBS, self._files, strict=True):
            words = jobs.comparison(job, str(file), self._seconds, round_number)
            done = run(["fio", *words], timeout=_COMPARE_SECONDS)
            if done.status == 0:
                self._totals.compared += job.size(self._seconds)
            else:
                said = "\n  ".join((done.stderr + done.stdout).splitlines()[:8])
                self._totals.troubles.append(f"{file.name} is not what was written:\n  {said}")


def _write_schedule(faults: list[Fault], file: Path) -> None:
    file.write_text(json.dumps([asdict(fault) for fault in faults], indent="\t") + "\n")
