# SPDX-License-Identifier: GPL-2.0-only
"""Which cells of two runs belong together, and whether the runs can be compared at all."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nfsmulti.report import cells, conditions
from nfsmulti.report.measures import Take
from nfsmulti.report.pages import naming
from nfsmulti.stats import Sample
from nfsmulti.summary import Cell, Summary

# Of summary.place, what makes figures of another kind, and what an older summary means.
_PLACE: dict[str, Any] = {"kind": None, "limits": None, "guest": "qemu", "files": None}
_PLACE |= {"amounts": None, "restart": None, "absent": None}


@dataclass(frozen=True)
class Pair:
    """One combination of factors in both runs: its name, and the repeats that are done."""

    name: str
    a: list[Cell]
    b: list[Cell]

    def samples(self, measure: Take) -> tuple[Sample, Sample] | None:
        """Return a figure's repeats in B and in A; None where one of them lacks it."""
        b, a = (cells.sample(side, measure) for side in (self.b, self.a))
        if a is None or b is None or min(a.values + b.values) <= 0:
            return None
        return b, a


def pairs(a: Summary, b: Summary) -> list[Pair]:
    """Return the combinations of factors that are done in both runs, sorted by their names."""
    of_a, of_b, named = _groups(a.done), _groups(b.done), _naming(a, b)
    return [Pair(named(of_a[name][0]), of_a[name], of_b[name]) for name in of_a if name in of_b]


def lost(a: Summary, b: Summary) -> list[str]:
    """Name the combinations that A has done and of which more repeats failed in B than in A."""
    done, of_b, named = _groups(a.done), _groups(b.cells), _naming(a, b)
    before, now = (
        _groups([cell for cell in one.cells if cell.status == "failed"]) for one in (a, b)
    )
    return [
        f"{named(done[name][0])}: {len(found)} of its {len(of_b[name])} repeats failed in B"
        for name, found in now.items()
        if name in done and len(found) > len(before.get(name, []))
    ]


def unmatched(a: Summary, b: Summary) -> int:
    """Count the combinations that are done in one run alone."""
    return len(_groups(a.done).keys() ^ _groups(b.done).keys())


def why_not(a: Summary, b: Summary) -> str | None:
    """Say in one line why two runs cannot be compared; None where they can."""
    of_a, of_b = _kind(a), _kind(b)
    if what := next((what for what in of_a if of_a[what] != of_b[what]), None):
        values = " and ".join(map(conditions.flat_text, (of_a[what], of_b[what])))
        return f"their {what} differ: {values}"
    done = {(_name(cell), cell.repeat) for cell in a.done}
    left = [(_name(cell), cell.repeat) for cell in b.cells if cell.status == "waiting"]
    if waiting := sum(one in done for one in left):
        return f"B is not finished: {waiting} cells that A ran are still to run: {b.to_end}"
    if pairs(a, b) or lost(a, b):
        return None
    if empty := " and ".join(name for name, one in (("A", a), ("B", b)) if not one.done):
        return f"no cell is done in {empty}"
    return f"no combination of factors ran in both{_apart(a, b)}"


def _kind(run: Summary) -> dict[str, Any]:
    """Return what two runs that are compared have in common, by what that is."""
    factors = [{*cell.factors} for cell in run.cells]
    return {
        "scenarios": run.scenario,
        # Those that all cells have; some have another, as one connection on one path.
        "factors": ", ".join(sorted(set.intersection(*factors) if factors else ())),
        "lengths": "quick" if run.quick else "full",
        "numbers of hosts": run.hosts,
        **{f"places ({name})": run.place.get(name, old) for name, old in _PLACE.items()},
    }


def _apart(a: Summary, b: Summary) -> str:
    """Name the factors of which the runs have no level in common."""
    said = []
    for name in sorted({name for cell in a.cells for name in cell.factors}):
        both = [[*map(str, cells.levels(one.done, name))] for one in (a, b)]
        if not {*both[0]} & {*both[1]}:
            said.append("{} is {} in A and {} in B".format(name, *map(",".join, both)))
    return f": {'; '.join(said)}" if said else ""


def _groups(found: list[Cell]) -> dict[str, list[Cell]]:
    return cells.by_name(found, _name)


def _name(cell: Cell) -> str:
    """Return the factors; the runs may have them in another order."""
    return cells.text(dict(sorted(cell.factors.items())))


def _naming(a: Summary, b: Summary) -> Callable[[Cell], str]:
    """Return what names a cell without the factors that have one level in both runs."""
    return naming(dataclasses.replace(b, cells=[*a.cells, *b.cells]))
