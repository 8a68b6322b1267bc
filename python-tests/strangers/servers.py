# SPDX-License-Identifier: GPL-2.0-only
"""NFS servers of package registries: how each is built and started."""

import socket
from dataclasses import dataclass
from pathlib import Path

from nfsmulti.daemon import Daemon
from nfsmulti.paths import BUILD
from nfsmulti.processes import run

PORT = 22049
_HERE = Path(__file__).parent
_BUILD_SECONDS = 7200.0
_CONNECT_SECONDS = 1.0

# What makes ./program, by sh: $V is the version, $MAIN a main program of ours, beside this file.
_GO = """cp "$MAIN.go" main.go; rm -f go.mod; go mod init stranger
go get {0}@v$V; go build -mod=mod -p=2 -o program ."""
_CRATE = """rm -f Cargo.toml; cargo init --vcs=none --name=server; cp "$MAIN.rs" src/main.rs
cargo add {0}@=$V; cargo add tokio --features=full; cargo build --release --jobs=2
ln -f target/release/server program"""
_PROGRAM = """cargo install {0} --version=$V --locked --jobs=2 --root=. --target-dir=target \
--profile={1} --config=profile.dev.debug=0; ln -f bin/{0} program"""


@dataclass(frozen=True)
class Stranger:
    """A server: where it is from, and its arguments, in which {words} are filled in.

    {address} is where it shall listen and {port} its port; {data} is a directory that is empty at
    first, and {state} one for what else it keeps, with `config` as its config.toml.
    """

    name: str
    version: str
    source: str
    build: str
    arguments: str
    nfs: str = "3"
    config: str = ""

    def program(self) -> Path:
        """Return the program, built unless that was done before."""
        folder = BUILD / "strangers" / f"{self.name}-{self.version}"
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "program").exists():
            argv = ["nice", "-n", "15", "sh", "-ec", self.build]
            env = {"V": self.version, "MAIN": str(_HERE / self.name)}
            run(argv, timeout=_BUILD_SECONDS, cwd=folder, env=env).check()
        return folder / "program"


class Running(Daemon):
    """A server at an address of this machine, on an empty directory in `folder`."""

    def __init__(self, stranger: Stranger, address: str, folder: Path):
        data, state = folder / "data", folder / "state"
        for made in (data, state):
            made.mkdir(parents=True)
        words = {"address": address, "port": PORT, "data": data, "state": state}
        (state / "config.toml").write_text(stranger.config.format_map(words))
        arguments = [word.format_map(words) for word in stranger.arguments.split()]
        self._end = (address, PORT)
        ports = f"nfsport={PORT}&mountport={PORT}&" if stranger.nfs == "3" else ""
        self.pool = f"nfs://{address}:{PORT}/?{ports}version={stranger.nfs}"
        argv = [str(stranger.program()), *arguments]
        super().__init__(stranger.name, argv, folder / "log", self._listens, cwd=folder)

    def _listens(self) -> bool:
        try:
            socket.create_connection(self._end, _CONNECT_SECONDS).close()
        except OSError:
            return False
        return True


_ZEROFS = """[cache]
dir = "{state}/cache"
disk_size_gb = 1.0
[storage]
url = "file://{data}"
encryption_password = "not a secret"
[servers.nfs]
addresses = ["{address}:{port}"]
"""


def _go(name: str, version: str, module: str, arguments: str) -> Stranger:
    return Stranger(name, version, f"Go module `{module}`", _GO.format(module), arguments)


STRANGERS = (
    _go("go-nfs", "0.0.4", "github.com/willscott/go-nfs", "{data} {address}:{port}"),
    _go(
        "rclone",
        "1.76.0",
        "github.com/rclone/rclone",
        "serve nfs {data} --addr={address}:{port} --config= --vfs-cache-mode=full"
        " --nfs-cache-type=disk --cache-dir={state}",
    ),
    Stranger(
        "nfs3_server",
        "0.2.3",
        "crate `cargo-nfs3-server`",
        _PROGRAM.format("cargo-nfs3-server", "release"),
        "--path={data} --bind-ip={address} --bind-port={port} --log-level=warn",
    ),
    Stranger(
        "embednfs",
        "0.4.1",
        "crate `embednfs`",
        _CRATE.format("embednfs"),
        "{address}:{port}",
        nfs="4.1",
    ),
    Stranger(  # optimizing it takes too long
        "zerofs",
        "0.19.1",
        "crate `zerofs`",
        _PROGRAM.format("zerofs", "dev"),
        "run --config={state}/config.toml",
        config=_ZEROFS,
    ),
)
