# SPDX-License-Identifier: GPL-2.0-only
"""`python -m nfsmulti.scripted`: the scripted server to play with."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from nfsmulti.processes import end_politely
from nfsmulti.scripted import (
    Answer,
    Call,
    Export,
    Hook,
    Nfs,
    Nfs4,
    Procedure,
    ScriptedServer,
    Status,
    Status4,
    Terms,
    on,
)

_Address = Annotated[list[str], typer.Option(help="Listen here; may be given several times.")]
_Port = Annotated[int, typer.Option(help="0: the kernel chooses one.")]
_File = Annotated[
    list[str], typer.Option(metavar="NAME=BYTES", help="Add this file, full of zeros.")
]
_Rule = Annotated[
    list[str],
    typer.Option(
        metavar="PROCEDURE:STATUS[:COUNT]",
        help="Answer a procedure's first COUNT calls, or all, with STATUS: WRITE:NOSPC,"
        " READ:STALE:3; those of an NFSv4.1 operation: 4.WRITE:DELAY:3.",
    ),
]
_Minor = Annotated[
    list[int], typer.Option(help="Offer this minor version of NFSv4, 1 or 2; 0: no NFSv4 at all.")
]
_Fragments = Annotated[
    str, typer.Option(metavar="SIZE,SIZE,...", help="Send replies in fragments of these sizes.")
]


def serve(
    address: _Address = ["127.0.0.1"],  # noqa: B006 - typer makes a new list of it
    nfs_port: _Port = 0,
    mount_port: _Port = 0,
    export: Annotated[str, typer.Option(help="Path of the export.")] = "/export",
    rtmax: Annotated[int, typer.Option(help="Maximum READ, in bytes.")] = 1 << 20,
    wtmax: Annotated[int, typer.Option(help="Maximum WRITE, in bytes.")] = 1 << 20,
    file: _File = [],  # noqa: B006
    status: _Rule = [],  # noqa: B006
    delay: Annotated[float, typer.Option(help="Seconds before each reply.")] = 0.0,
    limit: Annotated[
        int | None, typer.Option(help="Most bytes that a READ or WRITE moves.")
    ] = None,
    hold: Annotated[int, typer.Option(help="Send replies in batches, the last one first.")] = 0,
    fragments: _Fragments = "",
    reset_after: Annotated[
        int, typer.Option(help="Reset instead of answering every Nth call of a procedure.")
    ] = 0,
    minor: _Minor = [1, 2],  # noqa: B006
    slots: Annotated[int, typer.Option(help="Maximum slots of an NFSv4.1 session.")] = 64,
    lease: Annotated[int, typer.Option(help="NFSv4.1 lease, in seconds.")] = 90,
    trace: Annotated[bool, typer.Option(help="Print each call.")] = False,
) -> None:
    """Serve an empty export from memory until SIGINT or SIGTERM, and print its pool.

    Files are lost at the end. --status, --delay and the options after them apply only to NFS calls.
    """
    answer = Answer(
        delay=delay,
        limit=limit,
        hold=hold,
        fragments=tuple(_number(size) for size in fragments.split(",") if size),
    )
    hooks: list[Hook] = [_printer] if trace else []
    hooks += [_status_hook(rule) for rule in status]
    if reset_after:
        calls = (*Nfs, Nfs4.COMPOUND)
        hooks.append(on(calls, Answer(reply=False, end="reset"), every=reset_after))
    hooks.append(on((*Nfs, *Nfs4), answer))
    server = ScriptedServer(
        *hooks,
        addresses=address,
        export=Export(export, rtmax, wtmax),
        nfs_port=nfs_port,
        mount_port=mount_port,
        terms=Terms(minors=tuple(filter(None, minor)), slots=slots, lease=lease, lapses=True),
    )
    with server:
        for name, _, size in (entry.partition("=") for entry in file):
            server.create(name, bytes(_number(size or "0")))
        print(server.pool(), flush=True)
        signal.pause()


def _printer(call: Call) -> Answer | None:
    stable = f" {call.stable.name}" if call.procedure in (Nfs.WRITE, Nfs4.WRITE) else ""
    version = "4." if isinstance(call.procedure, Nfs4) else ""
    slot = "" if call.slot is None else f" slot {call.slot}:{call.sequence}"
    print(
        f"{call.client[0]}:{call.client[1]} xid {call.xid:#010x}{slot}"
        f' {version}{call.procedure.name} "{call.file}" {call.count}@{call.offset}{stable}',
        flush=True,
    )
    return None


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text} is not a number") from None


def _status_hook(rule: str) -> Hook:
    procedure, status, count = [*rule.upper().split(":"), ""][:3]
    name = procedure.removeprefix("4.")
    statuses: type[Status | Status4] = Status if name == procedure else Status4
    try:
        wanted: Procedure = Nfs[name] if name == procedure else Nfs4[name]
        return on(wanted, Answer(status=statuses[status]), first=int(count) if count else None)
    except (KeyError, ValueError):
        known = ", ".join(one.name for one in statuses)
        raise typer.BadParameter(f"{rule}: PROCEDURE:STATUS[:COUNT], STATUS of {known}") from None


if __name__ == "__main__":
    end_politely()
    try:
        typer.run(serve)
    except KeyboardInterrupt:
        sys.exit(130)
