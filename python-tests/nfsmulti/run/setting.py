# SPDX-License-Identifier: GPL-2.0-only
"""A server's setting as a factor: a command turns it before each block, and at the end back.

A block is all cells under one value in one repeat. A command runs where the harness does: on this
machine for a pool or a lab, in the guest for the kernel lab. It fails where it ends with another
status than 0 or takes too long, or where what --get then prints is another value.

--get prints the value and nothing else: its output is also what is set again at the end. Of a file
that lists all values, as "none [mq-deadline]", a command that cuts out the current one is needed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.processes import run
from nfsmulti.run.plan import PlannedCell, Setting, named_values
from nfsmulti.summary import Factor

_SECONDS = 30.0
_BEFORE = "setting.before"  # while a run goes on, or was killed
# What goes into a shell's words without a quote.
_PLAIN = re.compile(r"[\w .:,+/@%-]+")

# Called before each cell; raises HarnessError where its block has failed.
Turn = Callable[[PlannedCell], None]


def parse(setting: str, command: str, get: str) -> Setting | None:
    """Read --setting, --set and --get; None where there is none of them. Raises HarnessError."""
    if not setting:
        if command or get:
            raise HarnessError("--set and --get need a setting", "--setting NAME=V1,V2")
        return None
    name, values = named_values("--setting", setting)
    if odd := [value for value in values if not _PLAIN.fullmatch(str(value))]:
        raise HarnessError(
            f"--setting {name}: {odd[0]}: a value may not contain quotes or shell characters"
        )
    if f"{{{name}}}" not in command:
        raise HarnessError(
            f"--setting {name}: --set does not say where the value goes",
            f"--set 'ssh nas \"echo {{{name}}} > /proc/fs/nfsd/threads\"'",
        )
    return Setting(name, list(values), command, get)


@contextlib.contextmanager
def turned(setting: Setting | None, folder: Path, say: Callable[[str], None]) -> Iterator[Turn]:
    """Give what turns the setting, and put it back at the end, which `say` is told.

    Raises HarnessError before anything is turned where --get fails, and at the end where the
    setting could not be put back; an exception that is under way goes first. `folder` is the run's:
    a run that was killed leaves there what the setting was.
    """
    if setting is None:
        yield lambda _: None
        return
    turner = _Turner(setting, folder / _BEFORE)
    turner.remember()
    try:
        yield turner.turn
    except BaseException:
        try:
            say(turner.put_back())
        except HarnessError as error:
            say(str(error))
        raise
    say(turner.put_back())


class _Turner:
    """A setting that is turned. `_before` is its value before the run, None where nobody knows."""

    def __init__(self, setting: Setting, file: Path):
        self._setting, self._file = setting, file
        self._before: str | None = None
        self._block: tuple[int, Factor] | None = None
        self._trouble: HarnessError | None = None

    def remember(self) -> None:
        """Find out what the setting is, or what it was before a run that was killed."""
        if not self._setting.get:
            return
        if not self._file.exists():
            before = _value(self._setting.get)
            if not _PLAIN.fullmatch(before):
                raise HarnessError(
                    f"--get {self._setting.get}: it printed {before!r}, which cannot be restored",
                    "give a command that prints only the value",
                )
            self._file.write_text(before)
        self._before = self._file.read_text()

    def turn(self, cell: PlannedCell) -> None:
        """Set the value of the cell's block, once for all its cells."""
        value = cell.spec.factors[self._setting.name]
        if self._block != (cell.repeat, value):
            self._block, self._trouble = (cell.repeat, value), None
            try:
                self._set(value)
            except HarnessError as error:
                self._trouble = error
        if self._trouble:
            raise self._trouble

    def put_back(self) -> str:
        """Set what it was before, or else the first value; gives the line that says so."""
        name, first = self._setting.name, self._setting.values[0]
        value, why = self._before, "as it was before"
        if value is None:
            value, why = str(first), "the first value: without --get its original is unknown"
        try:
            self._set(value)
        except HarnessError as error:
            command = self._setting.command(value)
            raise HarnessError(
                f"{name} is NOT restored to {value}: {error.what}", command
            ) from None
        self._file.unlink(missing_ok=True)
        return f"{name} is restored to {value}, {why}"

    def _set(self, value: Factor) -> None:
        """Set a value, and see that it holds."""
        name, get = self._setting.name, self._setting.get
        _said(self._setting.command(value), f"--set {name}={value}")
        if get and (said := _value(get)) != " ".join(str(value).split()):
            raise HarnessError(f"--set {name}={value}: --get then says {said!r}")


def _value(get: str) -> str:
    """Give what --get prints; several numbers, as sysctls have, are one blank apart."""
    return " ".join(_said(get, "--get").split())


def _said(command: str, option: str) -> str:
    """Run a command of the user, and give its output. Raises HarnessError."""
    done = run(["sh", "-c", command], timeout=_SECONDS)
    if done.status == 0:
        return done.stdout.strip()
    how = f"failed ({done.status})" if done.status else f"did not end within {_SECONDS:g} s"
    last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
    raise HarnessError(": ".join([f"{option}: `{command}` {how}", *last]))
