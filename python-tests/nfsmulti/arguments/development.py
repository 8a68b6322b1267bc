# SPDX-License-Identifier: GPL-2.0-only
"""The arguments of what developers use: test, soak, faults, fio-releases."""

from __future__ import annotations

from pathlib import Path

from nfsmulti.arguments.parser import Declare, Parser, number

RELEASES = [f"3.{minor}" for minor in range(33, 43)]


def _test(add: Parser) -> None:
    """Check format and lint, and run the tests, against real and scripted NFS servers.

    Everything is a pytest test, so other options go to pytest: -k EXPR, -x, --lf, a test's file.
    Tests of what this machine lacks or does not permit are skipped by name; with CI=true they fail.
    """
    add.passes_on = True
    add.flag(
        "full",
        "Also clang and clang-tidy, sanitizers, fuzzing, valgrind, Chromium, and the kernel's"
        " client, server and RDMA in a virtual machine. What CI runs.",
    )


def _soak(add: Parser) -> None:
    """Write and verify on real servers while their paths fail and return at random.

    Servers are killed, stopped and started again; packets are dropped, addresses removed,
    connections reset; one path always works. Four jobs have failover=1, a fifth waits (hard).
    With --entries one server is behind all addresses, its connections are reset, and the job waits.
    Exit status 0: every byte was read back as it was written, and nothing was lost; or every entry
    was made, found and removed once.
    """
    add.option("minutes", "N", "How long; a round takes a minute (default: 20).", type=number(1))
    add.option(
        "seed",
        "N",
        "Seed of the faults: the same seed gives the same faults (default: 1).",
        type=int,
    )
    add.option(
        "paths",
        "N",
        "Server addresses, 2 to 16 (default: 4).",
        type=int,
        choices=range(2, 17),
        default=4,
    )
    add.option("nfsvers", "", "NFS version (default: 3).", choices=("3", "4.1", "4.2"), default="3")
    add.option(
        "entries",
        "N",
        "Metadata instead of data: make so many entries, verify and remove them, once, while"
        " connections are reset each second.",
        type=number(1),
    )
    add.option("results", "DIR", "Where to keep fio's output.", type=Path)


def _faults(add: Parser) -> None:
    """Inject faults of servers and networks into running jobs, and check what was promised.

    Against a scripted server, nfs-ganesha in a lab, and (RDMA) the kernel's server in the kernel
    lab. Needs root; takes about ten minutes. The exit status is 1 if a cell was not as expected.
    """
    add.option("only", "WORDS", "Only cells whose names contain all these words.", default="")
    add.flag("brief", "The short matrix, as the tests run it.")
    add.flag("list", "List the cells and what is expected, then exit.", dest="listed")
    add.option("results", "DIR", "Where the results go (default: results/faults/TIME).", type=Path)


def _fio_releases(add: Parser) -> None:
    """Compile the engine against the headers of each of fio's releases.

    A warning is an error. Then build the newest release and an engine for it, and run both: random
    reads from the benchmark's server, and writes to the tests' server that fio verifies. Sources
    and builds stay in build/fio-releases/. The exit status is 0 only if all of this works.
    """
    add.add_argument(
        "versions",
        metavar="VERSION",
        nargs="*",
        default=[],
        help=f"Releases such as 3.42 (default: {RELEASES[0]} to {RELEASES[-1]}).",
    )
    add.option(
        "source",
        "URL",
        "The git repository that has fio's tags: a URL or a folder.",
        default="https://github.com/axboe/fio",
    )


COMMANDS: dict[str, tuple[str, Declare]] = {
    "test": ("nfsmulti.testrun:run_tests", _test),
    "soak": ("nfsmulti.faults.soak:soak", _soak),
    "faults": ("nfsmulti.faults.command:faults", _faults),
    "fio-releases": ("nfsmulti.fioreleases:fio_releases", _fio_releases),
}
