# SPDX-License-Identifier: GPL-2.0-only
"""run connections: where more of them give no more, what it says is the limit, and what it runs."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from pathlib import Path

import made_runs
import page_cases
import pytest
from conftest import call_harness, refusal
from made_runs import changed, only
from page_cases import creates

from nfsmulti import machine
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.kept.pairs import why_not
from nfsmulti.machine import fail
from nfsmulti.pool import CellMounts, mount_ports, mount_source
from nfsmulti.report import cells as cells_of
from nfsmulti.report.pages import naming
from nfsmulti.report.scaling import Curve
from nfsmulti.run import record, start
from nfsmulti.run.cell import command as command_of
from nfsmulti.run.place import OnPool, asked
from nfsmulti.run.plan import ordered
from nfsmulti.run.record import one_line
from nfsmulti.scenario import Choice, OwnPool, Scale
from nfsmulti.stories import SCENARIOS

_CONNECTIONS = SCENARIOS["connections"]
_SECONDS = 240.0


def test_a_run_from_before_there_was_a_base_is_compared() -> None:
    """One connection on one path is the base of several."""
    run = page_cases.cases("connections")["one connection on one path is the base of several"]
    older = only(run, lambda cell: "paths" not in cell.factors)
    assert why_not(older, run) is None
    alone = [cell for cell in run.cells if cell not in older.cells]
    hosts = changed(
        dataclasses.replace(run, cells=alone),
        jobs=lambda cell: [dataclasses.replace(cell.jobs[0], host="a")],
    )
    assert (
        Curve({}, cells_of.by_count(hosts.cells, "nconnect")).words(1) == "nconnect 1 on one path"
    )


@pytest.mark.parametrize(
    ("words", "paths", "count"),
    [
        ("--pool=p --nconnect=2 --numjobs=4", ("fileserver:/a", "fileserver:/b"), 8),
        ("--pool=p --nconnect=2 --numjobs=4 --spread=stripe", ("a:/v", "b:/v"), 16),
        ("--pool=p --nconnect=2 --failover=1", ("a:/v", "b:/v"), 4),
        ("--pool=p --spread_reads=queue", ("a:/v", "b:/v", "c:/v"), 3),
        ("--ioengine=nfs --numjobs=3", (), 3),
        ("--ioengine=libaio --directory=/mnt", (), None),
        ("--pool=/m/a,/m/b --spread=stripe", ("/m/a", "/m/b"), None),
    ],
)
def test_connections_follow_from_how_jobs_use_their_paths(
    words: str, paths: tuple[str, ...], count: int | None
) -> None:
    cell = made_runs.reference("connections").cells[0]
    parts = dict.fromkeys(paths, 0.5)
    found = dataclasses.replace(cell, factors={}, jobs=[], paths=parts, command=f"fio {words}")
    assert found.connections == count
    if not paths and count:  # a mount has its connections for all jobs together
        for at, mounts, several in (
            ("tcp-mount", (), 2),
            ("tcp-mount", ("/m/1", "/m/2"), 4),
            ("directory", ("/m",), None),  # how many its mount has nobody knows
        ):
            mounted = dataclasses.replace(
                found,
                factors={"transport": at, "nconnect": 2, "jobs": 4},
                paths=dict.fromkeys(mounts, 0.5),
            )
            assert mounted.connections == several


def test_a_count_of_the_storys_keeps_another_factors_beside_it() -> None:
    (cell, *_) = changed(made_runs.reference("security"), factors={"nconnect": 2}).cells
    told = cells_of.told(cell, ("connections", "nconnect"))
    assert told == {"connections": cell.connections, "nconnect": 2}


@pytest.mark.parametrize(
    ("name", "paths"), [("connections", 4), ("metadata", 4), ("security", 4), ("connections", 1)]
)
def test_a_cell_is_named_by_all_its_connections(name: str, paths: int) -> None:
    """Those of its jobs together, on all of their paths: before it has run as well."""
    parts = {f"10.77.0.{path}": 1 / paths for path in range(1, paths + 1)}
    run = changed(
        creates({1: 9e3, 4: 9e3}, {}) if name == "metadata" else made_runs.reference(name),
        # A job of security has one path, as spread=job has it; the others spread theirs.
        paths=lambda cell: (
            parts if name != "security" else dict.fromkeys([*parts][: len(cell.jobs)], 1.0)
        ),
    )
    for cell in run.done:
        levels = (int(cell.factors.get(key, 1)) for key in ("connections", "nconnect", "jobs"))
        over = 1 if "connections" in cell.factors else paths
        assert re.search(rf"\b{math.prod(levels) * over} connection", naming(run)(cell))
    chosen = Choice(nconnect=(1, 4), jobs=(1, 4))
    specs, _ = SCENARIOS[name].own_cells(Scale(True, choice=chosen), OwnPool(paths, 0))
    planned = ordered(specs, 1, 1)
    waiting = dataclasses.replace(run, cells=[*map(record.waiting_cell, planned)])
    for cell in map(record.as_planned, planned):
        levels = (int(cell.factors.get(key, 1)) for key in ("connections", "nconnect", "jobs"))
        over = int(cell.factors.get("paths", paths)) if name != "security" else 1
        assert re.search(rf"\b{math.prod(levels) * over} connection", naming(waiting)(cell))


# --- what is run ---


def test_arguments_of_a_cell_win_over_those_of_a_path() -> None:
    cell = _CONNECTIONS.cells(Scale(choice=Choice(version=("4.1",))))[0]
    path = "nfs://10.0.0.1/vol?proto=rdma&mountport=9&nfsport=8&soft"
    assert asked(path, cell) == "nfs://10.0.0.1/vol?nfsport=8&soft&proto=tcp&version=4.1"
    assert asked("/mnt/a", dataclasses.replace(cell, query="")) == "/mnt/a"


_POOL = "--pool nfs://127.0.0.1/a"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("connections --workload create", "--workload create: give 4k-randread or 64k-read or"),
        ("connections --workload 4k-randread,64k-read", "--workload 4k-randread,64k-read: give 4k"),
        (f"connections {_POOL} --proto rdma", "--proto rdma: no RDMA device"),
        ("connections --discard --mounts", "--discard with --mounts: the kernel can drop long"),
        (f"connections --discard {_POOL}?sec=krb5i", "--discard with krb5i: "),
        (f"connections {_POOL} --mounts", "--mounts: mounting needs root (not root)"),
        (f"connections {_POOL} --mounts --hosts a", "leave out --hosts"),
        ("connections --pool FOLDER", "connections need URLs in the pool"),
        ("connections --resume --nconnect 2 --mounts", "--nconnect, --mounts cannot change that"),
        ("metadata --workload 64k-read", "--workload 64k-read: give create or getattr or lookup"),
        (f"metadata {_POOL} --hosts a", "metadata runs on this machine only: leave out --hosts"),
        ("metadata --pool FOLDER", "metadata operations need URLs in the pool"),
        ("metadata --resume --depth 2", "--depth cannot change that"),
        ("security --workload 8k-oltp", "--workload 8k-oltp: give 4k-randread or 64k-read or"),
        ("security --mounts", "--mounts: the lab has no kernel client for security"),
        (f"security {_POOL} --hosts a", "security runs on this machine only"),
        ("security --pool FOLDER", "security needs URLs in the pool"),
        ("security --resume --sec krb5", "--sec cannot change that"),
        ("latency --workload none.fio", "--workload none.fio: give 4k-randread, 64k-read, "),
        ("latency --workload create", "--workload create: give 4k-randread, 64k-read, "),
        ("latency --resume --load 50", "--load cannot change that"),
        ("connections --depth=1,2", "--factors iodepth=1,2 compares several"),
        (f"clients {_POOL} --restart", "--restart needs a command"),
        (f"clients {_POOL} --hosts=a", "clients runs on this machine only"),
        ("clients --absent=1%", "give --restart too"),
        ("neighbour --server-command env", "--server-command needs a --pool"),
        ("neighbour --server-command 'ssh --pool FOLDER", "No closing quotation"),
        ("neighbour --resume --server-command env", "--server-command cannot change that"),
        ("dd --pool FOLDER --factors nosuch=1", "nosuch"),
        ("dd --pool nfs:// --quick", "column"),
        ("dd --pool FOLDER --lab", "exclude each other"),
        ("dd --pool FOLDER --label a/b", "--label 'a/b'"),
        ("dd --hosts a", "--hosts needs a --pool"),
        ("sweep --pool FOLDER", "give a pool of URLs"),
        ("dd --resume FOLDER", "not the folder of a run"),
        ("dd --resume", "holds no unfinished run"),
        ("dd --resume --quick --seed=0", "--quick, --seed cannot change that"),
        ("dd --resume --pool a --hosts=a", "--pool, --hosts cannot change that"),
        ("dd --resume --repeat=2 --factors=iodepth=1", "--repeat, --factors cannot"),
        ("dd --resume FOLDER a", "name its scenario and its folder"),
    ],
)  # fmt: skip
def test_bad_choices_are_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    monkeypatch.setattr(
        start, "rdma_devices", lambda *, wanted: iter([fail("no RDMA device", "load it")])
    )
    monkeypatch.setattr(machine, "missing_privileges", lambda: "not root")
    monkeypatch.chdir(tmp_path)
    given = words.replace("FOLDER", str(tmp_path)).split()
    assert said in refusal("run", *given, "--results", "results")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run latency --slo p99", "'p99' is not a limit of latency: write it like p99:1ms"),
        ("run latency --slo p100:1ms", "'p100:1ms' is not a limit"),
        ("run latency --load 50,250", "give numbers from 1 to 200, each once"),
        ("run latency --arrival-process even", "'even' is none of poisson, fixed"),
        ("run security --sec krb5,none", "'krb5,none': give sys or krb5 or krb5i or krb5p"),
        ("run connections --xprtsec tls", "--xprtsec: only for security, not for connections"),
        ("history connection", ", stall: did you mean connections?\n"),
        ("history *", "'*' is none of clients, connections, "),
        ("run nosuch", "nosuch"),
    ],
)
def test_mistyped_choices_are_wrong_usage(words: str, said: str) -> None:
    done = call_harness(*words.split())
    assert (done.status, said in done.stderr) == (2, True)


def _fake_mount(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a mount(8) and an umount(8) before the real ones that write down what they were told."""
    for program in ("mount", "umount"):
        (folder / program).write_text(f'#!/bin/sh\necho {program} "$@" >>{folder}/said\n')
        (folder / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_why_a_mount_failed_is_told_of_its_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its line, which is the first of what is raised."""
    _fake_mount(tmp_path, monkeypatch)
    (tmp_path / "mount").write_text("#!/bin/sh\necho mount: access denied >&2\nexit 32\n")
    with pytest.raises(HarnessError) as caught:
        CellMounts().make([("nas:/vol", "vers=3")])
    assert one_line(str(caught.value)).endswith(": failed (32): mount: access denied")


def _told(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "said").read_text().splitlines()]


def test_mount_of_a_cell_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_mount(tmp_path, monkeypatch)
    mounts = CellMounts()
    (first,) = mounts.make([("nas:/vol", "vers=3,nconnect=1")])
    shares = "nconnect=4 was asked for and the mount has 1: it shares"
    with pytest.raises(HarnessError, match=shares):
        mounts.make([("nas:/vol", "vers=3,nconnect=4")])
    mounts.end()
    mounts.end()
    second = _told(tmp_path)[2][-1]
    assert _told(tmp_path) == [
        ["mount", "-t", "nfs", "-o", "vers=3,nconnect=1", "nas:/vol", first],
        ["umount", first],
        ["mount", "-t", "nfs", "-o", "vers=3,nconnect=4", "nas:/vol", second],
        ["umount", second],
    ]
    assert not Path(first).exists()
    assert not Path(second).exists()


def test_each_url_of_a_pool_is_mounted_and_the_engine_spreads_over_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_mount(tmp_path, monkeypatch)
    chosen = Choice(nconnect=(1,), version=("3",), proto=("tcp",), jobs=(1,), mounts=True)
    pool = OnPool("nfs://10.0.0.[1-2]/vol")
    _, first, engine, mounts = _CONNECTIONS.own_cells(Scale(True, choice=chosen), pool.offers)[0]
    with pool:
        words = command_of(mounts, pool, Engine(Path("engine.so")), tmp_path)
    made = [line[-2:] for line in _told(tmp_path) if line[0] == "mount"]
    assert [source for source, _ in made] == ["10.0.0.1:/vol", "10.0.0.2:/vol"]
    one, two = (folder for _, folder in made)
    assert f"IOTRAP_MOUNT_POOLS=mounts:{one}/,{two}/" in words
    assert f"--filename={one}/nfsmulti-connections" in words
    assert "--spread=roundrobin" in words
    assert engine.paths == mounts.paths == 2
    assert (first.client, first.paths) == ("mounts", 1)  # the same engine as what is held against
    assert first.options["spread"] == "roundrobin"
    assert [line[1] for line in _told(tmp_path) if line[0] == "umount"] == [two, one]


def test_mounts_that_share_connections_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_mount(tmp_path, monkeypatch)
    same = "rw,vers=4.1,clientaddr=10.0.0.9,addr=10.0.0.1"
    monkeypatch.setattr("nfsmulti.pool._options_of", lambda _: same)
    mounts = CellMounts()
    over = "nas2:/vol: the kernel mounts it over an earlier path's connections"
    with pytest.raises(HarnessError, match=over):
        mounts.make([("nas1:/vol", "vers=4.1"), ("nas2:/vol", "vers=4.1")])
    mounts.end()
    assert [line[0] for line in _told(tmp_path)] == ["mount", "mount", "umount", "umount"]


def test_mount_goes_to_the_ports_of_its_path() -> None:
    url = "nfs://[::1]/a%20b?port=9&mountport=8&rdmaport=7"
    assert mount_source(url) == "[::1]:/a b"
    for options, found in (
        ("vers=3,proto=tcp", "vers=3,proto=tcp,port=9,mountport=8"),
        ("vers=4.1,proto=tcp", "vers=4.1,proto=tcp,port=9"),
        ("vers=3,proto=rdma,port=20049", "vers=3,proto=rdma,port=7,mountport=8"),
    ):
        assert mount_ports(url, options) == found
        assert mount_ports("nfs://a/b", options) == options
