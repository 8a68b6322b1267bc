# SPDX-License-Identifier: GPL-2.0-only
"""What commands make of the documents: README's pictures, the engine's options, and messages.

The pictures are drawn out of the reference runs: what a pool gives, what the client costs, and what
is reported of a server that stalls.
Bars and their figures are ratios: times what one connection carries, and per cent of the CPU time
that fio's nfs engine takes per operation. The ground is white, so that dark pages show it too;
text stays legible on a phone, and in print a hatch tells the one connection apart.

fio prints the engine's own table of options (--enghelp). What it does not say stands in
docs/options.md, under a heading with the option's name; nfsmulti(7) takes it from there.
docs/messages.md has, in tables made from the sources, the messages that no row by hand explains.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nfsmulti.bench import cost, stall
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.paths import RESULTS, ROOT
from nfsmulti.processes import run
from nfsmulti.report import cells, charts, measures, messages
from nfsmulti.stats import Ratio
from nfsmulti.summary import Summary
from nfsmulti.texts import Table, rate_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOCS = ROOT / "docs"
_WIDTH = 4.2  # inches: two fit beside each other on GitHub, one on a phone
_POOL, _COST, _STALL = (
    RESULTS / f"reference/{of}" for of in ("connections", "client-cost", "stall")
)
_LIMITS = "capped"  # the half of the connections scenario where each connection has a cap


def write_pictures(folder: Path = DOCS) -> list[Path]:
    """Draw all. Raises HarnessError where a reference run lacks what they show."""
    run = Summary.load(_POOL)
    if not (limits := run.place.get("fitted", {}).get(_LIMITS)):
        raise HarnessError(f"{_POOL}: no cells with a cap on each connection")
    title = (
        f"Throughput, times one connection\n(64k reads; cap of each: {rate_text(limits['cap'])})"
    )
    pool, (axes,) = charts.panels(title, [1], _WIDTH)
    _draw_pool(axes, run, limits["link"], limits["cap"])
    title = "CPU per operation, fio's nfs engine = 100 %\n(NFSv3, TCP, one connection; d: iodepth)"
    cost, (axes,) = charts.panels(title, [1], _WIDTH)
    _draw_cost(axes, cost_ratios())
    title = f"Latency in ms at {stall.RATE:,} I/O/s, of a server\nthat stops for 0.5 s in every 5 s"
    waits, (axes,) = charts.panels(title, [1], _WIDTH)
    stall.draw(axes, stall.waits_of(Summary.load(_STALL)))
    drawn = {"pool": pool, "cost": cost, "stall": waits}
    return [_save(figure, folder / f"{name}.svg") for name, figure in drawn.items()]


def _save(figure: Figure, file: Path) -> Path:
    text = charts.svg_of(figure, file.stem, {"hatch.linewidth": 0.6})
    file.write_text("".join(f"{line.rstrip()}\n" for line in text.splitlines()))
    return file


def _draw_pool(axes: Axes, run: Summary, link: int, cap: int) -> None:
    """Draw one job's throughput, in times that of the fewest connections; rates are in bit/s."""
    capped = cells.having(run, limits=_LIMITS, jobs=1)
    for factor in capped[0].factors if capped else ():
        if factor != "nconnect" and len(cells.levels(capped, factor)) > 1:
            raise HarnessError(f"{_POOL}: the picture shows one {factor}, and this run has several")
    counts = cells.counts(capped, "nconnect")
    found = {count: cells.having(run, limits=_LIMITS, jobs=1, nconnect=count) for count in counts}
    ratios = [cells.ratio(found[n], found[counts[0]], measures.MB_PER_S) for n in counts]
    values = [ratio.value for ratio in ratios if ratio]
    if not values or len(values) < len(counts):
        raise HarnessError(f"{_POOL}: no cells with a cap on each connection")
    bars = axes.bar([str(n) for n in counts], values, width=0.65, color=charts.COLOURS[0])
    bars[0].set(facecolor=charts.COLOURS[1], hatch="//", edgecolor="white")
    axes.bar_label(bars, [f"{value:.1f}x" for value in values], padding=3, fontweight="bold")
    axes.axhline(link / cap, color=charts.INK, linestyle=":", linewidth=1.4)
    axes.text(-0.45, 1.02 * link / cap, f"link: {rate_text(link)}")
    axes.set_ylim(0, 1.2 * link / cap)
    axes.set_xlabel("connections to one address (nconnect)")


def _draw_cost(axes: Axes, ratios: Sequence[tuple[str, Ratio]]) -> None:
    """Draw a bar for each ratio, in per cent, with its interval."""
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
    pairs = cost.pairs_of(Summary.load(_COST))
    found = [
        (one.workload.replace(", depth ", ", d"), ratio)
        for one in pairs
        if one.beside == cost.PEER and "connections" not in one.workload
        if (ratio := one.ratio("cpu"))
    ]
    if not found:
        raise HarnessError(f"{_COST}: no case on one connection beside {cost.PEER}")
    return found


# --- the options ---


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
    """Bring all in step with the engine and the sources. HarnessError without an engine built."""
    options = _of_engine()
    _replace(page, _IN_PAGE, _table(options))
    _replace(manual, _IN_MANUAL, _list(options, _details(page.read_text())))
    explained.write_text(messages.filled(explained.read_text(), ROOT))
    return [page, manual, explained]


def _of_engine() -> list[Option]:
    """Ask fio for the engine's options, without those that are gone."""
    engine = Engine.built()
    names = re.findall(r"^(\w+) +:", _ask(engine), re.MULTILINE)
    if not names:
        raise HarnessError(f"fio shows no options of {engine.library}: rebuild it for this fio")
    found = [_read(name, _ask(engine, f",{name}")) for name in names]
    return [option for option in found if option]


def _ask(engine: Engine, option: str = "") -> str:
    library = engine.library
    argv = ["fio", f"--enghelp=./{library.name}{option}"]
    return run(argv, timeout=_SECONDS, cwd=library.parent, env=dict(engine.env)).check().stdout


def _read(name: str, said: str) -> Option | None:
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
    """Put a text between two lines of a file. Raises HarnessError where these are missing."""
    before, begin, rest = file.read_text().partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise HarnessError(f"{file}: it has no lines {marks[0].strip()} and {marks[1].strip()}")
    file.write_text(before + begin + text + end + after)
