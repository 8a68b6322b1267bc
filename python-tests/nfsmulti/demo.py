# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti demo: where it runs. What runs, and what that shows, is the story in showcase.py."""

import functools
import secrets
from collections.abc import Callable
from typing import Any, Self

from nfsmulti import machine
from nfsmulti.bench.sink import Sink
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.kept import run_folder
from nfsmulti.lab import LabConfig
from nfsmulti.paths import COMMAND, RESULTS
from nfsmulti.report import pages
from nfsmulti.report.pages import naming
from nfsmulti.run.place import InLab, Target, asked
from nfsmulti.run.plan import Plan, ordered
from nfsmulti.run.record import Meter, Record, called, now_text, write_machine
from nfsmulti.run.runner import run_in_place
from nfsmulti.scenario import CellSpec, Scale
from nfsmulti.screen import Screen
from nfsmulti.showcase import RANDREAD, STORY, WORKLOADS
from nfsmulti.summary import Cell
from nfsmulti.units import parse_rate

_LIMITED = " The link and each path (for randread each connection) are capped."
_IN_LAB = f"Real NFS servers (nfs-ganesha), in namespaces on this machine.{_LIMITED}"
_IN_MEMORY = (
    "A real NFS server (nfs-ganesha) with its files in memory, over NFSv4.1, in namespaces that any"
    f" user may make.{_LIMITED} Left out without root: NFSv3, a server process for each path, and a"
    " file system (the server keeps the first 2 MiB of each file)."
)
_ON_LOOPBACK = (
    "Without namespaces: not permitted here ({lacking}). The server is the benchmark's own: it"
    " answers READ from memory, on 127.0.0.1, and the kernel caps what it sends on each connection."
    " Left out without namespaces: real servers (nfs-ganesha), several paths, and writes."
)


def demo() -> None:
    """Measure each workload on one connection and on several, and print the answer."""
    out = Screen(soft_wrap=True)
    lacking, namespaces = machine.missing_privileges(), machine.may_make_namespaces()
    said = (_IN_MEMORY if namespaces else _ON_LOOPBACK) if lacking else _IN_LAB
    out.print(said.format(lacking=lacking), end="\n\n")
    record = _begun("lab" if namespaces else "loopback")
    try:
        _measure(record, InLab if namespaces else Loopback, memory=lacking is not None, out=out)
    finally:  # also of a demo that was interrupted
        record.end()
        out.print(f"\n{pages.write(record.folder)[1]}")
    if record.failed:
        raise SystemExit(1)


def _measure(
    record: Record, place: Callable[[LabConfig], Target], *, memory: bool, out: Screen
) -> None:
    """Measure each workload in its place; one whose servers do not start leaves the others."""
    cells = record.plan.cells
    with _Quiet(out, cells, len(cells), set(), naming(record.summary)) as meter:
        for name in record.plan.places:
            wanted = WORKLOADS[name]
            config = LabConfig(wanted.paths, limits=wanted.limits, memory=memory)
            try:
                run_in_place(record, name, functools.partial(place, config), Engine.built(), meter)
            except HarnessError as error:
                meter.note(f"{name} was not measured: {error}")
                for cell in record.waiting(name):
                    record.fail(cell, error.what)


def _begun(kind: str) -> Record:
    """Begin its run, in a lab or on the loopback."""
    specs = STORY.cells(Scale())
    place: dict[str, Any] = {"kind": kind}
    if kind == "loopback":
        specs = [spec for spec in specs if spec.place == RANDREAD]
        place["pool"] = "nfs-sink"
    seed = secrets.randbelow(1 << 31)
    plan = Plan(
        scenario=STORY.name,
        started=now_text(),
        command=f"{COMMAND} {STORY.name}",
        seed=seed,
        cells=ordered(specs, STORY.repeats, seed),
    )
    place["limits"] = {name: WORKLOADS[name].limits.rates for name in plan.places}
    record = Record.begin(run_folder(RESULTS / STORY.name), plan, place)
    write_machine(record.folder)
    return record


class _Quiet(Meter):
    """The bar alone, without a line for each cell that is done."""

    def end(self, cell: Cell) -> None:
        """Say why a cell failed."""
        self.over()
        if cell.status != "done":
            self.note(f"{called(cell, self.name)} failed: {cell.why}")


class Loopback(Target):
    """The benchmark's own server on 127.0.0.1, which has every file, and caps each connection."""

    def __init__(self, config: LabConfig):
        rate = parse_rate(config.limits.per_connection or "")
        self._sink = Sink(["--pacing", str(rate // 8)])

    def __enter__(self) -> Self:
        self._sink.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._sink.__exit__()

    def pool(self, spec: CellSpec) -> str:
        """Return its one path."""
        return asked(self._sink.url, spec)

    def trouble(self) -> str | None:
        """Tell whether it has died."""
        return None if self._sink.running else "nfs-sink has died"

    def servers(self) -> list[str]:
        """Name the program."""
        return ["nfs-sink"]
