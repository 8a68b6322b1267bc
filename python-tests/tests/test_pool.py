# SPDX-License-Identifier: GPL-2.0-only
"""pool.h and nfsmulti-pool: what a pool's text means, and what is refused, where and why.

Any bytes at all are read or refused in good order by python-tests/fuzz/.
"""

import errno
import ipaddress
import json
import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any, Self
from urllib.parse import quote

import pytest
from engine_c import CONSTANTS, CData, ffi, terms_rows, text, value, zeros
from hypothesis import given
from hypothesis import strategies as st

PATHS_MAX = CONSTANTS.POOL_PATHS_MAX
ENV = "e4a:/mnt/v32/,/mnt/v33/ e4b:/mnt/v42/"


# --- pool.h, as Python has it ---

Argument = int | bool | str
_BINARY = {0: slice(0), socket.AF_INET: slice(2, 6), socket.AF_INET6: slice(6, 22)}


@dataclass(frozen=True)
class Path:
    """A struct pool_path; of the arguments only those that are set."""

    kind: str
    label: str
    dir: str | None = None
    host: str | None = None
    export: str | None = None
    args: dict[str, Argument] = field(default_factory=dict)
    address: str = ""
    column: int = field(default=0, compare=False)

    @classmethod
    def of(cls, lib: CData, path: CData) -> Self:
        strings = {name: getattr(path, name) for name in ("label", "dir", "host", "export")}
        own: dict[str, Any] = {name: text(one) for name, one in strings.items() if one}
        own |= {"args": _arguments(lib, path.terms), "address": _address(path)}
        own |= {"column": path.column}
        return cls(("mount", "nfs")[path.kind], **own)


def _arguments(lib: CData, terms: CData) -> dict[str, Argument]:
    rows = [term for term, given in zip(terms_rows(lib), terms.given, strict=False) if given]
    return dict(_argument(term, ffi.addressof(terms)) for term in rows)


def _argument(term: CData, terms: CData) -> tuple[str, Argument]:
    word = text(term.in_path).split()[0]
    at = ffi.cast("char *", terms) + term.at
    if term.kind in {CONSTANTS.TERM_TEXT, CONSTANTS.TERM_ADDRESSES}:
        return word, text(ffi.cast("char **", at)[0])
    number = int(ffi.cast("unsigned int *", at)[0])
    if term.kind == CONSTANTS.TERM_FLAG:
        return "soft", bool(number)
    if term.kind == CONSTANTS.TERM_CHOICE:
        return word, next(text(one.word) for one in term.values if one.value == number)
    return word, number


def _address(path: CData) -> str:
    family = path.addr.ss_family
    assert path.addr_len == {0: 0, socket.AF_INET: 16, socket.AF_INET6: 28}[family]
    binary = value(path.addr.rest)[_BINARY[family]]
    return socket.inet_ntop(family, binary) if family else ""


class PoolRefused(Exception):  # noqa: N818 - the pool is refused; nothing went wrong
    """A pool or a name was refused."""

    def __init__(self, code: int, column: int, reason: str) -> None:
        super().__init__(f"{errno.errorcode[code]}: column {column}: {reason}")
        self.code, self.column, self.reason = code, column, reason


Resolve = Callable[[str, int], list[str]]
"""Gives the addresses of a host, or raises OSError."""


class Pools:
    """Calls of pool.h. A refusal is raised as PoolRefused, once it left nothing behind."""

    def __init__(self, lib: CData) -> None:
        self.lib = lib

    def parse(self, text: str) -> list[Path]:
        with self._pool(self.lib.pool_parse, text) as pool:
            return _paths(self.lib, pool)

    def by_name(self, env: str, name: str) -> list[Path]:
        """pool_by_name()."""
        with self._pool(self.lib.pool_by_name, env, name) as pool:
            return _paths(self.lib, pool)

    def by_file(self, env: str, file: str) -> tuple[list[Path], str]:
        """pool_by_file(): the paths, and the file's name relative to them."""
        name, rest = ffi.new("char[]", os.fsencode(file)), ffi.new("const char **")

        def find(env: bytes, pool: CData, error: CData) -> int:
            return int(self.lib.pool_by_file(env, name, pool, rest, error))

        with self._pool(find, env) as pool:
            return _paths(self.lib, pool), _inside(name, rest)

    def relative_name(self, pool_text: str, file: str) -> str:
        """pool_relative_name() with a pool that is parsed first."""
        name, rest = ffi.new("char[]", os.fsencode(file)), ffi.new("const char **")
        with self._pool(self.lib.pool_parse, pool_text) as pool:
            error = zeros("pool_error")
            _check(self.lib.pool_relative_name(pool, name, rest, error), error)
            return _inside(name, rest)

    def resolve(self, pool_text: str, resolve: Resolve) -> list[Path]:
        """pool_resolve() of a pool that is parsed first; a failure must leave it as it was."""

        def call(host: CData, family: int, addrs: CData, most: int, why: CData, size: int) -> int:
            try:
                found = resolve(text(host), family)
            except OSError as error:
                said = os.fsencode(str(error.strerror))[: size - 1] + b"\0"
                ffi.memmove(why, said, len(said))
                return -(error.errno or errno.EIO)
            for i, address in enumerate(found[:most]):
                family = addrs[i].ss_family = socket.AF_INET6 if ":" in address else socket.AF_INET
                ffi.buffer(addrs[i].rest)[_BINARY[family]] = socket.inet_pton(family, address)
            return min(len(found), most)

        with self._pool(self.lib.pool_parse, pool_text) as pool:
            before, error = _paths(self.lib, pool), zeros("pool_error")
            code = self.lib.pool_resolve(pool, ffi.callback("pool_resolver", call), error)
            assert not code or _paths(self.lib, pool) == before
            _check(code, error)
            return _paths(self.lib, pool)

    @contextmanager
    def _pool(self, find: Callable[..., int], *texts: str) -> Iterator[CData]:
        """Yield the pool that a function finds by these texts."""
        pool, error = zeros("pool"), zeros("pool_error")
        code = find(*map(os.fsencode, texts), pool, error)
        assert not code or not (pool.paths or pool.count), "a refused pool is not empty"
        _check(code, error)
        try:
            yield pool
        finally:
            self.lib.pool_free(pool)
            assert not pool.paths
            assert not pool.count


def _paths(lib: CData, pool: CData) -> list[Path]:
    return [Path.of(lib, path) for path in pool.paths[0 : pool.count]]


def _check(code: int, error: CData) -> None:
    if code:
        reason = bytes(ffi.string(error.reason)).decode(errors="replace")
        raise PoolRefused(-code, error.column, reason)


def _inside(name: CData, rest: CData) -> str:
    """Return the end of `name` from `rest`, which must point into it."""
    assert name <= rest[0] < name + len(name)
    return text(rest[0])


@pytest.fixture(scope="module")
def pools(testlib: CData) -> Pools:
    return Pools(testlib)


# --- what is read, and what is refused ---


def mount(directory: str) -> Path:
    return Path("mount", directory, dir=directory)


def nfs(host: str, export: str = "/x", **args: Argument) -> Path:
    port = f":{args['port']}" if "port" in args else ""
    shown = f"[{host}]" if ":" in host else host
    return Path("nfs", f"{shown}{port}:{export}", host=host, export=export, args=args)


def at_mark(marked: str) -> tuple[str, int]:
    """Take the '^' out of a text; give the text and the column, in bytes, where it stood."""
    before, after = marked.split("^")
    return before + after, len(os.fsencode(before)) + 1


def refusal(call: Callable[..., object], *args: object) -> PoolRefused:
    with pytest.raises(PoolRefused) as refused:
        call(*args)
    return refused.value


# What the round trip below does not come by.
ACCEPTED: dict[str, list[Path]] = {
    "/": [mount("/")],
    "///": [mount("/")],
    "/mnt/a//,/mnt/b/": [mount("/mnt/a"), mount("/mnt/b")],
    "/mnt/..a,/mnt/b..": [mount("/mnt/..a"), mount("/mnt/b..")],
    "/mnt/a%20b,/mnt/c d,/mnt/e?f=1": [mount(d) for d in ("/mnt/a%20b", "/mnt/c d", "/mnt/e?f=1")],
    # --- hosts, exports and ports ---
    "nfs://server/": [nfs("server", "/")],
    "nfs://a-b_c.example./x": [nfs("a-b_c.example.")],
    "nfs://[::ffff:10.0.0.1]:2049/": [nfs("::ffff:10.0.0.1", "/", port=2049)],
    "nfs://[fe80::1%eth0]/x,nfs://[fe80::1%25eth0]/x": [nfs("fe80::1%eth0")] * 2,
    "nfs://[fe80::1%25]/x": [nfs("fe80::1%25")],
    "nfs://h/a%2Cb%3fc%25,/mnt/a": [nfs("h", "/a,b?c%"), mount("/mnt/a")],
    "nfs://h:2050/x?nfsport=2050&port=2050": [nfs("h", port=2050)],
    "nfs://h/x?nfsport=%32050": [nfs("h", port=2050)],
    # --- ranges ---
    "nfs://10.0.0.[1-3]/x": [nfs(f"10.0.0.{i}") for i in (1, 2, 3)],
    "nfs://10.0.[7-7].1:1/x": [nfs("10.0.7.1", port=1)],
    "nfs://[1-2]a/x": [nfs("1a"), nfs("2a")],
    "nfs://n[08-11].lab/x": [nfs(f"n{i}.lab") for i in ("08", "09", "10", "11")],
    "nfs://n[000-1]/x": [nfs("n000"), nfs("n001")],
    "nfs://n[4294967295-4294967295]/x": [nfs("n4294967295")],
    f"nfs://n[1-{PATHS_MAX}]/x": [nfs(f"n{i}") for i in range(1, PATHS_MAX + 1)],
    # --- arguments ---
    "nfs://h:1/x?mountport=2&rdmaport=3&proto=rdma6&vers=4.2&rsize=4&wsize=5&timeo=6&retrans=7&soft"
    "&uid=0&gid=4294967294&localaddr=10.0.0.7+fe80::1%25eth0": [
        nfs(
            "h", port=1, mountport=2, rdmaport=3, proto="rdma6", version="4.2", rsize=4, wsize=5,
            timeo=6, retrans=7, soft=True, uid=0, gid=4294967294,
            localaddr="10.0.0.7+fe80::1%eth0",
        )
    ],
    "nfs://h/x?version=3&vers=3&nfsvers=3": [nfs("h", version="3")],
    "nfs://h/x?rsize=32K&wsize=64m": [nfs("h", rsize=32768, wsize=64 << 20)],
    "nfs://h/x?rsize=65536k&wsize=1M": [nfs("h", rsize=64 << 20, wsize=1 << 20)],
    "nfs://h/x?soft=1&hard=0": [nfs("h", soft=True)],
    "nfs://h[1-2]/x?sec=krb5p&principal=me/it@LAB&keytab=FILE:/k%2Cy&ccache=KEYRING:persistent:0"
    "&server_principal=nfs@nas.lab": [
        nfs(
            f"h{i}", sec="krb5p", principal="me/it@LAB", keytab="FILE:/k,y",
            ccache="KEYRING:persistent:0", server_principal="nfs@nas.lab",
        )
        for i in (1, 2)
    ],
}  # fmt: skip


def test_accepted(pools: Pools) -> None:
    assert {text: pools.parse(text) for text in ACCEPTED} == ACCEPTED


def test_paths_know_their_column(pools: Pools) -> None:
    paths = pools.parse("/mnt/ä,nfs://10.0.0.[1-2]/x,/mnt/b")
    assert [path.column for path in paths] == [1, 9, 9, 30]


# '^' marks the column; the reason must contain each of the words.
Words = tuple[str, ...]
REFUSED: dict[str, Words] = {
    # --- lists ---
    "^": ("path is missing", "nfs://HOST/EXPORT"),
    "/mnt/a,^": ("path is missing",),
    "/mnt/a,^,/mnt/b": ("path is missing",),
    "/mnt/a,^ ,/mnt/b": ("path is missing",),
    "/mnt/a,^ /mnt/b": ("blank before", "remove"),
    "/mnt/ä^ ,/mnt/b": ("blank after", "remove"),
    "/mnt/a,^\n/mnt/b": ("control character",),
    "/mnt/^\x7fa": ("control character",),
    # --- directories ---
    "^mnt/a": ("'mnt/a'", "absolute directory"),
    "/mnt/^../etc": ("'..'",),
    "^/" + "x" * 4095: ("directory", "4096"),
    # --- schemes ---
    "^nfs4://h/x": ("unknown scheme 'nfs4://'", "nfs://HOST/EXPORT?version=4.1"),
    "^NFS://h/x": ("unknown scheme 'NFS://'",),
    "^nfs:/h/x": ("nfs://HOST/EXPORT",),
    "^10.0.0.1:/x": ("write nfs://10.0.0.1/x: HOST:/EXPORT is mount's syntax",),
    # --- exports ---
    "nfs://h^": ("export is missing", "nfs://HOST/"),
    "nfs://h:2049^?uid=1": ("export is missing",),
    "nfs://h/a^%2/b": ("two hexadecimal digits", "%25"),
    "nfs://h/a^%00b": ("%00", "control character"),
    "nfs://h^/" + "x" * 1024: ("export", "1024"),
    # --- hosts ---
    "nfs://^/x": ("host is missing",),
    "nfs://^fe80::1/x": ("IPv6", "brackets"),
    "nfs://^[fe80::1/x": ("never closed",),
    "nfs://[^fe80:::1]/x": ("'fe80:::1'", "not an IPv6 address"),
    "nfs://[^fe80::1%]/x": ("not an IPv6 address",),
    "nfs://[^fe80::1%a*b]/x": ("not an IPv6 address",),
    "nfs://[::1]^2049/x": ("no such character", ":PORT"),
    "nfs://h^öst/x": ("no such character",),
    "nfs://^10.0.0.256/x": ("'10.0.0.256'", "not an IPv4 address"),
    "nfs://^10.0.0.01/x": ("not an IPv4 address",),
    "nfs://^" + "h" * 254 + "/x": ("host's name", "253"),
    "nfs://^h[" + "0" * 253 + "-1]/x": ("host's name", "253"),
    # --- ranges ---
    "nfs://^10.0.0.[254-256]/x": ("'10.0.0.256'", "not an IPv4 address"),
    "nfs://10.0.0.^[4-1]/x": ("counts upwards", "[1-4]"),
    "nfs://10.0.0.^[1-4/x": ("[FIRST-LAST]",),
    "nfs://10.0.0.^[1,4]/x": ("[FIRST-LAST]", "list the paths"),
    "nfs://n^[]/x": ("[FIRST-LAST]", "IPv6"),
    "nfs://n^[1-4294967296]/x": ("[FIRST-LAST]",),
    "nfs://n[1-2]r^[1-2]/x": ("second '['", "list the paths"),
    "^nfs://n[0-1024]/x": ("more than 1024 paths",),
    "^nfs://n[0-4294967295]/x": ("more than 1024 paths",),
    "/mnt/a,^nfs://n[1-1024]/x": ("more than 1024 paths",),
    "nfs://n[1-1024]/x,^/mnt/a": ("more than 1024 paths",),
    # --- ports ---
    "nfs://h:^/x": ("port", "1 to 65535", "nfs://HOST/EXPORT"),
    "nfs://h:^65536/x": ("1 to 65535",),
    "nfs://h:^18446744073709553665/x": ("1 to 65535",),
    "nfs://h:^2049x/x": ("1 to 65535",),
    # --- arguments ---
    "nfs://h/x?^": ("argument is missing",),
    "nfs://h/x?^=1": ("argument is missing",),
    "nfs://h/x?uid=1&^nconnect=4": ("a job option: --nconnect=4",),
    "nfs://h/x?^iodepth=4": ("unknown argument 'iodepth'", "nfsport", "localaddr", "gid"),
    "nfs://h/x?^" + "y" * 200: ("unknown argument 'yyyyyyyy", "...'", "nfsport", "gid"),
    "nfs://h/x?uid=1&^uid=1": ("uid", "twice"),
    "nfs://h/x?^nfsport": ("nfsport", "value"),
    "nfs://h/x?nfsport=^0": ("nfsport", "1 to 65535"),
    "nfs://h:^0/x": ("port", "1 to 65535"),
    "nfs://h/x?mountport=^%34x": ("mountport", "1 to 65535"),
    "nfs://h:2049/x?nfsport=^2050": ("2050", "contradicts", "2049"),
    "nfs://h/x?nfsport=1&port=^2": ("contradicts",),
    "nfs://h/x?version=^4": ("version=4", "NFSv4.0", "use 4.1", "mount"),
    "nfs://h/x?vers=^4.0": ("vers=4.0", "NFSv4.0 has no sessions"),
    "nfs://h/x?nfsvers=^": ("nfsvers is 3, 4.1 or 4.2",),
    "nfs://h/x?version=4.1&vers=^4.2": ("vers=4.2", "contradicts"),
    "nfs://h/x?proto=^udp": ("tcp, tcp6, rdma or rdma6",),
    "nfs://h/x?proto=tcp&rdmaport=^1": ("rdmaport", "proto=rdma", "nfsport"),
    "nfs://h/x?rdmaport=1&proto=^tcp6": ("rdmaport", "proto=rdma"),
    "nfs://h/x?proto=rdma&namespace=^rdma": ("namespace: it is gone", "names always go over TCP"),
    "nfs://h/x?rsize=^0": ("rsize", "1 to 64m"),
    "nfs://h/x?wsize=^65537k": ("wsize", "1 to 64m"),
    "nfs://h/x?wsize=^4194304k": ("1 to 64m",),
    "nfs://h/x?wsize=^1g": ("k or m",),
    "nfs://h/x?wsize=^k": ("k or m",),
    "nfs://h/x?timeo=^0": ("timeo", "1 to 6000", "tenths of a second"),
    "nfs://h/x?retrans=^1001": ("retrans", "0 to 1000"),
    "nfs://h/x?soft=^2": ("soft", "=1 or =0"),
    "nfs://h/x?hard&^soft": ("hard and soft", "contradict"),
    "nfs://h/x?uid=^4294967295": ("0 to 4294967294",),
    "nfs://h/x?gid=^root": ("gid", "number"),
    "nfs://h/x?gid=^%zz": ("two hexadecimal digits",),
    "nfs://h/x?localaddr=^10.0.0.1+": ("localaddr", "'+'"),
    "nfs://h/x?xprtsec=^ssl": ("none, tls or mtls",),
    "nfs://h/x?tls_ca=^": ("tls_ca needs a value",),
    "nfs://h/x?sec=^krb": ("sec is sys, krb5, krb5i or krb5p",),
    "nfs://h/x?sec=^": ("sys, krb5, krb5i or krb5p",),
    "nfs://h/x?^security=krb5": ("unknown argument 'security'", " sec "),
    "nfs://h/x?sec=krb5&^sec=sys": ("sec is given twice",),
    "nfs://h/x?server_principal=^": ("server_principal needs a value",),
    "nfs://h/x?localaddr=^eth0": ("'eth0'", "localaddr"),
    "nfs://h/x?localaddr=^" + "1" * 300: ("localaddr",),
}


def check_refused(
    marked: str, words: Words, call: Callable[..., object], *args: object, code: int = errno.EINVAL
) -> None:
    """Call with the text, `args` before it, and look for the refusal that it deserves.

    No reason is cut short. A text without a mark is refused as a whole, in column 0.
    """
    text, column = at_mark(marked) if "^" in marked else (marked, 0)
    refused = refusal(call, *args, text)
    assert (refused.code, refused.column) == (code, column), marked
    assert not [word for word in words if word not in refused.reason], marked
    assert len(os.fsencode(refused.reason)) < 279, marked


def test_refused(pools: Pools) -> None:
    for marked, words in REFUSED.items():
        check_refused(marked, words, pools.parse)
    assert "namespace" not in refusal(pools.parse, "nfs://h/x?nconnect=4").reason, "it is gone"


# ---- round trip: a pool that is written from a model is read as that model ----

PRINTABLE = st.characters(exclude_categories=["Cs", "Cc"])
NAME_PARTS = st.from_regex(r"[a-z_][A-Za-z0-9_-]{0,20}", fullmatch=True)
NAMES = st.lists(NAME_PARTS, min_size=1, max_size=4).map(".".join)
IPV4 = st.ip_addresses(v=4).map(str)
IPV6 = st.builds(
    lambda address, zone: str(ipaddress.IPv6Address(address.packed)) + zone,
    st.ip_addresses(v=6),
    st.one_of(st.just(""), st.from_regex(r"%(?!25)[a-z0-9.]{1,15}", fullmatch=True)),
)
ADDRESSES = st.lists(st.one_of(IPV4, IPV6), min_size=1, max_size=3).map("+".join)
FILES = NAMES.map("/etc/{}".format)
PORTS, SIZES, IDS = st.integers(1, 65535), st.integers(1, 64 << 20), st.integers(0, 2**32 - 2)
# The words for each argument, and its values.
WRITTEN: dict[str, tuple[tuple[str, ...], st.SearchStrategy[Any]]] = {
    "port": (("nfsport", "port"), PORTS),
    "mountport": (("mountport",), PORTS),
    "rsize": (("rsize",), SIZES),
    "wsize": (("wsize",), SIZES),
    "timeo": (("timeo",), st.integers(1, 6000)),
    "retrans": (("retrans",), st.integers(0, 1000)),
    "uid": (("uid",), IDS),
    "gid": (("gid",), IDS),
    "version": (("version", "vers", "nfsvers"), st.sampled_from(["3", "4.1", "4.2"])),
    "proto": (("proto",), st.sampled_from(["tcp", "tcp6", "rdma", "rdma6"])),
    "localaddr": (("localaddr",), ADDRESSES),
    "xprtsec": (("xprtsec",), st.sampled_from(["none", "tls", "mtls"])),
    "tls_ca": (("tls_ca",), FILES),
    "tls_cert": (("tls_cert",), FILES),
    "tls_key": (("tls_key",), FILES),
    "tls_name": (("tls_name",), NAMES),
    "sec": (("sec",), st.sampled_from(["sys", "krb5", "krb5i", "krb5p"])),
    "principal": (("principal",), NAMES),
    "keytab": (("keytab",), FILES),
    "ccache": (("ccache",), FILES.map("DIR:{}".format)),
    "server_principal": (("server_principal",), NAMES.map("nfs@{}".format)),
}


def percent(text: str) -> str:
    return quote(os.fsencode(text), safe="/+:")


@st.composite
def written_mounts(draw: st.DrawFn) -> tuple[str, list[Path]]:
    parts = st.text(
        st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], exclude_characters=",/"),
        min_size=1,
    )
    # A name that ends in a blank, or is "..", is refused.
    parts = parts.filter(lambda part: part != ".." and not part.endswith(" "))
    directory = "/" + "/".join(draw(st.lists(parts, max_size=4)))
    slashes = "/" * draw(st.integers(0, 2))
    return directory + slashes, [mount(directory)]


@st.composite
def written_hosts(draw: st.DrawFn) -> tuple[str, list[str]]:
    kind = draw(st.sampled_from(["name", "IPv4", "IPv6", "range"]))
    if kind == "IPv6":
        host = draw(IPV6)
        return f"[{host}]", [host]
    if kind != "range":
        host = draw(NAMES if kind == "name" else IPV4)
        return host, [host]
    before, after = draw(NAMES), draw(NAMES)
    first = draw(st.integers(0, 10**6))
    last = first + draw(st.integers(0, 20))
    width = draw(st.integers(1, 9))
    hosts = [f"{before}{number:0{width}}{after}" for number in range(first, last + 1)]
    return f"{before}[{first:0{width}}-{last}]{after}", hosts


@st.composite
def written_arguments(draw: st.DrawFn) -> tuple[list[str], dict[str, Argument]]:
    texts: list[str] = []
    args: dict[str, Argument] = {}
    for name in draw(st.sets(st.sampled_from(sorted(WRITTEN)))):
        words, values = WRITTEN[name]
        args[name] = draw(values)
        texts.append(f"{draw(st.sampled_from(words))}={percent(str(args[name]))}")
    if draw(st.booleans()):
        soft, hard = ["soft", "soft=1", "hard=0"], ["hard", "hard=1", "soft=0"]
        args["soft"] = draw(st.booleans())
        texts.append(draw(st.sampled_from(soft if args["soft"] else hard)))
    return draw(st.permutations(texts)), args


@st.composite
def written_urls(draw: st.DrawFn) -> tuple[str, list[Path]]:
    host_text, hosts = draw(written_hosts())
    export = "/" + draw(st.text(PRINTABLE, max_size=80))
    texts, args = draw(written_arguments())
    by_host = draw(st.booleans()) and "port" in args
    if by_host:
        texts = [text for text in texts if not text.startswith(("port=", "nfsport="))]
    port = f":{args['port']}" if by_host else ""
    end = "?" + "&".join(texts) if texts else ""
    text = f"nfs://{host_text}{port}{percent(export)}{end}"
    return text, [nfs(host, export, **args) for host in hosts]


@given(st.lists(st.one_of(written_mounts(), written_urls()), min_size=1, max_size=6))
def test_round_trip(pools: Pools, written: list[tuple[str, list[Path]]]) -> None:
    text = ",".join(text for text, _paths in written)
    assert pools.parse(text) == [path for _text, paths in written for path in paths]


# ---- names, and pools of the environment ----


def test_names(testlib: CData) -> None:
    def is_name(text: str) -> bool:
        return bool(testlib.pool_is_name(os.fsencode(text)))

    assert all(is_name(text) for text in ("e4a", "a", "Z-9_.x", "nfs"))
    others = ["", "4a", "_a", "-a", ".a", "a b", "a:", "/a", "a,b", "nfs://h/x", "ä", "aä", "a\n"]
    assert not [text for text in others if is_name(text)]


def test_by_name(pools: Pools) -> None:
    cases: list[tuple[str, str, list[Path]]] = [
        (ENV, "e4a", [mount("/mnt/v32"), mount("/mnt/v33")]),
        (ENV, "e4b", [mount("/mnt/v42")]),
        (" \t\n a:/x\r\n\v\f b:/y \n", "b", [mount("/y")]),
        ("a:nfs://[::1]:1/x,/y b:/y", "a", [nfs("::1", port=1), mount("/y")]),
        ("nfs:/mnt/a", "nfs", [mount("/mnt/a")]),
        ("a:relative b:/y", "b", [mount("/y")]),
        ("ab:/x a:/y abc:/z", "a", [mount("/y")]),
    ]
    for env, name, paths in cases:
        assert pools.by_name(env, name) == paths, env
    # Columns count in the environment.
    assert [path.column for path in pools.by_name(ENV, "e4b")] == [ENV.index("/mnt/v42") + 1]


ENV_REFUSED: dict[str, Words] = {
    "a:^": ("path is missing",),
    "b:/x a:/mnt/a,^ c:/y": ("path is missing",),
    "a:/mnt/a ^/mnt/b": ("'/mnt/b'", "NAME:PATH,PATH", "white space"),
    "a:/x ^b": ("'b'", "NAME:PATH,PATH"),
    "a:/x ^4b:/y": ("a letter first",),
    "a:/x ^:/y": ("':/y'", "NAME:PATH,PATH"),
    "a:/x ^nfs://h/x": ("name is missing", "NAME:nfs://"),
    "a:/x b:/y ^a:/x": ("'a'", "twice"),
    "b:/x a:^nfs4://h/x": ("unknown scheme",),
    "a:/mnt/^\x01": ("control character",),
}


def test_environment_refused(pools: Pools) -> None:
    for marked, words in ENV_REFUSED.items():
        check_refused(marked, words, lambda env: pools.by_name(env, "a"))


def test_unknown_name_lists_the_known(pools: Pools) -> None:
    refused = refusal(pools.by_name, ENV, "e4c")
    assert (refused.code, refused.column) == (errno.ENOENT, 0)
    assert "'e4c'" in refused.reason
    assert refused.reason.endswith("known: e4a e4b")
    assert refusal(pools.by_name, " ", "e4c").reason.endswith("known: none")


@given(st.integers(1, 200), st.integers(1, 60))
def test_unknown_name_lists_whole_names(pools: Pools, count: int, width: int) -> None:
    names = [f"p{i:0{width}}" for i in range(count)]
    reason = refusal(pools.by_name, " ".join(f"{name}:/x" for name in names), "e4c").reason
    listed = reason.partition("known: ")[2].split()
    complete = listed[:-1] if listed[-1] == "..." else listed
    assert complete == names[: len(complete)]
    assert len(complete) == count or listed[-1] == "..."
    assert "e4c" in reason


def test_by_file(pools: Pools) -> None:
    for env, file, directories, relative in (
        (ENV, "/mnt/v33/d/f", ["/mnt/v32", "/mnt/v33"], "d/f"),
        (ENV, "/mnt/v42//d//f", ["/mnt/v42"], "d//f"),
        (ENV, "//mnt///v42/f", ["/mnt/v42"], "f"),
        ("a:/mnt b:/mnt/v/", "/mnt/v/f", ["/mnt/v"], "f"),
        ("b:/mnt/v/ a:/mnt", "/mnt/v/f", ["/mnt/v"], "f"),
        ("a:/mnt b:/mnt/v/", "/mnt/v2/f", ["/mnt"], "v2/f"),
        ("a:/mnt,/mnt/v/d b:/mnt/v/", "/mnt/v/f", ["/mnt/v"], "f"),
        ("a:/mnt/v b:/mnt/v c:/mnt/v/d", "/mnt/v/d/f", ["/mnt/v/d"], "f"),
    ):
        paths, rest = pools.by_file(env, file)
        assert ([path.dir for path in paths], rest) == (directories, relative), (env, file)


def test_by_file_refuses(pools: Pools) -> None:
    """The name; and of the environment two pools that hold the mount, or a malformed one."""
    for file, code, words in (
        ("/mnt/v320/f", errno.ENOENT, ("no pool", "'/mnt/v320/f'")),
        ("/mnt", errno.ENOENT, ("no pool",)),
        ("f", errno.ENOENT, ("no pool",)),
        ("/mnt/v32", errno.EINVAL, ("'/mnt/v32'", "no file")),
        ("/mnt/v32//", errno.EINVAL, ("no file",)),
        ("/mnt/v32/../../etc/shadow", errno.EINVAL, ("'..'",)),
    ):
        check_refused(file, words, pools.by_file, ENV, code=code)
    for marked, said in (
        ("a:/mnt/v c:/mnt ^b:/mnt/w,/mnt/v/", "'a' and 'b'"),
        ("a:/mnt/v b:^smb://h/x", "unknown scheme"),
    ):
        check_refused(marked, (said,), lambda env: pools.by_file(env, "/mnt/v/f"))


# ---- a job's file names ----


def test_relative_name(pools: Pools) -> None:
    for pool, file, relative in (
        ("nfs://h/x", "f", "f"),
        ("nfs://h/x", "//d/f", "d/f"),
        ("nfs://h/x", "..f/f..", "..f/f.."),
        ("/mnt/a,/mnt/b", "/mnt/b/f", "f"),
        ("/mnt/a", "/mnt//a//d/f", "d/f"),
        ("/mnt,/mnt/a", "/mnt/a/f", "f"),
        ("nfs://h/x,/mnt/a", "/mnt/a/f", "f"),
        ("/", "/d/f", "d/f"),
        ("nfs://h/x", "x" * 4095, "x" * 4095),
    ):
        assert pools.relative_name(pool, file) == relative, (pool, file)


def test_relative_name_refused(pools: Pools) -> None:
    for pool, marked, words in (
        ("nfs://h/x", "^", ("''", "no file")),
        ("nfs://h/x", "//^", ("no file",)),
        ("/mnt/a", "/mnt/a^", ("'/mnt/a'", "no file")),
        ("nfs://h/x", "^..", ("'..'",)),
        ("nfs://h/x", "d/^../f", ("'..'",)),
        ("/mnt/a", "/mnt/a/^../b/f", ("'..'",)),
        ("/mnt/a", "^/mnt/b/f", ("'/mnt/b/f'", "none of the pool's mounts", "/mnt/a")),
        ("/mnt/a", "^/mnt/ab/f", ("none of the pool's mounts",)),
        ("nfs://h/x,/mnt/a", "^/x/f", ("none of the pool's mounts", "/mnt/a")),
        ("nfs://h/x", "x" * 4095 + "^x", ("4096",)),
    ):
        check_refused(marked, words, pools.relative_name, pool)


# ---- resolving ----

HOSTS: dict[tuple[str, int], list[str]] = {
    ("one", socket.AF_UNSPEC): ["10.0.0.1"],
    ("two", socket.AF_UNSPEC): ["10.0.0.3", "fe80::2"],
    ("two", socket.AF_INET6): ["fe80::2"],
    ("none", socket.AF_UNSPEC): [],
    ("most", socket.AF_UNSPEC): [f"10.0.{i // 256}.{i % 256}" for i in range(PATHS_MAX)],
}


def lookup(host: str, family: int) -> list[str]:
    if host == "starving":
        raise OSError(errno.ENOMEM, "no memory")
    if (host, family) not in HOSTS:
        raise OSError(errno.EHOSTUNREACH, "nobody of that name")
    return HOSTS[host, family]


def test_resolve_makes_a_path_of_each_address(pools: Pools) -> None:
    text = "/mnt/a,nfs://two:2049/x?uid=7&localaddr=10.0.0.9,nfs://one/x,nfs://two/y?proto=tcp6"
    two = nfs("two", port=2049, uid=7, localaddr="10.0.0.9")
    found = pools.resolve(text, lookup)
    assert found == [
        mount("/mnt/a"),
        replace(two, label="10.0.0.3:2049:/x", address="10.0.0.3"),
        replace(two, label="[fe80::2]:2049:/x", address="fe80::2"),
        replace(nfs("one"), address="10.0.0.1"),
        replace(nfs("two", "/y", proto="tcp6"), address="fe80::2"),
    ]
    assert [path.column for path in found] == [1, 8, 8, 50, 62]
    most = pools.resolve("nfs://most/x", lookup)  # as many as a pool takes
    assert [path.address for path in most] == HOSTS["most", socket.AF_UNSPEC]


def test_resolve_refused(pools: Pools) -> None:
    for marked, code, words in (
        ("nfs://one/x,^nfs://nobody/x", errno.EHOSTUNREACH, ("'nobody'", "nobody of that name")),
        ("/mnt/a,^nfs://none/x", errno.EHOSTUNREACH, ("'none'", "no address")),
        ("^nfs://one/x?proto=rdma6", errno.EHOSTUNREACH, ("'one'", "nobody of that name")),
        ("nfs://one/x,^nfs://most/x", errno.EINVAL, ("most:/x", "1024 paths")),
        ("nfs://most/x,^/mnt/a", errno.EINVAL, ("/mnt/a", "1024 paths")),
    ):
        check_refused(marked, words, lambda text: pools.resolve(text, lookup), code=code)
    assert refusal(pools.resolve, "nfs://starving/x", lookup).code == errno.ENOMEM


# ---- nfsmulti-pool ----


@pytest.fixture(scope="module")
def tool(pool_tool: FilePath) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if not k.endswith("_POOLS")}
        return subprocess.run(
            [pool_tool, *args],
            env=clean | env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            encoding="utf-8",
            errors="surrogateescape",
        )

    return run


Tool = Callable[..., subprocess.CompletedProcess[str]]


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def as_json(path: Path) -> dict[str, Argument]:
    parts = {"kind": path.kind, "label": path.label}
    own = {"dir": path.dir, "host": path.host, "export": path.export}
    return parts | {k: v for k, v in own.items() if v is not None} | path.args


def test_tool_prints_paths(tool: Tool) -> None:
    """Of every kind and with every argument, all in one pool."""
    texts = [text for text in ACCEPTED if str(PATHS_MAX) not in text]
    expected = [as_json(path) for text in texts for path in ACCEPTED[text]]
    assert lines(tool(",".join(texts))) == expected


def test_tool_escapes_strings(tool: Tool) -> None:
    text = '/mnt/"\\"\udcff,nfs://h/%22%5c'
    assert lines(tool(text)) == [as_json(mount('/mnt/"\\"\udcff')), as_json(nfs("h", '/"\\'))]
    (path,) = lines(tool("--file", "/x/a\tb\n", NFSMULTI_POOLS="a:/x"))
    assert path["relative"] == "a\tb\n"


def test_tool_shows_the_column(tool: Tool) -> None:
    """Also behind the text; a tab is as wide as a blank there."""
    done = tool("/mnt/ä,nfs://h/x?uid=x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "nfsmulti-pool: column 23: uid is a number from 0 to 4294967294",
        "  /mnt/ä,nfs://h/x?uid=x",
        "                       ^",
    ]
    message, text, caret = tool("/mnt/\ta,").stderr.splitlines()
    assert "column 6" in message
    assert (text, caret.index("^")) == ("  /mnt/ a,", 7)


def test_tool_looks_a_name_up(tool: Tool) -> None:
    both = {"NFSMULTI_POOLS": "a:/n b:/o", "IOTRAP_MOUNT_POOLS": "a:/i c:/j"}
    assert [path["dir"] for path in lines(tool("a", **both))] == ["/n"]
    assert [path["dir"] for path in lines(tool("c", **both))] == ["/j"]
    done = tool("d", **both)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "nfsmulti-pool: NFSMULTI_POOLS: no pool is named 'd'; known: a b",
        "nfsmulti-pool: IOTRAP_MOUNT_POOLS: no pool is named 'd'; known: a c",
    ]


def test_tool_names_the_variable_at_fault(tool: Tool) -> None:
    done = tool("a", NFSMULTI_POOLS="b:/o", IOTRAP_MOUNT_POOLS="a:/i,")
    assert done.returncode == 2
    assert done.stderr.startswith("nfsmulti-pool: IOTRAP_MOUNT_POOLS: column 6: a path is missing")
    assert done.stderr.endswith("\n  a:/i,\n       ^\n")
    assert tool("a").stderr.count("not set") == 2


def test_tool_finds_the_pool_of_a_file(tool: Tool) -> None:
    found = lines(tool("--file", "/mnt/v33/d/f", IOTRAP_MOUNT_POOLS=ENV))
    assert [path["dir"] for path in found] == ["/mnt/v32", "/mnt/v33"]
    assert {path["relative"] for path in found} == {"d/f"}
    assert tool("--file", "/mnt/v34/f", IOTRAP_MOUNT_POOLS=ENV).returncode == 2


def test_tool_resolves(tool: Tool) -> None:
    text = "nfs://127.0.0.[1-2]/x,nfs://[::1]/x,/mnt/a"
    found = lines(tool("--resolve", text))
    assert [path.get("address") for path in found] == ["127.0.0.1", "127.0.0.2", "::1", None]
    done = tool("--resolve", "/mnt/a,nfs://127.0.0.1/x?proto=tcp6")
    assert done.returncode == 2
    assert "column 8: cannot resolve '127.0.0.1'" in done.stderr


def test_tool_help_version_and_usage(tool: Tool) -> None:
    for word, said in (("--help", r".*--resolve.*"), ("--version", r"nfsmulti \d+\.\d+\.\d+\n")):
        done = tool(word)
        assert (done.returncode, done.stderr) == (0, "")
        assert re.fullmatch(said, done.stdout, re.DOTALL)
    for args in ([], ["/a", "/b"], ["--file", "/x/f", "/a"], ["--wrong"]):
        done = tool(*args)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Usage:" in done.stderr


def test_tool_notices_a_full_disk(pool_tool: FilePath) -> None:
    with FilePath("/dev/full").open("w") as full:
        done = subprocess.run([pool_tool, "/a"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert b"No space left" in done.stderr
