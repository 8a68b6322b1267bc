# SPDX-License-Identifier: GPL-2.0-only
"""Limits fitted to a machine: never above the published ones, and in their proportion."""

from __future__ import annotations

import functools

import pytest

from nfsmulti.errors import HarnessError
from nfsmulti.lab import Limits
from nfsmulti.lab.network import HEADROOM, fit
from nfsmulti.units import parse_rate

_fsperf = functools.partial(fit, link="9400mbit", cap="6200mbit", paths=4)


def test_a_fast_machine_gets_the_published_rates() -> None:
    fitted = _fsperf(9400e6 / 8 / HEADROOM)
    limits = Limits(link="9400mbit", per_address="6200mbit", assured="2350mbit", burst="15136k")
    assert fitted.limits == limits
    assert fitted.fraction == 1
    assert _fsperf(5e9).text() == "At the full rates: this machine carries 5,000 MB/s."


def test_a_slow_machine_gets_less_in_the_published_proportion() -> None:
    for carried in (60e6, 300e6, 640e6, 1500e6):
        fitted = _fsperf(carried)
        most = HEADROOM * carried * 8
        assert most / 2 - 1e6 <= fitted.link <= most
        assert fitted.link / fitted.cap == pytest.approx(9.4 / 6.2, rel=0.03)
        assert fitted.fraction == pytest.approx(fitted.link / 9400e6, rel=0.03)
        assert parse_rate(fitted.limits.assured or "") * 4 <= fitted.link


def test_nearly_the_same_machine_gets_the_same_limits() -> None:
    assert _fsperf(840e6).limits == _fsperf(1100e6).limits
    assert _fsperf(840e6).text() == ("At a third of the full rates: this machine carries 840 MB/s.")
    assert _fsperf(190e6).part == "1/13 of the full rates"


def test_one_connection_of_dd_has_a_fifth_of_the_link() -> None:
    fitted = fit(130e6, link="1gbit", cap="200mbit", paths=5)
    assert (fitted.link, fitted.cap, fitted.assured) == (500_000_000, 100_000_000, 100_000_000)
    assert fitted.text() == "At half the full rates: this machine carries 130 MB/s."


def test_to_hardly_anything_nothing_is_fitted() -> None:
    for carried in (0, 0.1e6):
        with pytest.raises(HarnessError, match="cannot be fitted to"):
            _fsperf(carried)
