# SPDX-License-Identifier: GPL-2.0-only
"""sweep: every combination of the mount options that people argue about, and the best of them.

They run in a random order. The quick form is half of them: those whose levels' numbers add up to an
even one. Each level of a factor then meets each level of two others equally often.

Factors: direction, sync, mount (hard, soft), buffer (bytes), transfer (MB of 2^20 bytes), and
others that were asked for.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nfsmulti import texts
from nfsmulti.effects import Level, Model
from nfsmulti.lab import LabConfig, Limits
from nfsmulti.report import cells, charts, conditions
from nfsmulti.report.story import (
    Beside,
    Finding,
    Judged,
    Plot,
    Report,
    Section,
    Story,
    Verdict,
    named,
    parts,
    weakest,
)
from nfsmulti.stories import sweep_model, sweep_settings
from nfsmulti.stories.scenario import OWN, CellSpec, OwnPool, Scale, Scenario
from nfsmulti.stories.sweep_model import DIRECTIONS, Direction
from nfsmulti.summary import Cell, Factor, Summary
from nfsmulti.texts import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# --- what runs ---

_MB = 1 << 20
_LINK = 117e6  # bytes/s that a link of 1 Gbit/s leaves
_TINY_TRANSFERS = (1, 2, 4)

_LEVELS: dict[str, Sequence[Factor]] = {
    "direction": ("read", "write"),
    "sync": ("sync", "async"),
    "mount": ("soft", "hard"),
    "buffer": (16384, 32768, 65536, 131072),
}
_TRANSFERS, _QUICK_TRANSFERS = (1024, 2048, 4096), (64, 128, 256)

_PLACES = {"1gbit": LabConfig(addresses=1, limits=Limits(link="1gbit"))}


def _cells(scale: Scale) -> list[CellSpec]:
    return _cells_in("1gbit", scale)


def _own_cells(scale: Scale, pool: OwnPool) -> tuple[list[CellSpec], list[str]]:
    if not pool.urls:
        said = "a kernel mount has the options it was mounted with: give a pool of URLs"
        return [], [said]
    return _cells_in(OWN, scale), []


def _cells_in(place: str, scale: Scale) -> list[CellSpec]:
    transfers = _QUICK_TRANSFERS if scale.quick else _TRANSFERS
    levels = {**_LEVELS, "transfer": _TINY_TRANSFERS if scale.cell_seconds else transfers}
    numbered = itertools.product(*(range(len(values)) for values in levels.values()))
    return [
        _cell(place, {name: levels[name][i] for name, i in zip(levels, numbers, strict=True)})
        for numbers in numbered
        if not scale.quick or sum(numbers) % 2 == 0
    ]


def _cell(place: str, factors: dict[str, Factor]) -> CellSpec:
    size = int(factors["transfer"]) * _MB
    buffer, reading = factors["buffer"], factors["direction"] == "read"
    return CellSpec(
        factors=factors,
        place=place,
        jobfile="sweep.fio",
        options={
            "rw": factors["direction"],
            "bs": buffer,
            "rsize": buffer,
            "wsize": buffer,
            "size": size,
            "sync": int(factors["sync"] == "sync"),
            str(factors["mount"]): 1,
        },
        seconds=size / _LINK,
        files={"sweep": size} if reading else {},
    )


# --- what it tells ---

_IN_TURN = (
    "The setting {} changes between whole blocks of cells, so its own effect is tested between"
    " blocks, paired by repeat, and its interactions between cells. One repeat cannot show such an"
    " effect: p is 1 there."
)
_BY_CONSTRUCTION = (
    "Where all levels that are compared fill the lab's link to nine tenths or more, that they are"
    " alike is reproduced by construction: the link lets none be faster."
)
_LEFT_OUT = "The model of {}s leaves out {}: it needs the same levels of {} in each repeat."
_TOP = 30
_FACTORS = ("direction", "sync", "mount", "buffer", "transfer")
_OURS = "ours: mean of all settings"
_COLUMNS = {"direction": "Direction", "sync": "Sync", "mount": "Mount"}
_READS = ((131072, 118), (65536, 117), (32768, 117))  # buffer, MB/s
_READ_TIMES = ((1024, "9.137 s"), (2048, "18.274 s"), (4096, "36.547 s"))
_BEST_WRITE, _THIRTIETH_WRITE = 84.1, 82.5


def beside(summary: Summary) -> list[Beside]:
    """Give the published figures beside ours, once for each combination of further factors."""
    return [
        dataclasses.replace(row, figure=named(row.figure, levels))
        for levels, part in parts(_FACTORS, summary)
        for row in _beside(part)
    ]


def _beside(summary: Summary) -> list[Beside]:
    """Give the published figures beside ours; ratios are to buffers of 131072."""
    reads = {size: cells.planned(summary, direction="read", buffer=size) for size, _ in _READS}
    rows = []
    for buffer, theirs in _READS:
        found, largest = reads[buffer], reads[131072]
        rate = cells.sample(found, cells.bandwidth)
        rows.append(
            Beside(
                f"{'best ' if buffer == 131072 else ''}read, buffers of {buffer}; {_OURS}",
                f"{theirs} MB/s",
                texts.mean(rate, "MB/s", 1e6),
                rate,
                None if buffer == 131072 else theirs / 118,
                None if buffer == 131072 else cells.ratio(found, largest, cells.bandwidth),
            )
        )
    for transfer, theirs_time in _READ_TIMES:
        found = cells.having(summary, direction="read", buffer=131072, transfer=transfer)
        time = cells.sample(found, _seconds)
        rows.append(
            Beside(
                f"read of {transfer} MB, buffers of 131072",
                theirs_time,
                texts.mean(time, "s"),
                time,
            )
        )
    return [*rows, *_writes(summary)]


def _seconds(cell: Cell) -> float | None:
    """Give the time of one transfer; a cell that was lengthened makes several."""
    longest = max((side.seconds for side in cells.sides(cell)), default=None)
    return longest / cell.times if longest else None


def _writes(summary: Summary) -> list[Beside]:
    ranked = _ranked(summary, "write")
    best = ranked[0] if ranked else []
    thirtieth = ranked[_TOP - 1] if len(ranked) >= _TOP else []
    rate, last = (cells.sample(found, cells.bandwidth) for found in (best, thirtieth))
    return [
        Beside(
            "best write (published: soft, sync, 65536, 1024 MB in 12.76 s)",
            f"{_BEST_WRITE} MB/s",
            texts.mean(rate, "MB/s", 1e6),
            rate,
        ),
        Beside(
            "the 30th best write, to the best",
            f"{_THIRTIETH_WRITE} MB/s",
            texts.mean(last, "MB/s", 1e6),
            last,
            _THIRTIETH_WRITE / _BEST_WRITE,
            cells.ratio(thirtieth, best, cells.bandwidth),
        ),
    ]


def _words(cell: Cell) -> str:
    return ", ".join(
        str(value) if name in ("sync", "mount") else f"{name} {value}"
        for name, value in cell.factors.items()
        if name != "direction"
    )


def _ranked(summary: Summary, direction: str) -> list[list[Cell]]:
    """Give the repeats of each combination of factors, the fastest first."""

    def speed(group: list[Cell]) -> float:
        rate = cells.sample(group, cells.bandwidth)
        return rate.mean if rate else 0.0

    groups = cells.by_name(cells.having(summary, direction=direction))
    return sorted(groups.values(), key=speed, reverse=True)


def findings(summary: Summary) -> list[Finding]:
    """Judge the plateau of each direction, and that sync and mount matter little."""
    directions = {name: sweep_model.direction_of(summary, name) for name in DIRECTIONS}
    link = _link(summary)
    found = [
        _plateau(name, theirs, directions[name], link)
        for name, theirs in (("read", "117, 117, 118 MB/s"), ("write", "flat"))
    ]
    judged = [
        sweep_model.on_link(sweep_model.mattering_little(one, factor), one, factor, link)
        for factor in ("sync", "mount")
        for one in directions.values()
        if one
    ]
    lowest = weakest(judged or [Judged(Verdict.INCONCLUSIVE, "not measured")])
    least_clear = Judged(
        lowest.verdict, "the weakest verdict of four: sync and mount, reads and writes"
    )
    ours = lowest.why if judged else texts.MISSING
    return [*found, Finding("sync or async, soft or hard", "matter little", ours, least_clear)]


def _link(summary: Summary) -> float | None:
    """Give what the lab's own link carries, in bytes/s; None on a user's pool."""
    rate = conditions.limits(summary, "1gbit").get("link")
    return texts.parse_rate(rate) / 8 if rate else None


def _plateau(name: str, theirs: str, direction: Direction | None, link: float | None) -> Finding:
    found = sweep_model.plateau(direction) if direction else None
    ratios = [f"{buffer}: {one.text}" for buffer, one in found.ratios.items()] if found else []
    return Finding(
        f"{name}s are flat for buffers from 32768 up",
        theirs,
        ", ".join(ratios) or texts.MISSING,
        sweep_model.on_link(found.judged, direction, "buffer", link, sweep_model.KNEE)
        if found and direction
        else Judged(Verdict.INCONCLUSIVE, "too few runs, or buffers"),
    )


def tell(summary: Summary) -> Story:
    """Tell which settings are the best here, and which matter at all."""
    found = [sweep_model.direction_of(summary, name) for name in DIRECTIONS]
    directions = [one for one in found if one]
    of_server = sweep_model.setting_of(summary)
    return Story(
        answer=_answer(summary, directions),
        sections=[
            *(_effects_section(one) for one in directions),
            Section(
                f"The best {_TOP}",
                tables=[_top_table(summary, one) for one in directions],
            ),
        ],
        reading=[
            "Transfer Size is in MB of 2^20 bytes, as the original has it; Transfer Speed is in"
            " MB/s of 10^6 bytes, the mean of n runs; Buffer Size is rsize and wsize.",
            "The model is least squares on the logarithm of the speed, so effects are ratios."
            " Repeats are its blocks: what changes from one to the next does not count."
            " Partial η² is the part of the variance that a factor accounts for, without that of"
            " all others. Two-way interactions are in the model where the runs can tell them"
            " apart from all others.",
            "A factor is said to matter where p, by Holm's correction, is below 0.05 and its best"
            " level is 2 % or more above its worst; to matter little where two one-sided tests"
            " (TOST) put each of its levels within 2 % of every other, p below 0.05. All else is"
            " inconclusive: finding no difference shows nothing. A factor of an interaction that"
            " matters is named only there.",
            *([_IN_TURN.format(of_server)] if of_server else []),
            *(
                _LEFT_OUT.format(one.name, texts.several(one.left_out), of_server)
                for one in directions
                if one.left_out
            ),
            "A plateau is shown where two one-sided tests (TOST) put every buffer from 32768 up"
            " within 5 % of 32768, p below 0.05.",
            *([_BY_CONSTRUCTION] if _link(summary) else []),
        ],
        ending=[_conclusion(directions), sweep_settings.section(directions, of_server)],
    )


def _answer(summary: Summary, directions: list[Direction]) -> list[str]:
    best = []
    for one in directions:
        group = _ranked(summary, one.name)[0]
        rate = cells.sample(group, cells.bandwidth)
        best.append(f"the best {one.name} is {texts.mean(rate, 'MB/s', 1e6)} ({_words(group[0])})")
    words = f"Here {texts.several(best)}; published: 118 MB/s read and 84.1 MB/s written."
    flat: dict[bool, list[str]] = {True: [], False: []}
    for one in directions:
        if found := sweep_model.plateau(one):
            flat[found.flat].append(f"{one.name}s")
    if flat[True]:
        words += f" The plateau from buffers of 32768 up appears for {texts.several(flat[True])}."
    if flat[False]:
        words += f" The plateau is not shown for {texts.several(flat[False])}."
    told = [sweep_model.in_short(one) for one in directions]
    return [words, " ".join(told)]


def _plateaus(directions: list[Direction]) -> list[str]:
    found = [(one.name, sweep_model.plateau(one)) for one in directions]
    return [
        one.text if one else f"Whether {name}s have a plateau from 32768 up is unknown."
        for name, one in found
    ]


def _conclusion(directions: list[Direction]) -> Section:
    """End with what was published as the conclusion, and whether it holds here."""
    words = [
        "Published: flat for buffers from 32768 up; sync or async, soft or hard matter little."
    ]
    words += _plateaus(directions)
    return Section("Conclusion", words)


def _effects_section(direction: Direction) -> Section:
    model = direction.model
    if model is None:
        return Section(f"What matters for {direction.name}s", [sweep_model.what_matters(direction)])
    words = []
    if not model.interactions:
        words.append("These runs cannot tell interactions apart: the model has main effects alone.")
    elif len(model.interactions) < math.comb(len(direction.levels), 2):
        told = texts.several([" with ".join(pair) for pair in model.interactions])
        words.append(f"The interactions that these runs tell apart from all others are {told}.")
    plots: list[Plot] = [_main_effects(direction)]
    pairs = _interactions(direction)
    return Section(
        f"What matters for {direction.name}s",
        [sweep_model.what_matters(direction), *words],
        [sweep_model.anova(direction)],
        [*plots, pairs] if pairs else plots,
    )


def _top_table(summary: Summary, direction: Direction) -> Table:
    extras = [name for name in direction.factors if name not in (*_COLUMNS, "buffer", "transfer")]
    rows = []
    for group in _ranked(summary, direction.name)[:_TOP]:
        factors = group[0].factors
        rate, time = (cells.sample(group, measure) for measure in (cells.bandwidth, _seconds))
        rows.append([
            *(str(factors.get(name, texts.MISSING)) for name in ("direction", "sync")),
            "tcp",
            str(factors.get("mount", texts.MISSING)),
            *(str(factors.get(name, texts.MISSING)) for name in extras),
            *(str(factors.get(name, texts.MISSING)) for name in ("buffer", "transfer")),
            texts.mean(time, "s"), texts.mean(rate, "MB/s", 1e6), texts.cv(rate), texts.count(rate),
        ])  # fmt: skip
    headings = [
        "Direction", "Sync", "Protocol", "Mount", *extras, "Buffer Size", "Transfer Size",
        "Transfer Time", "Transfer Speed", "CV %", "n",
    ]  # fmt: skip
    title = f"{direction.name.capitalize()}s, the best {len(rows)}"
    return Table(headings, rows, title, text_columns=4 + len(extras))


# --- its plots ---

_PANEL_WIDTH = 2.6  # inches
_PANELS_A_ROW = 3


def _main_effects(direction: Direction) -> Plot:
    """Draw each level's mean speed, over all other factors, with its 95 % interval."""
    title = f"Main effects, {direction.name}s"
    figure, panels = charts.panels(title, [len(direction.levels)], _PANEL_WIDTH)
    for axes, name in zip(panels, direction.levels, strict=True):
        _draw(axes, direction, name, 0, {})
        assert direction.model is not None
        axes.axhline(_speed(direction.model, {}), color=charts.PALE, linewidth=1, linestyle=":")
        axes.set_xlabel(_label(name))
    panels[0].set_ylabel("MB/s, geometric mean")
    charts.from_zero(panels[0])
    caption = (
        f"{direction.name.capitalize()}s: mean speed at each level, over all levels of the other"
        " factors, with its 95 % interval; dotted: over all."
    )
    return Plot(f"main-effects-{direction.name}", caption, figure, wide=True)


def _interactions(direction: Direction) -> Plot | None:
    """Draw the mean speed of each pair of factors whose interaction is in the model, if any."""
    model = direction.model
    if model is None or not model.interactions:
        return None
    pairs = model.interactions
    rows = [min(_PANELS_A_ROW, len(pairs) - start) for start in range(0, len(pairs), _PANELS_A_ROW)]
    figure, panels = charts.panels(f"Interactions, {direction.name}s", rows, 1.25 * _PANEL_WIDTH)
    for axes, (one, other) in zip(panels, pairs, strict=True):
        across, lines = sorted((one, other), key=lambda name: -len(direction.levels[name]))
        for number, level in enumerate(direction.levels[lines]):
            _draw(axes, direction, across, number, {lines: level})
        axes.set_xlabel(_label(across))
        axes.set_ylabel("MB/s")
        axes.legend(title=lines, fontsize=8, title_fontsize=8, loc="lower right")
    charts.from_zero(panels[0])
    caption = (
        f"{direction.name.capitalize()}s: mean speed of two factors together, with 95 % intervals."
        " Parallel lines mean that the factors do not change each other's effect."
    )
    return Plot(f"interactions-{direction.name}", caption, figure, wide=True)


def _draw(
    axes: Axes, direction: Direction, name: str, number: int, fixed: dict[str, Level]
) -> None:
    """Draw a line over the levels of one factor, named by the one that is `fixed`, if any."""
    assert direction.model is not None
    levels = direction.levels[name]
    label = next(iter(fixed.values()), None)
    speeds, lows, highs = [], [], []
    for level in levels:
        estimate = direction.model.mean({**fixed, name: level})
        low, high = estimate.interval or (estimate.value, estimate.value)
        speeds.append(_megabytes(estimate.value))
        lows.append(speeds[-1] - _megabytes(low))
        highs.append(_megabytes(high) - speeds[-1])
    style = charts.style(number)
    places = range(len(levels))
    axes.errorbar(places, speeds, yerr=[lows, highs], label=label, **style)
    axes.set_xticks(places, [str(level) for level in levels])
    if max(len(str(level)) for level in levels) > 5:
        axes.tick_params(axis="x", labelsize=0.8 * charts.FONT_SIZE)
    axes.margins(x=0.2)


def _speed(model: Model, levels: dict[str, Level]) -> float:
    return _megabytes(model.mean(levels).value)


def _megabytes(log: float) -> float:
    return math.exp(log) / 1e6


def _label(name: str) -> str:
    return {"buffer": "buffer, bytes", "transfer": "transfer, MB"}.get(name, name)


_REPORT = Report(
    title="sweep: every mount option against every other",
    publication=(
        "Published: a full factorial of read and write, sync and async, soft and hard, rsize ="
        " wsize of 16384 to 131072 and transfers of 1024, 2048 and 4096 MB, over TCP and 1 Gbit/s"
        " Ethernet. Best read 118 MB/s (buffers of 131072; 117 MB/s with 65536 and 32768), best"
        " write 84.1 MB/s (soft, sync, 65536). Flat for buffers from 32768 up; sync or async, soft"
        " or hard mattered little. Settings are often published; this finds yours."
    ),
    factors=None,
    beside=beside,
    tell=tell,
    findings=findings,
)

SWEEP = Scenario(
    "sweep",
    _PLACES,
    _cells,
    _own_cells,
    report=_REPORT,
    lengthens=False,
)
