# SPDX-License-Identifier: GPL-2.0-only
"""The kernel lab: Debian's own kernel under QEMU, with an RDMA device and the kernel's NFS server.

It shows what a machine without these cannot: kernel mounts over TCP and RDMA, and a server that
speaks both. The guest sees the machine's whole file system and can change nothing of it.
"""

from nfsmulti.lab.kernel.guest import ADDRESSES, EXPORT, GuestConfig, Mount, inside, run_in_guest

__all__ = ["ADDRESSES", "EXPORT", "GuestConfig", "Mount", "inside", "run_in_guest"]
