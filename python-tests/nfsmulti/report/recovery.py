# SPDX-License-Identifier: GPL-2.0-only
"""What a server's restart did to its clients: when they were back, those it knew and new ones.

In NFSv4 new ones wait for the grace period's end, which may come early if all others are back.
"""

from collections.abc import Sequence

from nfsmulti import texts
from nfsmulti.report import charts
from nfsmulti.report.story import Plot, Section
from nfsmulti.report.told import Run
from nfsmulti.story import Column, Levels
from nfsmulti.summary import Cell, Restart

_COLUMNS = [
    Column("server away, s", "restart s"),
    Column("half back, s", "half back s"),
    Column("all back, s", "all back s"),
    Column("new ones wait, s", "new wait s"),
]
READING = [
    "A client is back when an I/O of it is answered or, if it has none to do, when it could send"
    " one; the time counts from the start of the restart. New clients begin when the restart is"
    " done, and their wait counts from there.",
]
_DOUBT = "does --restart restart this server, and end when it is back?"
_GRACE_SECONDS = 1.0  # less is no grace period that new clients notice
_MOST = 4  # plots, of the first rows


def columns(run: Run) -> Sequence[Column]:
    """Return the columns of a table of restarts; none if the run has no restart."""
    return _COLUMNS if found(run, {}) else ()


def found(run: Run, at: Levels) -> list[Restart]:
    """Return the restarts at some levels."""
    return [cell.restart for cell in run.at(at) if cell.restart]


def part(there: str, of: int) -> str:
    """Write how many there are of so many: "299 of 300 clients"."""
    return f"{there} of {of:,} client{'s' * (of != 1)}"


def back(run: Run, at: Levels) -> str:
    """Say how many clients were back, in the worst repeat: "299 of 300 clients".

    Those that lost no connection need not come back. Where there are any, the number of all is
    named, too, by which rows differ.
    """
    cells = [(asked(cell), cell.restart) for cell in run.at(at) if cell.restart]
    cells = [one for one in cells if one[1].known] or cells
    every, worst = min(cells, key=lambda one: (len(one[1].back_s) - one[1].known, one[1].known))
    if not worst.known:
        return f"{every:,} client{'s' * (every != 1)}, none of which lost its connection"
    more = f" that lost the connection ({every:,} in all)" if worst.known < every else ""
    return part(f"{len(worst.back_s):,}", worst.known) + more


def asked(cell: Cell) -> int:
    """Return how many clients a cell was to have."""
    return cell.clients.asked if cell.clients else int(cell.factors["clients"])


def headline(run: Run, at: Levels) -> str:
    """Tell when known clients were back, how long new ones waited, and for how many absent ones."""
    restarts = found(run, at)
    if idle := sum(not one.known for one in restarts):
        where = f" in {idle} of {len(restarts)} repeats" if idle < len(restarts) else ""
        return f"No client lost its connection{where}: {_DOUBT}"
    all_back = run.whole("all back s", at)
    alone = all(one.known == 1 for one in restarts)
    told = f"{back(run, at)} {'was' if alone else 'were'} back"
    told += f" {texts.number(all_back.mean)} s after a restart" if all_back else " after a restart"
    if waited := run.whole("new wait s", at):
        told += f"; new ones waited {texts.number(waited.mean)} s"
    elif any(one.new for one in restarts):
        told += "; new ones were not served in time"
    absent = max(one.absent for one in restarts)
    why = ", because" if all(map(_held_up, restarts)) else ";"
    return told + (f"{why} {absent:,} did not return." if absent else ".")


def _held_up(one: Restart) -> bool:
    """Tell whether new clients waited for those alone that did not return: all others were back."""
    if not one.waited_s or len(one.back_s) < one.known:
        return False
    back_s = max(one.back_s, default=0.0) - one.took_s
    return min(one.waited_s) > max(back_s, 0.0) + _GRACE_SECONDS


def sections(run: Run, rows: dict[str, Levels]) -> list[Section]:
    """Return a plot for each row in which clients were lost: the share that was back."""
    lost = [name for name, at in rows.items() if any(one.known for one in found(run, at))]
    drawn = [(name, run.at(rows[name])) for name in lost]
    plots = [_plot(name, cells) for name, cells in drawn[:_MOST]]
    return [Section("After the restart", plots=plots)] if plots else []


def _plot(name: str, cells: Sequence[Cell]) -> Plot:
    restarts = [cell.restart for cell in cells if cell.restart]
    figure, axes = charts.panel(f"Clients served again: {name}", "s after the restart began", "%")
    begun = min(one.took_s for one in restarts)
    new = [one.took_s + wait for one in restarts for wait in one.waited_s]
    shares = {
        "known clients": (0.0, [at for one in restarts for at in one.back_s],
                          sum(one.known for one in restarts)),
        "new clients": (begun, new, sum(one.new for one in restarts)),
    }  # fmt: skip
    for number, (label, (since, at, count)) in enumerate(shares.items()):
        look, times = charts.style(number), sorted(at)
        parts = [100 * (place + 1) / count for place in range(len(times))]
        if times:
            axes.step(
                [since, *times], [0.0, *parts], where="post", label=label, color=look["color"],
                linestyle=look["linestyle"],
            )  # fmt: skip
            last = f"{label}: {parts[-1]:.0f} % at {texts.number(times[-1])} s"
            charts.hover(axes, times[-1], parts[-1], last)
    if new and min(new) - begun > _GRACE_SECONDS:
        axes.axvspan(
            begun, min(new), color=charts.PALE, alpha=0.25, linewidth=0,
            label="grace period, as new clients see it",
        )  # fmt: skip
    axes.set_xlim(0)
    charts.from_zero(axes, 100)
    charts.legend(axes)
    return Plot(
        f"restart {name}", f"{name}: the share that was served again, all repeats together.", figure
    )
