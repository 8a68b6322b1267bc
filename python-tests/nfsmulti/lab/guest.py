# SPDX-License-Identifier: GPL-2.0-only
"""The kernel lab: a guest with an RDMA device and the kernel's NFS server, which runs one command.

It shows what a machine without these cannot: kernel mounts over TCP and RDMA, and a server that
speaks both. The guest sees the machine's whole file system and can change nothing of it. Its kernel
is Debian 13's under QEMU (kernels.py).
"""

import contextlib
import math
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from nfsmulti.errors import HarnessError
from nfsmulti.lab import kernels as machines
from nfsmulti.lab.kerberos import PROGRAMS
from nfsmulti.lab.kernels import HOST, Machine, write_initramfs
from nfsmulti.pool import RDMA_PORT
from nfsmulti.processes import Process, claimed, find, last_words

# --- kernel mounts of the guest's own server ---


ADDRESSES = ("10.0.2.15", "10.0.2.16")
ADDRESS6 = "fd02::15"
EXPORT = "/export"
EXPORT_OPTIONS = "rw,no_root_squash,insecure,fsid=0,no_subtree_check"


@dataclass(frozen=True)
class Mount:
    """A mount on `folder` of the export at `address`, with nfs(5)'s `options`."""

    folder: str
    options: tuple[str, ...]
    address: str = ADDRESSES[0]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read DIR=OPTIONS; `address=` among the options chooses another of the addresses."""
        folder, _, words = text.partition("=")
        options = [word for word in words.split(",") if word]
        given = [word for word in options if word.startswith("address=")]
        address = given[-1].removeprefix("address=") if given else ADDRESSES[0]
        if not folder.startswith("/") or not options:
            raise HarnessError(f"--mount={text}: write it like /mnt/a=vers=3,proto=rdma")
        if address not in (*ADDRESSES, ADDRESS6):
            known = ", ".join((*ADDRESSES, ADDRESS6))
            raise HarnessError(f"--mount={text}: the server's addresses are {known}")
        return cls(folder, tuple(word for word in options if word not in given), address)

    @property
    def version(self) -> str:
        """The version of NFS that is asked for: "3", "4.1"; "4.2" where nothing is said."""
        found = (re.fullmatch(r"(?:nfsvers=|vers=|v)(\d[^=]*)", word) for word in self.options)
        return next((match[1] for match in found if match), "4.2")

    @property
    def command(self) -> list[str]:
        """The command that mounts it, with what this server needs: no locks for v3, RDMA's port."""
        options = list(self.options)
        names = {word.partition("=")[0] for word in options}
        version3 = self.version == "3"
        if version3 and not names & {"lock", "nolock", "local_lock"}:
            options.append("nolock")
        if self.rdma and "port" not in names:
            options.append(f"port={RDMA_PORT}")
        host = f"[{self.address}]" if ":" in self.address else self.address
        # The export is version 4's root.
        source = f"{host}:{EXPORT if version3 else '/'}"
        return ["mount", "-t", "nfs", "-o", ",".join(options), source, self.folder]

    @property
    def rdma(self) -> bool:
        """Whether it is one over RDMA."""
        for word in self.options:
            if word.startswith("proto="):
                return "rdma" in word
        return "rdma" in self.options


# --- the guest ---


_INIT = Path(__file__).with_name("init.sh")
# Between two lines of the console while it boots: a slow machine takes long, but goes on.
_BOOT_SILENCE = 180.0
_POLL_SECONDS = 0.03
# QEMU's processor has this machine's time stamp counter, whose frequency a kernel measures while it
# boots. It may take a pause of ours for the guest's own and be wrong by several times ever after.
_CLOCK_OFF = 1.1
_BOOTS = 3
_CONSOLE_LINES = 12
_CHUNK = 1 << 20
_SHARE, _RESULTS = "share", "results"
_CONSOLES = ("machine", "console")
_FIRMWARE_ENDS = "Booting from ROM.."
_FAREWELL = "] reboot: Power down"
_CRASHED = "Kernel panic"  # rarely, on emulated processors
_INSIDE = "NFSMULTI_LAB_EXPORT"
_DESCRIBED = "NFSMULTI_LAB_GUEST"


@dataclass(frozen=True)
class GuestConfig:
    """A guest: processors, memory in MiB, mounts of its server, limits on its command in s.

    `timeout` limits how long the command takes, `silence` how long it may write nothing.
    `results` is a folder of the host that the guest may write. With `network` it reaches what this
    process does; a server on this machine's loopback has the address 10.0.3.2 there. With `sec` or
    `xprtsec` its own server has Kerberos or TLS, and kernel_security.py makes the mounts. Emulated
    processors wait for each other all the time: where the host has not one to spare for each, a
    second makes all slower.
    """

    cpus: int = 1
    memory: int = 2048
    mounts: tuple[Mount, ...] = ()
    results: Path | None = None
    network: bool = False
    sec: str = "sys"
    xprtsec: str = "none"
    timeout: float = math.inf
    silence: float = math.inf

    def __post_init__(self) -> None:
        """Refuse a mount whose flavor this server does not have, or not at its address."""
        has = {"sec": self.sec != "sys", "xprtsec": self.xprtsec != "none"}
        asked = [(mount, word) for mount in self.mounts for word in mount.options]
        for mount, word in asked:
            name, _, flavor = word.partition("=")
            if name not in has or flavor in ("sys", "none"):
                continue
            if not has[name]:
                raise HarnessError(f"--mount={mount.folder}: {word} needs --{name}")
            if mount.address == ADDRESS6:
                raise HarnessError(f"--mount={mount.folder}: {word} has no key for {ADDRESS6}")

    @property
    def secured(self) -> bool:
        """Whether its server has Kerberos or TLS."""
        return (self.sec, self.xprtsec) != ("sys", "none")


def inside() -> bool:
    """Tell whether this is a guest."""
    return _INSIDE in os.environ


def described() -> str:
    """Say in a line what guest this is; "" where it is none."""
    return os.environ.get(_DESCRIBED, "")


class _BootError(HarnessError):
    """A boot went wrong by chance: the kernel crashed, or the guest's seconds are not ours."""


def run_in_guest(
    command: Sequence[str],
    config: GuestConfig,
    *,
    stdout: IO[bytes] | None = None,
    stderr: IO[bytes] | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> int:
    """Boot a guest and run `command` there, in our own folder or `cwd`, `env` added to ours.

    Its output is passed on as it comes, to our own where nothing else is given; gives its exit
    status as a shell would. A guest whose kernel crashes, or whose clock is wrong, is booted again
    before the command starts.
    MissingError where a component is not installed, HarnessError where the guest fails or is late.
    """
    machine = Machine()
    kerberos = (*PROGRAMS, "rpc.svcgssd", "rpc.gssd") if config.sec != "sys" else ()
    for program in (*kerberos, *(["openssl"] if config.xprtsec != "none" else [])):
        find(program)
    if config.secured:
        inside = [sys.executable, "-m", "nfsmulti.lab.kernel_security", config.sec, config.xprtsec]
        command = [*inside, *command]
    streams = (stdout or sys.stdout.buffer, stderr or sys.stderr.buffer)
    variables = {**os.environ, **_environment(config), **(env or {})}
    variables[_DESCRIBED] = machine.described(config.cpus)
    variables["PATH"] = f"{machine.tree.programs}:{variables.get('PATH', os.defpath)}"
    script = _script(command, cwd or Path.cwd(), variables)
    for _ in range(_BOOTS - 1):
        try:
            return _boot(machine, script, config, streams)
        except _BootError as error:
            what, _, _ = error.what.partition(";")
            print(f"nfsmulti: {what}: booting it again", file=sys.stderr, flush=True)
    return _boot(machine, script, config, streams)


def _boot(
    machine: Machine, script: str, config: GuestConfig, to: tuple[IO[bytes], IO[bytes]]
) -> int:
    """Boot a guest that runs `script`, and give its status; `to` takes its output and errors."""
    with _folder() as folder:
        shares = {HOST: Path("/"), _SHARE: folder / _SHARE}
        if config.results:
            shares[_RESULTS] = config.results
        share = folder / _SHARE
        share.mkdir()
        shutil.copy(_INIT, share / "init")
        (share / "settings").write_text(
            _settings(machine, config, shares), errors="surrogateescape"
        )
        (share / "command").write_text(script, errors="surrogateescape")
        write_initramfs(folder / "initramfs", machine.root_modules, share)
        argv = machine.command(folder, config.cpus, config.memory, config.network, shares)
        with (
            (share / "stdout").open("x+b", buffering=0) as out,
            (share / "stderr").open("x+b", buffering=0) as err,
            (folder / "machine").open("wb") as said,
            Process(argv, cwd=folder, stdout=said, stderr=said) as process,
        ):
            guest = _Guest(folder, process, list(zip((out, err), to, strict=True)))
            return guest.follow(config.timeout, config.silence)


class _Guest:
    """A guest that runs: passes on its output, and tells how it ended."""

    def __init__(
        self, folder: Path, process: Process, streams: Sequence[tuple[IO[bytes], IO[bytes]]]
    ):
        self._folder, self._process, self._streams = folder, process, streams

    def follow(self, timeout: float, silence: float) -> int:
        """Wait for the command's status."""
        if not self._until("ready", silence=_BOOT_SILENCE):
            words = self._last_words()
            error = _BootError if _CRASHED in words else HarnessError
            raise error(f"the guest did not come up; {words}")
        share = self._folder / "share"
        # Two of the guest's times are held against ours, at which their files were written.
        files = share / "begun", share / "ready"
        first, last = (float(file.read_text().split()[0]) for file in files)
        ours = files[1].stat().st_mtime - files[0].stat().st_mtime
        if not ours / _CLOCK_OFF < last - first < ours * _CLOCK_OFF:
            raise _BootError(
                f"the guest's clock counts {last - first:.1f} s in {ours:.1f} s",
                "try again when the machine has less to do",
            )
        (share / "go").touch()
        if not self._until("status", timeout, silence):
            raise HarnessError(f"the guest ended before the command; {self._last_words()}")
        return int((share / "status").read_text())

    def _until(self, name: str, timeout: float = math.inf, silence: float = math.inf) -> bool:
        """Pass on output until a file of the share is written; False: the guest ended first."""
        file = self._folder / "share" / name
        begin = heard = time.monotonic()
        console = 0
        while True:
            over = self._process.wait(_POLL_SECONDS) is not None
            there = file.exists()
            while (passed_on := self._pass_on()) and there:
                pass
            if there or over:
                return there
            now = time.monotonic()
            before, console = console, sum(file.stat().st_size for file in self._consoles())
            if passed_on or console != before:
                heard = now
            if now > begin + timeout:
                raise HarnessError(f"the command did not end within {timeout:g} s")
            if now > heard + silence:
                why = f"the guest was silent for {silence:g} s"
                raise HarnessError(f"{why}; {self._last_words()}")

    def _consoles(self) -> list[Path]:
        """Return the files that are there of what its machine prints, and of its console."""
        return [file for name in _CONSOLES if (file := self._folder / name).exists()]

    def _pass_on(self) -> bool:
        """Pass on some of the output; tells whether there was any."""
        any_was_there = False
        for source, to in self._streams:
            if content := source.read(_CHUNK):
                to.write(content)
                to.flush()
                any_was_there = True
        return any_was_there

    def _last_words(self) -> str:
        """Return the end of what the machine and the guest's kernel and init.sh have said."""
        texts = (file.read_text(errors="replace") for file in self._consoles())
        said = "".join(text.rpartition(_FIRMWARE_ENDS)[2] for text in texts)
        lines = [line for line in said.splitlines() if _FAREWELL not in line]
        return last_words("\n".join(lines), lines=_CONSOLE_LINES)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Yield a folder for one guest; those of harnesses that were killed are removed first."""
    with machines.lock():
        for folder in machines.FOLDER.glob("guest-*"):
            # Its owner removes it without the lock.
            with contextlib.suppress(FileNotFoundError), claimed(folder) as mine:
                if mine:
                    shutil.rmtree(folder, ignore_errors=True)
        name = Path(tempfile.mkdtemp(prefix="guest-", dir=machines.FOLDER))
        claim = contextlib.ExitStack()
        claim.enter_context(claimed(name))
    with claim:
        try:
            yield name
        finally:
            shutil.rmtree(name)


def _settings(machine: Machine, config: GuestConfig, shares: Mapping[str, Path]) -> str:
    """Return the shell's text of what init.sh needs to know."""
    settings = {
        "RELEASE": machine.tree.release,
        "MODULES": str(machine.tree.modules),
        "PROGRAMS": str(machine.tree.programs),
        "NETWORK": "yes" if config.network else "",
        "ADDRESSES": " ".join(ADDRESSES),
        "ADDRESS6": ADDRESS6,
        "EXPORT": EXPORT,
        "EXPORT_OPTIONS": EXPORT_OPTIONS,
        "RESULTS": str(config.results or ""),
        "SECURED": "yes" if config.secured else "",
    }
    lines = [f"{name}={shlex.quote(value)}" for name, value in settings.items()]
    for name in shares:
        words = shlex.join(machine.mount(name))
        lines.append(f'mount_{name}() {{ busybox mount {words} "$1"; }}')
    lines += ["mount_wanted() {", ":"]
    for mount in config.mounts:
        lines += [f"mkdir -p {shlex.quote(mount.folder)}", shlex.join(mount.command)]
    return "\n".join([*lines, "}", ""])


def _script(command: Sequence[str], cwd: Path, variables: Mapping[str, str]) -> str:
    """Return a shell script that runs `command` in its folder and environment."""
    lines = [
        f"export {name}={shlex.quote(value)}"
        for name, value in variables.items()
        if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)
    ]
    lines += [f"cd {shlex.quote(str(cwd))} || exit 126", f"exec {shlex.join(command)}"]
    return "\n".join(lines) + "\n"


def _environment(config: GuestConfig) -> dict[str, str]:
    """Return the variables that a command finds in the guest."""
    paths = [f"nfs://{address}{EXPORT}" for address in ADDRESSES]
    pools = {"lab": ",".join(paths), "one": paths[0]}
    pools["rdma"] = ",".join(f"{path}?proto=rdma" for path in paths)
    if config.mounts:
        pools["mounts"] = ",".join(mount.folder for mount in config.mounts)
    variables = {
        "NFSMULTI_LAB_ADDRESSES": " ".join((*ADDRESSES, ADDRESS6)),
        _INSIDE: EXPORT,
        "NFSMULTI_POOLS": " ".join(f"{name}:{pool}" for name, pool in pools.items()),
        "POOL": pools["lab"],
    }
    if config.results:
        variables["NFSMULTI_LAB_OUT"] = str(config.results)
    return variables
