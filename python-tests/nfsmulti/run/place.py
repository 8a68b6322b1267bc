# SPDX-License-Identifier: GPL-2.0-only
"""Where fio runs: in a lab or a guest started for it, or on a user's pool, by one or more hosts."""

import dataclasses
import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Protocol, Self
from urllib.parse import parse_qs, quote, urlsplit

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.hosts import RemoteFio, parse_hosts
from nfsmulti.lab import Lab, LabConfig, Limits
from nfsmulti.lab.guest import ADDRESSES, EXPORT
from nfsmulti.lab.network import Network, batch
from nfsmulti.machine import memory, versions
from nfsmulti.paths import COMMAND, write_files
from nfsmulti.pool import CellMounts, mount_ports, mount_source, mounts, pool_lines
from nfsmulti.processes import Process, run
from nfsmulti.run.watch import Ask, by_command, local, of_processes
from nfsmulti.scenario import OWN_SERVER, CellSpec, GuestPlace, OwnPool
from nfsmulti.summary import Cell

# The engine's names of one option, and two that exclude each other: a cell's take away a path's.
VERSION_NAMES = ("version", "nfsvers")
_ALIKE = (set(VERSION_NAMES), {"hard", "soft"})
# Credentials that the engine refuses beside a word of a cell's query: nothing would use them.
_KERBEROS, _OWN_TLS = {"principal", "keytab", "ccache", "server_principal"}, {"tls_cert", "tls_key"}
_UNUSED = {
    "sec=sys": _KERBEROS,
    "xprtsec=none": {"tls_ca", "tls_name", *_OWN_TLS},
    "xprtsec=tls": _OWN_TLS,
}
RESTART_SECONDS = 600.0  # that a user's restart may take
_DOWN_SECONDS = 2.0  # that a lab's servers are away
# What nfsmulti-pool says of a path beside its arguments.
_NOT_ARGUMENTS = {"kind", "label", "host", "export", "address"}


class Target(Protocol):
    """A place that serves, from `with` until its end.

    `enter` are the words that lead to where clients are, `variables` their environment there.
    `directory` holds all files of the jobs on the server, "" for the export's root. `scratch` is
    where fio's own files go while it runs, None for where they stay. `remote` runs it where that is
    on other hosts. `ask` asks the server for its processors and memory, None where that cannot be
    done. `cpus` are the processors whose work counts, None for all.
    `remedy` says what to do where no cell can be run.
    """

    enter: Sequence[str] = ()
    variables: Mapping[str, str] = MappingProxyType({})
    directory: str = ""
    scratch: Path | None = None
    remote: RemoteFio | None = None
    ask: Ask | None = None
    cpus: Collection[int] | None = None
    remedy: str | None = None

    def __enter__(self) -> Self:
        """Start it; raises MissingError, HarnessError."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take it down."""
        return

    def pool(self, spec: CellSpec) -> str:
        """Return the pool that a cell of client "pool" uses."""
        ...

    def mounts(self, spec: CellSpec) -> list[str]:
        """Return the mounts of a cell of client "mounts" or "mount"; HarnessError for none."""
        raise HarnessError(f"there are no mounts for {spec.mounts}")

    def prepare(self, spec: CellSpec) -> CellSpec:
        """Make ready for a cell, with its files where fio is slower, and return what runs here."""
        return spec

    def told(self, cell: Cell) -> Cell:
        """Return a cell that has just run, with what the place itself knows of it."""
        return cell

    def trouble(self) -> str | None:
        """Tell why it serves no longer, None while it does, or where nobody knows."""
        return None

    def restart(self, command: str) -> Iterator[None]:
        """Restart its server, a step at a time, by a command of the shell. Raises HarnessError.

        A signal ends the command, or whoever closes this before it is done, which is then said.
        """
        with tempfile.TemporaryFile() as said:
            try:
                status = yield from _ended(["sh", "-c", command], said)
            except (GeneratorExit, KeyboardInterrupt, SystemExit):
                error = HarnessError("--restart was interrupted", "see whether the server runs")
                print(f"nfsmulti: {error}", file=sys.stderr)
                raise
            if status:
                said.seek(0)
                last = said.read().decode(errors="replace").strip().splitlines()[-1:]
                raise HarnessError(
                    ": ".join([f"--restart '{command}' failed ({status})", *last]),
                    "give a command that ends with status 0 when the server is back",
                )
        if status is None:
            raise HarnessError(
                f"--restart '{command}' did not end within {RESTART_SECONDS:.0f} s",
                "give a command that ends when the server is back",
            )

    def servers(self) -> list[str]:
        """Say what is known of its servers, for the reader of a report."""
        ...


def _ended(words: Sequence[str], said: IO[bytes]) -> Generator[None, None, int | None]:
    """Run a restart, a step at a time; gives its status, None where it takes too long."""
    with Process(words, stdout=said, stderr=said) as process:
        until = time.monotonic() + RESTART_SECONDS
        while (status := process.wait(0)) is None and time.monotonic() < until:
            yield
    return status


class InLab(Target):
    """A lab of real servers on this machine, for as long as it is needed."""

    def __init__(self, config: LabConfig):
        self._lab = Lab(config)

    def __enter__(self) -> Self:
        self._lab.start()
        self.enter, self.variables = self._lab.command([]), self._lab.state.variables
        self.ask = of_processes(lambda: [one.pid for one in self._lab.servers if one.pid])
        return self

    def __exit__(self, *_: object) -> None:
        self._lab.stop()

    def pool(self, spec: CellSpec) -> str:
        """Return the pool of the lab's first addresses, by the security that the cell asks for."""
        clear = not re.search(r"\bxprtsec=m?tls\b", spec.query)
        paths = self._lab.pool_of(spec.paths, clear=clear).split(",")
        return ",".join(asked(f"{path}{self._credentials}", spec) for path in paths)

    @property
    def _credentials(self) -> str:
        given = self._lab.state.options.items()
        words = {name: value for name, value in given if name not in ("security", "xprtsec")}
        return "".join(f"&{name}={quote(value, safe='/')}" for name, value in words.items())

    def prepare(self, spec: CellSpec) -> CellSpec:
        """Write the files behind the servers' back, which no limit slows down, where they lie."""
        if not self._lab.config.memory:
            write_files(self._lab.export_dir, spec.files)
        return spec

    def restart(self, command: str) -> Iterator[None]:
        """Kill its servers and start them again, where no other command is given."""
        if command != OWN_SERVER:
            yield from super().restart(command)
            return
        for server in self._lab.servers:
            server.kill()
        until = time.monotonic() + _DOWN_SECONDS
        while time.monotonic() < until:
            yield
        for server in self._lab.servers:
            server.start()

    def trouble(self) -> str | None:
        """Tell which server has died."""
        dead = [one.endpoint.address for one in self._lab.servers if not one.running]
        return f"the server on {', '.join(dead)} has died" if dead else None

    def servers(self) -> list[str]:
        """Name the program on each address."""
        release = versions()["nfs-ganesha"]
        return [f"nfs-ganesha {release} on {one.endpoint.address}" for one in self._lab.servers]


class OnPool(Target):
    """The pool of a user, on which nothing is started and nothing taken down.

    `directory` is the run's own on its servers, "" as long as it has none. `server_command` are the
    words that lead to its server, "" for none.
    """

    def __init__(self, text: str, server_command: str = "", directory: str = ""):
        self.directory = directory
        self.remedy = f"{COMMAND} doctor --pool={shlex.quote(text)}"
        self._paths = split_pool(text)
        self._mounts = [path for path in self._paths if path.startswith("/")]
        self._urls = [path for path in self._paths if not path.startswith("/")]
        self._mounted = CellMounts()
        self.ask = by_command(server_command) if server_command else None

    def __exit__(self, *_: object) -> None:
        self._mounted.end()

    @property
    def offers(self) -> OwnPool:
        """What a scenario may use of it."""
        return OwnPool(
            urls=len(self._urls),
            mounts=len(self._mounts),
            version=_the_one(map(nfs_version, self._mounts)),
            url_version=_the_one(_argument(url, "version", "3") for url in self._urls),
            url_proto=_the_one(_argument(url, "proto", "tcp") for url in self._urls),
            memory=memory(),
        )

    def pool(self, spec: CellSpec) -> str:
        """Return the first paths: the URLs, or mounts where it has no URL."""
        paths = self._urls or self._mounts
        return ",".join(asked(path, spec) for path in paths[: spec.paths])

    def as_asked(self, spec: CellSpec) -> str:
        """Return all its paths, its URLs with the version and transport of a cell."""
        words = {"version": spec.options.get("nfsvers"), "proto": spec.options.get("proto")}
        query = "&".join([spec.query, *(f"{name}={word}" for name, word in words.items() if word)])
        asking = dataclasses.replace(spec, query=query.strip("&"))
        return ",".join([*(asked(url, asking) for url in self._urls), *self._mounts])

    def mounts(self, spec: CellSpec) -> list[str]:
        """Return the first of its kernel mounts, or those made of its URLs for the cell."""
        if spec.mount_options:
            return self._mounted.make([
                (mount_source(url), mount_ports(url, spec.mount_options))
                for url in self._urls[: spec.paths]
            ])  # fmt: skip
        return self._mounts[: spec.paths]

    def servers(self) -> list[str]:
        """Return the paths."""
        return list(self._paths)


def split_pool(text: str) -> list[str]:
    """Return the paths of a pool as words of the same grammar. Raises HarnessError.

    Ranges are resolved and names of pools looked up by the engine's own parser.
    """
    return [_path_text(line) for line in pool_lines(text)]


def _path_text(line: dict[str, Any]) -> str:
    """Write a path as the pool's grammar has it, with its address in the place of its name."""
    if "dir" in line:
        return str(line["dir"])
    host = f"[{line['address']}]" if ":" in line["address"] else line["address"]
    known = {key: value for key, value in line.items() if key not in _NOT_ARGUMENTS}
    if "soft" in known:
        known["soft" if known.pop("soft") else "hard"] = None
    words = [
        key if value is None else f"{key}={quote(str(value), safe=':+')}"
        for key, value in known.items()
    ]
    return f"nfs://{host}{quote(line['export'])}" + (f"?{'&'.join(words)}" if words else "")


def asked(path: str, spec: CellSpec) -> str:
    """Return a path with a cell's arguments in the place of its own. NFSv4 has no port of MOUNT.

    A path's arguments would win over the cell's options, which are what is compared. Of its
    credentials those stay that the cell's security uses.
    """
    url, _, own = path.partition("?")
    words = spec.query.split("&") if spec.query else []
    gone = {word.partition("=")[0] for word in words} | spec.options.keys()
    gone = gone.union(*(names for names in _ALIKE if names & gone))
    gone = gone.union(*(_UNUSED.get(word, ()) for word in words))
    if speaks_nfs4(spec):
        gone.add("mountport")
    words = [word for word in own.split("&") if word and word.partition("=")[0] not in gone] + words
    return f"{url}?{'&'.join(words)}" if words else url


def speaks_nfs4(spec: CellSpec) -> bool:
    """Tell whether a cell's pool is to speak NFSv4."""
    return "version=4" in spec.query or spec.options.get("nfsvers", 3) != 3


def _the_one(values: Iterable[str]) -> str:
    """Return the value where all are the same, "" where there are none or several."""
    found = set(values)
    return found.pop() if len(found) == 1 else ""


def _argument(url: str, name: str, default: str) -> str:
    """Return an argument of a path."""
    return parse_qs(urlsplit(url).query).get(name, [default])[0]


def nfs_version(folder: str) -> str:
    """Return the version of NFS of the kernel mount that holds `folder`; "" where it is none."""
    holding = [one for one in mounts() if Path(folder).is_relative_to(one.folder)]
    nearest = max(holding, key=lambda one: len(one.folder), default=None)
    if nearest is None or not nearest.kind.startswith("nfs"):
        return ""
    found = re.search(r"\bvers=([\d.]+)", nearest.options)
    return found[1] if found else ""


class OnHosts(OnPool):
    """The pool `text` on `hosts`, each of which runs all jobs of a cell.

    The hosts are checked when it is entered; what they say is kept in `folder`.
    """

    def __init__(
        self,
        text: str,
        hosts: str,
        engine: Engine,
        folder: Path,
        server_command: str = "",
        directory: str = "",
    ):
        super().__init__(text, server_command, directory)
        self._urls = [_as_this_user(url) for url in self._urls]
        self._text, self._folder = ",".join(self._urls + self._mounts), folder
        self.remote = self._fio = RemoteFio(parse_hosts(hosts), engine)

    def __enter__(self) -> Self:
        for host in self._fio.hosts:
            host.check_serving()
        self._fio.check(self._folder / "check", self._text, self.directory)
        return self

    def pool(self, spec: CellSpec) -> str:
        """Return as many paths as the jobs of all hosts use."""
        return super().pool(self._of_all(spec))

    def mounts(self, spec: CellSpec) -> list[str]:
        """Return as many mounts as the jobs of all hosts use, or the one that all are to use."""
        return super().mounts(spec if spec.client == "mount" else self._of_all(spec))

    def servers(self) -> list[str]:
        """Return the paths, and the hosts."""
        return [*super().servers(), *(f"client {host.text}" for host in self._fio.hosts)]

    def _of_all(self, spec: CellSpec) -> CellSpec:
        return dataclasses.replace(spec, paths=spec.paths * len(self._fio.hosts))


def _as_this_user(url: str) -> str:
    """Name us in a URL that names nobody: the run's directory is ours, whoever runs the hosts."""
    if parse_qs(urlsplit(url).query).keys() & {"uid", "gid"}:
        return url
    return f"{url}{'&' if '?' in url else '?'}uid={os.getuid()}&gid={os.getgid()}"


# --- in a guest of the kernel lab, where the harness itself runs then (runner.py) ---

_THREADS = Path("/proc/fs/nfsd/threads")
_SERVER, _BRIDGE = "10.77.0.1", "br0"
_NETWORK_SECONDS = 120.0


class InGuest(Target):
    """The guest's own server, over its addresses and its mounts, which goes with its kernel."""

    # In memory: several jobs append to one file, and the shared folder keeps no order among them.
    scratch = Path("/run/nfsmulti-cells")

    def __init__(self, place: GuestPlace):
        self._place = place
        self.ask = local
        self._mounted = CellMounts()

    def __enter__(self) -> Self:
        if self._place.threads:
            _THREADS.write_text(f"{self._place.threads}\n")
        if self._place.limits:
            _create_links(self._place)
        if self._place.client_memory:
            self.enter = _with_memory(self._place.client_memory)
        return self

    def __exit__(self, *_: object) -> None:
        self._mounted.end()

    def pool(self, spec: CellSpec) -> str:
        """Return the pool of the server's first addresses; to NFSv4 the export is the root."""
        export = "/" if speaks_nfs4(spec) else EXPORT
        query = f"?{spec.query}" if spec.query else ""
        return ",".join(f"nfs://{address}{export}{query}" for address in ADDRESSES[: spec.paths])

    def mounts(self, spec: CellSpec) -> list[str]:
        """Return the first mounts of the cell's group, or one that is made for the cell."""
        if spec.mount_options:
            export = EXPORT if "vers=3" in spec.mount_options else "/"
            return self._mounted.make([(f"{ADDRESSES[0]}:{export}", spec.mount_options)])
        return [mount.folder for mount in self._place.mounts[spec.mounts]][: spec.paths]

    def prepare(self, spec: CellSpec) -> CellSpec:
        """Write the files behind the server's back, which no limit slows down."""
        write_files(Path(EXPORT), spec.files)
        return spec

    def servers(self) -> list[str]:
        """Name it."""
        threads = _THREADS.read_text().strip()
        return [f"the guest's own nfsd, {threads} threads, on {', '.join(ADDRESSES)}"]


_CGROUPS, _VM = Path("/sys/fs/cgroup"), Path("/proc/sys/vm")
_DIRTY = {"dirty_bytes": 0.2, "dirty_background_bytes": 0.1}  # as vm.dirty_ratio is by default


def _with_memory(most: int) -> list[str]:
    """Return the words that run a client with so many bytes of memory, page cache included.

    As on a machine that has no more, a fifth of them may wait to be written.
    """
    _command("mount", "-t", "cgroup2", "none", str(_CGROUPS))
    (_CGROUPS / "cgroup.subtree_control").write_text("+memory")
    clients = _CGROUPS / "clients"
    clients.mkdir()
    (clients / "memory.max").write_text(str(most))
    for name, part in _DIRTY.items():
        (_VM / name).write_text(str(round(part * most)))
    return ["sh", "-c", f'echo $$ >{clients}/cgroup.procs && exec "$@"', "sh"]


# Limited links, a mount on each: kernel mounts whose connections have caps.
# Two mounts of one server share a connection (v4.1 finds out by itself that two addresses are one
# server), so that each needs a client of its own: a network namespace with a link into a bridge, at
# which the server listens, and a host name of its own, by which v4.1 tells clients apart. The
# server limits what it sends: each client's rate, and the bridge's.


def _create_links(place: GuestPlace) -> None:
    """Make a client for each mount of a group, and all mounts. Raises CommandError."""
    count = max(len(group) for group in place.mounts.values())
    lines = [
        f"link add {_BRIDGE} type bridge",
        f"addr add {_SERVER}/24 dev {_BRIDGE}",
        f"link set {_BRIDGE} up",
    ]
    for number in range(1, count + 1):
        _command("ip", "netns", "add", _client(number))
        lines += [
            f"link add s{number} type veth peer name c{number} netns {_client(number)}",
            f"link set s{number} master {_BRIDGE} up",
        ]
    batch("ip", None, lines)
    for number in range(1, count + 1):
        inner = [
            "link set lo up",
            f"addr add {_address(number)}/24 dev c{number}",
            f"link set c{number} up",
        ]
        batch("ip", _client(number), inner)
    limits = Limits(link=place.link, per_address=place.per_mount)
    addresses = [_address(number) for number in range(1, count + 1)]
    batch("tc", None, limits.commands(_BRIDGE, "dst", addresses))
    for group in place.mounts.values():
        for number, mount in enumerate(group, start=1):  # each is seen by all
            there = dataclasses.replace(mount, address=_SERVER)
            _command("mkdir", "-p", mount.folder)
            script = f"hostname {_client(number)}; exec {shlex.join(there.command)}"
            _command(*Network.enter(_client(number)), "unshare", "--uts", "sh", "-ec", script)


def _client(number: int) -> str:
    return f"client{number}"


def _address(number: int) -> str:
    return f"10.77.0.{100 + number}"


def _command(*argv: str) -> None:
    run(argv, timeout=_NETWORK_SECONDS).check()
