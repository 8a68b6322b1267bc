# SPDX-License-Identifier: GPL-2.0-only
"""Written jobs of the engine in the simulator: hooks decide what becomes of each call."""

import errno
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from cffi import FFI

from nfsmulti.paths import PYTHON_TESTS
from servers.scripted import Nfs, Nfs4

CData = Any


class Act(IntEnum):
    """enum scenario_act."""

    REFUSE = 1
    EXPIRE = 2
    REVOKE = 3
    SESSIONS = 4
    REFUSE_ADDRESS = 5
    CONTEXTS = 6
    TICKETS = 7


JITTER, LINUX = 2, 3  # enum reconnect


class End(IntEnum):
    """enum scenario_end."""

    RESET = 1
    CLOSE = 2


Fate = Mapping[str, object]  # members of struct scenario_fate
Hook = Callable[[CData], Fate | None]  # of a struct scenario_call; None: the next hook decides

SECOND = 1_000_000_000  # in ns
BLOCK, BLOCKS = 2048, 16  # of a scenario's file, by default
FORGETS: Fate = {"forgets": True}
MUTE: Fate = {"mute": True}
UNHEARD: Fate = {"unheard": True}

_TERMS: Mapping[str, object] = {
    "version": 3, "files": 1, "blocks": BLOCKS, "block": BLOCK, "depth": 8, "paths": 1,
    "timeo": 600, "retrans": 2, "slots": 64, "nconnect": 1, "spread": 1,
}  # fmt: skip


def _operation(call: CData) -> Nfs | Nfs4:
    return (Nfs4 if call.version == 4 else Nfs)(call.procedure)


def on(
    operation: Nfs | Nfs4,
    fate: Fate,
    *,
    nth: int | None = None,
    last: int | None = None,
    after: int = 0,
    every: int = 1,
    address: int | None = None,
    file: int | None = None,
) -> Hook:
    """Make a hook for an operation: each call, the nth, or those behind `after` up to `last`.

    Of one address or file alone, where that is given; nth counts the others as well.
    """

    def hook(call: CData) -> Fate | None:
        meant = address in (None, call.address) and file in (None, call.file)
        meant = meant and call.nth % every == 0
        meant = meant and nth in (None, call.nth) and after < call.nth <= (last or call.nth)
        return fate if meant and _operation(call) is operation else None

    return hook


@dataclass(frozen=True, repr=False)
class Ran:
    """What a scenario has left."""

    error: str  # "EIO"; "": none
    lost: int  # bytes that the lines report
    result: CData  # struct scenario_result
    log: list[CData]  # struct scenario_call
    lines: list[str]  # the engine's

    def calls(self, *operations: Nfs | Nfs4) -> list[CData]:
        return [call for call in self.log if _operation(call) in operations]

    def said(self, text: str) -> int:
        return sum(text in line for line in self.lines)

    def __str__(self) -> str:
        calls = [
            f"{one.time / SECOND:9.4f} s  {_operation(one).name} {one.nth}: xid {one.xid:08x},"
            f" address {one.address}, connection {one.connection}, file {one.file},"
            f" offset {one.offset}, count {one.count}, status {one.status},"
            + (f" answered at {one.answered / SECOND:.4f} s" if one.answered else " unanswered")
            for one in self.log
        ]
        return "\n".join([f"error {self.error or 'none'}", *calls, *self.lines])


class Scenarios:
    """The simulator as a library: runs one scenario after the other."""

    def __init__(self, library: Path):
        self._ffi = FFI()
        text = (PYTHON_TESTS / "sim/scenario.h").read_text()
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        self._ffi.cdef(re.sub(r"^#.*", "", text, flags=re.MULTILINE))
        self._library: CData = self._ffi.dlopen(str(library))

    def _text(self, string: CData) -> str:
        return bytes(self._ffi.string(string)).decode()

    def __call__(
        self, *hooks: Hook, error: object = "", leaves: object = False, **terms: object
    ) -> Ran:
        """Run a job on these terms (struct scenario), and expect that no rule is violated.

        It ends with that error (None: any), or well: all that it wrote is durable, all that it read
        is what was there. The server keeps nothing of NFSv4.1's clients afterwards, unless it
        cannot be told (leaves). What has happened is printed: pytest shows it where a test fails.
        """

        def decide(call: CData, fate: CData) -> None:
            for answer in (hook(call) for hook in hooks):
                for name, value in (answer or {}).items():
                    setattr(fate, name, value)
                if answer is not None:
                    return

        raised: list[BaseException] = []
        kept = self._ffi.callback(
            "scenario_decide", decide, onerror=lambda _kind, error, _trace: raised.append(error)
        )
        lines = list[str]()
        say = self._ffi.callback("scenario_say", lambda line: lines.append(self._text(line)))
        terms = {**_TERMS, **terms, "decide": kept, "say": say}
        scenario = self._ffi.new("struct scenario *", terms)
        result = self._ffi.new("struct scenario_result *")
        self._library.scenario_run(scenario, result)
        log = [self._ffi.new("struct scenario_call *", result.log[n]) for n in range(result.calls)]
        violated, keeps = self._text(result.violation), self._text(result.keeps)
        ended = errno.errorcode.get(result.error, str(result.error)) if result.error else ""
        lost = re.findall(r"(\d+) bytes of \".*may be lost", "\n".join(lines))
        ran = Ran(ended, sum(map(int, lost)), result, log, lines)
        print(ran)
        if raised:  # by a hook
            raise raised[0]
        assert not violated, violated
        assert error in (ended, None)
        assert leaves or not keeps, keeps
        assert result.sound
        assert ended or result.durable
        return ran
