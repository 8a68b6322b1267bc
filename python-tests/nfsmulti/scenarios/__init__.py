# SPDX-License-Identifier: GPL-2.0-only
"""The published stories, as data: which cells they have, and what fio runs for each."""

from nfsmulti.scenarios.connections import CONNECTIONS
from nfsmulti.scenarios.dd import DD
from nfsmulti.scenarios.fsperf import FSPERF
from nfsmulti.scenarios.neighbour import NEIGHBOUR
from nfsmulti.scenarios.oltp import OLTP
from nfsmulti.scenarios.randread import RANDREAD
from nfsmulti.scenarios.scenario import (
    OWN,
    CellSpec,
    Client,
    GuestPlace,
    OwnPool,
    Place,
    Scale,
    Scenario,
)
from nfsmulti.scenarios.sio import SIO
from nfsmulti.scenarios.sweep import SWEEP

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
