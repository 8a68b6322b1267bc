# SPDX-License-Identifier: GPL-2.0-only
"""A cell's fio, as one would type it: all options of its jobfile, with those of the cell."""

from __future__ import annotations

import configparser
from pathlib import Path

from nfsmulti.fiorun import Engine
from nfsmulti.paths import JOBFILES
from nfsmulti.run.figures import BANDWIDTH_LOG
from nfsmulti.run.place import Serving
from nfsmulti.scenarios import CellSpec
from nfsmulti.summary import Factor

_POOL_NAME = "mounts"


def command(spec: CellSpec, place: Serving, engine: Engine, folder: Path) -> list[str]:
    """Give the words that run a cell's fio, whose files go to `folder`.

    The jobfile is given by its options one by one, since what stands in a jobfile wins over the
    command line.
    """
    name, options = jobfile_options(spec.jobfile)
    options |= spec.options
    if spec.over_time:
        options |= {"write_bw_log": str(folder / BANDWIDTH_LOG), "log_avg_msec": 1000}
    words = [f"--output={folder / 'fio.json'}", "--output-format=json+"]
    variables = dict(engine.env)
    if spec.client == "mount":
        (mount,) = place.mounts(spec)
        words.append(f"--ioengine={options.pop('ioengine', 'libaio')}")
        words.append(f"--directory={mount}")  # before filename, or it does not count
    else:
        words.append(f"--ioengine={engine.option}")
        words.append(f"--stats_file={folder / 'stats.jsonl'}")
        if spec.client == "mounts":
            mounts = place.mounts(spec)
            variables["IOTRAP_MOUNT_POOLS"] = f"{_POOL_NAME}:" + ",".join(f"{m}/" for m in mounts)
            options["filename"] = f"{mounts[0]}/{options['filename']}"
        else:
            words.append(f"--pool={place.pool(spec)}")
    setting = ["env", *(f"{key}={value}" for key, value in variables.items())] if variables else []
    words += [f"--{key}={_text(value)}" for key, value in options.items() if value is not None]
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


def _text(value: Factor) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
