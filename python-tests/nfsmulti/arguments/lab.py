# SPDX-License-Identifier: GPL-2.0-only
"""The arguments of what has to do with servers: doctor, clean, lab."""

from __future__ import annotations

from pathlib import Path

from nfsmulti.arguments.measure import GUEST_HELP, GUESTS
from nfsmulti.arguments.parser import Declare, Parser, number

INSTANCES = ("one", "per-address")


def _doctor(add: Parser) -> None:
    """Check this machine, and the servers of a pool; every finding comes with its remedy.

    The exit status is 0 unless something failed. With --pool a directory is made in the export,
    looked up over each path, and removed at once.
    """
    add.option("pool", "POOL", "Check the servers of this pool (its text or its name) too.")
    add.flag("json", "Print the findings as JSON.", dest="as_json")


def _clean(add: Parser) -> None:
    """Remove the directories that runs have left on servers.

    A run removes its directory itself, unless it was killed, its server had gone, or --keep was
    given. Only directories that a run has made are removed; one of a run under way stays.
    """
    add.option("pool", "POOL", "Only what lies on the paths of this pool.")
    add.flag(
        "all",
        "With --pool: also directories of runs that are not in --results, such as those of other"
        " machines. Such a run may still be going on.",
        dest="everything",
    )
    add.option("results", "DIR", "Where runs are kept (default: results/).", type=Path)


def _id(add: Parser) -> None:
    """Declare which lab is meant."""
    add.option("id", "NAME", "The lab's name, if several are running.", dest="lab_id")


def _wanted(add: Parser) -> None:
    """Declare the lab that `start` and `run` are to make."""
    add.option(
        "addresses",
        "N",
        "Server addresses, each a path of the pool (default: 4).",
        type=int,
        default=4,
    )
    add.option(
        "instances",
        "",
        "Server processes: one, or one per address (the default).",
        choices=INSTANCES,
        default="per-address",
    )
    add.flag("local", "Serve on this machine's loopback: 127.0.0.1 and those after it.")
    for name, text in (
        ("link", "Rate of the whole link, such as 1gbit or 9400mbit."),
        ("per-address", "Cap on each address, such as 120mbit."),
        ("assured", "Rate assured to each address when all are busy."),
        ("burst", "Burst that an address may send, such as 2m."),
        (
            "per-connection",
            "Cap on each TCP connection, such as 200mbit; instead of --per-address.",
        ),
        ("size", "Size of the file system, in memory, such as 4g."),
    ):
        add.option(name, "SIZE" if name == "size" else "RATE", text)
    add.flag("ro", "Export the same files read-only too (the pool 'ro').", dest="read_only")
    _id(add)


def _start(add: Parser) -> None:
    """Start a lab that stays up until `lab stop`, and print its pool and how to use it."""
    _wanted(add)


def _run(add: Parser) -> None:
    """Run COMMAND as a client of its own lab, then take the lab down.

    COMMAND finds the pool in $POOL; the engine also knows it as --pool=lab, and its first path
    alone as --pool=one. The exit status is the command's.
    """
    add.rest = True
    _wanted(add)


def _exec(add: Parser) -> None:
    """Run COMMAND as a client of a running lab; $POOL and --pool=lab as with `lab run`."""
    add.rest = True
    _id(add)


def _stop(add: Parser) -> None:
    """Stop a lab and remove all that belongs to it."""
    _id(add)
    add.flag("all", "Stop all labs started by `lab start`.", dest="every")


def _status(_: Parser) -> None:
    """List the running labs."""


def _kernel(add: Parser) -> None:
    """Run COMMAND under Debian's own kernel in a virtual machine, with RDMA and the kernel's NFS.

    COMMAND runs as root in the current folder and sees this machine's files and environment,
    but its changes are lost, except those in --results DIR, which is $NFSMULTI_LAB_OUT inside.
    It reads nothing from stdin. The exit status is COMMAND's; 124 after --timeout.

    Inside, an RDMA device (rdma_rxe) and an NFS server share the addresses 10.0.2.15, 10.0.2.16
    and fd02::15 ($NFSMULTI_LAB_ADDRESSES). The server exports /export ($NFSMULTI_LAB_EXPORT; the
    root in version 4) over TCP, and over RDMA on port 20049. The pool of both IPv4 addresses is
    $POOL; the engine knows it as --pool=lab, the first one alone as --pool=one, both over RDMA as
    --pool=rdma, and the mounts of --mount as --pool=mounts.

    --mount takes nfs(5)'s options, and address= to choose an address; what else this server needs
    (nolock, RDMA's port) is added: --mount /mnt/a=vers=3,proto=rdma
    --mount /mnt/b=vers=4.2,nconnect=4,address=10.0.2.16
    """
    add.rest = True
    add.option(
        "mount",
        "DIR=OPTIONS",
        "Mount the server's export on DIR first; may be given several times.",
        action="append",
    )
    add.option(
        "results", "DIR", "The only folder whose changes are kept; created if missing.", type=Path
    )
    add.flag("network", "COMMAND also reaches what this machine does (10.0.3.2 is itself).")
    add.option("timeout", "SECONDS", "End COMMAND after this time.", type=number(0, float))
    add.option("guest", "", GUEST_HELP, choices=GUESTS, default="qemu")
    add.option("cpus", "N", "The guest's processors (default: 1).", type=int, default=1)
    add.option("memory", "MB", "Its memory (default: 2048).", type=int, default=2048)


COMMANDS: dict[str, tuple[str, Declare]] = {
    "doctor": ("nfsmulti.doctor:doctor", _doctor),
    "clean": ("nfsmulti.run.clean:clean", _clean),
    "lab start": ("nfsmulti.lab.commands:start", _start),
    "lab run": ("nfsmulti.lab.commands:run", _run),
    "lab exec": ("nfsmulti.lab.commands:execute", _exec),
    "lab stop": ("nfsmulti.lab.commands:stop", _stop),
    "lab status": ("nfsmulti.lab.commands:status", _status),
    "lab kernel": ("nfsmulti.lab.commands:kernel", _kernel),
}
