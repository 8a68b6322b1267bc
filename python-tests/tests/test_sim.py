# SPDX-License-Identifier: GPL-2.0-only
"""The client on a simulated network, server and clock: python-tests/sim/, built as nfsmulti-sim."""

import re
from pathlib import Path

import pytest
from conftest import in_full

from nfsmulti.processes import Completed, run

_SECONDS = 900.0
_JOBS = 300  # some 10 seconds of one core
# Each fails where a fault that the engine had is put back: a retry with another stateid, a handle
# that is stale over a second path as well, an EXCHANGE_ID that was answered late. With Kerberos: a
# slot whose reply was changed on its way, calls that wait for the slot of one that was denied, an
# answer to an earlier copy, a length that was changed, a denied create that counted as carried out.
# Of many clients: one whose session the server had forgotten left its opens there.
_KEPT = (99, 1300, 1767, 13, 57, 39, 199, 500016, 186)

pytestmark = pytest.mark.timeout(_SECONDS)


def _sim(build_dir: Path, *options: str) -> Completed:
    return run([str(build_dir / "nfsmulti-sim"), *options], timeout=_SECONDS)


@pytest.mark.parametrize(
    "seed", [pytest.param(1, marks=pytest.mark.sanitized), in_full(301), in_full(601)]
)
def test_jobs_live_through_simulated_failures(build_dir: Path, seed: int) -> None:
    done = _sim(build_dir, "--jobs", str(_JOBS), "--seed", str(seed))
    assert done.status == 0, done.stdout + done.stderr
    (failures,) = re.findall(rf"{_JOBS} jobs, \d+ I/Os, (\d+) failures", done.stdout)
    assert int(failures) > 10 * _JOBS


@pytest.mark.parametrize("seed", _KEPT)
def test_seeds_that_failed_once(build_dir: Path, seed: int) -> None:
    done = _sim(build_dir, "--jobs", "1", "--seed", str(seed))
    assert done.status == 0, done.stdout + done.stderr


def test_a_seed_gives_the_same_run_each_time(build_dir: Path) -> None:
    options = ("--jobs", "1", "--seed", "7", "--ios", "200", "--trace")
    one, other = (_sim(build_dir, *options).check().stdout for _ in range(2))
    assert one == other
    assert "job: " in one
