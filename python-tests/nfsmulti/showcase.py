# SPDX-License-Identifier: GPL-2.0-only
"""demo: one connection and several.

Published, as the stories dd and fsperf say: five streams of dd wrote 3.71 times what one did, and
fsperf read 1.53 times as much over four paths as over one.

The limits are those of the publications in their proportion, at a half (dd) or a tenth of their
rates, which any machine carries.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nfsmulti import texts
from nfsmulti.lab import LabConfig, Limits
from nfsmulti.report.told import Run
from nfsmulti.scenario import CellSpec
from nfsmulti.story import At, Bars, Claim, Column, Factor, Grid, Level, Levels, Story

SECONDS = 3.0  # of each fio
SIDES = ("one", "many")
RANDREAD = "randread"
_MIB = 1 << 20


@dataclass(frozen=True)
class Workload:
    """A jobfile, run with `options` on one connection, and with those in `many` on several.

    Those are over `paths`; `limits` hold for both sides. `gain` is the ratio that was published,
    None where none was. `files` must be there.
    """

    jobfile: str
    options: Mapping[str, Level]
    many: Mapping[str, Level]
    limits: Limits
    words: str
    gain: float | None = None
    paths: int = 1
    files: Mapping[str, int] = field(default_factory=dict)


WORKLOADS = {
    "dd": Workload(
        jobfile="dd-write.fio",
        options={"size": 64 * _MIB},
        many={"numjobs": 5},
        limits=Limits(link="500mbit", per_address="100mbit", burst="2m"),
        words="five streams on five paths",
        gain=72 / 19.4,
        paths=5,
    ),
    "fsperf": Workload(
        jobfile="fsperf.fio",
        options={"size": 64 * _MIB},
        many={"spread": "roundrobin"},
        limits=Limits(link="940mbit", per_address="620mbit", burst="2m"),
        words="one reader on four paths",
        gain=1100 / 718,
        paths=4,
        files={"nfsmulti-fsperf": 64 * _MIB},
    ),
    RANDREAD: Workload(
        jobfile="randread.fio",
        options={"numjobs": 1, "nconnect": 1},
        many={"nconnect": 4, "spread": "roundrobin"},
        limits=Limits(per_connection="235mbit", burst="1m"),
        words="four connections to one address",
        files={"nfsmulti-randread": 10_000_000},
    ),
}


def job(at: At) -> CellSpec:
    """Return one side of a workload."""
    chosen, several = WORKLOADS[at.workload], at.side == "many"
    return at.cell(
        chosen.jobfile,
        {**chosen.options, **(chosen.many if several else {})},
        SECONDS,
        paths=chosen.paths if several else 1,
        files={**chosen.files},
    )


# --- what it tells ---


def _measured(run: Run) -> Iterator[tuple[str, Workload, Levels, Levels]]:
    """Yield each workload that was measured, with its name and both sides."""
    for name in map(str, run.levels("workload")):
        one, many = ({"workload": name, "side": side} for side in SIDES)
        yield name, WORKLOADS[name], one, many


def headline(run: Run) -> str:
    """Tell the ratio of each workload."""
    gains = [(name, run.ratio("MB/s", many, one)) for name, _, one, many in _measured(run)]
    ratios = [f"{gain.value:.2f} ({name})" for name, gain in gains if gain]
    return f"{texts.several(ratios) or 'No'} times the bandwidth of one connection."


def rows(run: Run) -> dict[str, Levels]:
    """Name the workloads, with what is to be seen of each."""
    found: dict[str, Levels] = {}
    for name, one, *_ in _measured(run):
        published = f" (published: {one.gain:.2f})" if one.gain else ""
        found[f"{name}: {one.words}{published}"] = {"workload": name}
    return found


def claims(run: Run) -> Iterator[Claim]:
    """Yield what was published."""
    for name, one, single, many in _measured(run):
        if one.gain:
            what, said = f"{one.words} move more than one", f"{one.gain:.2f} times"
            yield Claim(what, said, many, single, gain=one.gain, place=name, most=one.paths)


_BOTH = [Column("one", "MB/s", {"side": "one"}), Column("several", "MB/s", {"side": "many"})]

STORY = Story(
    name="demo",
    about=__doc__,
    headline=headline,
    table=Grid(
        rows,
        [*_BOTH, Column("times", "MB/s", {"side": "many"}, to={"side": "one"}, plain=True)],
        corner="MB/s",
    ),
    plots=[Bars("workload", _BOTH)],
    claims=claims,
    places={
        name: LabConfig(addresses=one.paths, limits=one.limits) for name, one in WORKLOADS.items()
    },
    place="workload",
    factors={"workload": Factor([*WORKLOADS]), "side": Factor(SIDES)},
    job=job,
)
