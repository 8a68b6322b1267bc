# SPDX-License-Identifier: GPL-2.0-only
"""Factors that a user adds: options of the engine or of fio, which these two know themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.processes import run
from nfsmulti.summary import Factor

_SECONDS = 20.0
# What the harness itself gives fio, or what a cell would be another one with.
_OURS = {"pool", "ioengine", "stats_file", "filename", "filename_format", "directory", "name"}


def parse(words: Sequence[str]) -> dict[str, tuple[Factor, ...]]:
    """Read words like nconnect=1,4. Raises HarnessError for what is no option, or has no values."""
    factors: dict[str, tuple[Factor, ...]] = {}
    for word in words:
        name, equals, text = word.partition("=")
        values = [value for value in text.split(",") if value]
        if not equals or not re.fullmatch(r"\w+", name):
            raise HarnessError(f"'{word}': write a factor like nconnect=1,4")
        if not values or len(set(values)) != len(values) or name in factors:
            raise HarnessError(f"--factors {word}: give each value once, and each name")
        factors[name] = tuple(int(v) if v.isdecimal() else v for v in values)
    for name in factors:
        if name in _OURS:
            raise HarnessError(f"--factors {name}: that is not a scenario's to change")
        if not _known(name):
            raise HarnessError(
                f"--factors {name}: neither the engine nor fio has such an option",
                "fio --enghelp=./build/libnfsmulti.so and fio --cmdhelp=all list them",
            )
    return factors


def _known(name: str) -> bool:
    """Ask the engine, then fio. Both give status 0 for what they do not know."""
    library = Engine.built().library
    asked = [f"--enghelp=./{library.name},{name}", f"--cmdhelp={name}"]
    for question in asked:
        # fio splits what follows --enghelp= at commas, so the name is short.
        said = run(["fio", question], timeout=_SECONDS, cwd=library.parent).stdout
        if re.search(rf"^\s*{name}\b", said, re.MULTILINE):
            return True
    return False
