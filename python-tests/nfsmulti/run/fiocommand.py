# SPDX-License-Identifier: GPL-2.0-only
"""A cell's fio, as one would type it: all options of its jobfile, with those of the cell."""

from __future__ import annotations

import configparser
from pathlib import Path

from nfsmulti.fiorun import Engine, Options, words_of
from nfsmulti.paths import JOBFILES
from nfsmulti.run import cpu
from nfsmulti.run.figures import BANDWIDTH_LOG
from nfsmulti.run.place import Serving
from nfsmulti.scenarios import CellSpec
from nfsmulti.summary import Factor

_POOL_NAME = "mounts"


def command(spec: CellSpec, place: Serving, engine: Engine, folder: Path) -> list[str]:
    """Give the words that run a cell's fio, whose files go to `folder`.

    The jobfile is given by its options one by one, since what stands in a jobfile wins over the
    command line. On other hosts there is neither a stats_file nor a log, and no CPU time is taken.
    """
    name, options = jobfile_options(spec.jobfile)
    options |= spec.options
    variables = dict(engine.env)
    if spec.client == "mount":
        (mount,) = place.mounts(spec)
        # The directory before filename, or it does not count.
        chosen: Options = {"ioengine": options.pop("ioengine", "libaio"), "directory": mount}
    elif spec.client == "mounts" and not place.remote:
        mounts = place.mounts(spec)
        chosen = {"ioengine": engine.option}
        variables["IOTRAP_MOUNT_POOLS"] = f"{_POOL_NAME}:" + ",".join(f"{m}/" for m in mounts)
        options["filename"] = f"{mounts[0]}/{options['filename']}"
    else:
        # On other hosts mounts are a pool's directories: there is no environment to name them in.
        pool = ",".join(place.mounts(spec)) if spec.client == "mounts" else place.pool(spec)
        chosen = {"ioengine": engine.option, "pool": pool}
    options = {**chosen, **options}
    if place.remote:
        return place.remote.command(folder, name, options)
    if spec.client != "mount":
        options["stats_file"] = str(folder / "stats.jsonl")
    options |= cpu.options(folder)
    if spec.over_time:
        options |= {"write_bw_log": str(folder / BANDWIDTH_LOG), "log_avg_msec": 1000}
    setting = ["env", *(f"{key}={value}" for key, value in variables.items())] if variables else []
    words = [f"--output={folder / 'fio.json'}", "--output-format=json+"]
    words += [f"--{key}={value}" for key, value in words_of(options).items()]
    return [*place.enter, *setting, "fio", *words, f"--name={name}"]


def jobfile_options(jobfile: str) -> tuple[str, dict[str, Factor | None]]:
    """Read a bundled jobfile of one job: its name and its options."""
    parser = configparser.RawConfigParser(
        allow_no_value=True, delimiters=("=",), comment_prefixes=("#", ";")
    )
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string((JOBFILES / jobfile).read_text())
    (name,) = parser.sections()
    return name, {key: value if value is not None else 1 for key, value in parser.items(name)}
