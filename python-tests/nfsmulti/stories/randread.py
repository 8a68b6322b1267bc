# SPDX-License-Identifier: GPL-2.0-only
"""randread: NFS over RDMA, beside TCP and kernel mounts.

Published: `fio --rw=randread --bs=64k --numjobs=4 --iodepth=8 --runtime=30 --size=10000000`
(libaio, direct) on a kernel mount, `vers=4.1,rdma`, rsize = wsize = 1048576; Ubuntu 18.04, kernel
5.4, ConnectX-3 Pro 40 GbE, 16 nfsd threads. All four jobs: 4178 MiB/s, 66.8k IOPS; 371 to 500 µs
mean completion latency; usr 3.7 to 4.7 %, sys 24 to 36 % of a core per job.

Four jobs read a small file, which the server has in memory: that measures the transport.

Level: transport (rdma-pool, rdma-pool-v4.1, tcp-pool, tcp-pool-v4.1, rdma-mount-v3,
rdma-mount-v4.1, tcp-mount, pool).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from nfsmulti import texts
from nfsmulti.lab.guest import Mount
from nfsmulti.report import cells, charts, conditions, measures
from nfsmulti.report.answer import Answer
from nfsmulti.report.story import Beside, Finding, Plot, Report, Section, Told, untestable
from nfsmulti.scenario import CellSpec, GuestPlace, timed
from nfsmulti.stats import Sample
from nfsmulti.story import At, Factor, Story
from nfsmulti.summary import Cell, JobRow, Summary
from nfsmulti.texts import Table

# --- what runs ---

_JOBS = 4
_POOLS = {
    "rdma-pool": "proto=rdma",
    "rdma-pool-v4.1": "proto=rdma&version=4.1",
    "tcp-pool": "proto=tcp",
    "tcp-pool-v4.1": "proto=tcp&version=4.1",
}
# What the publication mounted with; its intr means nothing any more (nfs(5)), its async is nothing
# that a reader meets.
_OPTIONS = ("hard", "noatime", "nodiratime", "nolock", "noresvport")
_SIZES = ("rsize=1048576", "wsize=1048576")


def _mount(folder: str, version: str, protocol: str) -> Mount:
    return Mount(folder, (f"vers={version}", f"proto={protocol}", *_OPTIONS, *_SIZES))


_MOUNTS = {
    "rdma-mount-v3": _mount("/mnt/rdma3", "3", "rdma"),
    "rdma-mount-v4.1": _mount("/mnt/rdma41", "4.1", "rdma"),
    # Version 4.1 would find that it knows the server, and use the connection over RDMA.
    "tcp-mount": _mount("/mnt/tcp3", "3", "tcp"),
}
_GUEST_DIFFERS = (
    "Published with an adapter of 40 Gbit/s between two machines: here one guest, where RDMA is"
    " rdma_rxe.",
    "Published with rsize = wsize = 1048576: asked for here too, but the guest's server grants"
    " 262144 (environment.json, mounts).",
    "Published with sunrpc.tcp_slot_table_entries = 128: here it is the kernel's own.",
    "Published with an export that is async: here it is sync, which does not affect reads.",
)
_PLACES = {
    "guest": GuestPlace(
        {name: (mount,) for name, mount in _MOUNTS.items()}, threads=16, differs=_GUEST_DIFFERS
    )
}


def _job(at: At) -> CellSpec:
    seconds, mounted = at.seconds(4, 30), at.transport in _MOUNTS
    return CellSpec(
        {}, "", "randread.fio",
        {"numjobs": _JOBS, **timed(seconds)},
        seconds,
        client="mount" if mounted else "pool",
        mounts=at.transport if mounted else "",
        query=_POOLS.get(at.transport, ""),
        paths=min(_JOBS, at.pool.paths) if at.own else 1,
        files={"nfsmulti-randread": 10_000_000},
    )  # fmt: skip


# --- what it tells ---

_Figure = Callable[[JobRow], float]
_Transports = Mapping[str, Sequence[Cell]]  # by name, those that were measured
_MIB = 2**20
_THEIRS = "rdma-mount-v4.1"  # what the publication measured
_TRANSPORTS = {
    _THEIRS: "kernel mount, RDMA, NFSv4.1",
    "rdma-mount-v3": "kernel mount, RDMA, NFSv3",
    "rdma-pool": "nfsmulti, RDMA, NFSv3",
    "rdma-pool-v4.1": "nfsmulti, RDMA, NFSv4.1",
    "tcp-mount": "kernel mount, TCP, NFSv3",
    "tcp-pool": "nfsmulti, TCP, NFSv3",
    "tcp-pool-v4.1": "nfsmulti, TCP, NFSv4.1",
    "pool": "nfsmulti",
}
_LIKE = {
    "rdma-pool": "rdma-mount-v3",
    "rdma-pool-v4.1": "rdma-mount-v4.1",
    "tcp-pool": "tcp-mount",
}
_SOFTWARE_RDMA = "RDMA is emulated in software (rdma_rxe): do not compare it with TCP."
_COSTS = {"fio's jobs": measures.JOBS_CPU, "machine": measures.MACHINE_CPU}
_JUDGED = untestable(
    "a bandwidth was published and no ratio: it takes 40 Gbit/s adapters and the same command"
)
_DIFFERS = (
    "The original had 40 GbE adapters; the software RDMA device here (rdma_rxe) costs processor"
    f" time. {conditions.KERNEL_LAB}"
)


def _measured(summary: Summary) -> dict[str, list[Cell]]:
    """Return the cells of each transport that was measured, the published one first."""
    found = {name: cells.having(summary, transport=name) for name in _TRANSPORTS}
    return {name: those for name, those in found.items() if those}


def _told(summary: Summary) -> tuple[str, list[Cell]]:
    """Return the transport beside the published one: that one, or the next that was run."""
    return next(iter(_measured(summary).items()), (_THEIRS, []))


def _rate(found: Sequence[Cell]) -> Sample | None:
    return cells.sample(found, measures.MB_PER_S)


def _of_jobs(found: Sequence[Cell], figure: _Figure) -> list[Sample]:
    """Return a figure of each job, over the repeats."""
    jobs = [job for cell in found for job in cell.jobs]
    numbers = sorted({job.number for job in jobs})
    return [Sample(tuple(figure(job) for job in jobs if job.number == at)) for at in numbers]


def _mib(job: JobRow) -> float:
    return job.read_bytes_per_s / _MIB


def _range(samples: Sequence[Sample], unit: str = "") -> str:
    """Write the smallest and the largest value: a mean of percentiles would be none."""
    values = [value for one in samples for value in one.values]
    if not values:
        return texts.MISSING
    low, high = texts.number(min(values)), texts.number(max(values))
    return f"{low if low == high else f'{low} to {high}'} {unit}".strip()


def beside(summary: Summary) -> list[Beside]:
    """Return the published rows beside those of the same transport, or of the next that was run."""
    transport, found = _told(summary)
    name = _TRANSPORTS[transport]
    what = f"bandwidth, all four jobs{conditions.on_each(summary)}: {name}"
    theirs = "4178 MiB/s (4381 MB/s), 66.8k IOPS"
    rows = [Beside(what, theirs, _total(found))]
    for what, theirs, unit, figure in (
        ("bandwidth", "995, 957, 1274, 952 MiB/s", "MiB/s", _mib),
        ("completion latency, mean", "478, 497, 371, 500 µs", "µs", attrgetter("mean_us")),
        ("usr", "3.7 to 4.7 %", "%", attrgetter("usr_percent")),
        ("sys", "24 to 36 %", "%", attrgetter("sys_percent")),
    ):
        each = ", ".join(map(texts.mean, _of_jobs(found, figure)))
        ours = f"{each} {unit}" if each else texts.MISSING
        rows.append(Beside(f"{what}, per job: {name}", theirs, ours))
    for percent, theirs in ((50, "318 to 375 µs"), (99, "1,400 to 3,700 µs")):
        ours = _range(_of_jobs(found, attrgetter(f"p{percent}_us")), "µs")
        rows.append(Beside(f"completion latency, p{percent}, per job: {name}", theirs, ours))
    return rows


def _total(found: Sequence[Cell]) -> str:
    rate = _rate(found)
    if rate is None:
        return texts.MISSING
    operations = texts.mean(cells.sample(found, measures.IOPS), "IOPS")
    return f"{texts.mean(rate, 'MB/s')}, {operations}"


def findings(summary: Summary) -> list[Finding]:
    """Return the one figure, which has no ratio."""
    _, found = _told(summary)
    what = "four jobs read a small file at random over RDMA"
    return [Finding(what, "4381 MB/s, 66.8k IOPS", _total(found), _JUDGED)]


def tell(summary: Summary) -> Told:
    """Tell what each transport does here."""
    transports = _measured(summary)
    return Told(
        answer=_answer(summary, transports),
        sections=[
            Section(
                "Plots",
                plots=[_rate_plot(transports), _latency_plot(transports), _cpu_plot(transports)],
            ),
        ],
        reading=[
            "usr and sys are per cent of one core, the mean of the jobs.",
            "The file has 10,000,000 bytes and is in the server's memory: this measures the"
            " transport and the processors, not a disk.",
            *conditions.differences(summary, _DIFFERS),
        ],
    )


def _answer(summary: Summary, transports: _Transports) -> Answer:
    """Tell what nfsmulti does in times the kernel mount, over the same transport and version."""
    means = {name: rate.mean for name, found in transports.items() if (rate := _rate(found))}
    if not means:
        return Answer("No transport that this report knows was measured.")
    best = max(means, key=lambda name: means[name])
    gains = {
        name: cells.ratio(transports.get(name, []), transports.get(mount, []), measures.MB_PER_S)
        for name, mount in _LIKE.items()
    }
    told = [
        f"{texts.times_in_words(gain)} over {transport}"
        for name, transport in (("rdma-pool", "RDMA"), ("tcp-pool", "TCP"))
        if (gain := gains[name])
    ]
    words = f"{', '.join(told)}: nfsmulti's MB/s against the kernel mount's, NFSv3"
    if not told:
        words = f"{texts.number(means[best])} MB/s at most: {_TRANSPORTS[best]}"
    rows = []
    for name, found in transports.items():
        p50, p99 = (cells.percentile_of(found, percent, "read") for percent in (50, 99))
        rows.append([
            _TRANSPORTS[name], texts.measured(_rate(found)),
            *(texts.number(at and at / 1000) for at in (p50, p99)),
            texts.mean(cells.sample(found, measures.MACHINE_CPU)),
            "1" if "mount" in name else texts.marked(gains.get(name)),
        ])  # fmt: skip
    headings = ["", "MB/s", "p50, ms", "p99, ms", "machine CPU, µs/op", "times the kernel mount"]
    kept = 6 if any(gains.values()) else 5
    table = Table(headings[:kept], [row[:kept] for row in rows])
    emulated = [_SOFTWARE_RDMA] if any("rdma" in name for name in transports) else []
    return Answer(f"{words}{conditions.on_each(summary)}.", table, emulated)


def _below_bars(transports: _Transports) -> list[str]:
    return [_TRANSPORTS[name].replace(",", "").replace(" ", "\n") for name in transports]


def _rate_plot(transports: _Transports) -> Plot:
    series = [cells.sample(found, measures.MB_PER_S) for found in transports.values()]
    figure = charts.bars(
        "Bandwidth of all jobs", "MB/s", _below_bars(transports), {"bandwidth": series}
    )
    caption = f"Bandwidth of all jobs together; {charts.REPEATS}."
    return Plot("bandwidth", caption, figure)


def _latency_plot(transports: _Transports) -> Plot:
    percents = (50, 95, 99, 99.9)
    named = [
        (_TRANSPORTS[name], [cells.percentile_of(found, p, "read") for p in percents])
        for name, found in transports.items()
    ]
    figure = charts.percentiles("Completion latency", percents, named)
    caption = "Percentiles of latency, of all jobs and repeats together (log scale)."
    return Plot("latency", caption, figure)


def _cpu_plot(transports: _Transports) -> Plot:
    series = {
        label: [cells.sample(found, cost) for found in transports.values()]
        for label, cost in _COSTS.items()
    }
    figure = charts.bars("CPU per operation", "µs", _below_bars(transports), series)
    return Plot("cpu", f"CPU time per operation; {charts.REPEATS}.", figure)


_REPORT = Report(
    "randread",
    __doc__,
    factors=("transport",),
    beside=beside,
    tell=tell,
    findings=findings,
    names=lambda _: _TRANSPORTS,
)

STORY = Story(
    report=_REPORT,
    places=_PLACES,
    factors={"transport": Factor(lambda at: ["pool"] if at.own else [*_POOLS, *_MOUNTS])},
    job=_job,
    left_out=lambda *_: [
        f"{', '.join([*_POOLS, *_MOUNTS])} are transports of the lab: your pool has its own"
    ],
)
