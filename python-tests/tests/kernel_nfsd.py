# SPDX-License-Identifier: GPL-2.0-only
"""Restarts of the kernel's NFS server in the guest, and of what is between it and its clients."""

import errno

from nfsmulti.lab.guest import ADDRESS6, ADDRESSES
from nfsmulti.lab.kernel_server import NFSD
from nfsmulti.processes import run

_SECONDS = 60.0
_THREADS, _PORTS, _GRACE = NFSD / "threads", NFSD / "portlist", NFSD / "v4_end_grace"
_RDMA = "rdma 20049"


def stop() -> int:
    """Stop the server: all connections end, and what was not committed is as good as lost.

    Return how many threads it had.
    """
    threads = int(_THREADS.read_text())
    run(["rpc.nfsd", "0"], timeout=_SECONDS).check()
    return threads


def start(threads: int = 8) -> None:
    """Start it as the guest's boot does, if it does not run. A grace period begins."""
    run(["rpc.nfsd", str(threads)], timeout=_SECONDS).check()
    if _RDMA not in _PORTS.read_text().splitlines():
        _PORTS.write_text(_RDMA)


def end_grace() -> None:
    """End its grace period, if there is one: kernels differ in what they say then."""
    try:
        _GRACE.write_text("Y")
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise


_DEVICE = "dummy0"
DELETE_DEVICE = ["rdma", "link", "delete", "rxe0"]


def set_address(how: str, address: str, *more: str) -> None:
    words = ["ip", "address", how, address, "dev", _DEVICE, *more]
    run(words, timeout=_SECONDS).check()


def mend() -> None:
    """See to it that addresses, device and server are as they were.

    The device is made anew: what is sent while an address is removed may break it for good.
    """
    for address in ADDRESSES:
        set_address("replace", f"{address}/24")
    set_address("replace", f"{ADDRESS6}/64", "nodad")
    run(DELETE_DEVICE, timeout=_SECONDS)
    run(["rdma", "link", "add", "rxe0", "type", "rxe", "netdev", _DEVICE], timeout=_SECONDS).check()
    start()
    end_grace()  # NFSv4's tests after it would wait a minute
