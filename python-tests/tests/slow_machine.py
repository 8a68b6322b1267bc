# SPDX-License-Identifier: GPL-2.0-only
"""Tests on a machine that stands still, or is slow.

A test that fails while the machine stands still runs again. What a virtual machine's host withholds
for some seconds tells nothing of the product: time-outs end then, and nobody could answer. Linux's
server ends a TLS handshake after 5 s, for one.

Tests marked `timing` alone have limits in seconds: ./nfsmulti test runs them last and one by one. A
limit was set on an idle machine; here it is multiplied by how much slower this one is, measured
just before and just after.
"""

import contextlib
import functools
import hashlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from _pytest.runner import runtestprotocol

_MORE, _AGAIN = 2, "again"
# Between two looks at the clock. A busy machine is late by some tenths of a second.
_STANDSTILL, _LOOK = 2.0, 0.1
# What takes longer hangs by itself.
_HANG = 240.0


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Again())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print which tests have run again, and why, and what those with limits took; each once."""
    lines = {
        f"{report.nodeid}: {words}": None
        for outcome in ("passed", "failed", "skipped", "error")
        for report in terminalreporter.getreports(outcome)
        for known, words in getattr(report, "user_properties", ())  # one of collecting has none
        if known in (_AGAIN, _FIGURE)
    }
    for line in lines:
        terminalreporter.write_line(line)


class _Again:
    """Runs a test again, up to twice, with all fixtures made anew."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._longest, self._seen = 0.0, time.monotonic()
        self._module: pytest.Module | None = None
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self._standstill()
            time.sleep(_LOOK)

    def _standstill(self, *, forget: bool = False) -> float:
        """Return the longest time between two looks, since it was forgotten last."""
        with self._lock:
            now = time.monotonic()
            longest = max(self._longest, now - self._seen)
            self._longest, self._seen = 0.0 if forget else longest, now
            return longest

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._run(item, nextitem):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _run(self, item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
        module = item.getparent(pytest.Module)
        if module is not self._module:  # within one, a fixture's standstill counts for all tests
            self._module = module
            self._standstill(forget=True)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        for _ in range(_MORE):
            failed = next((report for report in reports if report.failed), None)
            took = sum(report.duration for report in reports)
            if not failed or took > _HANG:
                break
            standstill = self._standstill(forget=True)
            if standstill <= _STANDSTILL:
                failed.sections.append(("machine", f"late by {standstill:.1f} s at most"))
                break
            _make_anew(item, failed, standstill)
            if terminal := item.config.pluginmanager.get_plugin("terminalreporter"):
                terminal.write_line(f"{item.nodeid} runs again")  # a guest is not silent then
            again = runtestprotocol(item, log=False, nextitem=nextitem)
            if any(report.skipped for report in again):
                break  # that would hide the failure
            reports = again
        return reports


def _make_anew(item: pytest.Item, failed: pytest.TestReport, standstill: float) -> None:
    """End all fixtures. What has failed stands in the next try's report."""
    lines = failed.longreprtext.splitlines()
    why = next((line[1:].strip() for line in lines if line.startswith("E ")), "")
    words = f"it failed while the machine stood still for {standstill:.1f} s: {why}"
    try:
        item.session._setupstate.teardown_exact(None)
    except (Exception, pytest.fail.Exception, BaseExceptionGroup) as error:
        words += f"; and its fixtures ended with {error!r}"
    own = [(name, said) for name, said in item.user_properties if name == _AGAIN]
    item.user_properties[:] = [*own, (_AGAIN, words)]
    item._report_sections[:] = [("call", "the try before", failed.longreprtext)]


# --- limits ---

Within = Callable[[float], contextlib.AbstractContextManager[None]]

# What _work() takes on that machine: 2 cores of an AMD EPYC, 2.6 GHz.
_REFERENCE_SECONDS = 0.12
_FIGURE = "timing"
_now = time.monotonic  # of what is limited alone: its tests have another clock


@pytest.fixture
def within(request: pytest.FixtureRequest) -> Within:
    """Return the limit of a block in seconds, for `with`; a slower machine has more."""
    assert request.node.get_closest_marker("timing"), "only tests marked `timing` have limits"

    return functools.partial(_within, request.node.user_properties)


@contextlib.contextmanager
def _within(figures: list[tuple[str, object]], seconds: float) -> Iterator[None]:
    before = _slowness()
    begin = _now()
    yield
    took = _now() - begin
    slowness = max(before, _slowness())
    figure = f"{took:.2f} s of {seconds:g} s, on a machine {slowness:.1f} times as slow"
    figures.append((_FIGURE, figure))
    assert took < seconds * slowness, figure


def _slowness() -> float:
    """Tell how many times as long as on the machine of the limits things take; at least 1."""
    begin = time.monotonic()
    _work()
    return max(1.0, (time.monotonic() - begin) / _REFERENCE_SECONDS)


def _work() -> None:
    """Do what limits are about: compute, and start processes."""
    hashlib.pbkdf2_hmac("sha256", b"nfsmulti", b"timing", 100_000)
    for _ in range(20):
        subprocess.run(["true"], check=True)
