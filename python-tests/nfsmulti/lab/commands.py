# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti lab: start, stop, status, exec, run, kernel."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nfsmulti import machine, typed
from nfsmulti.errors import HarnessError
from nfsmulti.lab import EXPORT, READ_ONLY, Lab, LabConfig, Limits
from nfsmulti.lab.guest import GuestConfig, Mount, run_in_guest
from nfsmulti.lab.kerberos import Kerberos
from nfsmulti.lab.lab import LabState, labs_lock, live_labs, remove_leftovers
from nfsmulti.paths import COMMAND, JOBFILES, LABS, engine_as_typed, shown
from nfsmulti.processes import Process, end_politely, shell_status, unmarked
from nfsmulti.terminal import Lines

_out = Lines()

_IN_MEMORY = (
    "nfsmulti: {}: one nfs-ganesha serves all addresses from its memory; left out: NFSv3, a server"
    " for each address, and data of a file beyond its first 2 MiB"
)
_ON_LOOPBACK = "; without namespaces also the limits of rates, and a network of its own"


def _config(
    addresses: int,
    instances: str,
    size: str | None,
    sec: str | None,
    xprtsec: str,
    *,
    local: bool,
    read_only: bool,
    **limits: Any,
) -> LabConfig:
    """Return the lab, in memory where this user may not export files, and say what that lacks."""
    given = Limits(**limits)
    if lacking := machine.missing_privileges():
        local = local or not (machine.may_make_namespaces() or given)
        more = _ON_LOOPBACK if local else ""
        print(_IN_MEMORY.format(lacking) + more, file=sys.stderr)
    return LabConfig(
        addresses=addresses,
        one_server=instances == "one",
        local=local,
        limits=given,
        size=size,
        exports=(EXPORT, READ_ONLY) if read_only else (EXPORT,),
        memory=lacking is not None,
        kerberos=Kerberos(sec) if sec else None,
        xprtsec=xprtsec,
    )


def start(lab_id: str | None, **wanted: Any) -> None:
    """Start a lab in the background, and print its pool and how to use it."""
    _explain(hold(_config(**wanted), lab_id))


def run(command: Sequence[str], lab_id: str | None, **wanted: Any) -> None:
    """Run a command as a client of its own lab. Ends with its status."""
    with (
        Lab(_config(**wanted), lab_id=lab_id) as lab,
        Process(lab.command(command), env=lab.state.asking().environment, stdin=None) as process,
    ):
        status = process.wait()
    sys.exit(shell_status(status))


def execute(command: Sequence[str], lab_id: str | None) -> None:
    """Become a command that is a client of a running lab."""
    state = choose(lab_id)
    argv = [*state.entrance(), *command]
    try:
        os.execvpe(argv[0], argv, {**os.environ, **state.asking().environment})
    except OSError as error:
        raise HarnessError(f"{argv[0]}: {error.strerror}") from None


def stop(lab_id: str | None, *, every: bool) -> None:
    """Stop a lab and remove all that belongs to it."""
    with labs_lock():
        removed = remove_leftovers()
    for leftover in removed:
        _out.print(f"lab {leftover} had no owner any more: removed")
    live = live_labs()
    held = [state for state in live if state.held]
    if not (removed or lab_id or live):
        _out.print("no lab is running")
        return
    for state in held if every or (removed and not held) else [choose(lab_id)]:
        end(state)
        _out.print(f"lab {state.id} stopped")


def status() -> None:
    """List the running labs."""
    labs = live_labs()
    for state in labs:
        _explain(state)
    if not labs:
        _out.print("no lab is running")


def kernel(
    command: Sequence[str],
    mount: Sequence[str] | None,
    results: Path | None,
    cpus: int,
    memory: int,
    sec: str | None,
    xprtsec: str,
    *,
    network: bool,
) -> None:
    """Run a command in the guest. Ends with its status."""
    config = GuestConfig(
        cpus=cpus,
        memory=memory,
        mounts=tuple(Mount.parse(text) for text in mount or []),
        results=results.absolute() if results else None,
        network=network,
        sec=sec or "sys",
        xprtsec=xprtsec,
    )
    try:
        if config.results:
            config.results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"--results={results}: {error.strerror}") from None
    sys.exit(run_in_guest(command, config))


def _explain(state: LabState) -> None:
    """Print what a user of the lab needs, ready to be copied."""
    dead = [name for name, process in state.processes.items() if not process.alive()]
    holder = "" if state.held else f", of process {state.owner.pid}"
    what = "is up" if state.ready else "is starting"
    _out.print(f"lab {state.id} {what}{holder}" + (f", dead: {dead}" if dead else ""))
    if not state.ready:
        return
    settings = [shlex.quote(f"{name}={value}") for name, value in state.variables.items()]
    fio, given = " ".join([*settings, "fio"]), shlex.quote(state.pools["lab"])
    if state.enter:
        fio, given = f"{COMMAND} lab exec -- fio", "lab"
    security = [shlex.quote(f"--{name}={value}") for name, value in state.options.items()]
    options = " ".join([f"--ioengine={engine_as_typed()} --pool={given}", *security])
    for name, pool in state.pools.items():
        _out.print(f"  pool {name:10} {pool}")
    for name, folder in state.volumes.items():
        _out.print(f"  files {name:9} {folder}")
    _out.print(f"  try it          {fio} {options} {shown(JOBFILES / 'fsperf.fio')}")
    if state.enter:
        _out.print(f"  or any tool     {shlex.join(state.entrance())} COMMAND")
    if state.held:
        _out.print(f"  stop it         {COMMAND} lab stop --id {state.id}")


# --- labs that outlive the command which started them: a process in the background holds each ---

_STOP_SECONDS = 20.0


def hold(config: LabConfig, lab_id: str | None) -> LabState:
    """Start a lab that stays until it is stopped. Raises HarnessError where it does not start."""
    wanted = [json.dumps(config, default=vars), *([lab_id] if lab_id else [])]
    # A program of its own: a fork would keep the marks of those who have started us.
    holder = subprocess.Popen(
        [sys.executable, "-m", __name__, *wanted],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**unmarked(), "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )
    assert holder.stdout is not None
    try:
        with holder.stdout as pipe:
            said = pipe.read()
    except BaseException:
        holder.terminate()
        raise
    report = json.loads(said) if said else {"what": "the lab ended before it was ready"}
    if "what" in report:
        holder.wait()
        raise HarnessError(**report)
    state = LabState.read(LABS / report["id"])
    if state is None:
        raise HarnessError(f"lab {report['id']} ended as soon as it was ready")
    return state


def _held() -> None:
    """Hold a lab until SIGTERM. Our arguments say which, our output how it started."""
    end_politely()
    config, *named = sys.argv[1:]
    wanted = typed.read(LabConfig, json.loads(config))
    try:
        with Lab(wanted, lab_id=next(iter(named), None), held=True) as lab:
            _report(id=lab.id)
            while True:
                signal.pause()
    except HarnessError as error:
        _report(what=error.what, remedy=error.remedy)
    except Exception as error:  # there is nobody else to tell
        _report(what=repr(error))


def _report(**values: str | None) -> None:
    """Tell whoever waits for our standard output, and close it."""
    print(json.dumps(values), flush=True)
    os.dup2(os.open(os.devnull, os.O_RDWR), sys.stdout.fileno())


def choose(lab_id: str | None) -> LabState:
    """Return the live lab `lab_id`, or the only one there is. Raises HarnessError."""
    labs = [state for state in live_labs() if state.ready and lab_id in (None, state.id)]
    if len(labs) == 1:
        return labs[0]
    if not labs:
        missing = f"no lab '{lab_id}' is running" if lab_id else "no lab is running"
        raise HarnessError(missing, "./nfsmulti lab start")
    ids = ", ".join(state.id for state in labs)
    raise HarnessError(f"several labs are running: {ids}", "name one with --id")


def end(state: LabState) -> None:
    """Stop a held lab and wait until nothing is left of it. Raises HarnessError."""
    if not state.held:
        raise HarnessError(
            f"lab {state.id} belongs to a running command, process {state.owner.pid}",
            "it ends with that process",
        )
    state.owner.kill(_STOP_SECONDS)
    with labs_lock():
        remove_leftovers()


if __name__ == "__main__":
    _held()
