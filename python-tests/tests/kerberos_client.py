# SPDX-License-Identifier: GPL-2.0-only
"""Labs with a realm of their own: this process in it, and fio as its user."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import FioRunner, done, started_lab

from nfsmulti.fiorun import FioProcess, FioResult, Option
from nfsmulti.lab import EXPORT, SECRET, Kerberos, Lab, LabConfig
from nfsmulti.processes import run
from servers.record_proxy import RecordProxy


class Client:
    """It uses the export that takes no AUTH_SYS, over the proxy where there is one."""

    def __init__(self, lab: Lab, fio: FioRunner, folder: Path, proxy: RecordProxy | None = None):
        self.lab, self.kdc, self._proxy, self._fio = lab, lab.kdc, proxy, fio
        self.finish, self.environment = fio.finish, dict(lab.environment)
        # In place of a keytab.
        self.tickets: dict[str, Option] = {
            "ccache": f"FILE:{folder / 'ccache'}", "keytab": None, "principal": None,
        }  # fmt: skip

    def log_in(self, *words: str) -> None:
        """Make `tickets` anew, without any for a server."""
        self.kinit(*words, "-c", str(self.tickets["ccache"]))

    def kinit(self, *words: str) -> None:
        argv = ["kinit", *words, "-k", "-t", str(self.kdc.keytab), self.kdc.principal]
        run(argv, timeout=60, env=self.environment).check()

    def path(self, version: str = "4.1", port: int | None = None) -> str:
        """Return the pool's path; through the proxy, or another on `port`."""
        endpoint = self.lab.server(0).endpoint
        address, default = endpoint.address, endpoint.nfs_port
        if self._proxy:
            address, default = self._proxy.address, self._proxy.port
        more = f"mountport={endpoint.mount_port}" if version == "3" else f"version={version}"
        return f"nfs://{address}:{port or default}/{SECRET.name}?{more}"

    def __call__(self, version: str = "4.1", **options: Option) -> FioResult:
        with self.start(version, **options) as process:
            return self.finish(process)

    def well(self, version: str = "4.1", **options: Option) -> FioResult:
        result = self(version, **options)
        done(result)
        return result

    def start(self, version: str = "4.1", **options: Option) -> FioProcess:
        words = {"pool": self.path(version), **self.lab.state.options, **options}
        return self._fio.start(env=self.environment, **words)

    def ended(self, process: FioProcess) -> FioResult:
        """End a job that would go on, in good order."""
        process.signal(signal.SIGINT)
        return self.finish(process)


@contextmanager
def realm(config: Kerberos) -> Iterator[Lab]:
    exports = (EXPORT, SECRET)
    with started_lab(LabConfig(addresses=1, local=True, exports=exports, kerberos=config)) as lab:
        yield lab


def enter(lab: Lab, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Put this process into the lab's realm, with an empty cache of its own."""
    for name, value in lab.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{folder / 'ccache'}")
    return lab
