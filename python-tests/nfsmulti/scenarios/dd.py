# SPDX-License-Identifier: GPL-2.0-only
"""dd: one stream against several, each on a connection of its own.

capped is the story's AIX client, whose connections do not get beyond a rate of their own; uncapped
is its Linux client, for which the link alone is the limit.
"""

from __future__ import annotations

from collections.abc import Sequence

from nfsmulti.lab.config import LabConfig
from nfsmulti.lab.limits import Limits
from nfsmulti.scenarios.scenario import OWN, CellSpec, OwnPool, Scale, Scenario, timed
from nfsmulti.summary import Factor

_STREAMS = 5
_BYTES = 838_860_800  # dd's own: count=102400 bs=8192
_QUICK_BYTES, _TINY_BYTES = 128 << 20, 1 << 20
_LINK, _CAP = 118e6, 14.2e6  # bytes/s that the lab's limits leave

_PLACES = {
    "capped": LabConfig(addresses=_STREAMS, limits=Limits(link="1gbit", per_address="120mbit")),
    "uncapped": LabConfig(addresses=_STREAMS, limits=Limits(link="1gbit")),
}


def _cells(scale: Scale) -> list[CellSpec]:
    return [cell for client in _PLACES for cell in _cells_of(client, client, scale, _STREAMS)]


def _own_cells(scale: Scale, pool: OwnPool) -> tuple[list[CellSpec], list[str]]:
    said = "capped and uncapped are limits of the lab: your pool has its own (client=pool)"
    return _cells_of("pool", OWN, scale, pool.paths), [said]


def _cells_of(client: str, place: str, scale: Scale, paths: int) -> list[CellSpec]:
    streams: Sequence[int] = (1, 2, _STREAMS) if scale.quick else range(1, _STREAMS + 1)
    return [
        _cell(client, place, scale, direction, count, min(count, paths))
        for direction in ("write", "read")
        for count in streams
    ]


def _cell(
    client: str, place: str, scale: Scale, direction: str, streams: int, paths: int
) -> CellSpec:
    whole = not scale.quick and scale.cell_seconds is None
    options: dict[str, Factor | None] = {"numjobs": streams}
    if whole:
        rate = min(streams * _CAP, _LINK) if client == "capped" else _LINK
        size, seconds = _BYTES, streams * _BYTES / rate
    else:
        seconds = scale.seconds(4, 0)
        size = _TINY_BYTES if scale.cell_seconds else _QUICK_BYTES
        options |= {"size": size, **timed(seconds)}
    files = {f"dd.{number}": size for number in range(streams)} if direction == "read" else {}
    return CellSpec(
        factors={"client": client, "direction": direction, "streams": streams},
        place=place,
        jobfile=f"dd-{direction}.fio",
        options=options,
        seconds=seconds,
        paths=paths,
        files=files,
    )


DD = Scenario("dd", "one stream against several", _PLACES, _cells, _own_cells)
