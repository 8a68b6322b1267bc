# SPDX-License-Identifier: GPL-2.0-only
"""Labs that outlive the command which started them: a process in the background holds each."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time

from nfsmulti.errors import HarnessError
from nfsmulti.lab.config import LabConfig
from nfsmulti.lab.lab import Lab, LabState, labs_lock, live_labs, remove_leftovers
from nfsmulti.paths import LABS
from nfsmulti.processes import end_politely, unmarked

_STOP_SECONDS = 20.0


def start(config: LabConfig, lab_id: str | None) -> LabState:
    """Start a lab that stays until it is stopped. Raises HarnessError where it does not start."""
    # A program of its own: a fork would keep the marks of those who have started us.
    holder = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**unmarked(), "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        with contextlib.suppress(BrokenPipeError), holder.stdin as pipe:
            pickle.dump((config, lab_id), pipe)
        with holder.stdout as pipe:
            said = pipe.read()
    except BaseException:
        holder.terminate()
        raise
    report = json.loads(said) if said else {"what": "the lab ended before it was ready"}
    if "what" in report:
        holder.wait()
        raise HarnessError(report["what"], report.get("remedy"))
    state = LabState.read(LABS / report["id"])
    if state is None:
        raise HarnessError(f"lab {report['id']} ended as soon as it was ready")
    return state


def _hold() -> None:
    """Hold a lab until SIGTERM. Our standard input says which, our output how it started."""
    end_politely()
    config, lab_id = pickle.load(sys.stdin.buffer)
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
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, sys.stdout.fileno())


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


def stop(state: LabState) -> None:
    """Stop a held lab and wait until nothing is left of it. Raises HarnessError."""
    if not state.held:
        raise HarnessError(
            f"lab {state.id} belongs to a running command, process {state.owner.pid}",
            "it ends with that process",
        )
    with contextlib.suppress(ProcessLookupError):
        os.kill(state.owner.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while state.owner.alive():
        if time.monotonic() > deadline:
            state.owner.kill()
        time.sleep(0.02)
    with labs_lock():
        remove_leftovers()


if __name__ == "__main__":
    _hold()
