# SPDX-License-Identifier: GPL-2.0-only
"""The stories: what fio runs for each, how it is judged, and what is drawn of it."""

from nfsmulti.stories import cost, demo
from nfsmulti.stories.connections import CONNECTIONS
from nfsmulti.stories.dd import DD
from nfsmulti.stories.fsperf import FSPERF
from nfsmulti.stories.metadata import METADATA
from nfsmulti.stories.neighbour import NEIGHBOUR
from nfsmulti.stories.oltp import OLTP
from nfsmulti.stories.randread import RANDREAD
from nfsmulti.stories.scenario import (
    OWN,
    CellSpec,
    GuestPlace,
    OwnPool,
    Scale,
    Scenario,
)
from nfsmulti.stories.sio import SIO
from nfsmulti.stories.sweep import SWEEP

SCENARIOS = {
    scenario.name: scenario
    for scenario in (DD, FSPERF, RANDREAD, SIO, OLTP, SWEEP, NEIGHBOUR, CONNECTIONS, METADATA)
}
REPORTS = {name: scenario.report for name, scenario in SCENARIOS.items()}
REPORTS |= {"demo": demo.REPORT, **cost.REPORTS}

__all__ = [
    "CONNECTIONS",
    "METADATA",
    "OWN",
    "REPORTS",
    "SCENARIOS",
    "CellSpec",
    "GuestPlace",
    "OwnPool",
    "Scale",
    "Scenario",
]
