# SPDX-License-Identifier: GPL-2.0-only
"""What is durable when: stable_how, COMMIT, write verifiers, and what a server loses."""

from __future__ import annotations

import pytest
from simulated import BLOCK, FORGETS, Fate, Hook, Scenarios, on

from servers.scripted import Nfs

_W, _C = Nfs.WRITE, Nfs.COMMIT
_RENAMES: Fate = {"renames": True}

_LOSSES: dict[str, tuple[list[Hook], dict[str, object], int, str]] = {  # blocks lost, error
    "between WRITE and COMMIT": ([on(_C, FORGETS, nth=1)], {}, 16, "EIO"),
    "between WRITEs": ([on(_W, FORGETS, nth=11)], {"depth": 1}, 10, "EIO"),
    "between fsyncs": ([on(_W, FORGETS, nth=12)], {"depth": 1, "fsync": 8}, 3, "EIO"),
    "before the second fsync": ([on(_C, FORGETS, nth=2)], {"depth": 1, "fsync": 6}, 6, "EIO"),
    "with the connection": ([on(_C, {"restarts": True}, nth=1)], {"depth": 1}, 16, "EIO"),
    "with each reply": ([on(_W, _RENAMES), on(_C, _RENAMES)], {"depth": 1}, 16, "EIO"),
    "COMMIT finds no space": ([on(_C, {"status": 28})], {}, 16, "ENOSPC"),
}


@pytest.mark.parametrize("name", _LOSSES)
def test_what_the_server_lost_is_reported(scenario: Scenarios, name: str) -> None:
    hooks, terms, lost, error = _LOSSES[name]
    ran = scenario(*hooks, **terms)
    assert (ran.error, ran.result.lost) == (error, lost * BLOCK), ran
