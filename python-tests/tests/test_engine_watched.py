# SPDX-License-Identifier: GPL-2.0-only
"""Runs that are watched: by ThreadSanitizer, and by valgrind's memcheck."""

from pathlib import Path

import pytest
from conftest import FioRunner, missing, or_skip
from engine_helpers import done, eventually, place_of_directories, sections, traces

from jobs import Fio
from nfsmulti.errors import MissingError
from nfsmulti.fiorun import Engine, Option
from nfsmulti.lab import Lab
from nfsmulti.processes import find, run
from testrun import variant

_SUPPRESSIONS = Path(__file__).parent
_FOUND = 66  # the exit status where anything was found
_SECONDS = 400.0  # everything is many times slower

pytestmark = [pytest.mark.full, pytest.mark.timeout(2 * _SECONDS)]

# --- ThreadSanitizer: jobs that are threads of one process (thread=1) share nothing ---

_JOBS: dict[str, Option] = {
    "thread": 1, "numjobs": 4, "rw": "randwrite", "bs": "64k", "size": "4m", "iodepth": 16,
    "spread": "stripe", "stripe_size": "16k", "verify": "crc32c",
}  # fmt: skip


@pytest.fixture(scope="module")
def watched() -> Engine:
    """Return the engine in a build with ThreadSanitizer, whose runtime must come first in fio."""
    printed = run(["gcc", "-print-file-name=libtsan.so"], timeout=20).check().stdout.strip()
    if not Path(printed).is_absolute():
        missing(MissingError("ThreadSanitizer is not installed", "apt-get install libtsan2"))
    options = f"exitcode={_FOUND}:suppressions={_SUPPRESSIONS / 'tsan.supp'}"
    env = {"LD_PRELOAD": printed, "TSAN_OPTIONS": options}
    return Engine.built(variant("tsan"), env)


@pytest.fixture
def threads(watched: Engine, lab: Lab, tmp_path: Path) -> FioRunner:
    """Return fio as it runs on any kernel: the runtime knows few address layouts."""
    enter = [*lab.command([]), "setarch", "--addr-no-randomize"]
    return FioRunner(Fio(watched, enter=enter), lab.pool, tmp_path)


def test_stripes(threads: FioRunner, watched: Engine, tmp_path: Path) -> None:
    """Over NFS, and over mounts."""
    mounts = place_of_directories(watched, tmp_path)
    for result in (
        threads(timeout=_SECONDS, **_JOBS),
        threads(pool=mounts.pool, timeout=_SECONDS, **_JOBS),
    ):
        report = done(result)
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


# --- memcheck: no invalid access, nothing undefined used, no leak ---


def test_memcheck_is_clean(lab: Lab, tmp_path: Path) -> None:
    """Over NFS only: Debian 12's valgrind does not know openat2(2), which opens files of mounts."""
    with or_skip():
        program = find("valgrind")
    words = ["--quiet", f"--error-exitcode={_FOUND}", "--trace-children=yes", "--leak-check=full"]
    words += ["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]
    words.append(f"--suppressions={_SUPPRESSIONS / 'valgrind.supp'}")
    jobs = sections(
        stripe={"spread": "stripe", "stripe_size": "16k", "verify": "crc32c"},
        failover={"failover": 1, "spread": "queue", "nconnect": 2, "fsync": 4},
        threads={"thread": None, "numjobs": 2, "unlink": 1},
    )
    options: dict[str, Option] = {"rw": "randrw", "bs": "64k", "size": "1m", "iodepth": 16}
    fio = Fio(Engine.built(), enter=[*lab.command([]), program, *words])
    result = fio.run(
        tmp_path / "fio", pool=lab.pool, options=options, arguments=jobs, timeout=_SECONDS
    )
    report = done(result)
    assert len(report.jobs) == 4
