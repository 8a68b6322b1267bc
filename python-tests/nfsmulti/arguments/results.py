# SPDX-License-Identifier: GPL-2.0-only
"""The arguments of what reads results: report, compare."""

from __future__ import annotations

from pathlib import Path

from nfsmulti.arguments.parser import Declare, Parser, number

FIGURES = ("throughput", "p99", "cpu")


def _report(add: Parser) -> None:
    """Make the reports of runs again: report.md, report.html and plots/, from summary.json.

    report.html is self-contained: it can be mailed, and opens without a network.
    """
    add.add_argument(
        "folders",
        metavar="DIR",
        nargs="*",
        default=[],
        type=Path,
        help="Folders of runs: results/SCENARIO/TIME.",
    )
    add.flag(
        "published",
        "Show what was published on the pages of runs on your own pool, too. Without DIR: make"
        " results/README.md, all published figures and the reference runs', side by side.",
    )
    add.flag("picture", "Draw README's pictures, docs/*.svg, out of the reference runs.")
    add.flag("options", "Bring docs/options.md and nfsmulti(7) in step with the engine.")


def _compare(add: Parser) -> None:
    """Compare run B with run A of the same scenario: each cell's ratio B/A, with its interval.

    A ratio whose 95 % interval spans 1 is "inconclusive", or "alike" where all of it is within 5 %
    of 1. Throughput is bytes per second. The 99th percentile of clat and the CPU time of fio's jobs
    per I/O are shown as well; the verdict covers them only if --judge asks for it, because both
    vary more between two runs of the same thing.

    Exit status, for a CI: 0 not shown to be worse, 10 worse, 11 not comparable: another scenario,
    other factors, quick against full, another kind of place, other limits or another number of
    hosts, no cell that ran three times on both sides, or cells of A that B has yet to run (run
    --resume). A cell of which more repeats failed in B than in A is worse.

    When is B worse? With many cells, some differ by chance. So every cell is tested (Welch's t of
    the logarithms), and the geometric mean of all cells too, of which each repeat is one value. B
    is worse only if a test is significant at 5 % after Holm's correction over all tests, and the
    change is larger than --threshold. A change in all cells shows in the mean, a change in a single
    cell in its own test.

    With fewer runs of each cell there is no interval. --tolerance PERCENT then judges the ratios
    alone, the mean's and each cell's; choose it wider than the cells vary (CV in the report).
    """
    for name in "ab":
        add.add_argument(
            name,
            metavar=name.upper(),
            type=Path,
            help="The folder of a run: results/SCENARIO/TIME.",
        )
    add.add_argument(
        "--threshold",
        metavar="PERCENT",
        type=number(0, float),
        default=5.0,
        help="Per cent by which B may be worse, even if significantly (default: 5).",
    )
    add.add_argument(
        "--judge",
        choices=FIGURES,
        action="append",
        help="A figure that the verdict covers; repeatable (default: throughput).",
    )
    add.add_argument(
        "--tolerance",
        metavar="PERCENT",
        type=number(0, float),
        help="Judge without statistical tests: per cent by which no cell may be worse.",
    )
    add.add_argument(
        "--over",
        metavar="FACTOR",
        help="Compare the levels of this factor; each run has exactly one.",
    )


COMMANDS: dict[str, tuple[str, Declare]] = {
    "report": ("nfsmulti.report.pages:report", _report),
    "compare": ("nfsmulti.compare:compare", _compare),
}
