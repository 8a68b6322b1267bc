# SPDX-License-Identifier: GPL-2.0-only
"""The stories: what fio runs for each, how it is judged, and what is drawn of it.

A story is a module here that has a SCENARIO, and a name in arguments/commands.toml.
"""

from importlib import import_module

from nfsmulti.arguments import SCENARIOS as NAMES
from nfsmulti.scenario import Scenario

SCENARIOS: dict[str, Scenario] = {
    name: import_module(f"{__name__}.{name}").SCENARIO for name in NAMES
}
