# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti test: pytest in parts, each with its time; all run, whatever fails."""

import contextlib
import functools
import os
import re
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.paths import BUILD, LABS, ROOT, build_dir
from nfsmulti.processes import Process, locked, run
from nfsmulti.texts import duration_text

_TESTS = ROOT / "python-tests/tests"
_FOLDER = BUILD / "test"  # logs and JUnit files of the last run, by part
NONE_CHOSEN = 5  # pytest's exit status where the options choose no test
_ASKED_SECONDS = 20.0
_BUILD_SECONDS = 1800.0
_LEAVING_SECONDS = 60.0
# Two thirds of their time tests wait for a server's silence or for fio, so there are more workers
# than processors. Each has a lab of five servers, so there are not many.
_WORKERS = min(len(os.sched_getaffinity(0)), 4) + 3
_PARALLEL = ("-n", str(_WORKERS), "--dist", "loadscope", "--no-loadscope-reorder")

# A pytest as root runs in process and mount namespaces of its own: when it or we end, whatever the
# way, the kernel ends every process there, and with them the mounts and the labs' networks, whose
# names and folders nobody else sees. The shell is process 1, which collects orphans that have
# ended; it would not if it became pytest.
_ENTER = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
_INSIDE = """\
mkdir -p /run/netns
mount -t tmpfs -o mode=755 tmpfs /run/netns
mount -t tmpfs -o mode=755 tmpfs "$0"
"$@"
exit $?"""

# What --full tests besides the engine as users have it. Compilers take a third of the time for it,
# and sanitizers see what more would have optimised away.
_LIGHT = "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -g1 -DNDEBUG"
_VARIANTS: Mapping[str, Sequence[str]] = {
    "asan": ["-DNFSMULTI_SANITIZE=address;undefined"],
    "tsan": ["-DNFSMULTI_SANITIZE=thread"],
    "clang": ["-DCMAKE_C_COMPILER=clang"],
}
# The ThreadSanitizer variant builds only what fio loads.
_TARGETS: Mapping[str, Sequence[str]] = {"tsan": ["--target", "nfsmulti"]}


def run_tests(arguments: Sequence[str], *, full: bool) -> None:
    """Run the parts that there are, and print what came of each."""
    os.chdir(ROOT)
    session = _Session(arguments)
    if full:
        session.everything()
    else:
        session.quick()
    sys.exit(session.summary())


@dataclass
class Part:
    """A pytest of its own: the tests that `marks` choose, with further `words` and variables."""

    name: str
    marks: str
    words: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def junit(self) -> Path:
        """Where pytest writes what came of each test."""
        return _FOLDER / f"{self.name}.xml"

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return the command, with the user's own arguments."""
        argv = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml")]
        return [*argv, "-m", self.marks, f"--junitxml={self.junit}", *self.words, *arguments]


@dataclass(frozen=True)
class _Outcome:
    """What came of a part: how long it took, in seconds, and its counts of tests."""

    name: str
    seconds: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    trouble: str = ""

    def __str__(self) -> str:
        counts = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"
        what = self.trouble or (counts if self.passed + self.failed + self.skipped else "")
        return f"  {self.name:20} {duration_text(self.seconds):>8}  {what}".rstrip()


class _Session:
    """All parts of one ./nfsmulti test, and their outcomes."""

    def __init__(self, arguments: Sequence[str]):
        self._arguments = arguments
        self._outcomes: list[_Outcome] = []
        self._begin = time.monotonic()

    def quick(self) -> None:
        """Run what needs no more than the engine, its servers and the linters."""
        rest = "not full and not kernel_lab"
        self._run(Part("tests", f"{rest} and not timing", _PARALLEL))
        self._run(Part("timing", f"{rest} and timing", self._files("timing")))

    def everything(self) -> None:
        """Run all there is. The guest, which has one processor, starts first and runs beside.

        Where the user has given options, few tests may be chosen: no variant is built before them,
        and fixtures build those that are needed.
        """
        with self._beside(Part("guest", "kernel_lab", self._files("kernel_lab"))):
            for name in () if self._arguments else _VARIANTS:
                self._build(name)
            self._run(Part("tests", "not kernel_lab and not timing", _PARALLEL))
            words = (*_PARALLEL, "--build=asan", *self._files("sanitized"))
            # A library with AddressSanitizer can be loaded only where its runtime came first.
            env = {"LD_PRELOAD": _sanitizer_runtime(), "ASAN_OPTIONS": "detect_leaks=0"}
            marks = "sanitized and not kernel_lab and not timing"
            self._run(Part("sanitizers", marks, words, env))
        self._run(Part("timing", "timing and not kernel_lab", self._files("timing")))

    def summary(self) -> int:
        """Print a line for each part and the sum, with the whole time; give the exit status."""
        took = duration_text(time.monotonic() - self._begin)
        print("\nparts, with their times:")
        for outcome in self._outcomes:
            print(outcome)
        passed, failed, skipped = (
            sum(getattr(outcome, name) for outcome in self._outcomes)
            for name in ("passed", "failed", "skipped")
        )
        troubled = [outcome.name for outcome in self._outcomes if outcome.trouble]
        if not passed + failed + skipped and not troubled:
            print("nfsmulti: no test was chosen", file=sys.stderr)
            return NONE_CHOSEN
        failed += len(troubled)
        print(f"tests: {passed} passed, {failed} failed, {skipped} skipped, in {took}")
        return 1 if failed else 0

    def _files(self, mark: str) -> list[str]:
        """Name the files that have tests with a mark: to load all of them takes some seconds.

        The user's options may name files themselves.
        """
        found = [] if self._arguments else files("test_*.py")
        return [file for file in found if f"mark.{mark}" in Path(file).read_text()]

    def _run(self, part: Part) -> None:
        """Run a part to its end; what it prints is shown as it comes."""
        with self._running(part):
            pass

    @contextlib.contextmanager
    def _beside(self, part: Part) -> Iterator[None]:
        """Run a part beside what is done meanwhile; what it has printed is shown after that."""
        log = _FOLDER / f"{part.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output, self._running(part, output.fileno()):
            yield
        print(log.read_text(errors="replace"), flush=True)

    @contextlib.contextmanager
    def _running(self, part: Part, output: int | None = None) -> Iterator[None]:
        """Run a part beside what is done meanwhile, and wait for its end."""
        begin = time.monotonic()
        with under_way(part, self._arguments, output) as process:
            yield
            status = process.wait() or 0
        self._outcomes.append(_outcome(part, status, time.monotonic() - begin))

    def _build(self, name: str) -> None:
        """Build a variant; a failure counts as a test's and is told."""
        what, trouble, begin = f"build of {name}", "", time.monotonic()
        try:
            variant(name)
        except HarnessError as error:
            print(f"nfsmulti: {what}: {error}", file=sys.stderr)
            trouble = "failed"
        self._outcomes.append(_Outcome(what, time.monotonic() - begin, trouble=trouble))


def run_parts(parts: Sequence[Part], arguments: Sequence[str]) -> set[int | None]:
    """Run parts one after the other; return the exit statuses of pytest."""
    statuses = set()
    for part in parts:
        with under_way(part, arguments) as process:
            statuses.add(process.wait())
    return statuses


def files(*patterns: str) -> list[str]:
    """Return the tests' files that have such a name."""
    return [str(file) for pattern in patterns for file in sorted(_TESTS.glob(pattern))]


@contextlib.contextmanager
def under_way(part: Part, arguments: Sequence[str], output: int | None = None) -> Iterator[Process]:
    """Yield a part's pytest. Where that is left early, it ends what it has started, and itself."""
    with _pytest(part, arguments, output) as process:
        try:
            yield process
        finally:
            if process.running:
                process.interrupt()  # as Ctrl-C does: fixtures take their labs down
                process.wait(_LEAVING_SECONDS)


def variant(name: str) -> Path:
    """Build a variant in build/`name`, warnings being errors; gives that folder.

    Raises CommandError with the compiler's words. Several processes may ask at once.
    """
    folder = BUILD / name
    make = ["cmake", "--build", str(folder), "--parallel", str(os.cpu_count())]
    make += _TARGETS.get(name, ())
    with locked(folder / ".lock"):
        for argv in ([*configuring(folder), _LIGHT, *_VARIANTS[name]], make):
            run(argv, timeout=_BUILD_SECONDS).check()
    return folder


def configuring(folder: Path) -> list[str]:
    """Return cmake's command for one more build, with the fio and the headers of the engine's."""
    cache = (build_dir() / "CMakeCache.txt").read_text()
    given = re.findall(r"^(FIO_SOURCE_DIR|FIO_EXECUTABLE):\w+=(.+)$", cache, re.MULTILINE)
    options = [f"-D{name}={value}" for name, value in given]
    options += ["-DNFSMULTI_WERROR=ON", f"-DFIO_HEADERS_DIR={build_dir() / 'fio-headers'}"]
    return ["cmake", "-S", str(ROOT), "-B", str(folder), *options]


@functools.cache
def _enclosed() -> list[str]:
    """Return the words that lead into namespaces for pytest; say where these are not permitted."""
    LABS.mkdir(parents=True, exist_ok=True)
    words = [*_ENTER, "--", "sh", "-ec", _INSIDE, str(LABS)]
    if run([*words, "true"], timeout=_ASKED_SECONDS).status == 0:
        return words
    print(
        "nfsmulti: the tests may not make namespaces here: if they are killed, servers that they "
        "started go on running",
        file=sys.stderr,
    )
    return []


def _pytest(part: Part, arguments: Sequence[str], output: int | None) -> Process:
    part.junit.unlink(missing_ok=True)
    env = {"PYTEST_DEBUG_TEMPROOT": str(BUILD), "NFSMULTI_BUILD_DIR": str(build_dir()), **part.env}
    # Where Python keeps no bytecode, as in many containers, each worker and each start of the
    # harness would compile all modules anew.
    env |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(BUILD / "pycache")}
    # Background jobs of a shell ignore SIGINT, by which under_way() ends a part.
    argv = ["env", "--default-signal=INT", *_enclosed(), *part.command(arguments)]
    return Process(argv, env=env, stdin=None, stdout=output, stderr=output)


def _outcome(part: Part, status: int, seconds: float) -> _Outcome:
    """Read what came of a part's tests, or that it did not come to its end."""
    if status not in (0, 1, NONE_CHOSEN) or not part.junit.exists():
        return _Outcome(part.name, seconds, trouble=f"pytest ended with status {status}")
    suite = ET.parse(part.junit).getroot().find("testsuite")
    assert suite is not None
    count = {key: int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")}
    failed = count["failures"] + count["errors"]
    passed = count["tests"] - failed - count["skipped"]
    seconds = float(suite.get("time", seconds))  # beside others it may have ended long before
    return _Outcome(part.name, seconds, passed, failed, count["skipped"])


def _sanitizer_runtime() -> str:
    """Return the files of gcc's AddressSanitizer, and of the C++ library, whose throw it wraps."""
    names = ("libasan.so", "libstdc++.so.6")
    found = [
        run(["gcc", f"-print-file-name={name}"], timeout=_ASKED_SECONDS).check() for name in names
    ]
    return ":".join(done.stdout.strip() for done in found)
