# SPDX-License-Identifier: GPL-2.0-only
"""The fault matrix (nfsmulti/faults/matrix.txt): each cell ends as the table says.

Cells run a few at a time, begun before the first test asks for one. The quick tests have one
cell of each fault, --full the short form; all cells run by

    NFSMULTI_FAULTS=all ./nfsmulti test -k fault_matrix        or        ./nfsmulti faults
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from conftest import or_skip

from nfsmulti.faults import guest_faults, lab_faults, scripted_faults
from nfsmulti.faults.command import run_cell, under_way
from nfsmulti.faults.job import Place
from nfsmulti.faults.matrix import CELLS
from nfsmulti.faults.outcome import Outcome
from nfsmulti.fiorun import Engine

_ALL = os.environ.get("NFSMULTI_FAULTS") == "all"
_CHOSEN = [cell for cell in CELLS if _ALL or cell.brief]
_TCP = {cell.id: cell for cell in _CHOSEN if cell.fault.place is not Place.GUEST}
_RDMA = {cell.id: cell for cell in _CHOSEN if cell.fault.place is Place.GUEST}


def _cell_of(item: pytest.Item) -> str | None:
    """Return the cell that a test of this module is about."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return params.get("cell") if item.path == Path(__file__) else None


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Outcome]]]:
    """Begin the cells of the tests that are to run with this build."""
    wanted = {_cell_of(item) for item in request.session.items}
    cells = [cell for name, cell in _TCP.items() if name in wanted]
    with under_way(cells, engine, tmp_path_factory.mktemp("cells")) as running:
        yield running


def _as_expected(run: Callable[[], Outcome]) -> None:
    with or_skip():
        outcome = run()
    told = "\n  ".join([*outcome.complaints, outcome.command, *outcome.said])
    assert outcome.met, f"{outcome.cell}\n  {told}"


def _tcp() -> list[Any]:
    """Return the cells of real servers, and the scripted one's for the sanitizers as well."""
    first = {(cell.fault.place, cell.fault.name): name for name, cell in reversed(_TCP.items())}
    quick = _TCP.keys() if _ALL else first.values()
    return [
        pytest.param(
            name,
            marks=[pytest.mark.sanitized] * (cell.fault.place is Place.SCRIPTED)
            + [pytest.mark.full] * (name not in quick),
        )
        for name, cell in _TCP.items()
    ]


@pytest.mark.parametrize("cell", _tcp())
def test_cell(runs: dict[str, Future[Outcome]], cell: str) -> None:
    _as_expected(runs[cell].result)


@pytest.mark.kernel_lab
@pytest.mark.parametrize("cell", _RDMA)
def test_cell_over_rdma(engine: Engine, tmp_path: Path, cell: str) -> None:
    _as_expected(lambda: run_cell(_RDMA[cell], engine, tmp_path / "cell"))


def test_the_table_names_each_cell_once() -> None:
    assert len({cell.id for cell in CELLS}) == len(CELLS)


def test_the_short_form_has_every_fault() -> None:
    """And no two faults of a server have one name."""
    of_servers = (scripted_faults, lab_faults, guest_faults)
    faults = [(fault.place, fault.name) for one in of_servers for fault in one.FAULTS]
    short = {(cell.fault.place, cell.fault.name) for cell in CELLS if cell.brief}
    assert sorted(short) == sorted(faults)
