# SPDX-License-Identifier: GPL-2.0-only
"""What stories run on mounts and pools, what they refuse, and what they leave behind."""

import dataclasses
import math
import os
import re
from pathlib import Path
from tempfile import mkdtemp

import made_runs
import page_cases
import pytest
from conftest import call_harness, needs_privileges, or_skip
from made_runs import changed, only
from page_cases import creates
from run_helpers import QUIET, made_record, scripted_cells

from nfsmulti import export
from nfsmulti.errors import HarnessError
from nfsmulti.export import PathInfo, Usage
from nfsmulti.fiorun import ConnectionStats, Engine, FioReport
from nfsmulti.kept.pairs import why_not
from nfsmulti.metadata import MOST
from nfsmulti.pool import CellMounts, mount_ports, mount_source
from nfsmulti.processes import run
from nfsmulti.report import cells as cells_of
from nfsmulti.report.pages import naming
from nfsmulti.run import preflight, record, runner
from nfsmulti.run.cell import Entries
from nfsmulti.run.cell import command as command_of
from nfsmulti.run.place import OnPool, asked
from nfsmulti.run.plan import crossed, ordered
from nfsmulti.run.record import one_line
from nfsmulti.run.watch import fio_options
from nfsmulti.scenario import CellSpec, Choice, OwnPool, Scale
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Factor, Summary
from servers.scripted import ScriptedServer

_CONNECTIONS = SCENARIOS["connections"]


def test_a_run_from_before_there_was_a_base_is_compared() -> None:
    """One connection on one path is the base of several."""
    run = page_cases.cases("connections")["one connection on one path is the base of several"]
    older = only(run, lambda cell: "paths" not in cell.factors)
    assert why_not(older, run) is None


_MOUNTED = {"transport": "tcp-mount", "nconnect": 2, "jobs": 4}


@pytest.mark.parametrize(
    ("words", "paths", "factors", "count"),
    [
        ("--pool=p --nconnect=2 --numjobs=4", ("fileserver:/a", "fileserver:/b"), {}, 8),
        ("--pool=p --nconnect=2 --numjobs=4 --spread=stripe", ("a:/v", "b:/v"), {}, 16),
        ("--pool=p --nconnect=2 --failover=1", ("a:/v", "b:/v"), {}, 4),
        ("--pool=p --spread_reads=queue", ("a:/v", "b:/v", "c:/v"), {}, 3),
        ("--ioengine=nfs --numjobs=3", (), {}, 3),
        ("--ioengine=libaio --directory=/mnt", (), {}, None),
        ("--pool=/m/a,/m/b --spread=stripe", ("/m/a", "/m/b"), {}, None),
        # A mount has its connections for all jobs together; of a directory's nobody knows.
        ("--numjobs=3", (), _MOUNTED, 2),
        ("--numjobs=3", ("/m/1", "/m/2"), _MOUNTED, 4),
        ("--numjobs=3", ("/m",), {**_MOUNTED, "transport": "directory"}, None),
    ],
)
def test_connections_follow_from_how_jobs_use_their_paths(
    words: str, paths: tuple[str, ...], factors: dict[str, Factor], count: int | None
) -> None:
    cell = made_runs.reference("connections").cells[0]
    parts, command = dict.fromkeys(paths, 0.5), f"fio {words}"
    found = dataclasses.replace(cell, factors=factors, jobs=[], paths=parts, command=command)
    assert found.connections == count


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
    chosen = Choice(nconnect=(1, 4), jobs=(1, 4))
    specs, _ = SCENARIOS[name].own_cells(Scale(True, choice=chosen), OwnPool(paths, 0))
    planned = ordered(specs, 1, 1)
    waiting = dataclasses.replace(run, cells=[*map(record.waiting_cell, planned)])
    for there, cells in ((run, run.done), (waiting, map(record.as_planned, planned))):
        for cell in cells:
            levels = (int(cell.factors.get(key, 1)) for key in ("connections", "nconnect", "jobs"))
            over = 1 if "connections" in cell.factors else int(cell.factors.get("paths", paths))
            count = math.prod(levels) * (1 if name == "security" and there is waiting else over)
            assert re.search(rf"\b{count} connection", naming(there)(cell))


# --- what is run ---


@pytest.fixture
def mounter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a mount(8) and an umount(8) before the real ones that write down what they were told."""
    for program in ("mount", "umount"):
        (tmp_path / program).write_text(f'#!/bin/sh\necho {program} "$@" >>{tmp_path}/said\n')
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def test_why_a_mount_failed_is_told_of_its_cell(mounter: Path) -> None:
    """In its line, which is the first of what is raised."""
    (mounter / "mount").write_text("#!/bin/sh\necho mount: access denied >&2\nexit 32\n")
    with pytest.raises(HarnessError) as caught:
        CellMounts().make([("nas:/vol", "vers=3")])
    assert one_line(str(caught.value)).endswith(": failed (32): mount: access denied")


def _told(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "said").read_text().splitlines()]


def test_mount_of_a_cell_is_its_own(mounter: Path) -> None:
    mounts = CellMounts()
    (first,) = mounts.make([("nas:/vol", "vers=3,nconnect=1")])
    shares = "nconnect=4 was asked for and the mount has 1: it shares"
    with pytest.raises(HarnessError, match=shares):
        mounts.make([("nas:/vol", "vers=3,nconnect=4")])
    mounts.end()
    mounts.end()
    second = _told(mounter)[2][-1]
    assert _told(mounter) == [
        ["mount", "-t", "nfs", "-o", "vers=3,nconnect=1", "nas:/vol", first],
        ["umount", first],
        ["mount", "-t", "nfs", "-o", "vers=3,nconnect=4", "nas:/vol", second],
        ["umount", second],
    ]
    assert not Path(first).exists()
    assert not Path(second).exists()


def test_each_url_of_a_pool_is_mounted_and_the_engine_spreads_over_them(mounter: Path) -> None:
    chosen = Choice(nconnect=(1,), version=("3",), proto=("tcp",), jobs=(1,), mounts=True)
    pool = OnPool("nfs://10.0.0.[1-2]/vol")
    _, first, engine, mounts = _CONNECTIONS.own_cells(Scale(True, choice=chosen), pool.offers)[0]
    with pool:
        words = command_of(mounts, pool, Engine(Path("engine.so")), mounter)
    made = [line[-2:] for line in _told(mounter) if line[0] == "mount"]
    assert [source for source, _ in made] == ["10.0.0.1:/vol", "10.0.0.2:/vol"]
    one, two = (folder for _, folder in made)
    assert f"IOTRAP_MOUNT_POOLS=mounts:{one}/,{two}/" in words
    assert f"--filename={one}/nfsmulti-connections" in words
    assert "--spread=roundrobin" in words
    assert engine.paths == mounts.paths == 2
    assert (first.client, first.paths) == ("mounts", 1)  # the same engine as what is held against
    assert first.options["spread"] == "roundrobin"
    assert [line[1] for line in _told(mounter) if line[0] == "umount"] == [two, one]


def test_mounts_that_share_connections_are_refused(
    mounter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = "rw,vers=4.1,clientaddr=10.0.0.9,addr=10.0.0.1"
    monkeypatch.setattr("nfsmulti.pool._options_of", lambda _: same)
    mounts = CellMounts()
    over = "nas2:/vol: the kernel mounts it over an earlier path's connections"
    with pytest.raises(HarnessError, match=over):
        mounts.make([("nas1:/vol", "vers=4.1"), ("nas2:/vol", "vers=4.1")])
    mounts.end()
    assert [line[0] for line in _told(mounter)] == ["mount", "mount", "umount", "umount"]


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


# --- metadata ---


_METADATA = SCENARIOS["metadata"]


def test_fio_s_own_engines_end_when_all_entries_are_done_and_ask_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fio's set-up has looked up is forgotten before filestat begins."""
    place, engine = OnPool("nfs://127.0.0.1/a"), Engine(tmp_path / "no.so")
    monkeypatch.setattr(place, "mounts", lambda _: [str(tmp_path)])
    cells = _METADATA.cells(Scale(choice=Choice((1,), depth=(32,), mounts=True)))
    for cell in [one for one in cells if one.client == "mount"]:
        words = command_of(cell, place, engine, tmp_path)
        before = next(word for word in words if word.startswith("--exec_prerun="))
        assert ("drop_caches" in before) == (cell.options["ioengine"] == "filestat")
        assert not [word for word in words if word.startswith(("--size=", "--time_based"))]


def test_a_command_before_the_first_io_runs_once_or_ends_all(tmp_path: Path) -> None:
    """It runs when the last job has come, so that no I/O is before it."""
    job = ["fio", "--output-format=json", "--ioengine=null", "--size=4k", "--numjobs=4"]
    job += ["--name=t", "--group_reporting"]

    def operations(command: str) -> int:
        folder = Path(mkdtemp(dir=tmp_path))
        words = [f"--{name}={value}" for name, value in fio_options(folder, 4, command).items()]
        report = FioReport.parse(run([*job, *words], timeout=60, cwd=tmp_path).stdout)
        assert report
        return report.operations("read")

    assert operations(f"wc -l <$file.came >>{tmp_path}/log") == 4
    assert (tmp_path / "log").read_text() == "4\n"
    assert operations("false") == 0


# --- the entries of a cell ---


def test_what_ended_a_cell_is_said_where_its_entries_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount's before its fio began; the engine's in less time, for the server may be gone."""
    peers = _METADATA.cells(Scale(True, choice=Choice(mounts=True)))
    mounted = next(cell for cell in peers if cell.client == "mount")
    own = _METADATA.cells(Scale(True))
    made = next(cell for cell in own if cell.factors["operation"] == "create")
    limits: list[float] = []

    def late(*_: object, seconds: float, **__: object) -> Usage:
        limits.append(seconds)
        raise HarnessError("late")

    monkeypatch.setattr(export, "remove_unmarked", late)
    place, engine = OnPool(str(tmp_path)), Engine(Path())

    def entries(spec: CellSpec) -> Entries:
        return Entries(spec, place, engine, tmp_path)

    with pytest.raises(HarnessError, match="gone"), entries(mounted):
        raise HarnessError("gone")
    with pytest.raises(HarnessError, match="gone"), entries(made):
        raise HarnessError("gone")
    with pytest.raises(HarnessError, match="late"), entries(made):
        pass
    after_failure, usual = limits
    assert after_failure < usual / 5


# --- security ---


_ONE = OwnPool(urls=1, mounts=0)


def _own(choice: Choice) -> list[CellSpec]:
    return SCENARIOS["security"].own_cells(Scale(True, choice=choice), _ONE)[0]


def test_who_encrypts_is_a_factor_with_a_baseline_in_clear() -> None:
    """Which the engine would refuse with it."""
    choice = Choice((1,), workload=("64k-read",), xprtsec=("tls",))
    cells = crossed(_own(choice), {"ktls": (0, 1)})
    found = [(c.factors["flavor"], c.factors["ktls"], c.options.get("ktls")) for c in cells]
    assert found == [("sys", 0, None), ("sys", 1, None), ("tls", 0, 0), ("tls", 1, 1)]


def test_arguments_of_a_cell_win_over_those_of_a_path() -> None:
    """Of credentials it keeps those that a flavor uses: others are refused, being for nothing."""
    cell = _CONNECTIONS.cells(Scale(choice=Choice(version=("4.1",))))[0]
    path = "nfs://10.0.0.1/vol?proto=rdma&mountport=9&nfsport=8&soft"
    assert asked(path, cell) == "nfs://10.0.0.1/vol?nfsport=8&soft&proto=tcp&version=4.1"
    assert asked("/mnt/a", dataclasses.replace(cell, query="")) == "/mnt/a"
    keys = "&keytab=k&principal=a&ccache=c&server_principal=s"
    tls, own = "&tls_ca=ca&tls_name=n", "&tls_cert=c&tls_key=k"
    path = f"nfs://nas/vol1?version=4.1{keys}{tls}{own}&sec=krb5"
    every = ("none", "tls", "mtls")
    choice = Choice((1,), workload=("64k-read",), sec=("sys", "krb5p"), xprtsec=every)
    found = {str(cell.factors["flavor"]): asked(path, cell) for cell in _own(choice)}
    kept = {"sys": "&sec=sys&xprtsec=none", "krb5p": f"{keys}&sec=krb5p&xprtsec=none"}
    kept |= {"tls": f"{tls}&sec=sys&xprtsec=tls", "mtls": f"{tls}{own}&sec=sys&xprtsec=mtls"}
    kept["krb5p+tls"] = f"{keys}{tls}&sec=krb5p&xprtsec=tls"
    kept["krb5p+mtls"] = f"{keys}{tls}{own}&sec=krb5p&xprtsec=mtls"
    assert found == {name: f"nfs://nas/vol1?version=4.1{words}" for name, words in kept.items()}


# --- what the server lacks ---


def test_what_a_server_lacks_is_a_line_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the engine's own words; TLS is asked for once, by the first warm-up."""
    monkeypatch.setenv("NFSMULTI_CELL_SECONDS", "0.2")
    words = ["--nconnect=1,2", "--workload=64k-read", "--xprtsec=tls", "--repeat=1"]
    words += [f"--results={tmp_path}"]
    with ScriptedServer() as server:
        done = call_harness("run", "security", f"--pool={server.pool()}", *words)
    assert done.status == 0, done.stdout + done.stderr
    (folder,) = tmp_path.glob("security/*")
    cells = Summary.load(folder).cells
    found = {str(cell.factors["flavor"]): (cell.status, cell.why or "") for cell in cells}
    assert found["sys"] == ("done", "")
    assert found["tls"][0] == "skipped"
    assert "the server offers no TLS" in found["tls"][1]
    assert done.stdout.count("tls is not measured: ") == 1
    (line,) = re.findall(r"^- tls: (.*)$", (folder / "report.md").read_text(), re.MULTILINE)
    assert line.startswith("127.0.0.1:")
    assert "the server offers no TLS" in line
    page = (folder / "report.md").read_text()
    assert "## Not measured" in page
    assert "not offer" not in page  # a client without a ticket lacks it itself


def test_the_runs_directory_is_made_by_what_the_server_has(tmp_path: Path) -> None:
    choice = Choice((1,), workload=("64k-read",), xprtsec=("tls",))
    record = made_record(tmp_path / "run", "security", _own(choice)[::-1])
    said: list[str] = []
    with ScriptedServer() as server:
        place = OnPool(server.pool())
        wanted = preflight.check(record.plan, place, said.append)
    assert wanted.pool.endswith("&sec=sys&xprtsec=none")
    assert len(said) == 1
    with pytest.raises(HarnessError, match="refused"):
        preflight.check(record.plan, place, said.append)


@pytest.mark.parametrize(
    ("name", "hosts", "needed"),
    [
        ("metadata", "", (0, MOST, 2000)),  # those of one cell at a time; a lookup needs its 2000
        ("dd", "", (5 << 27, 5, 5)),
        ("dd", "a,b", (10 << 27, 10, 10)),
        ("neighbour", "a,b", (3 << 26, 3, 3)),  # the readers' file, and a writer's of each host
        ("sweep", "", (256 << 20, 1, 1)),
    ],
)
def test_a_file_that_cells_share_is_counted_once(
    name: str, hosts: str, needed: tuple[int, int, int], tmp_path: Path
) -> None:
    """In its largest size, whichever cell comes last."""
    specs = SCENARIOS[name].own_cells(Scale(True), _ONE)[0]
    plan = dataclasses.replace(made_record(tmp_path / "run", name, specs).plan, hosts=hosts)
    for last in plan.cells[:9]:  # of sweep they have each size
        found = preflight.needs(dataclasses.replace(plan, cells=[*plan.cells, last]))
        assert (found.bytes, found.entries, found.certain) == needed


def test_room_must_be_for_what_is_made_however_slow_the_server_is() -> None:
    wanted = preflight.Needs(bytes=1000, entries=20, certain=10)
    there = PathInfo("a", "3", "tcp", bytes_available=1000, files_available=10)
    for enough in (there, PathInfo("of an unknown size", "3", "tcp")):
        preflight._check_path(enough, wanted)
    for less, said in (
        ({"bytes_available": 0}, "needs 1.0 kB, and 0 bytes are free"),
        ({"files_available": 0}, "makes 10 files, and there is room for 0"),
        ({"may_write": False}, "this user may make none there"),
    ):
        with pytest.raises(HarnessError, match=said):
            preflight._check_path(dataclasses.replace(there, **less), wanted)


def test_a_server_that_has_nothing_of_it_fails_the_run(tmp_path: Path) -> None:
    """Nothing is then marked as skipped: the run can be resumed."""
    specs = _own(Choice((1,), workload=("64k-read",), sec=("sys",)))
    record = made_record(tmp_path / "run", "security", specs)
    pool = OnPool("nfs://127.0.0.1:1/none?mountport=1")
    with pytest.raises(HarnessError, match=r"no cell can be run: .*refused"):
        runner.carry_out(record, QUIET, make=lambda: pool)
    assert {cell.status for cell in record.cells} == {"waiting"}


def test_a_later_warm_up_that_fails_leaves_the_cell_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first one had, the server offers."""
    specs = _own(Choice((1, 2), workload=("64k-read",), sec=("sys",)))
    record = made_record(tmp_path / "run", "security", specs)
    ran = scripted_cells(monkeypatch, "done", "failed")
    with ScriptedServer() as server:
        runner.carry_out(record, QUIET, make=lambda: OnPool(server.pool()))
    assert len(ran) == 4
    assert {cell.status for cell in record.cells} == {"done"}


# --- with all of it ---


def test_a_lab_has_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kerberos, TLS with a certificate of the client's and without, and both; none by a detour."""
    needs_privileges()
    monkeypatch.setenv("NFSMULTI_CELL_SECONDS", "0.3")
    words = ["--sec=sys,krb5p", "--xprtsec=none,tls,mtls", "--workload=64k-read"]
    with or_skip():
        done = call_harness(
            "run", "security", *words, "--nconnect=1", "--repeat=1", f"--results={tmp_path}"
        )
    assert done.status == 0, done.stdout + done.stderr
    (folder,) = tmp_path.glob("security/*")
    cells = {str(cell.factors["flavor"]): cell for cell in Summary.load(folder).done}
    assert cells.keys() == {"sys", "krb5p", "tls", "krb5p+tls", "mtls", "krb5p+mtls"}
    for flavor, cell in cells.items():
        (line,) = ConnectionStats.read(folder / cell.folder / "stats.jsonl")
        over = flavor.rpartition("+")[2]
        assert line.sec == ("krb5p" if "krb5p" in flavor else "sys")
        assert line.xprtsec == (over if over in ("tls", "mtls") else "none")
        assert ("nfsport=22051" in cell.command) is (line.xprtsec != "none")
        assert (cell.crypto_s is not None) is ("krb5" in flavor or "GnuTLS" in cell.tls)
        assert (cell.tls == "") is (line.xprtsec == "none")
        assert (cell.crypto_s or 0) <= cell.cpu_s
        assert cell.server
        assert 0 < (cell.server.cpu_percent or 0) < 100
    page = (folder / "report.md").read_text()
    assert re.search(r"server's \d+ processors? and of its processes alone", page)
