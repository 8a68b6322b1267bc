# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti lab: start, stop, status, exec, run, kernel."""

from __future__ import annotations

import json
import math
import os
import pickle
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nfsmulti import machine
from nfsmulti.errors import HarnessError
from nfsmulti.hosts import refuse_dropped_engine
from nfsmulti.lab import EXPORT, READ_ONLY, Instances, Lab, LabConfig, Limits
from nfsmulti.lab.guest import GuestConfig, GuestTimeoutError, Mount, run_in_guest
from nfsmulti.lab.kernels import GUEST_HELP, Kind
from nfsmulti.lab.lab import LabState, labs_lock, live_labs, remove_leftovers
from nfsmulti.options import by_fields
from nfsmulti.paths import COMMAND, JOBFILES, LABS, engine_as_typed, shown
from nfsmulti.processes import Process, end_politely, unmarked

app = typer.Typer(
    help="Real NFS servers (nfs-ganesha) on this machine, with several addresses of one export;"
    " or a kernel with an NFS server, NFS mounts and RDMA, in a virtual machine.",
    no_args_is_help=True,
)
_out = Console(highlight=False, soft_wrap=True)

_TIMEOUT_STATUS = 124  # as timeout(1)

_IN_MEMORY = (
    "nfsmulti: {}: one nfs-ganesha serves all addresses from its memory; left out: NFSv3, a server"
    " for each address, and data of a file beyond its first 2 MiB"
)
_ON_LOOPBACK = "; without namespaces also the limits of rates, and a network of its own"

_Id = Annotated[str | None, typer.Option("--id", help="The lab's name, if several are running.")]
_Command = Annotated[list[str], typer.Argument(metavar="-- COMMAND...", show_default=False)]


@dataclass(frozen=True)
class _Wanted:
    """The lab that `start` and `run` are to make."""

    addresses: Annotated[int, typer.Option(help="Server addresses, each a path of the pool.")] = 4
    instances: Annotated[
        Instances, typer.Option(help="Server processes: one, or one per address.")
    ] = Instances.PER_ADDRESS
    local: Annotated[
        bool,
        typer.Option(
            "--local", help="Serve on this machine's loopback: 127.0.0.1 and those after it."
        ),
    ] = False
    link: Annotated[
        str | None, typer.Option(help="Rate of the whole link, such as 1gbit or 9400mbit.")
    ] = None
    per_address: Annotated[
        str | None, typer.Option(help="Cap on each address, such as 120mbit.")
    ] = None
    assured: Annotated[
        str | None, typer.Option(help="Rate assured to each address when all are busy.")
    ] = None
    burst: Annotated[
        str | None, typer.Option(help="Burst that an address may send, such as 2m.")
    ] = None
    per_connection: Annotated[
        str | None,
        typer.Option(help="Cap on each TCP connection, such as 200mbit; instead of --per-address."),
    ] = None
    read_only: Annotated[
        bool, typer.Option("--ro", help="Export the same files read-only too (the pool 'ro').")
    ] = False
    size: Annotated[
        str | None, typer.Option(help="Size of the file system, in memory, such as 4g.")
    ] = None
    lab_id: _Id = None

    def config(self) -> LabConfig:
        """Give the lab, in memory where this user may not export files, and say what that lacks."""
        limits = Limits(self.link, self.per_address, self.assured, self.burst, self.per_connection)
        local = self.local
        if lacking := machine.missing_privileges():
            local = local or not (machine.may_make_namespaces() or limits)
            more = _ON_LOOPBACK if local else ""
            print(_IN_MEMORY.format(lacking) + more, file=sys.stderr)
        return LabConfig(
            addresses=self.addresses,
            instances=self.instances,
            local=local,
            limits=limits,
            size=self.size,
            exports=(EXPORT, READ_ONLY) if self.read_only else (EXPORT,),
            memory=lacking is not None,
        )


@app.command()
@by_fields
def start(wanted: _Wanted) -> None:
    """Start a lab that stays up until `lab stop`, and print its pool and how to use it."""
    _explain(hold(wanted.config(), wanted.lab_id))


@app.command()
@by_fields
def run(command: _Command, wanted: _Wanted) -> None:
    """Run COMMAND as a client of its own lab, then take the lab down.

    COMMAND finds the pool in $POOL; the engine also knows it as --pool=lab, and its first path
    alone as --pool=one. The exit status is the command's.
    """
    refuse_dropped_engine(command)
    with (
        Lab(wanted.config(), lab_id=wanted.lab_id) as lab,
        Process(lab.command(command), env=lab.environment, stdin=None) as process,
    ):
        status = process.wait() or 0
    raise typer.Exit(status if status >= 0 else 128 - status)


@app.command("exec")
def execute(command: _Command, lab_id: _Id = None) -> None:
    """Run COMMAND as a client of a running lab; $POOL and --pool=lab as with `lab run`."""
    refuse_dropped_engine(command)
    state = choose(lab_id)
    argv = [*state.entrance(), *command]
    try:
        os.execvpe(argv[0], argv, {**os.environ, **state.environment})
    except OSError as error:
        raise HarnessError(f"{argv[0]}: {error.strerror}") from None


@app.command()
def stop(
    lab_id: _Id = None,
    every: Annotated[
        bool, typer.Option("--all", help="Stop all labs started by `lab start`.")
    ] = False,
) -> None:
    """Stop a lab and remove all that belongs to it."""
    with labs_lock():
        removed = remove_leftovers()
    for leftover in removed:
        _out.print(f"lab {leftover} had no owner any more: removed")
    held = [state for state in live_labs() if state.held]
    for state in held if every or (removed and not held) else [choose(lab_id)]:
        end(state)
        _out.print(f"lab {state.id} stopped")


@app.command()
def status() -> None:
    """List the running labs."""
    labs = live_labs()
    for state in labs:
        _explain(state)
    if not labs:
        _out.print("no lab is running")


@app.command()
def kernel(
    command: _Command,
    mount: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR=OPTIONS",
            help="Mount the server's export on DIR first; may be given several times.",
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The only folder whose changes are kept; created if missing."
        ),
    ] = None,
    network: Annotated[
        bool,
        typer.Option(
            "--network", help="COMMAND also reaches what this machine does (10.0.3.2 is itself)."
        ),
    ] = False,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="End COMMAND after this time.")
    ] = None,
    guest: Annotated[Kind, typer.Option(help=GUEST_HELP)] = Kind.QEMU,
    cpus: Annotated[int, typer.Option(help="The guest's processors.")] = 1,
    memory: Annotated[int, typer.Option(metavar="MB", help="The guest's memory.")] = 2048,
) -> None:
    """Run COMMAND under Debian's own kernel in a virtual machine, with RDMA and the kernel's NFS.

    COMMAND runs as root in the current folder and sees this machine's files and environment,
    but its changes are lost, except those in --results DIR, which is $NFSMULTI_LAB_OUT inside.
    It reads nothing from stdin. The exit status is COMMAND's; 124 after --timeout.

    Inside, an RDMA device (rdma_rxe) and an NFS server share the addresses 10.0.2.15, 10.0.2.16
    and fd02::15 ($NFSMULTI_LAB_ADDRESSES). The server exports /export ($NFSMULTI_LAB_EXPORT; the
    root in version 4) over TCP, and over RDMA on port 20049. The pool of both IPv4 addresses is
    $POOL; the engine knows it as --pool=lab, the first one alone as --pool=one, both over RDMA as
    --pool=rdma, and the mounts of --mount as --pool=mounts.

    --mount takes nfs(5)'s options, and address= to choose an address; what else this server needs
    (nolock, RDMA's port) is added: --mount /mnt/a=vers=3,proto=rdma
    --mount /mnt/b=vers=4.2,nconnect=4,address=10.0.2.16
    """
    refuse_dropped_engine(command)
    config = GuestConfig(
        kind=guest,
        cpus=cpus,
        memory=memory,
        mounts=tuple(Mount.parse(text) for text in mount or []),
        results=results.absolute() if results else None,
        network=network,
        timeout=math.inf if timeout is None else timeout,
    )
    try:
        if config.results:
            config.results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"--results={results}: {error.strerror}") from None
    try:
        ended = run_in_guest(command, config)
    except GuestTimeoutError as error:
        print(f"nfsmulti: {error}", file=sys.stderr)
        ended = _TIMEOUT_STATUS
    raise typer.Exit(ended)


def _explain(state: LabState) -> None:
    """Print what a user of the lab needs, ready to be copied."""
    dead = [name for name, process in state.processes.items() if not process.alive()]
    holder = "" if state.held else f", of process {state.owner.pid}"
    what = "is up" if state.ready else "is starting"
    _out.print(f"[bold]lab {state.id}[/bold] {what}{holder}" + (f", dead: {dead}" if dead else ""))
    if not state.ready:
        return
    fio, given = "fio", shlex.quote(state.pools["lab"])
    if state.enter:
        fio, given = f"{COMMAND} lab exec -- fio", "lab"
    options = f"--ioengine={engine_as_typed()} --pool={given}"
    for name, pool in state.pools.items():
        _out.print(f"  pool {name:10} {pool}", markup=False)
    for name, folder in state.volumes.items():
        _out.print(f"  files {name:9} {folder}", markup=False)
    _out.print(f"  try it          {fio} {options} {shown(JOBFILES / 'fsperf.fio')}", markup=False)
    if state.enter:
        _out.print(f"  or any tool     {shlex.join(state.entrance())} COMMAND", markup=False)
    if state.held:
        _out.print(f"  stop it         {COMMAND} lab stop --id {state.id}", markup=False)


# --- labs that outlive the command which started them: a process in the background holds each ---

_STOP_SECONDS = 20.0


def hold(config: LabConfig, lab_id: str | None) -> LabState:
    """Start a lab that stays until it is stopped. Raises HarnessError where it does not start."""
    wanted = pickle.dumps((config, lab_id)).hex()
    # A program of its own: a fork would keep the marks of those who have started us.
    holder = subprocess.Popen(
        [sys.executable, "-m", __name__, wanted],
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
    """Hold a lab until SIGTERM. Our argument says which, our output how it started."""
    end_politely()
    config, lab_id = pickle.loads(bytes.fromhex(sys.argv[1]))
    try:
        with Lab(config, lab_id=lab_id, held=True) as lab:
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
    """Give the live lab `lab_id`, or the only one there is. Raises HarnessError."""
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
