# SPDX-License-Identifier: GPL-2.0-only
"""A cell's fio, as one would type it: all options of its jobfile, with those of the cell."""

from __future__ import annotations

import configparser
from collections.abc import Sequence
from pathlib import Path

from nfsmulti.fiorun import Engine, Options, words_of
from nfsmulti.paths import JOBFILES
from nfsmulti.run import cpu
from nfsmulti.run.figures import BANDWIDTH_LOG, LATENCY_LOG
from nfsmulti.run.place import Serving
from nfsmulti.stories import CellSpec
from nfsmulti.summary import Factor

_POOL_NAME = "mounts"
_WINDOW_SECONDS = 0.25


def command(spec: CellSpec, place: Serving, engine: Engine, folder: Path) -> list[str]:
    """Give the words that run a cell's fio, whose files go to `folder`.

    Its jobs are given by their options one by one, since what stands in a jobfile wins over the
    command line. On other hosts there is neither a stats_file nor a log, and no CPU time is taken.
    """
    options = dict(spec.options)
    jobs = {
        name: {key: value for key, value in own.items() if key not in spec.options}
        for name, own in jobfile_jobs(spec.jobfile, spec.jobs).items()
    }
    variables = dict(engine.env)
    if spec.client == "mount":
        (mount,) = place.mounts(spec)
        # The directory before filename, or it does not count.
        chosen: Options = {"ioengine": options.pop("ioengine", "libaio"), "directory": mount}
    elif spec.client == "mounts" and not place.remote:
        mounts = place.mounts(spec)
        chosen = {"ioengine": engine.option}
        variables["IOTRAP_MOUNT_POOLS"] = f"{_POOL_NAME}:" + ",".join(f"{m}/" for m in mounts)
        for own in jobs.values():
            own["filename"] = f"{mounts[0]}/{own['filename']}"
    else:
        # On other hosts mounts are a pool's directories: there is no environment to name them in.
        pool = ",".join(place.mounts(spec)) if spec.client == "mounts" else place.pool(spec)
        chosen = {"ioengine": engine.option, "pool": pool}
    options = {**chosen, **options}
    if place.remote:
        return place.remote.command(
            folder, {name: {**options, **own} for name, own in jobs.items()}
        )
    if spec.client != "mount":
        options["stats_file"] = str(folder / "stats.jsonl")
    options |= cpu.options(folder)
    options |= {"write_bw_log": str(folder / BANDWIDTH_LOG), "log_avg_msec": window_ms(spec)}
    if spec.latency_over_time:
        options |= {"write_hist_log": str(folder / LATENCY_LOG), "log_hist_msec": 1000}
    setting = ["env", *(f"{key}={value}" for key, value in variables.items())] if variables else []
    words = [f"--output={folder / 'fio.json'}", "--output-format=json+"]
    words += _words(options)
    for name, own in jobs.items():
        words += [f"--name={name}", *_words(own)]
    return [*place.enter, *setting, "fio", *words]


def window_ms(spec: CellSpec) -> int:
    """Give the windows of a cell's bandwidth log, of which it then has eight or more.

    fio writes them off the path of I/Os, from counters.
    """
    return max(1, round(min(_WINDOW_SECONDS, spec.seconds / 8) * 1000))


def jobfile_jobs(jobfile: str, names: Sequence[str] = ()) -> dict[str, dict[str, Factor | None]]:
    """Read the jobs of these names in a bundled jobfile, or all: their options, with [global]'s."""
    parser = configparser.RawConfigParser(
        default_section="global",
        allow_no_value=True,
        delimiters=("=",),
        comment_prefixes=("#", ";"),
    )
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string((JOBFILES / jobfile).read_text())
    return {
        name: {key: 1 if value is None else value for key, value in parser.items(name)}
        for name in names or parser.sections()
    }


def _words(options: Options) -> list[str]:
    return [f"--{key}={value}" for key, value in words_of(options).items()]
