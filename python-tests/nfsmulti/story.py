# SPDX-License-Identifier: GPL-2.0-only
"""What a story is: the factors that are varied, what fio runs at each combination, and where.

It starts, reads and computes nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nfsmulti import scenario
from nfsmulti.errors import HarnessError
from nfsmulti.scenario import OWN, CellSpec, Choice, Client, GuestPlace, OwnPool, Place, Scale
from nfsmulti.summary import Factor as Level_

if TYPE_CHECKING:
    from nfsmulti.report.measures import Take
    from nfsmulti.report.story import Finding, Section, Told
    from nfsmulti.report.told import Run
    from nfsmulti.summary import Summary

Level = Level_  # of a factor
Levels = Mapping[str, Level]  # of some factors: what a cell has, and where a figure is taken
Options = Mapping[str, Level | None]  # of fio; see CellSpec
_ONE_URL = "URLs after the first: a mount has one, and is compared with the same"


@dataclass(frozen=True)
class At:
    """One combination, as a job is asked for it: `at.streams`; where it runs, and how much of it.

    `pool` is what there is: a user's, or what the lab's place has. `query` asks its URLs for the
    transport and version that were chosen. `factors` are the story's.
    """

    levels: Levels
    scale: Scale
    place: str
    pool: OwnPool
    factors: Mapping[str, Factor] = field(default_factory=dict)
    proto: str = ""
    version: str = ""
    query: str = ""

    def __getattr__(self, name: str) -> Any:
        """Return the level of a factor."""
        try:
            return self.__dict__["levels"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def own(self) -> bool:
        """Whether it runs on a pool of the user."""
        return self.place == OWN

    def seconds(self, quick: float, full: float) -> float:
        """Return a cell's time."""
        return self.scale.seconds(quick, full)

    def size(self, tiny: int, quick: int, full: int) -> int:
        """Return a file's size; `tiny` is for the harness's own tests."""
        return tiny if self.scale.cell_seconds else quick if self.scale.quick else full

    def all(self, factor: str) -> list[Level]:
        """Return the levels of a factor that are run."""
        return self.factors[factor].at(self)

    def every(self) -> list[Levels]:
        """Return each combination of all factors but of those that are known, such as the place."""
        names = [name for name in self.factors if name not in self.levels]
        return [
            dict(zip(names, levels, strict=True))
            for levels in itertools.product(*map(self.all, names))
        ]

    def cell(
        self,
        jobfile: str,
        options: Options,
        seconds: float,
        lasts: Options | None = None,
        **fields: Any,
    ) -> CellSpec:
        """Return a cell whose jobs go on for so long, or as the options in `lasts` say.

        `fields` are others of CellSpec.
        """
        return CellSpec(
            **{"factors": {}, "place": "", "jobfile": jobfile, "seconds": seconds, **fields},
            options={**options, **(scenario.timed(seconds) if lasts is None else lasts)},
        )

    def mounted(self, cell: CellSpec, client: Client, factors: Levels, **more: Any) -> CellSpec:
        """Return the same cell on kernel mounts like its URLs; `factors` tell it apart."""
        return replace(
            cell,
            factors={**cell.factors, **factors},
            client=client,
            **{"mount_options": self.mount_options(), **more},
        )

    def mount_options(self) -> str:
        """Return nfs(5)'s options of a mount that is like the URLs."""
        connections = self.levels.get("nconnect") or self.connections
        return scenario.mount_options(self.proto, self.version, int(connections))


@dataclass(frozen=True)
class Factor:
    """What is varied; `quick` thins the levels, `asked` is the field of Choice instead of them.

    Those that are there `always` come before either.
    """

    levels: Sequence[Level] | Callable[[At], Sequence[Level]] = ()
    quick: Sequence[Level] = ()
    asked: str = ""
    always: Sequence[Level] = ()

    def at(self, where: At) -> list[Level]:
        """Return the levels that are run."""
        chosen = getattr(where.scale.choice, self.asked) if self.asked else ()
        found = chosen or (self.quick if where.scale.quick else ()) or self.levels
        return [*self.always, *(found(where) if callable(found) else found)]


# --- what is shown ---


@dataclass(frozen=True)
class Column:
    """A column: a figure of each row, at some further levels; of all repeats together if `pooled`.

    With `to` it is the ratio to the figure at these levels; None: a row has none. Both may depend
    on the row's. `plain` is not marked where it may be 1. What is `whole` is missing where a repeat
    lacks it.
    """

    heading: str
    measure: str
    at: Levels | Callable[[Levels], Levels] = field(default_factory=dict)
    to: Levels | Callable[[Levels], Levels | None] | None = None
    pooled: bool = False
    interval: bool = True
    plain: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Grid:
    """A table: a row for each combination of some factors' levels, or for each that is named."""

    rows: Sequence[str] | Mapping[str, Levels] | Callable[[Run], Mapping[str, Levels]]
    columns: Sequence[Column] | Callable[[Run], Sequence[Column]]
    corner: str | Callable[[Run], str] = ""
    title: str = ""


@dataclass(frozen=True)
class Ends:
    """A table of what one of a factor does, and the most, for each combination of other factors.

    `rows` are in the order of their words.
    """

    along: str
    rows: Sequence[str]
    where: Levels = field(default_factory=dict)


@dataclass(frozen=True)
class Knees:
    """A table of counts of a factor below each other, for each combination of all other factors.

    These are the fewest, those that are enough and the most: as many as there is room for.
    """

    along: str
    measure: Callable[[Run], str]


@dataclass(frozen=True)
class Lines:
    """Plots of measures over a factor that counts: one for each combination of `panels`' levels.

    A line stands for each combination of `lines`, or each level that is named. "p99 ms : MB/s" is
    one over the other, of all repeats together, with `log` axes. `ideal` dots as many times 1.
    """

    along: str
    lines: Sequence[str] | Mapping[str, Sequence[Level]]
    measures: Sequence[str] = ("MB/s",)
    panels: Sequence[str] | Mapping[str, Sequence[Level]] = ()
    at: Levels | Callable[[Run], Levels] = field(default_factory=dict)
    log: bool = False
    ideal: bool = False
    doublings: bool = True


@dataclass(frozen=True)
class Bars:
    """A plot of figures at each level of a factor, or at those that are named, side by side.

    Its title is that of the first figure.
    """

    factor: str | Callable[[Run], Mapping[str, Levels]]
    series: Sequence[Column]
    of: Levels = field(default_factory=dict)


@dataclass(frozen=True)
class Percentiles:
    """A plot of percentiles of reads: a line for each level of a factor, or each named."""

    factor: str | Callable[[Run], Mapping[str, Levels]]
    percents: Sequence[float] = (50, 95, 99, 99.9)


@dataclass(frozen=True)
class Beside:
    """A published figure, and ours at these levels; `ratio` is theirs to that at `of`.

    `{where}` stands for the place's words, `{hosts}` for "on each of 2 hosts". With a `why` it is a
    finding that cannot be tested here, too.
    """

    what: str
    theirs: str
    at: Levels | None = None
    ratio: float | None = None
    of: Levels | None = None
    ours: str | Callable[[Run, Levels], str] = ""
    measure: str = "MB/s"
    why: str = ""


@dataclass(frozen=True)
class Claim:
    """What somebody found: a ratio of the figures at two places.

    It is held to half of `gain`, theirs, as far as the limits of `place` allow that for `most`
    paths; or must be `above` or `below` a limit. `each` has the two places of several ratios by
    name, of which the weakest decides. `why`: it cannot be tested here.
    """

    what: str
    said: str
    over: Levels | None = None
    under: Levels | None = None
    measure: str = "MB/s"
    each: Mapping[str, tuple[Levels, Levels]] = field(default_factory=dict)
    gain: float = 0.0
    place: str = ""
    most: int = 1
    above: float = 0.0
    below: float = 0.0
    why: str = ""


Laid = Grid | Ends | Knees
Shown = Lines | Bars | Percentiles


@dataclass(frozen=True, kw_only=True)
class Story:
    """One story: a page, and a command `run NAME`; without a `job` the page alone.

    `about` begins with the page's title, and with what was published. Of a module in stories/ it is
    the docstring, and `name` the file's. `names` is what levels are called, and each level of a
    factor, such as "{} KiB reads". `stands` has levels that stand for any other: a user's own pool
    for each place of a lab. `figures` are the story's own, or instead of others. `caveats`, `more`
    and `findings`, functions of few lines, add what a story alone has. `any_factors`: it tells
    further factors itself. `tell` stands for all that is said before what was published;
    `over_time` chooses the cells that are drawn so.

    `job` returns what fio runs at a combination: at each, or at those that `combinations` returns,
    of which some may have those of `of_some`, too. A level that it gives itself is what pages call
    it. The factor `place` says where. A factor `version` varies as was chosen, `transport` too;
    such a story runs in the guest where it takes a kernel. `twin` returns the same cell on kernel
    mounts, for --mounts. Of a user's pool `urls_alone` says why directories are of no use, and
    `left_out` what else does not run.
    """

    name: str = ""
    about: str = ""
    names: Mapping[str, str] | Callable[[Run], Mapping[str, str]] = field(default_factory=dict)
    stands: Levels = field(default_factory=dict)
    figures: Callable[[Run], Mapping[str, Take]] = lambda _: {}
    headline: Callable[[Run], str] = lambda _: ""
    table: Laid | Callable[[Run], Laid] = Grid({}, ())
    caveats: Callable[[Run], Sequence[str]] = lambda _: ()
    plots: Sequence[Shown] | Callable[[Run], Sequence[Shown]] = ()
    more: Callable[[Run], Sequence[Section]] = lambda _: ()
    beside: Sequence[Beside] | Callable[[Run], Sequence[Beside]] = ()
    claims: Iterable[Claim] | Callable[[Run], Iterable[Claim]] = ()
    findings: Callable[[Run], Iterable[Finding]] = lambda _: ()
    reading: Sequence[str] | Callable[[Run], Sequence[str]] = ()
    differs: str = ""
    any_factors: bool = False
    tell: Callable[[Summary], Told] | None = None
    over_time: Callable[[Summary], Summary] = lambda summary: summary
    places: Mapping[str, Place] = field(default_factory=dict)
    place: str = ""
    factors: Mapping[str, Factor]
    of_some: Sequence[str] = ()
    job: Callable[[At], CellSpec] | None = None
    combinations: Callable[[At], Iterable[Levels]] = At.every
    twin: Callable[[CellSpec, At], CellSpec | None] | None = None
    urls_alone: str = ""
    left_out: Callable[[At], Sequence[str]] = lambda _: ()
    repeats: int = 3
    quick_repeats: int = 3  # the fewest that give an interval

    @property
    def begins(self) -> tuple[str, str]:
        """What the page is called, and who published what; "" for nothing."""
        every = [" ".join(one.split()) for one in self.about.split("\n\n")]
        published = (one for one in every if one.startswith("Published"))
        return every[0].removesuffix("."), next(published, "")

    @property
    def known(self) -> list[str] | None:
        """The factors that its page knows of; None: it takes any."""
        return None if self.any_factors else [*self.factors, *self.of_some]

    def cells(self, scale: Scale) -> list[CellSpec]:
        """Return what is run in its places of the lab."""
        kernel = scale.choice.mounts or "rdma" in scale.choice.proto
        found = []
        for name, place in self.places.items():
            guest = isinstance(place, GuestPlace)
            if "version" not in self.factors or guest == kernel:
                pool = OwnPool(1, 1) if guest else OwnPool(getattr(place, "addresses", 1), 0)
                found += self._cells(scale, name, pool)
        return found

    def own_cells(self, scale: Scale, pool: OwnPool) -> tuple[list[CellSpec], list[str]]:
        """Return what is run on a user's pool, and in a line each what is not."""
        if self.urls_alone and not pool.urls:
            return [], [f"{self.name} needs URLs in the pool: {self.urls_alone}"]
        found, said = self._cells(scale, OWN, pool), [*self.left_out(At({}, scale, OWN, pool))]
        said += [f"directories: {self.urls_alone}"] * bool(self.urls_alone and pool.mounts)
        alone = any(cell.client == "mount" for cell in found)
        one_url = alone and pool.urls > 1 and all(cell.paths == 1 for cell in found)
        return found, said + [_ONE_URL] * one_url

    def _cells(self, scale: Scale, place: str, pool: OwnPool) -> list[CellSpec]:
        chooses = "version" in self.factors
        choice = scale.choice if chooses and pool.urls else Choice()
        found = []
        for proto, version, query in scenario.ways(choice, pool if place == OWN else None):
            known = {self.place: place} if self.place else {}
            chosen = {"transport": proto, "version": version} if chooses else {}
            known |= {name: level for name, level in chosen.items() if name in self.factors}
            where = At({**known}, scale, place, pool, self.factors, proto, version, query)
            for levels in self.combinations(where):
                in_order = {name: {**known, **levels}[name] for name in self.factors}
                found += self._at(replace(where, levels={**in_order, **levels}))
        return found

    def _at(self, at: At) -> list[CellSpec]:
        assert self.job
        cell = self.job(at)
        cell = replace(cell, factors={**at.levels, **cell.factors}, place=at.place)
        if not (self.twin and at.scale.choice.mounts):
            return [cell]
        if not at.own and not isinstance(self.places[at.place], GuestPlace):
            raise HarnessError(
                f"--mounts: the lab has no kernel client for {self.name}",
                "give the --pool of a server that this machine can mount",
            )
        return [cell, *filter(None, [self.twin(cell, at)])]
