# SPDX-License-Identifier: GPL-2.0-only
"""A sweep's two plots, after the original's: main effects, and interactions."""

from __future__ import annotations

import itertools
import math

import matplotlib as mpl
from matplotlib.axes import Axes

from nfsmulti.report import charts
from nfsmulti.report.scenarios.sweep_model import Direction
from nfsmulti.report.story import Plot
from nfsmulti.stats.effects import Level, Model

_PANEL_WIDTH = 2.6  # inches
_COLUMNS = 3


def main_effects(direction: Direction) -> Plot:
    """Draw each level's mean speed, over all other factors, with its 95 % interval."""
    model = direction.model
    assert model is not None
    title = f"Main effects, {direction.name}s"
    figure, panels = charts.panels(title, [len(direction.levels)], _PANEL_WIDTH)
    for axes, (name, levels) in zip(panels, direction.levels.items(), strict=True):
        _draw(axes, model, name, levels, {}, 0, None)
        axes.axhline(_speed(model, {}), color=charts.PALE, linewidth=1, linestyle=":")
        axes.set_xlabel(_label(name))
    panels[0].set_ylabel("MB/s, geometric mean")
    charts.from_zero(panels[0])
    caption = (
        f"{direction.name.capitalize()}s: mean speed at each level, over all levels of the other"
        " factors, with its 95 % interval; dotted: over all."
    )
    return Plot(f"main-effects-{direction.name}", caption, figure, wide=True)


def interactions(direction: Direction) -> Plot | None:
    """Draw the mean speed of each pair of factors; None where the model has no interactions."""
    model = direction.model
    if model is None or not model.interactions:
        return None
    pairs = list(itertools.combinations(direction.levels, 2))
    rows = [min(_COLUMNS, len(pairs) - start) for start in range(0, len(pairs), _COLUMNS)]
    figure, panels = charts.panels(f"Interactions, {direction.name}s", rows, 1.25 * _PANEL_WIDTH)
    for axes, (one, other) in zip(panels, pairs, strict=True):
        across, lines = sorted((one, other), key=lambda name: -len(direction.levels[name]))
        for number, level in enumerate(direction.levels[lines]):
            _draw(axes, model, across, direction.levels[across], {lines: level}, number, level)
        axes.set_xlabel(_label(across))
        axes.set_ylabel("MB/s")
        axes.legend(title=lines, fontsize=8, title_fontsize=8, loc="lower right")
    charts.from_zero(panels[0])
    caption = (
        f"{direction.name.capitalize()}s: mean speed of two factors together, with 95 % intervals."
        " Lines that are parallel say that the factors do not change each other's effect."
    )
    return Plot(f"interactions-{direction.name}", caption, figure, wide=True)


def _draw(
    axes: Axes,
    model: Model,
    name: str,
    levels: list[Level],
    fixed: dict[str, Level],
    number: int,
    label: Level | None,
) -> None:
    """Draw a line over the levels of one factor, the others being fixed or averaged."""
    speeds, lows, highs = [], [], []
    for level in levels:
        estimate = model.mean({**fixed, name: level})
        low, high = estimate.interval
        speeds.append(_megabytes(estimate.value))
        lows.append(speeds[-1] - _megabytes(low))
        highs.append(_megabytes(high) - speeds[-1])
    style = charts.style(number)
    places = range(len(levels))
    axes.errorbar(places, speeds, yerr=[lows, highs], label=label, **style)
    axes.set_xticks(places, [str(level) for level in levels])
    if max(len(str(level)) for level in levels) > 5:
        axes.tick_params(axis="x", labelsize=0.8 * mpl.rcParams["font.size"])
    axes.margins(x=0.2)


def _speed(model: Model, levels: dict[str, Level]) -> float:
    return _megabytes(model.mean(levels).value)


def _megabytes(log: float) -> float:
    return math.exp(log) / 1e6


def _label(name: str) -> str:
    return {"buffer": "buffer, bytes", "transfer": "transfer, MB"}.get(name, name)
