# SPDX-License-Identifier: GPL-2.0-only
"""Whether the machines of two runs allow a verdict, and what the runs may be compared for.

A difference may be theirs: other programs, other conditions. What two runs are often compared for
is no reason for doubt: another engine, server or pool.
"""

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from nfsmulti.arguments.parser import guess
from nfsmulti.errors import HarnessError
from nfsmulti.report import cells
from nfsmulti.summary import Summary

_BUSY = "busy"
_MACHINE = ("kernel", "processors", "fio")


def doubts(
    runs: tuple[Summary, Summary],
    environments: Sequence[Mapping[str, Any]],
    allowed: Collection[str] = (),
) -> list[str]:
    """Return in a line each why a verdict on B does not hold; but what is allowed is no reason."""
    found = [
        f"other programs kept the machine of {name} {100 * part:.0f} % busy: rerun it when idle"
        for name, run in zip("AB", runs, strict=True)
        if _BUSY not in allowed and (part := cells.others_busy(run.done))
    ]
    a, b = map(_conditions, environments)
    differ = [
        f"{what} is {a[what]} in A and {b[what]} in B: --allow {shlex.quote(what)} accepts it"
        for what in a
        if what in b and a[what] != b[what] and what not in allowed
    ]
    return found + [f"conditions differ: {line}" for line in differ]


def refuse_unknown(allowed: Collection[str], environments: Sequence[Mapping[str, Any]]) -> None:
    """Raise HarnessError where something is allowed that is no condition of either run."""
    known = {_BUSY, *_MACHINE}.union(*map(_conditions, environments))
    for what in allowed:
        if what not in known:
            near = guess(what, known)
            raise HarnessError(f"--allow '{what}': the runs have no such condition{near}")


def purposes(runs: tuple[Summary, Summary], environments: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name what differs and may be what the runs are compared for."""
    sides = [_purposes(*one) for one in zip(runs, environments, strict=True)]
    return [
        f"{what} differs: {of_a} and {of_b}"
        for what, of_a in sides[0].items()
        if of_a != (of_b := sides[1].get(what)) and of_b is not None
    ]


def _conditions(environment: Mapping[str, Any]) -> dict[str, str]:
    """Return what figures depend on: of the machine, and of each place its links and sysctls."""
    machine = environment.get("machine", {})
    found = {name: str(machine[name]) for name in _MACHINE if name in machine}
    for place, part in environment.items():
        if place == "machine" or not isinstance(part, dict):
            continue
        for link in part.get("links", []):
            found |= {
                f"{place}: {name} of {link['name']}": str(link[name])
                for name in ("mtu", "speed_mbit")
                if link.get(name)
            }
        found |= {f"{place}: {name}": value for name, value in part.get("sysctls", {}).items()}
    return found


def _purposes(run: Summary, environment: Mapping[str, Any]) -> dict[str, str]:
    found = {"pool": str(run.place.get("pool", ""))}
    if digest := environment.get("machine", {}).get("engine_sha256"):
        found["engine"] = f"SHA-256 {digest[:8]}"
    for place, part in environment.items():
        if isinstance(part, dict) and part.get("servers"):
            found[f"server ({place})"] = ", ".join(map(str, part["servers"]))
    return found
