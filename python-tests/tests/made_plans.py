# SPDX-License-Identifier: GPL-2.0-only
"""What every story runs, as text: tests/plans/*.txt, the first case the whole story in the lab.

An option has a line, which says by which factors it differs.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from nfsmulti.errors import HarnessError
from nfsmulti.run.plan import name_of
from nfsmulti.scenario import CellSpec, Choice, OwnPool, Scale
from nfsmulti.stories import SCENARIOS
from nfsmulti.story import Story

# Of a cell's members, but for its factors and options.
_USUAL = {
    one.name: one.default if one.default_factory is MISSING else one.default_factory()
    for one in fields(CellSpec)
    if one.name not in ("factors", "options", "own")
}
_URL, _TWO, _URLS, _BOTH, _MOUNT, _RDMA = (
    OwnPool(1, 0),
    OwnPool(2, 1),
    OwnPool(6, 0, url_version="4.1"),
    OwnPool(1, 3, "4.2", memory=1 << 30),
    OwnPool(0, 2, memory=3 << 30),
    OwnPool(1, 0, url_version="", url_proto="rdma"),
)
# Of every story: how much, and on which pool; None: in the lab.
_CASES: dict[str, tuple[Scale, OwnPool | None]] = {
    "in full": (Scale(), None),
    "--quick": (Scale(quick=True), None),
    "NFSMULTI_CELL_SECONDS=0.5": (Scale(quick=True, cell_seconds=0.5), None),
    "on a pool of a URL": (Scale(), _URL),
    "of six of NFSv4.1, --quick": (Scale(quick=True), _URLS),
    "of one over RDMA of an unknown version": (Scale(), _RDMA),
    "of a URL and three mounts": (Scale(), _BOTH),
    "the same, --quick": (Scale(quick=True), _BOTH),
    "of two mounts": (Scale(), _MOUNT),
}
# Of some, what was chosen.
_CHOSEN: dict[str, dict[str, Choice]] = {
    "clients": {
        "--neighbour --rate": Choice(clients=(3, 20), neighbour=(8,), rate=(10,)),
        "--restart --neighbour --absent --partial": Choice(
            neighbour=(8,), restart="reboot", absent=1.5, partial=True
        ),
    },
    "connections": {
        "--mounts": Choice((8,), ("tcp", "rdma"), ("4.1",), (2,), True, ("8k-oltp",)),
        "--discard": Choice((1,), version=("3", "4.1"), discard=True, workload=("4k-randread",)),
        "--workload": Choice((1,), jobs=(1,), workload=("64k-write",)),
    },
    "latency": {
        "--mounts": Choice(
            (1, 4), ("tcp",), ("4.2",), (2,), True, load=(50,), arrival_process="fixed",
            workload=("latency/8k-oltp.fio", "latency/software-build.fio", "/mine.fio"),
        ),
    },
    "metadata": {
        "--mounts --nconnect=1": Choice((1,), mounts=True, workload=("lookup",)),
        "--mounts": Choice((2, 4), ("rdma",), ("4.1",), mounts=True, depth=(8, 16)),
        "--depth": Choice(
            (1, 2), version=("3", "4.1"), depth=(8, 4), workload=("remove", "create")
        ),
    },
    "readsize": {"--nconnect --version": Choice((2,), version=("3", "4.2"))},
    "security": {
        "--sec": Choice((3,), workload=("1m-read",), sec=("krb5", "krb5p")),
        "--xprtsec --mounts": Choice(
            (64,), mounts=True, sec=("krb5i", "sys"), xprtsec=("none", "tls")
        ),
        "--sec --xprtsec": Choice((1,), sec=("krb5",), xprtsec=("tls", "mtls")),
        "--xprtsec": Choice((1,), workload=("4k-randread",), xprtsec=("mtls",)),
    },
}  # fmt: skip


def head(story: Story) -> list[str]:
    """Return what holds in all cases of a story."""
    repeats = f"{story.name}: {story.repeats} repeats, {story.quick_repeats} with --quick"
    return [repeats, *(f"place {one}: {_text(place)}" for one, place in story.places.items())]


def cases(name: str) -> dict[str, list[str]]:
    """Return what a story runs in each case: its cells, with all that fio is given."""
    story = SCENARIOS[name]
    return {words: _told(story, *how) for words, how in _cases(name)}


def _cases(name: str) -> Iterator[tuple[str, tuple[Scale, OwnPool | None]]]:
    yield from _CASES.items()
    for words, choice in _CHOSEN.get(name, {}).items():
        scale = Scale(quick=True, choice=choice)
        yield words, (scale, None)
        if choice.mounts:
            yield f"{words} on a URL", (scale, _URL)
        yield f"{words} on two URLs and a mount", (scale, _TWO)


def _told(story: Story, scale: Scale, pool: OwnPool | None) -> list[str]:
    """Return what is told of each factor, option and other member of a story's cells."""
    try:
        cells, left_out = story.own_cells(scale, pool) if pool else (story.cells(scale), [])
    except HarnessError as error:
        return [f"refused: {error}"]
    found = [f"cells: {len(cells)}"]
    names = dict.fromkeys(name for cell in cells for name in cell.factors)
    levels = {
        name: [*dict.fromkeys(cell.factors.get(name, "-") for cell in cells)] for name in names
    }
    varied = [name for name in names if len(levels[name]) > 1]
    found += [f"{name}: {', '.join(map(_text, levels[name]))}" for name in names]
    if cells and len(cells) != math.prod(map(len, levels.values())):
        found.append(f"of these {_tree(cells, varied, dict.fromkeys(range(len(cells)), ''))}")
    found += [f"the first is named {name_of(cell.factors)}" for cell in cells[:1]]
    members = [_members(cell) for cell in cells]
    for key in dict.fromkeys(key for one in members for key in one):
        values = [one.get(key, "-") for one in members]
        if {*values} != {_text(_USUAL.get(key))}:
            found.append(f"{key}{_by_factors(cells, varied, dict(enumerate(values)))}")
    return found + [f"left out: {one}" for one in left_out]


def _members(cell: CellSpec) -> dict[str, str]:
    """Return what a cell has, but for its factors, by name: its options first."""
    found = {f"--{name}": _text(value) for name, value in cell.options.items()}
    for job, options in cell.own.items():
        found |= {f"[{job}] --{name}": _text(value) for name, value in options.items()}
    return found | {name: _text(getattr(cell, name)) for name in _USUAL}


def _by_factors(cells: Sequence[CellSpec], varied: Sequence[str], values: dict[int, str]) -> str:
    """Return the values of cells by the fewest factors that tell them apart."""
    for count in range(len(varied) + 1):
        for some in itertools.combinations(varied, count):
            found: dict[tuple[object, ...], set[str]] = {}
            for at, cell in enumerate(cells):
                found.setdefault(tuple(map(cell.factors.get, some)), set()).add(values[at])
            if all(len(one) == 1 for one in found.values()):
                if count == 1 and all({_text(level[0])} == one for level, one in found.items()):
                    return f" = {some[0]}"
                return (
                    f" by {', '.join(some)}: {_tree(cells, some, values)[1:-1]}"
                    if some
                    else f" = {values[0]}"
                )
    raise AssertionError("two cells have the same factors")


def _tree(cells: Sequence[CellSpec], factors: Sequence[str], values: dict[int, str]) -> str:
    """Return the values of cells by the levels of factors; levels with the same stand together."""
    if not factors:
        return next(iter(values.values()))
    by_level: dict[str, dict[int, str]] = {}
    for at, value in values.items():
        by_level.setdefault(_text(cells[at].factors.get(factors[0], "-")), {})[at] = value
    alike: dict[str, list[str]] = {}
    for level, those in by_level.items():
        alike.setdefault(_tree(cells, factors[1:], those), []).append(level)
    parts = [", ".join(levels) + f": {told}" * bool(told) for told, levels in alike.items()]
    return parts[0] if len(parts) == 1 else f"({'; '.join(parts)})"


def _text(value: Any) -> str:
    """Write a value; whole MiB as such, and of dataclasses what is not as usual."""
    if isinstance(value, int) and not isinstance(value, bool) and value and not value % (1 << 20):
        return f"{value >> 20}m"
    if isinstance(value, dict):
        if len(value) > 1 and len({*value.values()}) == 1:
            first, *_, last = value
            return f"{first} to {last}: {len(value)} of {_text(value[last])}"
        return ", ".join(f"{name} {_text(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    if is_dataclass(value):
        known = {one.name: one.default for one in fields(value)}
        own = {name: getattr(value, name) for name in known}
        return f"({'; '.join(f'{n} {_text(v)}' for n, v in own.items() if v != known[n])})"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
