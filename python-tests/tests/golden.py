# SPDX-License-Identifier: GPL-2.0-only
"""Texts that tests keep: tests/plans/*.txt and tests/pages/*.txt. Running this makes them anew.

Each has several cases: the lines alone that are not as in the one before that is most alike. The
first of a plan is whole; those of pages begin with the story's reference run, whose report.md is.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import made_pages
import made_plans
import made_runs
import pytest

from nfsmulti.stories import SCENARIOS

_COMMAND = "PYTHONPATH=python-tests build/venv/bin/python3 python-tests/tests/golden.py"
_DRAWN = "  "  # how a line begins that a plot draws
_BEGIN = 40  # characters of a line that is missing, by which one finds it


def plan(story: str) -> tuple[Path, str]:
    """Return what a story runs, and the file where that is kept."""
    head = made_plans.head(SCENARIOS[story])
    return _file("plans", story), _text(head, made_plans.cases(story))


def page(story: str) -> tuple[Path, str]:
    """Return what the pages of a story's runs say, and the file where that is kept."""
    run = f"results/reference/{story}"
    told = made_pages.told(made_runs.reference(story), plots=True)
    drawn = [line for line in told if line.startswith(("plot ", _DRAWN))]
    known = {run: [line for line in told if not line.startswith(_DRAWN)]}
    return _file("pages", story), _text(["", f"{run}:", *drawn], made_pages.cases(story), known)


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


def _every() -> Iterator[tuple[Path, str]]:
    for story in SCENARIOS:
        yield plan(story)
        yield page(story)


if __name__ == "__main__":
    for kept, now in _every():
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(now)
