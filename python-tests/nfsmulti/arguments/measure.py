# SPDX-License-Identifier: GPL-2.0-only
"""The arguments of what measures: demo, run, bench."""

from __future__ import annotations

from pathlib import Path

from nfsmulti.arguments.parser import Declare, Parser, number, numbers, one_of, read_by, some_of
from nfsmulti.units import parse_seconds, parse_size

PUBLISHED = ("dd", "sio", "oltp", "sweep", "fsperf", "randread", "neighbour")
SCENARIOS = (*PUBLISHED, "connections", "metadata")
WORKLOADS = ("4k-randread", "64k-read", "64k-write", "8k-oltp")
OPERATIONS = ("create", "getattr", "lookup", "remove")
_MOST, _MOST_DEPTH = 256, 65536  # the engine's nconnect; jobs; fio's iodepth
GUESTS = ("qemu", "uml")
GUEST_HELP = (
    "The guest's kernel: qemu is Debian's own in a virtual machine; uml is Debian's user-mode"
    " kernel, which is faster where QEMU has no KVM. Its system calls are dear, and it has no RDMA."
)


def _demo(_: Parser) -> None:
    """Run the dd, fsperf and randread jobfiles on one connection and on several, side by side.

    Starts NFS servers on this machine and limits them as the published measurements were limited,
    at rates that the machine can carry: real ones if it may make namespaces for them, otherwise the
    benchmark's own, which any user may run. Takes less than three minutes, with fewer repeats on a
    slow machine. Prints the answer, and leaves its page under results/demo/.
    """


def _run(add: Parser) -> None:
    """Measure one scenario, on a pool of your own or in a lab with limits (needs root).

    connections: how many connections are enough, and what RDMA, NFSv4.1 or a kernel mount gains.
    metadata: creates, stats, lookups and removes per second, and what limits them. dd, sio, oltp,
    sweep, fsperf, randread, neighbour repeat published measurements; all: these seven.

    Each run leaves a folder with every fio's command and output, summary.json with all figures, and
    a report (report.html, report.md).

    A cell too short for its figure to settle runs longer: if the bandwidth of the two halves of
    its first repeat differs by more than 10 %, or too few samples show it, twice as long, then 4
    times. What it is compared with by repeat, --factors or --setting runs as long. All this adds
    at most half of the run's own time, or a minute. Not in sweep or metadata, not with --hosts.

    On a pool all files lie in a new directory, which is removed at the end: no file that is there
    is changed. What could not be removed is named in the last line; `clean` removes it.

    A cell that fails is marked so and the others still run; the exit status is then 1. --resume
    continues a run that was interrupted or has failed cells, and keeps the cells that are done.
    """
    add.add_argument(
        "scenario",
        metavar="SCENARIO",
        type=one_of((*SCENARIOS, "all")),
        help=f"{', '.join(SCENARIOS)}, or all",
    )
    add.add_argument(
        "more", metavar="DIR", nargs="*", default=[], help="with --resume: the run's folder"
    )
    _where(add)
    _how_much(add)
    _what(add)
    _of_connections(add)


def _where(add: Parser) -> None:
    add.section("where")
    add.option("pool", "POOL", "Run on this pool, such as nfs://nas/export, instead of in the lab.")
    add.flag("lab", "Run in the lab, with the scenario's limits: the default.")
    add.option(
        "hosts",
        "HOST[:PORT],...",
        "With --pool: run on these hosts at once, each with all jobs, by fio's client/server"
        " mode. If no fio --server answers, ssh starts one. The engine must be at the same path on"
        " each.",
        default="",
    )
    add.option("guest", "", f"In the kernel lab; qemu if not given. {GUEST_HELP}", choices=GUESTS)
    add.option(
        "server-command",
        "WORDS",
        "With --pool: the command that reaches its server, such as 'ssh nas'. It runs `cat"
        " /proc/stat /proc/meminfo` there, for CPU time, Dirty and Cached, and nothing else.",
        default="",
    )
    add.option(
        "directory",
        "DIR",
        "With --pool: the directory for all files of the run, relative to the export. It must"
        " not be there yet (default: a new name, nfsmulti-TIME-RANDOM).",
        default="",
    )
    add.flag("keep", "With --pool: leave the run's directory on the server.")
    add.flag("published", "With --pool: show what was published beside your own figures, too.")
    add.option("results", "DIR", "Where runs are kept (default: results/).", type=Path)
    add.option(
        "metrics",
        "FILE",
        "Rewrite this file each second for node-exporter's textfile collector, with what each"
        " path does. Its name ends with .prom.",
        type=Path,
    )


def _how_much(add: Parser) -> None:
    add.section("how much")
    add.flag("quick", "Fewer cells, a few seconds each.")
    for name, metavar, parse, text in (
        ("size", "SIZE", parse_size, "Bytes of each file, such as 8g."),
        ("runtime", "TIME", parse_seconds, "Length of each cell, such as 30s, 5m or 8h."),
        ("bs", "SIZE", parse_size, "Bytes of an I/O, such as 64k."),
    ):
        add.option(name, metavar, text, type=read_by(parse))
    add.option(
        "depth",
        "N",
        "I/Os that each job has in flight; for metadata several numbers: 1,32,128.",
        type=numbers(_MOST_DEPTH),
        default=(),
    )
    add.flag(
        "precondition",
        "Write each file whole before a job writes to it, so that no write makes it grow.",
    )
    add.option(
        "repeat",
        "N",
        "Repeats of each cell (default: 3; neighbour 5, or 3 if --quick; connections 5).",
        type=number(1),
    )


def _what(add: Parser) -> None:
    add.section("what is run")
    add.option(
        "factors",
        "NAME=V1,V2",
        "Cross the cells with options of the engine or of fio.",
        nargs="+",
        action="extend",
    )
    add.option(
        "setting",
        "NAME=V1,V2",
        "Cross the cells with a setting of the server. --set changes it before each block: all"
        " cells under one value, in one repeat.",
        default="",
    )
    add.option(
        "set",
        "COMMAND",
        "Sets it, with {NAME} for the value: 'ssh nas \"echo {threads} >"
        " /proc/fs/nfsd/threads\"'. In the kernel lab it runs in the guest.",
        default="",
    )
    add.option(
        "get",
        "COMMAND",
        "Prints only the setting's value, which is checked after --set and restored at the"
        " end. Without --get the first value is set at the end.",
        default="",
    )
    add.option("label", "WORD", "A word to add to the name of the run's folder.", default="")
    add.option(
        "seed", "N", "Seed of the order of cells; an earlier run's repeats its order.", type=int
    )
    add.flag("resume", "Continue the run in DIR, or the newest unfinished one.")


def _of_connections(add: Parser) -> None:
    add.section("connections and metadata alone")
    several = numbers(_MOST)
    for name, metavar, read, text in (
        ("nconnect", "N,...", several, "Connections on each path of a job."),
        (
            "proto",
            "tcp,rdma",
            some_of(("tcp", "rdma")),
            "Transports, instead of those in the pool's URLs.",
        ),
        (
            "version",
            "3,4.1",
            some_of(("3", "4.1")),
            "NFS versions, instead of those in the pool's URLs.",
        ),
        ("jobs", "N,...", several, "Numbers of fio jobs."),
        (
            "workload",
            "NAME,...",
            some_of((*WORKLOADS, *OPERATIONS)),
            f"What connections moves, one of {', '.join(WORKLOADS)} (default: 64k-read), or the"
            f" operations of metadata (default: {','.join(OPERATIONS)}).",
        ),
    ):
        add.option(name, metavar, text, type=read, default=())
    add.flag("mounts", "Also measure kernel mounts, each with its cell's nconnect= (needs root).")


def _bench(add: Parser) -> None:
    """Declare what every bench is told."""
    add.flag("quick", "Three short runs of each, for a quick look.")
    add.flag("targets", "Also hold the ratios against the developers' targets.")
    add.option("repeat", "N", "Runs of each engine on each case.", type=number(1))
    add.option("results", "DIR", "Where the results go (default: results/BENCH/TIME).", type=Path)
    add.option(
        "case",
        "NAME",
        "Measure only this case (a name, or a pattern such as '*4k*').",
        action="append",
    )
    add.flag("list", "List the cases (with --targets theirs, too), then exit.", dest="listed")
    add.option("client-cpu", "CPU", "Pin the client to this processor.", type=int)


def _client_cost(add: Parser) -> None:
    """Compare with fio's own nfs engine on the distribution's libnfs, run by run.

    That engine has only NFSv3, and no metadata operations: our NFSv4.1 is compared with our NFSv3,
    our GETATTR with our READ. All use a server that costs next to nothing and has a core of its
    own. If the distribution's fio lacks that engine, fio's source is fetched and built the first
    time.
    """
    _bench(add)
    add.option("server-cpu", "CPU", "Pin the server to this processor.", type=int)
    add.flag(
        "server-sleeps",
        "Let the server sleep between calls; the client then pays for waking it up.",
    )
    add.option(
        "yardstick",
        "FILE.c",
        "Also build and measure this fio engine, the lower limit: the same calls over plain"
        " sockets and nothing else. It gets the server's port on 127.0.0.1 as --port.",
        type=Path,
    )


def _mount(add: Parser) -> None:
    """Compare the transport for kernel mounts with fio's io_uring engine, on the same file.

    The file is on tmpfs, then on a disk.
    """
    _bench(add)
    add.option("disk", "DIR", "A directory on a disk (default: below build/).", type=Path)


COMMANDS: dict[str, tuple[str, Declare]] = {
    "demo": ("nfsmulti.demo:demo", _demo),
    "run": ("nfsmulti.run.command:run", _run),
    "bench client-cost": ("nfsmulti.bench.command:client_cost", _client_cost),
    "bench mount": ("nfsmulti.bench.command:mount", _mount),
}
