# SPDX-License-Identifier: GPL-2.0-only
"""Runs one cell: its fio, as one would type it, under a timeout; what it found or why it failed."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable, Collection
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import (
    SUMMARY,
    Direction,
    Engine,
    FioProcess,
    FioReport,
    FioResult,
    Options,
    words_of,
)
from nfsmulti.run import figures, watch
from nfsmulti.run.entries import Entries
from nfsmulti.run.figures import BANDWIDTH_LOG, LATENCY_LOG
from nfsmulti.run.place import Serving
from nfsmulti.run.plan import PlannedCell, jobfile_jobs
from nfsmulti.run.record import one_line, waiting_cell
from nfsmulti.run.watch import Samples, Watch
from nfsmulti.stats import settled
from nfsmulti.stories import CellSpec
from nfsmulti.summary import Cell

_POOL_NAME = "mounts"
_WINDOW_SECONDS = 0.25
_POLL_SECONDS, _TICK_SECONDS = 0.1, 0.5
# A fio may take so many times what it is expected to, and so much longer: a server of the user may
# be a tenth as fast as the story's, and fio lays out files first.
_PATIENCE, _SPARE_SECONDS = 10.0, 120.0

# What fio says of exec_prerun (see watch.py).
_SAVING = re.compile(r" : Saving output of prerun in ")

# Told of the seconds since a cell began.
Tick = Callable[[float], None]


def run_cell(
    planned: PlannedCell,
    place: Serving,
    engine: Engine,
    run: Path,
    tick: Tick,
    cpus: Collection[int] | None = None,
) -> Cell:
    """Run a cell of the run in the folder `run`, anew if it had begun; it fails, but never raises.

    What its fio leaves lies in the folder of the cell. Its `machine_cpu_s` is that of all
    processors, or of those in `cpus` alone.
    """
    cell = waiting_cell(planned)
    folder = (run / cell.folder).absolute()
    shutil.rmtree(folder, ignore_errors=True)
    work = place.scratch / planned.id if place.scratch else folder
    argv: list[str] = []
    try:
        place.prepare(planned.spec.files)
        busy = Samples(cpus=cpus)
        entries = Entries(planned.spec, lambda spec, at: command(spec, place, engine, at), work)
        with entries as spec:
            argv = command(spec, place, engine, work)
            with Watch(place.ask) as server:
                result = _watched(argv, work, place, spec.seconds, tick, busy)
            if place.remote:
                place.remote.check_complete(result)
            cell = measured(cell, result, busy)
        assert result.report is not None
        cell = _in_time(cell, planned.spec, work, result.report, place.remote is None)
        told = server.figures(watch.window(work, result.report))
        cell = dataclasses.replace(cell, server=told, server_why=server.why)
    except (HarnessError, OSError) as error:
        cell = dataclasses.replace(cell, status="failed", why=one_line(str(error)))
    try:
        if work != folder and work.exists():
            shutil.copytree(work, folder)
            shutil.rmtree(work)
    except OSError as error:  # copytree's own has a list of errors, and more than a line
        cell = dataclasses.replace(cell, status="failed", why=one_line(f"{folder}: {error}"))
    return dataclasses.replace(cell, command=shlex.join(argv))


def measured(cell: Cell, result: FioResult, busy: Samples) -> Cell:
    """Fill in what a fio has found. Raises HarnessError where that is no measurement.

    `busy` are samples of this machine meanwhile, which tell nothing of a fio on others.
    """
    report = result.report
    if why := trouble(result):
        raise HarnessError(why)
    assert report is not None
    _check_direction(cell, report)
    try:
        parts, jain = figures.path_shares(result.stats)
        return dataclasses.replace(
            cell,
            status="done",
            seconds=result.seconds,
            read=figures.figures(report, "read"),
            write=figures.figures(report, "write"),
            cpu_s=report.cpu_seconds(),
            machine_cpu_s=busy.busy_seconds(result.folder, report),
            processors=len(busy.cpus or ()) or os.cpu_count() or 0,
            usr_percent=sum(job["usr_cpu"] for job in report.jobs),
            sys_percent=sum(job["sys_cpu"] for job in report.jobs),
            jobs=figures.job_rows(report),
            paths=parts,
            jain=jain,
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise HarnessError(f"fio's report is malformed: {error!r}") from None


def _in_time(cell: Cell, spec: CellSpec, folder: Path, report: FioReport, here: bool) -> Cell:
    """Fill in how a cell went on, out of fio's logs, which are those of this host alone.

    Raises HarnessError where these cannot be read.
    """
    try:
        windows = figures.windows(folder, window_ms(spec))
        end = figures.run_end(windows, report, window_ms(spec))
        return dataclasses.replace(
            cell,
            over_time=figures.over_time(windows, end) if spec.over_time and windows else [],
            read_over_time=figures.read_over_time(folder),
            settled=settled(windows, end) if here else None,
        )
    except (LookupError, TypeError, ValueError) as error:
        raise HarnessError(f"fio's logs are not as they should be: {error!r}") from None


def trouble(result: FioResult) -> str | None:
    """Say in one line why a fio's run is no measurement, None where it is one."""
    if result.status:
        how = f"signal {-result.status}" if result.status < 0 else f"status {result.status}"
        return f"fio: {how}: {_reason(result)}"
    if result.report is None:
        return "fio wrote no readable JSON"
    try:
        if not any(result.report.operations(way) for way in ("read", "write")):
            return f"fio did no I/O: {_reason(result)}"
    except (LookupError, TypeError, AttributeError):
        return "fio wrote JSON that is not a report"
    return None


def _check_direction(cell: Cell, report: FioReport) -> None:
    """Raise HarnessError where fio read in a cell named for writing, or wrote for reading."""
    named = cell.factors.get("direction")
    other: Direction = "read" if named == "write" else "write"
    if named in ("read", "write") and report.operations(other):
        raise HarnessError(f"fio did {other} in a cell whose direction is {named}")


def _watched(
    argv: list[str], folder: Path, place: Serving, seconds: float, tick: Tick, busy: Samples
) -> FioResult:
    """Run fio until it ends, is late, or its servers have died; HarnessError for the latter two."""
    told = 0.0
    busy.take()
    limit = _PATIENCE * seconds + _SPARE_SECONDS
    begin = time.monotonic()
    with FioProcess(argv, folder) as process:
        while process.wait(_POLL_SECONDS) is None:
            busy.take()
            passed = time.monotonic() - begin
            if passed - told >= _TICK_SECONDS:
                tick(passed)
                told = passed
            if why := place.trouble():
                raise HarnessError(why)
            if passed > limit:
                raise HarnessError(f"fio did not end within {limit:.0f} s")
        busy.take()
        return process.result(0)


def _reason(result: FioResult) -> str:
    """Find the line that says what happened: the engine's first word, or else fio's."""
    lines = [line.strip() for line in result.messages.splitlines() if line.strip()]
    for begin in ("nfsmulti: ", "fio: ", ""):
        for line in lines:
            if line.startswith(begin) and not SUMMARY.search(line) and not _SAVING.search(line):
                return line
    return "it said nothing"


# --- its fio: all options of its jobfile, with those of the cell ---


def command(spec: CellSpec, place: Serving, engine: Engine, folder: Path) -> list[str]:
    """Give the words that run a cell's fio, whose files go to `folder`.

    Its jobs are given by their options one by one, since what stands in a jobfile wins over the
    command line. On other hosts there is neither a stats_file nor a log, and no CPU time is taken.
    """
    options = dict(spec.options)
    jobs = {
        name: {key: value for key, value in own.items() if key not in spec.options}
        for name, own in jobfile_jobs(spec.jobfile, spec.jobs).items()
    }
    variables = dict(engine.env)
    if spec.client == "mount":
        (mount,) = place.mounts(spec)
        # The directory before filename, or it does not count.
        chosen: Options = {"ioengine": options.pop("ioengine", "libaio"), "directory": mount}
    elif spec.client == "mounts" and not place.remote:
        mounts = place.mounts(spec)
        chosen = {"ioengine": engine.option}
        variables["IOTRAP_MOUNT_POOLS"] = f"{_POOL_NAME}:" + ",".join(f"{m}/" for m in mounts)
        for own in jobs.values():
            own["filename"] = f"{mounts[0]}/{own['filename']}"
    else:
        # On other hosts mounts are a pool's directories: there is no environment to name them in.
        pool = ",".join(place.mounts(spec)) if spec.client == "mounts" else place.pool(spec)
        chosen = {"ioengine": engine.option, "pool": pool}
    options = {**chosen, **options}
    if place.remote:
        return place.remote.command(
            folder, {name: {**options, **own} for name, own in jobs.items()}
        )
    if spec.client != "mount":
        options["stats_file"] = str(folder / "stats.jsonl")
    options |= watch.fio_options(folder, int(options.get("numjobs") or 1), spec.prerun)
    options |= {"write_bw_log": str(folder / BANDWIDTH_LOG), "log_avg_msec": window_ms(spec)}
    if spec.latency_over_time:
        options |= {"write_hist_log": str(folder / LATENCY_LOG), "log_hist_msec": 1000}
    setting = ["env", *(f"{key}={value}" for key, value in variables.items())] if variables else []
    words = [f"--output={folder / 'fio.json'}", "--output-format=json+"]
    words += _words(options)
    for name, own in jobs.items():
        words += [f"--name={name}", *_words(own)]
    return [*place.enter, *setting, "fio", *words]


def window_ms(spec: CellSpec) -> int:
    """Give the windows of a cell's bandwidth log, of which it then has eight or more.

    fio writes them off the path of I/Os, from counters.
    """
    return max(1, round(min(_WINDOW_SECONDS, spec.seconds / 8) * 1000))


def _words(options: Options) -> list[str]:
    return [f"--{key}={value}" for key, value in words_of(options).items()]
