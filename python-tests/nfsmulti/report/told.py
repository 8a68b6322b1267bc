# SPDX-License-Identifier: GPL-2.0-only
"""One report for every story: its tables, plots, published figures and findings, from its data."""

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeVar

from nfsmulti import texts
from nfsmulti.report import cells, charts, conditions, measures, scaling
from nfsmulti.report import story as page
from nfsmulti.report.answer import MOST_ROWS, Answer, extent, fewest, served, varying
from nfsmulti.report.measures import CPU, Measure, Take
from nfsmulti.report.scaling import Curve
from nfsmulti.report.story import Plot, Section, Told
from nfsmulti.scenario import GuestPlace
from nfsmulti.stats import Ratio, Sample
from nfsmulti.story import (
    Bars,
    Beside,
    Claim,
    Column,
    Ends,
    Grid,
    Knees,
    Laid,
    Levels,
    Lines,
    Percentiles,
    Story,
)
from nfsmulti.summary import Cell, Summary
from nfsmulti.summary import Factor as Level
from nfsmulti.texts import MISSING, Table


@dataclass(frozen=True)
class Run:
    """A run under its story: what its tables, plots and sentences take figures of."""

    story: Story
    summary: Summary

    @cached_property
    def cost(self) -> Measure:
        """How CPU time per operation is taken."""
        return cells.cpu_measure(self.summary.done)

    def measure(self, name: str) -> Measure:
        """Return how a figure is taken, by its name."""
        found = self.figures.get(name) or measures.MEASURES[name]
        return found if isinstance(found, Measure) else Measure(name, name, found)

    @cached_property
    def client_cpu(self) -> tuple[str, Take]:
        """Whose CPU time per operation is the client's alone, and how it is taken.

        A mount works beside fio's jobs, which are no measure of it where a server shares its
        machine.
        """
        place, pool = self.summary.place, str(self.summary.place.get("pool"))
        shared = place.get("own_server") or self.summary.beside_clients or _LOOPBACK.search(pool)
        if shared or not self.own:
            return "fio's jobs", _of_jobs
        return "its whole machine" if self.cost is measures.MACHINE_CPU else "fio's jobs", self.cost

    @cached_property
    def figures(self) -> Mapping[str, Take]:
        """The figures of the story's own, and those that are taken otherwise from run to run."""
        of_run: dict[str, Take] = {CPU: self.cost, "client CPU µs/op": self.client_cpu[1]}
        return {**of_run, **self.story.figures(self)}

    @property
    def own(self) -> bool:
        """Whether a pool of the user was measured, and no lab."""
        return self.summary.place.get("kind") == "pool"

    @property
    def hosts(self) -> str:
        """The words behind a number of jobs where each of several hosts ran so many."""
        hosts = self.summary.hosts
        return f" on each of {hosts} hosts" if hosts > 1 else ""

    @cached_property
    def names(self) -> Mapping[str, str]:
        """What levels are called."""
        return _for(self, self.story.names)

    def words(self, levels: Levels) -> str:
        """Name a combination, as every table and plot does."""
        return served(cells.words(levels, self.names), self.summary.setting)

    def at(self, levels: Levels) -> list[Cell]:
        """Return the cells at some levels that are done; see Story.stands."""
        stands = self.story.stands.items()
        wanted = levels.items()

        def fits(cell: Cell, factor: str, level: Level) -> bool:
            there = cell.factors.get(factor)
            return there == level or (factor, there) in stands

        return [one for one in self.summary.done if all(fits(one, *pair) for pair in wanted)]

    def sample(self, measure: str, levels: Levels) -> Sample | None:
        """Return a figure at some levels, of each repeat."""
        return cells.sample(self.at(levels), self.measure(measure))

    def whole(self, measure: str, levels: Levels) -> Sample | None:
        """Return the same; None where a repeat lacks it.

        These are the slow ones: without them it would be a sample of the fast ones alone.
        """
        values = [*map(self.measure(measure), self.at(levels))]
        return None if None in values else self.sample(measure, levels)

    def pooled(self, measure: str, levels: Levels) -> float | None:
        """Return a percentile at some levels, of all repeats together."""
        return cells.pooled_ms(self.at(levels), measure)

    def text(self, measure: str, levels: Levels | None) -> str:
        """Write its mean with its unit; of no levels there is none."""
        if not levels:
            return MISSING
        unit = measure.rpartition(" ")[2].removesuffix("/op")
        return texts.mean(self.sample(measure, levels), unit)

    def ratio(
        self, measure: str, over: Levels, under: Levels, *, whole: bool = False
    ) -> Ratio | None:
        """Return a figure at some levels in times that at others, paired by repeat.

        If it is to be `whole`, None where a repeat lacks it.
        """
        if whole and not all(self.whole(measure, side) for side in (over, under)):
            return None
        return cells.ratio(self.at(over), self.at(under), self.measure(measure))

    def levels(self, factor: str, at: Levels | None = None) -> list[Level]:
        """Return the levels that were measured: as the story has them, others behind these."""
        found = cells.levels(self.at(at or {}), factor)
        own = self.story.factors[factor].levels if factor in self.story.factors else ()
        order: list[object] = [*self.names, *(() if callable(own) else own)]
        order += page.values(self.summary, factor) if factor in self.further else ()
        order += self.story.places if factor == self.story.place else ()
        if all(isinstance(level, int) for level in found):
            return found
        return sorted(found, key=lambda one: order.index(one) if one in order else len(order))

    @property
    def further(self) -> list[str]:
        """The factors that are not the story's, such as a server's setting."""
        own = {*self.story.factors, *self.story.of_some}
        return [*dict.fromkeys(n for one in self.summary.done for n in one.factors if n not in own)]

    def table(self, shown: Laid) -> Table:
        """Lay a table out."""
        if isinstance(shown, Knees):
            return _knees(self, shown)
        return _ends(self, shown) if isinstance(shown, Ends) else _grid(self, shown)

    def counts(self, factor: str, at: Levels | None = None) -> list[int]:
        """Return the levels of a factor that counts something, by size."""
        return sorted(int(level) for level in cells.levels(self.at(at or {}), factor))

    def combinations(self, *factors: str) -> list[dict[str, Level]]:
        """Return each combination of some factors that was measured, in this order."""
        every = itertools.product(*(self.levels(name) for name in factors))
        found = [dict(zip(factors, levels, strict=True)) for levels in every]
        there = {tuple(map(cell.factors.get, factors)) for cell in self.summary.done}
        return [one for one in found if tuple(one.values()) in there]

    def rows(self, *factors: str, at: Levels | None = None) -> dict[str, Levels]:
        """Return each combination that was measured at some levels, by the words of what varies."""
        every = [{**one, **(at or {})} for one in self.combinations(*factors)]
        there = [one for one in every if self.at(one)]
        told = [name for name in factors if len({one[name] for one in there}) > 1] or factors[:1]
        return {self.words({name: one[name] for name in told}): one for one in there}

    def best(self, measure: str, rows: Mapping[str, Levels]) -> str:
        """Return the name of the row with the highest mean, "" where none has the figure."""
        means = {name: one.mean for name, at in rows.items() if (one := self.sample(measure, at))}
        return max(means, key=lambda name: means[name], default="")

    def incomplete(self, lacks: str) -> str:
        """Say what was measured, where a headline `lacks` two things to compare."""
        factors = dict.fromkeys(name for cell in self.summary.done for name in cell.factors)
        every = {self.words(one): one for one in self.combinations(*factors)}
        rates = ("IOPS",) if "operation" in factors else ("MB/s", "IOPS")
        best = self.best(rates[0], every)
        if len(every) > 1:
            rate = self.text(rates[0], every.get(best, {}))
            return f"{rate} at most: {best}; {lacks} were not both measured."
        ((words, at),) = every.items()
        figures = [self.text(one, at) for one in rates] + [
            f"p99 {text}" for text in [self.text("p99 ms", at)] if text != MISSING
        ]
        return f"{', '.join(figures)}: {words}; only that was measured."

    def varying(self, factors: Iterable[str]) -> list[str]:
        """Return the factors of which several levels were measured; else the first."""
        return [one for one in factors if len(self.levels(one)) > 1] or [*factors][:1]

    def curves(self, along: str) -> list[Curve]:
        """Return a curve for each combination of all other factors."""
        others = [name for name in self.story.factors if name != along]
        return [self.curve(along, one) for one in self.combinations(*others)]

    def link(self, levels: Levels) -> int | None:
        """Return the rate of the link that a place is known to have, in bit/s."""
        if links := self.summary.place.get("links"):
            return int(sum(links.values()))
        return conditions.link(self.summary, str(levels.get(self.story.place)))

    def curve(self, along: str, levels: Levels, measure: str = "MB/s") -> Curve:
        """Return what was measured along a factor that counts."""
        found, each = cells.by_count(self.at(levels), along), self.names.get(along, "")
        take = self.measure(measure)
        return Curve(levels, found, self.link(levels), along, take, measure, each)


_LOOPBACK = re.compile(r"//(127\.|\[::1\])")


def _of_jobs(cell: Cell) -> float | None:
    return None if cell.factors.get("client") == "mount" else measures.JOBS_CPU(cell)


_Given = TypeVar("_Given")


def _for(run: Run, given: _Given | Callable[[Run], _Given]) -> _Given:
    """Return what a story gives: as it stands, or by a function of the run."""
    return given(run) if callable(given) else given


# --- tables ---


def _ends(run: Run, shown: Ends) -> Table:
    """Lay out each curve's rate at 1 and at its most."""
    named = run.varying(shown.rows)
    rows: list[list[str]] = []
    unit = ""
    for levels in run.combinations(*sorted(shown.rows, key=[*run.story.factors].index)):
        curve = run.curve(shown.along, {**levels, **shown.where})
        if not curve.counts:
            continue
        most, unit = max(curve.counts), curve.unit
        rates = (texts.measured(curve.rate(count)) for count in (1, most))
        gain = curve.gain(most, 1) if most > 1 else None
        name = run.words({one: levels[one] for one in named})
        rows.append([name, str(most), *rates, texts.times(gain)])
    one, counts = shown.along.removesuffix("s"), {int(row[1]) for row in rows}
    most_of_all = texts.counted(counts.pop(), one) if len(counts) == 1 else f"all {one}s"
    headings = ["", f"{one}s", f"1 {one}, {unit}", f"{most_of_all}, {unit}", f"times 1 {one}"]
    return varying(headings, rows[:MOST_ROWS], 2)


def _knees(run: Run, shown: Knees) -> Table:
    """Lay some counts of each curve out below each other, as many as there is room for."""
    drawn, unit = run.curves(shown.along), shown.measure(run)
    rate, told = run.measure(unit), run.varying([n for n in run.story.factors if n != shown.along])
    picks: tuple[Callable[[Curve], Collection[int]], ...] = (
        lambda curve: curve.counts,
        lambda curve: {curve.counts[0], scaling.chosen(curve), curve.counts[-1]},
        lambda curve: {scaling.chosen(curve)},
    )
    few = fewest([(one, at) for one in drawn for at in sorted(pick(one))] for pick in picks)
    rows = [
        [
            run.words({name: curve.levels[name] for name in told}),
            str(curve.connections(count) or curve.words(count)),
            texts.measured(cells.sample(curve.at(count), rate)),
            "1" if count == curve.counts[0] else texts.times(
                cells.ratio(curve.at(count), curve.at(curve.counts[0]), rate)),
            texts.number(cells.pooled_ms(curve.at(count), "p99 ms")),
            texts.mean(cells.sample(curve.at(count), run.cost)),
        ]
        for curve, count in few
    ]  # fmt: skip
    least = extent(str(one.connections(one.counts[0]) or "the fewest") for one in drawn)
    times = f"times {least} connection{'' if least == '1' else 's'}"
    headings, named = ["", "connections", unit, times, "p99, ms", "CPU, µs/op"], len(drawn) > 1
    return varying(headings[not named :], [row[not named :] for row in rows], 1)


def _grid(run: Run, shown: Grid) -> Table:
    """Lay out a figure of each row in each column; what all rows lack is no column."""
    columns = _for(run, shown.columns)
    rows_of = _rows(run, shown.rows)
    found = [[_figure(run, one, levels) for levels in rows_of.values()] for one in columns]
    nothing = [{MISSING} | ({"1"} if one.to else set()) for one in columns]
    kept = [n for n, one in enumerate(columns) if {*found[n]} - nothing[n]]
    return Table(
        [_for(run, shown.corner), *(columns[n].heading for n in kept)],
        [[name, *(found[n][row] for n in kept)] for row, name in enumerate(rows_of)],
        shown.title,
    )


def _rows(
    run: Run,
    of: str | Sequence[str] | Mapping[str, Levels] | Callable[[Run], Mapping[str, Levels]],
    at: Levels | None = None,
) -> Mapping[str, Levels]:
    """Return combinations of some factors by their words, or those that are named."""
    given = _for(run, of)
    if isinstance(given, Mapping):
        return given
    return run.rows(*([given] if isinstance(given, str) else given), at=at)


def _over_there(column: Column, levels: Levels) -> Levels:
    """Return where a row's figure is taken."""
    return {**levels, **(column.at(levels) if callable(column.at) else column.at)}


def _sample(run: Run, column: Column, over: Levels) -> Sample | None:
    return (run.whole if column.whole else run.sample)(column.measure, over)


def _figure(run: Run, column: Column, levels: Levels) -> str:
    over = _over_there(column, levels)
    if column.pooled:
        return texts.number(run.pooled(column.measure, over))
    if not column.to:
        write = texts.measured if column.interval else texts.mean
        return write(_sample(run, column, over))
    to = column.to(levels) if callable(column.to) else column.to
    if to is None:
        return MISSING
    if (under := {**levels, **to}) == over:
        return "1"
    ratio = run.ratio(column.measure, over, under, whole=column.whole)
    return (texts.times if column.plain else texts.marked)(ratio)


# --- plots ---


def _plots(run: Run) -> list[Plot]:
    found = list[Plot | None]()
    for shown in _for(run, run.story.plots):
        if isinstance(shown, Lines):
            each = itertools.product(_each(run, shown.panels), shown.measures)
            found += [_lines(run, shown, *one) for one in each]
        elif isinstance(shown, Bars):
            found.append(_bars(run, shown))
        else:
            found.append(_percentiles(run, shown))
    return [one for one in found if one]


def _title(run: Run, measure: str) -> str:
    words = run.measure(measure).words
    return words[0].upper() + words[1:]


def _unit(measure: str) -> str:
    """Write a measure's name as tables do: a comma is before its unit."""
    return ", ".join(filter(None, measure.rpartition(" ")[::2]))


def _each(run: Run, of: Sequence[str] | Mapping[str, Sequence[Level]]) -> list[dict[str, Level]]:
    if isinstance(of, Mapping):
        return [{name: one} for name, several in of.items() for one in several]
    return run.combinations(*of)


def _named(run: Run, shown: Lines, panel: Levels, measure: str) -> dict[str, Curve]:
    told = [name for name in run.varying(shown.lines) if name not in panel]
    at = _for(run, shown.at)
    named = {
        run.words({name: one[name] for name in told}): run.curve(
            shown.along, {**at, **one, **panel}, measure
        )
        for one in _each(run, shown.lines)
        if all(one.get(name, level) == level for name, level in panel.items())
    }
    return {name: curve for name, curve in named.items() if curve.counts}


def _lines(run: Run, shown: Lines, panel: Levels, measure: str) -> Plot | None:
    """Draw a measure along a factor, or, as "p99 ms : MB/s" has it, one over another."""
    y, _, x = measure.partition(" : ")
    named = _named(run, shown, panel, x or y)
    if all(len(curve.counts) < 2 for curve in named.values()):
        return None  # a point is no line
    label = next(iter(named.values())).label
    of = run.words(panel)
    title = f"{_title(run, y)}, {of}" if of else _title(run, y)
    name = f"{title} {x or shown.along}"
    if x:
        numbered = {each: _over(run, curve, x, y) for each, curve in named.items()}
        figure = charts.lines(
            title, x, _unit(y),
            {each: [(at, Sample((ms,))) for at, ms in one.values()]
             for each, one in numbered.items()},
            charts.logarithmic if shown.log else charts.from_origin, 3,
        )  # fmt: skip
        for number, points in enumerate(numbered.values()):
            charts.write_numbers(figure.axes[0], points, -1 if number % 2 else 1)
        return Plot(name, f"{title} against {x}; the numbers are {label}.", figure)
    take = run.measure(y)
    samples = {each: curve.samples(take) for each, curve in named.items()}
    drawn = {each: [(at, one) for at, one in of.items() if one] for each, of in samples.items()}

    def scale(axes: "charts.Axes") -> None:
        ticks = sorted({at for of in samples.values() for at in of})
        charts.at_ticks(axes, ticks, doublings=shown.doublings)
        if shown.ideal:
            _ideal(axes, drawn)

    figure = charts.lines(title, label, _unit(take.name), drawn, scale, 3)
    dotted = "; dotted: as many times 1" if shown.ideal else ""
    return Plot(name, f"{title} against {label}; {charts.REPEATS}{dotted}.", figure)


def _over(run: Run, curve: Curve, x: str, y: str) -> dict[int, tuple[float, float]]:
    """Return one figure over another at each count: a percentile is of all repeats together."""
    return {
        curve.total(count): (rate.mean, ms)
        for count in curve.counts
        if (rate := cells.sample(curve.at(count), run.measure(x)))
        and (ms := cells.pooled_ms(curve.at(count), y))
    }


def _ideal(axes: "charts.Axes", drawn: Mapping[str, Sequence[tuple[int, Sample]]]) -> None:
    """Dot as many times what one does, as far as the plot goes."""
    most = charts.ROOM * max(charts.highest(one) for line in drawn.values() for _, one in line)
    for number, (name, line) in enumerate(drawn.items()):
        one = dict(line).get(1)
        far = {at: one.mean * at for at, _ in line if one and one.mean * at <= most}
        if len(far) > 1:
            colour, label = charts.COLOURS[number], f"times 1, {name}"
            axes.plot([*far], [*far.values()], ":", color=colour, label=label)


def _bars(run: Run, shown: Bars) -> Plot | None:
    every, first = _rows(run, shown.factor, shown.of), shown.series[0].measure
    title = _title(run, first).partition(" of the ")[0].removesuffix(" of fio's jobs")
    title = ", ".join(filter(None, (title, run.words(shown.of))))
    series = {
        one.heading: [_sample(run, one, _over_there(one, at)) for at in every.values()]
        for one in shown.series
    }
    series = {name: those for name, those in series.items() if any(those)}
    if not series or (len(every) < 2 and callable(shown.factor)):
        return None
    below = [name.replace(",", "").replace(" ", "\n") for name in every]
    figure = charts.bars(title, first.rpartition(" ")[2], below, series)
    return Plot(title, f"{title}; {charts.REPEATS}.", figure)


def _percentiles(run: Run, shown: Percentiles) -> Plot:
    named = {
        name: [
            (float(place), Sample((us / 1000,)))
            for place, percent in enumerate(shown.percents)
            if (us := cells.told_us(there, percent, "read"))
        ]
        for name, at in _rows(run, shown.factor).items()
        if (there := run.at(at))
    }

    def scale(axes: "charts.Axes") -> None:
        told = shown.percents[: max(map(len, named.values()), default=0)]
        axes.set_xticks(range(len(told)), [f"{percent:g}" for percent in told])
        charts.logarithmic_y(axes)

    figure = charts.lines("Completion latency", "percentile", "latency, ms", named, scale)
    caption = "Percentiles of latency, of all jobs and repeats together (log scale)."
    return Plot("latency", caption, figure)


# --- what was published ---


def published(story: Story, summary: Summary) -> tuple[list[page.Finding], list[list[str]]]:
    """Return the findings that were published, judged, and rows of the figures beside ours.

    Of a run without cells these are the published ones alone, and inconclusive or not testable.
    """
    found, rows = list[page.Finding](), list[list[str]]()
    for name, part in page.parts(story.known, summary):
        run = Run(story, part)
        beside = [(one, _beside(run, one)) for one in _for(run, story.beside)]
        rows += [[page.named(what, name), *figures] for _, (what, *figures) in beside]
        judged = [
            *(finding(run, one) for one in _for(run, story.claims)),
            *(page.Finding(*row, page.untestable(one.why)) for one, row in beside if one.why),
            *story.findings(run),
        ]
        found += [replace(one, what=page.named(one.what, name)) for one in judged]
    return found, rows


def _beside(run: Run, one: Beside) -> tuple[str, str, str]:
    """Return what it is, their figure and ours; each with its ratio, where it has one."""
    place = run.story.place
    there = [*run.levels(place, one.at), (one.at or {}).get(place, "")] if place else [""]
    what = one.what.replace("{where}", run.words({place: there[0]})).replace("{hosts}", run.hosts)
    own = one.ours if isinstance(one.ours, str) else one.ours(run, one.at or {})
    ours = own or run.text(one.measure, one.at)
    gain = run.ratio(one.measure, one.at, one.of) if one.at and one.of else None
    times = f", {one.ratio:.2f} times" if one.ratio else ""
    return what, f"{one.theirs}{times}", f"{ours}{f', {gain.text} times' if gain else ''}"


def finding(run: Run, one: Claim) -> page.Finding:
    """Judge a claim by its ratios that were measured; name the one that decides if they differ."""
    sides: Mapping[str, tuple[Levels | None, Levels | None]]
    sides = one.each or {"": (one.over, one.under)}
    found = {name: gain for name, (over, under) in sides.items()
             if over and under and (gain := run.ratio(one.measure, over, under))}  # fmt: skip
    every = {name: _judged(run, one, gain) for name, gain in found.items()}
    judged = page.weakest([*every.values()]) if every else _judged(run, one, None)
    if every and one.why:
        judged = page.untestable(one.why)
    elif len({each.why for each in every.values()}) > 1:
        deciding = next(name for name, each in every.items() if each is judged)
        judged = replace(judged, why=f"{deciding}: {judged.why}")
    told = [f"{name} {gain.text}" if name else f"{gain.text} times" for name, gain in found.items()]
    return page.Finding(one.what, one.said, ", ".join(told) or MISSING, judged)


def _judged(run: Run, one: Claim, gain: Ratio | None) -> page.Judged:
    if one.gain:
        allowed = conditions.allowed(run.summary, one.place)
        return page.judge(gain, one.gain, allowed and min(allowed, one.most))
    return page.beyond(gain, one.above or one.below, below=bool(one.below))


# --- all of it ---


def tell(story: Story, summary: Summary) -> Told:
    """Tell a run in which a cell is done, once for each combination of further factors."""
    return page.tell_parts(story.known, summary, partial(_tell, story))


def _tell(story: Story, summary: Summary) -> Told:
    if story.tell:
        return story.tell(summary)
    run = Run(story, summary)
    table = run.table(story.table(run) if callable(story.table) else story.table)
    table = replace(table, rows=table.rows[:MOST_ROWS])
    marked = any(cell.endswith("?") for row in table.rows for cell in row[table.text_columns :])
    guest = all(isinstance(place, GuestPlace) for place in story.places.values())
    differs = " ".join(filter(None, (story.differs, conditions.KERNEL_LAB * guest)))
    return Told(
        answer=Answer(
            story.headline(run), table, [*story.caveats(run), *[texts.MAY_BE_ONE] * marked]
        ),
        sections=[
            Section("Plots", plots=_plots(run)),
            *story.more(run),
        ],
        reading=[
            *_for(run, story.reading),
            *([page.RULE] if any(one.gain for one in _for(run, story.claims)) else []),
            *([differs] if differs and not run.own else []),
        ],
    )
