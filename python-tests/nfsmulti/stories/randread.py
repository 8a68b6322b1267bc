# SPDX-License-Identifier: GPL-2.0-only
"""randread: NFS over RDMA, beside TCP and kernel mounts.

Published: `fio --rw=randread --bs=64k --numjobs=4 --iodepth=8 --runtime=30 --size=10000000`
(libaio, direct) on a kernel mount, `vers=4.1,rdma`, rsize = wsize = 1048576; Ubuntu 18.04, kernel
5.4, ConnectX-3 Pro 40 GbE, 16 nfsd threads. All four jobs: 4,178 MiB/s, 66.8k IOPS; 371 to 500 µs
mean completion latency; usr 3.7 to 4.7 %, sys 24 to 36 % of a core per job.

Four jobs read a small file, which the server has in memory: that measures the transport.
"""

from nfsmulti import texts
from nfsmulti.lab.guest import Mount
from nfsmulti.report.told import Run
from nfsmulti.scenario import CellSpec, GuestPlace
from nfsmulti.story import At, Bars, Beside, Column, Factor, Grid, Percentiles, Story

JOBS = 4
POOLS = {
    "rdma-pool": "proto=rdma",
    "rdma-pool-v4.1": "proto=rdma&version=4.1",
    "tcp-pool": "proto=tcp",
    "tcp-pool-v4.1": "proto=tcp&version=4.1",
}
# What the publication mounted with; its intr means nothing any more (nfs(5)), its async is nothing
# that a reader meets.
OPTIONS = ("hard", "noatime", "nodiratime", "nolock", "noresvport")
SIZES = ("rsize=1048576", "wsize=1048576")
MOUNTS = {
    name: Mount(folder, (f"vers={version}", f"proto={protocol}", *OPTIONS, *SIZES))
    for name, folder, version, protocol in (
        ("rdma-mount-v3", "/mnt/rdma3", "3", "rdma"),
        ("rdma-mount-v4.1", "/mnt/rdma41", "4.1", "rdma"),
        # Version 4.1 would find that it knows the server, and use the connection over RDMA.
        ("tcp-mount", "/mnt/tcp3", "3", "tcp"),
    )
}
GUEST_DIFFERS = (
    "Published with an adapter of 40 Gbit/s between two machines: here one guest, where RDMA is"
    " rdma_rxe.",
    "Published with rsize = wsize = 1048576: asked for here too, but the guest's server grants"
    " 262144 (environment.json, mounts).",
    "Published with sunrpc.tcp_slot_table_entries = 128: here it is the kernel's own.",
    "Published with an export that is async: here it is sync, which does not affect reads.",
)
# The published transport is the first.
TRANSPORTS = {
    "rdma-mount-v4.1": "kernel mount, RDMA, NFSv4.1",
    "rdma-mount-v3": "kernel mount, RDMA, NFSv3",
    "rdma-pool": "nfsmulti, RDMA, NFSv3",
    "rdma-pool-v4.1": "nfsmulti, RDMA, NFSv4.1",
    "tcp-mount": "kernel mount, TCP, NFSv3",
    "tcp-pool": "nfsmulti, TCP, NFSv3",
    "tcp-pool-v4.1": "nfsmulti, TCP, NFSv4.1",
    "pool": "nfsmulti",
}
# The kernel mount that each is held to.
LIKE = {
    "rdma-pool": "rdma-mount-v3",
    "rdma-pool-v4.1": "rdma-mount-v4.1",
    "tcp-pool": "tcp-mount",
    **{name: name for name in MOUNTS},
}


def job(at: At) -> CellSpec:
    """Return four jobs over a transport."""
    mounted = at.transport in MOUNTS
    return at.cell(
        "randread.fio",
        {"numjobs": JOBS},
        at.seconds(4, 30),
        client="mount" if mounted else "pool",
        mounts=at.transport if mounted else "",
        query=POOLS.get(at.transport, ""),
        paths=min(JOBS, at.pool.paths) if at.own else 1,
        files={"nfsmulti-randread": 10_000_000},
    )


def told(run: Run) -> str:
    """Return the transport beside the published one: that one, or the next that was run."""
    return next(map(str, run.levels("transport")), next(iter(TRANSPORTS)))


def of_jobs(run: Run, name: str, per: float = 1) -> list[list[float]]:
    """Return a figure of each job of that transport, over the repeats."""
    jobs = [job for cell in run.at({"transport": told(run)}) for job in cell.jobs]
    numbers = sorted({job.number for job in jobs})
    return [[getattr(job, name) / per for job in jobs if job.number == at] for at in numbers]


def total(run: Run, *_: object) -> str:
    """Write what all jobs reach."""
    at = {"transport": told(run)}
    return ", ".join(run.text(one, at) for one in ("MB/s", "IOPS")) if run.at(at) else texts.MISSING


def beside(run: Run) -> list[Beside]:
    """Return the published rows. Of percentiles the least and the most: a mean would be none."""
    name = TRANSPORTS.get(told(run), told(run))
    why = "a bandwidth was published and no ratio: it takes 40 Gbit/s adapters and the same command"
    found = [
        Beside(f"bandwidth, all four jobs{run.hosts}: {name}",
               "4,178 MiB/s (4,381 MB/s), 66.8k IOPS", ours=total, why=why)
    ]  # fmt: skip
    for what, theirs, unit, figures in (
        ("bandwidth", "995, 957, 1,274 and 952 MiB/s", "MiB/s",
         of_jobs(run, "read_bytes_per_s", 2**20)),
        ("completion latency, mean", "478, 497, 371, 500 µs", "µs", of_jobs(run, "mean_us")),
        ("usr", "3.7 to 4.7 %", "%", of_jobs(run, "usr_percent")),
        ("sys", "24 to 36 %", "%", of_jobs(run, "sys_percent")),
    ):  # fmt: skip
        each = ", ".join(texts.number(sum(one) / len(one)) for one in figures)
        ours = f"{each} {unit}" if each else texts.MISSING
        found.append(Beside(f"{what}, per job: {name}", theirs, ours=ours))
    for percent, theirs in ((50, "318 to 375 µs"), (99, "1,400 to 3,700 µs")):
        every = [at for one in of_jobs(run, f"p{percent}_us") for at in one]
        ours = f"{texts.ends(every)} µs" if every else texts.MISSING
        found.append(Beside(f"completion latency, p{percent}, per job: {name}", theirs, ours=ours))
    return found


def headline(run: Run) -> str:
    """Tell what nfsmulti does in times the kernel mount, over the same transport and version."""
    gains = {
        name: run.ratio("MB/s", {"transport": one}, {"transport": LIKE[one]})
        for one, name in (("rdma-pool", "RDMA"), ("tcp-pool", "TCP"))
    }
    said = [f"{texts.times_in_words(gain)} over {name}" for name, gain in gains.items() if gain]
    if not said:
        return run.incomplete("nfsmulti and a kernel mount like it")
    return f"{', '.join(said)}: nfsmulti's MB/s against the kernel mount's, NFSv3{run.hosts}."


STORY = Story(
    names=TRANSPORTS,
    headline=headline,
    table=Grid(
        ["transport"],
        [
            Column("MB/s", "MB/s"),
            Column("p50, ms", "read p50 ms", pooled=True),
            Column("p99, ms", "read p99 ms", pooled=True),
            Column("machine CPU, µs/op", "machine CPU µs/op", interval=False),
            Column("times the kernel mount", "MB/s", to=lambda at: (
                {"transport": LIKE[str(at["transport"])]} if at["transport"] in LIKE else None)),
        ],
    ),
    caveats=lambda run: [
        "RDMA is emulated in software (rdma_rxe): do not compare it with TCP."
    ] * any("rdma" in str(one) for one in run.levels("transport")),
    plots=[
        Bars("transport", [Column("bandwidth", "MB/s")]),
        Percentiles("transport"),
        Bars("transport", [Column("fio's jobs", "jobs CPU µs/op"),
                           Column("machine", "machine CPU µs/op")]),
    ],
    beside=beside,
    reading=[
        "usr and sys are per cent of one core, the mean of the jobs.",
        "The file has 10,000,000 bytes and is in the server's memory: this measures the transport"
        " and the processors, not a disk.",
    ],
    differs="The original had 40 GbE adapters; the software RDMA device here (rdma_rxe) costs"
    " processor time.",
    places={
        "guest": GuestPlace(
            {name: (mount,) for name, mount in MOUNTS.items()}, threads=16, differs=GUEST_DIFFERS
        )
    },
    factors={"transport": Factor(lambda at: ["pool"] if at.own else [*POOLS, *MOUNTS])},
    job=job,
    left_out=lambda _: [
        f"{', '.join([*POOLS, *MOUNTS])} are transports of the lab: your pool has its own"
    ],
)  # fmt: skip
