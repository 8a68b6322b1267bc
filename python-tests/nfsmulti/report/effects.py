# SPDX-License-Identifier: GPL-2.0-only
"""What a full factorial tells: what each of its settings is worth, and the best level of each.

It is sweep's, whose published figures stand here.
"""

import functools
import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from statistics import geometric_mean

from nfsmulti import texts
from nfsmulti.report import cells, charts, conditions, measures, story
from nfsmulti.report.answer import MOST_ROWS, Answer
from nfsmulti.report.story import Finding, Judged, Plot, Section, Told, Verdict
from nfsmulti.report.told import Run
from nfsmulti.stats import FEWEST, Ratio, Sample, holm
from nfsmulti.story import Beside, Level, Levels
from nfsmulti.summary import Cell, Summary
from nfsmulti.texts import Table

_BY_CONSTRUCTION = (
    "Where all levels that are compared fill the lab's link to nine tenths or more, that they are"
    " alike is reproduced by construction: the link lets none be faster."
)
_TOP = 30
_OURS = "ours: mean of all settings"
_READS = ((131072, 118), (65536, 117), (32768, 117))  # buffer, MB/s
_READ_TIMES = ((1024, "9.137 s"), (2048, "18.274 s"), (4096, "36.547 s"))
_BEST_WRITE, _THIRTIETH_WRITE = 84.1, 82.5


def beside(run: Run) -> list[Beside]:
    """Return the published figures under each further level; ratios are to buffers of 131072."""
    return [
        replace(one, what=story.named(one.what, name))
        for name, further in (run.rows(*run.further) or {"": {}}).items()
        for one in (*_reads(further), *_best_writes(run, further))
    ]


def _reads(further: Levels) -> Iterator[Beside]:
    largest: Levels = {**further, "direction": "read", "buffer": _READS[0][0]}
    for buffer, theirs in _READS:
        at, best = {**largest, "buffer": buffer}, buffer == largest["buffer"]
        what = f"{'best ' * best}read, buffers of {buffer}; {_OURS}"
        ratio, of = (None, None) if best else (theirs / _READS[0][1], largest)
        yield Beside(what, f"{theirs} MB/s", at, ratio, of)
    for transfer, time in _READ_TIMES:
        what = f"read of {transfer} MB, buffers of {largest['buffer']}"
        yield Beside(what, time, {**largest, "transfer": transfer}, ours=_seconds)


def _seconds(run: Run, at: Levels) -> str:
    """Write what a transfer takes; a cell that an earlier version lengthened makes several."""
    each = cells.sample(run.at(at), lambda cell: measures.longest_s(cell) / cell.times or None)
    return texts.mean(each, "s")


def _best_writes(run: Run, further: Levels) -> Iterator[Beside]:
    ranked = [levels for levels, _ in _ranked(run.at(further), "write")]
    best, last = ranked[0] if ranked else None, ranked[_TOP - 1] if len(ranked) >= _TOP else None
    what = "best write (published: soft, sync, 65536, 1024 MB in 12.76 s)"
    yield Beside(what, f"{_BEST_WRITE} MB/s", best)
    what, ratio = "the 30th best write, to the best", _THIRTIETH_WRITE / _BEST_WRITE
    yield Beside(what, f"{_THIRTIETH_WRITE} MB/s", last, ratio, best)


def _ranked(done: Sequence[Cell], direction: str) -> list[tuple[Levels, Sample]]:
    """Return the speed of each combination of factors, the fastest first."""
    groups = cells.by_name(cells.at(done, {"direction": direction})).values()
    found = [(one[0].factors, cells.sample(one, measures.MB_PER_S)) for one in groups]
    rated = [(levels, rate) for levels, rate in found if rate]
    return sorted(rated, key=lambda one: -one[1].mean)


_PLACE = "1gbit"  # the lab's
_SIGNIFICANT = 0.05
_ALIKE = 0.02  # two settings are alike where their speeds differ by less
_FLAT = 0.05  # a plateau's levels differ by less than that
_KNEE = 32768
_FULL = 0.9  # of what a lab's link carries, headers and all
_WIDTH = 2.6  # inches of a plot's panel


class _Speed:
    """One direction's speed, and what its factors are worth: `levels` has those with several."""

    def __init__(self, name: str, summary: Summary):
        self.name, self._cells = name, cells.at(summary.cells, {"direction": name})
        self._in_turn = summary.setting  # in one order in each repeat: whole blocks of cells
        done = [cell for cell in self._cells if cell.status == "done"]
        every = {one: cells.levels(done, one) for one in cells.varying(done)}
        self.levels = {one: found for one, found in every.items() if len(found) > 1}

    def sample(self, levels: Levels) -> Sample | None:
        """Return the geometric mean of their MB/s in each repeat."""
        found = cells.at(self._cells, levels)
        rates = cells.figures_by_repeat(found, measures.MB_PER_S, cells.varying(found))
        return Sample.of(geometric_mean(of.values()) for of in rates.values())

    def means(self, factor: str) -> dict[Level, float]:
        """Return the mean of that at each level of a factor."""
        found = {level: self.sample({factor: level}) for level in self.levels[factor]}
        return {level: one.mean if one else 0.0 for level, one in found.items()}

    def ratio(self, over: Levels, under: Levels) -> Ratio | None:
        """Return the speed at some levels in times that at others, by pairs of cells.

        Of a setting of the server each repeat counts once, since what changes from block to block
        of its cells falls on it alone.
        """
        there, here = (cells.at(self._cells, levels) for levels in (over, under))
        each_pair = over.get(self._in_turn) == under.get(self._in_turn)
        return cells.ratio(there, here, measures.MB_PER_S, each_pair=each_pair)

    def pairs(self, factor: str) -> list[Ratio]:
        """Return the ratios of each two levels of a factor that have one."""
        pairs = itertools.combinations(self.levels[factor], 2)
        found = (self.ratio({factor: one}, {factor: other}) for one, other in pairs)
        return [one for one in found if one]

    def best(self, factor: str) -> Level:
        """Return the best level."""
        means = self.means(factor)
        return max(means, key=lambda level: means[level])

    def span(self, factor: str) -> float:
        """Return by what part the best level exceeds the worst."""
        means = self.means(factor).values()
        return max(means) / min(means) - 1

    @functools.cached_property
    def p(self) -> dict[str, float]:
        """The p of each factor whose levels have intervals, corrected for the number of tests."""
        tested = {
            name: [one.p for one in self.pairs(name) if one.p is not None] for name in self.levels
        }
        least = {name: min(1.0, len(found) * min(found)) for name, found in tested.items() if found}
        return dict(zip(least, holm([*least.values()]), strict=True))

    @property
    def mattering(self) -> list[str]:
        """The factors whose effect is shown, and large enough to care."""
        return [one for one, p in self.p.items() if p < _SIGNIFICANT and self.span(one) >= _ALIKE]

    def matters_little(self, factor: str) -> bool:
        """Tell whether each level is shown to be like every other."""
        found = self.pairs(factor)
        return bool(found) and all(one.within(_ALIKE) for one in found)


def _speeds(summary: Summary) -> list[_Speed]:
    """Return each direction that was run under several levels of a factor."""
    return [one for way in measures.WAYS if (one := _Speed(way, summary)).levels]


def findings(summary: Summary) -> list[Finding]:
    """Judge the plateau of each direction, and that sync and mount matter little."""
    speeds, link = {one.name: one for one in _speeds(summary)}, conditions.link(summary, _PLACE)
    judged = [
        _on_link(_mattering_little(speed, factor), speed, factor, link)
        for factor in ("sync", "mount")
        for speed in speeds.values()
    ]
    run = [way for way in measures.WAYS if cells.at(summary.done, {"direction": way})]
    judged += [Judged(Verdict.INCONCLUSIVE, "too few runs")] * (len(run) - len(speeds))
    lowest = story.weakest(judged or [Judged(Verdict.NOT_MEASURED, "neither was run")])
    ours = lowest.why if judged else texts.MISSING
    if judged:
        why = "the weakest of four verdicts: sync or async, hard or soft; reads and writes"
        lowest = Judged(lowest.verdict, why)
    return [
        _plateau(speeds.get("read"), "reads", "117, 117, 118 MB/s", link),
        _plateau(speeds.get("write"), "writes", "flat", link),
        Finding("sync or async, soft or hard", "matter little", ours, lowest),
    ]


def _mattering_little(speed: _Speed, factor: str) -> Judged:
    """Judge whether a factor matters little: each of its levels is within 2 % of every other."""
    if factor not in speed.p:
        return Judged(Verdict.INCONCLUSIVE, "too few runs")
    size = f"{speed.name}s: {100 * speed.span(factor):.1f} %"
    if speed.matters_little(factor):
        return Judged(Verdict.REPRODUCED, f"{size}, shown to be under {100 * _ALIKE:g} %")
    kind = Verdict.NOT if factor in speed.mattering else Verdict.INCONCLUSIVE
    p = speed.p[factor]
    return Judged(kind, f"{size}, p {'< 0.001' if p < 0.001 else f'{p:.3f}'}")


def _plateau(speed: _Speed | None, what: str, theirs: str, link: int | None) -> Finding:
    """Judge whether buffers from 32768 up are alike: each lies within what is flat of that one."""
    what = f"{what} are flat for buffers from 32768 up"
    buffers = [at for at in (speed.levels if speed else {}).get("buffer", []) if int(at) >= _KNEE]
    knee = {"buffer": _KNEE}
    ratios = {at: speed.ratio({"buffer": at}, knee) for at in buffers[1:]} if speed else {}
    found = {at: one for at, one in ratios.items() if one}
    if not speed or _KNEE not in buffers or not found:
        judged = Judged(Verdict.NOT_MEASURED, "too few runs, or buffers")
        return Finding(what, theirs, texts.MISSING, judged)
    limits = 1 + _FLAT, 1 / (1 + _FLAT)
    far = [at for at, one in found.items() if one.above(limits[0]) or one.above(limits[1]) is False]
    judged = Judged(Verdict.INCONCLUSIVE, f"the intervals span {100 * _FLAT:g} %")
    if all(one.within(_FLAT) for one in found.values()):
        judged = Judged(Verdict.REPRODUCED, f"all intervals lie within {100 * _FLAT:g} %")
    elif far:
        judged = Judged(Verdict.NOT, f"{far[0]} differs by more than {100 * _FLAT:g} %")
    ours = ", ".join(f"{at}: {one.text}" for at, one in found.items())
    return Finding(what, theirs, ours, _on_link(judged, speed, "buffer", link, buffers))


def _on_link(
    judged: Judged,
    speed: _Speed,
    factor: str,
    link: int | None,
    compared: Collection[Level] | None = None,
) -> Judged:
    """Say so where a lab's link, in bit/s, makes the `compared` levels alike by being full."""
    if not link or judged.verdict is not Verdict.REPRODUCED:
        return judged
    means = speed.means(factor)
    filled = 8e6 * min(means[at] for at in compared or means) / link
    if filled < _FULL:
        return judged
    why = f"{judged.why}; the lab's link is {100 * filled:.0f} % full at each level"
    return Judged(Verdict.BY_CONSTRUCTION, why)


def tell(summary: Summary) -> Told:
    """Tell which settings are the best here, and which matter at all."""
    speeds = _speeds(summary)
    return Told(
        answer=_answer(summary, speeds),
        sections=[
            Section(
                "Plots",
                plots=[*map(_plot, speeds)],
                folded=not any(one.mattering for one in speeds),
            ),
        ],
        reading=[
            "The span is by how much the best level of a setting exceeds its worst. File size, or"
            " transfer, is in MB of 2^20 bytes, as the original has it; buffer is rsize and wsize.",
            "The settings were measured with nfsmulti, one request at a time. A kernel mount reads"
            " ahead and writes behind: measure there too.",
            "Two levels are compared by pairs of cells of one repeat that are alike otherwise: a"
            " geometric mean of the pairs' ratios, with its interval. What changes from one repeat"
            " to the next does not count. In a quick sweep, where no cell has its like, and for a"
            f" setting of the server, each repeat counts once; an interval takes {FEWEST}.",
            "A setting is said to matter where p, corrected for all pairs of levels and, by Holm,"
            f" for all settings, is below {_SIGNIFICANT:g}, and its best level is"
            f" {100 * _ALIKE:g} % or more above its worst; to have no effect where each level is"
            f" within {100 * _ALIKE:g} % of every other with its whole interval. All else is"
            " inconclusive: finding no difference shows nothing.",
            f"A plateau is shown where every buffer from {_KNEE} up is within {100 * _FLAT:g} % of"
            f" {_KNEE} with its whole interval.",
            *([_BY_CONSTRUCTION] if conditions.link(summary, _PLACE) else []),
        ],
    )


def _answer(summary: Summary, speeds: Sequence[_Speed]) -> Answer:
    """Tell the best of each direction, and what each setting is worth."""
    names: dict[str, list[str]] = {}
    for way in measures.WAYS:
        if ranked := _ranked(summary.done, way):
            names.setdefault(texts.mean(ranked[0][1], "MB/s"), []).append(f"{way}s")
    rates = texts.several([f"{rate} {texts.several(those)}" for rate, those in names.items()])
    matter = dict.fromkeys(_label(name) for one in speeds for name in one.mattering)
    end = "no setting is shown to matter" if speeds else "too few runs to tell what matters"
    end = f"what matters is {texts.several([*matter])}" if matter else end
    every = dict.fromkeys(name for one in speeds for name in one.levels)
    rows = [[_label(factor), *(_worth(one, factor) for one in speeds)] for factor in every]
    words, caveats = f"{rates or 'Nothing'} at most; {end}", []
    if speeds and not matter and not any(_CHANCE in cell for row in rows for cell in row):
        slowest = min(
            rate for one in speeds for name in one.levels for rate in one.means(name).values()
        )
        full = conditions.full_link(summary, _PLACE, slowest)
        words = f"{rates} whatever the setting (within {100 * _ALIKE:g} %){full}"
        caveats = ["A faster link may show differences."] if full else []
    headings = ["", *(f"{one.name}s" for one in speeds)]
    title = "By how much the best level is faster than the worst"
    table = Table(headings, rows[:MOST_ROWS], title, text_columns=len(headings))
    soft = any("mount" in one.mattering and one.best("mount") == "soft" for one in speeds)
    return Answer(f"{words}.", table, [*caveats, *[_SOFT] * soft])


_CHANCE = "may be chance"
_SOFT = (
    "A soft mount fails I/O if the server is silent for longer than timeo and retrans allow: nfs(5)"
    " warns of lost data."
)


def _worth(speed: _Speed, factor: str) -> str:
    """Say by how much a factor's best level exceeds its worst, and which that is if it matters."""
    if factor not in speed.levels:
        return texts.MISSING
    told = _CHANCE
    if factor in speed.mattering:
        told = f"matters: {speed.best(factor)}"
    elif speed.matters_little(factor):
        told = "no effect"
    return f"{100 * speed.span(factor):.1f} %, {told}"


def _plot(speed: _Speed) -> Plot:
    """Draw the mean speed at each level of each factor."""
    figure, panels = charts.panels(f"Main effects, {speed.name}s", len(speed.levels), _WIDTH)
    for axes, (factor, levels) in zip(panels, speed.levels.items(), strict=True):
        found = [speed.sample({factor: level}) for level in levels]
        points = [(float(place), one) for place, one in enumerate(found) if one]
        charts.line(axes, 0, "", points)
        axes.set_xticks(range(len(levels)), [str(level) for level in levels])
        if max(len(str(level)) for level in levels) > 5:
            axes.tick_params(axis="x", labelsize=0.8 * charts.FONT_SIZE)
        axes.margins(x=0.2)
        axes.set_xlabel(_label(factor))
    panels[0].set_ylabel("MB/s, geometric mean")
    charts.from_zero(panels[0])
    caption = (
        f"{speed.name.capitalize()}s: mean speed at each level, over all levels of the other"
        f" settings; {charts.REPEATS}."
    )
    return Plot(f"main effects {speed.name}", caption, figure, wide=True)


def _label(name: str) -> str:
    """Name a factor for people."""
    return {
        "sync": "sync or async",
        "mount": "hard or soft",
        "buffer": "rsize and wsize",
        "transfer": "file size",
    }.get(name, name)
