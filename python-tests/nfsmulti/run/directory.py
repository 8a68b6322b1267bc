# SPDX-License-Identifier: GPL-2.0-only
"""The directory on a user's servers that holds all files of a run.

A run makes it, which fails where the name is taken, so that nothing in it is anybody else's, and
removes it at its end. While it is there, `directory.json` in the run's folder says so: a run that
was killed is found by that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import secrets
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from rich import filesize

from nfsmulti import export
from nfsmulti.errors import HarnessError
from nfsmulti.paths import COMMAND, RESULTS, made, shown, write_json

FILE = "directory.json"
_NAME = re.compile(r"nfsmulti-\d{8}T\d{6}Z-[0-9a-f]{8}")


def new_name() -> str:
    """Return a directory a name that is nobody's: of this run alone, whoever else runs one."""
    return f"nfsmulti-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def is_name(name: str) -> bool:
    """Tell whether new_name() has made this up."""
    return bool(_NAME.fullmatch(name))


def check_name(name: str) -> None:
    """Raise HarnessError where `name` is no directory below an export that fio can name."""
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or not re.fullmatch(r"[\w./+@=-]+", name):
        raise HarnessError(
            f"--directory '{name}': not a path below the export",
            "name a directory that is not there yet, such as tests/nfsmulti-1",
        )
    if is_name(name):
        raise HarnessError(
            f"--directory '{name}': the names of this form are those that runs make up",
            "choose another",
        )


@dataclass(frozen=True)
class Leftover:
    """A directory that a run has made and not removed yet.

    `mark` is the name of a directory in it, which tells it from another that somebody has made in
    its place since; "" where its own name is nobody else's. `bytes` are those that it holds, or may
    hold at most where `counted` is false.
    """

    pool: str
    directory: str
    mark: str
    bytes: int
    counted: bool = False

    @classmethod
    def of(cls, run: Path) -> Self | None:
        """Return that of the run in the folder `run`; None where it has none."""
        try:
            return made(cls, json.loads((run / FILE).read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise HarnessError(f"{run / FILE} cannot be read: {error!r}") from None

    def save(self, run: Path) -> None:
        """Write it to the folder of its run."""
        write_json(run / FILE, dataclasses.asdict(self))

    def remove(self, run: Path) -> export.Usage | None:
        """Remove it from the server, and the note of it. Raises HarnessError.

        None: it is not there, and stays noted, for another server or folder may be mounted now.
        """
        gone = export.remove(self.pool, self.directory, self.mark)
        if not gone.entries:
            return None
        (run / FILE).unlink(missing_ok=True)
        return gone

    def text(self, results: Path) -> str:
        """Say in a line what stays, and how it is removed."""
        much = f"{'' if self.counted else 'up to '}{filesize.decimal(self.bytes)}"
        given = "" if results == RESULTS else f" --results {shown(results)}"
        clean = f"{COMMAND} clean --pool={shlex.quote(self.pool)}{given}"
        return f"{self.directory}/ stays on the server ({much}); remove it with: {clean}"


@contextlib.contextmanager
def run_directory(run: Path, pool: str, name: str, most_bytes: int, *, keep: bool) -> Iterator[str]:
    """Make the directory of the run in the folder `run`, and remove it at the end.

    Raises HarnessError where the name is taken, where it cannot be made, or where paths of the pool
    do not lead to the same files. What is to be kept stays noted with its size, what cannot be
    removed with `most_bytes`.
    """
    noted = Leftover(pool, name, "" if is_name(name) else new_name(), most_bytes)
    if not noted.mark:
        noted.save(run)  # before it is there: one that is killed from here on is found
    try:
        _make(noted)
    except HarnessError:
        (run / FILE).unlink(missing_ok=True)
        raise
    if noted.mark:
        noted.save(run)
    try:
        yield name
    finally:
        with contextlib.suppress(HarnessError):  # what stays is told when everything else was
            if keep:
                used = export.usage(pool, name)
                dataclasses.replace(noted, bytes=used.bytes, counted=True).save(run)
            else:
                noted.remove(run)


def _make(noted: Leftover) -> None:
    export.make(noted.pool, noted.directory)
    if noted.mark:
        try:
            export.make(noted.pool, f"{noted.directory}/{noted.mark}")
        except HarnessError:
            export.remove(noted.pool, noted.directory)
            raise
