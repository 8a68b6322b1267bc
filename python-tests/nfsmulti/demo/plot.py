# SPDX-License-Identifier: GPL-2.0-only
"""The demo's picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from nfsmulti.demo.outcome import Outcome, rate

_ONE, _MANY = "#9aa5b1", "#2364aa"


def write_plot(outcomes: Sequence[Outcome], file: Path) -> None:
    """Draw bandwidth on one connection beside several, a panel for each workload; writes a PNG."""
    figure = Figure(figsize=(3.6 * len(outcomes), 4.2), layout="constrained")
    for panel, outcome in zip(figure.subplots(1, len(outcomes)), outcomes, strict=True):
        workload, ratio = outcome.workload, outcome.ratio
        sides = [(workload.one, rate(outcome.one)), (workload.many, rate(outcome.many))]
        labels = [side.row.replace(", ", ",\n") for side, _ in sides]
        heights = [found.mean / 1e6 if found else 0.0 for _, found in sides]
        bars = panel.bar(labels, heights, color=[_ONE, _MANY], width=0.6)
        panel.bar_label(bars, fmt="{:,.1f}", padding=2)
        for label, (_, found) in zip(labels, sides, strict=True):
            for value in found.values if found else ():
                panel.plot(label, value / 1e6, ".", color="black", alpha=0.6)
        shown = f"{ratio.text} times" if ratio else "not measured"
        panel.set_title(f"{workload.name}: {shown}", fontsize="medium")
        wrapped = workload.said.replace(" (", "\n(").replace(": ", ":\n")
        panel.set_xlabel(wrapped, fontsize="small", color="0.35")
        panel.set_ylabel("MB/s")
        panel.margins(y=0.12)
        panel.spines[["top", "right"]].set_visible(False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150)
