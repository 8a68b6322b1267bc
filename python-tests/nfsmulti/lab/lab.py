# SPDX-License-Identifier: GPL-2.0-only
"""A lab: real NFS servers with several addresses of one export, on this machine alone.

    with Lab(LabConfig(addresses=4, limits=Limits(link="1gbit"))) as lab:
        lab.run(["fio", f"--pool={lab.pool}", ...])

In the usual lab, servers and clients live in two network namespaces joined by one link. A local lab
serves on the machine's own loopback instead. Both have an rpcbind of their own, which nobody else
sees: its socket lies on a /run of the servers' mount namespace, as do the exported file systems.
That mount namespace, and all in it, ends with its last process. A server that keeps its files in
memory needs none of these.
"""

import contextlib
import dataclasses
import errno
import os
import random
import re
import secrets
import shutil
import socket
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from nfsmulti import machine, typed
from nfsmulti.daemon import Daemon
from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.lab.config import MAIN_VOLUME, LabConfig
from nfsmulti.lab.ganesha import ANY, VOLUMES, Endpoint, Server
from nfsmulti.lab.kerberos import PROGRAMS, Kdc, Kerberos
from nfsmulti.lab.network import ADDRESS6, Network
from nfsmulti.lab.tls import Tls
from nfsmulti.paths import LABS, write_json
from nfsmulti.pool import url_query
from nfsmulti.processes import Completed, Identity, Process, find, locked, run

_FILE = "state.json"
_PORT_LOCK = Path("/run/nfsmulti-ports.lock")
_PORTS = (22049, 22050)
_KDC_PORT = 8888
_TLS_PORT = 22051
_UNPRIVILEGED = 1024
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")

# Ganesha finds its file systems in /etc/mtab, which minimal systems lack, and takes no tmpfs from
# there since its release 6: the lab's own file names another type.
_VOLUME = """\
mkdir -p {folder}
mount -t tmpfs -o {options} tmpfs {folder}
echo tmpfs {folder} lab rw 0 0 >>/run/etc/mtab"""
_MTAB = "mount -t overlay -o lowerdir=/run/etc:/etc overlay /etc"


# --- what other processes know of a lab, and remove where its owner is gone ---


@dataclass
class LabState:
    """One lab: `owner` is the harness process that holds it, `processes` its servers by name.

    `pools` maps a pool's name to its text, `volumes` a file system's name to its folder as the
    machine sees it, `enter` are the words before a client's command, `variables` what a client
    needs in its environment, `options` what fio's engine is to be told for the lab's security.
    `held` tells the labs of ./nfsmulti lab start, which anyone may stop, from those that belong to
    a running command.
    """

    id: str
    owner: Identity
    processes: dict[str, Identity] = field(default_factory=dict)
    pools: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)
    enter: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    ready: bool = False
    held: bool = False

    @property
    def folder(self) -> Path:
        """Where the lab keeps its files."""
        return LABS / self.id

    @property
    def environment(self) -> dict[str, str]:
        """What commands find: POOL, NFSMULTI_POOLS with all pools, and `variables`."""
        pools = " ".join(f"{name}:{pool}" for name, pool in self.pools.items())
        return {"POOL": self.pools["lab"], "NFSMULTI_POOLS": pools, **self.variables}

    def asking(self) -> Self:
        """Return the same lab with pools whose paths ask for its security: `options` in each."""
        if not self.options:
            return self
        asked = {"sec" if name == "security" else name: of for name, of in self.options.items()}
        query = url_query(asked)

        def secure(path: str) -> str:
            return f"{path}{'&' if '?' in path else '?'}{query}"

        pools = {name: ",".join(map(secure, of.split(","))) for name, of in self.pools.items()}
        return dataclasses.replace(self, pools=pools)

    def entrance(self) -> list[str]:
        """Return the words before a client's command where this process is: `enter`, or further.

        The lab of a user who is not root lies in a user namespace, with an own /run.
        """
        user = Path(f"/proc/{self.owner.pid}/ns/user")
        if not self.enter or user.samefile("/proc/self/ns/user"):
            return self.enter
        network, root = Network(self.id), f"/proc/{self.owner.pid}/root"
        _, *rest = network.enter(network.client, root)
        return ["nsenter", f"--target={self.owner.pid}", "--user", *rest]

    def write(self) -> None:
        """Store the state, whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / _FILE, dataclasses.asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read the state of the lab in `folder`; None where there is none (any more)."""
        try:
            state = typed.load_as(cls, folder / _FILE)
            return dataclasses.replace(state, id=folder.name)
        except FileNotFoundError:
            return None
        except HarnessError as error:
            raise HarnessError(error.what, "delete that folder") from None

    def remove(self) -> None:
        """Remove what the lab left; its processes only where they are still the same ones."""
        for process in self.processes.values():
            process.kill()
        Network(self.id).remove()
        shutil.rmtree(self.folder, ignore_errors=True)


def live_labs() -> list[LabState]:
    """Return the labs whose owner runs."""
    return [state for state in _all() if state.owner.alive()]


def remove_leftovers() -> list[str]:
    """Remove the labs whose owner is gone; gives their ids."""
    leftovers = [state for state in _all() if not state.owner.alive()]
    for state in leftovers:
        state.remove()
    return [state.id for state in leftovers]


def labs_lock() -> AbstractContextManager[None]:
    """Keep other harnesses of this checkout from creating or removing labs meanwhile."""
    return locked(LABS / ".lock")


def _all() -> list[LabState]:
    states = (LabState.read(folder) for folder in sorted(LABS.glob("*/")))
    return [state for state in states if state is not None]


# --- a lab ---


class Lab:
    """Servers, their network and their file systems; started by `with` or start().

    It needs root. With `memory` in its configuration, root of a user namespace will do, and a local
    one needs no privilege.

    Raises MissingError naming a component that is not installed, HarnessError where a server does
    not start; nothing is left behind then.
    """

    def __init__(self, config: LabConfig, *, lab_id: str | None = None, held: bool = False):
        self.config = config
        self.id = lab_id or secrets.token_hex(3)
        if not re.fullmatch(r"[a-z0-9]{1,16}", self.id):
            raise HarnessError(f"lab id '{self.id}': use up to 16 small letters and digits")
        self.network = Network(self.id)
        self.servers: list[Server] = []
        self._kdc: Kdc | None = None
        self._tls_ports: dict[str, int] = {}
        self._cleanup = contextlib.ExitStack()
        self._anchor: Daemon | None = None
        local, network = self.config.local, self.network
        self._at_server = [] if local else network.enter(network.server)
        # What other processes need to know to use this lab.
        self.state = LabState(self.id, Identity.of(os.getpid()), held=held)
        self.state.enter = [] if local else network.enter(network.client)

    def start(self) -> Self:
        """Bring everything up and wait until each server serves."""
        memory = self.config.memory
        allowed = memory and (self.config.local or machine.may_make_namespaces())
        if (lacking := machine.missing_privileges()) and not allowed:
            raise MissingError(
                f"a lab makes namespaces, links and mounts, which is not permitted here: {lacking}",
                "run it as root, with CAP_SYS_ADMIN and CAP_NET_ADMIN",
            )
        nft = ["nft"] if self.config.limits.per_connection else []
        network = [] if memory and self.config.local else ["ip", "tc"]
        rpcbind = [] if memory else ["rpcbind"]
        realm = PROGRAMS if self.config.kerberos else ()
        tls = [] if self.config.xprtsec == "none" else ["openssl"]
        for program in ("ganesha.nfsd", *network, *rpcbind, *nft, *realm, *tls):
            find(program)
        with contextlib.ExitStack() as undo:
            with labs_lock():  # what follows can be removed by anyone: it is written down
                remove_leftovers()
                if self.folder.exists():
                    raise HarnessError(f"a lab '{self.id}' exists already", "./nfsmulti lab stop")
                self.state.write()
            self._cleanup.callback(self.state.remove)
            undo.callback(self.stop)
            if not self.config.local:
                self.network.create(self.config.addresses, self.config.limits)
            if not memory:
                self._start_rpcbind()
            # Another local lab would find the same ports free until our servers listen there. Who
            # may not write to /run keeps off those of this checkout.
            lock = _PORT_LOCK if os.access(_PORT_LOCK.parent, os.W_OK) else LABS / ".ports.lock"
            with locked(lock) if self.config.local else contextlib.nullcontext():
                if self.config.kerberos:
                    self._start_kdc(self.config.kerberos)
                self._start_servers()
                if tls:
                    self._start_tls()
            self._describe()
            undo.pop_all()
        return self

    def _up(self, name: str, daemon: Daemon) -> None:
        """Start a daemon until the lab's end, and write down each of its processes."""

        def note(process: Process) -> None:
            with contextlib.suppress(ProcessLookupError):
                self.state.processes[name] = Identity.of(process.pid)
                self.state.write()

        daemon.started = note
        self._cleanup.enter_context(daemon)

    def stop(self) -> None:
        """Take everything down; a lab that does not run is no error."""
        self._cleanup.close()
        self.servers = []

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def folder(self) -> Path:
        """Where the lab keeps configurations, logs and its state."""
        return self.state.folder

    @property
    def pool(self) -> str:
        """The pool of all addresses."""
        return self.pool_of(self.config.addresses)

    @property
    def pool6(self) -> str:
        """The pool of the one IPv6 address."""
        return self._url(self.servers[-1].endpoint, ADDRESS6, MAIN_VOLUME)

    def pool_of(self, count: int, **how: Any) -> str:
        """Return the pool of the first `count` addresses; see path()."""
        return ",".join(self.path(number, **how) for number in range(count))

    def path(
        self,
        number: int,
        *,
        export: str = MAIN_VOLUME,
        version: str | None = None,
        clear: bool = False,
    ) -> str:
        """Return the path to an export over address `number`, from 0; `version` is 4.1 or 4.2.

        In `clear` it leads past a proxy for TLS.
        """
        endpoint, address = self.server(number).endpoint, self._addresses()[number]
        return self._url(endpoint, address, export, version, clear=clear)

    def server(self, number: int) -> Server:
        """Return the server behind the address `number`, counted from 0."""
        return self.servers[number if len(self.servers) > 1 else 0]

    def volume(self, name: str) -> Path:
        """Return the folder of a file system as this machine sees it, behind the server's back."""
        return Path(self.state.volumes[name])

    @property
    def kdc(self) -> Kdc:
        """The KDC of a lab with Kerberos."""
        assert self._kdc is not None
        return self._kdc

    @property
    def export_dir(self) -> Path:
        """The folder of the main export."""
        return self.volume(MAIN_VOLUME)

    @property
    def environment(self) -> dict[str, str]:
        """POOL, NFSMULTI_POOLS with this lab's pools by name, and what Kerberos needs."""
        return self.state.environment

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs `argv` where clients run."""
        return [*self.state.enter, *argv]

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = 60,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Completed:
        """Run `argv` as a client for at most `timeout` seconds, with `environment`."""
        variables = {**self.environment, **(env or {})}
        return run(self.command(argv), timeout=timeout, env=variables, cwd=cwd)

    def _start_rpcbind(self) -> None:
        """Start the lab's own rpcbind, which holds the mount namespace open for the servers."""
        lines = ["mount -t tmpfs -o mode=755 tmpfs /run", "mkdir /run/etc"]
        for name, size in self.config.volumes.items():
            options = "mode=755" + (f",size={size}" if size else "")
            lines.append(_VOLUME.format(folder=VOLUMES / name, options=options))
        lines += [_MTAB, "exec rpcbind -f"]
        unshare = ["unshare", "--mount", "--propagation=slave"]
        unshare += ["--net"] if self.config.local else []
        self._anchor = rpcbind = Daemon(
            "the lab's rpcbind",
            [*self._at_server, *unshare, "--", "sh", "-ec", "\n".join(lines)],
            self.folder / "rpcbind.out",
            lambda: _listens(f"/proc/{rpcbind.pid}/root/run/rpcbind.sock"),
            env={"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"},
        )
        self._up("rpcbind", rpcbind)

    def _start_kdc(self, config: Kerberos) -> None:
        address = self._addresses()[0]
        (port,) = free_ports(address, [_KDC_PORT]) if self.config.local else [_KDC_PORT]
        hosts, folder = self._all_addresses(), self.folder / "kdc"
        self._kdc = kdc = Kdc(
            config, address, port, hosts=hosts, folder=folder, enter=self._at_server
        )
        self._up("kdc", kdc)
        self.state.variables |= kdc.environment
        self.state.options |= kdc.options

    def _start_servers(self) -> None:
        """Start one server after the other: two at once would spoil each other's registration."""
        enter = self._at_server
        if self._anchor is not None:
            spaces = ["--mount", "--root", *([] if self.config.local else ["--net"])]
            enter = ["nsenter", f"--target={self._anchor.pid}", *spaces, "--"]
        if self.config.local:
            own = [ANY] if self.config.memory else self._addresses()
            endpoints = [Endpoint(address, *free_ports(address, _PORTS)) for address in own]
        else:
            one = self.config.one_server or self.config.memory
            every = ["::"] if one else self._all_addresses()
            endpoints = [Endpoint(address, *_PORTS) for address in every]
        for endpoint in endpoints:
            name = f"server-{endpoint.address.replace(':', '_')}"
            server = Server(endpoint, self.config, self._kdc, self.folder / name, enter)
            self._up(name, server)
            self.servers.append(server)

    def _start_tls(self) -> None:
        ports = {}
        for number, address in enumerate(self._all_addresses()):
            (port,) = free_ports(address, [_TLS_PORT]) if self.config.local else [_TLS_PORT]
            ports[address] = (port, self.server(number).endpoint.nfs_port)
        takes, folder = self.config.xprtsec.split(":"), self.folder / "tls"
        tls = Tls(ports, takes=takes, folder=folder, enter=self._at_server)
        self._up("tls", tls)
        self._tls_ports = {address: port for address, (port, _) in ports.items()}
        self.state.options |= tls.options

    def _addresses(self) -> list[str]:
        if self.config.local:
            return [f"127.0.0.{number}" for number in range(1, self.config.addresses + 1)]
        return self.network.addresses(self.config.addresses)

    def _all_addresses(self) -> list[str]:
        return [*self._addresses(), *([ADDRESS6] if self.config.ipv6 else [])]

    def _describe(self) -> None:
        """Complete the state for those who use this lab from another process."""
        state = self.state
        state.pools = {"lab": self.pool, "one": self.pool_of(1)}
        for export in self.config.exports:
            if export.name != MAIN_VOLUME:
                state.pools[export.name] = self.pool_of(self.config.addresses, export=export.name)
        if self._anchor is not None:
            root = f"/proc/{self._anchor.pid}/root"
            state.volumes = {name: f"{root}{VOLUMES / name}" for name in self.config.volumes}
        state.ready = True
        state.write()

    def _url(
        self,
        endpoint: Endpoint,
        address: str,
        export: str,
        version: str | None = None,
        *,
        clear: bool = False,
    ) -> str:
        host = f"[{address}]" if ":" in address else address
        version = version or ("4.1" if self.config.memory else None)
        more = f"version={version}" if version else f"mountport={endpoint.mount_port}"
        port = endpoint.nfs_port if clear else self._tls_ports.get(address, endpoint.nfs_port)
        return f"nfs://{host}/{export}?nfsport={port}&{more}"


def free_ports(address: str, usual: Sequence[int]) -> list[int]:
    """Find free ports on a local address: the usual ones (0: none is), or others.

    The others are below those that the kernel gives to whoever asks for any, where it leaves
    room: it would give them away before a server has started, and while one is down.
    """
    first = int(_EPHEMERAL.read_text().split()[0])
    others = range(max(first // 2, _UNPRIVILEGED), max(first, 2 * _UNPRIVILEGED))
    with contextlib.ExitStack() as sockets:
        free = []
        for port in usual:
            listener = sockets.enter_context(socket.socket())
            while True:
                try:
                    listener.bind((address, port or random.choice(others)))
                    break
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise
                port = 0
            free.append(listener.getsockname()[1])
        return free


def _listens(path: str) -> bool:
    """Tell whether somebody accepts connections there; the file itself is made before."""
    with socket.socket(socket.AF_UNIX) as asking:
        return not asking.connect_ex(path)
