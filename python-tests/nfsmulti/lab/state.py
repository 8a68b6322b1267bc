# SPDX-License-Identifier: GPL-2.0-only
"""What each lab has made, written down before it is made, so that a later start can remove it."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.lab.network import Network
from nfsmulti.paths import LABS, write_json
from nfsmulti.processes import Identity, locked

_FILE = "state.json"
_PORT_LOCK = Path("/run/nfsmulti-ports.lock")


@dataclass
class LabState:
    """One lab: `owner` is the harness process that holds it, `processes` its servers by name.

    `pools` maps a pool's name to its text, `volumes` a file system's name to its folder as the
    machine sees it, `enter` are the words before a client's command. `held` tells the labs of
    ./nfsmulti lab start, which anyone may stop, from those that belong to a running command.
    """

    id: str
    owner: Identity
    processes: dict[str, Identity] = field(default_factory=dict)
    pools: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)
    enter: list[str] = field(default_factory=list)
    ready: bool = False
    held: bool = False

    @property
    def folder(self) -> Path:
        """Where the lab keeps its files."""
        return LABS / self.id

    @property
    def environment(self) -> dict[str, str]:
        """The variables that commands of this lab find: POOL, and NFSMULTI_POOLS with all pools."""
        pools = " ".join(f"{name}:{pool}" for name, pool in self.pools.items())
        return {"POOL": self.pools["lab"], "NFSMULTI_POOLS": pools}

    def entrance(self) -> list[str]:
        """Give the words before a client's command where this process is: `enter`, or further.

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
    def read(cls, folder: Path) -> LabState | None:
        """Read the state of the lab in `folder`; None where there is none (any more)."""
        try:
            values = json.loads((folder / _FILE).read_text())
            values["owner"] = Identity(**values["owner"])
            values["processes"] = {
                name: Identity(**process) for name, process in values["processes"].items()
            }
            return cls(**values)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise HarnessError(
                f"{folder / _FILE} cannot be read: {error}", "delete that folder"
            ) from None

    def remove(self) -> None:
        """Remove what the lab left; its processes only where they are still the same ones."""
        for process in self.processes.values():
            process.kill()
        Network(self.id).remove()
        shutil.rmtree(self.folder, ignore_errors=True)


def live() -> list[LabState]:
    """Give the labs whose owner runs."""
    return [state for state in _all() if state.owner.alive()]


def remove_leftovers() -> list[str]:
    """Remove the labs whose owner is gone; gives their ids."""
    leftovers = [state for state in _all() if not state.owner.alive()]
    for state in leftovers:
        state.remove()
    return [state.id for state in leftovers]


def lock() -> AbstractContextManager[None]:
    """Keep other harnesses of this checkout from creating or removing labs meanwhile."""
    LABS.mkdir(parents=True, exist_ok=True)
    return locked(LABS / ".lock")


def port_lock() -> AbstractContextManager[None]:
    """Keep other harnesses of this machine from choosing ports meanwhile.

    Who may not write to /run keeps off those of this checkout.
    """
    return locked(_PORT_LOCK if os.access(_PORT_LOCK.parent, os.W_OK) else LABS / ".ports.lock")


def _all() -> list[LabState]:
    if not LABS.is_dir():
        return []
    states = [LabState.read(folder) for folder in sorted(LABS.iterdir()) if folder.is_dir()]
    return [state for state in states if state is not None]
