# SPDX-License-Identifier: GPL-2.0-only
"""How a run begins: planned anew, or taken up where it stopped."""

import dataclasses
import os
import re
import secrets
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nfsmulti import machine
from nfsmulti.arguments import COMMANDS, SHARED, config
from nfsmulti.arguments.parser import Parser
from nfsmulti.errors import HarnessError
from nfsmulti.hosts import parse_hosts
from nfsmulti.kept import run_folder
from nfsmulti.lab import LabConfig, guest
from nfsmulti.machine import Level, links, rdma_devices
from nfsmulti.paths import write_whole
from nfsmulti.pool import read_pool
from nfsmulti.processes import find
from nfsmulti.run.amounts import Amounts, file_bytes, server_memory
from nfsmulti.run.offered import peaks_first
from nfsmulti.run.place import VERSION_NAMES, OnPool
from nfsmulti.run.plan import FILE, Factors, Plan, Setting, crossed, of_engine, ordered, under
from nfsmulti.run.record import Record, changed, now_text, write_machine
from nfsmulti.scenario import CellSpec, Choice, GuestPlace, Scale
from nfsmulti.stories import SCENARIOS
from nfsmulti.story import Story

# For tests of the harness itself: every cell then takes so long.
_CELL_SECONDS = "NFSMULTI_CELL_SECONDS"
_ENDED = ("done", "skipped")
# Where entries or credentials are, or what is told of clients.
_HERE_ALONE = ("metadata", "security", "clients")
# Options that a kernel mount does not take from the engine.
_OF_URLS = {*VERSION_NAMES, "proto", "rsize", "wsize"}


@dataclass(frozen=True)
class Request:
    """What a user asks for; `command` is how, `choice` what of connections or metadata."""

    pool: str | None = None
    repeat: int | None = None
    quick: bool = False
    label: str = ""
    seed: int | None = None
    factors: Factors = field(default_factory=dict)
    command: str = ""
    hosts: str = ""
    setting: Setting | None = None
    server_command: str = ""
    choice: Choice = field(default_factory=Choice)
    amounts: Amounts = field(default_factory=Amounts)


def planned(request: Request, name: str) -> tuple[Plan, dict[str, Any]]:
    """Plan a run of the scenario `name`, and write nothing; gives its summary's place, too.

    Raises HarnessError where it cannot run as it was asked for.
    """
    if not re.fullmatch(r"[\w.-]*", request.label):
        raise HarnessError(f"--label '{request.label}': use letters, digits, '-', '_' and '.'")
    if request.pool:
        check_choice(request.choice, request.hosts)
    if name in _HERE_ALONE and request.hosts:
        raise HarnessError(f"{name} runs on this machine only: leave out --hosts")
    scenario = SCENARIOS[name]
    seconds = os.environ.get(_CELL_SECONDS, "")
    try:
        scale = Scale(request.quick, float(seconds) if seconds else None, request.choice)
    except ValueError:
        raise HarnessError(f"{_CELL_SECONDS}={seconds}: not a number of seconds") from None
    specs, left_out = _specs(scenario, request, scale)
    repeats = request.repeat or (scenario.quick_repeats if request.quick else scenario.repeats)
    seed = request.seed if request.seed is not None else secrets.randbelow(1 << 31)
    # Without it the command would give another order.
    told = "" if request.seed is not None or not request.command else f" --seed {seed}"
    block = request.setting.name if request.setting else ""
    cells = peaks_first(ordered(under(specs, request.setting), repeats, seed, block))
    plan = Plan(
        scenario=name,
        label=request.label,
        quick=request.quick,
        started=now_text(),
        command=request.command + told,
        seed=seed,
        pool=request.pool,
        left_out=left_out,
        cells=cells,
        hosts=request.hosts,
        setting=request.setting,
        server_command=request.server_command,
    )
    chosen: dict[str, Any] = {
        "factors": {name: list(values) for name, values in request.factors.items()},
        "setting": dataclasses.asdict(plan.setting) if plan.setting else {},
        "server_command": plan.server_command,
        "amounts": request.amounts.given,
        "slo": request.choice.slo,
        "restart": request.choice.restart,
        "absent": request.choice.absent,
    }
    return plan, _place(scenario, plan) | {name: one for name, one in chosen.items() if one}


def begin(results: Path, plan: Plan, place: dict[str, Any]) -> Record:
    """Begin a run that was planned, below `results`."""
    record = Record.begin(run_folder(results / plan.scenario, plan.label), plan, place)
    if plan.command:
        words = shlex.split(plan.command)
        parser = Parser("run", COMMANDS["run"], SHARED)
        config_text = config.text(parser, words[words.index("run") + 1 :])
        write_whole(record.folder / config.FILE, config_text)
    write_machine(record.folder)
    return record


def resumed(results: Path, given: Path | None, name: str) -> Record:
    """Take up the run `given`, or the newest of the scenario `name` that has cells left."""
    run = given or _newest(results / name)
    record = Record.resume(run)
    if record.plan.scenario != name:
        raise HarnessError(f"{run} is a run of {record.plan.scenario}, not of {name}")
    if all(cell.status in _ENDED for cell in record.cells):
        raise HarnessError(f"{run} is finished: nothing is left to run")
    if other := changed(run):
        raise HarnessError(
            f"{run} began with {other}; its cells would not be comparable",
            "restore what it began with, or start another run",
        )
    return record


def _newest(folder: Path) -> Path:
    for plan in sorted(folder.glob(f"*/{FILE}"), reverse=True):
        try:
            if any(cell.status not in _ENDED for cell in Record.resume(plan.parent).cells):
                return plan.parent
        except HarnessError as error:
            print(f"nfsmulti: skipped: {error}", file=sys.stderr)
    raise HarnessError(f"{folder} holds no unfinished run", "start one without --resume")


def _specs(scenario: Story, request: Request, scale: Scale) -> tuple[list[CellSpec], list[str]]:
    left_out: list[str] = []
    if request.pool:
        offers = OnPool(request.pool, request.server_command).offers
        specs, left_out = scenario.own_cells(scale, offers)
        if not offers.urls and (of_urls := request.factors.keys() & _OF_URLS):
            raise HarnessError(
                f"--factors {min(of_urls)}: a directory keeps that of its mount",
                "give a pool of URLs",
            )
    else:
        specs = scenario.cells(scale)
    if (of_urls := request.factors.keys() & _OF_URLS) and any(
        spec.client == "mounts" for spec in specs
    ):
        left_out.append(f"cells on mounts: {min(of_urls)} is as they were mounted")
        specs = [spec for spec in specs if spec.client != "mounts"]
    for option in filter(of_engine, request.factors):
        if any(spec.client == "mount" for spec in specs):
            left_out.append(f"single mounts: fio's own engines, which use them, have no {option}")
        specs = [spec for spec in specs if spec.client != "mount"]
    if not specs:
        raise HarnessError(f"{scenario.name}: nothing of it can run here: {'; '.join(left_out)}")
    specs = crossed(request.amounts.of(specs), request.factors)
    return specs, left_out


def _place(scenario: Story, plan: Plan) -> dict[str, Any]:
    """Return the summary's `place`: its kind, and its limits, by place where there are several."""
    if plan.pool:
        hosts = {"hosts": [host.text for host in parse_hosts(plan.hosts)]} if plan.hosts else {}
        place: dict[str, Any] = {"kind": "pool", "pool": plan.pool, "limits": {}, **hosts}
        if not hosts:  # the devices that lead to its servers, with their rates in bit/s
            addresses = [path.address for path in read_pool(plan.pool) if path.address]
            place["links"] = links(addresses)
            if guest.inside() and set(addresses) <= {*guest.ADDRESSES, guest.ADDRESS6}:
                place["own_server"] = True
        if plan.server_command and (memory := server_memory(plan.server_command)):
            files = file_bytes([cell.spec for cell in plan.cells])
            place |= {"server_memory": memory, "file_bytes": files}
        return place
    places = {name: scenario.places[name] for name in plan.places}
    kinds = dict.fromkeys(
        "lab" if isinstance(p, LabConfig) else "kernel-lab" for p in places.values()
    )
    every = {
        name: place.limits.rates if isinstance(place, LabConfig) else place.limits
        for name, place in places.items()
    }
    limits = {name: rates for name, rates in every.items() if rates}
    alone = len(places) == 1 and limits
    return {
        "kind": " and ".join(kinds),
        "pool": "",
        "limits": next(iter(limits.values())) if alone else limits,
        **next((_guest(p, plan) for p in places.values() if isinstance(p, GuestPlace)), {}),
    }


def _guest(place: GuestPlace, plan: Plan) -> dict[str, Any]:
    """Return what is set in a guest beside limits, and what is not as it was published."""
    used = {cell.spec.mounts for cell in plan.cells}
    mounts = {
        name: ",".join(dict.fromkeys(",".join(mount.options) for mount in group))
        for name, group in place.mounts.items()
        if name in used
    }
    facts = {
        "mounts": mounts,
        "nfsd_threads": place.threads,
        "differs": list(place.differs),
    }
    return {name: fact for name, fact in facts.items() if fact}


# --- what `run connections` and `run metadata` need ---


def check_choice(choice: Choice, hosts: str) -> None:
    """Raise HarnessError where a user's pool cannot be used like that from this machine."""
    if choice.mounts:
        if hosts:
            raise HarnessError("--mounts mounts on this machine only: leave out --hosts")
        if why := machine.missing_privileges():
            raise HarnessError(f"--mounts: mounting needs root ({why})", "run it as root")
        find("mount.nfs")
    if "rdma" in choice.proto and not hosts:
        findings = list(rdma_devices(wanted=True))
        if all(finding.level is not Level.OK for finding in findings):
            raise HarnessError(f"--proto rdma: {findings[0].what}", findings[0].remedy)
