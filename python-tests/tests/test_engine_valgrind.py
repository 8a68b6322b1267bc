# SPDX-License-Identifier: GPL-2.0-only
"""A short run under valgrind's memcheck: no invalid access, nothing undefined used, no leak.

Over NFS only: files of mounts are opened by openat2(2), which Debian 12's valgrind does not know.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import or_skip
from engine_helpers import done, sections

from nfsmulti.fiorun import Engine, Fio, Option
from nfsmulti.lab import Lab
from nfsmulti.processes import find

_SUPPRESSIONS = Path(__file__).with_name("valgrind.supp")
_FOUND = 99  # the exit status where there was an error
_SECONDS = 400.0

pytestmark = [pytest.mark.full, pytest.mark.timeout(2 * _SECONDS)]


@pytest.fixture(scope="module")
def valgrind() -> list[str]:
    """Return the words before fio's command."""
    with or_skip():
        program = find("valgrind")
    words = ["--quiet", f"--error-exitcode={_FOUND}", "--trace-children=yes", "--leak-check=full"]
    words += ["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]
    return [program, *words, f"--suppressions={_SUPPRESSIONS}"]


def test_memcheck_is_clean(valgrind: list[str], lab: Lab, tmp_path: Path) -> None:
    jobs = sections(
        stripe={"spread": "stripe", "stripe_size": "16k", "verify": "crc32c"},
        failover={"failover": 1, "spread": "queue", "nconnect": 2, "fsync": 4},
        threads={"thread": None, "numjobs": 2, "unlink": 1},
    )
    options: dict[str, Option] = {"rw": "randrw", "bs": "64k", "size": "1m", "iodepth": 16}
    fio = Fio(Engine.built(), enter=[*lab.command([]), *valgrind])
    result = fio.run(
        tmp_path / "fio", pool=lab.pool, options=options, arguments=jobs, timeout=_SECONDS
    )
    report = done(result)
    assert len(report.jobs) == 4
