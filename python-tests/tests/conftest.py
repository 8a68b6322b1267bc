# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures: the builds of the engine, a lab of real NFS servers, and fio in its client namespace.

They run on the engine as it is built for users, and with --build=asan on one with AddressSanitizer
and UndefinedBehaviorSanitizer, whose runtime ./nfsmulti test --full has loaded.
"""

import contextlib
import io
import itertools
import os
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import EllipsisType
from typing import Any, NoReturn

import kernel_nfsd
import pytest
from engine_c import CData, ffi
from hypothesis import HealthCheck, settings
from lab_faults import Faults
from simulated import Scenarios

from jobs import Fio
from nfsmulti import machine, paths
from nfsmulti.__main__ import carry_out
from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.fiorun import Engine, FioProcess, FioReport, FioResult, Option
from nfsmulti.lab import EXPORT, READ_ONLY, SECRET, Export, Kerberos, Lab, LabConfig
from nfsmulti.machine import versions
from nfsmulti.processes import Completed, find, run
from testrun import variant

pytest_plugins = ("engine_helpers", "in_guest", "scripted_jobs", "slow_machine")

_HARNESS_SECONDS = 240.0
_LABS = pytest.StashKey[list[Lab]]()
_LOG_SIZES = pytest.StashKey[dict[Path, int]]()
_LOGGED = 20  # lines of a server's log, at most

# ./nfsmulti test loads the sanitizers' runtime into this process, for `testlib`. The programs that
# tests start shall not inherit it: `engine` hands it to fio.
_RUNTIME = os.environ.get("LD_PRELOAD", "")
_SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
}

# A slow machine is no finding.
settings.register_profile("nfsmulti", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("nfsmulti")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--build", choices=["gcc", "asan"], default="gcc", help="the engine to test")


def pytest_configure(config: pytest.Config) -> None:
    # Workers of pytest-xdist need the runtime that came with this process's environment.
    if not config.getoption("numprocesses", None):
        os.environ.pop("LD_PRELOAD", None)
        os.environ.update(_SANITIZER_OPTIONS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The longest (fuzzing, clang-tidy, boots) first, or one worker ends long after the others.
    items.sort(key=lambda item: item.get_closest_marker("full") is None)


def pytest_report_header() -> list[str]:
    return [f"{name}: {version}" for name, version in versions().items()]


def missing(error: MissingError) -> NoReturn:
    """Skip for a component that this machine lacks, by its name; where CI is set, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(str(error))
    pytest.skip(str(error))


def in_full(*values: object) -> Any:
    """Return values of a parametrized test that only --full tries: others stand for them."""
    return pytest.param(*values, marks=pytest.mark.full)


@contextlib.contextmanager
def or_skip() -> Iterator[None]:
    """Skip for what turns out to be missing, or not permitted here."""
    try:
        yield
    except MissingError as error:
        missing(error)


def needs_privileges() -> None:
    if lacking := machine.missing_privileges():
        missing(MissingError(lacking))


@contextlib.contextmanager
def started_lab(config: LabConfig) -> Iterator[Lab]:
    """Yield a lab that is taken down at the end; skip for what it lacks."""
    lab = Lab(config)
    with or_skip():
        lab.start()
    try:
        yield lab
    finally:
        lab.stop()


def namespaces() -> set[str]:
    folder = Path("/run/netns")
    return {entry.name for entry in folder.iterdir()} if folder.exists() else set()


def run_harness(
    *arguments: str,
    enter: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = _HARNESS_SECONDS,
) -> Completed:
    """Run a command of the harness, behind the words `enter`: a lab's, to be its client."""
    variables = {"PYTHONPATH": str(paths.PYTHON_TESTS), **(env or {})}
    argv = [*enter, sys.executable, "-m", "nfsmulti", *arguments]
    return run(argv, timeout=timeout, env=variables, cwd=cwd)


def call_harness(*arguments: str) -> Completed:
    """Run a command of the harness in this process, which spares an interpreter's start."""
    status: Any = 0
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            carry_out(arguments)
        except SystemExit as end:
            status = end.code
    return Completed(["./nfsmulti", *arguments], int(status or 0), out.getvalue(), err.getvalue())


def refusal(*arguments: str) -> str:
    """Run a command of the harness that is refused; gives why."""
    with pytest.raises(HarnessError) as refused:
        call_harness(*arguments)
    return str(refused.value)


@pytest.fixture(scope="session")
def sanitized(pytestconfig: pytest.Config) -> bool:
    """Tell whether the build that is tested has AddressSanitizer."""
    return bool(pytestconfig.getoption("--build") == "asan")


@pytest.fixture(scope="session")
def build_dir(sanitized: bool) -> Path:
    return variant("asan") if sanitized else paths.build_dir()


@pytest.fixture(scope="session")
def clang_build() -> Path:
    with or_skip():
        find("clang")
    return variant("clang")


@pytest.fixture(scope="session")
def testlib(build_dir: Path) -> CData:
    """Return the engine's pure parts as a library."""
    return ffi.dlopen(str(build_dir / "libnfsmulti-test.so"))


@pytest.fixture(scope="session")
def scenario(build_dir: Path) -> Scenarios:
    return Scenarios(build_dir / "libnfsmulti-scenarios.so")


@pytest.fixture(scope="session")
def pool_tool(build_dir: Path) -> Path:
    return build_dir / "nfsmulti-pool"


@pytest.fixture(scope="session")
def engine(build_dir: Path, sanitized: bool) -> Engine:
    """Return the engine, with what fio needs in its environment to load it, and to start soon."""
    libraries = [_RUNTIME] if sanitized else []
    libraries.append(str(build_dir / "libquick-start.so"))
    return Engine.built(build_dir, {"LD_PRELOAD": " ".join(libraries)})


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Yield a lab for the whole session: 4 addresses, a server each, no limits, all exports."""
    own = Export("squashed", squash="root_squash"), Export("privileged", privileged=True)
    exports = (EXPORT, READ_ONLY, *own, Export("small", size="4m"))
    with _kept_up(LabConfig(addresses=4, ipv6=True, exports=exports), request.session) as running:
        yield running


@pytest.fixture(scope="session")
def kerberos(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Yield a lab with a realm of its own, for the whole session: one server, on the loopback.

    It takes all flavors; its export `secret` takes no AUTH_SYS. A client needs `environment` and,
    for fio, `options`.
    """
    config = LabConfig(addresses=1, local=True, exports=(EXPORT, SECRET), kerberos=Kerberos())
    with _kept_up(config, request.session) as running:
        yield running


@contextlib.contextmanager
def _kept_up(config: LabConfig, session: pytest.Session) -> Iterator[Lab]:
    """Yield a lab whose servers run at the beginning of each test."""
    labs = session.stash.setdefault(_LABS, [])
    with started_lab(config) as running:
        labs.append(running)
        yield running
        labs.remove(running)


def show(result: FioResult) -> None:
    """Print what fio said: pytest shows it where a test fails."""
    print(f"{result.command}\nstatus {result.status}\n{result.messages}")


def done(result: FioResult) -> FioReport:
    """Expect that all of a fio's jobs did well."""
    assert result.status == 0, f"status {result.status}: {result.messages}"
    assert result.report is not None, result.output
    assert result.report.error == 0, result.messages
    return result.report


class FioRunner:
    """Runs fio with the engine as a client of the lab, one folder to a run below the test's own."""

    def __init__(self, fio: Fio, pool: str, folder: Path, common: Mapping[str, Option] = {}):
        self._fio, self._pool, self._folder, self._common = fio, pool, folder, common
        self._numbers = itertools.count()

    def __call__(self, *, timeout: float = 120, **words: Any) -> FioResult:
        """Run fio to its end, by the words of start().

        After `timeout` seconds it is ended, and the result's status is None.
        """
        with self.start(**words) as process:
            return self.finish(process, timeout)

    def well(self, **words: Any) -> FioResult:
        """Run it so, and expect that it does well."""
        result = self(**words)
        done(result)
        return result

    def start(
        self,
        *,
        pool: str | EllipsisType | None = ...,
        jobfile: Path | None = None,
        arguments: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        enter: Sequence[str] = (),
        **options: Option,
    ) -> FioProcess:
        """Start fio and go on; use it in a `with`, so that it ends with the test.

        On the whole lab unless `pool` says otherwise (None: no --pool). Options are fio's own; see
        Fio.start for `jobfile` and `arguments`, `enter` are further words before it. It reads the
        time from the kernel: to calibrate its CPU clock takes most of a short run.
        """
        return replace(self._fio, enter=[*self._fio.enter, *enter]).start(
            self._folder / f"fio-{next(self._numbers)}",
            pool=self._pool if isinstance(pool, EllipsisType) else pool,
            options={"clocksource": "clock_gettime", **self._common, **options},
            jobfile=jobfile,
            arguments=arguments,
            env=env,
        )

    def finish(self, process: FioProcess, timeout: float = 120) -> FioResult:
        """Wait for a fio that start() gave."""
        result = process.result(timeout)
        show(result)
        return result


@pytest.fixture
def local_fio(engine: Engine, tmp_path: Path) -> FioRunner:
    """Run fio in no lab's namespaces; the pool is the test's to name."""
    return FioRunner(Fio(engine), "", tmp_path)


@pytest.fixture
def server_mended() -> Iterator[None]:
    """See to it that the guest's server runs, and that its grace period is over."""
    yield
    kernel_nfsd.start()
    kernel_nfsd.end_grace()


@pytest.fixture
def fio(engine: Engine, lab: Lab, tmp_path: Path) -> FioRunner:
    """Return fio with the engine, in the lab's client namespace."""
    runner = Fio(engine, enter=lab.command([]), env=lab.environment)
    return FioRunner(runner, lab.pool, tmp_path)


@pytest.fixture
def faults(lab: Lab) -> Iterator[Faults]:
    """Yield what breaks paths of the lab; all are mended at the end."""
    with or_skip():
        running = Faults(lab)
    yield running
    running.end_all()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Bring back the servers that an earlier test has stopped, and note where their logs end."""
    labs = item.session.stash.get(_LABS, [])
    for lab in labs:
        for one in (*([lab.kdc] if lab.config.kerberos else []), *lab.servers):
            one.start()
    servers = [server for lab in labs for server in lab.servers]
    item.stash[_LOG_SIZES] = {server.log: server.log.stat().st_size for server in servers}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the servers have logged during a test that failed."""
    report = yield
    labs = item.session.stash.get(_LABS, []) if report.failed else []
    for server in (server for lab in labs for server in lab.servers):
        begin = item.stash.get(_LOG_SIZES, {}).get(server.log, 0)
        lines = server.log.read_bytes()[begin:].decode(errors="replace").splitlines()
        if lines:
            said = "\n".join(lines[-_LOGGED:])
            report.sections.append((f"nfs-ganesha {server.endpoint.address}", said))
    return report
