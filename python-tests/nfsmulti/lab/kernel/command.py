# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti lab kernel."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated

import typer

from nfsmulti.errors import HarnessError
from nfsmulti.lab.kernel.guest import GuestConfig, GuestTimeoutError, run_in_guest
from nfsmulti.lab.kernel.mounts import Mount

_TIMEOUT_STATUS = 124  # as timeout(1)


def kernel(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", show_default=False)],
    mount: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR=OPTIONS",
            help="Mount the server's export on DIR first; may be given several times.",
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The one folder whose changes stay; made if missing."),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="End COMMAND after so long.")
    ] = None,
    cpus: Annotated[int, typer.Option(help="The guest's processors.")] = 1,
    memory: Annotated[int, typer.Option(metavar="MB", help="The guest's memory.")] = 2048,
) -> None:
    """Run COMMAND under Debian's own kernel in a virtual machine, with RDMA and the kernel's NFS.

    COMMAND is root in the folder it was called in and sees this machine's files and environment,
    but its changes are lost, save those in DIR of --results, which is $NFSMULTI_LAB_OUT inside.
    It reads nothing from stdin. The exit status is COMMAND's; 124 after --timeout.

    Inside, an RDMA device (rdma_rxe) and an NFS server share the addresses 10.0.2.15, 10.0.2.16
    and fd02::15 ($NFSMULTI_LAB_ADDRESSES). The server exports /export ($NFSMULTI_LAB_EXPORT; the
    root in version 4) over TCP, and over RDMA on port 20049. The pool of both IPv4 addresses is
    $POOL; the engine knows it as --pool=lab, the first one alone as --pool=one, both over RDMA as
    --pool=rdma, and the mounts of --mount as --pool=mounts.

    --mount takes nfs(5)'s options, and address= to choose an address; what this server needs beside
    (nolock, RDMA's port) is added: --mount /mnt/a=vers=3,proto=rdma
    --mount /mnt/b=vers=4.2,nconnect=4,address=10.0.2.16
    """
    config = GuestConfig(
        cpus=cpus,
        memory=memory,
        mounts=tuple(Mount.parse(text) for text in mount or []),
        results=results.absolute() if results else None,
        timeout=math.inf if timeout is None else timeout,
    )
    try:
        if config.results:
            config.results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"--results={results}: {error.strerror}") from None
    try:
        status = run_in_guest(command, config, stdout=sys.stdout.buffer, stderr=sys.stderr.buffer)
    except GuestTimeoutError as error:
        print(f"nfsmulti: {error}", file=sys.stderr)
        status = _TIMEOUT_STATUS
    raise typer.Exit(status)
