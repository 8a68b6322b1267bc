# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's NFS server in the guest: what its export takes, and its programs."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from nfsmulti.daemon import Daemon
from nfsmulti.errors import HarnessError
from nfsmulti.lab.guest import ADDRESSES, EXPORT, EXPORT_OPTIONS, Mount
from nfsmulti.processes import last_words, run

NFSD = Path("/proc/fs/nfsd")
_SECONDS = 60.0


_exported = ["sec=sys"]


@contextlib.contextmanager
def exported(options: str) -> Iterator[None]:
    """Add exports(5)'s `options` to the export's own; those before come back at the end."""
    _exported.append(options)
    try:
        _export()
        yield
    finally:
        _exported.pop()
        _export()


def _export() -> None:
    words = ["exportfs", "-o", f"{EXPORT_OPTIONS},{_exported[-1]}", f"*:{EXPORT}"]
    run(words, timeout=_SECONDS).check()


class Program(Daemon):
    """A program that the kernel's NFS needs beside it; what it says is in NAME.log in `folder`.

    It is up when `serves` says so of its process id.
    """

    def __init__(
        self,
        argv: Sequence[str],
        serves: Callable[[int], bool],
        folder: Path,
        env: Mapping[str, str] | None = None,
    ):
        super().__init__(
            f"the guest's {argv[0]}",
            argv,
            folder / f"{argv[0]}.log",
            lambda: serves(self.pid or 0),
            env=env,
        )

    def mount(self, folder: Path, *options: str) -> None:
        """Make the folder, and mount the export there, by the last address, with its help.

        Raises HarnessError where that does not come up, with what both have said.
        """
        folder.mkdir()
        words = Mount(str(folder), options, ADDRESSES[-1]).command
        said = ""

        def mounts() -> bool:
            nonlocal said
            done = run(words, timeout=_SECONDS)
            said = last_words(done.stderr, words[0])
            return done.status == 0

        assert self.process
        if not self.process.comes_up(mounts, _SECONDS):
            said = f"{said}; {last_words(self.said(), self._argv[0])}"
            raise HarnessError(f"the guest's kernel does not mount with {options[-1]}; {said}")
