# SPDX-License-Identifier: GPL-2.0-only
"""What a run of latency tells: how far each configuration is good, and where the time went."""

import dataclasses
import functools
import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from nfsmulti import texts
from nfsmulti.report import cells, charts, loads, measures
from nfsmulti.report.answer import MOST_ROWS, Answer, fewest
from nfsmulti.report.loads import Curve
from nfsmulti.report.measures import MEASURES, PARTS, Take
from nfsmulti.report.story import Plot, Section, Told
from nfsmulti.stats import Sample, mean_us, merged
from nfsmulti.summary import Cell, Summary
from nfsmulti.texts import MISSING, Table
from nfsmulti.units import Slo

_PERCENTS = (50, 99, 99.9)
_MOST_LINES, _MOST_WORDS = 6, 25
_DOUBTFUL = 0.1  # the part of p50 from which on the generator's own lag is a reason for doubt
_Us = Callable[[Sequence[Cell]], float | None]
_APART = "repeats differ more than threefold"
_POOLED = "*: all repeats together, since one has too few I/Os"
_ROOM = 1.5  # times the highest, and below the lowest, of a logarithmic plot
_X = "IOPS that were reached"
_REPEATS = "lines go through the medians of the repeats, which are dots"
_Lines = Mapping[str, Sequence[tuple[float, Sample]]]
_SPLIT = (
    "The kernel's receive stamps split it further: service then ends when this client's kernel has"
    " the reply (network and server), and wake-up when the job takes it (this client)."
)
_READING = (
    "Response is what a user waits: from the instant at which an I/O should have begun, whatever"
    " became of those before it, to its end. It is the generator's lag and the service: from"
    " sending to the reply, a wait for a connection included."
)


def tell(summary: Summary) -> Told:
    """Tell how much load keeps the response within the limit, or where the knee is."""
    every = loads.curves(summary)
    groups = [list(those) for _, those in itertools.groupby(every, lambda one: one.workload)]
    best = _best(groups[0])
    table = _loads_table(best, short=True) if len(every) == 1 else _table(groups)
    full = [f"{one.name or 'There'}: {one.full}." for one in every if one.full]
    return Told(
        answer=Answer(
            f"{groups[0][0].workload}: " * (len(groups) > 1) + _headline(groups[0]),
            table,
            _caveats(every, table),
        ),
        sections=[
            Section("Plots", plots=[*map(_curve_plot, groups), *_parts_plot(best)]),
            Section("Where the time went", points=[*filter(None, map(_whose, every)), *full]),
            Section("Every load", tables=[*map(_loads_table, every)], folded=True),
        ],
        reading=[_READING, *([_SPLIT] if cells.parts(best.held) else []), *loads.RULES],
    )


def at_limits(summary: Summary) -> Summary:
    """Return the run with the cells alone that are at a configuration's limit, where there are."""
    there = [cell for one in loads.curves(summary) for cell in one.held]
    return dataclasses.replace(summary, cells=there or summary.cells)


def _best(group: Sequence[Curve]) -> Curve:
    return max(group, key=lambda one: (one.good, bool(one.limit and one.limit.met)))


# --- the answer ---


def _headline(group: Sequence[Curve]) -> str:
    """Say the load within the limit, the same of another configuration, and what is full there."""
    best = _best(group)
    found, slo = best.limit, best.slo
    if not found:
        held = any(one.sustained(load) for one in group for load in one.loads)
        why = "too few I/Os for a percentile (--runtime)" if held else "no load was sustained"
        return f"No response to tell: {why}."
    us = f"p{slo.percent:g} is {_ms(found.us)} ms"
    if not found.met:
        return f"{slo.text} is not met at any load: {us} at {found.load} %."
    peak = texts.number(best.peak.mean) if best.peak else ""
    if not found.told:
        does = f"keep p{slo.percent:g} within {slo.time}" if slo.given else "are at the knee"
        said = f"No one figure: {_spread(found.rate)} IOPS {does}, {_APART}"
        return f"{said}{peak and f'; the peak is {peak}'}."
    names = dict(zip(map(id, group), loads.named(group), strict=True))
    own = names[id(best)]
    head = f"{texts.number(best.good)} IOPS{own and f' with {own}'}"
    tail = f" keep p{slo.percent:g} within {slo.time}" if slo.given else f" at the knee: {us}"
    worst = min((one for one in group if one.good), key=lambda one: one.good)
    gain = loads.paired(best.ends, worst.ends) if worst is not best else None
    other = f"with {names[id(worst)]} {texts.number(worst.good)}" if gain else ""
    other += ": no measurable difference" if gain and gain.spans_one else ""
    share = peak and f"{_share(best)} % of the peak, {peak}"
    if _words(head, _spread(found.rate), share, tail, other) > _MOST_WORDS:
        share = ""  # which the table has
    within = "; ".join(filter(None, (_spread(found.rate), share)))
    text = f"{head}{within and f' ({within})'}{tail}"
    last = "the most that was sustained" if found.last else ""
    for part in filter(None, (other, last, best.full)):  # as many as there is room for
        text = f"{text}; {part}" if _words(text, part) <= _MOST_WORDS else text
    return f"{text}."


def _words(*parts: str) -> int:
    return len(" ".join(parts).split())


def _spread(sample: Sample) -> str:
    """Write the least and the most of the repeats; "" for one alone."""
    few, many = min(sample.values), max(sample.values)
    return f"repeats {texts.number(few)} to {texts.number(many)}" if sample.n > 1 else ""


def _share(curve: Curve) -> str:
    return f"{100 * curve.good / curve.peak.mean:.0f}" if curve.good and curve.peak else MISSING


def _ms(us: float | None) -> str:
    return texts.number(us and us / 1000)


def _table(groups: Sequence[Sequence[Curve]]) -> Table:
    """Lay out how far each configuration is good, beside the best of its workload at one load."""
    rows = []
    for one, best in [(one, _best(group)) for group in groups for one in group][:MOST_ROWS]:
        found, lower = one.limit, min(one.good, best.good)
        ratio = loads.paired(one.waits(lower), best.waits(lower)) if lower else None
        rate = "not met" if found and not found.met else MISSING
        us = _ms(found.us if found else None)
        if found and found.met:
            rate = spread = _spread(found.rate)
            if found.told:
                rate = texts.number(found.rate.median) + (f" ({spread})" if spread else "")
        rows.append([
            one.name, rate, _share(one), texts.measured(one.peak) if one.slo.given else us,
            "1" if one is best and one.good else texts.marked(ratio),
        ])  # fmt: skip
    slo = groups[0][0].slo
    headings = [
        "", f"IOPS, {slo.text if slo.given else 'at the knee'}", "% of peak",
        "peak, IOPS" if slo.given else "p99 there, ms", f"p{slo.percent:g}, times the best's",
    ]  # fmt: skip
    return Table(headings, rows)


def _loads_table(curve: Curve, *, short: bool = False) -> Table:
    """Lay out the loads of a configuration; of a `short` table those up to where it is lost."""
    percents = sorted({*_PERCENTS, curve.slo.percent})[-len(_PERCENTS) :]
    lost = [load for load in curve.loads if not curve.sustained(load)]
    near = [load for load in curve.loads if load <= min(lost, default=load)]
    whose: dict[str, _Us] = {
        f"p{at:g}, ms": functools.partial(loads.told_us, percent=at) for at in percents
    }
    columns = [_column(curve, us) for us in (*whose.values(), _service_us)]
    shown = fewest([curve.loads, near, near[::2]]) if short else curve.loads
    rows = [_row(curve, at, columns) for at in shown]
    pooled = _POOLED if any(cell.endswith("*") for row in rows for cell in row) else ""
    title = "; ".join(filter(None, (curve.name, pooled)))
    return Table(["offered, %", "IOPS", *whose, "service p99, ms"], rows, title=title)


def _row(curve: Curve, load: int, columns: Sequence[dict[int, str]]) -> list[str]:
    """Write a load; one that was not sustained has no percentiles."""
    if not (rate := curve.rates.get(load)):
        reached = cells.sample(curve.lost(load), loads.REACHED)
        return [f"{load}, not sustained", texts.measured(reached), *[MISSING] * len(columns)]
    return [str(load), texts.number(rate.median), *(column[load] for column in columns)]


def _column(curve: Curve, us: _Us) -> dict[int, str]:
    """Write medians of the repeats; where one has too few I/Os that of all together, marked."""
    each = curve.by_repeat(lambda cell: us([cell]))
    found = {}
    for load in curve.rates:
        held = curve.sustained(load)
        pooled = us(held) if load not in each or None in [us([cell]) for cell in held] else None
        found[load] = (
            f"{_ms(pooled)}*" if pooled else _ms(each[load].median if load in each else None)
        )
    return found


def _response(percent: float) -> Take:
    return lambda cell: loads.told_us([cell], percent)


def _service_us(held: Sequence[Cell]) -> float | None:
    bins = cells.parts(held).get("service")
    return cells.bins_us(bins, 99) if bins else cells.told_us(held, 99)


def _caveats(every: Sequence[Curve], table: Table) -> list[str]:
    """Say what there is no figure of, and warn where much is this client's."""
    apart = [one.name or "The run" for one in every if one.limit and one.limit.met and not one.good]
    whose = "".join(apart) if len(apart) < 2 else f"{len(apart)} of {len(every)} configurations"
    own, words = max(cells.whose(one.held) for one in every)
    over = [(one.over_at_once, one) for one in every if one.slo.given and one.over_at_once]
    unsure = len(every) > 1 and any("?" in row[-1] for row in table.rows)
    return [
        *[f"{whose}: no figure, since {_APART}."] * bool(apart),
        *[  # how far it is good is then a guess
            f"Over the limit already at {curve.loads[0]} %, in up to {many} of {len(curve.points)}"
            " repeats: offer less."
            for many, curve in sorted(over, key=lambda pair: -pair[0])[:1]
        ],
        *_late(every),
        *[f"Not the server's alone: {words}."] * (own > _DOUBTFUL),
        *[texts.MAY_BE_ONE] * unsure,
    ]


def _late(every: Sequence[Curve]) -> list[str]:
    """Warn of the generator's own lag, but where that is for want of depth."""
    found = []
    for one in every:
        for load in one.loads:
            held = [
                cell
                for cell in one.sustained(load)
                if cell.arrivals and cell.arrivals.full < _DOUBTFUL and loads.told_us([cell], 50)
            ]
            lag, wait = (
                cells.sample(held, MEASURES[f"{what} p50 ms"]) for what in ("lag", "response")
            )
            if lag and wait and lag.median > _DOUBTFUL * wait.median:
                found.append((lag.median / wait.median, load))
    return [
        f"The generator's own lag is up to {100 * part:.0f} % of p50 (at {load} % of the peak)."
        for part, load in sorted(found)[-1:]
    ]


def _whose(curve: Curve) -> str:
    """Say whose the latency within the limit is, and what stamps cannot tell apart."""
    _, said = cells.whose(curve.held)
    if not said or not curve.limit:
        return ""
    shared = 100 * statistics.fmean(one.parts.shared for one in curve.held if one.parts)
    bound = f"; {shared:.0f} % of the replies share a stamp: service is an upper bound"
    return f"{curve.name}{curve.name and ', '}{curve.limit.load} %: {said}{bound * (shared > 10)}."


# --- plots ---


def _curve_plot(group: Sequence[Curve]) -> Plot:
    """Draw a workload's curves: several percentiles of one, of several the one that counts."""
    slo, shown = group[0].slo, group[:_MOST_LINES]
    lines = {
        f"p{slo.percent:g}, {name}": _points(curve, _response(slo.percent))
        for name, curve in zip(loads.named(group), shown, strict=False)
    }
    if len(group) == 1:
        lines = {f"p{at:g}": _points(group[0], _response(at)) for at in _PERCENTS}

    def scale(axes: "charts.Axes") -> None:
        _cross_lost(axes, shown)
        _fit(axes, lines, slo)

    title = f"Response against load: {group[0].workload}"
    figure = charts.lines(title, _X, "response, ms", lines, scale, medians=True)
    caption = (
        f"{title}, where that was sustained; {_REPEATS}. Crosses at the top are rates that were"
        " reached where more was offered."
    )
    return Plot(f"response {group[0].workload}", caption, figure)


def _cross_lost(axes: "charts.Axes", group: Sequence[Curve]) -> None:
    """Mark at the top which rates were reached where a load was not sustained."""
    said = "not sustained"
    for number, one in enumerate(group):
        rates = [loads.REACHED(cell) or 0 for load in one.loads for cell in one.lost(load)]
        if rates:
            axes.plot(
                rates, [0.97] * len(rates), "x",
                color=charts.COLOURS[number] if len(group) > 1 else charts.INK, clip_on=False,
                transform=axes.get_xaxis_transform(), label=said,
            )  # fmt: skip
            said = ""


def _fit(axes: "charts.Axes", lines: _Lines, slo: Slo | None = None) -> None:
    """Let the axes hold all repeats, and the limit."""
    axes.set_xlim(0, 1.05 * axes.get_xlim()[1])
    charts.few_ticks(axes)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    samples = [sample for points in lines.values() for _, sample in points]
    every = [value for one in samples for value in one.values if 0 < value < math.inf]
    if slo and slo.given:
        axes.axhline(slo.us / 1000, color=charts.INK, linestyle=":", label=slo.text)
        every.append(slo.us / 1000)
    if every:
        axes.set_yscale("log")
        axes.set_ylim(min(every) / _ROOM, max(every) * _ROOM)
        charts.logarithmic_y(axes)


def _parts_plot(curve: Curve) -> list[Plot]:
    """Draw what the mean response is made of; without stamps service ends with the I/O."""
    lines = {words: _points(curve, _mean(part)) for part, words in PARTS.items()}
    if len(lines["service"]) < 2:
        return []
    title = f"What the response is made of{curve.name and f': {curve.name}'}"
    scale = functools.partial(_fit, lines=lines)
    figure = charts.lines(title, _X, "mean, ms", lines, scale, 3, medians=True)
    return [Plot("parts", f"{title}; means, since percentiles do not add up; {_REPEATS}.", figure)]


def _mean(part: str) -> Take:
    def mean(cell: Cell) -> float | None:
        bins = cells.parts([cell]) or {
            "lag": merged([cell.arrivals.lag] if cell.arrivals else []),
            "service": merged(side.bins for side in measures.sides(cell)),
        }
        return mean_us(bins.get(part, {}))

    return mean


def _points(curve: Curve, measure: Take) -> list[tuple[float, Sample]]:
    """Return a figure in ms by the rate that was reached, where a load was sustained."""
    return [
        (curve.rates[load].median, Sample(tuple(us / 1000 for us in wait.values)))
        for load, wait in curve.by_repeat(measure).items()
        if wait.median < math.inf
    ]
