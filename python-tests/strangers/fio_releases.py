# SPDX-License-Identifier: GPL-2.0-only
"""`python -m strangers.fio_releases [VERSION ...]`: compile the engine for releases of fio.

A warning is an error. The engine then runs in the newest of them: random reads in a closed loop and
by the arrival clock, and writes that fio verifies. Exit status 1 where any of this does not work.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from jobs import Fio
from nfsmulti.bench.sink import Sink
from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.fiorun import Direction, Engine, FioResult, Options
from nfsmulti.paths import BUILD, ROOT, build_dir, shown
from nfsmulti.processes import Completed, end_politely, run
from servers.scripted import ScriptedServer

_SOURCE = "https://github.com/axboe/fio"
_RELEASES = [f"3.{minor}" for minor in range(33, 43)]
_FOLDER = BUILD / "fio-releases"
_FETCH_SECONDS = 600.0
_COMPILE_SECONDS = 120.0
_BUILD_SECONDS = 1800.0
_PARALLEL = f"-j{os.cpu_count()}"

_JOB: Options = {"size": "4m", "iodepth": 8, "nconnect": 2, "filename": "f", "verify_state_save": 0}
_BLOCKS = 1024  # of 4 KiB
_CLOCK: Options = {"arrival_rate": 20000, "lat_percentiles": 1}


def main(words: Sequence[str], folder: Path = _FOLDER) -> int:
    """Try the releases that are named, or all, below `folder`; return the exit status."""
    parser = argparse.ArgumentParser(prog="fio_releases")
    parser.add_argument("versions", metavar="VERSION", nargs="*", default=_RELEASES)
    parser.add_argument("--source", default=_SOURCE, help="a git repository that has fio's tags")
    given = parser.parse_args(words)
    chosen = sorted(given.versions, key=_order)
    failed = False
    for version in chosen:
        tree = fetch(version, given.source, folder)
        said = _compile_against(tree)
        print(f"fio {version}: {said or 'compiles without warnings'}", flush=True)
        failed |= said is not None
    if not failed:
        print(f"fio {chosen[-1]}: {_run_in(tree)}")
    return int(failed)


def _order(version: str) -> tuple[int, ...]:
    """Sort 3.9 before 3.10."""
    if not all(part.isdecimal() for part in version.split(".")):
        raise HarnessError(f"'{version}' is not a fio release", "write it as 3.42")
    return tuple(map(int, version.split(".")))


def fetch(version: str, source: str, folder: Path) -> Path:
    """Return the source of a release, cloned once below `folder`. Raises HarnessError."""
    tag = f"fio-{version}"
    tree = folder / tag
    if tree.exists():
        return tree
    folder.mkdir(parents=True, exist_ok=True)
    new = tree.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    # A folder as a URL, because git copies it in full otherwise.
    url = Path(source).absolute().as_uri() if Path(source).exists() else source
    clone = ["git", "clone", "--quiet", "--depth=1", f"--branch={tag}", url, str(new)]
    done = run(clone, timeout=_FETCH_SECONDS, env={"GIT_TERMINAL_PROMPT": "0"})
    if done.status != 0:
        said = (done.stderr.strip() or "no answer").splitlines()[-1]
        raise HarnessError(
            f"cannot clone {tag} from {source}: {said}",
            "--source takes another repository that has the release's tag",
        )
    new.rename(tree)  # last: a folder of that name is complete
    return tree


def _compile_against(headers: Path) -> str | None:
    """Compile the engine's files against the headers of a fio; give the first complaint."""
    for argv in compilations():
        argv[argv.index(_BEFORE_HEADERS) + 1] = str(headers)
        argv[argv.index("-o") + 1] = os.devnull
        done = run([*argv, "-Werror"], timeout=_COMPILE_SECONDS)
        if done.status != 0:
            return _complaint(done)
    return None


# --- how the build compiles the files that see fio's headers ---

_CONFIG = ROOT / "engine" / "fio"  # holds the config-host.h that stands for fio's own
_BEFORE_HEADERS = "-isystem"


def compilations() -> list[list[str]]:
    """Return the commands of the build folder, one for each file. Raises MissingError."""
    file = build_dir() / "compile_commands.json"
    if not file.exists():
        raise MissingError(f"{file} is not there", "./nfsmulti build")
    return [
        shlex.split(entry["command"])
        for entry in json.loads(file.read_text())
        if Path(entry["file"]).parent == _CONFIG
    ]


def headers_of(command: Sequence[str]) -> str:
    """Return the folder of fio's headers that a command compiles with."""
    return command[command.index(_BEFORE_HEADERS) + 1]


def _complaint(done: Completed) -> str:
    """Return the first error of a compiler that failed, or else its last word."""
    lines = done.stderr.strip().splitlines() or ["the compiler said nothing"]
    first = next((line for line in lines if "error:" in line), lines[-1])
    return first.replace(f"{ROOT}/", "")


# --- it runs ---


def _run_in(tree: Path) -> str:
    """Build a fio and an engine for it, and run both; say what was run."""
    build = tree.with_name(f"engine-{tree.name}")
    _build(tree, build)
    # `fio` is found by PATH.
    fio = Fio(Engine.built(build, {"PATH": f"{tree}:{os.environ['PATH']}"}))
    with Sink() as sink:
        _check(fio, build / "read", sink.url, {"rw": "randread", "bs": "4k"})
        late = _check(fio, build / "clock", sink.url, {"rw": "randread", "bs": "4k", **_CLOCK})
        reads = sink.stop().nfs["READ"]
    check_clock(late)
    with ScriptedServer() as server:
        _check(fio, build / "write", server.pool(), {"rw": "write", "bs": "4k", "verify": "crc32c"})
    return f"runs: {reads} random reads, half of them by the clock; {_BLOCKS} writes, verified"


def _build(tree: Path, build: Path) -> None:
    """Build fio in its tree, and the engine for it in a folder."""
    if not (tree / "fio").exists():
        print(f"building {tree.name}, once", flush=True)
        run([str(tree / "configure")], timeout=_BUILD_SECONDS, cwd=tree).check()
        run(["make", _PARALLEL, "fio"], timeout=_BUILD_SECONDS, cwd=tree).check()
    told = [f"-DFIO_EXECUTABLE={tree / 'fio'}", f"-DFIO_SOURCE_DIR={tree}", "-DNFSMULTI_WERROR=ON"]
    run(["cmake", "-S", str(ROOT), "-B", str(build), *told], timeout=_BUILD_SECONDS).check()
    make = ["cmake", "--build", str(build), _PARALLEL, "--target", "nfsmulti"]
    run(make, timeout=_BUILD_SECONDS).check()


def _check(fio: Fio, folder: Path, pool: str, options: Options) -> FioResult:
    """Run a job that must do all of its I/O."""
    result = fio.run(folder, pool=pool, options={**_JOB, **options})
    direction: Direction = "write" if options["rw"] == "write" else "read"
    done = result.report.operations(direction) if result.report else 0
    if result.status != 0 or done != _BLOCKS:
        raise HarnessError(f"{result.command}: {result.messages}", f"see {shown(folder)}")
    return result


def check_clock(result: FioResult) -> None:
    """See that fio took an I/O's instant for its start, and its sending for its issue.

    Raises HarnessError where its latencies are none of the arrival clock's.
    """
    assert result.report is not None
    read = result.report.jobs[0]["read"]
    lag, service, response = (read[f"{kind}_ns"] for kind in ("slat", "clat", "lat"))
    sums = math.isclose(lag["mean"] + service["mean"], response["mean"], rel_tol=1e-6)
    if not sums or [round(lag["max"] / 1000, 3)] != [one.lag_max_us for one in result.arrivals]:
        raise HarnessError(
            f"{result.command}: slat is not the lag, or lat not slat and clat",
            f"see {shown(result.folder)}",
        )


if __name__ == "__main__":
    end_politely()
    try:
        sys.exit(main(sys.argv[1:]))
    except HarnessError as error:
        sys.exit(f"fio_releases: {error}")
