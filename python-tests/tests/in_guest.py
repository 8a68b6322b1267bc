# SPDX-License-Identifier: GPL-2.0-only
"""Tests marked `kernel_lab` run in the guest of ./nfsmulti lab kernel, all in one boot.

On the host each stands for the test of its name in the guest: the first of them boots it, and
each then gives the outcome and the words that its own has had there. In the guest they are tests
like others, whose reports are written to a file for the host.
"""

import json
import os
import sys
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import missing

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.lab.guest import GuestConfig, inside, run_in_guest
from nfsmulti.paths import BUILD, ROOT

_REPORTS = "NFSMULTI_GUEST_REPORTS"
# Of what a test may take: a guest that says nothing of one, nor of another try, for longer hangs.
_SILENCE = 1.5
_LINES = 30


def pytest_configure(config: pytest.Config) -> None:
    if inside() and _REPORTS in os.environ:
        config.pluginmanager.register(_Reporter(config, Path(os.environ[_REPORTS])))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put stand-ins in the place of tests for the guest, once -k and -m have chosen."""
    if not inside():
        for number, item in enumerate(items):
            if item.parent and item.get_closest_marker("kernel_lab"):
                items[number] = _InGuest.from_parent(item.parent, name=item.name)


class _Reporter:
    """Writes the reports down, a JSON line each."""

    def __init__(self, config: pytest.Config, file: Path):
        self._config, self._file = config, file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook.pytest_report_to_serializable
        with self._file.open("a") as lines:
            lines.write(json.dumps(hook(config=self._config, report=report)) + "\n")


@dataclass
class _Run:
    """What the guest left: reports by test, and what happened where some are missing."""

    reports: dict[str, list[pytest.TestReport]] = field(default_factory=dict)
    trouble: str = ""
    missing: MissingError | None = None


_RUN = pytest.StashKey[_Run]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give each test the seconds that it took in the guest; the first has the boot's, too."""
    report = yield
    if isinstance(item, _InGuest) and (run := item.session.stash.get(_RUN, None)):
        there = [each for reports in run.reports.values() for each in reports]
        mine = [each for each in run.reports.get(item.nodeid, []) if each.when == call.when]
        boot = max(report.duration - sum(each.duration for each in there), 0.0)
        report.duration = boot + sum(each.duration for each in mine)
    return report


class _FailedInGuestError(Exception):
    """A test has failed in the guest; the words are those of its report."""


class _InGuest(pytest.Item):
    """Stands for a test that runs in the guest."""

    def setup(self) -> None:
        """Run all of them, if that has not been done."""
        if _RUN not in self.session.stash:
            tests = [item.nodeid for item in self.session.items if isinstance(item, _InGuest)]
            self.session.stash[_RUN] = _run(self.config, tests)
        if error := self.session.stash[_RUN].missing:
            missing(error)

    def runtest(self) -> None:
        run = self.session.stash[_RUN]
        reports = run.reports.get(self.nodeid, [])
        if reports:
            self.user_properties += reports[-1].user_properties
        for report in reports:
            if report.failed:
                said = "".join(f"\n--- {name} ---\n{text}" for name, text in report.sections)
                raise _FailedInGuestError(report.longreprtext + said)
            if report.skipped:
                pytest.skip(_reason(report))
        if not any(report.when == "teardown" for report in reports):
            raise _FailedInGuestError(f"it has not ended in the guest; {run.trouble}")

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> str:  # type: ignore[override]
        if isinstance(excinfo.value, _FailedInGuestError):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))


def _reason(report: pytest.TestReport) -> str:
    return str(report.longrepr[2]) if isinstance(report.longrepr, list | tuple) else "in the guest"


def _run(config: pytest.Config, tests: Sequence[str]) -> _Run:
    run = _Run()
    with (
        tempfile.TemporaryDirectory(prefix="guest-tests-", dir=BUILD) as name,
        tempfile.TemporaryFile() as output,
    ):
        folder = Path(name)
        reports = folder / "reports"
        words = ["-q", "--no-header", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
        try:
            status = run_in_guest(
                [sys.executable, "-m", "pytest", *words, *tests],
                GuestConfig(results=folder, silence=_SILENCE * float(config.getini("timeout"))),
                stdout=output,
                stderr=output,
                cwd=ROOT,
                env={_REPORTS: str(reports)},
            )
            run.trouble = f"pytest ended there with status {status}"
        except MissingError as error:
            run.missing = error
        except HarnessError as error:
            run.trouble = str(error)
        output.seek(0)
        said = output.read().decode(errors="replace").splitlines()[-_LINES:]
        run.trouble = "\n  ".join([run.trouble, *said])
        hook = config.hook.pytest_report_from_serializable
        for line in reports.read_text().splitlines() if reports.exists() else []:
            report = hook(config=config, data=json.loads(line))
            run.reports.setdefault(report.nodeid, []).append(report)
    return run
