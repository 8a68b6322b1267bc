# SPDX-License-Identifier: GPL-2.0-only
"""TLS before a lab's servers, which have none: a proxy at each address, and certificates."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nfsmulti.lab.certificates import NAME, Certificates
from nfsmulti.lab.daemon import Daemon
from nfsmulti.paths import PYTHON_TESTS
from nfsmulti.processes import Process

_READY = b"listening"


class Tls(Daemon):
    """One process that listens, for each address, on the first port of `ports` before the second.

    `takes` are exports(5)'s words: with mtls clients are asked for a certificate, with that alone
    they have to show one. `options` are for fio's engine, of the last word; `enter` are the words
    before its command.
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
        super().__init__(
            "the lab's TLS proxy",
            [*enter, sys.executable, "-m", "servers.tls_proxy", *own, *ways],
            folder / "proxy.out",
            lambda: _READY in self.output.read_bytes(),
            env={"PYTHONPATH": str(PYTHON_TESTS)},
            started=started,
        )
