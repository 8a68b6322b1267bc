# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti faults: which tests it runs, and the tables and the status that it makes of them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from conftest import call_harness, refusal

import testrun
from nfsmulti import texts
from nfsmulti.paths import shown
from nfsmulti.processes import claimed


def _case(name: str, what: str = "", **noted: str) -> ET.Element:
    """Make a test's element of pytest's JUnit file: it passed, or failed or was skipped."""
    case = ET.Element("testcase", name=name)
    for key, value in noted.items():
        ET.SubElement(case, "property", name=key, value=value)
    if what:
        ET.SubElement(case, what, message="it hung").text = "def test():\nE   it hung"
    return case


def _cell(name: str, what: str = "", **noted: str) -> ET.Element:
    return _case(f"test_cell[address removed, {name}, hard, tcp]", what, **noted)


Ends = Callable[..., tuple[str, ...]]


@pytest.fixture
def ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ends:
    """Let the tests that the command runs end so, or pytest raise an error; gives the command."""
    monkeypatch.setattr(testrun, "_FOLDER", tmp_path)

    def end(*cases: ET.Element, status: int | type[BaseException] = 0) -> tuple[str, ...]:
        def run_parts(parts: Sequence[testrun.Part], _: Sequence[str]) -> set[int]:
            for part in parts:
                suite = ET.Element("testsuite")
                in_guest = part.marks == "kernel_lab"
                suite.extend(one for one in cases if ("rdma" in one.get("name", "")) == in_guest)
                ET.ElementTree(suite).write(part.junit)
            if isinstance(status, int):
                return {status, testrun.NONE_CHOSEN}
            raise status

        if cases:
            monkeypatch.setattr(testrun, "run_parts", run_parts)
        return "faults", "--results", str(tmp_path / "faults")

    return end


def _report(folder: Path) -> str:
    return (folder / "faults" / "report.md").read_text()


def test_real_scenarios_are_run(tmp_path: Path, ends: Ends) -> None:
    done = call_harness(*ends(), "--filter", "scenarios soft_gives_up")
    assert done.status == 0, done.stdout
    assert "4 of 4 tests ended as expected; 4 of these are scenarios" in _report(tmp_path)


def test_cells_are_a_grid(tmp_path: Path, ends: Ends) -> None:
    command = ends(
        _cell("read", outcome="held", short="it waits"),
        _cell("write", outcome="EIO, lost", short=""),
        _case("test_cell_over_rdma[x, y, read, soft, rdma]", outcome="done"),
        _case("test_a_loss_names_its_path"),
    )
    assert call_harness(*command).status == 0
    text = _report(tmp_path)
    assert "4 of 4 tests ended as expected; 1 of these are scenarios" in text
    assert "| address removed | read: held*; write: EIO, lost |  |  |" in text
    assert "**knfsd, RDMA**\n\n" in text
    assert "| x, y |  | read: done |  |" in text
    assert "\\* address removed, read, hard, tcp: it waits." in text


@pytest.mark.parametrize(
    ("what", "field", "told"),
    [
        ("failure", "✗ done", "NOT AS EXPECTED: address removed, read, hard, tcp: it hung"),
        ("error", "✗ done", "NOT AS EXPECTED: address removed, read, hard, tcp: it hung"),
        ("skipped", texts.MISSING, "not run: address removed, read, hard, tcp: it hung"),
    ],
)
def test_what_is_not_as_expected_is_told(
    tmp_path: Path, ends: Ends, what: str, field: str, told: str
) -> None:
    command = ends(_cell("read", what, outcome="done"), _cell("write", outcome="done"), status=1)
    done = call_harness(*command)
    assert done.status == 1
    assert told in done.stdout
    assert f"- {told}" in _report(tmp_path)
    assert f"| address removed | read: {field}; write: done |" in _report(tmp_path)
    assert "1 of 2 tests ended as expected" in _report(tmp_path)


def test_an_interrupt_leaves_what_has_ended(tmp_path: Path, ends: Ends) -> None:
    with pytest.raises(KeyboardInterrupt):
        call_harness(*ends(_cell("read", outcome="held"), status=KeyboardInterrupt))
    assert "1 of 1 tests ended as expected" in _report(tmp_path)


def test_a_pytest_that_crashes_is_an_error(ends: Ends) -> None:
    command = ends(_cell("read", outcome="held"), status=-9)
    assert refusal(*command) == "pytest ended with status -9, and 1 tests ran"


def test_jobs_are_listed_and_not_run() -> None:
    done = call_harness("faults", "--list", "--filter", "SIGSTOP soft")
    assert done.stdout == "server stopped (SIGSTOP) for 5 s, read, soft, tcp\n"
    for words in ("nosuch", "()"):
        told = refusal("faults", "--list", "--filter", words)
        assert "no test's name has all these words" in told


@pytest.mark.parametrize(
    "words", [("faults",), ("soak",), ("bench", "stall", "--quick")], ids=lambda words: words[0]
)
def test_a_folder_has_one_run(tmp_path: Path, words: tuple[str, ...]) -> None:
    refused = f"{shown(tmp_path)} is not empty, or another run has it\n  name another --results"
    with claimed(tmp_path):
        assert refusal(*words, "--results", str(tmp_path)) == refused
    (tmp_path / "report.md").write_text("of another run")
    assert refusal(*words, "--results", str(tmp_path)) == refused
    assert [file.name for file in tmp_path.iterdir()] == ["report.md"]
