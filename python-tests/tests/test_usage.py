# SPDX-License-Identifier: GPL-2.0-only
"""Words that no command takes: what is said of them, and the exit status.

2: of the line of words itself, before anything is installed; 1: of what they lead to.
"""

import os
import shlex
from pathlib import Path

import pytest
from conftest import call_harness, refusal

from nfsmulti import machine
from nfsmulti.arguments import understand
from nfsmulti.errors import HarnessError
from nfsmulti.lab import Export, LabConfig, Limits
from nfsmulti.lab.network import Network
from nfsmulti.machine import fail
from nfsmulti.run import start

_LEAVE = "leave it out; --factors crosses the cells of any scenario"
_POOL = "--pool=nfs://127.0.0.1/a"
_NO_OPTION = "neither the engine nor fio has such an option"
_ONCE = "give each value once"

# HERE is a folder, which has the files that --config names.
_MISTYPED = [
    ("frobnicate", "there is no command 'frobnicate'"),
    ("lab strat", "lab has no command 'strat': did you mean start?"),
    ("lab exec", "lab exec: the command to run is missing: write it after --"),
    ("lab start --link=fast", "'fast' is not a rate: write it like 120mbit or 9.4gbit"),
    ("lab start --size=much", "--size: 'much' is not a size: write it like 256k, 4m or 2g"),
    ("faults --only STALE", "--only is gone since 0.7.0: use --filter"),
    ("compare --format junit", "--format junit is gone since 0.7.0: use --format json"),
    ("compare --format=junit", "--format junit is gone since 0.7.0: use --format json"),
    ("compare --judge p9", "--judge: 'p9' is none of throughput, p99, cpu: did you mean p99?"),
    ("demo now", "demo: 'now' is one word too many"),
    ("soak --paths 17", "soak: --paths: '17' is not a whole number from 2 to 16"),
    ("history connection", ", stall: did you mean connections?"),
    ("history *", "'*' is none of clients, connections, "),
    ("run", "run: the following arguments are required: SCENARIO"),
    ("run nosuch", "'nosuch' is none of clients, "),
    ("run dd --repet 4", "run: there is no option --repet: did you mean --repeat?"),
    ("run dd --repeat=no", "run: --repeat: 'no' is not a whole number from 1 on"),
    ("run dd --pool=", "run: --pool: there is nothing behind it"),
    ("run dd --depth 0", "'0': give numbers from 1 to 65536, each once, such as 1,4,8"),
    ("run dd --proto udp", "run: --proto: 'udp': give tcp or rdma, each once"),
    ("run latency --load 201", "'201'"),
    ("run latency --arrival-process even", "--arrival-process: 'even' is none of "),
    ("run security --sec krb5x", "'krb5x'"),
    ("run dd --mounts", f"connections, metadata, latency and security, not for dd: {_LEAVE}"),
    ("run connections --xprtsec tls", "--xprtsec: only for security, not for connections"),
    ("run latency --slo p99", "'p99' is not a limit of latency: write it like p99:1ms"),
    ("run latency --slo p100:1ms", "'p100:1ms' is not a limit"),
    ("run dd --config HERE/none", "No such file or directory: 'HERE/none'"),
    ("run dd --config HERE/broken", "HERE/broken: Invalid statement (at line 1, column 1)"),
    ("run dd --config HERE/yes", "yes answers for one server: give --yes on the command line"),
    ("run dd --config HERE/pipe", "a pipe can be read once alone: give a regular file"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), _MISTYPED)
def test_mistyped_words_are_told_in_the_last_line(tmp_path: Path, words: str, said: str) -> None:
    (tmp_path / "broken").write_text("= 1")
    (tmp_path / "yes").write_text("yes = true")
    os.mkfifo(tmp_path / "pipe")
    done = call_harness(*words.replace("HERE", str(tmp_path)).split())
    assert (done.status, done.stdout) == (2, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("nfsmulti: ")
    assert said.replace("HERE", str(tmp_path)) in last


def test_the_limits_of_a_number_are_taken() -> None:
    for words in ("soak --paths=2", "soak --paths=16", "lab kernel --cpus=64 -- true"):
        understand(words.split())


_REFUSED = [
    ("lab run --assured=1mbit -- true", "--assured is a share of --per-address"),
    ("lab run --local --link=1gbit -- true", "--local cannot limit rates"),
    ("lab run --per-address=1gbit --per-connection=1gbit -- true", "exclude each other"),
    ("lab run --id=../x -- true", "lab id '../x'"),
    ("clean --results none", "none: there is no such folder\n  name the folder that holds"),
    # where it runs
    (f"run connections {_POOL} --proto rdma", "--proto rdma: no RDMA device"),
    ("run connections --discard --mounts", "--discard with --mounts: the kernel can drop long"),
    (f"run connections --discard {_POOL}?sec=krb5i", "--discard with krb5i: "),
    (f"run connections {_POOL} --mounts", "--mounts: mounting needs root (not root)"),
    (f"run connections {_POOL} --mounts --hosts a", "leave out --hosts"),
    ("run connections --pool HERE", "connections needs URLs in the pool"),
    ("run security --mounts", "--mounts: the lab has no kernel client for security"),
    (f"run metadata {_POOL} --hosts a", "metadata runs on this machine only: leave out --hosts"),
    (f"run security {_POOL} --hosts a", "security runs on this machine only: leave out --hosts"),
    (f"run clients {_POOL} --hosts a", "clients runs on this machine only: leave out --hosts"),
    ("run sweep --pool HERE", "sweep needs URLs in the pool"),
    ("run dd --pool nfs:// --quick", "column"),
    ("run dd --pool HERE --lab", "exclude each other"),
    ("run dd --hosts a", "--hosts needs a --pool"),
    *(
        (f"run dd --pool HERE --hosts={host}", "--hosts: ")
        for host in ("a,", "a\\ b", "a:0", "a:65536", "a:b", "fd00::1", "[a]", "a,a", "root@a:8765")
    ),
    ("run neighbour --server-command env", "--server-command needs a --pool"),
    ("run neighbour --server-command \"'ssh\" --pool HERE", "No closing quotation"),
    # what it runs
    ("run connections --workload create", "--workload create: give 4k-randread or 64k-read or"),
    ("run connections --workload 4k-randread,64k-read", "4k-randread,64k-read: give 4k"),
    ("run metadata --workload 64k-read", "--workload 64k-read: give create or getattr or lookup"),
    ("run security --workload 8k-oltp", "8k-oltp: give 4k-randread or 64k-read or"),
    ("run latency --workload none.fio", "--workload none.fio: give 4k-randread, 64k-read, "),
    ("run connections --depth=1,2", "--factors iodepth=1,2 compares several"),
    (f"run clients {_POOL} --restart", "--restart needs a command"),
    ("run clients --absent=1%", "give --restart too"),
    ("run dd --pool HERE --label a/b", "--label 'a/b'"),
    # what it resumes
    ("run dd --resume HERE", "not the folder of a run"),
    ("run dd --resume", "holds no unfinished run"),
    ("run dd --resume HERE a", "name its scenario and its folder"),
    ("run connections --resume --nconnect 2 --mounts", "--nconnect, --mounts cannot change that"),
    ("run dd --resume --quick --seed=0", "--quick, --seed cannot change that"),
    ("run neighbour --resume --server-command env", "--server-command cannot change that"),
    ("run neighbour --resume --setting a=1", "--setting cannot change that"),
    # factors, which make no other workload
    ("run dd --factors nosuch=1,2", f"--factors nosuch: {_NO_OPTION}"),
    ("run dd --factors thread=0,1 nconect=1", f"--factors nconect: {_NO_OPTION}"),
    ("run dd --factors nconnect", "write a factor like nconnect=1,4"),
    ("run dd --factors nconnect=", f"{_ONCE}, and each name"),
    ("run dd --factors nconnect=1,1", f"{_ONCE}, and each name"),
    ("run dd --factors nconnect=1 nconnect=2", "and each name"),
    ("run dd --factors pool=a,b", "a scenario cannot change that"),
    ("run dd --factors gss_context=job", "each connection has a context of its own; leave it out"),
    ("run oltp --factors cgroup=a/b,a:b", "several cells would be named one-concurrency1-a-b"),
    ("run neighbour --pool HERE --factors version=3,4.1", "a directory keeps that of its mount"),
    *(
        (f"run {scenario} --factors {name}=1", f"--factors {name}: the scenario sets that itself")
        for scenario, name in (
            *(("dd", name) for name in ("rw", "bs", "size", "numjobs")),
            ("oltp", "rwmixwrite"), ("fsperf", "io_size"), ("fsperf", "version"),
            ("randread", "runtime"), ("randread", "proto"), ("sweep", "rsize"),
        )
    ),
    # settings
    ("run neighbour --set true", "--set and --get need a setting"),
    ("run neighbour --setting a=1", "--set does not say where the value goes"),
    ("run neighbour --setting a --set {a}", "--setting 'a': write a factor like"),
    ("run neighbour --setting a=1,1 --set {a}", _ONCE),
    ("run neighbour --setting a=1;id --set {a}", "quotes or shell characters"),
    ("run neighbour --setting 'a=b c,b/c' --set {a}", "--setting: several cells would be named"),
    ("run neighbour --setting workload=1 --set {workload}", "a factor has that name already"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), _REFUSED)
def test_what_cannot_be_is_refused_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    monkeypatch.setattr(start, "rdma_devices", lambda *, wanted: iter([fail("no RDMA device")]))
    monkeypatch.setattr(machine, "missing_privileges", lambda: "not root")
    monkeypatch.chdir(tmp_path)
    results = ["--results", "results"] * words.startswith("run ")
    assert said in refusal(*shlex.split(words.replace("HERE", str(tmp_path))), *results)
    assert not list(tmp_path.iterdir())


def test_a_lab_refuses_what_its_options_exclude() -> None:
    limits = Limits(link="1gbit", per_address="1gbit", assured="1gbit")
    with pytest.raises(HarnessError, match="assure at most 250mbit"):
        limits.commands("v0", "src", Network.addresses(4))
    for more in ({"size": "1g"}, {"exports": (Export("export"), Export("ro"))}):
        with pytest.raises(HarnessError, match="leave out --ro and --size"):
            LabConfig(1, memory=True, **more)
    with pytest.raises(HarnessError, match="leave out --instances=one"):
        LabConfig(2, local=True, one_server=True)
