# SPDX-License-Identifier: GPL-2.0-only
"""Makes what is made of the documents: README's pictures, the options, messages and findings.

The pictures are drawn out of the reference runs: what a pool gives, what the client costs, and what
is reported of a server that stalls. Bars and their figures are ratios: times what one connection
carries, and per cent of the CPU time that fio's nfs engine takes per operation. The ground is
white, so that dark pages show it too; text stays legible on a phone, and in print a hatch tells the
one connection apart.

fio prints the engine's own table of options (--enghelp). What it does not say stands in
docs/options.md, under a heading with the option's name; nfsmulti(7) takes it from there.
docs/messages.md has, in tables made from the sources, the messages that no row by hand explains.
results/README.md has all published figures beside those of the reference runs, and
docs/summary.schema.json the fields of summary.json.

    build/venv/bin/python3 python-tests/made_docs.py
"""

from __future__ import annotations

import dataclasses
import json
import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from markupsafe import Markup

import messages
from nfsmulti import texts
from nfsmulti.bench import cost, stall
from nfsmulti.fiorun import Engine
from nfsmulti.paths import RESULTS, ROOT
from nfsmulti.processes import run
from nfsmulti.report import cells, charts, conditions, measures, pages
from nfsmulti.report.told import published
from nfsmulti.stats import Ratio
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import FILE, SCHEMA, VERSION, Summary
from nfsmulti.texts import Table, rate_text
from nfsmulti.units import parse_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOCS = ROOT / "docs"
REFERENCE = "reference"

# --- README's pictures ---

_WIDTH = 4.2  # inches: two fit beside each other on GitHub, one on a phone
_LIMITS = "capped"  # the half of the connections scenario where each connection has a cap


def write_pictures(folder: Path = DOCS) -> list[Path]:
    """Draw all."""
    pool, stalled = _reference("connections"), _reference("stall")
    limits = pool.place["limits"][_LIMITS]
    link, cap = parse_rate(limits["link"]), parse_rate(limits["per_connection"])
    of_pool = f"(64k reads; cap of each: {rate_text(cap)})"
    of_stall = f"Latency in ms at {stall.RATE:,} I/O/s, of a server"
    pictures: dict[str, tuple[str, Callable[[Axes], None]]] = {
        "pool": (
            f"Throughput, times one connection\n{of_pool}",
            lambda axes: _draw_pool(axes, pool, link, cap),
        ),
        "cost": (
            "CPU per operation, fio's nfs engine = 100 %\n(NFSv3, TCP, one connection; d: iodepth)",
            _draw_cost,
        ),
        "stall": (
            f"{of_stall}\nthat stops for 0.5 s in every 5 s",
            lambda axes: stall.draw(axes, stall.waits_of(stalled)),
        ),
    }
    return [_draw(folder / f"{name}.svg", *picture) for name, picture in pictures.items()]


def _reference(name: str) -> Summary:
    return Summary.load(RESULTS / REFERENCE / name)


def _draw(file: Path, title: str, draw: Callable[[Axes], None]) -> Path:
    figure, (axes,) = charts.panels(title, 1, _WIDTH)
    draw(axes)
    text = charts.svg_of(figure, file.stem, {"hatch.linewidth": 0.6})
    file.write_text("".join(f"{line.rstrip()}\n" for line in text.splitlines()))
    return file


def _draw_pool(axes: Axes, run: Summary, link: int, cap: int) -> None:
    """Draw one job's throughput, in times that of one connection; rates are in bit/s."""
    found = cells.by_count(cells.at(run.done, {"limits": _LIMITS, "jobs": 1}), "nconnect")
    first = next(iter(found.values()))
    ratios = [cells.ratio(those, first, measures.MB_PER_S) for those in found.values()]
    values = [ratio.value for ratio in ratios if ratio]
    bars = axes.bar([str(n) for n in found], values, width=0.65, color=charts.COLOURS[0])
    bars[0].set(facecolor=charts.COLOURS[1], hatch="//", edgecolor="white")
    axes.bar_label(bars, [f"{value:.1f}x" for value in values], padding=3, fontweight="bold")
    axes.axhline(link / cap, color=charts.INK, linestyle=":", linewidth=1.4)
    axes.text(-0.45, 1.02 * link / cap, f"link: {rate_text(link)}")
    axes.set_ylim(0, 1.2 * link / cap)
    axes.set_xlabel("connections to one address (nconnect)")


def _draw_cost(axes: Axes) -> None:
    """Draw a bar for each ratio, in per cent, with its interval."""
    ratios = cost_ratios()
    for row, (_, ratio) in enumerate(ratios):
        low, high = ratio.low or ratio.value, ratio.high or ratio.value
        error = [[100 * (ratio.value - low)], [100 * (high - ratio.value)]]
        axes.barh(row, 100 * ratio.value, 0.65, xerr=error, capsize=3, color=charts.COLOURS[0])
        right = max(103, 100 * high + 3)  # of the line at 100, over which nothing is written
        axes.text(right, row, f"{100 * ratio.value:.0f} %", va="center", weight="bold")
    axes.axvline(100, color=charts.INK, linestyle=":", linewidth=1.4)
    axes.set_yticks(range(len(ratios)), [name for name, _ in ratios])
    axes.invert_yaxis()
    axes.set_xlim(0, 125)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("%, with 95 % intervals; less is better")


def cost_ratios() -> list[tuple[str, Ratio]]:
    """Return our CPU per operation over fio's nfs engine's, of each case on one connection."""
    return [
        (one.workload.replace(", depth ", ", d"), one.cpu)
        for one in cost.pairs_of(_reference("client-cost"))
        if one.beside == cost.PEER and "connections" not in one.workload
    ]


# --- the options, and the messages ---


PAGE, MANUAL = DOCS / "options.md", ROOT / "man/nfsmulti.7"
MESSAGES = DOCS / "messages.md"
_IN_PAGE = ("<!-- options begin -->\n", "<!-- options end -->\n")
_IN_MANUAL = (".Sh OPTIONS\n", ".Sh NFSv4.1\n")
_SECONDS = 20.0


@dataclass(frozen=True)
class Option:
    """An option as fio shows it. `values` are its words with what they mean, or a range alone."""

    name: str
    alias: str
    help: str
    values: list[tuple[str, str]]
    default: str


def write_options(
    page: Path = PAGE, manual: Path = MANUAL, explained: Path = MESSAGES
) -> list[Path]:
    """Bring all in step with the engine, which must be built, and the sources."""
    names = re.findall(r"^(\w+) +:", _ask(), re.MULTILINE)
    options = [option for name in names if (option := _read(name, _ask(f",{name}")))]
    _replace(page, _IN_PAGE, _table(options))
    _replace(manual, _IN_MANUAL, _list(options, _details(page.read_text())))
    explained.write_text(messages.filled(explained.read_text(), ROOT))
    return [page, manual, explained]


def _ask(option: str = "") -> str:
    engine = Engine.built()
    library = engine.library
    argv = ["fio", f"--enghelp=./{library.name}{option}"]
    return run(argv, timeout=_SECONDS, cwd=library.parent, env=dict(engine.env)).check().stdout


def _read(name: str, said: str) -> Option | None:
    """Return an option; None where it is gone."""
    lines = dict(re.findall(r"^ *([\w ]+?): (.+)$", said, re.MULTILINE))
    if lines["type"] == "unsupported":
        return None
    values = re.findall(r"^ *(?:valid values)?: (\S+) +(.+)$", said, re.MULTILINE)
    values = [(word, what) for word, what in values if what != "Not supported"]
    if "range" in lines:
        lowest, _, highest = re.sub(r"m(in|ax)=", "", lines["range"]).partition(", ")
        values = [(f"{lowest} to {highest}" if highest else f"{lowest} or more", "")]
    if lines["type"].startswith("boolean"):
        values = [("0", ""), ("1", "")]
    default = lines["default"].replace("no default", "")
    return Option(name, lines.get("alias", ""), lines[name], values, default)


def _table(options: list[Option]) -> str:
    rows = []
    for one in options:
        name = f"`{one.name}`" + (f", `{one.alias}`" if one.alias else "")
        values = "<br>".join(f"`{word}` {what}".strip() for word, what in one.values)
        rows.append([name, values or "-", one.default or "-", one.help])
    table = Table(["option", "values", "default", "what it is"], rows, text_columns=4)
    return table.markdown().replace("&lt;br>", "<br>")  # the breaks are ours


def _details(page: str) -> dict[str, str]:
    """Return each option's text below its heading."""
    return dict(re.findall(r"^### (\w+)\n\n(.+?)(?=\n\n#|\n*\Z)", page, re.MULTILINE | re.DOTALL))


def _list(options: list[Option], details: dict[str, str]) -> str:
    lines = [".Bl -tag -width Ds"]
    for one in options:
        lines.append(f".It Cm {one.name}" + (f" , {one.alias}" if one.alias else ""))
        lines += _sentences(one.help)
        if one.values:
            words = [_code(word) + (f" ({what})" if what else "") for word, what in one.values]
            lines.append(f"Values: {', '.join(words)}.")
        if one.default:
            lines.append(f"Default: {_code(one.default)}.")
        lines += _sentences(details.get(one.name, ""))
    return "\n".join([*lines, ".El"]) + "\n"


def _sentences(text: str) -> list[str]:
    """Make mdoc of a paragraph, a line for each sentence."""
    text = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", " ".join(text.split())).replace("\\", "\\e")
    text = text.replace("./build/nfsmulti-pool", "nfsmulti-pool")  # as it is installed
    text = re.sub(r"`([^`]+)`", lambda match: _code(match[1]), text)
    text = re.sub(r"\*([^*]+)\*", r"\\fI\1\\fR", text)
    if text and text[-1] not in ".:":
        text += "."
    return [
        f"\\&{line}" if line[:1] in ".'" else line
        for line in re.split(r"(?<=\.) (?=[A-Z\\])", text)
        if line
    ]


def _code(text: str) -> str:
    return "\\fB" + text.replace("-", "\\-") + "\\fR"


def _replace(file: Path, marks: tuple[str, str], text: str) -> None:
    """Put a text between two lines of a file."""
    begin, end = marks
    before, after = file.read_text().split(begin, 1)
    file.write_text(f"{before}{begin}{text}{end}{after.split(end, 1)[1]}")


# --- the published findings ---

_HEAD = """\
# Published findings and ours

Each row is a finding: the published figure, ours from the reference runs below, and the verdict,
with the reason in the last column; `docs/reports.md` explains the verdicts. Ratios have their 95 %
interval over the repeats. All figures and conditions are in the reports.

`python-tests/made_docs.py` makes this page; the commands of the reference runs repeat them.
"""
_END = """\
What the client itself costs per operation, beside fio's own nfs engine and beside plain sockets, is
in [reference/client-cost](reference/client-cost/report.md).
"""


def write_findings(results: Path = RESULTS) -> Path:
    """Write results/README.md from the runs in results/reference.

    Of several runs of one scenario, that has the findings whose folder has the scenario's name.
    """
    folders = sorted({file.parent for file in (results / REFERENCE).glob(f"*/{FILE}*")})
    runs = {folder.name: Summary.load(folder) for folder in folders}
    found: dict[str, tuple[str, Summary]] = {}
    for name, summary in runs.items():
        if name == summary.scenario or summary.scenario not in found:
            found[summary.scenario] = name, summary
    parts = [_HEAD, _findings(found).markdown(), "## The reference runs\n", _runs(runs).markdown()]
    file = results / "README.md"
    file.write_text("\n".join([*parts, _END]))
    return file


NO_RUN = Summary("", "", "", "", False, "", {}, [])


def _findings(found: dict[str, tuple[str, Summary]]) -> Table:
    """Lay every published finding beside that of its reference run, with the verdict."""
    tables = []
    for name, scenario in SCENARIOS.items():
        folder, summary = found.get(name, ("", NO_RUN))
        where = _link(folder, name) if folder else name
        judged = pages.findings_table(published(scenario, summary)[0])
        tables.append((where, judged))
    headings = ["report", *tables[0][1].headings]
    rows = [[where, *row] for where, judged in tables for row in judged.rows]
    return Table(headings, rows, text_columns=len(headings))


def _runs(runs: dict[str, Summary]) -> Table:
    rows = [
        [
            _link(folder, folder),
            texts.moment(summary.started),
            f"{len(summary.done)} of {len(summary.cells)}",
            conditions.in_short(summary) + (", quick" if summary.quick else ""),
            f"`{summary.command}`",
        ]
        for folder, summary in runs.items()
    ]
    return Table(["run", "started", "cells done", "where", "command"], rows, text_columns=5)


def _link(folder: str, words: str) -> Markup:
    return Markup(f"[{words}]({REFERENCE}/{folder}/{pages.MARKDOWN})")


# --- the schema of summary.json ---

_PLAIN = {
    str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null",
}  # fmt: skip


def write_schema(file: Path = DOCS / "summary.schema.json") -> Path:
    """Write the JSON schema of summary.json, as its classes have it.

    A later harness may add fields, so that unknown ones are allowed.
    """
    classes: dict[str, Any] = {}
    _of_class(Summary, classes)
    made = classes.pop("Summary")
    head = {"schema": {"const": SCHEMA}, "version": {"const": VERSION}}
    found = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        "properties": {**head, **made["properties"]},
        "required": [*head, *made["required"]],
        "$defs": classes,
    }
    file.write_text(json.dumps(found, indent="\t") + "\n")
    return file


def _of_class(kind: type, classes: dict[str, Any]) -> None:
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind)
    missing = dataclasses.MISSING
    classes[kind.__name__] = {
        "description": " ".join((kind.__doc__ or "").split()),
        "type": "object",
        "properties": {one.name: _of_type(hints[one.name], classes) for one in fields},
        "required": [
            one.name for one in fields if one.default is missing and one.default_factory is missing
        ],
    }


def _of_type(kind: Any, classes: dict[str, Any]) -> dict[str, Any]:
    of, inner = get_origin(kind), get_args(kind)
    if of in (Union, types.UnionType):
        return {"anyOf": [_of_type(one, classes) for one in inner]}
    if of is Literal:
        return {"enum": list(inner)}
    if of is list:
        return {"type": "array", "items": _of_type(inner[0], classes)}
    if of is dict:
        return {"type": "object", "additionalProperties": _of_type(inner[1], classes)}
    if kind is Any:
        return {}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    _of_class(kind, classes)
    return {"$ref": f"#/$defs/{kind.__name__}"}


if __name__ == "__main__":
    print(*write_pictures(), *write_options(), write_findings(), write_schema(), sep="\n")
