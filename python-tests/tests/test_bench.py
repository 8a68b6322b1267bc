# SPDX-License-Identifier: GPL-2.0-only
"""bench: its statistics, its bars, and runs of it that are short."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import call_harness, refusal
from engine_helpers import anybody_names, eventually
from rich.console import Console

from nfsmulti.bench import client_cost
from nfsmulti.bench.client_cost import (
    CLIENT_COST,
    SCALE,
    SinkBench,
    our_engine,
    ourselves,
    peer_engine,
    yardstick_engine,
)
from nfsmulti.bench.command import Bench, Options
from nfsmulti.bench.mounts import MOUNT, MountBench, io_uring, our_mount, places
from nfsmulti.bench.report import HEADINGS, CaseResult, write
from nfsmulti.bench.runs import (
    OURS,
    PEER,
    YARDSTICK,
    Bar,
    BarVerdict,
    Case,
    Contender,
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
from nfsmulti.texts import Table

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
    text = (ROOT / "results/reference/client-cost/results.json").read_text()
    held = {one["case"]: one for one in json.loads(text)["cases"]}
    for case in CLIENT_COST:
        if case.name in held:
            ran, bars = held[case.name]["runs"], held[case.name]["bars"]
            found = [(one["figure"], one["beside"], one["limit"]) for one in bars]
            ours = [(bar.figure, bar.beside, bar.limit) for bar in case.bars]
            assert found == [bar for bar in ours if bar[1] in ran], case.name


def test_scale_covers_what_it_promises() -> None:
    """And no two cases have one name."""
    assert [case.connections for case in SCALE if case.depth == 256] == [1, 2, 4, 8, 16, 32, 64]
    depths = sorted(case.depth for case in SCALE if case.connections == 1)
    assert depths == [1 << bit for bit in range(11)]
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
    judged = CaseResult(case, {OURS: ours, PEER: [_run(4.0, 250)] * 3}).judgements()
    assert {one.figure: (round(one.value, 9), one.verdict) for one in judged} == {
        "cpu": (0.25, "met"),
        "rate": (2, "not met"),
        "calls": (0.15, "met"),
    }


_THREE = (
    Contender(OURS, "fio", lambda *_: []),
    Contender(PEER, "fio", lambda *_: [], takes=lambda case: not case.version),
    Contender(YARDSTICK, "fio", lambda *_: [], optional=True, takes=lambda case: not case.version),
)
_CPU = {OURS: (1.0, 1.1, 1.2), PEER: (4.0, 4.2, 4.4), YARDSTICK: (0.8, 0.9, 1.0)}


def _bench_of(names: list[str], folder: Path, fails: tuple[str, str] = ("", "")) -> Bench:
    """Make up a bench of three engines, of which one fails on one case."""
    count = dict.fromkeys([one.name for one in _THREE], 0)

    def run_once(contender: Contender, case: Case, _: Path) -> Run:
        if (contender.name, case.name) == fails:
            raise HarnessError(f"{case.name}, {contender.name}: status 1\nsignal 6")
        count[contender.name] += 1
        cpu = _CPU[contender.name][count[contender.name] % 3] + case.depth / 100
        full = case.name.startswith("read 64k d8")
        return dataclasses.replace(_run(cpu, 500, 0.1), server_busy=0.95 if full else 0.5)

    options = Options(quick=True, targets=False, repeat=3, results=folder)
    bench = Bench("client-cost", options, choose_cores())
    bench.data["setting"]["load before"] = "0.10"
    bench.measure(choose(CLIENT_COST, names), _THREE, run_once)
    return bench


def test_the_answer_is_a_ratio_and_targets_are_for_those_who_ask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In ten rows at most, by the page that results.json can make again."""
    _bench_of(["*4k*", "*64k*"], tmp_path).finish()
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(
        r"^0\.\d\d to 0\.\d\d of the CPU per operation of fio's nfs engine \(median 0\.\d\d\):"
        r" nfsmulti, 13 workloads\. .*full in 2 of 13 workloads \(\*\)",
        said,
    )
    assert said.endswith("report.html Next: ./nfsmulti bench client-cost")
    assert "target" not in said
    html = (tmp_path / "report.html").read_text()
    answer = html.partition("</section>")[0]
    assert 10 < answer.count("<tr>") <= 11
    assert "busy" not in answer
    assert re.search(r">64k reads, depth 8(, 4 connections)?\*<", answer)
    assert html.count("<svg") == 2
    assert "Targets" not in html
    assert " targets are met." in write(tmp_path, targets=True)
    assert "≤ 0.22" in (tmp_path / "report.html").read_text()
    call_harness("report", str(tmp_path)).check()
    assert (tmp_path / "report.html").read_text() == html


def test_a_yardstick_is_left_out_of_a_case_that_it_fails_on(tmp_path: Path) -> None:
    cases = ["randread 4k d32", "write 4k d32"]
    bench = _bench_of(cases, tmp_path, (YARDSTICK, cases[1]))
    kept, failed = bench.results
    assert [len(runs) for runs in kept.runs.values()] == [3, 3, 3]
    assert [len(runs) for runs in failed.runs.values()] == [3, 3, 0]
    bench.finish()
    html = (tmp_path / "report.html").read_text()
    words = "The yardstick (plain sockets) failed on 4k writes, depth 32: left out there."
    assert f'<p class="caveat">⚠ {words}' in html
    assert "<li>write 4k d32, plain sockets: status 1; signal 6</li>" in html


def test_runs_of_another_version_are_refused(tmp_path: Path) -> None:
    _bench_of(["randread 4k d32"], tmp_path).finish()
    file = tmp_path / "results.json"
    file.write_text(file.read_text().replace("randread 4k d32", "randread 5k d32"))
    said = refusal("report", str(tmp_path))
    assert "not of this version of nfsmulti: 'randread 5k d32'" in said
    assert "measure again: ./nfsmulti bench client-cost" in said


@pytest.mark.parametrize(
    ("name", "failing"), [(YARDSTICK, "randread 4k d32"), (PEER, "write 4k d32")]
)
def test_other_failures_end_it(tmp_path: Path, name: str, failing: str) -> None:
    with pytest.raises(HarnessError, match="status 1"):
        _bench_of(["randread 4k d32", "write 4k d32"], tmp_path, (name, failing))


# --- parts ---


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
    found = bench.run_once(our_engine(Engine.built()), case, tmp_path / "run")
    assert found.cpu > 0  # where fio has counted none, a little
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


def test_list_shows_cases_and_their_targets_where_asked_for() -> None:
    done = call_harness("bench", "client-cost", "--list").check()
    for case in CLIENT_COST:
        assert case.name in done.stdout
    assert "≤ 0.22" not in done.stdout
    done = call_harness("bench", "client-cost", "--list", "--targets").check()
    assert "≤ 0.22" in done.stdout
    assert "≥ 4.2" in done.stdout


def test_help_explains_the_columns() -> None:
    done = call_harness("bench", "client-cost", "--help").check()
    explained = re.findall(r"^ (\S[^:\n]*):", done.stdout, re.MULTILINE)
    names = {name for line in explained for name in line.split(", ")}
    assert {*HEADINGS[4:], "ratio", "target"} <= names


def test_scale_leaves_its_report(tmp_path: Path) -> None:
    words = ["--quick", "--repeat", "1", "--case", "randread 4k d32", "--results", str(tmp_path)]
    call_harness("bench", "scale", *words).check()
    data = json.loads((tmp_path / "results.json").read_text())
    assert [case["case"] for case in data["cases"]] == ["randread 4k d32"]
    assert data["cases"][0]["runs"][OURS][0]["iops"] > 0
    assert data["setting"]["fio"].startswith("fio-")
    report = (tmp_path / "report.md").read_text()
    assert re.search(
        r"^4k random reads, depth 32: \S+ µs of CPU per operation\.$", report, re.MULTILINE
    )
    assert "| randread 4k d32 | nfsmulti |" in report
    assert re.search(r"^fio --ioengine=\S+ .*--rw=randread --bs=4k ", report, re.MULTILINE)
    assert (tmp_path / "plots/scale.png").read_bytes().startswith(b"\x89PNG")
