# SPDX-License-Identifier: GPL-2.0-only
"""Factors that a user adds: options of the engine or of fio, which these two know themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.processes import run
from nfsmulti.summary import Factor

_SECONDS = 20.0
# What the harness itself gives fio, or what a cell would be another one with.
_OURS = {"pool", "ioengine", "stats_file", "filename", "filename_format", "directory", "name"}
_OURS |= {"exec_prerun", "exec_postrun", "write_bw_log", "bwavgtime", "log_avg_msec", "loops"}


def parse(words: Sequence[str]) -> dict[str, tuple[Factor, ...]]:
    """Read words like nconnect=1,4. Raises HarnessError for what is no option, or has no values."""
    factors: dict[str, tuple[Factor, ...]] = {}
    for word in words:
        name, values = split("--factors", word)
        if name in factors:
            raise HarnessError(f"--factors {word}: give each value once, and each name")
        factors[name] = values
    for name in factors:
        if name in _OURS:
            raise HarnessError(f"--factors {name}: a scenario cannot change that")
        if not _known(name):
            raise HarnessError(
                f"--factors {name}: neither the engine nor fio has such an option",
                "fio --enghelp=./build/libnfsmulti.so and fio --cmdhelp=all list them",
            )
    return factors


def split(option: str, word: str) -> tuple[str, tuple[Factor, ...]]:
    """Read NAME=V1,V2 of an option. Raises HarnessError."""
    name, equals, text = word.partition("=")
    values = [value for value in text.split(",") if value]
    if not equals or not re.fullmatch(r"\w+", name):
        raise HarnessError(f"{option} '{word}': write a factor like nconnect=1,4")
    if not values or len(set(values)) != len(values):
        raise HarnessError(f"{option} {word}: give each value once, and each name")
    return name, tuple(int(v) if v.isdecimal() and str(int(v)) == v else v for v in values)


def of_engine(name: str) -> bool:
    """Ask the engine whether it has an option."""
    library = Engine.built().library
    # fio splits what follows --enghelp= at commas, so the name is short.
    return _lists(f"--enghelp=./{library.name},{name}", name, library.parent)


def _known(name: str) -> bool:
    return of_engine(name) or _lists(f"--cmdhelp={name}", name, None)


def _lists(question: str, name: str, cwd: Path | None) -> bool:
    """Ask fio, which answers with status 0 and the nearest name where it does not know this one."""
    said = run(["fio", question], timeout=_SECONDS, cwd=cwd).stdout
    return bool(re.search(rf"^\s*{name}\b", said, re.MULTILINE))
