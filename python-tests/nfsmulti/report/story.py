# SPDX-License-Identifier: GPL-2.0-only
"""What a scenario has to tell of a run, before it is laid out as Markdown or HTML; and verdicts.

Texts are plain; what stands between backquotes is shown as code. The last part tells of runs whose
cells were crossed with more factors (`run --factors`): a story for each combination.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from nfsmulti import texts
from nfsmulti.report import cells, measures
from nfsmulti.report.answer import MOST_ROWS, Answer
from nfsmulti.stats import FEWEST, MOST_REPEATS, Ratio
from nfsmulti.summary import Cell, Factor, Summary
from nfsmulti.texts import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Finding:
    """What a publication found, its figure and ours, and whether it is found here."""

    what: str
    theirs: str
    ours: str
    judged: Judged


@dataclass(frozen=True)
class Plot:
    """A plot: a file's name is made of `name`, and `caption` says what can be seen.

    A `wide` one holds several panels: on a narrow screen it is scrolled, not shrunk.
    """

    name: str
    caption: str
    figure: Figure
    wide: bool = False

    def __post_init__(self) -> None:
        """Make a file's name of what may be a title, or levels of factors."""
        name = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")
        object.__setattr__(self, "name", name)


@dataclass(frozen=True)
class Section:
    """A part of the report: words, then plots, tables, commands (`lines`), and points of a list.

    A `folded` one holds what the answer rests on: a page shows it when it is asked for.
    """

    title: str
    words: Sequence[str] = ()
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()
    lines: Sequence[str] = ()
    points: Sequence[str] = ()
    folded: bool = False

    @property
    def holds_anything(self) -> bool:
        """Whether there is more than the title."""
        return any((self.words, self.tables, self.plots, self.lines, self.points))


@dataclass(frozen=True)
class Told:
    """What a run shows: the answer, then what it rests on."""

    answer: Answer
    sections: Sequence[Section] = ()
    reading: Sequence[str] = ()


# --- whether a published finding is found again, by one rule ---
# A finding has a limit that our ratio must be beyond. It is reproduced where the whole 95 %
# interval lies beyond the limit, and not reproduced where the whole interval lies on the other
# side. If the interval spans the limit, the result is inconclusive.

_OF_THEIR_GAIN, _OF_ALLOWED = 0.5, 0.9


class Verdict(StrEnum):
    """What became of a finding here."""

    REPRODUCED = "reproduced"
    BY_CONSTRUCTION = "reproduced by construction"
    NOT = "not reproduced"
    INCONCLUSIVE = "inconclusive"
    NOT_MEASURED = "not measured"
    NOT_TESTABLE = "not testable here"


@dataclass(frozen=True)
class Judged:
    """A verdict, and what it rests on in a few words; `needed` repeats would tell, where open."""

    verdict: Verdict
    why: str
    needed: int = 0


RULE = (
    "A published ratio is reproduced where the whole 95 % interval of ours lies above half of the"
    " published gain, and not reproduced where it lies below that limit. An interval that spans"
    " the limit is inconclusive; the report then estimates how many repeats would be enough, if"
    " they vary as these do. A ratio of at least nine tenths of what the lab's own limits allow"
    " is reproduced by construction: it shows that the client uses the capacity it is given."
    " Where the lab allows less than the limit, the ratio is not testable."
)


def judge(ours: Ratio | None, theirs: float, allowed: float | None = None) -> Judged:
    """Hold our ratio against theirs; `allowed` is what the lab's own limits allow, if any."""
    limit = 1 + _OF_THEIR_GAIN * (theirs - 1)
    if allowed is not None and allowed < limit:
        return untestable(f"the lab's own limits allow about {allowed:.2f} times at most")
    judged = beyond(ours, limit)
    found = judged.verdict is Verdict.REPRODUCED
    if found and ours and allowed is not None and ours.value >= _OF_ALLOWED * allowed:
        return Judged(
            Verdict.BY_CONSTRUCTION, f"the lab's own limits allow about {allowed:.2f} times"
        )
    return judged


def beyond(ours: Ratio | None, limit: float, *, below: bool = False) -> Judged:
    """Hold our ratio against a limit, which it must be above, or `below`."""
    if ours is None:
        return Judged(Verdict.NOT_MEASURED, "it takes both sides")
    above = ours.above(limit)
    if above is None:
        return _open(ours, limit)
    kind = Verdict.REPRODUCED if above != below else Verdict.NOT
    return Judged(kind, f"the interval lies {'above' if above else 'below'} {limit:.2f}")


def weakest(found: Sequence[Judged]) -> Judged:
    """Return what a finding is that takes several: not reproduced if one is not, and so on."""
    places = {
        Verdict.NOT: 0, Verdict.INCONCLUSIVE: 1, Verdict.NOT_MEASURED: 1, Verdict.NOT_TESTABLE: 2,
        Verdict.BY_CONSTRUCTION: 3,
    }  # fmt: skip
    return min(found, key=lambda one: (places.get(one.verdict, 4), -one.needed))


def untestable(why: str) -> Judged:
    """Say why a finding cannot appear here."""
    return Judged(Verdict.NOT_TESTABLE, why)


def _open(ours: Ratio, limit: float) -> Judged:
    """Say how many repeats would tell, if they varied as those that were made."""
    made = texts.counted(ours.n, "repeat")
    if not ours.spread:
        return Judged(Verdict.INCONCLUSIVE, f"{made}, and an interval needs {FEWEST}", FEWEST)
    needed, enough = ours.pairs_to_tell(limit), f"more than {MOST_REPEATS} would be needed"
    if needed <= MOST_REPEATS:
        enough = f"about {needed} would be enough"
    return Judged(Verdict.INCONCLUSIVE, f"{made}; {enough}", needed)


# --- runs that are crossed with more factors: a story for each combination of them ---
# A story's page knows its own factors alone. Cells that differ in another one are no repeats of
# each other, and must not be taken together.


def tell_parts(
    known: Sequence[str] | None, summary: Summary, tell: Callable[[Summary], Told]
) -> Told:
    """Tell a run once for each combination of further factors; one cell must be done."""
    done = [(name, part) for name, part in parts(known, summary) if part.done]
    told = [(name, tell(part)) for name, part in done]
    _, first = told[0]
    return Told(
        answer=_of_all(told, [part.done for _, part in done]) if len(told) > 1 else first.answer,
        sections=[one for name, story in told for one in _named(story.sections, name)],
        reading=first.reading,
    )


_IN_HEADLINE = 2  # variants
_MEASURES: Mapping[str, measures.Take] = {"throughput": measures.MB_PER_S, **measures.P99_OF_EACH}


def _of_all(told: Sequence[tuple[str, Told]], done: Sequence[Sequence[Cell]]) -> Answer:
    """Return one answer: what each part is worth against the first, and what it answers itself.

    Ratios are of the same cells, paired by repeat, and geometric means over these.
    """
    first, words, rows = told[0][0], [], []
    shown = [one for one in _MEASURES if any(_MEASURES[one](cell) for of in done for cell in of)]
    for (name, story), found in zip(told, done, strict=True):
        ratios = [cells.ratio(found, done[0], _MEASURES[one]) for one in shown]
        own = ["1" if found is done[0] else texts.times(one) for one in ratios]
        rows.append([name, *own, story.answer.headline])
        if found is not done[0] and (gain := cells.ratio(found, done[0], measures.MB_PER_S)):
            words.append(f"{texts.times(gain)} times the throughput with {name}")
    said = f"{'; '.join(words[:_IN_HEADLINE])}, against {first}."
    headings = ["", *(f"{one}, times {first}" for one in shown), "answer"]
    return Answer(
        said if words else f"{len(told)} variants; none compares.",
        Table(headings, rows[:MOST_ROWS], ending_text_columns=1),
        [one for _, story in told for one in story.answer.caveats],
    )


def parts(known: Sequence[str] | None, summary: Summary) -> list[tuple[str, Summary]]:
    """Split a run by the factors that are not known, and name the parts; one, "", without any.

    `known` None: all are.
    """
    if known is None:
        return [("", summary)]
    found: dict[tuple[tuple[str, Factor], ...], list[Cell]] = {}
    for cell in summary.cells:
        further = tuple(pair for pair in cell.factors.items() if pair[0] not in known)
        found.setdefault(further, []).append(cell)
    order = {name: values(summary, name) for levels in found for name, _ in levels}
    split = sorted(found, key=lambda levels: [order[name].index(at) for name, at in levels])
    return [
        (cells.text(dict(levels)), replace(summary, cells=found[levels])) for levels in split
    ] or [("", summary)]


def values(summary: Summary, factor: str) -> list[Factor]:
    """Return a factor's values as the user gave them, where that is known."""
    setting = summary.place.get("setting", {})
    given = {**summary.place.get("factors", {}), setting.get("name"): setting.get("values")}
    return given.get(factor) or cells.levels(summary.cells, factor)


def _named(sections: Sequence[Section], name: str) -> Sequence[Section]:
    """Add the name of a part to titles, and to the names of plots."""
    if not name:
        return sections
    return [
        replace(
            one,
            title=named(one.title, name),
            plots=[
                replace(
                    plot,
                    name=f"{plot.name} {name}",
                    caption=named(plot.caption.removesuffix("."), name),
                )
                for plot in one.plots
            ],
        )
        for one in sections
    ]


def named(words: str, name: str) -> str:
    """Add the name of a part to words; nothing where that has none."""
    return f"{words}; {name}" if name else words
