# SPDX-License-Identifier: GPL-2.0-only
"""Lines to paste after a run over connections: what to mount with, and a job for fio."""

from __future__ import annotations

import shlex
from pathlib import PurePath
from typing import TYPE_CHECKING

from nfsmulti.pool import mount_ports, mount_source
from nfsmulti.report import cells, scaling
from nfsmulti.report.story import Section
from nfsmulti.scenario import FOR_HARNESS, STAMPS, mount_options

if TYPE_CHECKING:
    from nfsmulti.report.told import Run

KERNELS_MOST = 16  # nconnect of a mount (nfs(5))
# Of fio's command line, what is not pasted: `overwrite` is for files of the run's own.
OURS = FOR_HARNESS | {STAMPS, "output", "output-format", "name", "overwrite"}


def lines(run: Run) -> list[Section]:
    """Return what to mount with and a job for fio: of the first curve that is as good as any there.

    "There" is the first place.
    """
    drawn, summary = run.curves("nconnect"), run.summary
    here = [curve for curve in drawn if curve.levels["limits"] == drawn[0].levels["limits"]]
    rates = [curve.mean(scaling.chosen(curve)) for curve in here]
    best = here[next(n for n, rate in enumerate(rates) if scaling.GAIN * rate >= max(rates))]
    at = scaling.chosen(best)
    transport = str(best.levels["transport"])
    proto = transport.removesuffix("-mount")
    each = int(best.at(at)[0].factors["nconnect"])
    each *= 1 if proto != transport else int(best.levels["jobs"])  # a mount is all jobs'
    version, most = str(best.levels["version"]), min(each, KERNELS_MOST)
    options = mount_options(proto, version, most, locks=True)
    given = {option: values[-1] for option, values in cells.given(best.cells[at][0]).items()}
    own = summary.place.get("kind") == "pool"
    pools = [cells.given(cell).get("pool") for one in here if own for cell in one.at(at)]
    pool = next((one[-1] for one in pools if one), "nfs://SERVER/EXPORT")
    urls = pool.split(",")
    folders = [f"/mnt/{n}" for n in range(1, len(urls) + 1)] if len(urls) > 1 else ["/mnt"]
    if "pool" in given:
        given["pool"] = pool
    elif given.get("ioengine", "").startswith("external:"):  # over several mounts
        given["pool"] = ",".join(folders)
    else:
        given["directory"] = "/mnt"
    if "filename" in given:  # not the run's, nor in its directory, which goes with it
        given["filename"] = PurePath(given["filename"]).name.removeprefix("nfsmulti-")
    job = [f"{option}={value}" for option, value in given.items() if option not in OURS]
    mounts = [
        shlex.join(["mount", "-t", "nfs", "-o", mount_ports(url, options), mount_source(url), to])
        for url, to in zip(urls, folders, strict=True)
    ]
    alike = ", the fewest that are not shown to be worse" if scaling.alike(best) else ""
    words = f"For {best.words(at)}{alike}; a kernel mount has {KERNELS_MOST} at most."
    words += " Choose a `filename` of your own."
    if summary.place.get("hosts"):
        words += f" The job for fio is `{best.cells[at][0].folder}/host1.fio`."
        return [Section("Lines to paste", [words], lines=mounts)]
    return [Section("Lines to paste", [words], lines=[*mounts, "", "[connections]", *job])]
