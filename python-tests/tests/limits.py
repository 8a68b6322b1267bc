# SPDX-License-Identifier: GPL-2.0-only
"""Limits in seconds, for tests marked `timing` alone.

./nfsmulti test runs them last and one by one. A limit was set on an idle machine; here it is
multiplied by how much slower this one is, measured just before and just after.
"""

import contextlib
import functools
import hashlib
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from standstill import show

Within = Callable[[float], contextlib.AbstractContextManager[None]]

# What _work() takes on that machine: 2 cores of an AMD EPYC, 2.6 GHz.
_REFERENCE_SECONDS = 0.12
_FIGURE = "timing"


@pytest.fixture
def within(request: pytest.FixtureRequest) -> Within:
    """Return the limit of a block in seconds, for `with`; a slower machine has more."""
    assert request.node.get_closest_marker("timing"), "only tests marked `timing` have limits"

    return functools.partial(_within, request.node.user_properties)


@contextlib.contextmanager
def _within(figures: list[tuple[str, object]], seconds: float) -> Iterator[None]:
    before = _slowness()
    begin = time.monotonic()
    yield
    took = time.monotonic() - begin
    slowness = max(before, _slowness())
    figure = f"{took:.2f} s of {seconds:g} s, on a machine {slowness:.1f} times as slow"
    figures.append((_FIGURE, figure))
    assert took < seconds * slowness, figure


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what each of them took."""
    show(_FIGURE, terminalreporter)


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
