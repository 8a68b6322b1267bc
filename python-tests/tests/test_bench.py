# SPDX-License-Identifier: GPL-2.0-only
"""bench: its statistics, its bars, and runs of it that are short."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import call_harness
from engine_helpers import anybody_names, eventually
from rich.console import Console

from nfsmulti.bench import client_cost
from nfsmulti.bench.client_cost import (
    CLIENT_COST,
    SCALE,
    SCALE_ENDS,
    SinkBench,
    our_engine,
    ourselves,
    peer_engine,
    read_strace,
    yardstick_engine,
)
from nfsmulti.bench.mounts import MOUNT, MountBench, io_uring, our_mount, places
from nfsmulti.bench.report import (
    HEADINGS,
    CaseResult,
    Report,
    bars_lines,
    bars_table,
    draw_comparison,
    figures_table,
)
from nfsmulti.bench.runs import (
    Bar,
    BarVerdict,
    Case,
    Contender,
    Role,
    Run,
    Timing,
    choose,
    choose_cores,
    run_fio,
)
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.paths import ROOT
from nfsmulti.stats import Ratio
from nfsmulti.texts import MISSING, Table

_SHORT = Timing(runtime=300, ramp=0, repeats=1)


# --- bars ---


def test_verdict() -> None:
    """Met or not by the ratio itself; open where the interval holds the limit, or is missing."""
    cpu, rate = Bar("cpu", 0.22), Bar("rate", 4.2)
    for ratio, bar, verdict in (
        (Ratio(0.2, 0.19, 0.21), cpu, BarVerdict.MET),
        (Ratio(0.2, 0.17, 0.23), cpu, BarVerdict.MET_OPEN),
        (Ratio(0.24, 0.21, 0.27), cpu, BarVerdict.NOT_MET_OPEN),
        (Ratio(0.24, 0.23, 0.25), cpu, BarVerdict.NOT_MET),
        (Ratio(4.4, 4.3, 4.5), rate, BarVerdict.MET),
        (Ratio(4.4, 4.0, 4.8), rate, BarVerdict.MET_OPEN),
        (Ratio(4.0, 3.7, 4.3), rate, BarVerdict.NOT_MET_OPEN),
        (Ratio(4.0, 3.9, 4.1), rate, BarVerdict.NOT_MET),
        (Ratio(0.22, 0.22, 0.22), cpu, BarVerdict.MET),
        (Ratio(0.2), cpu, BarVerdict.MET_OPEN),
        (Ratio(4.0), rate, BarVerdict.NOT_MET_OPEN),
    ):
        assert bar.verdict(ratio) is verdict, (ratio, bar)


def test_bars_are_those_that_the_reference_run_was_held_against() -> None:
    """They were set before it: what is faster or slower since then changes no bar."""
    report = (ROOT / "results/reference/client-cost/report.md").read_text()
    for case in CLIENT_COST:
        rows = re.findall(rf"^\| {case.name} \| [\d.]+ \(.*$", report, re.MULTILINE)
        held = re.findall(r"\| ([≤≥] [\d.]+) \|", "".join(rows))
        bars = [bar.text for bar in case.bars if bar.figure != "calls"]
        assert held == (bars if rows else []), case.name


def test_scale_covers_what_it_promises() -> None:
    """And no two cases have one name."""
    assert [case.connections for case in SCALE if case.depth == 256] == [1, 2, 4, 8, 16, 32, 64]
    depths = sorted(case.depth for case in SCALE if case.connections == 1)
    assert depths == [1 << bit for bit in range(11)]
    assert [case.connections for case in SCALE_ENDS] == [1, 64]
    for cases in (CLIENT_COST, MOUNT, SCALE):
        assert len({case.name for case in cases}) == len(cases)


def test_choice_of_cases() -> None:
    assert choose(CLIENT_COST, []) == list(CLIENT_COST)
    assert [case.name for case in choose(CLIENT_COST, ["write ?k d*", "read 1m d8"])] == [
        "write 4k d32",
        "write 8k d8",
        "read 1m d8",
        "write 4k d32 v4.1",
    ]
    with pytest.raises(HarnessError, match="'write 5k' matches no case"):
        choose(CLIENT_COST, ["write 5k"])


def _run(cpu: float, iops: float, calls: float | None = None) -> Run:
    return Run(
        iops=iops, bandwidth=1, cpu_user=cpu / 4, cpu_system=cpu * 3 / 4, p50=1, p99=1, calls=calls
    )


def test_judgements() -> None:
    case = next(case for case in CLIENT_COST if case.name == "randread 4k d32")
    ours = [_run(1.0, 500, 0.1), _run(1.0, 500, 0.3), _run(1.0, 500, 0.15)]
    judged = CaseResult(case, {_THREE[0]: ours, _THREE[1]: [_run(4.0, 250)] * 3}).judgements()
    assert {one.bar.figure: (round(one.found.value, 9), one.verdict) for one in judged} == {
        "cpu": (0.25, BarVerdict.MET),
        "rate": (2, BarVerdict.NOT_MET),
        "calls": (0.15, BarVerdict.MET),
    }


def _contender(name: str, role: Role, connections: int = 64) -> Contender:
    def takes(case: Case) -> bool:
        return case.connections <= connections

    return Contender(name, "fio", lambda *_: [], role=role, takes=takes)


_THREE = (
    _contender("nfsmulti", "ours"),
    _contender("fio nfs", "peer"),
    _contender("plain sockets", "yardstick", connections=1),
)


def _three_on(name: str) -> CaseResult:
    """Give runs of all who take a case."""
    case = next(case for case in CLIENT_COST if case.name == name)
    figures: dict[Role, Run] = {"ours": _run(1.0, 500, 0.1), "peer": _run(4.0, 100)}
    figures["yardstick"] = _run(0.8, 500)
    runs = {one: [figures[one.role]] * 3 if one.takes(case) else [] for one in _THREE}
    return CaseResult(case, runs)


def test_a_yardstick_is_in_every_table() -> None:
    results = [_three_on("randread 4k d32"), _three_on("read 64k d8 c4")]
    rows = figures_table(results).rows
    assert [row[1] for row in rows] == ["nfsmulti", "fio nfs", "plain sockets"] * 2
    assert rows[2][2] == "500"
    assert set(rows[5][2:]) == {MISSING}
    table = bars_table(results, _THREE[2])
    assert table.title == "Ratio to plain sockets, with its 95 % interval"
    one, several = table.rows
    assert one[1:4] == ["1.25 (1.25 to 1.25)", "≤ 1.1", "not met"]
    assert one[4:7] == ["1.00 (1.00 to 1.00)", "≥ 0.95", "met"]
    assert one[7:] == ["1.00 (1.00 to 1.00)", "≤ 1", "met"]
    assert several == ["read 64k d8 c4", *[MISSING, MISSING, ""] * 3]
    assert results[0].data()["ratios"]["plain sockets"]["cpu"]["value"] == pytest.approx(1.25)
    assert "plain sockets" not in results[1].data()["runs"]


def test_bars_that_are_not_met_are_named_and_all_are_drawn(tmp_path: Path) -> None:
    results = [_three_on("randread 4k d32"), _three_on("read 64k d8 c4")]
    assert bars_lines(results[:1]) == [
        "4 of 5 bars for ratios are met",
        "randread 4k d32, CPU per operation beside plain sockets: 1.25 (1.25 to 1.25),"
        " bar ≤ 1.1: not met",
    ]
    draw_comparison(results, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def _compare_failing(name: str, failing: str) -> tuple[list[CaseResult], list[str]]:
    """Run three contenders on two cases, of which one fails on the case `failing`."""

    def run_once(contender: Contender, case: Case, folder: Path) -> Run:
        if (contender.name, case.name) == (name, failing):
            raise HarnessError(f"{case.name}, {contender.name}: status 1\nsignal 6")
        return _run(1.0, 500)

    cases = choose(CLIENT_COST, ["randread 4k d32", "write 4k d32"])
    report = Report("test", Timing(1, 0, repeats=3), choose_cores(), Console(quiet=True))
    return report.measure(cases, _THREE, run_once), report.notes


def test_a_yardstick_is_left_out_of_a_case_that_it_fails_on() -> None:
    (kept, failed), notes = _compare_failing("plain sockets", "write 4k d32")
    assert [len(runs) for runs in kept.runs.values()] == [3, 3, 3]
    assert [len(runs) for runs in failed.runs.values()] == [3, 3, 0]
    assert notes[-1] == "Left out: write 4k d32, plain sockets: status 1; signal 6"


@pytest.mark.parametrize(
    ("name", "failing"), [("plain sockets", "randread 4k d32"), ("fio nfs", "write 4k d32")]
)
def test_other_failures_end_it(name: str, failing: str) -> None:
    with pytest.raises(HarnessError, match="status 1"):
        _compare_failing(name, failing)


# --- parts ---


def test_sum_of_strace(tmp_path: Path) -> None:
    table = tmp_path / "calls"
    rule = f"{'-' * 9} {'-' * 16}\n"
    table.write_text(
        f"    calls syscall\n{rule}     7000 recvfrom\n       12 poll\n{rule}     7012 total\n"
    )
    assert read_strace(table) == 7012


def test_cores() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) > 1:
        cores = choose_cores()
        assert cores.client != cores.server
        assert choose_cores(server=cores.client).client != cores.client
    with pytest.raises(HarnessError, match="processor 99999 is not one of"):
        choose_cores(client=99999)


def test_sources_of_packages_become_places_of_their_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apt, out = tmp_path / "apt", tmp_path / "out"
    (apt / "sources.list.d").mkdir(parents=True)
    out.mkdir()
    (apt / "sources.list").write_text("# deb\ndeb [signed-by=/k] http://a b main\n")
    source = "Types: deb\nArchitectures: amd64\nURIs: http://a\n"
    (apt / "sources.list.d/x.sources").write_text(source)
    (apt / "sources.list.d/README").write_text("deb\n")
    monkeypatch.setattr(client_cost, "_APT", apt)
    client_cost.write_sources(out)
    assert (out / "sources.list").read_text() == "# deb\ndeb-src [signed-by=/k] http://a b main\n"
    assert (out / "x.sources").read_text() == "Types: deb-src\nURIs: http://a\n"
    assert not (out / "README").exists()


def test_the_source_of_the_peer_is_unpacked(tmp_path: Path) -> None:
    """By the Python that Debian 12 has."""
    upstream = tmp_path / "fio-fio-3.33"
    upstream.mkdir()
    (upstream / "configure").write_text("#!/bin/sh\n")
    archive = shutil.make_archive(str(tmp_path / "fio_3.33.orig"), "xztar", tmp_path, upstream.name)
    tree = client_cost.unpack(Path(archive), tmp_path / "work")
    assert tree == tmp_path / "work/tree" / upstream.name


def test_a_table_as_markdown() -> None:
    text = Table(["", "IOPS"], [["a", "1"]], "t").markdown()
    assert text == "**t**\n\n|  | IOPS |\n| :-- | --: |\n| a | 1 |\n"


def test_words_of_a_table_wrap_and_are_not_cut() -> None:
    table = Table(["cell", "IOPS"], [["a word " * 20, "1,000,000"]], text_wraps=True)
    out = Console(width=40)
    with out.capture() as captured:
        out.print(table.terminal())
    assert captured.get().count("word") == 20
    assert "1,000,000" in captured.get()


# --- runs ---


@pytest.mark.parametrize("version", ["", "4.1"])
def test_a_run_against_the_sink(tmp_path: Path, version: str) -> None:
    bench = SinkBench(choose_cores(), _SHORT, tmp_path)
    case = Case("randread", "4k", 64, connections=4, version=version)
    runs = (bench.run_once(our_engine(Engine.built()), case, tmp_path / "run") for _ in range(20))
    found = next(run for run in runs if run.cpu > 0)  # fio counts whole milliseconds
    assert found.iops > 0
    assert found.bandwidth == pytest.approx(found.iops * 4096, rel=0.01)
    assert 0 < found.p50 <= found.p99
    assert found.calls is not None
    assert found.calls > 0
    assert found.server_busy is not None
    assert 0 < found.server_busy <= 1


def test_who_is_held_beside_our_engine_in_which_case() -> None:
    """One connection beside many, version 3 beside 4.1, and reads beside a metadata operation."""
    engine, url = Engine.built(), "nfs://127.0.0.1/export?nfsport=9&mountport=9"
    ours, peer, (one, v3, reads) = our_engine(engine), peer_engine(Path("fio")), ourselves(engine)
    names = ("randread 4k d256 c64", "randread 4k d32 v4.1", "getattr d32")
    many, later, entries = (case for name in names for case in CLIENT_COST if case.name == name)
    for case, beside in ((many, {peer, one}), (later, {v3}), (entries, {reads})):
        assert {other for other in (peer, one, v3, reads) if other.takes(case)} == beside
        assert ours.takes(case)
    assert [case.name for case in CLIENT_COST if one.takes(case)] == [many.name]
    assert "--iodepth=256" in one.words(many, url)
    assert "nconnect" not in " ".join(one.words(many, url))
    assert "--pool=nfs://127.0.0.1/export?port=9&version=4.1" in ours.words(later, url)
    assert f"--pool={url}" in v3.words(later, url)
    assert {"--size=262144", "--metadata=1", "--meta_read=getattr"} <= {*ours.words(entries, url)}
    assert "meta" not in " ".join(reads.words(entries, url))


# It completes all I/O by itself, and has a server where it is told to.
_YARDSTICK = """
#include "config-host.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include "fio.h"
#include "optgroup.h"
struct opts { void *pad; unsigned int port; };
static struct fio_option options[] = {
	{.name = "port", .lname = "port", .type = FIO_OPT_INT, .off1 = offsetof(struct opts, port),
		.category = FIO_OPT_C_ENGINE, .group = FIO_OPT_G_INVALID}, {.name = NULL}};
static int init(struct thread_data *td)
{
	struct sockaddr_in at = {AF_INET, htons(((struct opts *)td->eo)->port), {htonl(0x7f000001)}};
	return connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&at, sizeof(at));
}
static enum fio_q_status queue(struct thread_data *td, struct io_u *u) { return FIO_Q_COMPLETED; }
static int file(struct thread_data *td, struct fio_file *f) { return 0; }
struct ioengine_ops ioengine = {.name = "y", .version = FIO_IOOPS_VERSION, .options = options,
	.flags = FIO_SYNCIO | FIO_DISKLESSIO | FIO_NOEXTEND | FIO_NODISKUTIL, .init = init,
	.queue = queue, .open_file = file, .option_struct_size = sizeof(struct opts)};
"""


def test_a_yardstick_is_built_and_run(tmp_path: Path) -> None:
    (tmp_path / "y.c").write_text(_YARDSTICK)
    contender = yardstick_engine(tmp_path / "y.c", tmp_path / "built")
    assert not contender.takes(Case("randread", "4k", 8, connections=4))
    assert not contender.takes(Case("randread", "4k", 8, version="4.1"))
    bench = SinkBench(choose_cores(), _SHORT, tmp_path / "runs")
    assert bench.run_once(contender, Case("randread", "4k", 8), tmp_path / "run").iops > 0


def test_a_yardstick_that_does_not_compile_ends_it(tmp_path: Path) -> None:
    (tmp_path / "y.c").write_text("int x;\nint main(void) { return y; }\n")
    with pytest.raises(HarnessError) as caught:
        call_harness("bench", "client-cost", "--yardstick", str(tmp_path / "y.c"))
    why = r"y\.c does not compile: .*y\.c:2:\d+: error: .*y.* undeclared"
    assert re.search(why, caught.value.what)
    assert "\n" not in caught.value.what


def test_a_run_on_a_directory(tmp_path: Path) -> None:
    with places(tmp_path / "disk") as folders:
        bench = MountBench(choose_cores(), _SHORT, folders)
        for contender in (our_mount(Engine.built()), io_uring()):
            case = Case("randread", "4k", 8, place="tmpfs")
            found = bench.run_once(contender, case, tmp_path / contender.name)
            assert found.iops > 0
            assert found.cpu > 0
    assert not any(folder.exists() for folder in folders.values())


def test_jobs_that_hang_are_ended(tmp_path: Path) -> None:
    hanging = Contender("null", "fio", lambda *_: ["--ioengine=null", "--size=1g"], may_hang=True)
    case = Case("randread", "4k", 1)
    with pytest.raises(HarnessError, match=r"randread 4k d1, null: .* ran for 0.0 s only"):
        run_fio(hanging, case, "", _SHORT, tmp_path, enter=[], words=["--runtime=60"])
    assert "got signal=9" in (tmp_path / "stderr").read_text() + (tmp_path / "fio.json").read_text()
    eventually(lambda: not anybody_names(str(tmp_path)))


def test_list_shows_cases_and_bars() -> None:
    done = call_harness("bench", "client-cost", "--list").check()
    for case in CLIENT_COST:
        assert case.name in done.stdout
    assert "≤ 0.22" in done.stdout
    assert "≥ 4.2" in done.stdout


def test_help_explains_the_columns() -> None:
    done = call_harness("bench", "client-cost", "--help").check()
    explained = re.findall(r"^ (\S[^:\n]*):", done.stdout, re.MULTILINE)
    names = {name for line in explained for name in line.split(", ")}
    assert {*HEADINGS[4:], "ratio", "bar"} <= names


def test_scale_leaves_its_report(tmp_path: Path) -> None:
    words = ["--quick", "--repeat", "1", "--case", "randread 4k d32", "--results", str(tmp_path)]
    call_harness("bench", "scale", *words).check()
    data = json.loads((tmp_path / "results.json").read_text())
    assert [case["case"] for case in data["cases"]] == ["randread 4k d32"]
    assert data["cases"][0]["runs"][0]["iops"] > 0
    assert data["setting"]["fio"].startswith("fio-")
    report = (tmp_path / "report.md").read_text()
    assert "| randread 4k d32 | nfsmulti |" in report
    assert re.search(r"^fio --ioengine=\S+ .*--rw=randread --bs=4k ", report, re.MULTILINE)
    assert (tmp_path / "scale.png").read_bytes().startswith(b"\x89PNG")
