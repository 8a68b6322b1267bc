# SPDX-License-Identifier: GPL-2.0-only
"""Packages of Debian 13, on an older Debian, too: unpacked into a folder, and not installed.

apt has lists, a cache and sources of its own there, and fetches from where this machine's Debian
comes from; it checks all by Debian's keys. What programs need is unpacked beside them, from the C
library up.
"""

from __future__ import annotations

import platform
import string
from collections.abc import Sequence
from pathlib import Path

from nfsmulti.processes import CommandError, run

_SUITE = "trixie"
_SECONDS = 120.0
_FETCH_SECONDS = 900.0

# Read after the machine's own settings, of which it keeps proxies, but not the hooks that touch the
# system. Nothing is installed there, so that all that a package needs is fetched.
_SETTINGS = string.Template("""\
Dir "$folder";
Dir::State::Status "$folder/var/lib/dpkg/status";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
APT::Install-Recommends "false";
APT::Update::Error-Mode "any";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
""")
_SOURCE = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {uri} {suite} main\n"

# Runs a program by the C library that it was made for.
_RUN = """\
#!/bin/sh
tree=${{0%/*}}/..
libraries=$tree/usr/lib/x86_64-linux-gnu
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$tree/{program}" "$@"
"""


def download(packages: Sequence[str], folder: Path) -> None:
    """Download packages, and all that they need, to somewhere below a folder.

    CommandError where apt cannot, or where this machine's own lists name no Debian.
    """
    source = _SOURCE.format(uri=_uri(), suite=_SUITE)
    for name in ("etc/apt", "var/lib/dpkg", "var/lib/apt/lists", "var/cache/apt/archives"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "var/lib/dpkg/status").touch()
    (folder / "etc/apt/sources.list").write_text(source)
    settings = folder / "apt.conf"
    settings.write_text(_SETTINGS.substitute(folder=folder))
    apt = ["apt-get", "-c", str(settings)]
    for words in (["update"], ["install", "--yes", "--download-only", *packages]):
        run([*apt, *words], timeout=_FETCH_SECONDS, cwd=folder).check()


def _uri() -> str:
    """Return where this machine's Debian comes from."""
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    which = ["Created-By: Packages", "Origin: Debian", f"Codename: {codename}", "Component: main"]
    argv = ["apt-get", "indextargets", "--format", "$(REPO_URI)", *which]
    found = run(argv, timeout=_SECONDS).check().stdout.split()
    if not found:
        raise CommandError("apt has no lists of this machine's Debian; apt-get update may help")
    return found[0]


def make_runnable(programs: Sequence[str], folder: Path) -> None:
    """Make a folder in an unpacked tree, from which programs of it run on this machine's root."""
    folder.mkdir()
    for program in programs:
        file = folder / Path(program).name
        file.write_text(_RUN.format(program=program))
        file.chmod(0o755)
