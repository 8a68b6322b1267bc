# SPDX-License-Identifier: GPL-2.0-only
"""What tests have noted in their reports, at the end of what pytest prints."""

import pytest


def show(name: str, to: pytest.TerminalReporter) -> None:
    """Print the properties of that name, once for each test, whose reports all have them."""
    lines = {
        f"{report.nodeid}: {words}": None
        for outcome in ("passed", "failed", "skipped", "error")
        for report in to.getreports(outcome)
        for known, words in getattr(report, "user_properties", ())  # one of collecting has none
        if known == name
    }
    for line in lines:
        to.write_line(line)
