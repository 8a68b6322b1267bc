# SPDX-License-Identifier: GPL-2.0-only
"""The demo's picture."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from nfsmulti.demo.outcome import Outcome

_ONE, _POOL = "#9aa5b1", "#2364aa"


def write_plot(outcomes: list[Outcome], file: Path) -> None:
    """Draw bandwidth on one path beside the pool, a panel for each workload; writes a PNG."""
    figure = Figure(figsize=(3.6 * len(outcomes), 4.2), layout="constrained")
    for panel, outcome in zip(figure.subplots(1, len(outcomes)), outcomes, strict=True):
        workload = outcome.workload
        heights = [outcome.one.bandwidth / 1e6, outcome.pool.bandwidth / 1e6]
        labels = [text.replace(" on ", "\non ") for text in (workload.one_text, workload.pool_text)]
        bars = panel.bar(labels, heights, color=[_ONE, _POOL], width=0.6)
        panel.bar_label(bars, fmt="{:,.0f}", padding=2)
        panel.set_title(f"{workload.name}: {outcome.ratio:.2f} times")
        panel.set_xlabel(workload.published.replace(": ", ":\n"), fontsize="small", color="0.35")
        panel.set_ylabel("MB/s")
        panel.margins(y=0.12)
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=150)
