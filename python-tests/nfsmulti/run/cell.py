# SPDX-License-Identifier: GPL-2.0-only
"""Runs one cell: its fio, as one would type it, under a timeout; its figures, or why it failed.

The last part makes the entries of a metadata cell before it, and removes them after it.
"""

import contextlib
import dataclasses
import secrets
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from nfsmulti import export, fiorun
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Direction, Engine, FioProcess, FioReport, FioResult
from nfsmulti.hosts import Host
from nfsmulti.metadata import MOST, size_of
from nfsmulti.pool import not_in_clear, read_pool
from nfsmulti.run import clients, live, mountstats, offered, series, watch
from nfsmulti.run.clients import Restarting
from nfsmulti.run.live import Live, Sampler
from nfsmulti.run.place import RESTART_SECONDS, Target
from nfsmulti.run.plan import PlannedCell, jobfile_jobs
from nfsmulti.run.record import one_line, waiting_cell
from nfsmulti.run.watch import Watch
from nfsmulti.scenario import STAMPS, CellSpec
from nfsmulti.stats import jain, merged, settled
from nfsmulti.summary import Cell, Factor, Figures, JobRow, Parts

_POOL_NAME = "mounts"
_READS = ("read", "randread")
_POLL_SECONDS = 0.1
# A fio may take so many times what it is expected to, and so much longer: a server of the user may
# be a tenth as fast as the story's, and fio lays out files first, at so many bytes per second.
_PATIENCE, _SPARE_SECONDS, _LAID_OUT = 10.0, 120.0, 20e6
_SHORTEST = 0.7  # of a cell's seconds, which have a ramp in them

# Told each second how long a cell has been running for, and what it does where that is known.
Tick = Callable[[float, Live | None], None]


def run_cell(planned: PlannedCell, place: Target, engine: Engine, run: Path, tick: Tick) -> Cell:
    """Run a cell of the run in the folder `run`, anew if it had begun; it fails, but never raises.

    What its fio leaves lies in the folder of the cell.
    """
    cell = waiting_cell(planned)
    folder = (run / cell.folder).absolute()
    shutil.rmtree(folder, ignore_errors=True)
    work = place.scratch / planned.id if place.scratch else folder
    shutil.rmtree(work, ignore_errors=True)
    argv: list[str] = []
    try:
        asked = place.prepare(planned.spec)
        others = None if place.remote else watch.others_busy(place.cpus)
        with Entries(asked, place, engine, work) as spec:
            argv = command(spec, place, engine, work)
            sampler = Sampler(work)
            mounts = [] if place.remote else mountstats.folders(argv)
            before = mountstats.sums(mounts)
            client = Watch(watch.local, _POLL_SECONDS, place.cpus)
            restarting = Restarting(
                spec, place, work, lambda one, to: FioProcess(command(one, place, engine, to), to)
            )
            with restarting, Watch(place.ask) as server, client:
                result = _watched(argv, sampler, place, spec, tick, restarting)
                restart = None if trouble(result) else restarting.told(result.stats)
            if place.remote:
                place.remote.check_complete(result)
            calls = mountstats.means(before, mountstats.sums(mounts))
            cell = measured(cell, _forgiven(result, spec), client)
        cell = dataclasses.replace(cell, restart=restart, others_busy=others, mount_calls=calls)
        cell = _told(cell, asked, result, sampler, server, place.remote is None)
        cell = place.told(cell)
    except (HarnessError, OSError) as error:
        cell = dataclasses.replace(cell, status="failed", why=one_line(str(error)))
    cell = _brought(cell, work, folder)
    return dataclasses.replace(cell, command=shlex.join(argv))


def _brought(cell: Cell, work: Path, folder: Path) -> Cell:
    """Bring what fio left to the folder of its cell, which fails where that cannot be done."""
    try:
        if work != folder and work.exists():
            shutil.copytree(work, folder)
            shutil.rmtree(work)
    except OSError as error:  # copytree's own has a list of errors, and more than a line
        return dataclasses.replace(cell, status="failed", why=one_line(f"{folder}: {error}"))
    return cell


def _told(
    cell: Cell, spec: CellSpec, result: FioResult, sampler: Sampler, server: Watch, here: bool
) -> Cell:
    """Fill in how a cell that was measured went on, and what was seen of its server.

    That is out of fio's logs, which are those of this host alone. Raises HarnessError where these
    cannot be read.
    """
    report = result.report
    assert report is not None
    came = offered.arrivals(spec, result, report)
    try:
        logs = series.Series(spec, sampler.folder)
        found = logs.windows()
        end = logs.end(found, report)
        latency = logs.latency()
        window = watch.window(sampler.folder, report)
        cell = dataclasses.replace(
            cell,
            arrivals=came and dataclasses.replace(came, over_time=logs.response()),
            figure_s=series.figure_s(spec),
            over_time=logs.bandwidth(found, end) if found else [],
            read_over_time=latency.get("read", {}),
            write_over_time=latency.get("write", {}),
            marks=logs.marks(sampler.marks, window[0]) if window else {},
            settled=settled(found, end) if here else None,
        )
    except (LookupError, TypeError, ValueError) as error:
        raise HarnessError(f"fio's logs are not as they should be: {error!r}") from None
    if spec.restart:  # by which a server's counters begin anew
        return cell
    return dataclasses.replace(cell, server=server.figures(window), server_why=server.why)


def measured(cell: Cell, result: FioResult, client: Watch) -> Cell:
    """Fill in what a fio has found. Raises HarnessError where that is no measurement.

    `client` has watched this machine meanwhile, which tells nothing of a fio on others.
    """
    report = result.report
    if why := trouble(result):
        raise HarnessError(why)
    assert report is not None
    named = cell.factors.get("direction")
    other: Direction = "read" if named == "write" else "write"
    if named in ("read", "write") and report.operations(other):
        raise HarnessError(f"fio did {other} in a cell whose direction is {named}")
    try:
        parts = dict(sorted(fiorun.shares(result.stats).items()))
        ops = sum(line.read_ops + line.write_ops + line.meta_ops for line in result.stats)
        # Sampled: of a short job it may come to more than all.
        crypto_s = sum(line.crypto_ms for line in result.stats) / 1000
        return dataclasses.replace(
            cell,
            status="done",
            seconds=result.seconds,
            read=figures(report, "read"),
            write=figures(report, "write"),
            cpu_s=report.cpu_seconds(),
            machine_cpu_s=client.busy_seconds(result.folder, report),
            processors=watch.processors(client.cpus),
            usr_percent=sum(job["usr_cpu"] for job in report.jobs),
            sys_percent=sum(job["sys_cpu"] for job in report.jobs),
            jobs=job_rows(report),
            paths=parts,
            jain=jain(parts.values()) if any(parts.values()) else None,
            calls_per_op=sum(line.syscalls for line in result.stats) / ops if ops else None,
            crypto_s=min(crypto_s, report.cpu_seconds()) or None,
            tls=_tls(result.stats),
            parts=_parts(result.responses),
            clients=clients.figures(result.stats),
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise HarnessError(f"fio's report is malformed: {error!r}") from None


def trouble(result: FioResult) -> str | None:
    """Say in one line why a fio's run is no measurement, None where it is one."""
    if result.status:
        how = f"signal {-result.status}" if result.status < 0 else f"status {result.status}"
        return f"fio: {how}: {result.reason}"
    if result.report is None:
        return "fio wrote no readable JSON"
    try:
        if not any(result.report.operations(way) for way in ("read", "write")):
            return f"fio did no I/O: {result.reason}"
    except (LookupError, TypeError, AttributeError):
        return "fio wrote JSON that is not a report"
    return None


def _watched(
    argv: list[str],
    sampler: Sampler,
    place: Target,
    spec: CellSpec,
    tick: Tick,
    restarting: Restarting,
) -> FioResult:
    """Run fio until it ends, is late, or its servers have died; HarnessError for the latter two."""
    limit = _PATIENCE * spec.seconds + _SPARE_SECONDS + sum(spec.files.values()) / _LAID_OUT
    limit += RESTART_SECONDS if spec.restart else 0
    told, begin = 0.0, time.monotonic()
    with FioProcess(argv, sampler.folder) as process:
        while process.wait(_POLL_SECONDS) is None:
            passed = time.monotonic() - begin
            if passed - told >= live.SECONDS:
                tick(passed, sampler.take())
                told = passed
            restarting.poll()
            if not restarting.down and (why := place.trouble()):
                raise HarnessError(why)
            # It counts from their first I/O. A job that is killed before is one that fio still
            # holds at its start; fio waits for it for ever at its end, in pthread_cond_destroy().
            if spec.patience and watch.seconds_of_io(sampler.folder) > spec.seconds + spec.patience:
                _kill_jobs(process)
            if passed > limit:
                raise HarnessError(f"fio did not end within {limit:.0f} s")
        sampler.take()
        sampler.clear()
        return process.result(0)


def _kill_jobs(fio: FioProcess) -> None:
    """Kill the running jobs of a fio, which itself then ends, and reports what they had done."""
    with contextlib.suppress(psutil.NoSuchProcess):  # where it has ended
        for job in psutil.Process(fio.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):
                job.kill()


def _forgiven(result: FioResult, spec: CellSpec) -> FioResult:
    """Let a fio's report count, whatever its end, where the cell has patience and it ran its time.

    Raises HarnessError where it did not.
    """
    if not spec.patience or not result.report:
        return result
    seconds = max(result.report.seconds(way) for way in ("read", "write"))
    if seconds < _SHORTEST * spec.seconds:
        raise HarnessError(f"fio ran for {seconds:g} s only: {result.reason}")
    return dataclasses.replace(result, status=0)


def _tls(stats: Sequence[fiorun.ConnectionStats]) -> str:
    """Name each cipher, and who encrypts by it."""
    who = ("by GnuTLS", "by the kernel (kTLS)")
    return "; ".join(sorted({f"{one.cipher}, {who[one.ktls]}" for one in stats if one.cipher}))


def _parts(lines: Sequence[fiorun.ResponseStats]) -> Parts | None:
    """Put together what stamps told of all jobs' replies; None where they told nothing."""
    if not (replies := sum(line.replies for line in lines)):
        return None
    lag, service, wake_up = (
        {str(ns): many for ns, many in sorted(merged(getattr(one, name) for one in lines).items())}
        for name in ("lag_bins", "service_bins", "wake_up_bins")
    )
    return Parts(lag, service, wake_up, sum(line.shared_stamps for line in lines) / replies)


# --- its fio: all options of its jobfile, with those of the cell ---


def command(spec: CellSpec, place: Target, engine: Engine, folder: Path) -> list[str]:
    """Return the words that run a cell's fio, whose files go to `folder`.

    Its jobs are given by their options one by one, since what stands in a jobfile wins over the
    command line. On other hosts there is neither a stats_file nor a log, and no CPU time is taken.
    """
    options = dict(spec.options)
    jobs = {
        name: {key: value for key, value in own.items() if key not in spec.options}
        | spec.own.get(name, {})
        for name, own in jobfile_jobs(spec.jobfile, spec.jobs).items()
    }
    only_read = all(options.get("rw", own.get("rw")) in _READS for own in jobs.values())
    if spec.files and not place.remote and only_read:
        # Of a file that a cell of writes left shorter, at the end of its time, the rest is laid
        # out. Other hosts wait for each other at that, and name apart what they write.
        options.setdefault("overwrite", 1)
    if place.directory:
        for each in (options, *jobs.values()):
            _put_below(place.directory, each)
    variables = {**place.variables, **engine.env}
    if spec.client == "mount":
        (mount,) = place.mounts(spec)
        # The directory before filename, or it does not count.
        chosen: dict[str, Any] = {"ioengine": options.pop("ioengine", "libaio"), "directory": mount}
    elif spec.client == "mounts" and not place.remote:
        mounts = place.mounts(spec)
        chosen = {"ioengine": engine.option}
        variables["IOTRAP_MOUNT_POOLS"] = f"{_POOL_NAME}:" + ",".join(f"{m}/" for m in mounts)
        for own in jobs.values():
            _put_below(mounts[0], own)
    elif spec.client == "other":
        chosen = {}
    else:
        # On other hosts mounts are a pool's directories: there is no environment to name them in.
        chosen = {"ioengine": engine.option, "pool": pool_of(spec, place)}
    if STAMPS in options and (place.remote or not _stamps(chosen, options, *jobs.values())):
        del options[STAMPS]
    if place.remote:
        options = {**chosen, **options}
        return place.remote.command(
            folder, {name: {**options, **own} for name, own in jobs.items()}
        )
    if spec.client in ("pool", "mounts"):
        chosen |= {"stats_file": folder / "stats.jsonl", live.OPTION: folder / live.OPTION}
    chosen |= watch.fio_options(folder, int(options.get("numjobs") or 1), spec.prerun)
    options = {**chosen, **series.options(spec, folder), **options}
    setting = ["env", *(f"{key}={value}" for key, value in variables.items())] if variables else []
    words = [f"--output={folder / 'fio.json'}", "--output-format=json+"]
    words += _words(options)
    for name, own in jobs.items():
        words += [f"--name={name}", *_words(own)]
    return [*place.enter, *setting, spec.fio, *words]


def _stamps(chosen: Mapping[str, Any], *options: Mapping[str, Factor | None]) -> bool:
    """Tell whether the kernel stamps all replies: over TCP in clear alone, to our own client."""
    asked = [str(each.get(name) or "none") for each in options for name in ("proto", "xprtsec")]
    return "pool" in chosen and not not_in_clear(read_pool(chosen["pool"]), *asked)


def pool_of(spec: CellSpec, place: Target) -> str:
    """Return the pool of a cell of ours: URLs, or the mounts that are asked for."""
    return ",".join(place.mounts(spec)) if spec.client == "mounts" else place.pool(spec)


def _put_below(directory: str, options: dict[str, Factor | None]) -> None:
    """Put the files that options name into a directory."""
    for key in ("filename", "filename_format"):
        if name := options.get(key):
            options[key] = f"{directory}/{name}"


def _words(options: fiorun.Options) -> list[str]:
    return [f"--{key}={value}" for key, value in fiorun.words_of(options).items()]


# --- its figures, out of what its fio left ---

_US = 1000.0  # fio's latencies are ns


def figures(report: FioReport, direction: Direction) -> Figures | None:
    """Return what one direction did, None where it did nothing."""
    if not report.operations(direction):
        return None
    p50, p95, p99, p999 = (
        report.latency_percentile(direction, percent) / _US for percent in (50, 95, 99, 99.9)
    )
    return Figures(
        ops=report.operations(direction),
        bytes=report.bytes(direction),
        seconds=report.seconds(direction),
        iops=report.iops(direction),
        bytes_per_s=report.bandwidth(direction),
        mean_us=report.latency_mean(direction) / _US,
        p50_us=p50,
        p95_us=p95,
        p99_us=p99,
        p999_us=p999,
        bins={str(ns): n for ns, n in sorted(report.latency_bins(direction).items())},
        response={str(ns): n for ns, n in sorted(report.latency_bins(direction, "lat").items())},
    )


def job_rows(report: FioReport) -> list[JobRow]:
    """Return a row for each job; its latency is that of the direction with more I/Os."""
    rows = []
    for number, job in enumerate(report.jobs):
        alone = FioReport({"jobs": [job]})
        write = alone.operations("write") > alone.operations("read")
        main: Direction = "write" if write else "read"
        host = job.get("hostname", "")  # as --hosts names it; "" for this machine
        row = JobRow(
            name=job["jobname"],
            number=number,
            read_bytes_per_s=alone.bandwidth("read"),
            read_iops=alone.iops("read"),
            write_bytes_per_s=alone.bandwidth("write"),
            write_iops=alone.iops("write"),
            mean_us=alone.latency_mean(main) / _US,
            p50_us=alone.latency_percentile(main, 50) / _US,
            p99_us=alone.latency_percentile(main, 99) / _US,
            usr_percent=job["usr_cpu"],
            sys_percent=job["sys_cpu"],
            host=Host(host, job["port"]).text if host else "",
        )
        rows.append(row)
    return rows


# --- the entries of a metadata cell: what it needs is made before it, what is left is removed ---
# By the engine they lie in a directory of their own. A cell that removes entries finds as many as
# were made in its own time: a faster server has more to remove. fio's own engines have their files
# in the place's directory.

# Of this run: one that was killed has left entries where nobody else looks.
TOP = f"nfsmulti-metadata-{secrets.token_hex(4)}"
_ENTRIES_SECONDS, _ENTRIES_PATIENCE = 120.0, 20.0
_SECONDS_FAILED = 10.0  # after a failure, for the server may be gone


class Entries:
    """Those of one cell, from `with`, which gives the cell with their names, until its end.

    A cell without any is given as it is. Raises HarnessError where they could not be made or
    removed.
    """

    def __init__(self, spec: CellSpec, place: Target, engine: Engine, folder: Path):
        self._spec, self._place, self._engine, self._folder = spec, place, engine, folder
        self._seconds = _ENTRIES_PATIENCE * spec.seconds + _ENTRIES_SECONDS

    def __enter__(self) -> CellSpec:
        spec = self._spec
        if not spec.entries:
            return spec
        if spec.client == "mount":
            return self._with(spec, filename_format=f"{TOP}.$jobnum.$filenum")
        spec = self._with(spec, filename=f"{TOP}/e0")
        if spec.entries != "removes":
            return spec
        try:
            return self._with(spec, **size_of(self._make(spec)))
        except BaseException as error:
            self.__exit__(type(error))
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._spec.entries:
            return
        # What ended the cell says more than what its entries then end in.
        with contextlib.suppress(*([HarnessError, OSError] if kind else [])):
            self._clear(_SECONDS_FAILED if kind else self._seconds)

    def _make(self, spec: CellSpec) -> int:
        """Make entries for as long as the cell is to run, and return how many there are."""
        time = f"{round(spec.seconds * 1000)}ms"
        spec = self._with(spec, meta_write="create", runtime=time, **size_of(MOST))
        folder = self._folder / "make"
        with FioProcess(command(spec, self._place, self._engine, folder), folder) as process:
            result = process.result(self._seconds)
        if why := trouble(result):
            raise HarnessError(f"to make its entries: {why}")
        assert result.report
        return result.report.operations("write")

    def _clear(self, seconds: float) -> None:
        """Remove what is left, and the directory."""
        if self._spec.client != "mount":
            directory = "/".join(filter(None, (self._place.directory, TOP)))
            pool = pool_of(self._spec, self._place)
            export.remove_unmarked(pool, directory, enter=self._place.enter, seconds=seconds)
        elif (self._folder / "command").exists():  # else no fio has begun
            words = shlex.split((self._folder / "command").read_text(errors="surrogateescape"))
            options = dict(word.removeprefix("--").split("=", 1) for word in words if "=" in word)
            names = Path(options["directory"], options["filename_format"])
            for file in names.parent.glob(f"{TOP}.*"):
                file.unlink(missing_ok=True)

    @staticmethod
    def _with(spec: CellSpec, **options: Factor | None) -> CellSpec:
        return dataclasses.replace(spec, options={**spec.options, **options})
