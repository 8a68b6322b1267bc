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
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nfsmulti import texts
from nfsmulti.lab import LabConfig, Limits
from nfsmulti.paths import as_typed
from nfsmulti.report import cells, charts, conditions
from nfsmulti.report.answer import MOST_ROWS, Answer
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
from nfsmulti.stories import effects
from nfsmulti.stories.effects import DIRECTIONS, Direction
from nfsmulti.stories.scenario import OWN, CellSpec, OwnPool, Scale, Scenario
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
        files={"nfsmulti-sweep": size} if reading else {},
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
        rate, largest = cells.sample(reads[buffer], cells.bandwidth), buffer == 131072
        what = f"{'best ' if largest else ''}read, buffers of {buffer}; {_OURS}"
        wanted = None if largest else theirs / 118
        ratio = None if largest else cells.ratio(reads[buffer], reads[131072], cells.bandwidth)
        ours = texts.mean(rate, "MB/s", 1e6)
        rows.append(Beside(what, f"{theirs} MB/s", ours, wanted, ratio))
    for transfer, seconds in _READ_TIMES:
        found = cells.having(summary, direction="read", buffer=131072, transfer=transfer)
        time = cells.sample(found, _seconds)
        what = f"read of {transfer} MB, buffers of 131072"
        rows.append(Beside(what, seconds, texts.mean(time, "s")))
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
    what = "best write (published: soft, sync, 65536, 1024 MB in 12.76 s)"
    first = Beside(what, f"{_BEST_WRITE} MB/s", texts.mean(rate, "MB/s", 1e6))
    what, theirs = "the 30th best write, to the best", f"{_THIRTIETH_WRITE} MB/s"
    ratio = cells.ratio(thirtieth, best, cells.bandwidth)
    ours, wanted = texts.mean(last, "MB/s", 1e6), _THIRTIETH_WRITE / _BEST_WRITE
    return [first, Beside(what, theirs, ours, wanted, ratio)]


def _words(factors: Mapping[str, Factor]) -> str:
    """Write levels as one reads them, without the direction."""
    return ", ".join(
        str(value) if name in ("sync", "mount") else f"{name} {value}"
        for name, value in factors.items()
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
    directions = {name: effects.direction_of(summary, name) for name in DIRECTIONS}
    link, published = _link(summary), {"read": "117, 117, 118 MB/s", "write": "flat"}
    found = [_plateau(name, published[name], one, link) for name, one in directions.items()]
    judged = [
        effects.on_link(effects.mattering_little(one, factor), one, factor, link)
        for factor in ("sync", "mount")
        for one in directions.values()
        if one
    ]
    lowest = weakest(judged or [Judged(Verdict.NOT_MEASURED, "neither was run")])
    ours = lowest.why if judged else texts.MISSING
    four = Judged(lowest.verdict, "the weakest verdict of four: sync and mount, reads and writes")
    least_clear = four if judged else lowest
    return [*found, Finding("sync or async, soft or hard", "matter little", ours, least_clear)]


def _link(summary: Summary) -> float | None:
    """Give what the lab's own link carries, in bytes/s; None on a user's pool."""
    rate = conditions.limits(summary, "1gbit").get("link")
    return texts.parse_rate(rate) / 8 if rate else None


def _plateau(name: str, theirs: str, direction: Direction | None, link: float | None) -> Finding:
    what = f"{name}s are flat for buffers from 32768 up"
    found = effects.plateau(direction) if direction else None
    if not direction or not found:
        judged = Judged(Verdict.NOT_MEASURED, "too few runs, or buffers")
        return Finding(what, theirs, texts.MISSING, judged)
    ratios = ", ".join(f"{buffer}: {one.text}" for buffer, one in found.ratios.items())
    judged = effects.on_link(found.judged, direction, "buffer", link, effects.KNEE)
    return Finding(what, theirs, ratios, judged)


def tell(summary: Summary) -> Story:
    """Tell which settings are the best here, and which matter at all."""
    found = [effects.direction_of(summary, name) for name in DIRECTIONS]
    directions = [one for one in found if one]
    of_server = effects.setting_of(summary)
    return Story(
        answer=_answer(summary, directions),
        sections=[
            Section(
                "Plots",
                plots=[plot for one in directions for plot in _plots(one)],
                folded=not any(one.model and one.mattering for one in directions),
            ),
            Section(
                "Analysis of variance",
                [
                    f"{one.name.capitalize()}s: none, {one.why_none}."
                    for one in directions
                    if not one.model
                ],
                [effects.anova(one) for one in directions if one.model],
                folded=True,
            ),
        ],
        reading=[
            "The span is by how much the best level of a setting exceeds its worst. File size, or"
            " transfer, is in MB of 2^20 bytes, as the original has it; buffer is rsize and wsize.",
            _MEASURED,
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
        ending=[_best_section(directions, of_server)],
    )


def _answer(summary: Summary, directions: list[Direction]) -> Answer:
    """Tell the best of each direction, and what each setting is worth."""
    names: dict[str, list[str]] = {}
    for one in directions:
        rate = cells.sample(_ranked(summary, one.name)[0], cells.bandwidth)
        names.setdefault(texts.mean(rate, "MB/s", 1e6), []).append(f"{one.name}s")
    rates = texts.several([f"{rate} {texts.several(those)}" for rate, those in names.items()])
    known = [one for one in directions if one.model]
    matter = dict.fromkeys(
        _label(name) for one in known for e in one.mattering for name in e.factors
    )
    end = "too few runs to tell what matters"
    if known:
        end = (
            f"what matters is {texts.several([*matter])}"
            if matter
            else "no setting is shown to matter"
        )
    rows = [
        [_label(factor), *(_worth(one, factor) for one in known)]
        for factor in dict.fromkeys(name for one in known for name in one.levels)
    ]
    words, caveats = f"{rates or 'Nothing'} at most; {end}", []
    if known and not matter and not any(_CHANCE in cell for row in rows for cell in row):
        slowest = min(math.exp(min(one.means(name))) for one in known for name in one.levels)
        full = conditions.full_link(summary, "1gbit", slowest)
        words = f"{rates} whatever the setting (within {100 * effects.ALIKE:g} %){full}"
        caveats = ["A faster link may show differences."] if full else []
    table = Table(["best to worst", *(f"{one.name}s" for one in known)], rows[:MOST_ROWS])
    return Answer(f"{words}.", table, caveats)


_CHANCE = "may be chance"


def _worth(direction: Direction, factor: str) -> str:
    """Say by how much a factor's best level exceeds its worst, and whether that is shown."""
    if factor not in direction.levels:
        return texts.MISSING
    told = _CHANCE
    if any(factor in effect.factors for effect in direction.mattering):
        told = "matters"
    elif direction.matters_little(factor):
        told = "no effect"
    return f"{100 * (direction.span(factor) - 1):.1f} %, {told}"


def _plots(direction: Direction) -> list[Plot]:
    if direction.model is None:
        return []
    interactions = [_interactions(direction)] if direction.model.interactions else []
    return [_main_effects(direction), *interactions]


# --- its plots ---

_PANEL_WIDTH = 2.6  # inches
_PANELS_A_ROW = 3


def _main_effects(direction: Direction) -> Plot:
    """Draw each level's mean speed, over all other factors, with its 95 % interval."""
    title = f"Main effects, {direction.name}s"
    figure, panels = charts.panels(title, [len(direction.levels)], _PANEL_WIDTH)
    for axes, name in zip(panels, direction.levels, strict=True):
        _draw(axes, direction, name, 0, {})
        mean = _megabytes(direction.fitted.mean({}).value)
        axes.axhline(mean, color=charts.PALE, linewidth=1, linestyle=":")
        axes.set_xlabel(_label(name))
    panels[0].set_ylabel("MB/s, geometric mean")
    charts.from_zero(panels[0])
    caption = (
        f"{direction.name.capitalize()}s: mean speed at each level, over all levels of the other"
        " factors, with its 95 % interval; dotted: over all."
    )
    return Plot(f"main-effects-{direction.name}", caption, figure, wide=True)


def _interactions(direction: Direction) -> Plot:
    """Draw the mean speed of each pair of factors whose interaction is in the model."""
    pairs = direction.fitted.interactions
    rows = [min(_PANELS_A_ROW, len(pairs) - start) for start in range(0, len(pairs), _PANELS_A_ROW)]
    figure, panels = charts.panels(f"Interactions, {direction.name}s", rows, 1.25 * _PANEL_WIDTH)
    for axes, (one, other) in zip(panels, pairs, strict=True):
        across, lines = sorted((one, other), key=lambda name: -len(direction.levels[name]))
        for number, level in enumerate(direction.levels[lines]):
            _draw(axes, direction, across, number, {lines: level})
        axes.set_xlabel(_label(across))
        axes.set_ylabel("MB/s")
        axes.legend(title=_label(lines), fontsize=8, title_fontsize=8, loc="lower right")
    charts.from_zero(panels[0])
    caption = (
        f"{direction.name.capitalize()}s: mean speed of two factors together, with 95 % intervals."
        " Parallel lines mean that the factors do not change each other's effect."
    )
    return Plot(f"interactions-{direction.name}", caption, figure, wide=True)


def _draw(
    axes: Axes, direction: Direction, name: str, number: int, fixed: dict[str, Factor]
) -> None:
    """Draw a line over the levels of one factor, named by the one that is `fixed`, if any."""
    levels = direction.levels[name]
    label = next(iter(fixed.values()), None)
    speeds, lows, highs = [], [], []
    for level in levels:
        estimate = direction.fitted.mean({**fixed, name: level})
        low, high = estimate.interval or (estimate.value, estimate.value)
        speeds.append(_megabytes(estimate.value))
        lows.append(speeds[-1] - _megabytes(low))
        highs.append(_megabytes(high) - speeds[-1])
        words = f"{f'{label}, ' if label else ''}{level}: {speeds[-1]:.1f} MB/s"
        charts.hover(axes, len(speeds) - 1, speeds[-1], words)
    style = charts.style(number)
    places = range(len(levels))
    axes.errorbar(places, speeds, yerr=[lows, highs], label=label, **style)
    axes.set_xticks(places, [str(level) for level in levels])
    if max(len(str(level)) for level in levels) > 5:
        axes.tick_params(axis="x", labelsize=0.8 * charts.FONT_SIZE)
    axes.margins(x=0.2)


def _megabytes(log: float) -> float:
    return math.exp(log) / 1e6


def _label(name: str) -> str:
    """Name a factor for people."""
    return {
        "sync": "sync or async",
        "mount": "hard or soft",
        "buffer": "rsize and wsize",
        "transfer": "file size",
    }.get(name, name)


# --- the best settings, as lines to paste, and what they are worth ---
# One mount serves both directions: rsize is chosen for reads and wsize for writes, all else
# together, by the geometric mean of both directions' speeds. A setting that is not shown to be
# better than its default stays at the default.

_DEFAULTS: dict[str, Factor] = {
    "sync": "async",
    "mount": "hard",
    "spread": "job",
    "stable": "unstable",
    "nconnect": 1,
    "version": 3,
    "nfsvers": 3,
    "proto": "tcp",
}
_STABLE = {"sync": "file_sync", "async": "unstable"}
_SOFT = (
    "The best mount is soft: if a server is silent for longer than timeo and retrans allow, I/O"
    " fails, and nfs(5) warns of lost data. Use hard where data matters."
)
_MEASURED = (
    "The settings were measured with nfsmulti, one request at a time. A kernel mount reads ahead"
    " and writes behind: measure there too."
)
_Settings = dict[str, Factor]


def _best_section(directions: Sequence[Direction], of_server: str) -> Section:
    """Give the best settings as lines to paste. Directions without a model have no say.

    `of_server` is the factor that is the server's setting, and no option of a client.
    """
    judged = [one for one in directions if one.model and one.settings]
    title = "The best settings for this server"
    if not judged:
        return Section(title, ["Too few runs to name any."])
    default = {one.name: _default(one) for one in judged}
    best = _better(judged, _best(judged), default)
    lines = ["# the default", *_lines(default, of_server)]
    if best == default:
        return Section(title, ["No setting is shown to be better than the default."], lines=lines)
    gains = [f"{one.ratio(best[one.name], default[one.name]).text} ({one.name}s)" for one in judged]
    words = [f"{texts.several(gains)} times the default."]
    if any(settings.get("mount") == "soft" for settings in best.values()):
        words.append(_SOFT)
    lines += ["", "# the best as measured, where it is better than the default"]
    return Section(title, words, lines=[*lines, *_lines(best, of_server)])


def _default(direction: Direction) -> _Settings:
    """Give the default among the levels that were run: async, hard, the largest buffer."""
    chosen: _Settings = {}
    for name in direction.settings:
        levels = direction.levels[name]
        first = levels[-1] if name == "buffer" else levels[0]
        chosen[name] = _DEFAULTS[name] if _DEFAULTS.get(name) in levels else first
    return chosen


def _combinations(direction: Direction) -> list[_Settings]:
    names = direction.settings
    levels = [direction.levels[name] for name in names]
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*levels)]


def _best(directions: Sequence[Direction]) -> dict[str, _Settings]:
    """Choose what both directions share together, and a buffer for each."""
    choices: dict[tuple[tuple[str, Factor], ...], dict[str, tuple[float, _Settings]]] = {}
    for direction in directions:
        for settings in _combinations(direction):
            shared = tuple(item for item in settings.items() if item[0] != "buffer")
            speed = direction.fitted.mean(settings).value
            found = choices.setdefault(shared, {})
            if direction.name not in found or speed > found[direction.name][0]:
                found[direction.name] = speed, settings
    most = max(map(len, choices.values()))
    complete = [found for found in choices.values() if len(found) == most]
    chosen = max(complete, key=lambda found: math.fsum(speed for speed, _ in found.values()))
    return {name: settings for name, (_, settings) in chosen.items()}


def _better(
    directions: Sequence[Direction], best: dict[str, _Settings], default: dict[str, _Settings]
) -> dict[str, _Settings]:
    """Keep of the best settings those that are shown to be better than their default.

    What both directions share is kept where it is better for one of them.
    """
    kept: dict[str, set[str]] = {
        one.name: {
            name
            for name, value in default[one.name].items()
            if _is_better(one, best[one.name], {**best[one.name], name: value})
        }
        for one in directions
    }
    shared = set().union(*kept.values()) - {"buffer"}
    return {
        direction: {
            name: value if name in kept[direction] | shared else default[direction][name]
            for name, value in settings.items()
        }
        for direction, settings in best.items()
    }


def _is_better(direction: Direction, settings: _Settings, others: _Settings) -> bool:
    """Tell whether settings are shown to be better; p is corrected for having looked at all."""
    ratio, looked_at = direction.ratio(settings, others), len(_combinations(direction)) - 1
    return ratio.value > 1 and looked_at * (ratio.p or 0.0) < effects.SIGNIFICANT


def _lines(chosen: dict[str, _Settings], of_server: str) -> list[str]:
    """Write settings as a mount line and as the engine's options."""
    shared = next(iter(chosen.values()))
    sizes = [
        f"{option}={chosen[direction]['buffer']}"
        for direction, option in (("read", "rsize"), ("write", "wsize"))
        if "buffer" in chosen.get(direction, {})
    ]
    rest = {name: value for name, value in shared.items() if name not in ("buffer", of_server)}
    version = rest.get("version", rest.get("nfsvers", 3))
    mount = [f"vers={version}", f"proto={rest.get('proto', 'tcp')}", *sizes]
    engine = [f"--{size}" for size in sizes]
    for name, value in rest.items():
        if name == "mount":
            mount.append(str(value))
            engine.append(f"--{value}=1")
        elif name == "sync":
            mount.append(str(value))
            if "stable" not in rest:  # a factor of its own, which says more
                engine.append(f"--stable={_STABLE.get(str(value), value)}")
        else:
            mount += [f"nconnect={value}"] if name == "nconnect" else []
            # fio's command line has a --version of its own.
            engine.append(f"--{'nfsvers' if name == 'version' else name}={value}")
    server = [f"# on the server: {of_server}={shared[of_server]}"] if of_server in shared else []
    return [
        *server,
        f"mount -t nfs -o {','.join(mount)} SERVER:/EXPORT /mnt",
        as_typed("fio --ioengine=external:./build/libnfsmulti.so --pool=nfs://SERVER/EXPORT")
        + f" {' '.join(engine)} JOBFILE",
    ]


_REPORT = Report(
    title="sweep: four mount options against each other",
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

SCENARIO = Scenario("sweep", _PLACES, _cells, _own_cells, report=_REPORT, lengthens=False)
