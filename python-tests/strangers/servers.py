# SPDX-License-Identifier: GPL-2.0-only
"""NFS servers of package registries: how each is built and started."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from nfsmulti.errors import HarnessError
from nfsmulti.paths import BUILD
from nfsmulti.processes import Process, run

PORT = 22049
_HERE = Path(__file__).parent
_FOLDER = BUILD / "strangers"
_BUILD_SECONDS = 7200.0
_READY_SECONDS = 60.0
_CONNECT_SECONDS = 1.0
_POLL = 0.05


# --- how they are built ---


@dataclass(frozen=True)
class Source:
    """Where a server comes from, and the commands that build its program.

    {version} and {folder} are filled in. `main` is where a main program of ours goes, if it has
    one: the file of the server's name beside this one.
    """

    label: str
    commands: tuple[str, ...]
    program: str
    main: str = ""

    def build(self, stranger: Stranger) -> Path:
        """Build it and return the program."""
        folder = stranger.folder
        if self.main:
            main = folder / self.main
            main.parent.mkdir(exist_ok=True)
            shutil.copy((_HERE / stranger.name).with_suffix(main.suffix), main)
        for command in self.commands:
            words = [one.format(version=stranger.version, folder=folder) for one in command.split()]
            run(["nice", "-n", "15", *words], timeout=_BUILD_SECONDS, cwd=folder).check()
        return folder / self.program


def _go_main(module: str) -> Source:
    get = f"go get {module}@v{{version}}"
    build = "go build -mod=mod -p=2 -o server ."
    commands = ("rm -f go.mod", "go mod init stranger", get, build)
    return Source(f"Go module `{module}`", commands, "server", "main.go")


def _crate_main(crate: str) -> Source:
    init = ("rm -f Cargo.toml", "cargo init --vcs=none --name=server")
    add = (f"cargo add {crate}@={{version}}", "cargo add tokio --features=full")
    commands = (*init, *add, "cargo build --release --jobs=2")
    return Source(f"crate `{crate}`", commands, "target/release/server", "src/main.rs")


def _crate_program(crate: str, profile: str = "release") -> Source:
    """Install its own program; `profile` is Cargo's: optimizing the larger ones takes too long."""
    what = f"cargo install {crate} --version={{version}} --locked --jobs=2"
    how = f"--profile={profile} --config=profile.dev.debug=0"
    where = "--root {folder} --target-dir {folder}/target"
    return Source(f"crate `{crate}`", (f"{what} {how} {where}",), f"bin/{crate}")


# --- how they are started ---


@dataclass(frozen=True)
class Stranger:
    """A server: where it is from, and its arguments, in which {words} are filled in.

    {address} is where it shall listen and {port} its port; {data} is a directory that is empty at
    first, and {state} one for what else it keeps. `files` are written into {state}.
    """

    name: str
    version: str
    source: Source
    arguments: tuple[str, ...]
    nfs: str = "3"
    export: str = "/"
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where it is built, which is made."""
        folder = _FOLDER / f"{self.name}-{self.version}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def program(self) -> Path:
        """Return the program, built unless that was done before."""
        link = self.folder / "program"
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(self.source.build(self))
        return link


class Running:
    """A server that runs, from an empty directory. A context manager, which ends it."""

    def __init__(self, stranger: Stranger, address: str, folder: Path):
        self._stranger, self._address, self._folder = stranger, address, folder
        self._words = {"address": address, "port": str(PORT)}
        for name in ("data", "state"):
            (folder / name).mkdir(parents=True)
            self._words[name] = str(folder / name)
        for name, text in stranger.files.items():
            (folder / "state" / name).write_text(self._filled(text))
        self._process = self._start()

    @property
    def pool(self) -> str:
        """The pool of its export."""
        one = self._stranger
        ports = f"nfsport={PORT}&mountport={PORT}&" if one.nfs == "3" else ""
        return f"nfs://{self._address}:{PORT}{one.export}?{ports}version={one.nfs}"

    def restart(self) -> None:
        """End it by SIGKILL and start it again, on the same files."""
        self._process.kill()
        self._process = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.end()

    def _filled(self, text: str) -> str:
        for word, value in self._words.items():
            text = text.replace(f"{{{word}}}", value)
        return text

    def _start(self) -> Process:
        argv = [str(self._stranger.program()), *map(self._filled, self._stranger.arguments)]
        with (self._folder / "log").open("ab") as log:
            process = Process(argv, cwd=self._folder, stdout=log, stderr=log)
        try:
            self._until_ready(process)
        except BaseException:
            process.end()
            raise
        return process

    def _until_ready(self, process: Process) -> None:
        until = time.monotonic() + _READY_SECONDS
        while process.running and time.monotonic() < until:
            try:
                socket.create_connection((self._address, PORT), _CONNECT_SECONDS).close()
                return
            except OSError:
                process.wait(_POLL)
        last = (self._folder / "log").read_text(errors="replace").strip().splitlines()[-3:]
        raise HarnessError("\n  ".join([f"{self._stranger.name} does not listen", *last]))


_ZEROFS = """[cache]
dir = "{state}/cache"
disk_size_gb = 1.0
[storage]
url = "file://{data}"
encryption_password = "not a secret"
[servers.nfs]
addresses = ["{address}:{port}"]
"""

STRANGERS = (
    Stranger(
        "go-nfs", "0.0.4", _go_main("github.com/willscott/go-nfs"), ("{data}", "{address}:{port}")
    ),
    Stranger(
        "rclone",
        "1.76.0",
        _go_main("github.com/rclone/rclone"),
        (
            *("serve", "nfs", "{data}", "--addr={address}:{port}", "--config="),
            *("--vfs-cache-mode=full", "--nfs-cache-type=disk", "--cache-dir={state}"),
        ),
    ),
    Stranger(
        "nfs3_server",
        "0.2.3",
        _crate_program("cargo-nfs3-server"),
        ("--path={data}", "--bind-ip={address}", "--bind-port={port}", "--log-level=warn"),
    ),
    Stranger("embednfs", "0.4.1", _crate_main("embednfs"), ("{address}:{port}",), nfs="4.1"),
    Stranger(
        "zerofs",
        "0.19.1",
        _crate_program("zerofs", profile="dev"),
        ("run", "--config={state}/zerofs.toml"),
        files={"zerofs.toml": _ZEROFS},
    ),
)
