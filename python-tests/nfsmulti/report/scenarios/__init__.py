# SPDX-License-Identifier: GPL-2.0-only
"""What each scenario's report tells: one module per published story."""

from nfsmulti.report.scenarios.connections import CONNECTIONS
from nfsmulti.report.scenarios.dd import DD
from nfsmulti.report.scenarios.fsperf import FSPERF
from nfsmulti.report.scenarios.neighbour import NEIGHBOUR
from nfsmulti.report.scenarios.oltp import OLTP
from nfsmulti.report.scenarios.randread import RANDREAD
from nfsmulti.report.scenarios.sio import SIO
from nfsmulti.report.scenarios.sweep import SWEEP
from nfsmulti.report.story import Scenario

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (DD, FSPERF, RANDREAD, SIO, OLTP, SWEEP, NEIGHBOUR, CONNECTIONS)
}
