# SPDX-License-Identifier: GPL-2.0-only
"""The plan of a run: which cells, in which order, and how long each. Kept to be resumed."""

import configparser
import dataclasses
import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs

from nfsmulti import typed
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.paths import JOBFILES, shown, write_json
from nfsmulti.processes import run
from nfsmulti.run.place import VERSION_NAMES
from nfsmulti.scenario import FOR_HARNESS, CellSpec
from nfsmulti.summary import Factor

FILE = "plan.json"
WARM_UP_SECONDS = 2.0
_VERSION = 1

Factors = Mapping[str, Sequence[Factor]]

# What makes a workload what it is: options of fio, those together that say the same.
_WORKLOAD = (
    {"rw", "readwrite"},
    {"bs", "blocksize", "bsrange", "blocksize_range", "bssplit", "bs_unaligned"},
    {"size", "io_size", "io_limit", "filesize", "fill_device"},
    {"rwmixread", "rwmixwrite"},
    {"numjobs"},
    {"runtime", "timeout", "time_based", "loops"},
    set(VERSION_NAMES),
)
# fio's command line has a --version of its own.
_ON_COMMAND_LINE = {"version": "nfsvers"}
_SECONDS = 20.0  # that fio may take to answer
# What goes into a shell's words without a quote.
PLAIN = re.compile(r"[\w .:,+/@%-]+")
_GSS_CONTEXT_GONE = (
    "gss_context is gone since 0.7.0: each connection has a context of its own; leave it out"
)
# What the harness itself gives fio, or what a cell would be another one with.
_OURS = {"pool", "ioengine", "filename", "filename_format", "directory", "name"}
_OURS |= FOR_HARNESS | {"exec_postrun", "bwavgtime", "loops"}


@dataclass(frozen=True)
class PlannedCell:
    """One run of a cell: its repeat, and its place in the order of all; both count from 1."""

    id: str
    repeat: int
    order: int
    spec: CellSpec


@dataclass(frozen=True)
class Setting:
    """A server's setting that is a factor. `set` is a command with {name} where a value goes.

    `get` is one that prints the value, "" where there is none. runner.py runs them.
    """

    name: str
    values: list[Factor]
    set: str
    get: str = ""

    def command(self, value: Factor) -> str:
        """Return the command that sets a value."""
        return self.set.replace(f"{{{self.name}}}", str(value))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run of a scenario. `pool` is the user's own, None in the lab; `command` starts the same.

    `hosts` are those that run it, as --hosts names them; "": this machine does. `server_command`
    are the words that lead to the pool's server, "" where it is not asked.

    `left_out` says in a line each what of the scenario is not run. `cells` are in the order of
    running, which `seed` has chosen.
    """

    scenario: str
    label: str = ""
    quick: bool = False
    started: str
    command: str
    seed: int
    pool: str | None = None
    left_out: list[str] = field(default_factory=list)
    cells: list[PlannedCell]
    hosts: str = ""
    setting: Setting | None = None
    server_command: str = ""

    def save(self, folder: Path) -> None:
        """Write it to the folder of the run, whole or not at all."""
        data = {"version": _VERSION, **dataclasses.asdict(self)}
        write_json(folder / FILE, data)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the plan of a run. Raises HarnessError where there is none that can be followed."""
        file = folder / FILE
        try:
            data = typed.load(file)
        except FileNotFoundError:
            raise HarnessError(f"{shown(folder)}: no {FILE}: not the folder of a run") from None
        if not isinstance(data, dict) or data.get("version") != _VERSION:
            raise HarnessError(f"{shown(file)} cannot be read: no plan of version {_VERSION}")
        if data.pop("guest", "qemu") != "qemu":  # version 0.6.0 had another
            raise HarnessError(f"{shown(file)}: --guest is gone since 0.7.0: start the run anew")
        plan = typed.read(cls, data, f"{shown(file)}: ")
        for cell in plan.cells:
            if {"/", "\0"} & {*cell.id} or cell.id in ("", ".", ".."):
                raise HarnessError(f"{shown(file)}: {cell.id!r:.40} is no name of a cell")
            if not (JOBFILES / (job := cell.spec.jobfile)).exists():
                raise HarnessError(f"{shown(file)}: there is no job file {job!r:.40}")
        return plan

    @property
    def places(self) -> list[str]:
        """Where cells run, in the order of running."""
        return list(dict.fromkeys(cell.spec.place for cell in self.cells))


def crossed(specs: Sequence[CellSpec], factors: Factors) -> list[CellSpec]:
    """Return each cell once for every combination of the additional `factors`.

    Their names are options. Raises HarnessError for one that the scenario sets itself, or that
    would make another workload of what its jobfile says, or where two cells have one name.
    """
    for name in factors:
        if any(_sets(spec, name) for spec in specs):
            raise HarnessError(f"--factors {name}: the scenario sets that itself")
    return _each("--factors", specs, factors, _options)


def _options(spec: CellSpec, extra: Mapping[str, Factor]) -> dict[str, Factor]:
    """Return what a cell is given for further factors: `ktls` is refused in clear."""
    clear = "xprtsec=none" in spec.query
    return {
        _ON_COMMAND_LINE.get(name, name): value
        for name, value in extra.items()
        if not (clear and name == "ktls")
    }


def under(specs: Sequence[CellSpec], setting: Setting | None) -> list[CellSpec]:
    """Return each cell under every value of a setting. Raises HarnessError as crossed() does."""
    if setting is None:
        return list(specs)
    name = setting.name
    if any(name in spec.factors for spec in specs):
        raise HarnessError(f"--setting {name}: a factor has that name already", "choose another")
    return _each("--setting", specs, {name: setting.values}, lambda *_: {})


def _each(
    option: str,
    specs: Sequence[CellSpec],
    factors: Factors,
    options: Callable[[CellSpec, Mapping[str, Factor]], Mapping[str, Factor]],
) -> list[CellSpec]:
    """Return each cell once for every combination. HarnessError where two have one name."""
    extras = [dict(zip(factors, at, strict=True)) for at in itertools.product(*factors.values())]
    cells = [
        dataclasses.replace(
            spec,
            factors={**spec.factors, **extra},
            options={**spec.options, **options(spec, extra)},
        )
        for spec in specs
        for extra in extras
    ]
    names = Counter(name_of(cell.factors) for cell in cells)
    if alike := [name for name, count in names.items() if count > 1]:
        raise HarnessError(
            f"{option}: several cells would be named {alike[0]}",
            "name values that differ in letters, digits, '_' or '.'",
        )
    return cells


def ordered(
    specs: Sequence[CellSpec], repeats: int, seed: int, block: str = ""
) -> list[PlannedCell]:
    """Return the cells of all repeats, in an order that `seed` chooses.

    Cells of one place follow each other; there, each repeat has all cells once, in an order of its
    own, so that what changes with time falls on all alike. Of the factor `block` each value has
    its cells in a row. Their names leave out what all have in common.
    """
    chance = random.Random(seed)
    common = {
        name: value
        for name, value in specs[0].factors.items()
        if all(spec.factors.get(name) == value for spec in specs)
    }
    cells: list[PlannedCell] = []
    for place in dict.fromkeys(spec.place for spec in specs):
        for repeat in range(1, repeats + 1):
            there = [spec for spec in specs if spec.place == place]
            chance.shuffle(there)
            if block:
                turns = list(dict.fromkeys(spec.factors[block] for spec in there))
                there.sort(key=lambda spec: turns.index(spec.factors[block]))
            for spec in there:
                own = {key: value for key, value in spec.factors.items() if key not in common}
                name = f"{name_of(own) or place}-r{repeat}"
                cells.append(PlannedCell(name, repeat, len(cells) + 1, spec))
    return cells


def warm_ups(cells: Sequence[PlannedCell]) -> list[PlannedCell]:
    """Return what runs before these cells and counts for nothing: each combination once, shortly.

    What is slow for the first time (caches, connections, an emulated processor's code) is so there.
    Their repeat is 0. Cells that differ in a server's setting or in load alone have one together.
    """
    found: dict[str, PlannedCell] = {}
    for cell in filter(lambda cell: cell.spec.warm_up, cells):
        found.setdefault(repr(dataclasses.replace(cell.spec, factors={}, load=0)), cell)
    return [
        PlannedCell(f"warm-up-{cell.id.removesuffix(f'-r{cell.repeat}')}", 0, 0, _short(cell.spec))
        for cell in found.values()
    ]


def warmed(warm_up: PlannedCell, cells: Sequence[PlannedCell]) -> PlannedCell:
    """Return the first of the cells that a warm-up is for."""
    return next(cell for cell in cells if cell.spec.factors == warm_up.spec.factors)


def _short(spec: CellSpec) -> CellSpec:
    seconds = min(spec.seconds, WARM_UP_SECONDS)
    options = {**spec.options, "runtime": f"{round(seconds * 1000)}ms"}
    return dataclasses.replace(spec, options=options, seconds=seconds, restart="")


def name_of(factors: Mapping[str, Factor]) -> str:
    """Name a combination: its words, and its numbers after their names, as "capped-streams5"."""
    parts = [
        value if isinstance(value, str) and not value[:1].isdecimal() else f"{name}{value}"
        for name, value in factors.items()
    ]
    return re.sub(r"[^\w.]+", "-", "-".join(map(str, parts)))


def _sets(spec: CellSpec, name: str) -> bool:
    """Tell whether a cell says itself what the option `name` says, under whichever name."""
    own = spec.factors.keys() | spec.options.keys() | parse_qs(spec.query).keys()
    alike = next((names for names in _WORKLOAD if name in names), None)
    if alike is None:
        return name in own
    jobs = jobfile_jobs(spec.jobfile, spec.jobs).values()
    return bool(alike & own.union(*jobs))


def jobfile_jobs(jobfile: str, names: Sequence[str]) -> dict[str, dict[str, Factor | None]]:
    """Read the jobs of these names in a bundled jobfile, or all: their options, with [global]'s.

    Without a jobfile there is one job, without options.
    """
    if not jobfile:
        return {"job": {}}
    parser = configparser.RawConfigParser(
        default_section="global",
        allow_no_value=True,
        delimiters=("=",),
        comment_prefixes=("#", ";"),
    )
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string((JOBFILES / jobfile).read_text())
    return {
        name: {key: 1 if value is None else value for key, value in parser.items(name)}
        for name in names or parser.sections()
    }


# --- factors that a user adds: options of the engine or of fio, which these two know themselves ---


def parse_factors(words: Sequence[str]) -> dict[str, tuple[Factor, ...]]:
    """Read words like nconnect=1,4. Raises HarnessError for what is no option, or has no values."""
    factors: dict[str, tuple[Factor, ...]] = {}
    for word in words:
        name, values = named_values("--factors", word)
        if name in factors:
            raise HarnessError(f"--factors {word}: give each value once, and each name")
        factors[name] = values
    for name in factors:
        if name in _OURS:
            raise HarnessError(f"--factors {name}: a scenario cannot change that")
        if name == "gss_context":
            raise HarnessError(_GSS_CONTEXT_GONE)
        if not (of_engine(name) or _lists(f"--cmdhelp={name}", name, None)):
            raise HarnessError(
                f"--factors {name}: neither the engine nor fio has such an option",
                "fio --enghelp=./build/libnfsmulti.so and fio --cmdhelp=all list them",
            )
    return factors


def named_values(option: str, word: str) -> tuple[str, tuple[Factor, ...]]:
    """Read NAME=V1,V2 of an option. Raises HarnessError."""
    name, equals, text = word.partition("=")
    values = [value for value in text.split(",") if value]
    if not equals or not re.fullmatch(r"\w+", name):
        raise HarnessError(f"{option} '{word}': write a factor like nconnect=1,4")
    if not values or len(set(values)) != len(values):
        raise HarnessError(f"{option} {word}: give each value once, and each name")
    return name, tuple(int(v) if v.isdecimal() and str(int(v)) == v else v for v in values)


def parse_setting(setting: str, command: str, get: str) -> Setting | None:
    """Read --setting, --set and --get; None where there is none of them. Raises HarnessError."""
    if not setting:
        if command or get:
            raise HarnessError("--set and --get need a setting", "--setting NAME=V1,V2")
        return None
    name, values = named_values("--setting", setting)
    if odd := [value for value in values if not PLAIN.fullmatch(str(value))]:
        raise HarnessError(
            f"--setting {name}: {odd[0]}: a value may not contain quotes or shell characters"
        )
    if f"{{{name}}}" not in command:
        raise HarnessError(
            f"--setting {name}: --set does not say where the value goes",
            f"--set 'ssh nas \"echo {{{name}}} > /proc/fs/nfsd/threads\"'",
        )
    return Setting(name, list(values), command, get)


def of_engine(name: str) -> bool:
    """Ask the engine whether it has an option."""
    library = Engine.built().library
    # fio splits what follows --enghelp= at commas, so the name is short.
    return _lists(f"--enghelp=./{library.name},{name}", name, library.parent)


def _lists(question: str, name: str, cwd: Path | None) -> bool:
    """Ask fio, which answers with status 0 and the nearest name where it does not know this one."""
    said = run(["fio", question], timeout=_SECONDS, cwd=cwd).stdout
    return bool(re.search(rf"^\s*{name}\b", said, re.MULTILINE))
