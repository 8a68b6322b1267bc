# SPDX-License-Identifier: GPL-2.0-only
"""Runs on several hosts: namespaces with a fio --server each."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import missing
from engine_helpers import eventually

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.fiorun import Engine
from nfsmulti.hosts import Host, RemoteFio, parse_hosts
from nfsmulti.hosts.jobtext import JobFile
from nfsmulti.lab import Lab, LabConfig
from nfsmulti.paths import JOBFILES
from nfsmulti.processes import Process, run

_HOSTS = 4


# --- names ---


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a", [Host("a", "a")]),
        ("a,root@b:9000", [Host("a", "a"), Host("b", "root@b", 9000)]),
        (
            "10.0.0.1, 10.0.0.1:9000",
            [Host("10.0.0.1", "10.0.0.1"), Host("10.0.0.1", "10.0.0.1", 9000)],
        ),
        ("[FD00::1]:9000", [Host("fd00::1", "fd00::1", 9000)]),
    ],
)
def test_hosts_are_read(text: str, hosts: list[Host]) -> None:
    assert parse_hosts(text) == hosts


@pytest.mark.parametrize(
    "text", ["", "a,", "a b", "a:0", "a:65536", "a:b", "fd00::1", "[a]", "a,a", "a,root@a:8765"]
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(HarnessError, match="--hosts: "):
        parse_hosts(text)


def test_fio_names() -> None:
    assert Host("a", "a").client_option == "ip:a,8765"
    assert Host("fd00::1", "x", 9).client_option == "ip6:fd00::1,9"
    assert (Host("fd00::1", "x", 9).text, Host("fd00::1", "x").text) == ("[fd00::1]:9", "[fd00::1]")


# --- job files ---


def test_a_job_file_says_all_that_the_command_line_would() -> None:
    text = (
        "[global]\nbs=8k\n; words\ntime_based\n[a]\nnumjobs=2\nrw=write\nfilename=f:g\n[b]\nbs=4k\n"
    )
    jobs = JobFile.parse(text, {"bs": "1k", "pool": "/m"}, "x.fio")
    assert jobs.jobs == 3
    again = JobFile.parse(jobs.text_for(2), {}, "y.fio").sections
    common = {"pool": "/m", "time_based": None, "first_path": "6"}
    assert again == {
        "a": {**common, "bs": "8k", "numjobs": "2", "rw": "write", "filename": "host3/f:host3/g"},
        "b": {**common, "bs": "4k"},
    }


def test_files_that_are_written_are_a_hosts_own() -> None:
    def names(**section: str) -> dict[str, str | None]:
        own = JobFile({"a": dict(section)}).text_for(0)
        made = JobFile.parse(own, {}, "x.fio").sections["a"]
        return {key: value for key, value in made.items() if key.startswith("filename")}

    assert names(rw="randread", filename="f") == {"filename": "f"}
    assert names(filename="f") == {"filename": "f"}
    assert names(rw="randrw", filename="f") == {"filename": "host1/f"}
    assert names(readwrite="write") == {"filename_format": "host1/$jobname.$jobnum.$filenum"}
    assert names(rw="write", filename_format="$jobnum") == {"filename_format": "host1/$jobnum"}


def test_a_broken_job_file_is_named() -> None:
    with pytest.raises(HarnessError, match=r"x\.fio: "):
        JobFile.parse("bs=4k\n", {}, "x.fio")


# --- runs ---


@pytest.fixture(scope="module")
def many() -> Iterator[Lab]:
    """Give a lab with four hosts."""
    lab = Lab(LabConfig(addresses=4, hosts=_HOSTS))
    try:
        lab.start()
    except MissingError as error:
        missing(error)
    try:
        yield lab
    finally:
        lab.stop()


@pytest.fixture
def hosts(many: Lab, engine: Engine, tmp_path: Path) -> Iterator[list[Host]]:
    """Give the hosts, a fio --server on each."""
    addresses = [many.network.host_address(number) for number in range(1, _HOSTS + 1)]
    some = [Host(address, address) for address in addresses]
    with contextlib.ExitStack() as servers:
        for number, host in enumerate(some, start=1):
            log = servers.enter_context((tmp_path / f"server{number}").open("wb"))
            argv = many.host_command(number, ["fio", f"--server={host.server_option}"])
            process = Process(argv, env=engine.env, stdout=log, stderr=log, cwd=tmp_path)
            servers.enter_context(process)
        for number in range(1, _HOSTS + 1):
            eventually(functools.partial(_listens, many, number))
        yield some


def _listens(lab: Lab, number: int) -> bool:
    return bool(_run_on(lab, number, ["ss", "-Hltn", "sport = 8765"]))


def _run_on(lab: Lab, number: int, argv: list[str]) -> str:
    return run(lab.host_command(number, argv), timeout=20).check().stdout


def _remote(lab: Lab, engine: Engine, hosts: list[Host]) -> RemoteFio:
    return RemoteFio(hosts, engine, lab.command([]))


def test_jobs_of_four_hosts_use_four_paths(
    many: Lab, hosts: list[Host], engine: Engine, tmp_path: Path
) -> None:
    remote = _remote(many, engine, hosts)
    remote.check(tmp_path / "probe", many.pool)
    options = {"rw": "write", "size": "1m", "bs": "64k", "verify": "crc32c", "filename": "f"}
    result = remote.run(tmp_path / "run", pool=many.pool, options=options)
    assert result.report is not None
    jobs = result.report.jobs
    assert sorted(job["hostname"] for job in jobs) == sorted(host.name for host in hosts)
    assert result.report.bytes("write") == _HOSTS << 20
    assert result.report.latency_percentile("write", 50) > 0
    for number in range(1, _HOSTS + 1):
        assert (many.export_dir / f"host{number}" / "f").stat().st_size == 1 << 20
        text = (tmp_path / "run" / f"host{number}.fio").read_text()
        assert f"first_path={number - 1}\n" in text
        said = (tmp_path / f"server{number}").read_text(errors="replace")
        assert "1 connection on 1 path" in said


def test_bundled_job_file_on_several_hosts(
    many: Lab, hosts: list[Host], engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "short.fio").write_text(
        (JOBFILES / "randread.fio").read_text().replace("runtime=30", "runtime=1")
    )
    remote = _remote(many, engine, hosts[:2])
    result = remote.run(
        tmp_path / "run", pool=many.pool, options={}, jobfile=tmp_path / "short.fio"
    )
    assert result.report is not None
    assert [job["jobname"] for job in result.report.jobs] == ["task1"] * 8


@pytest.mark.parametrize("case", ["engine", "version", "pool", "server"])
def test_a_host_that_cannot_take_part_is_named(
    many: Lab,
    hosts: list[Host],
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
) -> None:
    pool, some, said = many.pool, hosts[:1], ""
    if case == "engine":
        engine, said = Engine(tmp_path / "none.so"), "none.so"
    elif case == "version":
        monkeypatch.setattr("nfsmulti.hosts.remote.engine_version", lambda: "0.0.1")
        said = "require_version=0.0.1"
    elif case == "pool":
        pool, said = "/no/such/folder", "/no/such/folder"
    else:
        some, said = [Host(hosts[0].name, hosts[0].login, 9)], "Connection refused"
    with pytest.raises(HarnessError, match=said) as refused:
        _remote(many, engine, some).check(tmp_path / "probe", pool)
    assert str(refused.value).startswith(some[0].text)
