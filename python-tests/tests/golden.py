# SPDX-License-Identifier: GPL-2.0-only
"""Texts that tests keep: tests/plans/*.txt and tests/pages/*.txt. Running this makes them anew.

Each has several cases: the lines alone that are not as in the one before that is most alike. The
first of a plan is whole; those of pages begin with the story's reference run, whose report.md is.
"""

import contextlib
import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest import mock

import made_plans
import made_runs
import numpy as np
import page_cases
import pytest
from matplotlib.axes import Axes
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.patches import Patch

from nfsmulti.report import charts, pages
from nfsmulti.report.story import Section
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Summary
from nfsmulti.texts import Table

_COMMAND = "PYTHONPATH=python-tests build/venv/bin/python3 python-tests/tests/golden.py"
_DRAWN = "  "  # how a line begins that a plot draws
_BEGIN = 40  # characters of a line that is missing, by which one finds it
_LEFT_OUT = {"Over time", "Every cell", "Conditions", "The command", "Calls of the mounts"}
_UNDRAWN = {name: mock.MagicMock() for name in ("lines", "bars")}  # drawing takes half of the time


def plan(story: str) -> tuple[Path, str]:
    """Return what a story runs, and the file where that is kept."""
    head = made_plans.head(SCENARIOS[story])
    return _file("plans", story), _text(head, made_plans.cases(story))


def page(story: str) -> tuple[Path, str]:
    """Return what the pages of a story's runs say, and the file where that is kept."""
    run = f"results/reference/{story}"
    told = _told(made_runs.reference(story), plots=True)
    drawn = [line for line in told if line.startswith(("plot ", _DRAWN))]
    known = {run: [line for line in told if not line.startswith(_DRAWN)]}
    runs = page_cases.cases(story).items()
    cases = {promise: _told(one, plots="drawn" in promise) for promise, one in runs}
    return _file("pages", story), _text(["", f"{run}:", *drawn], cases, known)


def check(kept: tuple[Path, str]) -> None:
    """Fail if a text is not as it is kept, with the lines that differ."""
    file, text = kept
    there = file.read_text().splitlines()
    lines = difflib.unified_diff(there, text.splitlines(), file.name, "now", n=2, lineterm="")
    if found := "\n".join(lines):
        pytest.fail(f"{found}\nto keep it so: {_COMMAND}", pytrace=False)


def _file(kind: str, story: str) -> Path:
    return Path(__file__).parent / kind / f"{story}.txt"


def _text(
    head: Sequence[str],
    cases: Mapping[str, Sequence[str]],
    known: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> str:
    lines, before = ["SPDX-License-Identifier: GPL-2.0-only", *head], {**known}
    for words, told in cases.items():
        like = min(before, key=lambda one: len(_unlike(told, before[one])), default="")
        if like and len(_unlike(told, before[like])) < len(told):
            lines += ["", f"{words}, as {like}:", *_unlike(told, before[like])]
        else:
            lines += ["", f"{words}:", *told]
        before[words] = told
    return "\n".join([*lines, ""])


def _unlike(told: Sequence[str], other: Sequence[str]) -> list[str]:
    """Return the lines that are not there, and how those begin that are not here.

    What a plot draws is not missed where nothing tells of it.
    """
    drawn = any(line.startswith(_DRAWN) for line in told)
    gone = [one for one in other if one not in told and (drawn or not one.startswith(_DRAWN))]
    less = "; ".join(line.strip()[:_BEGIN] for line in gone)
    return [*(line for line in told if line not in other), *[f"(without: {less})"] * bool(gone)]


def _told(run: Summary, *, plots: bool = False) -> list[str]:
    """Return the lines of a page, but for the figures of each cell and its conditions."""
    with contextlib.nullcontext() if plots else mock.patch.multiple(charts, **_UNDRAWN):
        values = pages.contents(SCENARIOS[run.scenario], run, made_runs.ENVIRONMENT)
    answer = values["answer"]
    lines = [answer.headline, *_table(answer.table), *(f"⚠ {one}" for one in answer.caveats)]
    lines.append(answer.ran)
    for section in values["sections"]:
        if section.title not in _LEFT_OUT:
            lines += _section(section, plots=plots)
    return lines


def _section(one: Section, *, plots: bool) -> Iterator[str]:
    yield f"## {one.title}{' (folded)' * one.folded}"
    yield from [*one.words, *(f"- {words}" for words in one.points)]
    for table in one.tables:
        yield from _table(table)
    for plot in one.plots:
        yield f"plot {plot.name}: {plot.caption}"
        for axes in plot.figure.axes if plots else ():
            yield from _drawn(axes)


def _table(table: Table) -> list[str]:
    rows = [" | ".join(row) for row in [table.headings, *table.rows] if row]
    return [f"{table.title}:"] * bool(table.title) + rows


def _drawn(axes: Axes) -> Iterator[str]:
    """Yield what a panel of a plot draws: its axes, and the points of each line or bar."""
    scales = f"{axes.get_xscale()}, {axes.get_yscale()}".replace("linear, linear", "linear")
    yield f"  {axes.get_xlabel()}; {axes.get_ylabel()} ({scales})"
    for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
        if isinstance(handle, BarContainer):
            points = [f"{bar.get_x():.3g}: {bar.get_height():.3g}" for bar in handle]
        elif isinstance(handle, Patch):
            band = handle.get_extents().transformed(axes.transData.inverted())
            points = [f"{band.x0:.3g} to {band.x1:.3g}"]
        else:
            line: Any = handle[0] if isinstance(handle, ErrorbarContainer) else handle
            at = zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True)
            points = [f"{x:.3g}: {y:.3g}" for x, y in at]
        yield f"  {label} {', '.join(points)}"


def _every() -> Iterator[tuple[Path, str]]:
    for story in SCENARIOS:
        yield plan(story)
        yield page(story)


if __name__ == "__main__":
    for kept, now in _every():
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(now)
