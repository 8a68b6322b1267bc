# SPDX-License-Identifier: GPL-2.0-only
"""TLS before a lab's servers, which have none: a proxy at each address, and certificates."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.lab.certificates import NAME, Certificates
from nfsmulti.paths import PYTHON_TESTS
from nfsmulti.processes import Process, last_words

_SECONDS = 60.0
_READY = b"listening"


class Tls:
    """One process that listens, for each address, on the first port of `ports` before the second.

    `takes` are exports(5)'s words: with mtls clients are asked for a certificate, with that alone
    they have to show one. `options` are for fio's engine, of the last word; `enter` and `started`
    are Server's.
    """

    def __init__(
        self,
        ports: Mapping[str, tuple[int, int]],
        *,
        takes: Sequence[str],
        folder: Path,
        enter: Sequence[str],
        started: Callable[[Process], None],
    ):
        folder.mkdir()
        made = Certificates(folder, names=[NAME, *ports])
        self.options = made.options(takes[-1])
        files = (made.server.certificate, made.server.key, made.authority.certificate)
        own = [*map(str, files), ":".join(takes)]
        ways = [f"{address},{port},{to}" for address, (port, to) in ports.items()]
        self._argv = [*enter, sys.executable, "-m", "servers.tls_proxy", *own, *ways]
        self._output, self._started = folder / "proxy.out", started
        self._process: Process | None = None

    def start(self) -> None:
        """Start and wait until it listens. Raises HarnessError with its words where it does not."""
        with self._output.open("wb") as output:
            env = {"PYTHONPATH": str(PYTHON_TESTS)}
            self._process = Process(self._argv, env=env, stdout=output, stderr=output)
        self._started(self._process)
        if not self._process.comes_up(lambda: _READY in self._output.read_bytes(), _SECONDS):
            self.stop()
            said = last_words(self._output.read_text(errors="replace"))
            raise HarnessError(f"the lab's TLS proxy did not start; {said}")

    def stop(self) -> None:
        """End it, and all connections through it."""
        if self._process is not None:
            self._process.end()
