# SPDX-License-Identifier: GPL-2.0-only
"""Jobs on a real server, behind a proxy that changes what comes back.

Nothing crashes, nothing hangs, and a job that ends well has written what it says. CI gives it 15 s
a version, with AddressSanitizer and UndefinedBehaviorSanitizer. An hour, and one seed alone, as a
failed test names it:

    NFSMULTI_MUTATIONS_SECONDS=1800 ./nfsmulti test --full -k test_mutations
    NFSMULTI_MUTATIONS_SEED=17 ./nfsmulti test --full -k test_mutations
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import FioRunner, started_lab
from engine_helpers import ends, said

from nfsmulti.fiorun import FioResult, Option
from nfsmulti.lab import Lab, LabConfig
from nfsmulti.processes import run
from servers.mutations import Mutator
from servers.record_proxy import RecordProxy

_WANTED = float(os.environ.get("NFSMULTI_MUTATIONS_SECONDS") or 0)
_ONE = os.environ.get("NFSMULTI_MUTATIONS_SEED")
_SECONDS = _WANTED or 15.0  # for each version, where sanitizers watch
_FEWEST = 4  # seeds, however slow the machine is
_JOB_SECONDS = 90.0  # far longer than `soft` may take; protects against hanging only
_FOUND = re.compile(r"ERROR: \w+Sanitizer|runtime error:|SUMMARY: \w+Sanitizer")
# A call is given up after 0.1 + 0.2 seconds, and a job by its first error.
_SOFT: dict[str, Option] = {"soft": 1, "timeo": 1, "retrans": 1, "verify_state_save": 0}
_WRITES: dict[str, Option] = {
    "rw": "randwrite", "bsrange": "512-64k", "size": "1m", "verify": "crc32c", "end_fsync": 1,
}  # fmt: skip
_JOBS: tuple[dict[str, Option], ...] = (
    {**_WRITES, "iodepth": 8},
    {**_WRITES, "iodepth": 16, "nconnect": 2, "spread": "roundrobin", "fsync": 7},
    {**_WRITES, "iodepth": 4, "numjobs": 2, "sync": 1},
    {"rw": "randread", "bs": "16k", "size": "1m", "iodepth": 16},
    {"rw": "randrw", "bs": "4k", "size": "256k", "iodepth": 8, "hold_writes": "1m"},
    {
        "rw": "randrw", "bs": 1, "size": 200, "iodepth": 8, "norandommap": 1, "metadata": 1,
        "filename_format": "m.$jobnum.$filenum",
        "meta_mix": "getattr:40,lookup:20,readdir:20,create:10,remove:10",
    },
)  # fmt: skip

pytestmark = [
    pytest.mark.full,
    pytest.mark.sanitized,
    pytest.mark.timeout(2 * _SECONDS + 8 * _JOB_SECONDS),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Lab]:
    with started_lab(LabConfig(addresses=1, local=True)) as lab:
        yield lab


def _seeds(version: str, sanitized: bool) -> Iterator[int]:
    """Yield seeds until the time is over; other ones at each version, and again at each run."""
    if _ONE:
        yield int(_ONE)
        return
    end = time.monotonic() + (_SECONDS if sanitized else _SECONDS / 10)
    for seed in itertools.count(int(version[0]) * 1_000_000):
        if time.monotonic() > end and seed % 1_000_000 >= _FEWEST:
            return
        yield seed


def _pool(server: Lab, proxy: RecordProxy, version: str) -> str:
    mount = f"mountport={server.server(0).endpoint.mount_port}"
    more = mount if version == "3" else f"version={version}"
    return f"nfs://{proxy.address}:{proxy.port}/export?{more}"


def _written_is_there(folder: Path, options: dict[str, Option]) -> bool:
    """Whether fio's own engine finds at the server what such a job has written."""
    asked = {"rw", "bsrange", "size", "verify", "numjobs", "randseed"} & options.keys()
    words = [f"--{key}={options[key]}" for key in asked]
    words += ["--ioengine=psync", "--verify_only=1", "--verify_state_save=0", "--name=job"]
    return run(["fio", *words], cwd=folder, timeout=_JOB_SECONDS).status == 0


def _fault_of(result: FioResult, folder: Path, options: dict[str, Option]) -> str:
    """Return what a job has done that it may not; "" for nothing."""
    if result.status is None or result.status < 0:
        return f"it did not end by itself (status {result.status})"
    if found := _FOUND.search(result.messages):
        return found[0]
    if result.status and not (said(result) or "fio: " in result.messages):
        return "it fails without a word"
    if not result.status and "verify" in options and not _written_is_there(folder, options):
        return "it succeeds, and the server has not what it wrote"
    return ""


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_replies_that_become_anything(
    server: Lab,
    local_fio: FioRunner,
    version: str,
    sanitized: bool,
) -> None:
    ended: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    endpoint = server.server(0).endpoint
    for seed in _seeds(version, sanitized):
        print(f"NFSMULTI_MUTATIONS_SEED={seed}")
        options = {**_SOFT, **_JOBS[seed % len(_JOBS)], "randseed": seed}
        folder = server.export_dir / f"seed-{seed}"
        folder.mkdir()
        mutator = Mutator(seed)
        with RecordProxy((endpoint.address, endpoint.nfs_port)) as proxy:
            proxy.calls, proxy.replies = mutator.call, mutator.reply
            pool = _pool(server, proxy, version).replace("/export", f"/export/{folder.name}")
            with local_fio.start(pool=pool, **options) as process:
                ends(process, _JOB_SECONDS)
                result = local_fio.finish(process)
        fault = _fault_of(result, folder, options)
        assert not fault, f"seed {seed}: {fault}\n{result.command}\n{result.messages}"
        ended["well" if result.status == 0 else "with an error"] += 1
        changed += mutator.done
    print(f"NFSv{version}: {ended.total()} jobs ended {dict(ended)}; {dict(changed)}")
    assert changed.total() > 0
