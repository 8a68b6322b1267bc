# SPDX-License-Identifier: GPL-2.0-only
"""How long a cell runs: as planned, or longer where its figure does not settle by then.

fio's own `steadystate` ends each run at another time, so that repeats could not be paired; it looks
once a second, which is too coarse for a short cell, and without group_reporting at each job alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from nfsmulti.run.plan import Plan, PlannedCell, name_of
from nfsmulti.stories.scenario import timed
from nfsmulti.summary import Cell, Factor

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


def decided(cell: PlannedCell, plan: Plan, cells: Sequence[Cell]) -> int | None:
    """Give how many times as long those were that it is compared with; None: none is done."""
    own = _alike(plan, cell.spec.factors)
    done = (one for one in cells if one.status == "done" and _alike(plan, one.factors) == own)
    return next((one.times for one in done), None)


def _alike(plan: Plan, factors: Mapping[str, Factor]) -> str:
    """Name the cells that run equally long: repeats of a cell, with whatever further factors."""
    return name_of({name: value for name, value in factors.items() if name not in plan.further})


def may_double(cell: PlannedCell, times: int, plan: Plan, cells: Sequence[Cell]) -> bool:
    """Tell whether a cell that did not settle in `times` its length may run twice as long.

    What that adds is counted with those that are to run as long, and with its shorter tries.
    """
    if 2 * times > plan.most_times:
        return False
    lengths = {_alike(plan, one.factors): one.times for one in cells if one.status == "done"}
    lengths[_alike(plan, cell.spec.factors)] = 2 * times
    added = 0.0
    for name, longer in lengths.items():
        specs = [one.spec for one in plan.cells if _alike(plan, one.spec.factors) == name]
        added += (longer - 1) * (sum(spec.seconds for spec in specs) + specs[0].seconds)
    return added <= max(_SHARE * sum(one.spec.seconds for one in plan.cells), _SPARE_SECONDS)
