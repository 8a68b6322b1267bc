# SPDX-License-Identifier: GPL-2.0-only
"""What a report says, without its plots being drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import made_runs

from nfsmulti.report import pages
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Summary


def report_of(summary: Summary, environment: Mapping[str, Any] = made_runs.ENVIRONMENT) -> str:
    """Give the text of a run's report.md, with each run of blanks as one."""
    contents = pages.contents(SCENARIOS[summary.scenario].report, summary, environment)
    return " ".join(pages.render(pages.TEMPLATES[pages.MARKDOWN], contents).split())
