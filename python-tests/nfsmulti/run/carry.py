# SPDX-License-Identifier: GPL-2.0-only
"""Carries out what waits in a run: each place in turn, each cell of it in the plan's order."""

from __future__ import annotations

import functools
from collections.abc import Callable

from rich.console import Console

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.run.fitted import fitted
from nfsmulti.run.guest import run_in_guests
from nfsmulti.run.onhosts import OnHosts
from nfsmulti.run.place import InLab, OnPool, Serving
from nfsmulti.run.progress import Meter, Watcher, expected_seconds
from nfsmulti.run.record import Record
from nfsmulti.run.runner import run_in_place
from nfsmulti.stories import OWN, SCENARIOS, GuestPlace
from nfsmulti.units import duration_text


def expected(record: Record) -> float:
    """Estimate the seconds that the cells take that are not done."""
    done = {cell.id for cell in record.cells if cell.status == "done"}
    left = [cell for cell in record.plan.cells if cell.id not in done]
    return expected_seconds(left, _guests(record))


def carry_out(record: Record, out: Console) -> None:
    """Run all cells that wait or have failed before.

    Raises HarnessError where places did not start, after the cells of the others: what waits there
    can be resumed.
    """
    missed: list[HarnessError] = []
    plan = record.plan
    with record.claimed():
        seconds = duration_text(expected(record))
        record.retry()
        left = record.waiting()
        out.print(f"  {len(left)} of {len(plan.cells)} cells to run, about {seconds}")
        with Meter(out, left, len(plan.cells), _guests(record)) as meter:
            for name in plan.places:
                try:
                    if record.waiting(name):
                        _run_place(record, name, meter, out)
                except HarnessError as error:
                    missed.append(error)
        if not missed:
            record.end()
    if len(missed) > 1:
        raise HarnessError("; ".join(str(error) for error in missed))
    if missed:
        raise missed[0]


def _run_place(record: Record, name: str, watcher: Watcher, out: Console) -> None:
    """Run what waits in one place, where that is."""
    engine = Engine.built()
    if name == OWN:
        make = _own_place(record, engine)
    else:
        place = SCENARIOS[record.plan.scenario].places[name]
        if isinstance(place, GuestPlace):
            run_in_guests(record, name, place, watcher)
            return
        make = functools.partial(InLab, fitted(record, name, place, engine, out))
    run_in_place(record, name, make, engine, watcher)


def _own_place(record: Record, engine: Engine) -> Callable[[], Serving]:
    """Give what makes the place of a user's own pool."""
    pool, hosts, command = record.plan.pool or "", record.plan.hosts, record.plan.server_command
    if not hosts:
        return functools.partial(OnPool, pool, command)
    folder = record.folder.absolute() / "hosts"
    return functools.partial(OnHosts, pool, hosts, engine, folder, command)


def _guests(record: Record) -> set[str]:
    places = SCENARIOS[record.plan.scenario].places
    return {name for name, place in places.items() if isinstance(place, GuestPlace)}
