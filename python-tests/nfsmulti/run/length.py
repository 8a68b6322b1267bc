# SPDX-License-Identifier: GPL-2.0-only
"""How long a cell runs: as planned, or longer where its figure does not settle by then.

fio's own `steadystate` ends each run at another time, so that repeats could not be paired; it looks
once a second, which is too coarse for a short cell, and without group_reporting at each job alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from nfsmulti.run.plan import Plan, PlannedCell, name_of
from nfsmulti.stories import CellSpec
from nfsmulti.stories.scenario import timed
from nfsmulti.summary import Cell

# What all lengthening may add: this part of the run's own time, or so many seconds.
_SHARE, _SPARE_SECONDS = 0.5, 60.0


def lengthened(cell: PlannedCell, times: int) -> PlannedCell:
    """Give a cell that goes on so many times as long, or moves its data so many times."""
    if times == 1:
        return cell
    spec = cell.spec
    seconds = times * spec.seconds
    more = timed(seconds) if spec.options.get("time_based") else {"loops": times}
    longer = dataclasses.replace(spec, options={**spec.options, **more}, seconds=seconds)
    return dataclasses.replace(cell, spec=longer)


def decided(cell: PlannedCell, cells: Sequence[Cell]) -> int | None:
    """Give how many times as long the other repeats were; None where none of them is done."""
    done = (one for one in cells if one.status == "done" and one.factors == cell.spec.factors)
    return next((one.times for one in done), None)


def may_double(cell: PlannedCell, times: int, plan: Plan, cells: Sequence[Cell]) -> bool:
    """Tell whether a cell that did not settle in `times` its length may run twice as long."""
    if 2 * times > plan.most_times:
        return False
    lengths = {name_of(one.factors): one.times for one in cells if one.status == "done"}
    lengths[name_of(cell.spec.factors)] = 2 * times
    specs = {name_of(one.spec.factors): one.spec for one in plan.cells}
    repeats = max(one.repeat for one in plan.cells)
    added = sum(_added(specs[name], longer, repeats) for name, longer in lengths.items())
    return added <= max(_SHARE * sum(one.spec.seconds for one in plan.cells), _SPARE_SECONDS)


def _added(spec: CellSpec, times: int, repeats: int) -> float:
    """Give the seconds that a cell takes beyond its plan: its repeats', and its shorter tries'."""
    return (times - 1) * spec.seconds * (repeats + 1)
