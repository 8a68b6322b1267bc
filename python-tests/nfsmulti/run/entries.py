# SPDX-License-Identifier: GPL-2.0-only
"""The entries of a metadata cell: what it needs is made before it, and what is left is removed.

By the engine they lie in `e0` below a directory of this run: to the engine that is the name of an
entry, too, so that an rmdir of entry 0 removes it. The directory of the run stays. A cell that
removes entries finds as many as were made in its own time: a faster server has more to remove.
fio's own engines have their files in the root of the mount, which is one LOOKUP away.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import shlex
from collections.abc import Callable
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import FioProcess, FioReport
from nfsmulti.stories import CellSpec
from nfsmulti.stories.metadata import MOST, size_of
from nfsmulti.summary import Factor

# Of this run: one that was killed has left entries where nobody else looks.
TOP = f"nfsmulti-metadata-{secrets.token_hex(4)}"
_SECONDS, _PATIENCE = 120.0, 20.0
# After a failure, for the server may be gone; to remove takes about as long as to make did.
_SECONDS_FAILED, _PATIENCE_FAILED = 10.0, 2.0

# Gives the words of a cell's fio, whose files go to a folder.
Command = Callable[[CellSpec, Path], list[str]]


class Entries:
    """Those of one cell, from `with`, which gives the cell with their names, until its end.

    A cell without any is given as it is. Raises HarnessError where fio could not make or remove
    them.
    """

    def __init__(self, spec: CellSpec, command: Command, folder: Path):
        self._spec, self._command, self._folder = spec, command, folder
        self._seconds, self._patience = _SECONDS, _PATIENCE
        self._made: int | None = None  # None: as many as the cell's own fio tells

    def __enter__(self) -> CellSpec:
        spec = self._spec
        if not spec.entries:
            return spec
        if spec.client == "mount":
            return self._with(spec, filename_format=f"{TOP}.$jobnum.$filenum")
        spec = self._spec = self._with(spec, filename=f"{TOP}/e0")
        if spec.entries == "uses":
            self._made = int(str(spec.options["size"]).removesuffix("k"))
        if spec.entries != "removes":
            return spec
        try:
            self._make()
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self._with(spec, **size_of(self._made or 0))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._spec.entries:
            return
        if kind:
            self._seconds, self._patience = _SECONDS_FAILED, _PATIENCE_FAILED
        # What ended the cell says more than what its entries then end in.
        with contextlib.suppress(*([HarnessError, OSError] if kind else [])):
            self._clear()

    def _make(self) -> None:
        """Make entries for as long as the cell is to run."""
        time = f"{round(self._spec.seconds * 1000)}ms"
        spec = self._with(self._spec, meta_write="create", runtime=time, **size_of(MOST))
        try:
            self._run("make", spec)
        finally:
            self._made = self._operations("make")
        if not self._made:
            raise HarnessError(f"no entry was made within {spec.seconds:g} s")

    def _clear(self) -> None:
        """Remove what is left, and the directory."""
        if self._spec.client == "mount":
            if (self._folder / "command").exists():  # else no fio has begun
                for file in self._mount().glob(f"{TOP}.*"):
                    file.unlink(missing_ok=True)
            return
        done = self._operations("")
        left = done if self._made is None else self._made
        if self._spec.entries == "removes" and done == self._made:
            left = 0
        spec = self._with(self._spec, meta_write="rmdir", filename=TOP, runtime=None)
        spec = self._with(spec, time_based=None, meta_read=None, rw="write", norandommap=None)
        if left:
            name = str(self._spec.options["filename"])
            self._run(
                "remove", self._with(spec, meta_write="remove", filename=name, **size_of(left))
            )
        self._run("rmdir", self._with(spec, **size_of(1)))

    def _mount(self) -> Path:
        """Find the mount that fio used."""
        words = shlex.split((self._folder / "command").read_text())
        return Path(next(w for w in words if w.startswith("--directory=")).partition("=")[2])

    def _run(self, name: str, spec: CellSpec) -> None:
        folder = self._folder / name
        with FioProcess(self._command(spec, folder), folder) as process:
            result = process.result(self._patience * spec.seconds + self._seconds)
        if result.status != 0:
            lines = [line for line in result.messages.splitlines() if line.startswith("nfsmulti: ")]
            raise HarnessError(f"to {name} its entries, fio failed: {''.join(lines[:1])}")

    def _operations(self, name: str) -> int:
        """Give what a fio did, 0 where it left no report."""
        file = self._folder / name / "fio.json"
        report = FioReport.parse(file.read_text()) if file.exists() else None
        try:
            return report.operations("write") if report else 0
        except (LookupError, TypeError, AttributeError):  # JSON, but no report
            return 0

    @staticmethod
    def _with(spec: CellSpec, **options: Factor | None) -> CellSpec:
        return dataclasses.replace(spec, options={**spec.options, **options})
