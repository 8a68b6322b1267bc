# SPDX-License-Identifier: GPL-2.0-only
"""The job files that go to the hosts of a run.

fio's client sends nothing but a job file: what stands on its own command line stays behind, and an
engine chosen there is silently replaced by the default one. So each host gets a job file of its own
with all options in it.

Its jobs begin on the path that follows the last one of the host before (first_path), and what they
write lies in a folder of the host's own, so that no two hosts write the same file.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from dataclasses import dataclass

from nfsmulti.errors import HarnessError

Values = Mapping[str, str | None]


@dataclass(frozen=True)
class JobFile:
    """A job file's sections in their order, without [global], whose options are in each."""

    sections: dict[str, dict[str, str | None]]

    @classmethod
    def parse(cls, text: str, options: Values, source: str) -> JobFile:
        """Read a job file; `options` hold where it does not say otherwise.

        Without sections there is one, "job". Raises HarnessError naming `source`.
        """
        parser = configparser.RawConfigParser(
            allow_no_value=True, delimiters=("=",), strict=False, default_section="global"
        )
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        try:
            parser.read_string(text, source)
        except configparser.Error as error:
            raise HarnessError(f"{source}: {str(error).splitlines()[0]}") from None
        names = parser.sections() or ["job"]
        common = {**options, **parser.defaults()}
        own = {name: parser[name] if parser.has_section(name) else {} for name in names}
        return cls({name: {**common, **values} for name, values in own.items()})

    @property
    def jobs(self) -> int:
        """How many jobs a host runs."""
        return sum(int(section.get("numjobs") or 1) for section in self.sections.values())

    def text_for(self, number: int) -> str:
        """Give the text for the host `number`, counted from 0."""
        lines = ["; written by ./nfsmulti run --hosts"]
        for name, section in self.sections.items():
            own = {**section, "first_path": str(number * self.jobs), **_names(section, number)}
            lines += ["", f"[{name}]"]
            lines += [key if value is None else f"{key}={value}" for key, value in own.items()]
        return "\n".join(lines) + "\n"


def _names(section: Values, number: int) -> dict[str, str]:
    """Give the names of the files that a host's jobs write; readers share theirs."""
    if (section.get("rw") or section.get("readwrite") or "read") in ("read", "randread"):
        return {}
    folder = f"host{number + 1}"
    if filename := section.get("filename"):
        return {"filename": ":".join(f"{folder}/{one}" for one in filename.split(":"))}
    form = section.get("filename_format") or "$jobname.$jobnum.$filenum"
    return {"filename_format": f"{folder}/{form}"}
