# SPDX-License-Identifier: GPL-2.0-only
"""Cells that belong together, and the figures that are taken of them, one per repeat."""

import itertools
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from nfsmulti import texts
from nfsmulti.report import measures
from nfsmulti.report.measures import MEASURES, PARTS, WAYS, Measure, Take, latency_us, sides
from nfsmulti.stats import Ratio, Sample, by_repeat, mean_us, merged, percentile_us
from nfsmulti.summary import Cell, Factor, Summary


def in_lab(summary: Summary) -> bool:
    """Whether a lab's own servers were measured: this machine's package is what they run."""
    kind = str(summary.place.get("kind")).split()
    return "lab" in kind or " lab exec " in summary.command


def varying(found: Iterable[Cell]) -> list[str]:
    """Name the factors of which cells have several levels."""
    every = list(found)
    factors = dict.fromkeys(name for cell in every for name in cell.factors)
    return [name for name in factors if len({cell.factors.get(name) for cell in every}) > 1]


def text(factors: Mapping[str, Factor]) -> str:
    """Return factors as one reads them: "client capped, streams 4"."""
    return ", ".join(f"{name} {value}" for name, value in factors.items())


def told(cell: Cell, names: Iterable[str]) -> dict[str, Factor]:
    """Return a cell's levels of these factors; instead of nconnect all connections, where known."""
    found: dict[str, Factor] = {}
    for name in (name for name in names if name in cell.factors):
        level = cell.factors[name]
        counts = cell.connections is not None and name in ("nconnect", "connections")
        if counts and not isinstance(level, str):
            level, kept = cell.connections or level, level
            if "connections" in found:  # both are factors: only both tell one cell from another
                found["nconnect"] = kept
            name = "connections"
        found[name] = level
    return found


_COUNTED = {
    "jobs": "job", "connections": "connection", "streams": "stream", "paths": "path",
    "clients": "client",
}  # fmt: skip
# Of a factor with such levels its name says what they mean.
_SWITCH = {"on", "off", "yes", "no", "none", "True", "False"}


def words(factors: Mapping[str, Factor], names: Mapping[str, str] | None = None) -> str:
    """Return factors as a page does: "capped, 1 job, 4 connections".

    `names` has the words of levels, and of all levels of a factor: "{} busy neighbours".
    """
    found, own = list[str](), names or {}
    for name, level in factors.items():
        at = own[name].format(level) if name in own else own.get(str(level), str(level))
        if name in _COUNTED and at.isdecimal():
            found.append(texts.counted(int(at), _COUNTED[name]))
        elif name == "version":
            found.append(f"NFSv{at}")
        else:
            is_word = re.search("[A-Za-z]", at) and at not in _SWITCH
            found.append(at if is_word else f"{name} {at}")
    return ", ".join(found)


def by_name(
    found: Sequence[Cell], name: Callable[[Cell], str] | None = None
) -> dict[str, list[Cell]]:
    """Return the cells by `name`, sorted: numbers in names by size.

    Without it they are named by the factors in which they differ, else by all.
    """
    told, groups = varying(found), dict[str, list[Cell]]()
    for cell in found:
        differing = {one: at for one, at in cell.factors.items() if one in told}
        own = name(cell) if name else text(differing or cell.factors) or cell.id
        groups.setdefault(own, []).append(cell)

    def by_words_and_numbers(one: str) -> list[tuple[int, str]]:
        return [(int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", one)]

    return {one: groups[one] for one in sorted(groups, key=by_words_and_numbers)}


def at(found: Iterable[Cell], levels: Mapping[str, Factor]) -> list[Cell]:
    """Return the cells that have these levels of these factors."""
    return [cell for cell in found if levels.items() <= cell.factors.items()]


def given(cell: Cell) -> dict[str, list[str]]:
    """Return what fio's command line says, by option: sections may give one several times."""
    words = itertools.dropwhile(
        lambda word: Path(word).name != "fio", texts.command_words(cell.command)
    )
    found: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            found.setdefault(name, []).append(value)
    return found


def levels(cells: Iterable[Cell], factor: str) -> list[Factor]:
    """Return each value of a factor once: numbers by size, names in the order of first use."""
    found = list(dict.fromkeys(cell.factors[factor] for cell in cells if factor in cell.factors))
    if all(isinstance(value, int | float) for value in found):
        return sorted(found, key=float)
    return found


def sample(cells: Iterable[Cell], measure: Take) -> Sample | None:
    """Take each cell; those that lack the figure, or are not done, are left out."""
    values = (measure(cell) for cell in cells if cell.status == "done")
    return Sample.of(value for value in values if value is not None)


_Key = frozenset[tuple[str, Factor]]


def ratio(
    over: Iterable[Cell],
    under: Iterable[Cell],
    measure: Take,
    *,
    each_pair: bool = False,
) -> Ratio | None:
    """Return a figure's ratio, paired by repeat; None where no repeat has it on both sides.

    Cells are alike that differ only in factors of which each side has one level. Of a repeat those
    count, by their geometric mean, that are done and have the figure, above 0, and their like. In
    fractions of a factorial no cell may have its like: then repeats count in which all cells that
    are given have the figure. Give all that are planned there: one that failed spoils its repeat.
    With `each_pair` the pairs of a repeat count one by one, and not together.
    """
    sides = [*over], [*under]
    varied = {*varying(sides[0]), *varying(sides[1])}
    blocks = [figures_by_repeat(side, measure, varied) for side in sides]
    whole = [{_key(cell, varied) for cell in side} for side in sides]
    if not whole[0] & whole[1]:
        blocks = [
            {
                repeat: {_Key(): statistics.geometric_mean(found.values())}
                for repeat, found in block.items()
                if found.keys() == every
            }
            for block, every in zip(blocks, whole, strict=True)
        ]
    logs: dict[_Key, dict[int, float]] = {}
    for repeat in sorted(blocks[0].keys() & blocks[1].keys()):
        one, other = (block[repeat] for block in blocks)
        for key in (at for at in one if at in other):
            logs.setdefault(key, {})[repeat] = math.log(one[key] / other[key])
    pairs = [log for of in logs.values() for log in of.values()] if each_pair else []
    return Ratio.of_logs(pairs or by_repeat(logs.values())) if logs else None


def _key(cell: Cell, varied: Collection[str]) -> _Key:
    return _Key((name, at) for name, at in cell.factors.items() if name in varied)


def figures_by_repeat(
    cells: Iterable[Cell], measure: Take, varied: Collection[str]
) -> dict[int, dict[_Key, float]]:
    """Return the figures of each repeat, by the factors that are varied."""
    found: dict[int, dict[_Key, float]] = {}
    for cell in cells:
        if cell.status == "done" and (value := measure(cell)) is not None and value > 0:
            found.setdefault(cell.repeat, {})[_key(cell, varied)] = value
    return found


def cpu_measure(run: Iterable[Cell]) -> Measure:
    """Return how CPU time per I/O is taken: the machine's where a cell has it, else of fio's jobs.

    The two are never taken together: a ratio of one to the other says nothing.
    """
    return measures.MACHINE_CPU if any(map(measures.MACHINE_CPU, run)) else measures.JOBS_CPU


# The part of the processors from which on other programs' work is told, and a reason for doubt.
DISTURBED = 0.1
# The part of a run's cells that are disturbed, from which on that holds for the run.
_DISTURBED_RUN = 0.25


def disturbed(cell: Cell) -> bool:
    """Whether other programs were at work right before a cell; not where that was not taken."""
    return (cell.others_busy or 0.0) >= DISTURBED


def others_busy(done: Sequence[Cell]) -> float | None:
    """Return the part of the processors that other programs had before disturbed cells.

    The median of these; None where fewer than a quarter of a run's cells were disturbed.
    """
    found = [cell.others_busy or 0.0 for cell in done if disturbed(cell)]
    return statistics.median(found) if found and len(found) >= _DISTURBED_RUN * len(done) else None


def percentile_of(cells: Iterable[Cell], percent: float, *ways: str) -> float | None:
    """Return a percentile of clat of several cells together, of all directions or some, in µs."""
    return latency_us([side for cell in cells for side in sides(cell, *ways)], percent)


def pooled_ms(cells: Iterable[Cell], name: str) -> float | None:
    """Return the same by the name of its measure, such as "read p99 ms"."""
    *ways, percent, _ = name.split()
    us = percentile_of(cells, float(percent[1:]), *ways)
    return us and us / 1000


# --- whose a response is, where the kernel stamped replies, or counted calls of mounts ---


def parts(found: Iterable[Cell]) -> dict[str, Counter[int]]:
    """Return the bins of lag, service and wake-up of cells together; {} unless all have them."""
    told = [cell.parts for cell in found]
    if not told or None in told:
        return {}
    return {name: merged(getattr(one, name) for one in told) for name in PARTS}


def wake_up(found: Collection[Cell]) -> str:
    """Say what this client itself adds to replies: "wake-up p99 0.04 ms"; "" where none knows."""
    us = percentile_us(parts(found).get("wake_up", {}), 99)
    return mounted(found) if us is None else f"wake-up p99 {texts.number(us / 1000)} ms"


def mounted(found: Collection[Cell]) -> str:
    """Say how long mounts' calls took, "READ mean: lag 0.1 ms, …"; "" unless all cells know."""
    said = []
    for way in WAYS:
        each = {name: sample(found, MEASURES[f"{way} {name} ms"]) for name in PARTS.values()}
        words = [
            f"{name} {texts.number(one.median)} ms"
            for name, one in each.items()
            if one and one.n == len(found)
        ]
        said += [f"{way.upper()} mean: {', '.join(words)}"] * bool(words)
    return "; ".join(said)


def whose(found: Sequence[Cell]) -> tuple[float, str]:
    """Return this client's part of the mean from sending to taking a reply, and words of it.

    They are those of the engine's last lines, medians of the cells; 0 and "" where no stamps tell.
    """
    if not (each := [bins for cell in found if (bins := parts([cell]))]):
        return 0.0, ""
    means = [[mean_us(bins[name]) or 0.0 for name in ("service", "wake_up")] for bins in each]
    added = statistics.median(own / (service + own or 1.0) for service, own in means)
    said = [
        f"{name} p99 {texts.number(one.median)} ms"
        for name in ("service", "wake-up")
        if (one := sample(found, MEASURES[f"{name} p99 ms"]))
    ]
    return added, f"{', '.join(said)}: this client adds {100 * added:.2g} % of the mean"


# I/Os that must have taken longer, for a percentile to be told.
BEYOND = 10


def enough(ops: int, percent: float) -> bool:
    """Tell whether so many I/Os can tell a percentile."""
    return ops * (100 - percent) >= BEYOND * 100 - 1e-6


def bins_us(bins: Counter[int], percent: float) -> float | None:
    """Return a percentile of bins in µs, where enough I/Os lie beyond it."""
    return percentile_us(bins, percent) if enough(bins.total(), percent) else None


def told_us(found: Iterable[Cell], percent: float, *ways: str) -> float | None:
    """Return the same of clat, of all directions or some."""
    figures = [side for cell in found for side in sides(cell, *ways)]
    ops = sum(side.ops for side in figures)
    return latency_us(figures, percent) if enough(ops, percent) else None


def by_count(found: Sequence[Cell], factor: str) -> dict[int, list[Cell]]:
    """Group cells by a factor that counts something, by size.

    Where some cells use fewer `paths` than others, nconnect counts the connections on all of them.
    """
    over_paths = factor == "nconnect" and any("paths" in cell.factors for cell in found)
    groups: dict[int, list[Cell]] = {}
    for cell in found:
        level = int(cell.factors[factor])
        groups.setdefault(level * max(1, len(cell.paths)) if over_paths else level, []).append(cell)
    return dict(sorted(groups.items()))
