# SPDX-License-Identifier: GPL-2.0-only
"""nfs-sink, the server that costs next to nothing, as an object that ends it."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from nfsmulti import typed
from nfsmulti.errors import HarnessError
from nfsmulti.paths import built
from nfsmulti.processes import Process

_SECONDS = 60.0


@dataclass(frozen=True)
class SinkCounts:
    """What a sink was asked to do: calls and NFSv4.1's operations by name, data, and its cost."""

    nfs: dict[str, int]
    nfs4: dict[str, int]
    mount: dict[str, int]
    read_bytes: int
    write_bytes: int
    connections: int
    stalls: int
    busy_seconds: float


class Sink:
    """A running sink; use it in a `with`. Its counts are known once stop() gave them.

    `options` are its own; `folder` is that of the build. Its words on stderr are the caller's.
    """

    address: str
    port: int

    def __init__(self, options: Sequence[str] = (), folder: Path | None = None):
        program = built("nfs-sink", folder)
        self._argv = [str(program), "--count", *options]

    def __enter__(self) -> Self:
        self._output = tempfile.NamedTemporaryFile()
        self._process = Process(self._argv, stdout=self._output.file)
        try:
            self._process.comes_up(lambda: bool(self._said()), _SECONDS)
            ready = self._line(0)
            self.address, self.port = ready["address"], int(ready["nfsport"])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.end()
        self._output.close()

    @property
    def url(self) -> str:
        """The export, as a path of a pool and as libnfs takes it."""
        return f"nfs://{self.address}/export?nfsport={self.port}&mountport={self.port}"

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self._process.running

    def stop(self) -> SinkCounts:
        """End it, and give what it counted, which it cannot tell where it has to be killed."""
        self._process.end(_SECONDS)
        return typed.read(SinkCounts, self._line(1))

    def _said(self) -> list[str]:
        """Return its whole lines so far."""
        return Path(self._output.name).read_text().split("\n")[:-1]

    def _line(self, number: int) -> dict[str, Any]:
        """Return a line, which is JSON. Raises HarnessError where there is none."""
        if len(said := self._said()) <= number:
            raise HarnessError("nfs-sink did not start, or ended without its counts")
        values: dict[str, Any] = json.loads(said[number])
        return values
