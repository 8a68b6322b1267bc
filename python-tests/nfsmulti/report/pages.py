# SPDX-License-Identifier: GPL-2.0-only
"""The pages of a run: report.md, report.html and plots/."""

import dataclasses
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from nfsmulti import kept, showcase, texts, typed
from nfsmulti.bench import cost, stall
from nfsmulti.errors import HarnessError
from nfsmulti.paths import RESULTS, portable, shown, write_whole
from nfsmulti.report import cells, charts, conditions, measures, overtime, rows
from nfsmulti.report.answer import EMULATED, Answer, caveats, labels, next_command, ran
from nfsmulti.report.measures import MEASURES
from nfsmulti.report.story import Finding, Section, Told
from nfsmulti.report.told import Run, published, tell
from nfsmulti.stats import Sample, merged
from nfsmulti.stories import SCENARIOS
from nfsmulti.story import Story
from nfsmulti.summary import Cell, Summary
from nfsmulti.terminal import visible
from nfsmulti.texts import MISSING, Table

# Of all that keeps runs, by the names of their folders.
EVERY_STORY = {
    one.name: one for one in (*SCENARIOS.values(), showcase.STORY, *cost.STORIES, stall.STORY)
}

MARKDOWN, HTML, PLOTS = "report.md", "report.html", "plots"
TEMPLATES = {MARKDOWN: "report.md.j2", HTML: "report.html.j2"}
_FINDING = ("finding", "verdict", "published", "here", "why")
_FOLDER = Path(__file__).with_name("templates")
_FIGURES = (
    "Each figure is the mean of n repeats, ± half of its 95 % interval (Student's t); CV is their"
    " standard deviation in per cent of the mean. MB/s are 10^6 bytes per second. Latency is fio's"
    " clat; percentiles are of the bins of all jobs and repeats together, and only told where at"
    f" least {cells.BEYOND} I/Os took longer. CPU per operation “of fio's jobs” leaves out what the"
    " kernel does for a mount outside of them; “of the machine” is all, a server on it included."
)
_BEFORE_REASON = re.compile(r"^fio: status \d+: (nfsmulti: )?(security: )?")
_NOTHING = Told(Answer("No cell of this run has finished: there is nothing to report yet."))


def report(folders: Sequence[Path], *, published: bool) -> None:
    """Write the pages of these runs, or of the newest, and print where: `./nfsmulti report`."""
    for folder in folders or [kept.newest(RESULTS)]:
        with typed.understood(folder):
            write(folder, published=published)
        print(shown((folder / HTML).resolve()))


def write(folder: Path, *, published: bool = False) -> tuple[Answer, str]:
    """Write a run's report beside its summary.json; give its answer, and how a terminal shows it.

    Raises HarnessError where the summary cannot be read. Findings that were published are left out
    of a page on a user's own pool, unless `published`.

    A run that was interrupted, or has failed cells, gets a report of what there is, which says so.
    """
    summary = Summary.load(folder)
    story = EVERY_STORY.get(summary.scenario)
    if story is None:
        raise HarnessError(f"{folder}: there is no report for scenario '{summary.scenario}'")
    values = contents(story, summary, conditions.load(folder), published=published)
    plots = [plot for section in values["sections"] for plot in section.plots]
    svgs = {plot.name: charts.write(plot, folder / PLOTS, folder) for plot in plots}
    write_whole(folder / MARKDOWN, portable(render(TEMPLATES[MARKDOWN], values)))
    write_whole(folder / HTML, portable(page(**values, svgs=svgs)))
    rows.write(summary, folder)
    answer: Answer = values["answer"]
    text = answer.terminal(shutil.get_terminal_size().columns)
    after = next_command(summary, str(shown(folder)))
    return answer, f"{text}\n\n{shown(folder / HTML)}\nNext: {after}"


def naming(run: Summary) -> Callable[[Cell], str]:
    """Return what names the cells of a run by the factors in which they differ."""
    own = EVERY_STORY.get(run.scenario)
    return labels(run, Run(own, run).names if own else {})


def contents(
    story: Story, summary: Summary, environment: Mapping[str, Any], *, published: bool = False
) -> dict[str, Any]:
    """Return what the templates show, by name."""
    told = tell(story, summary) if summary.done else _NOTHING
    guest = conditions.guest(environment)
    answer = dataclasses.replace(
        told.answer,
        caveats=caveats(summary, told.answer.caveats, guest),
        ran=ran(summary, environment),
    )
    shows = published or "--published" in summary.command.split()
    shows |= summary.place.get("kind") != "pool"
    names = Run(story, summary).names
    sections = [
        *(one for one in told.sections if not one.folded),
        overtime.section(story.over_time(summary), names),
        *(_published(story, summary) if shows else []),
        *_not_measured(summary, names),
        *_troubles(summary, names),
        *(one for one in told.sections if one.folded),
    ]
    if summary.done:
        tables = [_cells_table(summary, names)]
        sections.append(Section("Every cell", _of_server(summary), tables, folded=True))
        sections += _calls(summary, names)
        points = [*told.reading, _FIGURES]
        sections.append(Section("How to read it", points=points, folded=True))
    sections += [
        Section("Conditions", tables=[conditions.table(summary, environment)], folded=True),
        Section("The command", lines=[summary.command], folded=True),
    ]
    when = texts.moment(summary.started) + (", quick" if summary.quick else "")
    own = "" if EMULATED in guest else guest  # else a caveat tells
    return {
        "title": story.begins[0],
        "label": summary.label,
        "about": ". ".join(filter(None, (when, conditions.in_short(summary), own))) + ".",
        "answer": answer,
        "sections": [one for one in sections if one.holds_anything],
        "data": rows.FILE,
    }


def _published(story: Story, summary: Summary) -> list[Section]:
    """Return the findings that were published, with the figures that they rest on."""
    findings, rows = published(story, summary)
    beside = Table(["figure", "published", "here"], rows, text_columns=3)
    found = [one for one in (findings_table(findings), beside) if one.rows]
    words = [story.begins[1]]
    return [Section("Published figures and ours", words, found)] if found else []


def _not_measured(summary: Summary, names: Mapping[str, str]) -> list[Section]:
    """List what the server lacks, or this client, with the reason in the engine's words."""
    points: dict[str, None] = {}
    skipped = [cell for cell in summary.cells if cell.status == "skipped"]
    skipped = [cell for cell in skipped if _BEFORE_REASON.match(cell.why or "")]
    varied = cells.varying(summary.cells)
    for why in dict.fromkeys(cell.why or "" for cell in skipped):
        alike = [cell for cell in skipped if cell.why == why]
        shared = [name for name in varied if len(cells.levels(alike, name)) == 1]
        what = cells.words({name: alike[0].factors[name] for name in shared}, names)
        points[f"{what}: {_BEFORE_REASON.sub('', why)}"] = None
    return [Section("Not measured", points=[*points])] * bool(points)


def render(template: str, values: Mapping[str, Any]) -> str:
    """Fill in one of the templates."""
    import jinja2  # which a run does without until its report

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"code": _code, "md": texts.markdown, "fenced": texts.fenced}
    return visible(environment.get_template(template).render(values)).rstrip() + "\n"


def page(
    title: str,
    about: str,
    answer: Answer,
    sections: Sequence[Section],
    *,
    label: str = "",
    data: str = "",
    svgs: Mapping[str, str] | None = None,
) -> str:
    """Return a page in HTML, which holds its plots; `data` is the name of a file beside it.

    `svgs` are its plots by name, where they have been drawn.
    """
    if svgs is None:
        plots = [plot for section in sections for plot in section.plots]
        svgs = {plot.name: charts.svg_of(plot.figure, plot.name) for plot in plots}
    drawn = {name: Markup(charts.inline(name, svg)) for name, svg in svgs.items()}
    values = {"title": title, "about": about, "answer": answer, "sections": sections}
    return render(TEMPLATES[HTML], {**values, "label": label, "data": data, "drawn": drawn})


def findings_table(found: Sequence[Finding]) -> Table:
    """Lay out what was published and what is found here, with its verdict."""
    rows = [[one.what, one.judged.verdict, one.theirs, one.ours, one.judged.why] for one in found]
    return Table(_FINDING, rows, text_columns=len(_FINDING))


def _troubles(summary: Summary, names: Mapping[str, str]) -> list[Section]:
    """Tell of the cells that failed, and of those that did not run, which the answer counts."""
    name, sections = labels(summary, names), []
    for status, title in (("failed", "Failed cells"), ("waiting", "Waiting cells")):
        found = [cell for cell in summary.cells if cell.status == status]
        rows = [[name(cell), str(cell.repeat), cell.why or texts.MISSING] for cell in found]
        table = Table(["cell", "repeat", "why"], rows, text_columns=3)
        if rows:
            sections.append(Section(title, tables=[table], folded=True))
    return sections


def _code(text: str) -> Markup:
    """Mark what stands between backquotes as code, in HTML; keep ± and % with their figures."""
    whole = (
        str(escape(text)).replace("± ", "±\N{NO-BREAK SPACE}").replace(" %", "\N{NO-BREAK SPACE}%")
    )
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", whole))


# --- all that was measured of each cell, in one table, whatever the scenario ---
# A figure that cells.csv has, too, has its name there.

_PERCENTS, _OF_LAT = (50, 99, 99.9, 99.99), (50, 99)  # of clat, and of lat where fio kept it
_OF_BOTH = (
    "jobs CPU µs/op", "machine CPU µs/op", "busiest job %", "processors %", "calls/op",
    "server %", "server Dirty MB", "server Cached MB",
)  # fmt: skip
_WAY = "reads or writes"


def _calls(summary: Summary, names: Mapping[str, str]) -> list[Section]:
    """Say where mounts' calls spent their time."""
    label = labels(summary, names)
    told = {label(found[0]): cells.mounted(found) for found in cells.by_name(summary.done).values()}
    points = [f"{name}: {said}." for name, said in told.items() if said]
    words = "By /proc/self/mountstats, which has no percentiles: see docs/arrivals.md."
    return [Section("Calls of the mounts", [words], points=points, folded=True)] * bool(points)


def _cells_table(summary: Summary, names: Mapping[str, str]) -> Table:
    """Lay out each cell and direction, without the columns that say nothing."""
    label, done = labels(summary, names), summary.done
    rows = [
        {"cell": label(found[0]), _WAY: way} | _cell_figures(found, way)
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


def _cell_figures(found: Sequence[Cell], way: str) -> dict[str, str]:
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
