# SPDX-License-Identifier: GPL-2.0-only
"""Programs that serve until they are stopped, and can be started again."""

import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from nfsmulti.errors import HarnessError
from nfsmulti.processes import Process, last_words

_UP_SECONDS = 60.0
_LINES = 20  # of its last words


class Daemon:
    """The program `argv`, which `name` stands for in messages.

    What it prints is added to the file `output`, and what else it says to `log`, if that is
    another. It runs in the folder `cwd`, or in ours. It is up when `ready` says so. `started` is
    told of each new process, by whoever sets it.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        output: Path,
        ready: Callable[[], bool],
        *,
        log: Path | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ):
        self.name, self.output, self.log = name, output, log or output
        self._argv, self._ready, self._env, self._cwd = argv, ready, env, cwd
        self._old: dict[Path, int] = {}  # bytes that files had when it was started
        self.process: Process | None = None
        self.started: Callable[[Process], None] = lambda _: None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the process runs (paused counts)."""
        return self.process is not None and self.process.running

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self.process.pid if self.process and self.running else None

    def start(self) -> None:
        """Start it and wait until it is up, or let it go on where it is paused.

        Raises HarnessError with its words where it does not come up.
        """
        if self.running:
            self.resume()
            return
        with self.output.open("ab") as output:
            files = (self.output, self.log)
            self._old = {file: file.stat().st_size for file in files if file.exists()}
            self.process = Process(
                self._argv, env=self._env, cwd=self._cwd, stdout=output, stderr=output
            )
        self.started(self.process)
        if not self.process.comes_up(self._ready, _UP_SECONDS):
            self.kill()
            raise self.failed(f"{self.name} did not start")

    def logged(self) -> bytes:
        """Return what is new in its log since it was started."""
        return self._new(self.log)

    def printed(self) -> bytes:
        """Return what it has printed since it was started."""
        return self._new(self.output)

    def _new(self, file: Path) -> bytes:
        return file.read_bytes()[self._old.get(file, 0) :] if file.exists() else b""

    def failed(self, what: str) -> HarnessError:
        """Return an error with its last words."""
        return HarnessError(f"{what}; {last_words(self.said(), lines=_LINES)}")

    def said(self) -> str:
        """Return what it has said since it was started."""
        words = [self.printed(), *([self.logged()] if self.log != self.output else [])]
        return b"\n".join(words).decode(errors="replace")

    def stop(self) -> None:
        """End it with SIGTERM, as an administrator would."""
        if self.process is not None:
            self.process.end()

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        if self.process is not None:
            self.process.kill()

    def pause(self) -> None:
        """Stop it answering, its connections staying open. It must run."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it answer again. It must run."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if not self.process or not self.running:
            raise HarnessError(f"{self.name} is not running")
        self.process.signal(number)
