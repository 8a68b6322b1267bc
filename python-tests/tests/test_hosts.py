# SPDX-License-Identifier: GPL-2.0-only
"""Runs on several hosts: addresses of one machine, with a fio --server each."""

import configparser
import contextlib
import dataclasses
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import call_harness, run_harness
from engine_helpers import eventually

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine, FioReport, FioResult
from nfsmulti.hosts import PORT, Host, RemoteFio, job_text, parse_hosts
from nfsmulti.lab import Lab
from nfsmulti.processes import Process
from nfsmulti.run.cell import command, job_rows
from nfsmulti.run.place import OnHosts
from nfsmulti.scenario import CellSpec, OwnPool, Scale
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Summary

_HOSTS = 4
_ENGINE = Engine(Path("/lib.so"))


# --- names ---


def test_hosts_are_read_and_named_to_fio() -> None:
    assert parse_hosts("a,b:9000") == [Host("a"), Host("b", 9000)]
    twice = [Host("10.0.0.1"), Host("10.0.0.1", 9000)]
    assert parse_hosts("10.0.0.1, 10.0.0.1:9000") == twice
    assert parse_hosts("[FD00::1]:9000") == [Host("fd00::1", 9000)]
    assert Host("a").client_option == "ip:a,8765"
    assert Host("fd00::1", 9).client_option == "ip6:fd00::1,9"
    assert (Host("fd00::1", 9).text, Host("fd00::1").text) == ("[fd00::1]:9", "[fd00::1]")
    servers = [Host("a").server, Host("a", 9).server, Host("fd00::1").server]
    assert servers == ["fio --server", "fio --server=,9", "fio --server=ip6:::,8765"]


# --- job files ---


def _sections(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=(";",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return {name: dict(parser.items(name)) for name in parser.sections()}


def test_a_job_file_says_all_and_files_that_are_written_are_a_hosts_own() -> None:
    every = {"pool": "/m", "numjobs": "3", "rw": "write", "filename": "f:a/g"}
    for options, own in (
        (every, {"filename": "host3-f:a/host3-g"}),
        ({"rw": "randread", "filename": "f"}, {}),
        ({"filename": "f"}, {}),
        ({"rw": "randrw", "filename": "f"}, {"filename": "host3-f"}),
        ({"readwrite": "write"}, {"filename_format": "host3-$jobname.$jobnum.$filenum"}),
        ({"rw": "write", "filename_format": "$jobnum"}, {"filename_format": "host3-$jobnum"}),
    ):
        read = _sections(job_text({"a": options}, 2))
        assert read == {"a": {**options, "unique_filename": "0", **own}}


# --- what a run makes of them ---


def _on_hosts(folder: Path, story: str, pool: str, own: OwnPool) -> tuple[OnHosts, list[CellSpec]]:
    """Return the place of a story's run on two hosts, and its cells."""
    place = OnHosts(pool, "127.0.0.1,127.0.0.1:9000", _ENGINE, folder)
    return place, SCENARIOS[story].own_cells(Scale(True), own)[0]


def test_mounts_are_the_pool_of_other_hosts(tmp_path: Path) -> None:
    pool = "nfs://127.0.0.1/vol,/mnt/a,/mnt/b,/mnt/c"
    place, specs = _on_hosts(tmp_path, "fsperf", pool, OwnPool(urls=1, mounts=3, version="3"))
    spec = next(one for one in specs if one.client == "mounts" and one.paths == 1)
    command(spec, place, _ENGINE, tmp_path)
    for number in (1, 2):
        (job,) = _sections((tmp_path / f"host{number}.fio").read_text()).values()
        assert job["pool"] == "/mnt/a,/mnt/b"
    assert place.mounts(dataclasses.replace(spec, client="mount")) == ["/mnt/a"]


def test_all_jobs_of_a_cell_go_to_each_host_and_are_this_users(tmp_path: Path) -> None:
    """Each begins on the next path; whoever runs fio there, this user has made the directory."""
    pool = "nfs://127.0.0.1/a,nfs://127.0.0.1/b?version=4.1,nfs://127.0.0.1/c?uid=7"
    place, specs = _on_hosts(tmp_path, "neighbour", pool, OwnPool(urls=3, mounts=0))
    command(specs[-1], place, _ENGINE, tmp_path)
    jobs = _sections((tmp_path / "host2.fio").read_text())
    assert [job["first_path"] for job in jobs.values()] == ["5", "5"]
    assert jobs["readers"]["filename"] == "nfsmulti-readers"
    assert jobs["writer"]["filename_format"] == "host2-nfsmulti-bulk.$jobnum"
    us = f"uid={os.getuid()}&gid={os.getgid()}"
    first, second, third = place.pool(dataclasses.replace(specs[0], paths=3, query="")).split(",")
    assert first.endswith(f"/a?{us}")
    assert second.endswith(f"/b?version=4.1&{us}")
    assert third.endswith("/c?uid=7")


def test_jobs_name_their_host_as_the_run_does() -> None:
    side = {"total_ios": 1, "io_bytes": 1, "runtime": 1, "clat_ns": {"mean": 1, "N": 1}}
    job = {"jobname": "a", "read": side, "write": side, "usr_cpu": 0, "sys_cpu": 0}
    jobs = [{**job, "hostname": "::1", "port": 9}, {**job, "hostname": "b", "port": 8765}, job]
    assert [row.host for row in job_rows(FioReport({"jobs": jobs}))] == ["[::1]:9", "b", ""]


@pytest.mark.parametrize(
    ("host", "port", "error", "status", "trouble"),
    [
        ("a", 9, 0, 0, ""),
        ("a", 8765, 0, 0, "a:9: "),
        ("b", 9, 0, 0, "a:9: "),
        ("a", 9, 5, 0, "a:9: "),
        ("a", 8765, 5, 0, "a: "),
        ("a", 9, 0, 1, "a: "),
        ("a", 9, 0, None, "a: fio did not end in time"),
    ],
)
def test_each_host_must_have_done_its_part(
    host: str, port: int, error: int, status: int | None, trouble: str
) -> None:
    """Two of one machine differ in the port alone."""
    jobs = [{"hostname": "a", "port": 8765, "error": 0}]
    jobs += [{"hostname": host, "port": port, "error": error}]
    result = FioResult([], status, 1.0, "", "", FioReport({"jobs": jobs}), [], Path())
    remote = RemoteFio(parse_hosts("a,a:9"), Engine(Path("/e.so")))
    with pytest.raises(HarnessError) if trouble else contextlib.nullcontext() as raised:
        remote.check_complete(result)
    assert not raised or str(raised.value).startswith(trouble)


# --- runs ---


@pytest.fixture
def hosts(lab: Lab, engine: Engine, tmp_path: Path) -> Iterator[list[Host]]:
    """Yield the hosts, addresses of the lab's client, a fio --server on each."""
    some = [Host(f"10.77.0.{100 + number}") for number in range(1, _HOSTS + 1)]
    with contextlib.ExitStack() as servers:
        for host in some:
            log = servers.enter_context((tmp_path / f"server-{host.name}").open("wb"))
            argv = lab.command(["fio", f"--server=ip:{host.name},{host.port}"])
            process = Process(argv, env=engine.env, stdout=log, stderr=log, cwd=tmp_path)
            servers.enter_context(process)
        asked = ["ss", "-Hltn", f"sport = {PORT}"]
        eventually(lambda: lab.run(asked).stdout.count("\n") == _HOSTS)
        yield some


def test_jobs_of_four_hosts_use_four_paths(
    lab: Lab, hosts: list[Host], engine: Engine, tmp_path: Path
) -> None:
    remote = RemoteFio(hosts, engine, lab.command([]))
    (lab.export_dir / "own").mkdir(exist_ok=True)
    remote.check(tmp_path / "probe", lab.pool, "own")
    assert [one.name for one in (lab.export_dir / "own").iterdir()] == ["host1-probe"]
    options = {"pool": lab.pool, "rw": "write", "size": "1m", "bs": "64k", "filename": "f"}
    result = remote.run(tmp_path / "run", "a", {**options, "verify": "crc32c"}, timeout=60)
    assert result.report is not None
    jobs = result.report.jobs
    assert sorted(job["hostname"] for job in jobs) == sorted(host.name for host in hosts)
    assert result.report.bytes("write") == _HOSTS << 20
    assert result.report.latency_percentile("write", 50) > 0
    for number in range(1, _HOSTS + 1):
        assert (lab.export_dir / f"host{number}-f").stat().st_size == 1 << 20
        text = (tmp_path / "run" / f"host{number}.fio").read_text()
        assert f"first_path={number - 1}\n" in text
    assert (tmp_path / "run/fio.json").read_text().count("1 connection on 1 path") == _HOSTS


def test_another_engine_on_a_host(
    hosts: list[Host], engine: Engine, lab: Lab, tmp_path: Path
) -> None:
    options = {"ioengine": "psync", "directory": str(tmp_path), "rw": "write", "size": "4k"}
    remote = RemoteFio(hosts[:1], engine, lab.command([]))
    remote.run(tmp_path / "run", "a", options, timeout=60)
    assert (tmp_path / "host1-a.0.0").stat().st_size == 4096


def test_a_host_that_cannot_take_part_is_named(
    lab: Lab, hosts: list[Host], engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, silent, none = hosts[0], Host(hosts[0].name, 9), Engine(tmp_path / "none.so")

    def refused(said: str, host: Host = one, build: Engine = engine, pool: str = lab.pool) -> None:
        with pytest.raises(HarnessError, match=f"^{re.escape(host.text)}(?s:.*){said}"):
            RemoteFio([host], build, lab.command([])).check(tmp_path / "probe", pool, "own")

    refused("none.so", build=none)
    refused("/no/such/folder", pool="/no/such/folder")
    refused("Connection refused", silent)
    monkeypatch.setattr("nfsmulti.hosts.engine_version", lambda: "0.0.1")
    refused("require_version=0.0.1")


# --- ./nfsmulti run --hosts ---


@pytest.mark.full
def test_run_on_two_hosts(lab: Lab, hosts: list[Host], engine: Engine, tmp_path: Path) -> None:
    names = ",".join(host.name for host in hosts[:2])
    words = ["--quick", "--repeat=1", "--pool", lab.pool, "--hosts", names]
    words += ["--results", str(tmp_path / "results")]
    env = {"NFSMULTI_CELL_SECONDS": "0.3", "NFSMULTI_BUILD_DIR": str(engine.library.parent)}
    done = run_harness("run", "dd", *words, enter=lab.command([]), env=env).check()
    (folder,) = (tmp_path / "results" / "dd").iterdir()
    summary = Summary.load(folder)
    assert summary.place["hosts"] == names.split(",")
    assert len(summary.done) == len(summary.cells) == 6, done.stdout
    for cell in summary.cells:
        per_host = Counter(job.host for job in cell.jobs)
        assert per_host == {host.name: cell.factors["streams"] for host in hosts[:2]}
        assert cell.machine_cpu_s is None
    (one,) = (cell for cell in summary.cells if cell.id == "write-streams1-r1")
    pools = [(folder / one.folder / f"host{number}.fio").read_text() for number in (1, 2)]
    assert all(f"first_path={number}\n" in pool for number, pool in enumerate(pools))
    assert all(pool.count("nfs://") == len(pools) for pool in pools)


def test_run_names_a_host_that_does_not_answer(tmp_path: Path) -> None:
    where = (f"--pool={tmp_path}", "--results", str(tmp_path / "results"))
    said = "127.0.0.2:9: no fio --server answers on port 9: Connection refused"
    done = call_harness("run", "dd", *where, "--hosts=127.0.0.2:9")
    assert done.status == 1
    assert f"{said}\n  on 127.0.0.2: fio --server=,9\n" in done.stderr
