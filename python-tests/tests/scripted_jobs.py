# SPDX-License-Identifier: GPL-2.0-only
"""fio with the engine against scripted servers: how runs are made, and what is expected of them.

A Case says all of a run. A test of one calls the fixture `job`; those of a table have `runs`, which
makes its runs eight at a time, a server for each: nearly all of a run's time is waiting. A server
is a thread of pytest and may answer late on a busy machine: jobs have a short timeo only where it
is silence that they meet.
"""

import itertools
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pytest
from conftest import FioRunner, show
from engine_helpers import done, refused, said

from jobs import Fio
from nfsmulti.fiorun import ConnectionStats, Engine, FioProcess, FioResult, Option
from nfsmulti.processes import run
from servers.scripted import Answer, Call, Export, Hook, Nfs, Procedure, ScriptedServer, Terms

KIB, MIB = 1 << 10, 1 << 20
SECONDS = 90.0  # for one fio: what takes longer hangs
_AT_ONCE = 8
BOTH = (Nfs.READ, Nfs.WRITE)
TWO_ADDRESSES = ("127.0.0.1", "127.0.0.2")
_HEADER = Path(__file__).with_name("preload.h")
NEVER = Answer(reply=False)

Options = Mapping[str, Option]

JOB: Options = {
    "rw": "write", "bs": "4k", "size": "64k", "iodepth": 8, "verify_state_save": 0,
    "clocksource": "clock_gettime",  # calibrating fio's CPU clock takes most of a short run
}  # fmt: skip
BLOCKS = 16  # of that job
READING: Options = {"rw": "read"}  # of a file of 64 KiB
# What begins a command without the right to reserved ports.
NO_RESERVED_PORTS = (
    "setpriv", "--bounding-set=-net_bind_service", "--inh-caps=-net_bind_service", "--",
)  # fmt: skip


# --- one run ---


@dataclass(frozen=True)
class Case:
    """A run: what the server does and has, the jobs, and what is expected of them.

    `during` is called while fio runs, for example to tell it to end; `before` are functions in C
    that stand before the C library's.
    """

    hooks: Sequence[Hook]
    options: Options
    arguments: Sequence[str] = ()
    files: Mapping[str, bytes] = field(default_factory=lambda: {"r": bytes(64 * KIB)})
    rtmax: int = MIB
    wtmax: int = MIB
    url: Mapping[str, object] = field(default_factory=dict)  # arguments of the pool
    pool: str = "{}"  # the server's as a part of it
    version: int = 3
    addresses: Sequence[str] = TWO_ADDRESSES[:1]
    terms: Callable[[], Terms] = Terms
    receive_buffer: int | None = None
    enter: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    before: str = ""
    during: Callable[[ScriptedServer, FioProcess], object] | None = None
    error: int | None = 0  # that all jobs end with; None: the test decides
    says: str | Sequence[str] = ()  # words of what is said of that
    refused: str | Sequence[str] = ()  # words of the line by which a job is refused
    quiet: bool = False  # the engine has nothing to say
    expected: Any = None  # what else the test looks for


_MEMBERS = {one.name for one in fields(Case)}


def case(*hooks: Hook, **words: Any) -> Case:
    """Make a Case: words are its members, or else options of the job."""
    members = {name: words.pop(name) for name in _MEMBERS & words.keys()}
    return Case(hooks, words, **members)


@dataclass(frozen=True)
class Outcome:
    """What a run has left."""

    server: ScriptedServer
    result: FioResult
    case: Case

    @property
    def stats(self) -> Sequence[ConnectionStats]:
        return self.result.stats

    def calls(self, *procedures: Procedure) -> list[Call]:
        return self.server.calls(*procedures)

    def said(self) -> list[str]:
        return said(self.result)

    def judge(self) -> None:
        if self.case.refused:
            refused(self.result, *_words(self.case.refused))
        elif self.case.error:
            failed(self.result, *_words(self.case.says), error=self.case.error)
        elif self.case.error == 0:
            done(self.result)
        if self.case.quiet:
            assert self.said() == []


def _words(words: str | Sequence[str]) -> Sequence[str]:
    return (words,) if isinstance(words, str) else words


def preloaded(engine: Engine, folder: Path, source: str) -> Engine:
    """Return the engine with functions in C that stand before the C library's; see preload.h."""
    folder.mkdir(exist_ok=True)
    (folder / "before.c").write_text(f'#include "{_HEADER}"\n{source}')
    words = ["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", "before.so", "before.c"]
    run(words, timeout=60, cwd=folder).check()
    loaded = f"{engine.env.get('LD_PRELOAD', '')} {folder / 'before.so'}"
    return Engine(engine.library, {**engine.env, "LD_PRELOAD": loaded})


def _run(engine: Engine, folder: Path, case: Case) -> Outcome:
    """Run a case, whole in one thread: its processes end with that."""
    scripted = ScriptedServer(
        *case.hooks,
        export=Export(rtmax=case.rtmax, wtmax=case.wtmax),
        addresses=case.addresses,
        terms=case.terms(),
        receive_buffer=case.receive_buffer,
    )
    if case.before:
        engine = preloaded(engine, folder, case.before)
    file: Options = {} if case.arguments else {"filename": "f"}
    with scripted as server:
        for name, content in case.files.items():
            server.create(name, content)
        with Fio(engine, case.enter, case.env).start(
            folder / "fio",
            pool=case.pool.format(server.pool(version=case.version, **case.url)),
            options={**JOB, **file, **case.options},
            arguments=case.arguments,
        ) as process:
            if case.during:
                case.during(server, process)
            result = process.result(SECONDS)
    return Outcome(server, result, case)


# --- tests of runs ---

Judged = Callable[[Outcome], None]
Run = Callable[..., Outcome]


@pytest.fixture
def job(engine: Engine, tmp_path: Path) -> Run:
    """Run a case, whose words case() takes, and judge it."""
    numbers = itertools.count()

    def run_job(*hooks: Hook, **words: Any) -> Outcome:
        outcome = _run(engine, tmp_path / f"job-{next(numbers)}", case(*hooks, **words))
        show(outcome.result)
        outcome.judge()
        return outcome

    return run_job


@pytest.fixture(scope="session")
def run_all(
    engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Mapping[str, Case]], Mapping[str, Outcome]]:
    """Run all cases of a table, _AT_ONCE at a time, and only once."""
    tables: dict[int, Mapping[str, Outcome]] = {}

    def run_table(cases: Mapping[str, Case]) -> Mapping[str, Outcome]:
        if id(cases) not in tables:
            folder = tmp_path_factory.mktemp("runs")
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                runs = {
                    name: pool.submit(_run, engine, folder / str(number), one)
                    for number, (name, one) in enumerate(cases.items())
                }
            tables[id(cases)] = {name: run.result() for name, run in runs.items()}
        return tables[id(cases)]

    return run_table


def runs(cases: Mapping[str, Case]) -> Callable[[Judged], Callable[..., None]]:
    """Make a test of each case: it is run and judged, and then looked at."""

    def decorate(look: Judged) -> Callable[..., None]:
        @pytest.mark.parametrize("name", cases)
        def test(run_all: Callable[[Mapping[str, Case]], Mapping[str, Outcome]], name: str) -> None:
            outcome = run_all(cases)[name]
            show(outcome.result)
            outcome.judge()
            look(outcome)

        test.__doc__, test.__module__ = look.__doc__, look.__module__
        return test

    return decorate


def runner(engine: Engine, folder: Path) -> FioRunner:
    """Make what runs JOB with other options, on the file "f" of any pool."""
    return FioRunner(Fio(engine), "", folder / "runs", {**JOB, "filename": "f"})


@pytest.fixture
def client(engine: Engine, tmp_path: Path) -> FioRunner:
    return runner(engine, tmp_path)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


# --- jobs ---


def numbered(size: int, block: int) -> bytes:
    """Return the content that fio's verify_pattern=%o stands for: each block holds its offset."""
    return b"".join(struct.pack("<Q", offset) * (block // 8) for offset in range(0, size, block))


def replay(folder: Path, *operations: str) -> dict[str, Option]:
    """Write a log of operations on "f", such as "read 0 4096", for fio to replay."""
    return replay_files(folder, ["f"], "f open", *(f"f {line}" for line in operations), "f close")


def replay_files(folder: Path, names: Sequence[str], *lines: str) -> dict[str, Option]:
    """Write one on several files, such as "f open"."""
    log = folder / "operations"
    head = ["fio version 2 iolog", *(f"{name} add" for name in names)]
    log.write_text("\n".join([*head, *lines, ""]))
    return {"read_iolog": str(log), "rw": "randrw"}


# --- servers ---


def go(server: ScriptedServer) -> None:
    """Let a server be gone."""
    server.refuse()
    server.reset_connections()


# --- what is expected ---


def failed(result: FioResult, *words: str, error: int) -> None:
    """Expect that all jobs ended by themselves with this errno, and that words tell why."""
    assert result.status is not None, f"fio hung: {result.messages}"
    assert result.status > 0, f"status {result.status}: {result.messages}"
    assert result.report is not None, result.output
    assert {job["error"] for job in result.report.jobs} == {error}, result.messages
    for word in words:
        assert word in result.messages


def undisturbed(result: FioResult) -> None:
    """Expect success over the first connection, without any call sent twice."""
    done(result)
    assert said(result) == []
    assert {line.retransmissions + line.reconnects + line.errors for line in result.stats} == {0}


def covers_once(calls: Iterable[Call], size: int) -> None:
    at = 0
    for call in sorted(calls, key=lambda call: call.offset):
        assert call.offset == at
        at += call.moved
    assert at == size
