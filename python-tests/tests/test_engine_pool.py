# SPDX-License-Identifier: GPL-2.0-only
"""Pools as fio's users write them, and how I/O is laid over their paths and connections.

The grammar itself has tests of its own, in test_pool.py; what fio's users read of a pool that is
refused is in test_options.py, reserved ports are in test_refusals.py. Places have 4 paths:
connection c of a job lies on the c mod P-th of the paths that the job uses.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import FioRunner, needs_privileges
from engine_helpers import PATHS, Place, Traced, done, eventually, refused, sections

from nfsmulti.fiorun import FioResult, Option
from nfsmulti.lab import Lab
from nfsmulti.paths import PYTHON_TESTS
from nfsmulti.processes import Process, run

_JOB: dict[str, Option] = {"rw": "read", "bs": "4k", "size": "64k"}
_ADDRESSES = [f"10.77.0.{number}" for number in range(1, PATHS + 1)]
_PORTS = "nfsport=22049&mountport=22050"


def _pools(**pools: Sequence[str]) -> dict[str, str]:
    """Return the variable that names pools."""
    named = (f"{name}:{','.join(paths)}" for name, paths in pools.items())
    return {"IOTRAP_MOUNT_POOLS": " ".join(named)}


# --- IOTRAP_MOUNT_POOLS, as its users have it ---


def test_a_files_own_path_chooses_its_pool(mounted: Place) -> None:
    """Mounts end in a slash there; a file belongs to the pool whose mount its name begins with."""
    first = [f"{path}/" for path in mounted.paths[:2]]
    second = [f"{path}/" for path in mounted.paths[2:]]
    env = _pools(e4a=first, e4b=second)
    jobs = sections(
        a={"filename": f"{first[0]}a"},
        also_a={"filename": f"{first[1]}d/b"},
        b={"filename": f"{second[1]}c"},
    )
    job = {**_JOB, "spread": "roundrobin"}
    result = mounted.fio.well(pool=None, env=env, arguments=jobs, **job)
    paths = {name: [line.path for line in result.stats if line.job == name] for name in "ab"}
    assert paths == {"a": mounted.paths[:2], "b": mounted.paths[2:]}
    assert mounted.names() == ["a", "c", "d/b"]


def test_several_files_of_one_pool_and_of_two(mounted: Place) -> None:
    """Pools that share a path are two as well."""
    env = _pools(a=mounted.paths[:2], b=mounted.paths[2:0:-1])
    one = ":".join(f"{mounted.paths[0]}/f{number}" for number in (0, 1))
    mounted.fio.well(pool=None, env=env, filename=one, **_JOB)
    assert mounted.names() == ["f0", "f1"]
    two = f"{mounted.paths[0]}/g:{mounted.paths[2]}/h"
    result = mounted.fio(pool=None, env=env, filename=two, **_JOB)
    refused(result, f"{mounted.paths[2]}/h", "lies in another pool")
    assert mounted.names() == ["f0", "f1"]


@pytest.mark.parametrize("thread", [0, 1])
def test_a_bad_pool_is_told_once(mounted: Place, thread: int) -> None:
    """Not by each job, whatever its name."""
    jobs = sections(a={"filename": "f"}, b={"numjobs": 8})
    words = ["--rw=write", "--size=64k", *jobs]
    line = refused(mounted.fio(pool="nfs://127.0.0.1", thread=thread, arguments=words))
    assert line.startswith("nfsmulti: a: pool: column 16: the export is missing")


def test_a_job_without_a_pool_is_refused(mounted: Place) -> None:
    """Names of pools, and what is wrong with them, are in test_pool.py."""
    for env, options, words in (
        (_pools(a=["/tmp"]), {"filename": "/elsewhere/f"}, '("/elsewhere/f" is not)'),
        ({}, {"filename": "f"}, "no pool: give pool="),
        ({}, {"nrfiles": 0}, "no pool: give pool=: the job has no file"),
        ({}, {"opendir": "."}, "no pool: give pool=: the job has no file"),
    ):
        refused(mounted.fio(pool=None, env=env, **_JOB, **options), words)
    assert mounted.names() == []


# --- mixed pools ---


def test_mounts_and_urls_of_the_same_files(exported: Place, lab: Lab) -> None:
    """Of both versions; NFSv4.2 without OPEN. The export's directory serves as a mount of it."""
    pool = f"{exported.files},{lab.path(0)},{exported.files},{lab.path(1, version='4.2')}"
    spread: dict[str, Option] = {"spread_reads": "roundrobin", "spread_writes": "stripe"}
    job: dict[str, Option] = {"rw": "randwrite", "bs": "16k", "size": "4m", "verify": "crc32c"}
    job |= {"filename": "d/f", "iodepth": 16, "fsync": 32, "open": "none"}
    result = exported.fio.well(pool=pool, **spread, **job)
    assert [line.transport for line in result.stats] == ["mount", "tcp"] * 2
    assert all(line.write_ops and line.read_ops and line.commits for line in result.stats)
    assert exported.sizes() == {"d/f": 4 << 20}


# --- addresses ---


def test_addresses_and_ports(exported: Place, lab: Lab) -> None:
    """A port stands behind the host or in an argument, or is the server's rpcbind's.

    An export may have folders of it behind.
    """
    first = lab.path(0)
    (exported.files / "d/e").mkdir(parents=True)
    for pool, addresses in (
        (f"nfs://10.77.0.[2-4]/export?{_PORTS},{lab.path(3)}", [*_ADDRESSES[1:], _ADDRESSES[3]]),
        (f"{lab.pool6},{first}", ["[fd77::1]", "10.77.0.1"]),
        ("nfs://10.77.0.1:22049/export?mountport=22050", ["10.77.0.1"]),
        ("nfs://10.77.0.1/export", ["10.77.0.1"]),
        ("nfs://10.77.0.1/export/d/", ["10.77.0.1"]),
        ("nfs://10.77.0.1/export//d/e", ["10.77.0.1"]),
    ):
        _expect_remotes(exported, pool, addresses)
    pool = "nfs://10.77.0.1/export,nfs://10.77.0.2/export"
    _expect_remotes(exported, pool, _ADDRESSES[:2], port=22049, mountport=22050)
    assert exported.names() == ["d/e/f", "d/f", "f"]


def _expect_remotes(place: Place, pool: str, addresses: Sequence[str], **words: Any) -> FioResult:
    """Expect the remote address of each path of a pool in a verified run over all of them."""
    job: dict[str, Option] = {"rw": "randwrite", "bs": "4k", "size": "256k", "filename": "f"}
    job |= {"iodepth": 4, "verify": "crc32c", "spread": "roundrobin"}
    result = place.fio.well(pool=pool, **job, **words)
    assert all(line.write_ops for line in result.stats)
    assert [line.remote for line in result.stats] == [f"{one}:22049" for one in addresses]
    return result


_SERVE = """
import signal
from servers.scripted import ScriptedServer
with ScriptedServer(addresses=["::"], nfs_port=2049, mount_port=2050):
    signal.pause()
"""


def test_a_link_local_address(client: FioRunner) -> None:
    """With its zone; the server is one of a network of its own."""
    needs_privileges()
    script = f"""\
ip link set lo up
ip address add fe80::1/64 dev lo
exec {sys.executable} -c '{_SERVE}'
"""
    path = {"PYTHONPATH": str(PYTHON_TESTS)}
    with Process(["unshare", "--net", "--", "sh", "-ec", script], env=path) as network:
        enter = ["nsenter", f"--target={network.pid}", "--net", "--"]
        eventually(lambda: ":2050" in run([*enter, "ss", "-Hltn"], timeout=60).stdout)
        for version in ("mountport=2050", "version=4.1"):
            client.well(pool=f"nfs://[fe80::1%lo]/export?nfsport=2049&{version}", enter=enter)


def test_name_with_several_addresses(exported: Place, tmp_path: Path) -> None:
    """Each is a path, named by its address; IPv4 unless proto=tcp6 is wanted."""
    hosts = tmp_path / "hosts"
    names = {"10.77.0.1": "nas", "10.77.0.3": "nas", "fd77::1": "nas", "10.77.0.2": "nas02"}
    hosts.write_text("".join(f"{address} {name}\n" for address, name in names.items()))
    script = 'mount --bind "$0" /etc/hosts; exec "$@"'
    enter = ["unshare", "--mount", "--", "sh", "-ec", script, str(hosts)]
    for pool, proto, addresses in (
        ("nfs://nas/export", "tcp", ["10.77.0.1", "10.77.0.3"]),
        ("nfs://nas/export", "tcp6", ["[fd77::1]"]),
        ("nfs://nas0[2-2]/export", "tcp", ["10.77.0.2"]),
    ):
        where = f"{pool}?{_PORTS}"
        result = _expect_remotes(exported, where, addresses, proto=proto, enter=enter)
        if len(addresses) > 1:
            paths = [f"{one}:22049:/export" for one in addresses]
            assert [line.path for line in result.stats] == paths


# --- how I/O is laid over them ---

_SPREAD_JOB: dict[str, Option] = {"bs": "16k", "size": "1m", "filename": "f"}


def test_first_path_is_that_of_the_first_job(exported: Place) -> None:
    """Of all paths, to which the job has connections here: its own ones take turns."""
    job: dict[str, Option] = {"rw": "read", "numjobs": 3, **_SPREAD_JOB}
    others: dict[int, Any] = {1: {"failover": 1}}
    others[65535] = {"spread_writes": "stripe", "nconnect": 2}
    for first, other in others.items():
        result = exported.fio.well(first_path=first, **job, **other)
        used = [line for line in result.stats if line.read_ops]
        labels = {number: exported.labels[(number + first) % PATHS] for number in range(3)}
        assert {(line.job_number, line.path) for line in used} == set(labels.items())
        assert len(used) == 3 * other.get("nconnect", 1)


def test_jobs_count_over_all_sections(mounted: Place) -> None:
    jobs = sections(
        a={"numjobs": 2},
        b={"rw": "write", "stonewall": None, "filename": "g"},
        c={"numjobs": 3, "thread": 1},
        d={"stonewall": None},
    )
    result = mounted.fio.well(rw="read", arguments=jobs, **_SPREAD_JOB)
    lines = sorted((line.job_number, line.job, line.path) for line in result.stats)
    paths = [*mounted.labels, *mounted.labels]
    assert lines == [(number, "aabcccd"[number], paths[number]) for number in range(7)]


@pytest.mark.parametrize(("reads", "writes"), [("roundrobin", "roundrobin"), ("job", "queue")])
def test_each_direction_has_its_own_spread_and_turn(
    mounted: Place, reads: str, writes: str
) -> None:
    spreads: dict[str, Option] = {"spread_reads": reads, "spread_writes": writes}
    result = mounted.fio(rw="randrw", spread="stripe", iodepth=4, **spreads, **_SPREAD_JOB)
    report = done(result)
    for spread, counts, total in (
        (reads, [line.read_ops for line in result.stats], report.operations("read")),
        (writes, [line.write_ops for line in result.stats], report.operations("write")),
    ):
        in_turn = [total // 4 + (number < total % 4) for number in range(4)]
        expected = {"roundrobin": in_turn, "job": [total, 0, 0, 0]}
        assert counts == expected.get(spread, counts)
        assert sum(counts) == total


def test_stripe_is_the_largest_block_by_default(mounted: Place) -> None:
    job: dict[str, Option] = {"rw": "read", "bsrange": "4k-32k", "size": "1m", "filename": "f"}
    result = mounted.fio.well(spread="stripe", trace=1, **job)
    assert all(call.connection == call.offset // 32768 % 4 for call in Traced.read(result.stderr))
    assert [line.read_bytes for line in result.stats] == [262144] * 4


def test_connections_cost_nothing_for_each_io(exported: Place) -> None:
    """A call takes as many system calls on 256 connections as on 4: a send, a wait, a receive."""
    costs = []
    for nconnect in (1, 64):
        job: dict[str, Option] = {"rw": "randread", "bs": "4k", "size": "8m", "filename": "f"}
        result = exported.fio(nconnect=nconnect, spread="roundrobin", **job)
        operations = done(result).operations("read")
        costs.append(sum(line.syscalls for line in result.stats) / operations)
    assert costs[0] < 4
    assert costs[1] < costs[0] + 0.6  # what opening and closing 256 of them takes
