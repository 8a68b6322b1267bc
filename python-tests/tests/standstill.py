# SPDX-License-Identifier: GPL-2.0-only
"""A test that fails while the machine stands still runs again.

What a virtual machine's host withholds for some seconds tells nothing of the product: time-outs end
then, and nobody could answer. Linux's server ends a TLS handshake after 5 s, for one.
"""

from __future__ import annotations

import contextlib
import threading
import time

import pytest
from _pytest.runner import runtestprotocol

_TRIES, _AGAIN = 3, "again"
# Between two looks at the clock. A busy machine is late by some tenths of a second.
_STANDSTILL, _LOOK = 2.0, 0.1


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Again())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print which tests have run again."""
    for outcome in ("passed", "failed", "skipped"):
        for report in terminalreporter.getreports(outcome):
            for name, words in report.user_properties:
                if name == _AGAIN and report.when == "call":
                    terminalreporter.write_line(f"{report.nodeid}: {words}")


class _Again:
    """Runs it again, up to three times in all, with fixtures made anew."""

    def __init__(self) -> None:
        self._standstill, self._seen = 0.0, time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self._look()
            time.sleep(_LOOK)

    def _look(self) -> float:
        """Return the longest time between two looks."""
        now = time.monotonic()
        self._standstill, self._seen = max(self._standstill, now - self._seen), now
        return self._standstill

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._run(item, nextitem):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _run(self, item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
        for again in reversed(range(_TRIES)):
            self._look()
            self._standstill = 0.0
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
            failed = any(report.failed for report in reports)
            if not (again and failed and self._look() > _STANDSTILL):
                break
            with contextlib.suppress(Exception):  # as the test, it may have met the standstill
                item.session._setupstate.teardown_exact(None)
            words = f"it failed while the machine stood still for {self._standstill:.1f} s"
            item.user_properties.append((_AGAIN, words))
        return reports
