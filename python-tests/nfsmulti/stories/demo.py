# SPDX-License-Identifier: GPL-2.0-only
"""demo: three workloads on one connection and on several, under limits that a machine can carry.

Factors: workload, side (one, many). Each sentence follows from the figures; the verdict is that of
the reports (report/story.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import rich.table

from nfsmulti import texts
from nfsmulti.lab import Fit, Limits
from nfsmulti.report import cells, charts
from nfsmulti.report.answer import Answer
from nfsmulti.report.story import Judged, Report, Section, Story, Verdict, judge
from nfsmulti.stats import Ratio, Sample
from nfsmulti.stories.scenario import CellSpec, timed
from nfsmulti.summary import Cell, Factor, Summary
from nfsmulti.texts import Table, rate_text, time_text

# --- what runs ---

REPEATS = 3
SIDES = ("one", "many")
LAB = "lab"  # summary.place's kind where the servers are real ones

_MIB = 1 << 20


@dataclass(frozen=True)
class Side:
    """One side of a comparison: in a row of the table, in a sentence with its verb, for fio."""

    row: str
    words: str
    options: dict[str, Factor | None]
    paths: int = 1


@dataclass(frozen=True)
class Workload:
    """A jobfile, run with `options` and those of each side.

    `link` and `cap` are limits in tc's words, which are lowered in their proportion to what the
    machine can carry. Where they are a publication's, a cap holds for each path of the side `many`,
    which is an address of a lab; otherwise `per_connection`. There are `connections` of them.
    `files` must be there. `theirs` is the ratio to hold ours against, and `said` where it comes
    from.
    """

    name: str
    jobfile: str
    options: dict[str, Factor | None]
    one: Side
    many: Side
    connections: int
    link: str
    cap: str
    theirs: float
    said: str
    files: dict[str, int] = field(default_factory=dict)
    per_connection: bool = False

    @property
    def capped(self) -> str:
        """What a cap holds for."""
        return "connection" if self.per_connection else "path"

    def limits(self, fit: Fit) -> Limits:
        """Give the limits to set: a link and a cap on each address, or a cap on each connection."""
        limits = fit.limits
        if self.per_connection:
            return Limits(per_connection=limits.per_address, burst=limits.burst)
        return limits


_DD = Workload(
    name="dd",
    jobfile="dd-write.fio",
    options={"size": 64 * _MIB},
    one=Side("dd-write, 1 stream", "one stream does", {}),
    many=Side("dd-write, 5 streams", "five streams on five paths write", {"numjobs": 5}, paths=5),
    connections=5,
    link="1gbit",
    cap="200mbit",
    theirs=72 / 19.4,
    said="published: 3.71 times (AIX, 1 GbE: 19.4 MB/s, five streams 72 MB/s)",
)
_FSPERF = Workload(
    name="fsperf",
    jobfile="fsperf.fio",
    options={"size": 256 * _MIB},
    one=Side("fsperf, 1 path", "it does on one path", {}),
    many=Side(
        "fsperf, 4 paths", "one reader reads on four paths", {"spread": "roundrobin"}, paths=4
    ),
    connections=4,
    link="9400mbit",
    cap="6200mbit",
    theirs=1100 / 718,
    said="published: 1.53 times (NFSv3, 10 GbE: 718 MB/s, four mounts 1100 MB/s)",
    files={"nfsmulti-fsperf": 256 * _MIB},
)
# Where nothing is published, a "link" of twice all caps together only keeps these well below what
# the machine carries: then they are reached beside other programs too.
_RANDREAD = Workload(
    name="randread",
    jobfile="randread.fio",
    options={"numjobs": 1},
    one=Side("randread, nconnect=1", "one does", {"nconnect": 1}),
    many=Side(
        "randread, nconnect=4",
        "four connections to one address read",
        {"nconnect": 4, "spread": "roundrobin"},
    ),
    connections=4,
    link="18800mbit",
    cap="2350mbit",
    theirs=4.0,
    said="four caps together allow 4.00 times",
    files={"nfsmulti-randread": 10_000_000},
    per_connection=True,
)

IN_LAB = (_DD, _FSPERF, _RANDREAD)

# Pacing caps what a server sends on a connection: there are reads alone, and no link to share.
ON_LOOPBACK = (
    dataclasses.replace(
        _DD,
        jobfile="dd-read.fio",
        one=dataclasses.replace(_DD.one, row="dd-read, 1 stream"),
        many=dataclasses.replace(
            _DD.many, row="dd-read, 5 streams", words="five streams on five paths read"
        ),
        link="2gbit",
        theirs=5.0,
        said="five caps together allow 5.00 times",
        per_connection=True,
    ),
    dataclasses.replace(
        _FSPERF, link="49600mbit", theirs=4.0, said=_RANDREAD.said, per_connection=True
    ),
    _RANDREAD,
)


def cell_of(workload: Workload, side: str, seconds: float) -> CellSpec:
    """Give what runs of a side for so long."""
    chosen = workload.one if side == "one" else workload.many
    return CellSpec(
        factors={"workload": workload.name, "side": side},
        place=workload.name,
        jobfile=workload.jobfile,
        options={**workload.options, **chosen.options, **timed(seconds)},
        seconds=seconds,
        paths=chosen.paths,
        files=workload.files,
    )


# --- what it tells ---

# The part of a limit in data, without headers, from which on it was reached, and that from which on
# the figure need not be said; and the part of the processors' time from which on these were busy.
_REACHED, _FULL, _BUSY = 0.85, 0.97, 0.95


@dataclass(frozen=True)
class Outcome:
    """The repeats of a workload's two sides, under the limits that `fit` has found.

    `why` says in a line why it was not measured, None where it was.
    """

    workload: Workload
    fit: Fit | None = None
    one: Sequence[Cell] = ()
    many: Sequence[Cell] = ()
    why: str | None = None

    @property
    def ratio(self) -> Ratio | None:
        """The bandwidth of many connections as a multiple of one's."""
        return cells.ratio(self.many, self.one, cells.bandwidth)

    @property
    def judged(self) -> Judged:
        """Whether it shows what it is there for, which only all repeats together can tell."""
        allowed = None
        if self.fit and not any(why for _, why in _reaches(self, self.fit)):
            allowed = min(self.workload.connections, self.fit.link / self.fit.cap)
        return judge(self.ratio, self.workload.theirs, allowed)


def outcomes(summary: Summary) -> list[Outcome]:
    """Give what each workload of a demo has shown."""
    found = []
    for workload in IN_LAB if summary.place["kind"] == LAB else ON_LOOPBACK:
        own = [cell for cell in summary.cells if cell.factors["workload"] == workload.name]
        if why := next((cell.why for cell in own if cell.status == "failed"), None):
            found.append(Outcome(workload, why=why))
            continue
        one, many = ([cell for cell in own if cell.factors["side"] == side] for side in SIDES)
        fit = summary.place["fitted"].get(workload.name)
        found.append(Outcome(workload, Fit(**fit) if fit else None, one, many))
    return found


def table(found: Sequence[Outcome]) -> rich.table.Table:
    """Show outcomes, two rows each, in 80 columns."""
    shown = _figures(found).terminal()
    for last_of_two in shown.rows[1::2]:
        last_of_two.end_section = True
    return shown


def _figures(found: Sequence[Outcome]) -> Table:
    rows = []
    for one in found:
        last = f"{one.ratio.value:.2f}" if one.ratio else texts.MISSING
        rows.append([*_row(one.workload.one, one.one), "1"])
        rows.append([*_row(one.workload.many, one.many), last])
    headings = ("", "MB/s", "IOPS", "mean", "p99", "CPU", "ratio")
    return Table(headings, rows, "The same jobfile on one connection and on several")


def _row(side: Side, repeats: Sequence[Cell]) -> list[str]:
    """Give a side's cells: MB/s, IOPS, mean and p99 of latency, cores of fio's own CPU."""
    figures = [one for cell in repeats for one in cells.sides(cell)]
    if not figures:
        return [side.row, *[texts.MISSING] * 5]
    mean = sum(one.mean_us * one.ops for one in figures) / sum(one.ops for one in figures)
    p99 = cells.percentile_of(repeats, 99) or 0.0
    cpu = sum(cell.cpu_s for cell in repeats) / sum(one.seconds for one in figures)
    return [
        side.row,
        texts.mean(_rate(repeats), scale=1e6),
        texts.mean(cells.sample(repeats, cells.iops)),
        time_text(mean * 1000),
        time_text(p99 * 1000),
        f"{cpu:.0%}",
    ]


def _rate(repeats: Sequence[Cell]) -> Sample | None:
    return cells.sample(repeats, cells.bandwidth)


def story(outcome: Outcome) -> str:
    """Say what an outcome shows, or that it does not and why."""
    workload, ratio, fit = outcome.workload, outcome.ratio, outcome.fit
    if outcome.why or ratio is None or fit is None:
        return f"{workload.name} was not measured: {outcome.why or 'one side has no figures'}."
    rates = [texts.mean(_rate(side), "MB/s", 1e6) for side in (outcome.many, outcome.one)]
    parts = (
        f"{workload.name}: {workload.many.words} {ratio.text} times what {workload.one.words}"
        f" ({' against '.join(rates)}); {workload.said}.",
        outcome.judged.text,
        _held_by(outcome, fit),
        _shares(outcome.many),
    )
    return " ".join(filter(None, parts))


def _held_by(outcome: Outcome, fit: Fit) -> str:
    """Say which limits the sides have reached, and why an effect is missing, as far as known."""
    reaches = _reaches(outcome, fit)
    said = " ".join(f"{text}." for text, _ in reaches)
    if outcome.judged.verdict in (Verdict.REPRODUCED, Verdict.BY_CONSTRUCTION):
        return said
    if (repeats := min(len(outcome.one), len(outcome.many))) < REPEATS:
        return f"There was time for {repeats} of {REPEATS} repeats on this machine. {said}"
    if any(why for _, why in reaches):
        return " ".join(f"{text}{why}." for text, why in reaches)
    return f"{said} No reason was found."


def _reaches(outcome: Outcome, fit: Fit) -> list[tuple[str, str]]:
    """Hold both sides against the limits that they can reach.

    Gives how far each came, in words, and why it stayed below its limit, "" where it did not.
    """
    caps = outcome.workload.connections * fit.cap
    whose, limit = ("the link's", fit.link) if fit.link < caps else ("all caps'", caps)
    cap, several = f"its cap of {rate_text(fit.cap)}", f"{whose} {rate_text(limit)}"
    return [
        _reach(f"One {outcome.workload.capped}", "has", outcome.one, fit.cap, cap),
        _reach("Several", "have", outcome.many, limit, several),
    ]


def _reach(who: str, has: str, side: Sequence[Cell], limit: int, name: str) -> tuple[str, str]:
    part = found.mean * 8 / limit if (found := _rate(side)) else 0.0
    if part >= _REACHED:
        return f"{who} {has} reached {'' if part >= _FULL else f'{part:.0%} of '}{name}", ""
    busy = cells.sample(side, cells.processors_busy)
    cores = f"{busy.mean:.0%} of {side[0].processors} cores were busy" if busy else ""
    why = f": no reason was found{f' ({cores})' if cores else ''}"
    if busy and busy.mean >= _BUSY:
        others = "fio, its servers and whatever else runs here"
        why = f": the processors are the limit, {cores} with {others}"
    return f"{who} stayed at {part:.0%} of {name}", why


def _shares(repeats: Sequence[Cell]) -> str:
    """Say how evenly the paths were used, where there are several."""
    shares = cells.shares(repeats).values()
    each = " ".join(f"{share:.0%}" for share in shares)
    return f"Share of each path: {each}." if len(shares) > 1 else ""


_NEXT_IN_LAB = """\
  ./nfsmulti lab start --link {link} --per-address {per_address} --assured {assured} \
--burst {burst}
  ./nfsmulti lab exec -- fio --ioengine=external:./build/libnfsmulti.so --pool=lab \
--spread=stripe jobfiles/fsperf.fio
  ./nfsmulti lab stop
"""
_NEXT_ANYWHERE = """\
With a server of your own:
  ./nfsmulti doctor --pool='nfs://SERVER/EXPORT'
  fio --ioengine=external:./build/libnfsmulti.so --pool='nfs://10.0.0.[1-4]/EXPORT' \
--spread=roundrobin jobfiles/fsperf.fio"""


def to_type(found: Sequence[Outcome]) -> str:
    """Give the lines to type next: first those of a lab like fsperf's, if that has run in one."""
    fits = [one.fit for one in found if one.fit and one.workload is _FSPERF]
    in_lab = _NEXT_IN_LAB.format(**dataclasses.asdict(fits[0].limits)) if fits else ""
    return in_lab + _NEXT_ANYWHERE


def write_plot(found: Sequence[Outcome], file: Path) -> None:
    """Draw bandwidth on one connection and on several, a panel for each workload; writes a PNG.

    It is as narrow as a phone; in print a hatch tells the one connection apart.
    """
    from matplotlib.figure import Figure  # which takes half a second to load

    figure = Figure(figsize=(4.2, 1.7 * len(found)), layout="constrained")
    for panel, outcome in zip(figure.subplots(len(found), 1), found, strict=True):
        workload, ratio = outcome.workload, outcome.ratio
        labels = [side.row.split(", ")[-1] for side in (workload.one, workload.many)]
        rates = [_rate(outcome.one), _rate(outcome.many)]
        means = [rate.mean / 1e6 if rate else 0.0 for rate in rates]
        bars = panel.barh(labels, means, color=[charts.COLOURS[1], charts.COLOURS[0]], height=0.7)
        bars[0].set(hatch="//", edgecolor="white")
        for place, (mean, rate) in enumerate(zip(means, rates, strict=True)):
            values = [value / 1e6 for value in rate.values] if rate else []
            panel.plot(values, [place] * len(values), ".", color="black", alpha=0.6)
            right = max([mean, *values])
            panel.text(right, place, f"  {texts.mean(rate, scale=1e6)}", va="center")
        shown = f"{ratio.text} times" if ratio else "not measured"
        panel.set_title(f"{workload.name}: {shown}", fontsize="medium", fontweight="bold")
        panel.set_xlabel("MB/s\n" + workload.said.replace(" (", "\n("), fontsize="small")
        panel.set_xlim(0, 1.2 * max(panel.get_xlim()))
        panel.invert_yaxis()
        panel.spines[["top", "right"]].set_visible(False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150)


def _tell(summary: Summary) -> Story:
    found = outcomes(summary)
    ratios = [f"{one.ratio.value:.2f} ({one.workload.name})" for one in found if one.ratio]
    headline = f"{texts.several(ratios) or 'No'} times the bandwidth of one connection."
    rows = [
        [
            one.workload.name,
            *(texts.measured(_rate(side), 1e6) for side in (one.one, one.many)),
            texts.times(one.ratio),
        ]
        for one in found
    ]
    table = Table(["", "one, MB/s", "several, MB/s", "times"], rows)
    section = Section(
        "One connection, and several", [story(one) for one in found], [_figures(found)]
    )
    return Story(Answer(headline, table), [section])


REPORT = Report(
    title="demo: one connection and several",
    factors=("workload", "side"),
    tell=_tell,
)
