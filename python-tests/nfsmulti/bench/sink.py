# SPDX-License-Identifier: GPL-2.0-only
"""nfs-sink, the server that costs next to nothing, as an object that ends it."""

import json
import os
import select
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
        self._output, writer = os.pipe()
        try:
            self._process = Process(self._argv, stdout=writer)
        finally:
            os.close(writer)
        try:
            ready = self._line()
            self.address, self.port = ready["address"], int(ready["nfsport"])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.end()
        os.close(self._output)

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
        return typed.read(SinkCounts, self._line())

    def _line(self) -> dict[str, Any]:
        """Read a line of JSON. Raises HarnessError where none comes."""
        said = b""
        while not said.endswith(b"\n"):
            ready, _, _ = select.select([self._output], [], [], _SECONDS)
            part = os.read(self._output, 65536) if ready else b""
            if not part:
                raise HarnessError("nfs-sink did not start, or ended without its counts")
            said += part
        values: dict[str, Any] = json.loads(said)
        return values
