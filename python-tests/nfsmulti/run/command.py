# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti run."""

import dataclasses
import json
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nfsmulti.errors import HarnessError
from nfsmulti.paths import COMMAND, shown
from nfsmulti.pool import not_in_clear, read_pool
from nfsmulti.report import pages
from nfsmulti.report.pages import naming
from nfsmulti.run import clients, plan, preflight, runner, start
from nfsmulti.run.amounts import Amounts, cached
from nfsmulti.run.directory import Leftover
from nfsmulti.run.offered import job_of
from nfsmulti.run.place import OnPool
from nfsmulti.run.record import Record, as_planned, called, expected_seconds, waiting_run
from nfsmulti.scenario import OWN_SERVER, Choice
from nfsmulti.screen import Screen
from nfsmulti.stories import SCENARIOS
from nfsmulti.stories.clients import MOST_UNASKED
from nfsmulti.stories.connections import WORKLOADS
from nfsmulti.texts import counted, duration_text

_out = Screen(soft_wrap=True)
_INTERRUPTED = 130
# What a user gives of a request as it is, by its names in both.
_AS_GIVEN = ("pool", "repeat", "quick", "label", "seed", "hosts", "server_command")
_OF_POOLS = ("hosts", "server_command")
# What says nothing of the run itself.
_BESIDE = ("resume", "results", "line", "as_json")


def run(scenario: str, more: Sequence[str], **values: Any) -> None:
    """Begin the run that is asked for, or go on with one, and carry it out."""
    # 0 is given, although it equals False.
    given = {
        name: value
        for name, value in values.items()
        if value is not None and value is not False and value not in ("", ())
    }
    _out.stderr = "as_json" in given  # which alone is printed then
    _check(given)
    folder = given["results"]
    if "resume" in given:
        if len(more) > 1:
            raise HarnessError("--resume continues one run: name its scenario and its folder")
        record = start.resumed(folder, Path(more[0]) if more else None, scenario)
    else:
        one, place = start.planned(_request(scenario, more, given), scenario)
        if one.pool:
            preflight.check(one, OnPool(one.pool), lambda *_: None)  # the run says it again
        if "dry_run" in given:
            _tell(one, place, as_json="as_json" in given)
            return
        if one.pool and "yes" not in given:
            _ask(clients.most(one))
        record = start.begin(folder, one, place)
    try:
        status = _carry_out(record)
    finally:
        if "as_json" in given:
            print(json.dumps({"runs": [_ended(record)]}, indent="\t"))
    sys.exit(status)


def _check(given: Mapping[str, Any]) -> None:
    """Raise HarnessError where options exclude each other."""
    if given.keys() >= {"pool", "lab"}:
        raise HarnessError("--pool and --lab exclude each other")
    for name in _OF_POOLS:
        if name in given and not given.keys() & {"pool", "resume"}:
            raise HarnessError(f"{_named(name)} needs a --pool: it is for servers of yours")
    if "discard" in given:
        _check_discard(given)
    if "absent" in given and "restart" not in given:
        raise HarnessError("--absent needs --restart", "give --restart too")
    if "resume" in given and (words := _named(*(one for one in given if one not in _BESIDE))):
        raise HarnessError(  # its plan says what it is
            f"--resume continues a run as it began: {words} cannot change that",
            f"leave out {words}, or start another run without --resume",
        )
    if given.get("restart") == OWN_SERVER and "pool" in given:
        raise HarnessError(
            "--restart needs a command", "--restart 'ssh nas systemctl restart nfs-server'"
        )


def _check_discard(given: Mapping[str, Any]) -> None:
    """Raise HarnessError where the kernel has nothing to drop, or cannot."""
    paths = read_pool(given["pool"]) if "pool" in given else []
    asked = [*given.get("proto", ()), *(["--mounts"] if "mounts" in given else [])]
    others = {*given.get("workload", ()), *(path.sec for path in paths)}
    if found := not_in_clear(paths, *asked) + sorted(others - {"64k-read", "sys", "krb5"}):
        raise HarnessError(
            f"--discard with {found[0]}: the kernel can drop long READs over TCP alone",
            "use --workload=64k-read over proto=tcp in clear, with sec=sys or krb5",
        )


def _ask(many: int) -> None:
    """Ask whether a user's server is to have so many connections. Raises HarnessError if not."""
    if many <= MOST_UNASKED:
        return
    refused = HarnessError(
        f"{many:,} connections are more than a server in use may have room for",
        "use --yes if this one is for tests",
    )
    if not sys.stdin.isatty():
        raise refused
    # On stdout it would stand in the output of --json.
    print(f"{refused.what}. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise HarnessError("nothing was run", "use fewer --clients")


def _named(*options: str) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in options)


def _request(scenario: str, more: Sequence[str], given: Mapping[str, Any]) -> start.Request:
    """Read what is given. Raises HarnessError."""
    amounts = {name: given[name] for name in ("size", "runtime", "bs") if name in given}
    chosen = {one.name: given[one.name] for one in dataclasses.fields(Choice) if one.name in given}
    if scenario != "metadata" and (depths := chosen.pop("depth", ())):
        if len(depths) > 1:
            numbers = ",".join(map(str, depths))
            raise HarnessError(
                f"--depth {numbers}: give one number",
                f"--factors iodepth={numbers} compares several",
            )
        (amounts["depth"],) = depths
    chosen["workload"] = _workloads(scenario, given.get("workload", ()))
    setting, command, get = (given.get(name, "") for name in ("setting", "set", "get"))
    return start.Request(
        **{name: given[name] for name in _AS_GIVEN if name in given},
        factors=plan.parse_factors([*given.get("factors", ()), *more]),
        command=given.get("line", ""),
        setting=plan.parse_setting(setting, command, get),
        choice=Choice(**chosen),
        amounts=Amounts(**amounts),
    )


def _workloads(scenario: str, given: tuple[str, ...]) -> tuple[str, ...]:
    """Check --workload: one name of connections, several of others, or job files of latency."""
    if scenario == "latency":
        return tuple(map(job_of, given))
    varied = [one.levels for one in SCENARIOS[scenario].factors.values() if one.asked == "workload"]
    several = [names for names in varied if not callable(names) and len(names) > 1]
    known = [*map(str, several[0])] if several else [*WORKLOADS]
    if not {*given} <= {*known} or (len(given) > 1 and not several):
        raise HarnessError(f"--workload {','.join(given)}: give {' or '.join(known)}")
    return given


def _tell(one: plan.Plan, place: dict[str, Any], *, as_json: bool) -> None:
    """Say what a run would do: its cells in order, and how long they take."""
    seconds = expected_seconds(one.cells, runner.guests(one))
    restarts = sum(bool(cell.spec.restart) for cell in one.cells)  # of its server
    if as_json:
        found = {
            "scenario": one.scenario,
            "seconds": round(seconds),
            "left_out": one.left_out,
            "restarts": restarts,
            "cells": [{"id": cell.id, "factors": cell.spec.factors} for cell in one.cells],
        }
        print(json.dumps({"runs": [found]}, indent="\t"))
        return
    _out.print(f"{one.scenario}: {len(one.cells)} cells, about {duration_text(seconds)}")
    if restarts:
        _out.print(f"  restarts the server {counted(restarts, 'time')}")
    _say_left_out(one)
    name = naming(waiting_run(one, place))
    for cell in one.cells:
        _out.print(f"  {cell.order} {called(as_planned(cell), name)}")
    _out.print(f"Run them: {one.command.replace(' --dry-run', '')}")


def _ended(record: Record) -> dict[str, Any]:
    """Return what became of a run, for other programs; its folder has all figures."""
    left = Leftover.of(record.folder)
    return {
        "scenario": record.plan.scenario,
        "folder": shown(record.folder),
        "answer": record.answer,
        "cells": Counter(cell.status for cell in record.cells),
        "left_on_server": left and left.directory,
    }


def _say_left_out(one: plan.Plan) -> None:
    """Say what the scenario has and this run has not, and why."""
    for line in one.left_out:
        _out.print(f"  left out: {line}")


def _carry_out(record: Record) -> int:
    """Carry out a run, and say what it has left; gives the exit status."""
    try:
        with record.claimed():
            return max(_one(record), _say_leftover(record))
    except (KeyboardInterrupt, SystemExit) as stop:
        _out.print(f"stopped; continue with: {_resume_line(record)}")
        _say_leftover(record)
        code = _INTERRUPTED if isinstance(stop, KeyboardInterrupt) else stop.code
        raise SystemExit(code) from None


def _one(record: Record) -> int:
    """Carry out a run and say how it went; gives its exit status."""
    _out.print(f"{record.plan.scenario}: {shown(record.folder)}")
    _say_left_out(record.plan)
    if line := cached([cell.spec for cell in record.plan.cells], record.summary):
        _out.print(f"  {line}")
    status = 0
    try:
        runner.carry_out(record, _out)
    except HarnessError as error:
        print(f"nfsmulti: {error}", file=sys.stderr)
        status = 1
    if any(cell.status == "done" for cell in record.cells):
        status = max(status, _reported(record))
    again = _resume_line(record)
    if left := len(record.waiting()):
        _out.print(f"{counted(left, 'cell')} left to run; continue with: {again}")
    if failed := len(record.failed):
        _out.print(f"{failed} of {len(record.cells)} cells failed; run them again with: {again}")
    return 1 if left or failed else status


def _say_leftover(record: Record) -> int:
    """Say what the run has left on its servers; gives 1 where there is anything."""
    left = Leftover.of(record.folder)
    if left:
        _out.print(left.text(record.folder.parent.parent))
    return int(left is not None)


def _reported(record: Record) -> int:
    """Write the report and say its answer. What goes wrong with it is no reason to fail the run."""
    folder = shown(record.folder)
    try:
        answer, text = pages.write(record.folder)
    except Exception as error:  # whatever it is: the figures are safe
        print(f"nfsmulti: {folder}: no report: {error!r}", file=sys.stderr)
        _out.print(f"{folder} holds summary.json, each fio's output")
        return 1
    record.answer = answer.headline
    _out.print(f"\n{text}")
    return 0


def _resume_line(record: Record) -> str:
    folder = shlex.quote(shown(record.folder))
    return f"{COMMAND} run {record.plan.scenario} --resume {folder}"
