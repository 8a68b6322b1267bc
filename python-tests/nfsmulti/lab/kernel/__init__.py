# SPDX-License-Identifier: GPL-2.0-only
"""The kernel lab: a guest with an RDMA device and the kernel's NFS server.

It shows what a machine without these cannot: kernel mounts over TCP and RDMA, and a server that
speaks both. The guest sees the machine's whole file system and can change nothing of it. Its kernel
is Debian's own under QEMU, or Debian's user-mode kernel, which has no RDMA.
"""

from nfsmulti.lab.kernel.guest import (
    ADDRESSES,
    EXPORT,
    GuestConfig,
    Mount,
    described,
    inside,
    run_in_guest,
)
from nfsmulti.lab.kernel.machine import Kind

__all__ = [
    "ADDRESSES",
    "EXPORT",
    "GuestConfig",
    "Kind",
    "Mount",
    "described",
    "inside",
    "run_in_guest",
]
