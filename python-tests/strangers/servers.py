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
class GoMain:
    """A main program of ours that imports a Go module."""

    module: str

    def build(self, stranger: Stranger) -> Path:
        """Build it and return the program."""
        folder = stranger.folder
        shutil.copy(_HERE / f"{stranger.name}.go", folder / "main.go")
        (folder / "go.mod").unlink(missing_ok=True)
        _make(folder, "go", "mod", "init", "stranger")
        _make(folder, "go", "get", f"{self.module}@v{stranger.version}")
        _make(folder, "go", "build", "-mod=mod", "-p=2", "-o", "server", ".")
        return folder / "server"

    def __str__(self) -> str:
        return f"Go module `{self.module}`"


@dataclass(frozen=True)
class CrateMain:
    """A main program of ours that uses a crate and tokio."""

    crate: str

    def build(self, stranger: Stranger) -> Path:
        """Build it and return the program."""
        folder = stranger.folder
        if not (folder / "Cargo.toml").exists():
            _make(folder, "cargo", "init", "--vcs=none", "--name=server")
        shutil.copy(_HERE / f"{stranger.name}.rs", folder / "src" / "main.rs")
        _make(folder, "cargo", "add", f"{self.crate}@={stranger.version}")
        _make(folder, "cargo", "add", "tokio", "--features=full")
        _make(folder, "cargo", "build", "--release", "--jobs=2")
        return folder / "target" / "release" / "server"

    def __str__(self) -> str:
        return f"crate `{self.crate}`"


@dataclass(frozen=True)
class CrateProgram:
    """A crate's own program; `profile` is Cargo's: optimizing the larger ones takes too long."""

    crate: str
    profile: str = "release"

    def build(self, stranger: Stranger) -> Path:
        """Install it and return the program."""
        folder = stranger.folder
        made = ("--root", str(folder), "--target-dir", str(folder / "target"))
        what = (self.crate, f"--version={stranger.version}", "--locked")
        how = (f"--profile={self.profile}", "--config=profile.dev.debug=0", "--jobs=2")
        _make(folder, "cargo", "install", *what, *how, *made)
        return folder / "bin" / self.crate

    def __str__(self) -> str:
        return f"crate `{self.crate}`"


def _make(folder: Path, *argv: str) -> None:
    run(["nice", "-n", "15", *argv], timeout=_BUILD_SECONDS, cwd=folder).check()


# --- how they are started ---


@dataclass(frozen=True)
class Stranger:
    """A server: where it is from, and its arguments, in which {words} are filled in.

    {address} is where it shall listen and {port} its port; {data} is a directory that is empty at
    first, and {state} one for what else it keeps. `files` are written into {state}.
    """

    name: str
    version: str
    source: GoMain | CrateMain | CrateProgram
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
        "go-nfs", "0.0.4", GoMain("github.com/willscott/go-nfs"), ("{data}", "{address}:{port}")
    ),
    Stranger(
        "rclone",
        "1.76.0",
        GoMain("github.com/rclone/rclone"),
        (
            *("serve", "nfs", "{data}", "--addr={address}:{port}", "--config="),
            *("--vfs-cache-mode=full", "--nfs-cache-type=disk", "--cache-dir={state}"),
        ),
    ),
    Stranger(
        "nfs3_server",
        "0.2.3",
        CrateProgram("cargo-nfs3-server"),
        ("--path={data}", "--bind-ip={address}", "--bind-port={port}", "--log-level=warn"),
    ),
    Stranger("embednfs", "0.4.1", CrateMain("embednfs"), ("{address}:{port}",), nfs="4.1"),
    Stranger(
        "zerofs",
        "0.19.1",
        CrateProgram("zerofs", profile="dev"),
        ("run", "--config={state}/zerofs.toml"),
        files={"zerofs.toml": _ZEROFS},
    ),
)
