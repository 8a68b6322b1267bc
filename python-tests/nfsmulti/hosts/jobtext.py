# SPDX-License-Identifier: GPL-2.0-only
"""The job file that goes to a host of a run.

fio's client sends nothing but a job file: what stands on its own command line stays behind, and an
engine chosen there is silently replaced by the default one. So each host gets a job file of its own
with all options in it.

Its jobs begin on the path that follows the last one of the host before (first_path), and what they
write lies in a folder of the host's own, so that no two hosts write the same file.
"""

from __future__ import annotations

from collections.abc import Mapping

Options = Mapping[str, str]


def job_text(name: str, options: Options, number: int) -> str:
    """Give the job file of the host `number`, counted from 0."""
    jobs = int(options.get("numjobs", "1"))
    own = {**options, "first_path": str(number * jobs), **_names(options, number)}
    lines = [f"{key}={value}" for key, value in own.items()]
    return "\n".join(["; written by ./nfsmulti run --hosts", f"[{name}]", *lines, ""])


def _names(options: Options, number: int) -> dict[str, str]:
    """Give the names of the files that a host's jobs write; readers share theirs."""
    if options.get("rw", options.get("readwrite", "read")) in ("read", "randread"):
        return {}
    folder = f"host{number + 1}"
    if filename := options.get("filename"):
        return {"filename": ":".join(f"{folder}/{one}" for one in filename.split(":"))}
    form = options.get("filename_format", "$jobname.$jobnum.$filenum")
    return {"filename_format": f"{folder}/{form}"}
