# SPDX-License-Identifier: GPL-2.0-only
"""The published stories, as data: which cells they have, and what fio runs for each."""

from nfsmulti.scenarios.dd import DD
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

SCENARIOS = {scenario.name: scenario for scenario in (DD,)}

__all__ = [
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
