# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti faults: chooses cells, runs them, and writes down what came of them.

That is results.json, and a page.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.faults import page
from nfsmulti.faults.job import Cell, Place
from nfsmulti.faults.matrix import CELLS
from nfsmulti.faults.outcome import Outcome, judge, not_run
from nfsmulti.fiorun import Engine
from nfsmulti.folders import own_folder
from nfsmulti.lab import guest
from nfsmulti.lab.kernels import KernelTree
from nfsmulti.machine import versions
from nfsmulti.paths import BUILD, RESULTS, portable, write_whole
from nfsmulti.screen import Screen

# --- cells under way ---


_AT_ONCE = 4  # nearly all they do is wait


def run_cell(cell: Cell, engine: Engine, folder: Path) -> Outcome:
    """Run one cell; what fio leaves lies in `folder`. Raises MissingError."""
    try:
        return judge(cell, cell.fault.run(cell, engine, folder))
    except MissingError:
        raise
    except HarnessError as error:
        return not_run(cell, str(error))


@contextlib.contextmanager
def under_way(
    cells: Sequence[Cell], engine: Engine, folder: Path
) -> Iterator[dict[str, Future[Outcome]]]:
    """Run cells in their order, a few at a time; gives what will come of each, by its id.

    Each runs whole in one of the pool's threads: the processes that it starts end with the thread.
    In the guest they run one after the other, as they share its server.
    """
    pool = ThreadPoolExecutor(1 if guest.inside() else _AT_ONCE, thread_name_prefix="cell")
    outcomes = {}
    try:
        for number, cell in enumerate(cells):
            own = folder / f"{number:03}-{re.sub(r'[^a-z0-9.]+', '-', cell.id.lower())}"
            outcomes[cell.id] = pool.submit(run_cell, cell, engine, own)
        yield outcomes
    finally:
        pool.shutdown(cancel_futures=True)


# --- what a run leaves ---


def write(folder: Path, begun: datetime, setting: Mapping[str, str], found: list[Outcome]) -> None:
    """Write results.json."""
    values = {
        "begun": begun.isoformat(timespec="seconds"),
        "setting": setting,
        "cells": [dataclasses.asdict(one) for one in found],
    }
    text = json.dumps(values, indent="\t", ensure_ascii=False)
    write_whole(folder / page.FILE, portable(text) + "\n")


# --- the command ---


_GUEST_SECONDS = 2400.0


def faults(
    only: str = "", *, brief: bool = False, listed: bool = False, results: Path | None
) -> None:
    """Run the chosen cells, and leave a report of all of them."""
    cells = _choose(only, brief)
    if listed:
        for cell in cells:
            print(f"{cell.id}: {cell.expected.text}")
        return
    begun = datetime.now(UTC)
    out = Screen(soft_wrap=True)
    found: list[Outcome] = []
    with own_folder(results, RESULTS / "faults") as folder:
        try:
            _run(cells, only, brief, out, found)
        finally:
            names = {one.cell for one in found}
            found += [not_run(cell, "it was not reached") for cell in cells if cell.id not in names]
            write(folder, begun, _setting(found), found)
            if not guest.inside():
                print(page.write(folder))
    if not guest.inside():
        sys.exit(not all(one.met for one in found))


def _setting(found: Sequence[Outcome]) -> dict[str, str]:
    """Say on what the cells ran."""
    setting = versions()
    ran = any(one.place == Place.GUEST and one.outcome != "not run" for one in found)
    if ran and not guest.inside():
        setting["kernel lab"] = KernelTree.get().release
    return setting


def _choose(only: str, brief: bool) -> list[Cell]:
    """Choose the cells that can run here: in the guest its own, elsewhere all."""
    words = only.split()
    cells = [
        cell
        for cell in CELLS
        if all(word in cell.id for word in words)
        and (cell.brief or not brief)
        and (cell.fault.place is Place.GUEST or not guest.inside())
    ]
    if not cells:
        raise HarnessError(
            f"--only='{only}': no cell's name contains all these words", "see --list"
        )
    return cells


def _run(cells: Sequence[Cell], only: str, brief: bool, out: Screen, found: list[Outcome]) -> None:
    """Run the cells of this machine, and then boot the guest for its own; add to `found`."""
    here = [cell for cell in cells if (cell.fault.place is Place.GUEST) == guest.inside()]
    there = [cell for cell in cells if cell not in here]
    if here:
        with (
            tempfile.TemporaryDirectory(prefix="faults-", dir=BUILD) as name,
            under_way(here, Engine.built(), Path(name)) as outcomes,
        ):
            for outcome in (outcomes[cell.id].result() for cell in here):
                found.append(outcome)
                lines = [f"{outcome.cell}: {outcome.outcome}", *outcome.complaints]
                out.print("\n  NOT AS EXPECTED: ".join(lines))
    if there:
        try:
            _run_in_guest(["--only", only, *(["--brief"] if brief else [])], found)
        except MissingError as error:
            out.print(f"without the kernel lab's cells: {error}")
            found += [not_run(cell, error.what) for cell in there]


def _run_in_guest(words: Sequence[str], found: list[Outcome]) -> None:
    """Run this command in a guest, and add to `found` what it leaves, however it ends."""
    with tempfile.TemporaryDirectory(prefix="faults-", dir=BUILD) as name:
        command = [sys.executable, "-m", "nfsmulti", "faults", *words, "--results", name]
        try:
            config = guest.GuestConfig(results=Path(name), timeout=_GUEST_SECONDS)
            status = guest.run_in_guest(command, config)
        finally:
            found += (left := page.read(Path(name)).cells)
    if status or not left:
        raise HarnessError(f"the guest's cells ended with status {status}, and {len(left)} ran")
