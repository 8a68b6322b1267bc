# SPDX-License-Identifier: GPL-2.0-only
"""The stories: what fio runs for each, how it is judged, and what is drawn of it.

A story is a module here that has a SCENARIO, and a name in arguments/commands.toml.
"""

from importlib import import_module

from nfsmulti.arguments import SCENARIOS as NAMES
from nfsmulti.stories import cost, showcase, stall
from nfsmulti.stories.scenario import (
    OWN,
    CellSpec,
    Choice,
    GuestPlace,
    OwnPool,
    Scale,
    Scenario,
)

SCENARIOS: dict[str, Scenario] = {
    name: import_module(f"{__name__}.{name}").SCENARIO for name in NAMES
}
REPORTS = {name: scenario.report for name, scenario in SCENARIOS.items()}
REPORTS |= {"demo": showcase.REPORT, **cost.REPORTS, "stall": stall.REPORT}

__all__ = [
    "OWN",
    "REPORTS",
    "SCENARIOS",
    "CellSpec",
    "Choice",
    "GuestPlace",
    "OwnPool",
    "Scale",
    "Scenario",
]
