# SPDX-License-Identifier: GPL-2.0-only
"""Under which conditions a run was made: where (summary.place) and on what (environment.json)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nfsmulti import texts, typed
from nfsmulti.paths import ROOT
from nfsmulti.report import cells
from nfsmulti.stats import AGREE_PERCENT
from nfsmulti.summary import Summary
from nfsmulti.texts import Table
from nfsmulti.units import parse_rate

FILE = "environment.json"
# What the kernel lab does otherwise than every publication.
KERNEL_LAB = (
    "The kernel lab is one guest, with client and server on the same processors"
    ", no wire between them (MTU and link are the guest's own), and a"
    " server in memory (tmpfs)."
)

_UNSETTLED = (
    f"the bandwidth of their halves differs by more than {AGREE_PERCENT:g} %, or they are too short"
    " to tell: --runtime makes them longer"
)
_SHOWN = 4  # of a list of more than twice as many


def table(summary: Summary, environment: Mapping[str, Any]) -> Table:
    """List place and environment, one line each; a run without environment.json says so."""
    place = dict(summary.place)
    if "places" in place:
        place.pop("limits", None)  # which stand in each place as well
    waiting = any(cell.status == "waiting" for cell in summary.cells)
    times = {"started": summary.started, "ended": summary.ended or "not ended" * waiting}
    rows = [["run", name, texts.moment(at)] for name, at in times.items() if at]
    warm_up = (
        f"each cell for {summary.warm_up_s:g} s at most, before its place is measured; not counted"
    )
    rows.append(["run", "warm-up", warm_up if summary.warm_up_s else "none"])
    rows += [["run", *row] for row in _settled(summary)]
    place.pop("fitted", None)  # of a run before 0.7.0, whose `limits` were made of it
    rows += [["place", *row] for row in flat(place)]
    # A demo without a lab has this machine's package for a server, and else the sink.
    demo = place.get("kind") == "loopback" and "pool" not in place
    rows += [
        [name, *row]
        for name, part in environment.items()
        for row in flat(part)
        if (name, row[0]) != ("machine", "nfs-ganesha") or cells.in_lab(summary) or demo
    ]
    if not environment:
        rows.append(["environment", FILE, "missing"])
    return Table(["of", "what", "value"], rows, text_columns=3)


def _settled(summary: Summary) -> list[list[str]]:
    """Return how many cells did not settle, and how many an earlier version ran longer for that."""
    done = summary.done
    lengthened = sum(cell.times > 1 for cell in done)
    # Without a log of its bandwidth nothing is known of a cell.
    unsettled = sum(cell.settled is False and bool(cell.over_time) for cell in done)
    found = {
        "lengthened": (lengthened, "`times` above 1 in cells.csv"),
        "did not settle": (unsettled, f"`settled` False in cells.csv: {_UNSETTLED}"),
    }
    return [
        [what, f"{n} of {len(done)}: those with {words}"] for what, (n, words) in found.items() if n
    ]


def load(folder: Path) -> dict[str, Any]:
    """Read a run's environment.json; empty where there is none."""
    try:
        return typed.load_as(dict[str, Any], folder / FILE)
    except FileNotFoundError:
        return {}


def in_short(summary: Summary) -> str:
    """Return the place in one line, with its limits: "lab: link 1 Gbit/s (capped)"."""
    place = summary.place
    where = " ".join(str(place[name]) for name in ("kind", "pool") if place.get(name))
    where = where.replace("kernel-lab", "kernel lab")
    limits = place.get("limits") or {}
    each = limits if any(isinstance(one, dict) for one in limits.values()) else {"": limits}
    parts = [f"{_rates(one)}{f' ({name})' if name else ''}" for name, one in each.items() if one]
    return ": ".join(filter(None, (where or "unknown place", "; ".join(parts))))


_RATES = {"link": "link", "per_address": "each address", "per_connection": "each connection"}
_RATES |= {"per_mount": "each mount"}


def _rates(limits: Mapping[str, str]) -> str:
    """Write a place's limits for people, without a share that is assured."""
    told = {words: limits[name] for name, words in _RATES.items() if limits.get(name)}
    return ", ".join(f"{words} {texts.rate_text(parse_rate(rate))}" for words, rate in told.items())


def guest(environment: Mapping[str, Any]) -> str:
    """Say what the guest is in which clients ran, and whether it is emulated; "" without one."""
    places = [part for part in environment.values() if isinstance(part, dict)]
    told = [str(place["guest"]) for place in places if place.get("guest")]
    return f"The guest: {told[0]}" if told else ""


def limits(summary: Summary, place: str) -> Mapping[str, str]:
    """Return the limits of one of the lab's places; none on a user's pool."""
    found = summary.place.get("limits") or {}
    return dict(found.get(place, found))  # which are that place's own where the run has no other


def link(summary: Summary, place: str) -> int | None:
    """Return the rate of a place's link in bit/s; None where it has no limit."""
    rate = limits(summary, place).get("link")
    return parse_rate(rate) if rate else None


def allowed(summary: Summary, place: str) -> float | None:
    """Return the largest gain of many paths that a place's limits allow; None without limits."""
    found, rate = limits(summary, place), link(summary, place)
    cap = found.get("per_address") or found.get("per_mount")
    return rate / parse_rate(cap) if rate and cap else None


def full_link(summary: Summary, place: str, rate: float) -> str:
    """Say that a place's link is full where `rate`, in MB/s, takes nine tenths of it, or ""."""
    most = link(summary, place)
    full = most and 0.9 <= 8e6 * rate / most <= 1
    return f": the {texts.rate_text(most)} link is full" if most and full else ""


def flat_text(value: Any) -> str:
    """Write nested objects in one line: link 1gbit, per_address 120mbit."""
    return ", ".join(" ".join(filter(None, row)) for row in flat(value)) or "none"


def flat(data: Any, name: str = "") -> list[list[str]]:
    """Turn nested objects into lines, such as "sysctls net.ipv4.tcp_rmem"; drop what is empty.

    An object in a list is one line, which its own name or number leads.
    """
    if isinstance(data, dict):
        return [
            line for key, value in data.items() for line in flat(value, f"{name} {key}".strip())
        ]
    if isinstance(data, list) and any(isinstance(one, dict) for one in data):
        return [
            [f"{name} {item.get('name', number)}", flat_text({**item, "name": None})]
            for number, item in enumerate(data, start=1)
        ]
    if isinstance(data, list):
        shown = data[:_SHOWN] if len(data) > 2 * _SHOWN else data
        more = [f"and more, in {FILE}"] if len(shown) < len(data) else []
        data = "; ".join(map(str, [*shown, *more])).replace(".; ", ". ")
    if data is None or data == "":
        return []
    return [[name, " ".join(str(data).replace(f"{ROOT}/", "").split())]]
