# SPDX-License-Identifier: GPL-2.0-only
"""The job file that goes to a host of a run.

fio's client sends nothing but a job file: what stands on its own command line stays behind, and an
engine chosen there is silently replaced by the default one. So each host gets a job file of its own
with all options in it.

What its jobs write has a name of the host's own, so that no two hosts write the same file;
what fio itself does for that (unique_filename) depends on the address of its client.
"""

from __future__ import annotations

from collections.abc import Mapping

Options = Mapping[str, str]


def job_text(jobs: Mapping[str, Options], number: int) -> str:
    """Give the job file of the host `number`, counted from 0, with these jobs."""
    lines = ["; written by ./nfsmulti run --hosts"]
    for name, options in jobs.items():
        own = {"unique_filename": "0", **options, **_names(options, number)}
        lines += [f"[{name}]", *(f"{key}={value}" for key, value in own.items())]
    return "\n".join([*lines, ""])


def _names(options: Options, number: int) -> dict[str, str]:
    """Give the names of the files that a host's jobs write; readers share theirs."""
    if options.get("rw", options.get("readwrite", "read")) in ("read", "randread"):
        return {}
    key = "filename" if "filename" in options else "filename_format"
    names = options.get(key, "$jobname.$jobnum.$filenum").split(":")
    return {key: ":".join(_own_name(one, number) for one in names)}


def _own_name(name: str, number: int) -> str:
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}host{number + 1}-{last}"
