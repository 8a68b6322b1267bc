# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti doctor: what stands in the way on this machine, and on the servers of a pool.

Servers are asked by the engine's own client, the same over NFSv3, NFSv4.1 and mounts: what it
cannot use, no job could. Beside that a port is tried, which tells how far away a server is, and a
hung one from a firewall; and RDMA's port, since names go by TCP.
"""

import contextlib
import errno
import json
import secrets
import socket
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nfsmulti import export, machine
from nfsmulti.errors import HarnessError
from nfsmulti.export import PathInfo
from nfsmulti.machine import Finding, Level, buffers, fail, ok, warn
from nfsmulti.paths import as_typed
from nfsmulti.pool import PoolPath, ask_rdma, read_pool
from nfsmulti.report.cells import DISTURBED
from nfsmulti.run.place import asked, split_pool
from nfsmulti.run.watch import others_busy, processors
from nfsmulti.scenario import OWN, CellSpec
from nfsmulti.terminal import Lines
from nfsmulti.texts import counted

_NFS_PORT = 2049
# Of what is asked for, beside what the pool says: a server may be silent to what it does not know.
_PATIENCE = "soft&timeo=100&retrans=0"
_NO_TLS = "the server offers no TLS"
_IS_IT_UP = "is the server up"  # of MOUNT's port, of which the engine itself says what to look at
_CONNECT_SECONDS = 5.0
_CONNECTIONS, _LOOKS = 5, 3  # measured for one verdict: of a server's distance, of a busy machine
_MIN_RTT = slice(148, 152)  # tcpi_min_rtt in µs (linux/tcp.h)
_SMALL_TRANSFER = 32768
_LITTLE_ROOM = 4 << 30  # bytes: runs lay out files of up to 2 GiB

_UNCHECKED = "not checked: whether all paths lead to the same files"
_OTHER_FLAVOR = (
    "name one that it takes by sec= in the path (security= of a job), or let the export take this"
    " one, too (sec= of exports(5), SecType of nfs-ganesha)"
)

_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


def doctor(pool: str | None, *, as_json: bool) -> None:
    """Print every finding with its remedy."""
    out = Lines()
    findings: list[Finding] = []
    for found in _findings(pool):
        remedy = found.remedy and as_typed(found.remedy)
        finding = Finding(found.level, as_typed(found.what), remedy)
        findings.append(finding)
        if not as_json:
            out.print(f"{finding.level:4}  ", style=_STYLES[finding.level], end="")
            out.print(finding.what)
            if finding.remedy:
                out.print(f"      → {finding.remedy}")
    if as_json:
        print(json.dumps([vars(finding) for finding in findings], indent="\t"))
    else:
        levels = Counter(finding.level for finding in findings)
        words = {Level.WARN: "warning", Level.FAIL: "failure"}
        counts = [counted(levels[one], word) for one, word in words.items() if levels[one]]
        out.print(f"\n{', '.join(counts) or 'nothing stands in the way'}")
    sys.exit(any(finding.level is Level.FAIL for finding in findings))


def _findings(pool: str | None) -> Iterator[Finding]:
    paths: list[PoolPath] = []
    trouble: HarnessError | None = None
    if pool is not None:
        try:
            paths = read_pool(pool)
        except HarnessError as error:
            trouble = error
    busy = _busy()
    what = f"{processors()} processors, {busy:.0%} busy now"
    idle = "measure when the machine is idle: what else runs takes from each figure"
    yield ok(what) if busy < DISTURBED else warn(what, idle)
    yield from machine.findings(rdma_wanted=any(path.rdma for path in paths))
    if trouble:
        yield _no_pool(trouble)
    if pool is not None and paths:
        yield from _servers(pool, paths, busy)
    yield from machine.capacity(path.address for path in paths if path.address)


def _no_pool(error: HarnessError) -> Finding:
    """Say why a pool cannot be read, or asked."""
    return fail(f"--pool: {error.what}", error.remedy or "")


def _busy() -> float:
    """Return the part of the processors' time that others work: several looks in a row, or none."""
    for _ in range(_LOOKS):
        if (busy := others_busy()) < DISTURBED:
            break
    return busy


# --- the paths of a pool ---


def _servers(pool: str, paths: Sequence[PoolPath], busy: float) -> Iterator[Finding]:
    """Check each path, then whether files can be made, and all lead to the same ones.

    `busy` is the part of the processors' time that others worked when the doctor began.
    """
    try:
        offers = export.info(pool)
    except HarnessError as error:
        yield _no_pool(error)
        return
    round_trips: dict[str, float] = {}
    of_paths: list[Finding] = []
    for path, url, offer in zip(paths, split_pool(pool), offers, strict=True):
        if path.dir is None and (seconds := _round_trip(path)) is not None:
            round_trips[path.address] = seconds
        if offer.error:
            found = unusable(path, offer, reached=path.address in round_trips)
            of_paths.append(fail(found.what, found.remedy or ""))
        else:
            of_paths += _offer(path, offer)
            of_paths += _other_version(path, url)
        of_paths += _security(path, url, offer)
        if path.rdma:
            of_paths += rdma(path)
    yield from joined(of_paths, [path.label for path in paths])
    yield from _buffers(round_trips, busy)
    if not any(offer.error for offer in offers):
        yield from _files(pool, paths)
    elif len(offers) > 1:
        what = f"{_UNCHECKED}, and may be written to"
        yield warn(what, "mend the paths that cannot be used first")


def joined(findings: Iterable[Finding], labels: Sequence[str]) -> Iterator[Finding]:
    """Yield each finding once; one that several paths share names them all."""
    alike: dict[tuple[Level, str, str | None], list[str]] = {}
    for one in findings:
        label = next((label for label in labels if one.what.startswith(f"{label}: ")), "")
        said = one.what.removeprefix(f"{label}: ")
        alike.setdefault((one.level, said, one.remedy), []).append(label)
    for (level, said, remedy), having in alike.items():
        where = f"all {len(labels)} paths" if len(having) == len(labels) > 1 else ", ".join(having)
        yield Finding(level, f"{where}: {said}" if where else said, remedy)


def _with(url: str, words: str) -> PathInfo:
    """Ask a path with other arguments."""
    (found,) = export.info(asked(url, CellSpec({}, OWN, "", {}, 0, query=f"{words}&{_PATIENCE}")))
    return found


def _other_version(path: PoolPath, url: str) -> Iterator[Finding]:
    """Tell whether the path works by the other version of NFS as well, in clear alone."""
    if path.dir is not None or path.rdma or path.xprtsec != "none":
        return
    name, option = ("NFSv3", "version=3") if path.minor else ("NFSv4.1", "version=4.1")
    found = _with(url, option)
    said = f"also offers {name} ({option})"
    if found.errno == errno.EPROTONOSUPPORT:
        said = f"does not offer {name}"
    elif found.error:
        said = f"does not serve this path by {name} ({option}): {found.error}"
    yield ok(f"{path.label}: the server {said}")


def _offer(path: PoolPath, offer: PathInfo) -> Iterator[Finding]:
    """Tell what the engine's client found on a path."""
    label = path.label
    if path.dir is None:
        yield _transfers(offer)
    if offer.may_write is False:
        yield warn(
            f"{label}: the server says that uid {path.uid} gid {path.gid} may not write there",
            _PERMISSIONS,
        )
    yield _room(offer)


def _security(path: PoolPath, url: str, offer: PathInfo) -> Iterator[Finding]:
    """Tell which security an export takes, and whether the path's is among it."""
    taken = " ".join(offer.flavors)
    if _lacks_own(path, offer):
        what = f"{path.label}: takes {taken}, not the pool's {path.sec}{_tls(path, url, offer)}"
        yield fail(what, _OTHER_FLAVOR)
    elif taken:
        yield ok(f"{path.label}: takes {taken}{_tls(path, url, offer)}")
    elif offer.flavors_error not in ("", offer.error):
        untold = f"which security flavors it takes was not told ({offer.flavors_error})"
        yield ok(f"{path.label}: {untold}{_tls(path, url, offer)}")


def _lacks_own(path: PoolPath, offer: PathInfo) -> bool:
    """Whether an export does not take the flavor of its path; AUTH_NONE stands for any."""
    return bool(offer.flavors) and not {path.sec, "none"} & set(offer.flavors)


def _tls(path: PoolPath, url: str, offer: PathInfo) -> str:
    """Tell whether calls go over TLS, or could."""
    if path.rdma:
        return ""
    if path.xprtsec != "none":
        return f", over TLS (xprtsec={path.xprtsec})"
    found = _with(url, "xprtsec=tls")
    if _NO_TLS in found.error:
        return "; no TLS"
    if found.error in ("", offer.error):  # what fails in clear fails behind TLS, too
        return ", and TLS (xprtsec=tls)"
    return f"; TLS (xprtsec=tls) does not work: {found.error}"


def _round_trip(path: PoolPath) -> float | None:
    """Return the seconds to a path's server and back; None where it does not connect.

    The least that the kernel measured over several connections, to which it does not matter when
    this process gets a processor; 2^32 µs where it measured nothing.
    """
    found: list[float] = []
    end = path.address, path.port or _NFS_PORT
    with contextlib.suppress(OSError):
        for _ in range(_CONNECTIONS):
            with socket.create_connection(end, _CONNECT_SECONDS) as connection:
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _MIN_RTT.stop)
                found.append(int.from_bytes(info[_MIN_RTT], sys.byteorder) / 1e6)
    return min(found, default=None)


def _buffers(round_trips: Mapping[str, float], busy: float) -> Iterator[Finding]:
    """Judge the buffers; not for the worse on a busy machine, where each round trip is too long."""
    measured = {one: took for one, took in round_trips.items() if took <= _CONNECT_SECONDS}
    found = list(buffers(measured))
    if any(one.remedy for one in found) and max(busy, others_busy()) >= DISTURBED:
        yield ok("TCP buffers: not judged: the machine is busy")
    else:
        yield from found


def usable(pool: str) -> list[PathInfo]:
    """Ask each path of a pool, as export.info() does.

    Raises HarnessError, with the doctor's remedy, for the first that cannot be used.
    """
    offers = export.info(pool)
    for path, offer in zip(read_pool(pool), offers, strict=True):
        if offer.error:
            reached = path.dir is None and _round_trip(path) is not None
            raise unusable(path, offer, reached=reached)
    return offers


def unusable(path: PoolPath, offer: PathInfo, *, reached: bool) -> HarnessError:
    """Say why a path cannot be used; `reached`: its port accepts connections."""
    what = f"{path.label}: cannot be used: {offer.error}"
    return HarnessError(what, _remedy(path, offer, reached))


def _remedy(path: PoolPath, offer: PathInfo, reached: bool) -> str:
    """Say what to do about a path that cannot be used."""
    if "&" in path.export:
        return f"'?' begins a URL's arguments, '&' the next: the export is {path.export} here"
    if reached and offer.errno == errno.ETIMEDOUT:
        return (
            "its port accepts connections and stays silent: does NFS listen there (rpcinfo -p"
            " HOST)? If so its server hangs: see its log"
        )
    if _IS_IT_UP in offer.error:
        return "does its firewall let the port through?"
    if _lacks_own(path, offer):
        return f"it takes {' '.join(offer.flavors)}: {_OTHER_FLAVOR}"
    if reached and not path.minor and offer.errno in (errno.EACCES, errno.ENOENT):
        return f"{offer.remedy}: showmount -e {path.host} lists them".removeprefix(": ")
    return offer.remedy


def _transfers(offer: PathInfo) -> Finding:
    port = "from a reserved port" if offer.reserved_port else "not from a reserved port"
    what = (
        f"{offer.label}: NFS v{offer.version} over {offer.proto.upper()}, READ up to"
        f" {offer.read_max} bytes, WRITE up to {offer.write_max}; asked {port}"
    )
    if min(offer.read_max, offer.write_max) == 0:
        return warn(what, "the engine takes 0 for no limit: give the server one of 64 KiB or more")
    if min(offer.read_max, offer.write_max) < _SMALL_TRANSFER:
        return warn(what, "larger I/O is split into several calls: raise the server's maximum")
    return ok(what)


def _room(offer: PathInfo) -> Finding:
    if offer.bytes_available is None or offer.bytes_total is None:
        return ok(f"{offer.label}: how much room there is was not told")
    what = (
        f"{offer.label}: {offer.bytes_available / 1e9:,.1f} of {offer.bytes_total / 1e9:,.1f} GB"
        " are free"
    )
    if offer.bytes_available < _LITTLE_ROOM:
        return warn(what, "make room, or name a smaller size: runs lay out files of up to 2 GiB")
    return ok(what)


# --- files ---

_PERMISSIONS = (
    "export it read-write; give the export's root to that user (chown), name an owner with"
    " ?uid=&gid=, or, where root is squashed, export with no_root_squash"
)


def _files(pool: str, paths: Sequence[PoolPath]) -> Iterator[Finding]:
    """Make a directory, see that each path leads to it, and remove it."""
    name = f".nfsmulti-doctor-{secrets.token_hex(4)}"
    try:
        export.make(pool, name)
    except export.DifferentFilesError as error:
        yield fail(error.what, "a pool's paths must lead to one file system")
        return
    except HarnessError as error:
        what = f"{error.what}; only jobs that read existing files work"
        yield warn(what, _PERMISSIONS)
        if len(paths) > 1:
            yield warn(_UNCHECKED, "mount or export it read-write first: a directory shows it")
        return
    try:
        export.remove_empty(pool, name)
    except HarnessError as error:
        yield fail(f'{error.what}: "{name}" stays', "remove it by hand; check the server's log")
    first = paths[0]
    yield ok(f"{first.label}: uid {first.uid} gid {first.gid} may create files")
    if len(paths) > 1:
        yield ok(f"all {len(paths)} paths lead to the same files")


# --- RDMA ---


def rdma(path: PoolPath) -> Iterator[Finding]:
    """Connect to the server of a path as the engine does."""
    asked = ask_rdma(path.address, path.rdmaport)
    if asked is None:
        return
    where = f"{path.label}: NFS over RDMA on port {path.rdmaport}"
    found, trouble = asked
    if trouble:
        yield fail(
            f"{where}: {trouble}",
            "does the server listen (Linux: echo 'rdma 20049' > /proc/fs/nfsd/portlist), and does "
            "an RDMA device here lead to its address (rdma link)?",
        )
        return
    (said,) = found
    yield ok(
        f"{where} answers through {said['device']}: inline up to {said['inline_receive']} bytes"
        f" to the server, {said['inline_send']} bytes back"
    )
