# SPDX-License-Identifier: GPL-2.0-only
"""The runs that are kept below results/, and `./nfsmulti baseline`: which one others are held to.

A scenario's baseline is named in results/SCENARIO/baseline, relative to that folder.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nfsmulti import texts, typed
from nfsmulti.errors import HarnessError
from nfsmulti.paths import COMMAND, shown, write_whole
from nfsmulti.processes import claimed
from nfsmulti.report import cells
from nfsmulti.summary import FILE, Summary

_BASELINE = "baseline"
# With which the name of a run's folder begins; a label may follow.
_NAME = "%Y%m%dT%H%M%SZ"
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)\d\dZ-?")


def run_folder(below: Path, label: str = "") -> Path:
    """Make the folder of a run that begins now; its name is the time, and the label.

    Of two that begin in one second the later has the first second that is free.
    """
    below.mkdir(parents=True, exist_ok=True)
    ending, at = f"-{label}" if label else "", datetime.now(UTC)
    while True:
        with contextlib.suppress(FileExistsError):
            folder = below / f"{at:{_NAME}}{ending}"
            folder.mkdir()
            return folder
        at += timedelta(seconds=1)


@contextlib.contextmanager
def own_folder(given: Path | None, below: Path) -> Iterator[Path]:
    """Yield the folder that one run fills until the end: `given`, or a new one in `below`.

    Raises HarnessError where it is not empty, or another run has it.
    """
    folder = (given or run_folder(below)).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with claimed(folder) as mine:
        if not mine or any(folder.iterdir()):
            raise HarnessError(
                f"{shown(folder)} is not empty, or another run has it", "name another --results"
            )
        yield folder


def runs(results: Path, scenario: str = "*") -> list[Path]:
    """Return the folders of all runs, or of a scenario's, the oldest first."""
    found = [file.parent for file in results.glob(f"{scenario}/*/{FILE}")]
    return sorted((one for one in found if _TIME.match(one.name)), key=lambda one: one.name)


def called(folder: Path) -> str:
    """Return when a run was started, and its label: "2026-11-20 17:00 before"; it can be drawn."""
    name = os.fsencode(folder.name).decode(errors="replace")
    return _TIME.sub(r"\1-\2-\3 \4:\5 ", name).strip()


def newest(results: Path) -> Path:
    """Return the newest run of any scenario. Raises HarnessError where there is none."""
    if not (found := runs(results)):
        raise HarnessError(f"{shown(results)} holds no run", f"start one: {COMMAND} run SCENARIO")
    return found[-1]


def newest_held(results: Path) -> Path:
    """Return the newest run that can be held to a baseline of its scenario.

    That baseline is an older run, if there is such a pair. Raises HarnessError where no scenario of
    these runs has a baseline.
    """
    latest = shown_run(newest(results))
    held = [run for run in reversed(runs(results)) if (run.parent / _BASELINE).exists()]
    for run in held:
        with contextlib.suppress(HarnessError):  # a baseline that is gone
            if baseline(results, run.parent.name).name < run.name:
                return run
    if not held:
        raise HarnessError(
            f"no run below {shown(results)} has a baseline",
            f"name two runs, or choose one: {COMMAND} baseline set {latest}",
        )
    return held[0]


def baseline(results: Path, scenario: str) -> Path:
    """Return the baseline of a scenario. Raises HarnessError where none is set, or it is gone."""
    file = results / scenario / _BASELINE
    remedy = f"{COMMAND} baseline set DIR"
    if not file.exists():
        raise HarnessError(f"{scenario} has no baseline: choose one with {remedy}")
    folder = Path(os.path.normpath(file.parent / typed.read_text(file, "surrogateescape").strip()))
    if not (folder / FILE).exists():
        raise HarnessError(f"{shown(folder)}, the baseline, is gone: choose one with {remedy}")
    return folder


def shown_run(folder: Path) -> str:
    """Return a run as one types it."""
    return shown(folder.resolve())


def set_baseline(folder: Path, results: Path, *, as_json: bool) -> None:
    """Make a run the baseline of its scenario. Raises HarnessError where nothing of it is done."""
    run = Summary.load(folder)
    if not run.done:
        raise HarnessError(f"{shown(folder)}: no cell of this run is done", "choose another run")
    file = results / run.scenario / _BASELINE
    write_whole(file, os.path.relpath(folder.resolve(), file.parent.resolve()) + "\n", results)
    busy = bool(cells.others_busy(run.done))
    if as_json:
        told = {"scenario": run.scenario, "run": shown_run(folder), "busy": busy}
        print(json.dumps(told, indent="\t"))
        return
    print(f"The baseline of {run.scenario} is {shown_run(folder)}.")
    if busy:
        print("It was on a busy machine: no comparison with it is a verdict. Rerun it when idle.")


def show_baseline(results: Path, *, as_json: bool) -> None:
    """Print each scenario's baseline."""
    found: dict[str, dict[str, str]] = {}
    for file in sorted(results.glob(f"*/{_BASELINE}")):
        scenario = file.parent.name
        try:
            folder = baseline(results, scenario)
            found[scenario] = {"run": shown_run(folder), "started": Summary.load(folder).started}
        except HarnessError as error:
            found[scenario] = {"error": str(error)}
    if as_json:
        print(json.dumps(found, indent="\t"))
    elif not found:
        print(f"No baseline is set; {COMMAND} baseline set DIR chooses one.")
    else:
        for scenario, one in found.items():
            told = one.get("error") or f"{one['run']} ({texts.moment(one['started'])})"
            print(f"{scenario}: {told}")
