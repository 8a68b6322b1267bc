# SPDX-License-Identifier: GPL-2.0-only
"""A user's pool, used by several hosts at once."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Self

from nfsmulti.fiorun import Engine
from nfsmulti.hosts import RemoteFio, parse_hosts
from nfsmulti.hosts.remote import serving
from nfsmulti.run.place import OnPool
from nfsmulti.stories import CellSpec


class OnHosts(OnPool):
    """The pool `text` on `hosts`, each of which runs all jobs of a cell.

    Its servers are started and the hosts checked when it is entered; what they say is kept in
    `folder`.
    """

    def __init__(
        self, text: str, hosts: str, engine: Engine, folder: Path, server_command: str = ""
    ):
        super().__init__(text, server_command)
        self._text, self._folder = text, folder
        self.remote = self._fio = RemoteFio(parse_hosts(hosts), engine)
        self._servers = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as servers:
            servers.enter_context(serving(self._fio.hosts, self._folder))
            self._fio.check(self._folder / "check", self._text)
            self._servers = servers.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._servers.close()

    def pool(self, spec: CellSpec) -> str:
        """Give as many paths as the jobs of all hosts use."""
        return super().pool(self._of_all(spec))

    def mounts(self, spec: CellSpec) -> list[str]:
        """Give as many mounts as the jobs of all hosts use, or the one that all are to use."""
        return super().mounts(spec if spec.client == "mount" else self._of_all(spec))

    def servers(self) -> list[str]:
        """Give the paths, and the hosts."""
        return [*super().servers(), *(f"client {host.text}" for host in self._fio.hosts)]

    def _of_all(self, spec: CellSpec) -> CellSpec:
        return dataclasses.replace(spec, paths=spec.paths * len(self._fio.hosts))
