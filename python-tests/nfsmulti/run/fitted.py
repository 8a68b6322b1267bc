# SPDX-License-Identifier: GPL-2.0-only
"""A lab's limits, fitted to this machine when a run begins, and the same when it is resumed."""

from __future__ import annotations

import dataclasses

from rich.console import Console

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.lab import Fit, LabConfig, Limits, fit
from nfsmulti.run.cell import run_cell
from nfsmulti.run.place import InLab
from nfsmulti.run.plan import PlannedCell
from nfsmulti.run.record import Record


def fitted(
    record: Record, name: str, published: LabConfig, engine: Engine, out: Console
) -> LabConfig:
    """Give the lab of the place `name` with limits that this machine can carry.

    What it carries is measured once in a run, without limits. Raises HarnessError where that fails.
    """
    if name not in record.plan.probes:
        return published
    known = record.fit(name)
    found = known or _measured(record, name, published, engine)
    limits = published.limits if found.fraction == 1 else found.limits
    if published.limits.per_connection and found.fraction != 1:
        limits = Limits(limits.link, burst=limits.burst, per_connection=limits.per_address)
    if known is None:
        record.set_fit(name, found, limits)
    rates = ", ".join(" ".join(rate) for rate in limits.rates.items())
    out.print(f"  {name}: {found.text()} Limits: {rates}", markup=False)
    return dataclasses.replace(published, limits=limits)


def _measured(record: Record, name: str, published: LabConfig, engine: Engine) -> Fit:
    """Run the place's probe in a lab without limits, and fit the limits to what it moved."""
    link = published.limits.link
    cap = published.limits.per_address or published.limits.per_connection
    assert link
    assert cap
    probe = PlannedCell(f"{name}-without-limits", 1, 0, record.plan.probes[name])
    with InLab(dataclasses.replace(published, limits=Limits())) as lab:
        cell = run_cell(probe, lab, engine, record.folder, lambda _: None)
    carried = max((side.bytes_per_s for side in (cell.read, cell.write) if side), default=0.0)
    if not carried:
        raise HarnessError(f"{name}, without limits: {cell.why or 'nothing was moved'}")
    return fit(carried, link=link, cap=cap, paths=published.addresses)
