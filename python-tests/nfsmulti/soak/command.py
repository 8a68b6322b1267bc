# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti soak."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine, Fio
from nfsmulti.lab import Lab, LabConfig
from nfsmulti.machine import versions
from nfsmulti.paths import RESULTS, shown
from nfsmulti.soak.meter import Meter
from nfsmulti.soak.passes import Passes
from nfsmulti.soak.totals import Totals

# A round is a pass that writes and one that reads; a round is about a minute with what is between.
_PASS_SECONDS = 25


def soak(
    minutes: Annotated[int, typer.Option(min=1, help="How long: a round takes a minute.")] = 20,
    seed: Annotated[int, typer.Option(help="Which faults: the same seed, the same ones.")] = 1,
    paths: Annotated[int, typer.Option(min=2, max=16, help="Server addresses.")] = 4,
    nfsvers: Annotated[Literal["3", "4.1", "4.2"], typer.Option(help="Version of NFS.")] = "3",
    results: Annotated[Path | None, typer.Option(help="Where to leave the fios' words.")] = None,
) -> None:
    """Write and verify on real servers while their paths fail and return at random.

    Servers are killed, stopped and started again; packets are dropped, addresses removed,
    connections reset; one path is always whole. Four jobs have failover=1, a fifth waits (hard).
    Exit status 0: every byte that was written has been read back as it was, and nothing was lost.
    """
    out = Console(highlight=False)
    folder = (results or RESULTS / "soak" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise HarnessError(f"{shown(folder)} is not empty", "name another --results")
    totals = Totals()
    begin = time.monotonic()
    try:
        with Meter(out) as meter, Lab(LabConfig(addresses=paths)) as lab:
            fio = Fio(Engine.built(), enter=lab.command([]))
            passes = Passes(lab, fio, folder, totals, meter, seed=seed, seconds=_PASS_SECONDS)
            passes.version = nfsvers
            passes.run(minutes)
    except KeyboardInterrupt:
        totals.troubles.append("interrupted")
    except (SystemExit, HarnessError) as stop:
        totals.troubles.append(f"ended early: {stop}")
        raise
    finally:
        seconds = time.monotonic() - begin
        run = {"minutes": minutes, "seed": seed, "paths": paths, "seconds": round(seconds, 1)}
        summary = {"versions": versions(), "nfsvers": nfsvers, **run, **totals.as_dict()}
        (folder / "soak.json").write_text(json.dumps(summary, indent="\t") + "\n")
    out.print(totals.table())
    for trouble in totals.troubles:
        out.print(trouble, markup=False, soft_wrap=True)
    found = "every byte is what was written" if totals.good else "NOT every byte is accounted for"
    out.print(f"seed {seed}, {seconds:.0f} s: {found}. {shown(folder)} holds each fio's words.")
    raise typer.Exit(0 if totals.good else 1)
