# SPDX-License-Identifier: GPL-2.0-only
"""What a run has found, in one shape for every scenario, for the terminal and for the page.

A headline with the number first; a table of few rows; caveats, each once for the whole run; and a
line that says what was run. Everything else on a page rests on it, and comes after it.
"""

import io
import itertools
import re
import shlex
import statistics
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from nfsmulti import texts
from nfsmulti.paths import COMMAND
from nfsmulti.report import cells, measures
from nfsmulti.summary import Cell, Summary
from nfsmulti.texts import Table
from nfsmulti.units import parse_size, size_text

MOST_ROWS, MOST_CAVEATS = 10, 3
# Columns of a heading, and of a row's name, where a table is wider than the terminal.
_NARROW, _NAME = 11, 20
_BETWEEN = 3  # columns
_ENDS = r" \(((?:repeats )?[\d.,]+ to [\d.,]+)\)$"  # of an interval
_INTERVAL = r"(?<!^repeats)\s(± [\d.,]+|\(?(repeats )?[\d.,]+ to [\d.,]+\)?)$"


@dataclass(frozen=True)
class Answer:
    """A headline of 25 words at most, a table of ten rows and six columns, three caveats."""

    headline: str
    table: Table = field(default_factory=lambda: Table((), ()))
    caveats: Sequence[str] = ()
    ran: str = ""

    def terminal(self, width: int) -> str:
        """Lay it out for a terminal, wrapped at words."""
        table = _drawn(self.table, width) if self.table.rows else ""
        caveats = "\n".join(wrapped(f"⚠ {one}", width, "  ") for one in self.caveats)
        parts = [wrapped(self.headline, width), table, caveats, wrapped(self.ran, width)]
        return "\n\n".join(filter(None, parts))


def _drawn(table: Table, width: int) -> str:
    from nfsmulti.screen import Screen, laid_out  # by rich, which a doctor does without

    table = _fitted(replace(table, text_wraps=True), width)
    out = Screen(file=io.StringIO(), width=width)
    out.print(laid_out(table))
    assert isinstance(out.file, io.StringIO)
    lines = out.file.getvalue().strip("\n").splitlines()
    return "\n".join(line.rstrip() for line in lines)


def _fitted(table: Table, width: int) -> Table:
    """Make a table narrower, step by step, until it leaves room for the rows' names."""
    if _width(table) > width:  # a long heading leaves its width to the rows' names
        broken = (textwrap.wrap(one, max(_NARROW, 2 * len(one) // 3)) for one in table.headings)
        table = replace(table, headings=[*map("\n".join, broken)])
    if _width(table, _NAME) > width:
        table = _figures(table, lambda cell: re.sub(_ENDS, r"\n\1", cell))
    if _width(table, _NAME) > width:
        bare = _figures(table, lambda cell: re.sub(_INTERVAL, "", cell))
        title = f"{table.title}; intervals: see the page".removeprefix("; ")
        table = replace(bare, title=title if bare.rows != table.rows else table.title)
    return table


def _width(table: Table, most: int | None = None) -> int:
    """Return the columns that a table takes, where words wrap at `most`."""
    found = _BETWEEN * (len(table.headings) - 1)
    for at, cells_of in enumerate(zip(table.headings, *table.rows, strict=True)):
        widest = max(len(line) for cell in cells_of for line in cell.split("\n"))
        found += min(widest, most) if most and table.holds_text(at) else widest
    return found


def _figures(table: Table, change: Callable[[str], str]) -> Table:
    """Write each figure of a table in another way."""
    rows = [
        [cell if table.holds_text(at) else change(cell) for at, cell in enumerate(row)]
        for row in table.rows
    ]
    return replace(table, rows=rows)


def wrapped(text: str, width: int, indent: str = "") -> str:
    """Wrap text at words; further lines begin with `indent`."""
    return textwrap.fill(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


_Of = TypeVar("_Of")


def fewest(picks: Iterable[Sequence[_Of]]) -> Sequence[_Of]:
    """Return the first pick that is few enough for an answer's rows, or the begin of the last."""
    pick: Sequence[_Of] = ()
    for pick in picks:
        if len(pick) <= MOST_ROWS:
            break
    return pick[:MOST_ROWS]


def varying(headings: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int) -> Table:
    """Return a table without the columns of words that are the same in all of its rows."""
    several = [at for at in range(text_columns) if len({row[at] for row in rows}) > 1]
    kept = [*(several or [0][:text_columns]), *range(text_columns, len(headings))]
    return Table(
        [headings[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
        text_columns=len(several) or min(text_columns, 1),
    )


def labels(summary: Summary, names: Mapping[str, str]) -> Callable[[Cell], str]:
    """Return what names a cell: by the factors in which the run's differ, as tables name levels."""
    varied = cells.varying(summary.cells)

    def label(cell: Cell) -> str:
        told = cells.words(cells.told(cell, varied), names)
        return served(told, summary.setting) or "the only cell"

    return label


# --- what holds for the whole run ---


def caveats(summary: Summary, own: Sequence[str], guest: str) -> list[str]:
    """Return the run's warnings, the gravest first, and then the story's own."""
    found, total = [], len(summary.cells)
    if failed := [cell for cell in summary.cells if cell.status == "failed"]:
        found.append(f"{len(failed)} of {total} cells failed and are missing{_lost(summary)}.")
    if waiting := sum(cell.status == "waiting" for cell in summary.cells):
        found.append(f"Interrupted: {waiting} of {total} cells have not run: {summary.to_end}.")
    if discards(summary):
        found.append("discard=1: the kernel dropped what READs of 32 KiB and more brought.")
    if part := cells.others_busy(summary.done):
        busy, done = [*filter(cells.disturbed, summary.done)], len(summary.done)
        when = "every cell" if len(busy) == done else f"{len(busy)} of {done} cells"
        when += f" ({late})" if (late := cells.wake_up(busy)) else ""
        found.append(
            f"This client was {100 * part:.0f} % busy with other work before {when}:"
            " rerun when idle."
        )
    else:  # which would keep processors full, too
        found += _full(summary, emulated=EMULATED in guest)
    if EMULATED in guest:
        own = [one.replace("in the guest", "in an emulated guest") for one in own]
        if not any(re.search("emulated (guest|processor)", one) for one in (*found, *own)):
            found.append("The guest was emulated (no KVM): its ratios tell more than its rates.")
    return list(dict.fromkeys([*found, *own]))[:MOST_CAVEATS]


def discards(summary: Summary) -> bool:
    """Whether all cells read with discard=1; hosts have their options in files."""
    return "--discard" in summary.command.split() or (
        summary.done != []
        and all("1" in cells.given(one).get("discard", ()) for one in summary.done)
    )


_FULL = 0.95  # of processors' time, from which on they are the limit
_FULL_RUN = 0.25  # of a run's cells, from which on full processors are told of
EMULATED = "emulated by"  # in what a guest is described by


def _full(summary: Summary, *, emulated: bool) -> list[str]:
    """Say whose processors were full, in how many cells; a lab's client and server share them."""
    done, lab = summary.done, "lab" in str(summary.place.get("kind"))
    served = [one.server for one in done if one.server and not lab]
    here = [cell for cell in done if (measures.PROCESSORS(cell) or 0) >= 100 * _FULL]
    own = cells.wake_up(here)
    full = {
        "Client and server shared" if lab else "The client had": [one.processors for one in here],
        "The server had": [s.processors for s in served if (s.cpu_percent or 0) >= 100 * _FULL],
    }
    return [
        f"{who} {'one' if each[0] == 1 else each[0]}{' emulated' * emulated}"
        f" processor{'' if each[0] == 1 else 's'}, full"
        + (f" in {n} of {len(done)} cells" if 2 * n < len(done) else ": ratios compare CPU cost")
        + (f" ({own})" if own and not who.startswith("The server") else "")
        + "."
        for who, each in full.items()
        if (n := len(each)) and n >= _FULL_RUN * len(done)
    ]


def _lost(summary: Summary) -> str:
    """Name the levels of which no cell is done: ": all with nconnect 256"."""
    failed = [cell for cell in summary.cells if cell.status == "failed"]
    others = [cell for cell in summary.cells if cell.status != "failed"]
    lost = []
    for name in cells.varying(summary.cells):
        here = cells.levels(others, name)
        gone = [str(at) for at in cells.levels(failed, name) if at not in here]
        lost += [f"{name} {texts.several(gone)}"] if here and gone else []
    return f": all with {texts.several(lost)}" if lost else ""


KINDS = {
    "read": "sequential reads",
    "write": "sequential writes",
    "read write": "sequential reads and writes",
    "randread": "random reads",
    "randwrite": "random writes",
    "randread randwrite": "random reads and writes",
    "randrw": "mixed random reads and writes",
    "rw": "mixed sequential reads and writes",
}
_SHOWN = 2  # values of an option; of more the first and the last


def ran(summary: Summary, environment: Mapping[str, Any]) -> str:
    """Say in a line what was run: the workload, its size, how often, and on which server."""
    done = summary.done
    given = [cells.given(cell) for cell in done]
    whole = [one for one in given if "offset_increment" not in one]  # else a job's part of a file
    if "operation" in (done[0].factors if done else {}):
        what = texts.several([str(one) for one in cells.levels(done, "operation")])
    else:
        what = _work(given)
    depth = extent(_values(given, "iodepth"))
    jobs = extent(map(str, sorted({len(cell.jobs) for cell in done if cell.jobs})))
    machine = environment.get("machine") or {}
    kind = str(summary.place.get("kind"))
    server = re.sub(r"\?[^,]*", "", str(summary.place.get("pool") or ""))
    if cells.in_lab(summary) and machine.get("nfs-ganesha"):
        server = f"nfs-ganesha {machine['nfs-ganesha']} in the lab"
    elif kind == "kernel-lab":
        server = "the kernel's nfsd in the lab"
    levels = extent(map(str, cells.levels(done, summary.setting)))
    version = machine.get("nfsmulti")
    parts = [
        what,
        depth and f"depth {depth}",
        jobs and f"{jobs} job{'' if jobs == '1' else 's'}",
        _file(summary, _values(whole, "size")),
        _protocols(summary),
        _times(done),
        server,
        levels and served(f"{summary.setting} {levels}", summary.setting),
        version and f"nfsmulti {version}",
    ]
    return f"{', '.join(filter(None, parts))}." if done else ""


def _work(given: Sequence[Mapping[str, Sequence[str]]]) -> str:
    """Name what was read and written, each kind with its block sizes."""
    sizes: dict[str, set[str]] = {}
    for options in given:
        kinds, blocks = options.get("rw", ()), options.get("bs", [""])
        if "meta_read" in options:
            kinds, blocks = options["meta_read"], [""]
        for kind, block in zip(kinds, itertools.cycle(blocks), strict=False):
            sizes.setdefault(kind, set()).add(block)
    groups: dict[str, list[str]] = {}
    for kind in sorted(sizes):
        of_size = extent(
            size_text(size) if (size := _bytes(one)) else one
            for one in sorted(sizes[kind], key=_bytes)
        )
        groups.setdefault(of_size, []).append(kind)
    told = []
    for of_size, kinds in groups.items():
        both = KINDS.get(" ".join(kinds))
        told.append(f"{of_size} {both or texts.several([KINDS.get(one, one) for one in kinds])}")
    return texts.several(told).strip()


def _values(given: Sequence[Mapping[str, Sequence[str]]], name: str) -> list[str]:
    found = dict.fromkeys(value for options in given for value in options.get(name, ()))
    return sorted(found, key=_bytes) if all(map(_bytes, found)) else list(found)


def _bytes(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError:
        return 0


def extent(values: Iterable[str]) -> str:
    """Write a few values, or the first and the last of many."""
    found = list(dict.fromkeys(values))
    if len(found) > _SHOWN:
        return f"{found[0]} to {found[-1]}"
    return " or ".join(found)


def _file(summary: Summary, sizes: Sequence[str]) -> str:
    """Name the file's size, and whether it fits into the server's memory."""
    if not sizes or "operation" in summary.done[0].factors:
        return ""
    if str(summary.place.get("pool")).startswith("nfs-sink"):  # which has every file
        return ""
    text = extent(map(_in_words, sizes))
    fits = " (fits into the server's memory)" if summary.in_memory else ""
    return f"file of {text}{fits}"


def _in_words(size: str) -> str:
    """Write bytes as one types them: "1 GiB", "800 MiB", "10 MB"."""
    number = _bytes(size)
    for unit, of in (("GiB", 1 << 30), ("MiB", 1 << 20), ("MB", 10**6)):
        if not number % of:
            return f"{number // of} {unit}"
    return f"{number / (1 << 20):.3g} MiB"


_PROTOCOLS = {r"\b(?:nfs)?vers(?:ion)?=([\d.]+)": "3", r"\bproto=(tcp|rdma)": "tcp"}


def _protocols(summary: Summary) -> str:
    """Name versions and transports, as URLs, factors and mounts say; what URLs leave out is known.

    A cell on a mount says nothing itself. Of a user's own mounts only a factor may tell.
    """
    mounts = [str(one) for one in (summary.place.get("mounts") or {}).values()]
    factors = [f"version={cell.factors.get('version')}" for cell in summary.done]
    commands = [cell.command for cell in summary.done if "nfs://" in cell.command]
    found = []
    for pattern, default in _PROTOCOLS.items():
        told = [re.findall(pattern, one) or [default] for one in commands]
        told += [re.findall(pattern, one) for one in (*mounts, *factors)]
        found.append(sorted({one for words in told for one in words}))
    versions, transports = found
    words = [f"NFSv{' and v'.join(versions)}"] if versions else []
    words += [f"over {' and '.join(map(str.upper, transports))}"] if transports else []
    return " ".join(words)


def _times(done: Sequence[Cell]) -> str:
    repeats = max((cell.repeat for cell in done), default=0)
    seconds = [measures.longest_s(cell) for cell in done]
    found = statistics.median(seconds) if seconds else 0.0
    return (
        f"{repeats} \N{MULTIPLICATION SIGN} {found:.0f} s" if found >= 1 else f"{repeats} repeats"
    )


def served(words: str, setting: str) -> str:
    """Say that a setting is the server's: "threads 8" is "8 server threads", of what is counted."""

    def told(found: re.Match[str]) -> str:
        level = found[1]
        if not (level[0].isdecimal() and setting.endswith("s")):
            return f"server {setting} {level}"
        return f"{level} server {setting.removesuffix('s') if level == '1' else setting}"

    return re.sub(rf"\b{re.escape(setting)} ([^,]+)", told, words) if setting else words


def next_command(summary: Summary, folder: str) -> str:
    """Return what to type after this run: the whole of a quick one, else to compare it later.

    A demo is followed by a run on the user's own server.
    """
    if summary.scenario == "demo":
        return f"{COMMAND} run connections --quick --pool=nfs://SERVER/EXPORT"
    words = [word for word in texts.command_words(summary.command) if word != "--quick"]
    if summary.quick and words:
        return re.sub(r" --seed \d+| --results[= ]\S+", "", shlex.join(words))
    return f"{COMMAND} compare {shlex.quote(folder)} LATER"
