# SPDX-License-Identifier: GPL-2.0-only
"""Jobs that are threads of one process (thread=1) share nothing: ThreadSanitizer watches them."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import FioRunner, missing
from engine_helpers import done, eventually, place_of_directories, traces

from nfsmulti.errors import MissingError
from nfsmulti.fiorun import Engine, Fio, Option
from nfsmulti.lab import Lab
from nfsmulti.processes import apt_line, run
from nfsmulti.testrun import variant

pytestmark = pytest.mark.full

_SUPPRESSIONS = Path(__file__).with_name("tsan.supp")
_FOUND = 66  # the exit status where there was a race
_SECONDS = 240.0  # the runtime makes everything many times slower
_JOBS: dict[str, Option] = {
    "thread": 1, "numjobs": 4, "rw": "randwrite", "bs": "64k", "size": "4m", "iodepth": 16,
    "spread": "stripe", "stripe_size": "16k", "verify": "crc32c",
}  # fmt: skip


@pytest.fixture(scope="module")
def watched() -> Engine:
    """Return the engine in a build with ThreadSanitizer, whose runtime must come first in fio."""
    printed = run(["gcc", "-print-file-name=libtsan.so"], timeout=20).check().stdout.strip()
    if not Path(printed).is_absolute():
        missing(MissingError("ThreadSanitizer is not installed", apt_line(["libtsan2"])))
    options = f"exitcode={_FOUND}:suppressions={_SUPPRESSIONS}"
    env = {"LD_PRELOAD": printed, "TSAN_OPTIONS": options}
    return Engine.built(variant("tsan"), env)


@pytest.fixture
def threads(watched: Engine, lab: Lab, tmp_path: Path, request: pytest.FixtureRequest) -> FioRunner:
    """Return fio as it runs on any kernel: the runtime knows few address layouts."""
    enter = [*lab.command([]), "setarch", "--addr-no-randomize"]
    return FioRunner(Fio(watched, enter=enter), lab.pool, tmp_path, request.node)


def test_stripes(threads: FioRunner) -> None:
    report = done(threads(timeout=_SECONDS, **_JOBS))
    assert report.bytes("write") == report.bytes("read") == 16 << 20


def test_mounts(
    threads: FioRunner, watched: Engine, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    mounts = place_of_directories(watched, tmp_path, request.node)
    report = done(threads(pool=mounts.pool, timeout=_SECONDS, **_JOBS))
    assert report.bytes("write") == report.bytes("read") == 16 << 20


def test_a_server_that_dies_and_returns(threads: FioRunner, lab: Lab) -> None:
    jobs: dict[str, Option] = {**_JOBS, "failover": 1, "stable": "file_sync", "rate": "1m"}
    with threads.start(**jobs, trace=1) as process:
        eventually(lambda: traces(process) > 200)
        lab.server(1).kill()
        eventually(lambda: b"other paths" in (process.folder / "stderr").read_bytes())
        lab.server(1).start()
        result = threads.finish(process, _SECONDS)
    done(result)
    assert sum(line.reissues for line in result.stats) > 0
