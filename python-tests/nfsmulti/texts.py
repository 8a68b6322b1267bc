# SPDX-License-Identifier: GPL-2.0-only
"""Figures, sentences and tables as we write them, in a terminal and on pages."""

import datetime
import functools
import math
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nfsmulti.stats import Ratio, Sample

MISSING = "\N{EN DASH}"
_UNITS = ("kB", "MB", "GB", "TB", "PB")


def rate_text(bits: int) -> str:
    """Write a rate in bit/s the short way: 120 Mbit/s, 9.4 Gbit/s."""
    return f"{bits / 1e9:g} Gbit/s" if bits >= 10**9 else f"{bits / 1e6:g} Mbit/s"


def counted(number: int, noun: str) -> str:
    """Write how many there are: "1 cell", "2 cells"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def amount(count: int) -> str:
    """Write a number of bytes with the unit that suits it: 512 bytes, 1.2 kB, 2.0 GB."""
    if count < 1000:
        return counted(count, "byte")
    power = min(math.floor(math.log10(count)) // 3, len(_UNITS))
    return f"{count / 1000**power:,.1f} {_UNITS[power - 1]}"


def duration_text(seconds: float) -> str:
    """Write a time as h:mm:ss."""
    return str(datetime.timedelta(seconds=round(seconds)))


def moment(at: str) -> str:
    """Write a time as summaries have it for people: "2026-11-24 00:08 UTC"."""
    return re.sub(r"^(\S+)T(\d\d:\d\d)\S*$", r"\1 \2 UTC", at)


def number(value: float | None) -> str:
    """Write a figure with three digits, or all before the point: 1,094 or 19.4 or 0.123."""
    if value is None or not math.isfinite(value):
        return MISSING
    if not value:
        return "0"
    places = 2 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(0, min(places, 6))}f}"


def mean(sample: Sample | None, unit: str = "") -> str:
    """Write a sample's mean with its unit."""
    if sample is None:
        return MISSING
    return f"{number(sample.mean)} {unit}".strip()


def ratio(found: Ratio | None) -> str:
    """Write a ratio with its interval."""
    return found.text if found else MISSING


def measured(sample: Sample | None) -> str:
    """Write a mean with half of its 95 % interval: "561 ± 2"; without one from few repeats."""
    if sample is None:
        return MISSING
    if sample.interval is None:
        return number(sample.mean)
    return _with_half(sample.mean, sample.interval[1] - sample.mean, 6)


_LOPSIDED = 1.2  # times the ratio: its upper half is then a fifth wider than its lower


def times(found: Ratio | None) -> str:
    """Write a ratio with the wider half of its interval: "3.75 ± 0.01"; a lopsided one's ends."""
    if found is None or found.low is None or found.high is None:
        return ratio(found)
    if found.high > _LOPSIDED * found.value:
        places = min(len(number(found.value).partition(".")[2]), 2)
        value, low, high = (f"{at:,.{places}f}" for at in (found.value, found.low, found.high))
        return f"{value} ({low} to {high})"
    half = max(found.high - found.value, found.value - found.low)
    return _with_half(found.value, half, 2)


def times_in_words(found: Ratio) -> str:
    """Write a ratio in a sentence: "1.07 times", "1.07 times (may be 1)"."""
    return f"{found.value:.2f} times{' (may be 1)' if found.spans_one else ''}"


def span(found: Sequence[Ratio | None]) -> str:
    """Write the smallest and the largest ratio, or one, or "" for none."""
    return ends([ratio.value for ratio in found if ratio], "{:.2f}".format)


def ends(values: Iterable[float], write: Callable[[float], str] = number) -> str:
    """Write the least and the most; once where they are written alike, "" for none."""
    every = sorted(values)
    return " to ".join(dict.fromkeys(map(write, (*every[:1], *every[-1:]))))


MAY_BE_ONE = "?: the interval includes 1, so no difference is shown."


def marked(found: Ratio | None) -> str:
    """Write a ratio as times() does; of one that may be 1 the interval alone: "0.7 to 1.2?"."""
    if found is None or found.low is None or found.high is None or not found.spans_one:
        return times(found)
    places = 1 if found.high - found.low >= 0.2 else 2
    return f"{found.low:.{places}f} to {found.high:.{places}f}?"


def _with_half(value: float, half: float, most_places: int) -> str:
    """Write a figure and half of its interval, at least 1, with the same places."""
    places = min(len(number(value).partition(".")[2]), most_places)
    return f"{value:,.{places}f} ± {max(half, 10**-places):,.{places}f}"


def several(words: Sequence[str]) -> str:
    """Write "a", "a and b", "a, b and c"."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


@functools.cache  # a page asks for those of each cell many times
def command_words(command: str) -> Sequence[str]:
    """Return the words of a command that a file tells, as they stand where a quote is open."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


# --- tables ---


@dataclass(frozen=True)
class Table:
    """A table: the first `text_columns` and the last `ending_text_columns` hold words.

    In a terminal words wrap where `text_wraps`, figures never.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    text_columns: int = 1
    ending_text_columns: int = 0
    text_wraps: bool = False

    def holds_text(self, column: int) -> bool:
        """Tell whether a column, counted from 0, holds words; the others hold figures."""
        return not self.text_columns <= column < len(self.headings) - self.ending_text_columns

    def markdown(self) -> str:
        """Return it as lines of Markdown."""
        columns = range(len(self.headings))
        ruler = [":--" if self.holds_text(column) else "--:" for column in columns]
        lines = [map(markdown, self.headings), ruler, *(map(markdown, row) for row in self.rows)]
        text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        return f"**{markdown(self.title)}**\n\n{text}" if self.title else text


# --- Markdown ---

_CODE = re.compile("(`[^`]+`)")
# What begins a tag, an entity, a link or emphasis, and what ends a cell of a table.
_MARKS = re.compile(
    r"[\\`|]|\](?=[\[(:])|(?<![\w(])\*|\*(?=[^\s),;])|~(?=~)|<(?=\S)|&(?=#?\w+;)|\b_|_\b|^([#>=]|[*+-](?=[\s+-]))"
)


def markdown(text: str) -> str:
    """Return a text as one line of Markdown, in which code alone is marked: by backquotes."""
    if hasattr(text, "__html__"):  # it is marked already
        return text

    def unmarked(found: re.Match[str]) -> str:
        return {"<": "&lt;", "&": "&amp;"}.get(found[0], f"\\{found[0]}")

    parts = _CODE.split(" ".join(text.split()))
    return "".join(
        part.replace("|", "\\|") if at % 2 else _MARKS.sub(unmarked, part)
        for at, part in enumerate(parts)
    )


def fenced(lines: Sequence[str]) -> str:
    """Return lines as a block of code, whose fence is longer than any in them."""
    text = "\n".join(lines)
    fence = "`" * max([3, *(1 + len(one) for one in re.findall("`+", text))])
    return f"{fence}\n{text}\n{fence}"
