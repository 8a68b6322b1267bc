# SPDX-License-Identifier: GPL-2.0-only
"""Format, lint, types and the second compiler, as tests, so that one command runs everything."""

import json
import os
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from conftest import or_skip

from nfsmulti.paths import BUILD, PYTHON_TESTS, ROOT
from nfsmulti.processes import find, run

_SECONDS = 3600.0  # clang-tidy takes minutes of two idle processors
# Those that are scripts are run by our Python: a copied environment's name that of its first place.
_TOOLS = Path(sys.executable).parent
_SCRIPTS = [
    "nfsmulti",
    ".ci/run",
    *(
        str(path)
        for folder in ("cmake", "packaging", "python-tests")
        for path in (ROOT / folder).rglob("*.sh")
    ),
]

_STATES = ["-Xclang", "-analyzer-config", "-Xclang", "max-nodes=15000"]

pytestmark = pytest.mark.timeout(_SECONDS)


def _sources(*endings: str) -> list[str]:
    return sorted(
        str(file.relative_to(ROOT))
        for folder in ("engine", "cmake", "python-tests")
        for file in (ROOT / folder).rglob("*")
        if file.suffix in endings
    )


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (sys.executable, (f"{_TOOLS}/clang-format", "--dry-run", "-Werror", *_sources(".c", ".h"))),
        (f"{_TOOLS}/ruff", ("check", "python-tests")),
        (f"{_TOOLS}/ruff", ("format", "--check", "python-tests")),
        (sys.executable, (f"{_TOOLS}/mypy",)),
        ("shellcheck", _SCRIPTS),
    ],
    ids=["clang-format", "ruff check", "ruff format", "mypy", "shellcheck"],
)
def test_nothing_is_found_by(program: str, words: Sequence[str]) -> None:
    with or_skip():
        program = find(program)
    done = run([program, *words], timeout=_SECONDS, cwd=ROOT)
    if done.status != 0:
        pytest.fail(f"{done.command}\n{done.stdout}{done.stderr}", pytrace=False)


@pytest.mark.full
def test_clang_tidy(clang_build: Path) -> None:
    # PyPI's clang-tidy comes without the compiler's own headers.
    resources = run([find("clang"), "-print-resource-dir"], timeout=_SECONDS).check().stdout.strip()
    tidy = [sys.executable, f"{_TOOLS}/clang-tidy", "--quiet", "-p", str(clang_build)]
    # The analyzer leaves a function after so many states. With 50,000 it sees the end of no more of
    # this engine's functions, and takes twice as long; 225,000 are its default.
    tidy.extend(f"--extra-arg={word}" for word in (f"-resource-dir={resources}", *_STATES))
    sources = [source for source in _sources(".c") if source.startswith("engine/")]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        done = threads.map(lambda source: run([*tidy, source], timeout=_SECONDS, cwd=ROOT), sources)
        findings = [one.stdout or one.stderr for one in done if one.status != 0]
    if findings:
        pytest.fail("\n".join(findings), pytrace=False)


def test_servers_take_nothing_of_the_harness() -> None:
    """The harness and the tests stand above the servers."""
    for file in (ROOT / "python-tests/servers").rglob("*.py"):
        assert not re.search(r"^(from|import) nfsmulti", file.read_text(), re.MULTILINE), file


# The engine's folders: each includes files of those behind it, and everybody those beside them.
_LAYERS = ["tools", "fio", "group", "nfs", "client", "transport", "wire"]
_BESIDE = {"pool", "stats", "terms"}


def test_includes_go_down_the_layers() -> None:
    upwards = {}
    for file in (ROOT / "engine").glob("*/*.[ch]"):
        layer = file.parent.name
        below = _LAYERS[_LAYERS.index(layer) :] if layer in _LAYERS else [layer]
        included = re.findall(r'^#include "((\w+)/[^"]+)"', file.read_text(), re.MULTILINE)
        if up := {name for name, folder in included if folder not in {*below, *_BESIDE}}:
            upwards[f"{layer}/{file.name}"] = up
    assert not upwards


def test_no_two_object_files_call_each_other() -> None:
    """Neither two nor a circle of more: each file can be read, and tested, below its callers."""
    defines: dict[str, str] = {}
    uses: dict[str, set[str]] = {}
    for command in json.loads((BUILD / "compile_commands.json").read_text()):
        if not Path(command["file"]).is_relative_to(ROOT / "engine"):
            continue
        source = str(Path(command["file"]).relative_to(ROOT))
        built = Path(command["directory"], *re.findall(r" -o (\S+)", command["command"]))
        listed = run([find("nm"), "-P", str(built)], timeout=_SECONDS).check().stdout
        symbols = [line.split()[:2] for line in listed.splitlines()]
        defines |= {name: source for name, kind in symbols if kind in set("TDBRVW")}
        uses[source] = {name for name, kind in symbols if kind == "U"}
    calls = {
        source: {defines[name] for name in names & defines.keys()} - {source}
        for source, names in uses.items()
    }
    assert calls["engine/client/client.c"]
    TopologicalSorter(calls).prepare()  # CycleError names the files


def test_every_file_names_its_licence() -> None:
    folders = (".ci", "cmake", "engine", "jobfiles", "python-tests")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*") if file.is_file()]
    nameless = [
        str(file.relative_to(ROOT))
        for file in [*files, ROOT / "nfsmulti"]
        if "__pycache__" not in file.parts
        and "SPDX-License-Identifier: GPL-2.0-only" not in file.read_text()[:200]
    ]
    assert not nameless


def test_faults_are_of_this_source() -> None:
    """Each text stands once where it says, and its finders are there: python-tests/faults.py."""
    for fault in json.loads((ROOT / "python-tests/faults.json").read_text())["faults"]:
        assert (ROOT / fault["file"]).read_text().count(fault["old"]) == 1, fault["old"]
        assert fault["new"] != fault["old"], fault["old"]
        finders = fault["found_by"]
        assert finders, fault["old"]
        for file, _, name in (
            one.partition("::") for one in finders if finders != ["nfsmulti-sim"]
        ):
            assert f"def {name}(" in (PYTHON_TESTS / "tests" / file).read_text() or not name, (
                finders
            )
