# SPDX-License-Identifier: GPL-2.0-only
"""The published stories, one file each: what fio runs, how it is judged, and what it draws."""

from nfsmulti.stories.connections import CONNECTIONS
from nfsmulti.stories.dd import DD
from nfsmulti.stories.fsperf import FSPERF
from nfsmulti.stories.neighbour import NEIGHBOUR
from nfsmulti.stories.oltp import OLTP
from nfsmulti.stories.randread import RANDREAD
from nfsmulti.stories.scenario import (
    OWN,
    CellSpec,
    Client,
    GuestPlace,
    OwnPool,
    Place,
    Scale,
    Scenario,
)
from nfsmulti.stories.sio import SIO
from nfsmulti.stories.sweep import SWEEP

SCENARIOS = {
    scenario.name: scenario
    for scenario in (DD, SIO, OLTP, SWEEP, FSPERF, RANDREAD, NEIGHBOUR, CONNECTIONS)
}

__all__ = [
    "CONNECTIONS",
    "OWN",
    "SCENARIOS",
    "CellSpec",
    "Client",
    "GuestPlace",
    "OwnPool",
    "Place",
    "Scale",
    "Scenario",
]
