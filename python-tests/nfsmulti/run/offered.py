# SPDX-License-Identifier: GPL-2.0-only
"""The load that a cell offers, as part of what the same cell reached without a clock before it.

In each repeat a configuration first runs as fast as it can, and then, in a random order, at loads
that are parts of that. After the first load that is not sustained only one more is run, for the
picture; others above it would tell nothing. Before each load the server has caught up with what
was asked of it: a probe is as fast as the fastest so far.
"""

import configparser
import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import FioReport, FioResult
from nfsmulti.paths import JOBFILES
from nfsmulti.report import cells, measures
from nfsmulti.report.loads import FACTOR, PEAK
from nfsmulti.run.plan import PlannedCell, jobfile_jobs, name_of
from nfsmulti.run.record import one_line
from nfsmulti.scenario import FOR_HARNESS, CellSpec
from nfsmulti.summary import Arrivals, Cell, Factor

_HELD = 0.99  # of what was offered: of other hosts, whose stats_file is not here
# A probe: so many I/Os one after the other, within so long. Half as slow again as the fastest is
# what a server does that still writes back, or answers what was asked before.
_PROBE: Mapping[str, Factor | None] = {
    "iodepth": 1, "number_ios": 100, "runtime": "2s", "time_based": None,
}  # fmt: skip
_CAUGHT_UP, _PATIENCE_SECONDS = 1.5, 60.0
# What a user's job file may not say: the harness does, or the loop would be closed.
_NOT_IN_JOBS = FOR_HARNESS | {
    "ioengine", "pool", "directory", "name", "arrival_rate", "arrival_bw", "rate", "rate_iops",
    "rate_min", "rate_iops_min", "rate_process", "thinktime", "stonewall", "group_reporting",
}  # fmt: skip


def configuration(factors: Mapping[str, Factor]) -> str:
    """Name what a cell has in common with its peak and with its other loads."""
    return name_of({name: at for name, at in factors.items() if name != FACTOR})


def peaks_first(planned: Sequence[PlannedCell]) -> list[PlannedCell]:
    """Return cells with each repeat's of a configuration in a row, its peak first."""
    turns = list(dict.fromkeys(map(_turn, planned)))
    found = sorted(planned, key=lambda one: (turns.index(_turn(one)), one.spec.load > 0))
    return [dataclasses.replace(one, order=order) for order, one in enumerate(found, 1)]


def _turn(planned: PlannedCell) -> tuple[int, str]:
    return planned.repeat, configuration(planned.spec.factors)


def at_load(planned: PlannedCell, done: Sequence[Cell], seed: int) -> PlannedCell:
    """Return a cell with the rate of each job, and a seed of its repeat's own; a peak as it is.

    Raises HarnessError where its peak was not measured.
    """
    spec = planned.spec
    if not spec.load:
        return planned
    peak = next((one for one in _alike(planned, done) if one.factors[FACTOR] == PEAK), None)
    rate = measures.IOPS(peak) if peak and peak.status == "done" else None
    if not peak or not rate:
        why = f": {peak.why}" if peak and peak.why else ""
        raise HarnessError(f"the peak that its load is a part of could not be measured{why}")
    each = max(1, round(rate * spec.load / 100 / len(peak.jobs)))
    more: dict[str, Factor | None] = {
        "arrival_rate": each, "randseed": 1 + 1000 * (seed + planned.repeat) % (1 << 31),
        "lat_percentiles": 1, "clat_percentiles": 1, "slat_percentiles": 1,
    }  # fmt: skip
    return dataclasses.replace(
        planned, spec=dataclasses.replace(spec, options={**spec.options, **more})
    )


def pointless(planned: PlannedCell, done: Sequence[Cell]) -> str:
    """Say why a load is not worth running: one below was not sustained, and one above that ran.

    "": it is.
    """
    ran = {int(one.factors[FACTOR]): one for one in _alike(planned, done) if one.arrivals}
    lost = [load for load, one in ran.items() if one.arrivals and not one.arrivals.sustained]
    lowest = min(lost, default=math.inf)
    if planned.spec.load > lowest and any(load > lowest for load in ran):
        return f"{lowest:.0f} % was not sustained"
    return ""


def _alike(planned: PlannedCell, found: Sequence[Cell]) -> list[Cell]:
    """Return the cells of the same configuration and repeat that have ended."""
    own = configuration(planned.spec.factors)
    return [
        cell
        for cell in found
        if FACTOR in cell.factors
        and (cell.repeat, cell.status) in ((planned.repeat, "done"), (planned.repeat, "failed"))
        and configuration(cell.factors) == own
    ]


# --- until the server has caught up ---


class Probes:
    """Tells by short runs of a cell's own job, one I/O at a time, whether its server is at rest."""

    def __init__(self, run: Callable[[PlannedCell], Cell], say: Callable[[str], None]):
        self._run, self._say = run, say
        self._fastest: dict[str, float] = {}  # p50 in µs, by configuration

    def wait(self, planned: PlannedCell) -> None:
        """Return when the server has caught up, or say that it has not after a minute."""
        if not planned.spec.load:
            return
        own = configuration(planned.spec.factors)
        spec = dataclasses.replace(
            planned.spec, options={**planned.spec.options, **_PROBE}, seconds=1, load=0
        )
        probe = dataclasses.replace(planned, id=f"probe-{planned.id}", spec=spec, repeat=0)
        end = time.monotonic() + _PATIENCE_SECONDS
        while (found := cells.percentile_of([self._run(probe)], 50)) is not None:
            self._fastest[own] = min(found, self._fastest.get(own, math.inf))
            if found <= _CAUGHT_UP * self._fastest[own]:
                return
            if time.monotonic() > end:
                self._say(f"before {planned.id} the server had not caught up: {found:.0f} µs")
                return


# --- what became of the arrivals, out of what a fio left ---


def arrivals(spec: CellSpec, result: FioResult, report: FioReport) -> Arrivals | None:
    """Return that of a cell at a load; of other hosts, without a stats_file, by fio's rates."""
    each = int(spec.options.get("arrival_rate") or 0)
    lines = result.arrivals
    if not each and not lines:
        return None
    lags = report.latency_bins("read", "slat") + report.latency_bins("write", "slat")
    lag = {str(ns): count for ns, count in sorted(lags.items())}
    if not lines:
        offered = float(each * len(report.jobs))
        achieved = report.iops("read") + report.iops("write")
        chance = 2 * math.sqrt(offered / spec.seconds)  # of a Poisson process, in 19 runs of 20
        held = achieved >= _HELD * offered - chance
        return Arrivals(offered, achieved, held, lag=lag)
    due = sum(line.due for line in lines)
    return Arrivals(
        offered=math.fsum(line.offered for line in lines),
        achieved=math.fsum(line.achieved for line in lines),
        sustained=all(line.sustained for line in lines),
        due=due,
        dropped=sum(line.dropped for line in lines),
        full=math.fsum(line.depth_used_up * line.due for line in lines) / max(due, 1),
        lag=lag,
    )


# --- a user's own job ---


def job_of(workload: str) -> str:
    """Return the path of a job file, of a user's or below jobfiles/ of one here by its name.

    Raises HarnessError where there is none, or it cannot have a load.
    """
    named = sorted(file.stem for file in (JOBFILES / "latency").glob("*.fio"))
    if workload in named:
        return f"latency/{workload}.fio"
    file = Path(workload).resolve()
    if file.suffix != ".fio" or not file.is_file():
        raise HarnessError(f"--workload {workload}: give {', '.join(named)} or a FILE.fio")
    try:
        jobs = jobfile_jobs(str(file), [])
    except (OSError, ValueError, configparser.Error) as error:
        what = one_line(str(error))
        raise HarnessError(f"--workload {workload}: not a job file: {what}") from None
    for job, options in jobs.items() or [("", {})]:
        if odd := sorted(options.keys() & _NOT_IN_JOBS):
            raise HarnessError(
                f"--workload {workload}: [{job}] sets {odd[0]}, which a run does itself"
            )
        if not options.keys() & {"size", "filesize"}:
            raise HarnessError(
                f"--workload {workload}: [{job}] has no size=: how large is its file?"
            )
    return str(file)
