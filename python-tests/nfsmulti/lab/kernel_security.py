# SPDX-License-Identifier: GPL-2.0-only
"""Kerberos and TLS in the guest while a command runs there: `python -m` this SEC XPRTSEC COMMAND.

Its server takes sys, and all flavors of what is asked for, for which programs of its own serve
mounts. Keys lie in the guest's memory.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.lab.guest import ADDRESSES
from nfsmulti.lab.kerberos import KERBEROS_FLAVORS, Kerberos
from nfsmulti.lab.kernel_kerberos import kernel_kerberos
from nfsmulti.lab.kernel_server import exported
from nfsmulti.lab.kernel_tls import kernel_tls
from nfsmulti.pool import url_query
from nfsmulti.processes import Process, end_politely, run

_KEYS = "/run"  # a file system in memory
_SECONDS = 600.0
_MOUNTING = ["sh", "-euc", ". /run/nfsmulti/settings; mount_wanted"]


@contextlib.contextmanager
def secured(sec: str, xprtsec: str, folder: Path) -> Iterator[dict[str, str]]:
    """Yield the environment of clients, whose pools lab and one ask for these flavors.

    They do so by NFSv4.1, to which the export is the root, with a user's credentials.
    """
    asked = {"version": "4.1", "sec": sec, "xprtsec": xprtsec}
    takes, variables = ["sys"], dict[str, str]()
    with contextlib.ExitStack() as undo:
        if sec != "sys":
            kdc = undo.enter_context(kernel_kerberos(Kerberos(sec), folder / "kdc"))
            asked |= {"keytab": str(kdc.keytab), "principal": kdc.principal}
            variables = kdc.environment
            takes += KERBEROS_FLAVORS
        if xprtsec != "none":
            (folder / "tls").mkdir()
            made = undo.enter_context(kernel_tls(folder / "tls"))
            asked |= made.options(xprtsec)
        undo.enter_context(exported(f"sec={':'.join(takes)}"))
        yield {**variables, **_pools(url_query(asked))}


def _pools(query: str) -> dict[str, str]:
    paths = [f"nfs://{address}/?{query}" for address in ADDRESSES]
    named = dict(word.split(":", 1) for word in os.environ["NFSMULTI_POOLS"].split())
    named |= {"lab": ",".join(paths), "one": paths[0]}
    pools = " ".join(f"{name}:{pool}" for name, pool in named.items())
    return {"POOL": named["lab"], "NFSMULTI_POOLS": pools}


def _main() -> None:
    """Run the command; its status is ours."""
    end_politely()
    sec, xprtsec, *command = sys.argv[1:]
    try:
        with (
            tempfile.TemporaryDirectory(dir=_KEYS) as folder,
            secured(sec, xprtsec, Path(folder)) as environment,
        ):
            run(_MOUNTING, timeout=_SECONDS).check()
            with Process(command, env=environment) as process:
                status = process.wait() or 0
    except HarnessError as error:
        sys.exit(f"nfsmulti: {error}")
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    _main()
