# SPDX-License-Identifier: GPL-2.0-only
"""Labs that outlive the command which started them: a process in the background holds each."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from typing import NoReturn

from nfsmulti.errors import HarnessError
from nfsmulti.lab import state as states
from nfsmulti.lab.config import LabConfig
from nfsmulti.lab.lab import Lab
from nfsmulti.lab.state import LabState
from nfsmulti.paths import LABS
from nfsmulti.signals import end_politely

_STOP_SECONDS = 20.0


def start(config: LabConfig, lab_id: str | None) -> LabState:
    """Start a lab that stays until it is stopped. Raises HarnessError where it does not start."""
    reader, writer = os.pipe()
    holder = os.fork()
    if holder == 0:
        os.close(reader)
        _hold(config, lab_id, writer)
    os.close(writer)
    try:
        with os.fdopen(reader, encoding="utf-8") as pipe:
            said = pipe.read()
    except BaseException:
        os.kill(holder, signal.SIGTERM)
        raise
    report = json.loads(said) if said else {"what": "the lab ended before it was ready"}
    if "what" in report:
        os.waitpid(holder, 0)
        raise HarnessError(report["what"], report.get("remedy"))
    state = LabState.read(LABS / report["id"])
    if state is None:
        raise HarnessError(f"lab {report['id']} ended as soon as it was ready")
    return state


def _hold(config: LabConfig, lab_id: str | None, writer: int) -> NoReturn:
    """Hold a lab until SIGTERM, in a session of its own; report to `writer` how it started."""
    status = 1
    try:
        os.setsid()
        end_politely()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            os.dup2(null, stream.fileno())
        with Lab(config, lab_id=lab_id, held=True) as lab:
            os.write(writer, json.dumps({"id": lab.id}).encode())
            os.close(writer)
            while True:
                signal.pause()
    except SystemExit:
        status = 0
    except HarnessError as error:
        os.write(writer, json.dumps({"what": error.what, "remedy": error.remedy}).encode())
    except Exception as error:  # there is nobody else to tell
        os.write(writer, json.dumps({"what": repr(error)}).encode())
    finally:
        os._exit(status)


def choose(lab_id: str | None) -> LabState:
    """Give the live lab `lab_id`, or the only one there is. Raises HarnessError."""
    labs = [state for state in states.live() if state.ready and lab_id in (None, state.id)]
    if len(labs) == 1:
        return labs[0]
    if not labs:
        missing = f"no lab '{lab_id}' runs" if lab_id else "no lab runs"
        raise HarnessError(missing, "./nfsmulti lab start")
    ids = ", ".join(state.id for state in labs)
    raise HarnessError(f"several labs run: {ids}", "name one with --id")


def stop(state: LabState) -> None:
    """Stop a held lab and wait until nothing is left of it. Raises HarnessError."""
    if not state.held:
        raise HarnessError(
            f"lab {state.id} belongs to a running command, process {state.owner.pid}",
            "it ends with that",
        )
    with contextlib.suppress(ProcessLookupError):
        os.kill(state.owner.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while state.owner.alive():
        if time.monotonic() > deadline:
            state.owner.kill()
        time.sleep(0.02)
    with states.lock():
        states.remove_leftovers()
