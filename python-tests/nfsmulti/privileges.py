# SPDX-License-Identifier: GPL-2.0-only
"""Whether this process may make a lab."""

from __future__ import annotations

import functools
from pathlib import Path

from nfsmulti.processes import run

SCRIPT = Path(__file__).with_suffix(".sh")
_SECONDS = 60.0


@functools.cache
def missing() -> str | None:
    """Name what a lab needs and this process is not permitted; None where it may make one.

    "not root", "root of a user namespace alone", "no CAP_SYS_ADMIN" (or CAP_NET_ADMIN, or both), or
    "no namespaces" with the kernel's reason. Nothing is left behind.
    """
    return run(["sh", str(SCRIPT)], timeout=_SECONDS).check().stdout.strip() or None
