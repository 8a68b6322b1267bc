# SPDX-License-Identifier: GPL-2.0-only
"""How cells went on, second by second: their bandwidth, the p99 of latency, and what went wrong.

A repeat of each combination is drawn, of a few: where something went wrong, or else the fastest.
"""

from collections.abc import Callable, Mapping, Sequence

from nfsmulti.report import cells, charts, measures
from nfsmulti.report.answer import labels
from nfsmulti.report.story import Plot, Section
from nfsmulti.summary import Cell, Summary

_FEWEST = 3  # figures, which are a series
_LONG = 28  # characters of a label
_MOST = len(charts.COLOURS)
_MARKS = {"reconnect": "X", "failover": "D", "retransmission": "v", "delayed reply": "s"}


def section(summary: Summary, names: Mapping[str, str]) -> Section:
    """Return the plots; none of a run whose cells have no such figures. `names` are of levels."""
    found = _chosen(summary, names)
    of: dict[tuple[str, str], Callable[[Cell], Sequence[float | None]]] = {
        ("bandwidth", "MB/s"): lambda cell: [rate / 1e6 for rate in cell.over_time],
        ("p99", "latency p99, ms"): _p99,
        ("response", "mean, ms"): lambda cell: [
            us and us / 1e3 for us in (cell.arrivals.over_time if cell.arrivals else ())
        ],
    }
    drawn = [
        _plot(*what, [(name, cell, values(cell)) for name, cell in found])
        for what, values in of.items()
    ]
    return Section("Over time", plots=[plot for plot in drawn if plot])


def _chosen(summary: Summary, names: Mapping[str, str]) -> list[tuple[str, Cell]]:
    """Return a cell of each combination, at most so many, by the factors that differ."""
    done = [cell for cell in summary.done if max(len(cell.over_time), len(_p99(cell))) >= _FEWEST]
    groups = cells.by_name(done, labels(summary, names))
    shown = [(name, max(found, key=_troubles)) for name, found in groups.items()]
    ranked = sorted(shown, key=lambda one: (-_troubles(one[1]), -(measures.MB_PER_S(one[1]) or 0)))
    return [one for one in shown if one in ranked[:_MOST]]


def _troubles(cell: Cell) -> int:
    return sum(map(len, cell.marks.values()))


def _p99(cell: Cell) -> list[float | None]:
    found = (cell.read_over_time or cell.write_over_time).get("p99_us", [])
    return [None if value is None else value / 1e3 for value in found]


def _plot(
    what: str, unit: str, lines: Sequence[tuple[str, Cell, Sequence[float | None]]]
) -> Plot | None:
    if not any(any(values) for _, _, values in lines):
        return None
    title = what[:1].upper() + what[1:]
    figure, axes = charts.panel(f"{title} over time", "seconds", unit)
    for number, (label, cell, values) in enumerate(lines):
        look = charts.style(number)
        points = {at * cell.figure_s: one for at, one in enumerate(values, 1) if one is not None}
        axes.plot(
            list(points), list(points.values()), color=look["color"], ls=look["linestyle"],
            label=label,
        )  # fmt: skip
        _mark(axes, label, cell, points)
    axes.set_xlim(0)
    charts.few_ticks(axes)
    (charts.from_zero if what == "bandwidth" else charts.logarithmic_y)(axes)
    charts.legend(axes, columns=1 if max(len(label) for label, _, _ in lines) > _LONG else 2)
    longest = max(cell.figure_s for _, cell, _ in lines)
    per = "second" if longest == 1 else f"{longest} seconds"
    caption = f"{title} in each {per}, all jobs together, of one repeat each."
    if what == "p99" and any(cell.read_over_time and cell.write_over_time for _, cell, _ in lines):
        caption += " Of reads alone where a job also writes."
    if said := sorted({name for _, cell, _ in lines for name in cell.marks}):
        caption += f" Marks: a {' or a '.join(said)} in that time."
    return Plot(f"over-time-{what}", caption, figure)


def _mark(axes: "charts.Axes", label: str, cell: Cell, points: Mapping[int, float]) -> None:
    """Mark what went wrong on a cell's line, or below it where that has nothing there."""
    last, lowest = max(points, default=0), min(points.values(), default=0.0)
    for name, places in cell.marks.items():
        seconds = [min((place + 1) * cell.figure_s, last) for place in places]
        heights = [points.get(at, lowest) for at in seconds]
        named = name in axes.get_legend_handles_labels()[1]
        axes.plot(
            seconds, heights, _MARKS[name], color=charts.INK, markersize=7, clip_on=False,
            label=None if named else name,
        )  # fmt: skip
        for at, height in zip(seconds, heights, strict=True):
            charts.hover(axes, at, height, f"{label}: {name}")
