# SPDX-License-Identifier: GPL-2.0-only
"""Carries out what waits in a run: each place in turn, each cell of it in the plan's order."""

from __future__ import annotations

import functools
from collections.abc import Callable

from rich.console import Console

from nfsmulti.fiorun import Engine
from nfsmulti.lab import LabConfig
from nfsmulti.run.guest import run_in_guests
from nfsmulti.run.onhosts import OnHosts
from nfsmulti.run.place import InLab, OnPool, Serving
from nfsmulti.run.progress import Meter, expected_seconds, time_text
from nfsmulti.run.record import Record
from nfsmulti.run.runner import run_in_place
from nfsmulti.scenarios import OWN, SCENARIOS, GuestPlace


def carry_out(record: Record, out: Console) -> None:
    """Run all cells that wait or have failed before.

    Raises HarnessError where a place does not start; what waits there can be resumed.
    """
    plan = record.plan
    places = SCENARIOS[plan.scenario].places
    guests = {name for name, place in places.items() if isinstance(place, GuestPlace)}
    with record.claimed():
        record.retry()
        left = record.waiting()
        seconds = time_text(expected_seconds(left, guests))
        out.print(f"  {len(left)} of {len(plan.cells)} cells to run, about {seconds}")
        engine = Engine.built()
        with Meter(out, left, len(plan.cells), guests) as meter:
            for name in plan.places:
                if name == OWN:
                    run_in_place(record, name, _own_place(record, engine), engine, meter)
                elif isinstance(config := places[name], LabConfig):
                    run_in_place(record, name, functools.partial(InLab, config), engine, meter)
                else:
                    run_in_guests(record, name, config, meter)
        record.end()


def _own_place(record: Record, engine: Engine) -> Callable[[], Serving]:
    """Give what makes the place of a user's own pool."""
    pool, hosts = record.plan.pool or "", record.plan.hosts
    if not hosts:
        return functools.partial(OnPool, pool)
    return functools.partial(OnHosts, pool, hosts, engine, record.folder.absolute() / "hosts")
