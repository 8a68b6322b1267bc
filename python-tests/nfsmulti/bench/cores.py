# SPDX-License-Identifier: GPL-2.0-only
"""Which processors the client and the server get: one each, of separate cores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from nfsmulti.errors import HarnessError

_TOPOLOGY = Path("/sys/devices/system/cpu")


class Cores(NamedTuple):
    """The client's processor and the server's."""

    client: int
    server: int


def choose_cores(client: int | None = None, server: int | None = None) -> Cores:
    """Fill in what is not given. Raises HarnessError where there are not two cores."""
    allowed = sorted(os.sched_getaffinity(0))
    for cpu in (client, server):
        if cpu is not None and cpu not in allowed:
            raise HarnessError(f"processor {cpu} is not one of {allowed}")
    taken = server if client is None else client
    if client is None:
        client = next((cpu for cpu in allowed if taken is None or _apart(cpu, taken)), None)
    if server is None and client is not None:
        server = next((cpu for cpu in allowed if _apart(cpu, client)), None)
    if client is None or server is None:
        raise HarnessError("client and server need a core each, and there is only one")
    return Cores(client, server)


def _apart(one: int, other: int) -> bool:
    return one != other and _core(one) != _core(other)


def _core(cpu: int) -> str:
    """Name the core of a processor: hardware threads of one core have the same name."""
    try:
        return (_TOPOLOGY / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)
