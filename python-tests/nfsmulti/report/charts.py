# SPDX-License-Identifier: GPL-2.0-only
"""How the plots look, and their files.

Colours are Okabe and Ito's, which people of every colour vision can tell apart; lines have markers
and dashes of their own as well, for print. In a page, ink and ground are the page's.
"""

from __future__ import annotations

import functools
import io
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfsmulti import texts
from nfsmulti.paths import write_whole
from nfsmulti.report.story import Plot
from nfsmulti.stats import Ratio, Sample
from nfsmulti.terminal import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

INK, PALE = "#24292f", "#8c959f"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", (0, (8, 2, 1, 2, 1, 2)))  # dotted lines are limits
REPEATS = "dots are repeats, with 95 % intervals from three repeats on"  # for captions
_WIDTH, _HEIGHT = 5.6, 3.7  # inches; legible on a phone's width, where 10 points become 6
FONT_SIZE = 10  # points
_HOVER = "hover: "  # before the words of a group in SVG
_NAME = 28  # letters in a line of a row's name
_MOST_MARKS = 12  # on a line
_CLOSE = 20  # pixels between points whose numbers would overlap
_NUMBERS = "{x:,.10g}"  # on axes, as in tables
_LOG = " (log scale)"  # behind the name of an axis
ROOM = 1.1  # times the highest value that is drawn
_LOOK: dict[Any, Any] = {  # of matplotlib.rcParams
    "axes.axisbelow": True,
    "axes.edgecolor": PALE,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "font.size": FONT_SIZE,
    "grid.alpha": 0.3,
    "grid.color": PALE,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "text.color": INK,
    "text.parse_math": False,  # a name may hold dollars
    "xtick.color": INK,
    "ytick.color": INK,
}


def panel(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    """Return an empty plot whose axes are named, with their units."""
    figure, (axes,) = panels(title, 1, _WIDTH)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def panels(title: str, number: int, width: float) -> tuple[Figure, list[Axes]]:
    """Return so many empty plots side by side, each `width` inches; they share the y axis."""
    figure = _figures()(figsize=(width * number, _HEIGHT), layout="constrained")
    axes: list[Axes] = []
    for place in range(1, number + 1):
        axes.append(figure.add_subplot(1, number, place, sharey=axes[0] if axes else None))
        axes[-1].xaxis.set_major_formatter(_NUMBERS)
        axes[-1].yaxis.set_major_formatter(_NUMBERS)
    figure.suptitle(title, fontsize=11)
    return figure, axes


@functools.cache
def _figures() -> type[Figure]:
    """Load matplotlib, which takes half a second that a run does without, and set our look."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update(_LOOK)
    if not _has_outside():
        mpl.rcParams["savefig.bbox"] = "tight"
    return Figure


def _has_outside() -> bool:
    """Whether a layout leaves room for a legend below the plots; Debian 12's matplotlib, 3.6, not.

    There it stands below the figure, which is saved with it.
    """
    import matplotlib as mpl

    return mpl.__version_info__ >= (3, 7)


def style(number: int) -> dict[str, Any]:
    """Return the look of line `number`: its colour, its dashes, and its marks.

    Every second line has larger and hollow marks: it hides none that it covers.
    """
    odd = number % 2
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": DASHES[number % len(DASHES)],
        "markerfacecolor": "none" if odd else None,
        "markersize": 8 if odd else 5,
        "linewidth": 1.6,
        "capsize": 3,
    }


def line(
    axes: Axes,
    number: int,
    label: str,
    points: Sequence[tuple[float, Sample]],
    *,
    medians: bool = False,
) -> None:
    """Draw a line through means, each repeat a dot, with 95 % intervals from three repeats on.

    A line through `medians` has no intervals.
    """
    look = style(number)
    every = max(1, len(points) // _MOST_MARKS)
    middles = [one.median if medians else one.mean for _, one in points]
    axes.errorbar([x for x, _ in points], middles, label=label, markevery=every, **look)
    for (x, one), middle in zip(points, middles, strict=True):
        hover(
            axes, x, middle, f"{label}: {texts.number(middle) if medians else texts.measured(one)}"
        )
    _repeats(axes, points, look["color"], intervals=not medians)


def hover(axes: Axes, x: float, y: float, words: str) -> None:
    """Return a point words that a browser shows beneath the pointer: see svg_of()."""
    axes.plot([x], [y], "o", markersize=12, alpha=0, gid=f"{_HOVER}{words}")


def lines(
    title: str,
    x: str,
    y: str,
    named: Mapping[str, Sequence[tuple[float, Sample]]],
    scale: Callable[[Axes], None],
    columns: int = 2,
    *,
    medians: bool = False,
) -> Figure:
    """Plot lines by their labels; `scale` sets the axes up, when all is drawn."""
    figure, axes = panel(title, x, y)
    for number, (label, points) in enumerate(named.items()):
        if points:
            line(axes, number, label, points, medians=medians)
    scale(axes)
    legend(axes, columns=columns)
    return figure


def write_numbers(axes: Axes, points: Mapping[int, tuple[float, float]], side: int) -> None:
    """Write the numbers of points left (-1) or right (1) of them; those that would overlap, as one.

    A halo of the ground keeps them legible on a line.
    """
    from matplotlib.patheffects import withStroke

    pixels = {number: axes.transData.transform(at) for number, at in points.items()}
    groups: list[list[int]] = []
    for number, at in pixels.items():
        if groups and math.dist(at, pixels[groups[-1][-1]]) < _CLOSE:
            groups[-1].append(number)
        else:
            groups.append([number])
    for group in groups:
        axes.annotate(
            ", ".join(map(str, group)), points[group[-1]], xytext=(7 * side, 4),
            ha="right" if side < 0 else "left", textcoords="offset points", fontsize=8, color=INK,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )  # fmt: skip


def _repeats(
    axes: Axes, points: Sequence[tuple[float, Sample]], colour: str, *, intervals: bool = True
) -> None:
    """Draw each of several repeats as a dot, and 95 % intervals, where there are any, from 0 on."""
    dots = [(x, value) for x, one in points if one.n > 1 for value in one.values]
    axes.plot(
        [x for x, _ in dots], [y for _, y in dots], ".", color=colour, alpha=0.6, markersize=5
    )
    found = [(x, one.mean, one.interval) for x, one in points if intervals and one.interval]
    if found:  # what has none has no caps either
        xs, means, ends = zip(*found, strict=True)
        lows = [mean - max(low, 0) for mean, (low, _) in zip(means, ends, strict=True)]
        highs = [high - mean for mean, (_, high) in zip(means, ends, strict=True)]
        axes.errorbar(xs, means, yerr=[lows, highs], fmt="none", ecolor=colour, capsize=3)


def bars(
    title: str, y: str, groups: Sequence[str], series: Mapping[str, Sequence[Sample | None]]
) -> Figure:
    """Plot bars, a group of one per series, each repeat a dot, with 95 % intervals as above."""
    figure, axes = panel(title, "", y)
    width = 0.8 / len(series)
    for number, (label, samples) in enumerate(series.items()):
        shift = (number - (len(series) - 1) / 2) * width
        points = [(place + shift, one) for place, one in enumerate(samples) if one]
        axes.bar(
            [x for x, _ in points],
            [one.mean for _, one in points],
            width=0.92 * width,
            label=label,
            color=COLOURS[number % len(COLOURS)],
            hatch="//" if number % 2 else None,
            edgecolor="white",
        )
        for x, one in points:
            hover(axes, x, one.mean, f"{label}: {texts.measured(one)}")
        _repeats(axes, points, INK)
    axes.set_xticks(range(len(groups)), [group.replace("-", "\n") for group in groups])
    from_zero(axes)
    if len(series) > 1:
        legend(axes)
    return figure


def ratios(rows: Sequence[tuple[str, Ratio, str]], tolerated: float, what: str = "B / A") -> Figure:
    """Plot ratios with their intervals, a named row each: "worse", "better" or "" tells its mark.

    1 is no difference; grey is what is tolerated on both sides of it.
    """
    figure, (axes,) = panels("", 1, _WIDTH)
    names = [textwrap.fill(name, _NAME) for name, _, _ in rows]
    figure.set_figheight(1.0 + 0.2 * len(rows) + 0.15 * len("\n".join(names).splitlines()))
    axes.axvspan(1 - tolerated, 1 + tolerated, color=PALE, alpha=0.2, linewidth=0)
    axes.axvline(1, color=INK, linestyle=":")
    for at, (name, ratio, says) in enumerate(rows):
        number = ("", "worse", "better").index(says)
        ends = [[abs(end - ratio.value)] for end in ratio.ends]
        axes.errorbar(
            [ratio.value], [at], xerr=ends or None, fmt=MARKERS[number], color=COLOURS[number],
            capsize=3, markersize=6,
        )  # fmt: skip
        hover(axes, ratio.value, at, f"{name}: {ratio.text}")
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    axes.set_xlabel(what)
    return figure


def at_ticks(axes: Axes, ticks: Sequence[float], *, doublings: bool) -> None:
    """Let x have these ticks alone, each as far from the next where they are `doublings`."""
    if doublings:
        axes.set_xscale("log", base=2)
        axes.set_xlabel(f"{axes.get_xlabel()}{_LOG}")
    axes.set_xticks(ticks, [_NUMBERS.format(x=tick) for tick in ticks])
    axes.minorticks_off()
    from_zero(axes)


def logarithmic(axes: Axes) -> None:
    """Make both axes logarithmic, with round numbers; to be called when all is drawn."""
    axes.set_xscale("log")
    _round_numbers(axes.xaxis)
    logarithmic_y(axes)


def logarithmic_y(axes: Axes) -> None:
    """Make the y axis logarithmic, with round numbers; to be called when all is drawn."""
    axes.set_yscale("log")
    _round_numbers(axes.yaxis)


def _round_numbers(axis: Axis) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    low, high = axis.get_view_interval()
    wide = high > 10 * low
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)) if wide else MaxNLocator(4))
    axis.set_major_formatter(_NUMBERS)
    if not axis.get_label_text().endswith(_LOG):
        axis.set_label_text(f"{axis.get_label_text()}{_LOG}")
    axis.set_minor_locator(NullLocator())


def few_ticks(axes: Axes) -> None:
    """Let x have whole ticks that leave room for figures of several digits."""
    axes.locator_params(axis="x", nbins=5, integer=True)


def highest(sample: Sample) -> float:
    """Return the highest that is drawn of a point: a repeat, or the end of its interval."""
    return max(*sample.values, *(sample.interval or sample.values))


def from_zero(axes: Axes, most: float | None = None) -> None:
    """Let y begin at zero, with room above all, or `most`; to be called when all is drawn."""
    axes.set_ylim(0, ROOM * most if most else 1.05 * axes.get_ylim()[1])


def from_origin(axes: Axes) -> None:
    """Let both axes begin at zero, with few ticks along x; to be called when all is drawn."""
    axes.set_xlim(0, 1.05 * axes.get_xlim()[1])
    few_ticks(axes)
    from_zero(axes)


def legend(axes: Axes, columns: int = 2) -> None:
    """Name the lines below the plot, where they hide nothing."""
    figure = axes.get_figure()
    assert figure is not None
    handles, labels = axes.get_legend_handles_labels()
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0)}
    if _has_outside():
        place = {"loc": "outside lower center"}
    figure.legend(handles, labels, ncols=columns, fontsize=9, **place)


def write(plot: Plot, folder: Path, within: Path) -> str:
    """Write a plot as PNG and SVG, as write_whole() does; gives the SVG."""
    drawn = io.BytesIO()
    plot.figure.savefig(drawn, format="png", dpi=150)
    write_whole(folder / f"{plot.name}.png", drawn.getvalue(), within)
    plot.figure.set_layout_engine("none")  # which has done its work
    svg = svg_of(plot.figure, plot.name)
    write_whole(folder / f"{plot.name}.svg", svg, within)
    return svg


def svg_of(figure: Figure, name: str, look: Mapping[Any, Any] | None = None) -> str:
    """Return a figure as SVG: of the same name, the same; `look` is of matplotlib.rcParams."""
    import matplotlib as mpl

    file = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name, **(look or {})}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return re.sub(rf'<g id="{_HOVER}([^"]*)">', r"<g><title>\1</title>", visible(file.getvalue()))


def inline(name: str, svg: str) -> str:
    """Return a plot's SVG as it stands in a page: its ids are its own, its ink is the page's."""
    text = svg[svg.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = text.replace(INK, "currentColor").replace("fill: #ffffff", "fill: none")
    text = text.replace("stroke: #ffffff", "stroke: var(--ground)")
    size = 'role="img" aria-hidden="true" '
    return re.sub(r'<svg (.*?)width="[^"]*"(.*?)height="[^"]*"', rf"<svg {size}\1\2", text, count=1)
