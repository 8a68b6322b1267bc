# SPDX-License-Identifier: GPL-2.0-only
"""What of a lab this process may make."""

from __future__ import annotations

import functools
from pathlib import Path

from nfsmulti.processes import run

SCRIPT = Path(__file__).with_suffix(".sh")
NAMESPACES = Path(__file__).with_name("namespaces.sh")
ALONE = "root of a user namespace alone"
_SECONDS = 60.0


@functools.cache
def missing() -> str | None:
    """Name what a whole lab needs and this process is not permitted; None where it may make one.

    "not root", "no CAP_SYS_ADMIN" (or CAP_NET_ADMIN, or both), "no namespaces" with the kernel's
    reason, or ALONE: it may make namespaces, but not export files. Nothing is left behind.
    """
    return run(["sh", str(SCRIPT)], timeout=_SECONDS).check().stdout.strip() or None


def namespaces() -> bool:
    """Whether this process may make network namespaces, and limit rates there."""
    return missing() in (None, ALONE)
