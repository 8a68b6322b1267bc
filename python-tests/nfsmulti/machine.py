# SPDX-License-Identifier: GPL-2.0-only
"""What this machine has, on which a figure may depend, and what of a lab it permits.

And what a doctor finds of it: fio and engine, limits, RDMA devices, and the way to a server, which
is what TCP's buffers must hold for its round trip, and what the links carry.
"""

import contextlib
import functools
import json
import os
import platform
import re
import resource
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from nfsmulti.errors import MissingError
from nfsmulti.paths import build_dir, shown
from nfsmulti.processes import find, run
from nfsmulti.texts import rate_text

_SECONDS = 60.0

PRIVILEGES = Path(__file__).with_name("privileges.sh")
ALONE = "root of a user namespace alone"


def versions() -> dict[str, str]:
    """Return the version of each component by name; "not installed" where it is missing."""
    library, system = build_dir() / "libnfsmulti.so", platform.system()
    with contextlib.suppress(OSError):
        system = platform.freedesktop_os_release().get("PRETTY_NAME", system)
    libnfs = _said(["ldd", str(library)], r"libnfs\.so\S* => (not found|.+(?= \())")
    return {
        "system": system,
        "kernel": platform.release(),
        "processors": f"{os.cpu_count()} x {platform.machine()}",
        "fio": _said(["fio", "--version"], r"(fio-\S+)"),
        "nfsmulti": engine_version(),
        "engine": shown(library) if library.exists() else "not built",
        # Its file's name has the version: "libnfs.so.14.0.0".
        "libnfs": Path(libnfs).resolve().name if libnfs[0] == "/" else libnfs,
        "nfs-ganesha": _said(["ganesha.nfsd", "-v"], r"Release\s*=\s*V?(\S+)"),
        "python": platform.python_version(),
    }


def processor() -> str:
    """Name the model of this machine's processor; "unknown" where the kernel does not."""
    told = Path("/proc/cpuinfo").read_text(errors="replace")
    found = re.search(r"^model name\s*:\s*(.*)", told, re.MULTILINE)
    return found[1] if found else "unknown"


def memory() -> int:
    """Return the bytes of this machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def engine_version() -> str:
    """Return the version of the engine in the build folder."""
    return _said([str(build_dir() / "nfsmulti-pool"), "--version"], r"nfsmulti (\S+)")


def _said(argv: list[str], pattern: str) -> str:
    try:
        argv = [find(argv[0]), *argv[1:]]
    except MissingError:
        return "not installed"
    done = run(argv, timeout=_SECONDS)
    match = re.search(pattern, done.stdout + done.stderr)
    return match[1] if match else "unknown"


@functools.cache
def missing_privileges() -> str | None:
    """Name what a whole lab needs and this process is not permitted; None where it may make one.

    "not root", "no CAP_SYS_ADMIN" (or CAP_NET_ADMIN, or both), "no namespaces" with the kernel's
    reason, or ALONE: it may make namespaces, but not export files. Nothing is left behind.
    """
    return run(["sh", str(PRIVILEGES)], timeout=_SECONDS).check().stdout.strip() or None


def may_make_namespaces() -> bool:
    """Whether this process may make network namespaces, and limit rates there."""
    return missing_privileges() in (None, ALONE)


# --- findings ---


class Level(StrEnum):
    """How bad it is: `warn` costs speed or some jobs, `fail` stops every job."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """What was found, and what to do about it where something is to be done."""

    level: Level
    what: str
    remedy: str | None = None


ok, warn, fail = (functools.partial(Finding, level) for level in Level)

_FILES_WANTED = 1024


def findings(*, rdma_wanted: bool) -> Iterator[Finding]:
    """Check what jobs need of this machine; `rdma_wanted` where the pool has RDMA paths."""
    yield _fio_and_engine()
    yield _files()
    yield from rdma_devices(wanted=rdma_wanted)


def _fio_and_engine() -> Finding:
    try:
        fio = find("fio")
    except MissingError as error:
        return fail(error.what, error.remedy or "")
    version = run([fio, "--version"], timeout=_SECONDS).stdout.strip()
    library = build_dir() / "libnfsmulti.so"
    if not library.exists():
        return fail(f"{version} is there, the engine is not built", "./nfsmulti build")
    # fio splits what follows --enghelp= at commas, so the name should be short.
    help_text = run([fio, f"--enghelp=./{library.name}"], timeout=_SECONDS, cwd=library.parent)
    if help_text.status == 0 and "pool" in help_text.stdout:
        return ok(
            f"{version} loads {shown(library)}; with fio --client, which drops it from the command"
            " line, ioengine= belongs in the job file"
        )
    said = (help_text.stderr + help_text.stdout).strip().splitlines()
    reason = said[0] if said else f"status {help_text.status}"
    return fail(f"{version} does not load {shown(library)}: {reason}", "./nfsmulti build")


def _files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    what = f"{soft} open files are allowed, each connection takes one"
    if soft >= _FILES_WANTED:
        return ok(what)
    if hard >= _FILES_WANTED or hard == resource.RLIM_INFINITY:
        return warn(what, f"ulimit -n {_FILES_WANTED}")
    return warn(what, "raise 'nofile' in /etc/security/limits.conf")


# --- RDMA ---


def rdma_devices(*, wanted: bool) -> Iterator[Finding]:
    """Look at the RDMA devices; `wanted` where the pool has RDMA paths."""
    if not (build_dir() / "nfsmulti-rdma").exists():
        what = "the engine was built without RDMA"
        remedy = "apt-get install libibverbs-dev librdmacm-dev; ./nfsmulti build"
        yield fail(f"the pool has proto=rdma, and {what}", remedy) if wanted else ok(what)
        return
    ports = sorted(Path("/sys/class/infiniband").glob("*/ports/*"))
    if ports and not list(Path("/dev/infiniband").glob("uverbs*")):
        yield warn("RDMA devices cannot be used from user space", "modprobe ib_uverbs rdma_ucm")
    elif not ports and wanted:
        yield fail(
            "the pool has proto=rdma, and this machine has no RDMA device",
            "load the adapter's driver (rdma link), or try rdma_rxe: "
            "rdma link add rxe0 type rxe netdev DEVICE",
        )
    elif not ports:
        yield ok("no RDMA device: paths with proto=tcp work")
    for port in ports:
        state = (port / "state").read_text().partition(": ")[2].strip()  # "4: ACTIVE"
        name, link = port.parent.parent.name, (port / "link_layer").read_text().strip()
        what = f"RDMA device {name} port {port.name}: {state}, {link}"
        up = f"bring its link up: rdma link show {name}/{port.name}"
        yield ok(what) if state == "ACTIVE" else warn(what, up)
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if ports and locked != resource.RLIM_INFINITY:
        yield warn(
            f"{locked >> 10} KiB may be locked, and RDMA locks all I/O buffers",
            "ulimit -l unlimited",
        )


# --- TCP buffers and links ---


_ASSUMED_BITS = 10 * 10**9
_SYSCTL = Path("/proc/sys/net/ipv4")


def buffers(round_trips: Mapping[str, float]) -> Iterator[Finding]:
    """Compare the buffers with rate times round trip (seconds), where most is under way.

    `round_trips` has them by the server's address.
    """
    if not round_trips:
        return
    needed, flight = max(_in_flight(*one) for one in round_trips.items())
    limits = {
        name: int((_SYSCTL / name).read_text().split()[2]) for name in ("tcp_rmem", "tcp_wmem")
    }
    small = {name: limit for name, limit in limits.items() if limit < needed}
    if not small:
        sizes = " and ".join(f"{limit >> 10} KiB" for limit in limits.values())
        yield ok(f"TCP buffers grow to {sizes}, enough for {flight}")
    for name, limit in small.items():
        text = " ".join((_SYSCTL / name).read_text().split()[:2])
        yield warn(
            f"net.ipv4.{name} allows at most {limit >> 10} KiB, too small for {flight}",
            f"sysctl -w net.ipv4.{name}='{text} {needed}'",
        )


def _in_flight(address: str, round_trip: float) -> tuple[int, str]:
    """Return the bytes that a buffer must hold towards an address, and why in words."""
    found = device(address)
    rate, source = (found[1], f" ({found[0]})") if found else (_ASSUMED_BITS, " (assumed)")
    needed = 2 * int(rate / 8 * round_trip)  # the kernel counts its own overhead in
    return needed, f"{rate_text(rate)}{source} x {round_trip * 1e3:.2g} ms round trip to {address}"


def device(address: str) -> tuple[str, int] | None:
    """Find the device that leads to an address, and its rate in bit/s; None where it tells none."""
    route = run(["ip", "-json", "route", "get", address], timeout=_SECONDS)
    try:
        name = json.loads(route.stdout)[0]["dev"]
        mbits = int(Path(f"/sys/class/net/{name}/speed").read_text())
    except (ValueError, LookupError, OSError):
        return None
    return (name, mbits * 10**6) if mbits > 0 else None


def links(addresses: Iterable[str]) -> dict[str, int]:
    """Return the devices that lead to addresses, with their rates; none where one is not known."""
    found = [device(address) for address in addresses]
    return dict(filter(None, found)) if all(found) else {}


def capacity(addresses: Iterable[str]) -> Iterator[Finding]:
    """Tell what the links to all servers carry at most, or that their rates are not known."""
    found = list(addresses)
    if rates := links(found):
        names = " and ".join(f"{name}: {rate_text(rate)}" for name, rate in rates.items())
        yield ok(
            f"the links to the servers ({names}) carry {sum(rates.values()) / 8e6:,.0f} MB/s at"
            " most; ./nfsmulti run connections finds what limits throughput before that: where a"
            " core is full and reads have 32 KiB or more, discard=1 spares it the copying"
        )
    elif found:
        yield ok(
            "link speed unknown (virtual or loopback interface); ./nfsmulti run connections finds"
            " what limits throughput"
        )
