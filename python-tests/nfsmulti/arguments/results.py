# SPDX-License-Identifier: GPL-2.0-only
"""The arguments of what reads results: report, compare, baseline, history."""

from __future__ import annotations

from pathlib import Path

from nfsmulti.arguments.measure import SCENARIOS
from nfsmulti.arguments.parser import Declare, Parser, number, one_of
from nfsmulti.paths import RESULTS

FORMATS = ("text", "json", "junit", "markdown")
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
    """Compare run B with run A of the same scenario: each cell's figures and ratio, with interval.

    It prints the rows that have changed most, and writes all to compare.html in B's folder.

    Without RUN the newest run is B; without a second one its scenario's baseline is A (see
    `baseline`). Throughput is bytes per second, of metadata operations per second. --judge adds the
    99th percentile of clat or the CPU time of fio's jobs per I/O, which both vary more.

    Exit status, for a CI: 0 not shown to be worse. 10 worse. 11 not comparable: another scenario,
    other factors, quick against full, another kind of place, other limits or another number of
    hosts, no cell that ran three times on both sides, or cells of A that B has yet to run (run
    --resume). 12 unreliable: other programs kept 10 % or more of a machine's processors busy before
    a quarter of its cells, or client kernel, processors, fio, a link's MTU or speed, or a sysctl
    differ. Another engine, server or pool is named, and no reason for doubt. A cell of which more
    repeats failed in B than in A is worse.

    When is B worse? With many cells, some differ by chance. So every cell is tested (Welch's t of
    the logarithms), and the geometric mean of all cells too, of which each repeat is one value. B
    is worse only if a test is significant at 5 % after Holm's correction over all tests, and the
    change is larger than --threshold. A change in all cells shows in the mean, a change in a single
    cell in its own test.

    With fewer runs of each cell there is no interval. --tolerance PERCENT then judges the ratios
    alone, the mean's and each cell's; choose it wider than the cells vary (CV in the report).
    """
    add.add_argument(
        "runs",
        metavar="RUN",
        nargs="*",
        default=[],
        type=Path,
        help="Folders of two runs, A and B, or of B alone: results/SCENARIO/TIME.",
    )
    add.option(
        "threshold",
        "PERCENT",
        "Per cent by which B may be worse, even if significantly (default: 5).",
        type=number(0, float),
        default=5.0,
    )
    add.option(
        "judge",
        "",
        "A figure that the verdict covers; repeatable (default: throughput).",
        choices=FIGURES,
        action="append",
    )
    add.option(
        "tolerance",
        "PERCENT",
        "Judge without statistical tests: per cent by which no cell may be worse.",
        type=number(0, float),
    )
    add.option("over", "FACTOR", "Compare the levels of this factor; each run has exactly one.")
    add.option(
        "allow",
        "WHAT",
        "A condition that may differ, as the verdict shows it, or `busy`; repeatable.",
        action="append",
        default=[],
    )
    add.option(
        "format",
        "",
        "How it is written (default: text).",
        dest="written",
        choices=FORMATS,
        default="text",
    )
    _results(add)


def _results(add: Parser) -> None:
    add.option(
        "results", "DIR", "Where runs are kept (default: results/).", type=Path, default=RESULTS
    )


def _baseline_set(add: Parser) -> None:
    """Make a run the baseline of its scenario, which `compare` holds later runs to."""
    add.add_argument(
        "folder", metavar="DIR", type=Path, help="The folder of a run: results/SCENARIO/TIME."
    )
    _results(add)


def _baseline_show(add: Parser) -> None:
    """Print each scenario's baseline."""
    _results(add)


def _history(add: Parser) -> None:
    """Print a scenario's throughput over all kept runs, and mark the runs that changed it.

    history.html, beside the runs, has all of them, and a plot.

    A run is held to all repeats since the last change. It is a change if the ratio is significant
    at 5 %, corrected for the number of runs, and beyond 5 %; of a busy machine it is none.
    """
    add.add_argument(
        "scenario",
        metavar="SCENARIO",
        type=one_of((*SCENARIOS, "demo")),
        help="such as connections",
    )
    _results(add)


COMMANDS: dict[str, tuple[str, Declare]] = {
    "report": ("nfsmulti.report.pages:report", _report),
    "baseline set": ("nfsmulti.kept:set_baseline", _baseline_set),
    "baseline show": ("nfsmulti.kept:show_baseline", _baseline_show),
    "history": ("nfsmulti.history:history", _history),
    "compare": ("nfsmulti.compare:compare", _compare),
}
