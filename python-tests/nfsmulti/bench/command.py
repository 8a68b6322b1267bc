# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti bench: client-cost and stall. The cells of their stories, in turn."""

import contextlib
import dataclasses
import fnmatch
import hashlib
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from nfsmulti.bench import cost, stall
from nfsmulti.bench.cost import Case
from nfsmulti.bench.sink import Sink
from nfsmulti.errors import HarnessError
from nfsmulti.kept import own_folder
from nfsmulti.paths import BUILD, COMMAND, RESULTS, ROOT, shown
from nfsmulti.processes import find, run
from nfsmulti.report import pages
from nfsmulti.run import runner
from nfsmulti.run.place import Target, asked
from nfsmulti.run.plan import Plan, ordered
from nfsmulti.run.record import Record, now_text, write_machine
from nfsmulti.scenario import CellSpec
from nfsmulti.screen import Screen
from nfsmulti.summary import Cell, Server

_out = Screen(soft_wrap=True)
_SEED = 1  # of the order, in which the engines of a workload follow each other
_Case = TypeVar("_Case", bound=Case)
_TOPOLOGY = Path("/sys/devices/system/cpu")
_REPEATS, _QUICK_REPEATS = 5, 3


# --- what a bench runs, and on which processors ---


def choose(cases: Sequence[_Case], patterns: Sequence[str], *, listed: bool = False) -> list[_Case]:
    """Return the cases whose name is, or matches, one of `patterns`; all where there is none.

    Raises HarnessError for a pattern that no case matches. With `listed` it ends with their names.
    """
    found = {one: fnmatch.filter([case.name for case in cases], one) for one in patterns}
    for pattern, names in found.items():
        if not names:
            raise HarnessError(f"--case '{pattern}' matches no case", "--list shows their names")
    chosen = [case for case in cases if not found or case.name in chain(*found.values())]
    if listed:
        print(*(case.name for case in chosen), sep="\n")
        raise SystemExit(0)
    return chosen


class Cores(NamedTuple):
    """The client's processor and the server's."""

    client: int
    server: int


def choose_cores() -> Cores:
    """Choose among the processors that we may use. Raises HarnessError where they are one core."""
    first: dict[str, int] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        first.setdefault(_core(cpu), cpu)
    if len(first) < len(Cores._fields):
        raise HarnessError("client and server need a core each, and there is only one")
    return Cores(*[*first.values()][:2])


def _core(cpu: int) -> str:
    """Name the core of a processor: hardware threads of one core have the same name."""
    try:
        return (_TOPOLOGY / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)


# --- the engines beside ours: fio's own nfs engine, or one that a user names ---

_ASK_SECONDS = 20.0
_FETCH_SECONDS = 300.0
_BUILD_SECONDS = 900.0
_PEERS = BUILD / "peers"
_FETCH = ROOT / "cmake/fio-headers.sh"
# What ./configure finds out by itself is left to it; libnfs alone has to be asked for.
_CONFIGURE = "--enable-libnfs"


def peer_fio(say: Callable[[str], None]) -> Path:
    """Return a fio of the installed version that has an `nfs` engine. Raises HarnessError.

    Where the distribution's has none it is built, once, from its source package with the
    distribution's libnfs; `say` tells of the work.
    """
    installed = Path(find("fio"))
    engines = run([str(installed), "--enghelp"], timeout=_ASK_SECONDS).stdout
    if re.search(r"^\s*nfs\s*$", engines, re.MULTILINE):
        return installed
    if not any(_PEERS.glob("*/fio")):
        say("fetching the source of the installed fio and building its nfs engine, once")
    fetch = ["sh", str(_FETCH), str(installed), str(_PEERS), "cmake", "whole"]
    said = run(fetch, timeout=_FETCH_SECONDS)
    if said.status != 0:
        raise HarnessError(
            f"fio's nfs engine: {said.stderr.strip().partition(':')[0] or 'no source in time'}",
            "put a fio first in PATH that has it: fio --enghelp lists nfs",
        )
    tree = Path(said.stdout.split(maxsplit=2)[2].strip())
    if (tree / "fio").exists():
        return tree / "fio"
    configured = run([str(tree / "configure"), _CONFIGURE], timeout=_BUILD_SECONDS, cwd=tree)
    if not re.search(r"^NFS engine\s+yes", configured.check().stdout, re.MULTILINE):
        raise HarnessError("fio's nfs engine needs libnfs", "apt-get install libnfs-dev")
    run(["make", f"-j{os.cpu_count()}", "fio"], timeout=_BUILD_SECONDS, cwd=tree).check()
    return tree / "fio"


def other_engine(file: Path) -> tuple[str, Path]:
    """Return what an engine is called here, OTHER where it is a build of ours; and its whole path.

    Raises HarnessError where fio, which is asked, does not load it.
    """
    what = "there is no such file"
    if file.is_file():
        asked = [find("fio"), f"--enghelp=./{file.name}"]
        said = run(asked, timeout=_ASK_SECONDS, cwd=file.parent)
        if said.status == 0:
            ours = re.search(r"^\s*stats_file\b", said.stdout, re.MULTILINE)
            return cost.OTHER if ours else cost.YARDSTICK, file.absolute()
        why = re.search(r"^nfsmulti: (.*?)(;|$)", said.stderr, re.MULTILINE)
        what = why[1] if why else "fio does not load it"
    raise HarnessError(f"--engine {shown(file)}: {what}", "name one that is compiled for this fio")


# --- where fio runs: on a core of its own ---


class OnSink(Target):
    """nfs-sink on a core of its own, another one for each cell: it tells at its end what it did."""

    def __init__(self, cores: Cores, *, sleeps: bool = False, more: Sequence[str] = ()):
        self.enter, self.cpus = ["taskset", "-c", str(cores.client)], {cores.client}
        self._cores, self._name = cores, shlex.join(["nfs-sink", *more])
        self._options = ["--cpus", str(cores.server), *([] if sleeps else ["--spin"]), *more]
        how = "sleeps between calls, and the client pays for waking it up"
        self._how = how if sleeps else "polls for calls: the client pays for no wake-ups"
        self._serving = contextlib.ExitStack()

    def __exit__(self, *_: object) -> None:
        self._serving.close()

    def prepare(self, spec: CellSpec) -> CellSpec:
        """Start another sink, and put its URL and port into the options of other engines."""
        self._serving.close()
        self._sink, self._spec = self._serving.enter_context(Sink(self._options)), spec
        options = {
            name: value.format(url=self._sink.url, port=self._sink.port)
            if isinstance(value, str)
            else value
            for name, value in spec.options.items()
        }
        return dataclasses.replace(spec, options=options)

    def pool(self, spec: CellSpec) -> str:
        """Return the sink's path."""
        return asked(self._sink.url, spec)

    def told(self, cell: Cell) -> Cell:
        """Return the cell with the sink's work; a metadata operation has moved no data."""
        busy = 100 * self._sink.stop().busy_seconds / self._spec.seconds
        if "meta_read" in self._spec.options and cell.read:
            read = dataclasses.replace(cell.read, bytes=0, bytes_per_s=0.0)
            cell = dataclasses.replace(cell, read=read)
        return dataclasses.replace(cell, server=Server(min(busy, 100.0), 1, 0, 0))

    def servers(self) -> list[str]:
        """Say what it is."""
        return [f"{self._name}, which {self._how}"]

    @property
    def about(self) -> dict[str, Any]:
        """Say the same for a summary's place."""
        found = {f"{side} on processor": cpu for side, cpu in self._cores._asdict().items()}
        return {"kind": "loopback", "pool": self._name, **found}


# --- a bench ---


def measure(
    name: str,
    specs: Sequence[CellSpec],
    place: OnSink,
    about: Mapping[str, Any],
    *,
    quick: bool,
    repeat: int | None,
    results: Path | None,
) -> None:
    """Run all cells, write what was found with its page, and show the answer.

    `about` is the summary's place. Ends the process with status 1 where a cell failed.
    """
    repeats = repeat or (_QUICK_REPEATS if quick else _REPEATS)
    plan = Plan(
        scenario=name,
        quick=quick,
        started=now_text(),
        command=shlex.join([COMMAND, *sys.argv[1:]]),
        seed=_SEED,
        cells=ordered(specs, repeats, _SEED, "workload"),
    )
    with own_folder(results, RESULTS / name) as folder:
        record = Record.begin(folder, plan, dict(about))
        write_machine(folder)
        runner.carry_out(record, _out, make=lambda: place)
    _out.print(f"\n{pages.write(folder)[1]}")
    if record.failed:
        raise SystemExit(1)


def client_cost(
    engine: Path | None, case: Sequence[str] | None, *, listed: bool, quick: bool, **given: Any
) -> None:
    """Measure beside fio's own nfs engine, and an engine of the user's, run by run."""
    cases = choose(cost.CLIENT_COST, case or (), listed=listed)
    other = dict([other_engine(engine)] if engine else [])
    place = OnSink(choose_cores())
    peer = peer_fio(_out.print) if cost.OTHER not in other and any(c.plain for c in cases) else None
    about = place.about
    for name, file in other.items():
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:12]  # tells a build from others
        about[name] = f"{shown(file)} (sha256 {digest})"
    timing = cost.QUICK if quick else cost.FULL
    specs = [spec for one in cases for spec in cost.client_cost(one, timing, peer, other)]
    measure("client-cost", specs, place, about, quick=quick, **given)


def stalling(case: Sequence[str] | None, *, listed: bool, quick: bool, **given: Any) -> None:
    """Measure the latency of a server that stalls, by the arrival clock and by fio's rate."""
    cases = choose(stall.CASES, case or (), listed=listed)
    place = OnSink(choose_cores(), sleeps=True, more=stall.SINK)
    seconds = stall.QUICK_SECONDS if quick else stall.SECONDS
    specs = [stall.spec(one, seconds) for one in cases]
    measure("stall", specs, place, place.about, quick=quick, **given)
