# SPDX-License-Identifier: GPL-2.0-only
"""`python -m strangers.fio_releases [VERSION ...]`: compile the engine for releases of fio.

A warning is an error. Exit status 1 where one does not compile.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.paths import BUILD, ROOT, build_dir
from nfsmulti.processes import Completed, end_politely, run

_SOURCE = "https://github.com/axboe/fio"
_RELEASES = [f"3.{minor}" for minor in range(33, 43)]
_FOLDER = BUILD / "fio-releases"
_FETCH_SECONDS = 600.0
_COMPILE_SECONDS = 120.0


def main(words: Sequence[str], folder: Path = _FOLDER) -> int:
    """Try the releases that are named, or all, below `folder`; return the exit status."""
    parser = argparse.ArgumentParser(prog="fio_releases")
    parser.add_argument("versions", metavar="VERSION", nargs="*", default=_RELEASES)
    parser.add_argument("--source", default=_SOURCE, help="a git repository that has fio's tags")
    given = parser.parse_args(words)
    failed = False
    for version in sorted(given.versions, key=_order):
        tree = fetch(version, given.source, folder)
        said = _compile_against(tree)
        print(f"fio {version}: {said or 'compiles without warnings'}", flush=True)
        failed |= said is not None
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


if __name__ == "__main__":
    end_politely()
    try:
        sys.exit(main(sys.argv[1:]))
    except HarnessError as error:
        sys.exit(f"fio_releases: {error}")
