# SPDX-License-Identifier: GPL-2.0-only
"""What a scenario has to tell of a run, before it is laid out as Markdown or HTML.

Texts are plain; what stands between backquotes is shown as code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nfsmulti.report.verdict import Judged
from nfsmulti.stats import Ratio, Sample
from nfsmulti.summary import Summary
from nfsmulti.texts import MISSING, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Beside:
    """A published figure beside ours. Ratios are many connections to one.

    `sample` are the repeats of our figure, `differs` is a sentence on why ours may be another.
    """

    figure: str
    theirs: str
    ours: str = MISSING
    sample: Sample | None = None
    their_ratio: float | None = None
    our_ratio: Ratio | None = None
    differs: str = ""


@dataclass(frozen=True)
class Finding:
    """What a publication found, its figure and ours, and whether it is found here."""

    what: str
    theirs: str
    ours: str
    judged: Judged


@dataclass(frozen=True)
class Plot:
    """A plot: `name` is its file's, `caption` says what can be seen.

    A `wide` one holds several panels: on a narrow screen it is scrolled, not shrunk.
    """

    name: str
    caption: str
    figure: Figure
    wide: bool = False


@dataclass(frozen=True)
class Section:
    """A part of the report: words, then tables, then plots, then lines to paste."""

    title: str
    words: Sequence[str] = ()
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()
    lines: Sequence[str] = ()


@dataclass(frozen=True)
class Story:
    """What a run shows: the answer in a few sentences, then what it rests on."""

    answer: Sequence[str]
    sections: Sequence[Section] = ()
    reading: Sequence[str] = ()
    ending: Sequence[Section] = field(default=())


@dataclass(frozen=True)
class Report:
    """Who published a story and measured what, and what a run of ours has to say to it.

    `beside` gives all published figures, with ours where the run has them: of a run without cells
    it gives the published ones alone. `findings` are judged, and of such a run inconclusive or not
    testable. `tell` needs one cell that is done. `factors` are those that all know of; None: they
    take any.
    """

    title: str
    publication: str
    factors: tuple[str, ...] | None
    beside: Callable[[Summary], list[Beside]]
    tell: Callable[[Summary], Story]
    findings: Callable[[Summary], list[Finding]] = field(default=lambda _: [])
