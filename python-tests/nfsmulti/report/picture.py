# SPDX-License-Identifier: GPL-2.0-only
"""README's pictures, out of the reference runs: what a pool gives, and what the client costs.

Bars and their figures are ratios: times what one connection carries, and per cent of the CPU time
that fio's nfs engine takes per operation. The ground is white, so that dark pages show it too;
text stays legible on a phone, and in print a hatch tells the one connection apart.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nfsmulti.errors import HarnessError
from nfsmulti.paths import RESULTS, ROOT
from nfsmulti.report import cells, charts
from nfsmulti.stats import Ratio
from nfsmulti.summary import Summary
from nfsmulti.texts import rate_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOCS = ROOT / "docs"
_WIDTH = 4.2  # inches: two fit beside each other on GitHub, one on a phone
_POOL, _COST = RESULTS / "reference/connections", RESULTS / "reference/client-cost/results.json"
_OURS, _PEER = "nfsmulti", "fio nfs"
_LIMITS = "capped"  # the half of the connections scenario where each connection has a cap


def write(folder: Path = DOCS) -> list[Path]:
    """Draw both. Raises HarnessError where a reference run lacks what they show."""
    run = Summary.load(_POOL)
    if not (limits := run.place.get("fitted", {}).get(_LIMITS)):
        raise HarnessError(f"{_POOL}: no cells with a cap on each connection")
    title = (
        f"Throughput, times one connection\n(64k reads; cap of each: {rate_text(limits['cap'])})"
    )
    pool, (axes,) = charts.panels(title, [1], _WIDTH)
    _draw_pool(axes, run, limits["link"], limits["cap"])
    title = "CPU per operation, fio's nfs engine = 100 %\n(NFSv3, TCP, one connection; d: iodepth)"
    cost, (axes,) = charts.panels(title, [1], _WIDTH)
    _draw_cost(axes, cost_ratios())
    return [_save(pool, folder / "pool.svg"), _save(cost, folder / "cost.svg")]


def _save(figure: Figure, file: Path) -> Path:
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": file.stem, "hatch.linewidth": 0.6}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    lines = (line.rstrip() for line in text.getvalue().splitlines())
    file.write_text("\n".join(lines) + "\n")
    return file


def _draw_pool(axes: Axes, run: Summary, link: int, cap: int) -> None:
    """Draw throughput in times that of the fewest connections; rates are in bit/s."""
    capped = cells.having(run, limits=_LIMITS)
    for factor in capped[0].factors if capped else ():
        if factor != "nconnect" and len(cells.levels(capped, factor)) > 1:
            raise HarnessError(f"{_POOL}: the picture shows one {factor}, and this run has several")
    counts = cells.counts(capped, "nconnect")
    found = {count: cells.having(run, limits=_LIMITS, nconnect=count) for count in counts}
    ratios = [cells.ratio(found[n], found[counts[0]], cells.bandwidth) for n in counts]
    values = [ratio.value for ratio in ratios if ratio]
    if not values or len(values) < len(counts):
        raise HarnessError(f"{_POOL}: no cells with a cap on each connection")
    bars = axes.bar([str(n) for n in counts], values, width=0.65, color=charts.COLOURS[0])
    bars[0].set(facecolor=charts.COLOURS[1], hatch="//", edgecolor="white")
    axes.bar_label(bars, [f"{value:.1f}x" for value in values], padding=3, fontweight="bold")
    axes.axhline(link / cap, color=charts.INK, linestyle=":", linewidth=1.4)
    axes.text(-0.45, 1.02 * link / cap, f"link: {rate_text(link)}")
    axes.set_ylim(0, 1.2 * link / cap)
    axes.set_xlabel("connections to one address (nconnect)")


def _draw_cost(axes: Axes, ratios: Sequence[tuple[str, Ratio]]) -> None:
    """Draw a bar for each ratio, in per cent, with its interval."""
    for row, (_, ratio) in enumerate(ratios):
        low, high = ratio.low or ratio.value, ratio.high or ratio.value
        error = [[100 * (ratio.value - low)], [100 * (high - ratio.value)]]
        axes.barh(row, 100 * ratio.value, 0.65, xerr=error, capsize=3, color=charts.COLOURS[0])
        axes.text(103 * high + 1, row, f"{100 * ratio.value:.0f} %", va="center", weight="bold")
    axes.axvline(100, color=charts.INK, linestyle=":", linewidth=1.4)
    axes.set_yticks(range(len(ratios)), [name for name, _ in ratios])
    axes.invert_yaxis()
    axes.set_xlim(0, 125)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("%, with 95 % intervals; less is better")


def cost_ratios() -> list[tuple[str, Ratio]]:
    """Give our CPU per operation over fio's nfs engine's, of each case on one connection."""
    found = []
    for case in json.loads(_COST.read_text())["cases"]:
        name, runs = case["case"], case["runs"]
        words = name.split()
        if _PEER in runs and len(words) == 3:  # a fourth word says how many connections
            ours, peer = (
                [run["cpu_user"] + run["cpu_system"] for run in runs[who]] for who in (_OURS, _PEER)
            )
            found.append((name, Ratio.paired(ours, peer)))
    if not found:
        raise HarnessError(f"{_COST}: no case on one connection beside {_PEER}")
    return found
