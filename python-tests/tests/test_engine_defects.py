# SPDX-License-Identifier: GPL-2.0-only
"""What fio's in-tree nfs engine gets wrong, and this one does not.

The defects were shown by runs of fio 3.33's engines/nfs.c. Some have their tests in other files,
which are named here.
"""

from __future__ import annotations

import signal
import time

from engine_helpers import (
    Place,
    done,
    ends,
    eventually,
    family,
    fixture_of_places,
    job_of,
    sleeps,
    traces,
)

from nfsmulti.fiorun import FioProcess, Option

place = fixture_of_places("nfs", "nfs4", "mount")
exported = fixture_of_places("nfs")

_MIB = 1 << 20
_READER: dict[str, Option] = {"rw": "randread", "bs": "16k", "size": "1m", "filename": "f"}
_FOR_LONG: dict[str, Option] = {"time_based": 1, "runtime": 300}


# --- 1. the tail of a write job is lost, and the exit status is 0: see also test_engine_io.py ---


def test_the_tail_of_a_job_that_is_cut_by_time_is_not_lost(exported: Place) -> None:
    """Each write that fio counts is on the server, and nothing is in flight when it ends."""
    result = exported.fio(
        rw="write", bs="64k", size="2g", filename="f", iodepth=32, runtime=1, rate="32m"
    )
    written = done(result).bytes("write")
    assert exported.sizes() == {"f": written}
    assert sum(line.write_bytes for line in result.stats) == written


# --- 2. a job hangs at its end: test_engine_io.py; where the server dies: test_promises.py ---


# --- 3. every READ is a segfault with libnfs 6 and later: the data path here is not libnfs's ---


# --- 4. failures to open exit with 0, a bad URL crashes: test_engine_bad_input.py, _pool.py ---


# --- 5. fsync, fdatasync, end_fsync and sync=1 are unhandled: test_engine_sync.py ---


# --- 6. the end of a file: test_replies.py; verify, sizes, layout: test_engine_io.py, _files.py ---


# --- 7. waiting; threads: test_engine_io.py; files and connections: _files.py and _spread.py ---


def test_waiting_for_time_costs_nothing(exported: Place) -> None:
    job: dict[str, Option] = {**_READER, **_FOR_LONG, "spread": "roundrobin", "nconnect": 4}
    with exported.fio.start(rate_iops=1, iodepth=8, trace=1, **job) as process:
        eventually(lambda: traces(process))
        eventually(lambda: _sleep(process))


def _sleep(process: FioProcess) -> bool:
    """Tell whether fio and its job sleep, at 40 looks in 0.2 s; one that polls never does."""
    for _ in range(40):
        time.sleep(0.005)
        if not all(map(sleeps, (process.pid, *family(process.pid)))):
            return False
    return True


_BATCH = {"min": 16, "max": 64}


def test_getevents_waits_for_the_minimum(place: Place) -> None:
    """At least 16 of 64 at once are asked for, and nearly always had (the last ones aside)."""
    job: dict[str, Option] = {"rw": "randread", "bs": "4k", "size": "8m", "filename": "f"}
    batches: dict[str, Option] = {f"iodepth_batch_complete_{k}": n for k, n in _BATCH.items()}
    result = place.fio(iodepth=64, **job, **batches)
    complete = job_of(done(result), "job")["iodepth_complete"]
    assert complete["4"] + complete["8"] < 10
    assert complete["0"] == 0


def test_fio_starts_to_end_as_soon_as_it_has_begun(exported: Place) -> None:
    """A signal between the last fork and the first I/O is not lost."""
    with exported.fio.start(numjobs=4, iodepth=8, **_READER, **_FOR_LONG) as process:
        # Within fork() fio's handler would wait for malloc()'s lock for ever: main has to sleep.
        eventually(lambda: len(family(process.pid)) == 4 and sleeps(process.pid))
        process.signal(signal.SIGTERM)
        ends(process)
        assert exported.fio.finish(process).status not in (0, None)
