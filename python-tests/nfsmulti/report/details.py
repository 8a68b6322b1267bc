# SPDX-License-Identifier: GPL-2.0-only
"""All that was measured of each cell, in one table, whatever the scenario.

A figure that cells.csv has, too, has its name there.
"""

from collections.abc import Mapping, Sequence

from nfsmulti import texts
from nfsmulti.report import cells, measures
from nfsmulti.report.answer import labels
from nfsmulti.report.measures import MEASURES
from nfsmulti.report.story import Section
from nfsmulti.stats import Sample, merged
from nfsmulti.summary import Cell, Summary
from nfsmulti.texts import MISSING, Table

_PERCENTS, _OF_LAT = (50, 99, 99.9, 99.99), (50, 99)  # of clat, and of lat where fio kept it
_OF_BOTH = (
    "jobs CPU µs/op", "machine CPU µs/op", "busiest job %", "processors %", "calls/op",
    "server %", "server Dirty MB", "server Cached MB",
)  # fmt: skip
_WAY = "reads or writes"


def section(summary: Summary, names: Mapping[str, str]) -> Section:
    """Return the table of every cell that is done, folded; `names` are of levels."""
    return Section("Every cell", _of_server(summary), [_table(summary, names)], folded=True)


def calls(summary: Summary, names: Mapping[str, str]) -> list[Section]:
    """Say where mounts' calls spent their time."""
    label = labels(summary, names)
    told = {label(found[0]): cells.mounted(found) for found in cells.by_name(summary.done).values()}
    points = [f"{name}: {said}." for name, said in told.items() if said]
    words = "By /proc/self/mountstats, which has no percentiles: see docs/arrivals.md."
    return [Section("Calls of the mounts", [words], points=points, folded=True)] * bool(points)


def _table(summary: Summary, names: Mapping[str, str]) -> Table:
    """Lay out each cell and direction, without the columns that say nothing."""
    label, done = labels(summary, names), summary.done
    rows = [
        {"cell": label(found[0]), _WAY: way} | _figures(found, way)
        for found in cells.by_name(done).values()
        for way in measures.WAYS
        if any(measures.sides(cell, way) for cell in found)
    ]
    said = {name: {row[name] for row in rows} for name in (rows[0] if rows else ())}
    nothing = [name for name in said if said[name] in ({MISSING}, {"read"}, {"write"})]
    nothing += [_WAY] if {"direction", "operation"} & done[0].factors.keys() else []
    nothing += ["MB/s"] if "operation" in done[0].factors else []
    kept = [name for name in said if name not in nothing]
    return Table(kept, [[row[name] for name in kept] for row in rows], "", 1 + (_WAY in kept))


def _figures(found: Sequence[Cell], way: str) -> dict[str, str]:
    """Return the figures of one direction, by heading; CPU time and processors are of both."""
    sides = [side for cell in found for side in measures.sides(cell, way)]
    rate = Sample.of(side.bytes_per_s / 1e6 for side in sides)
    cv = rate.cv_percent if rate else None
    held = not any(cell.arrivals and not cell.arrivals.sustained for cell in found)
    lat = merged(side.response for side in sides if held)
    waits = {f"lat p{percent} ms": cells.bins_us(lat, percent) for percent in _OF_LAT}
    waits |= {f"p{percent:g} ms": cells.told_us(found, percent, way) for percent in _PERCENTS}
    jain = cells.sample((cell for cell in found if len(cell.paths) > 1), MEASURES["Jain"])
    return {
        "MB/s": texts.mean(rate),
        "IOPS": texts.mean(Sample.of(side.iops for side in sides)),
        "CV %": MISSING if cv is None else f"{cv:.1f}",
        "n": str(rate.n) if rate else MISSING,
        **{name: texts.number(wait and wait / 1000) for name, wait in waits.items()},
        **{name: texts.mean(cells.sample(found, MEASURES[name])) for name in _OF_BOTH},
        "Jain": f"{jain.mean:.4f}" if jain else MISSING,
    }


def _of_server(summary: Summary) -> list[str]:
    """Say of what the server told; nothing where it was not asked."""
    asked = [cell for cell in summary.done if cell.server or cell.server_why]
    kind, words = str(summary.place.get("kind")), []
    if told := [cell.server for cell in asked if cell.server]:
        whose = " and of its processes alone" if summary.beside_clients else ""
        processors = texts.counted(told[0].processors, "processor")
        words.append(
            f"“server %” is of the server's {processors}{whose}; Dirty and Cached are peaks from"
            " its /proc/meminfo."
        )
        if kind not in ("pool", "lab"):
            words[0] += " Client and server are one machine here: the figures cover both."
    if untold := [cell.server_why for cell in asked if cell.server_why]:
        words.append(
            f"{len(untold)} of {len(asked)} cells have no figures of the server: {untold[0]}"
        )
    return words
