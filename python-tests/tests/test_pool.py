# SPDX-License-Identifier: GPL-2.0-only
"""What a pool's text means and what is refused of it; spreads and terms.

Any bytes at all are read or refused in good order by python-tests/fuzz/. Where stripes lie is in
test_scenarios.py, what each direction and each job has in test_engine_pool.py.
"""

import errno
import json
import os
import random
import re
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from engine_c import CONSTANTS, CData, ffi, terms_rows, text, zeros
from simulated import BLOCK, BLOCKS, SECOND, Scenarios, on

from servers.scripted import Nfs

_PATHS_MAX = CONSTANTS.POOL_PATHS_MAX
_ENV = "e4a:/mnt/v32/,/mnt/v33/ e4b:/mnt/v42/"

Json = dict[str, Any]
Tool = Callable[..., subprocess.CompletedProcess[str]]
Words = tuple[str, ...]


@pytest.fixture(scope="module")
def tool(pool_tool: Path) -> Tool:
    clean = {k: v for k, v in os.environ.items() if not k.endswith("_POOLS")}

    def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
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


def lines(done: subprocess.CompletedProcess[str]) -> list[Json]:
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def refusal(done: subprocess.CompletedProcess[str]) -> tuple[int, str]:
    """Return the column, 0 for none, and the reason, which is not cut short."""
    assert (done.returncode, done.stdout) == (2, "")
    found = re.match(r"nfsmulti-pool: (?:[A-Z_]+: )?(?:column (\d+): )?(.*)", done.stderr)
    assert found
    assert len(os.fsencode(found[2])) < 279
    return int(found[1] or 0), found[2]


def at_mark(marked: str) -> tuple[str, int]:
    """Take the '^' out of a text; give the text and the column, in bytes, where it stood.

    A text without a mark is refused as a whole, in column 0.
    """
    before, mark, after = marked.partition("^")
    return before + after, len(os.fsencode(before)) + 1 if mark else 0


def check_refused(
    cases: Mapping[str, Words], ask: Callable[[str], subprocess.CompletedProcess[str]]
) -> None:
    for marked, words in cases.items():
        asked, column = at_mark(marked)
        told, reason = refusal(ask(asked))
        assert told == column, marked
        assert not [word for word in words if word not in reason], marked


# --- what is read, and what is refused ---


def mount(directory: str) -> Json:
    return {"kind": "mount", "label": directory, "dir": directory}


def nfs(host: str, export: str = "/x", **args: object) -> Json:
    port = f":{args['port']}" if "port" in args else ""
    shown = f"[{host}]" if ":" in host else host
    label = f"{shown}{port}:{export}"
    return {"kind": "nfs", "label": label, "host": host, "export": export, **args}


ACCEPTED: dict[str, list[Json]] = {
    "/": [mount("/")],
    "/mnt/a//,/mnt/b/": [mount("/mnt/a"), mount("/mnt/b")],
    "/mnt/..a,/mnt/b..": [mount("/mnt/..a"), mount("/mnt/b..")],
    "/mnt/a%20b,/mnt/c d,/mnt/e?f=1": [mount(d) for d in ("/mnt/a%20b", "/mnt/c d", "/mnt/e?f=1")],
    # --- hosts, exports and ports ---
    "nfs://server/": [nfs("server", "/")],
    "nfs://a-b_c.example./x": [nfs("a-b_c.example.")],
    f"nfs://{'h' * 253}/x": [nfs("h" * 253)],
    "nfs://[::ffff:10.0.0.1]:2049/": [nfs("::ffff:10.0.0.1", "/", port=2049)],
    "nfs://[fe80::1%eth0]/x,nfs://[fe80::1%25eth0]/x": [nfs("fe80::1%eth0")] * 2,
    "nfs://[fe80::1%25]/x": [nfs("fe80::1%25")],
    "nfs://h/a%2Cb%3fc%25,/mnt/a": [nfs("h", "/a,b?c%"), mount("/mnt/a")],
    "nfs://h:2050/x?nfsport=2050&port=2050": [nfs("h", port=2050)],
    # --- ranges ---
    "nfs://10.0.0.[1-3]/x": [nfs(f"10.0.0.{i}") for i in (1, 2, 3)],
    "nfs://[1-2]a/x": [nfs("1a"), nfs("2a")],
    "nfs://n[08-11].lab/x": [nfs(f"n{i}.lab") for i in ("08", "09", "10", "11")],
    "nfs://n[000-1]/x": [nfs("n000"), nfs("n001")],
    "nfs://n[4294967295-4294967295]/x": [nfs("n4294967295")],
    f"nfs://n[1-{_PATHS_MAX}]/x": [nfs(f"n{i}") for i in range(1, _PATHS_MAX + 1)],
    # --- arguments ---
    "nfs://h:1/x?mountport=2&rdmaport=3&proto=rdma6&vers=4.2&rsize=4&wsize=5&timeo=6&retrans=7&soft"
    "&uid=0&gid=4294967294&localaddr=10.0.0.7+fe80::1%25eth0": [
        nfs(
            "h", port=1, mountport=2, rdmaport=3, proto="rdma6", version="4.2", rsize=4, wsize=5,
            timeo=6, retrans=7, soft=True, uid=0, gid=4294967294,
            localaddr="10.0.0.7+fe80::1%eth0",
        )
    ],
    "nfs://h/x?uid=2147483647+&gid=0+&localaddr=10.0.1.0/24+10.0.0.1-10.0.0.9+fd00::/64": [
        nfs(
            "h", uid="2147483647+", gid="0+",
            localaddr="10.0.1.0/24+10.0.0.1-10.0.0.9+fd00::/64",
        )
    ],
    "nfs://h/x?version=3&vers=3&nfsvers=3": [nfs("h", version="3")],
    "nfs://h/x?rsize=65536k&wsize=1M": [nfs("h", rsize=64 << 20, wsize=1 << 20)],
    "nfs://10.0.0.255/%C3%A4?xprtsec=mtls&tls_ca=/a&tls_cert=%2Fb&tls_key=/c&tls_name=nas.lab": [
        nfs(
            "10.0.0.255", "/\u00e4", xprtsec="mtls", tls_ca="/a", tls_cert="/b", tls_key="/c",
            tls_name="nas.lab",
        )
    ],
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


def test_accepted(tool: Tool) -> None:
    """Each alone, and in one pool those that do not fill one."""
    assert {pool: lines(tool(pool)) for pool in ACCEPTED} == ACCEPTED
    several = [pool for pool in ACCEPTED if str(_PATHS_MAX) not in pool]
    assert lines(tool(",".join(several))) == [one for pool in several for one in ACCEPTED[pool]]


# '^' marks the column; the reason must contain each of the words.
_REFUSED: dict[str, Words] = {
    # --- lists ---
    "^": ("path is missing", "nfs://HOST/EXPORT"),
    "/mnt/a,^": ("path is missing",),
    "/mnt/a,^ /mnt/b": ("blank before", "remove"),
    "/mnt/ä^ ,/mnt/b": ("blank after", "remove"),
    "/mnt/a,^\n/mnt/b": ("control character",),
    # --- directories ---
    "^mnt/a": ("'mnt/a'", "absolute directory"),
    "/mnt/^../etc": ("'..'",),
    "^/" + "x" * 4095: ("directory", "4096"),
    # --- schemes ---
    "^nfs4://h/x": ("unknown scheme 'nfs4://'", "nfs://HOST/EXPORT?version=4.1"),
    "^exec:true": ("absolute directory",),
    "^10.0.0.1:/x": ("write nfs://10.0.0.1/x: HOST:/EXPORT is mount's syntax",),
    # --- exports ---
    "nfs://h^": ("export is missing", "nfs://HOST/"),
    "nfs://h/a^%2/b": ("two hexadecimal digits", "%25"),
    "nfs://h/a^%00b": ("%00", "control character"),
    "nfs://h^/" + "x" * 1024: ("export", "1024"),
    # --- hosts ---
    "nfs://^/x": ("host is missing",),
    "nfs://^fe80::1/x": ("IPv6", "brackets"),
    "nfs://^[fe80::1/x": ("never closed",),
    "nfs://[^fe80:::1]/x": ("'fe80:::1'", "not an IPv6 address"),
    "nfs://[::1]^2049/x": ("no such character", ":PORT"),
    "nfs://h^öst/x": ("no such character",),
    "nfs://^10.0.0.256/x": ("'10.0.0.256'", "not an IPv4 address"),
    "nfs://^" + "h" * 254 + "/x": ("host's name", "253"),
    "nfs://^h[" + "0" * 253 + "-1]/x": ("host's name", "253"),
    # --- ranges ---
    "nfs://^10.0.0.[254-256]/x": ("'10.0.0.256'", "not an IPv4 address"),
    "nfs://10.0.0.^[4-1]/x": ("counts upwards", "[1-4]"),
    "nfs://n^[]/x": ("[FIRST-LAST]", "IPv6"),
    "nfs://n[1-2]r^[1-2]/x": ("second '['", "list the paths"),
    "^nfs://n[0-1024]/x": ("more than 1024 paths",),
    "/mnt/a,^nfs://n[1-1024]/x": ("more than 1024 paths",),
    "nfs://n[1-1024]/x,^/mnt/a": ("more than 1024 paths",),
    # --- ports ---
    "nfs://h:^/x": ("port", "1 to 65535", "nfs://HOST/EXPORT"),
    "nfs://h:^0/x": ("1 to 65535",),
    "nfs://h:^65536/x": ("1 to 65535",),
    "nfs://h:^18446744073709553665/x": ("1 to 65535",),
    # --- arguments ---
    "nfs://h/x?^": ("argument is missing",),
    "nfs://h/x?uid=1&^nconnect=4": ("a job option: --nconnect=4",),
    "nfs://h/x?^iodepth=4": ("unknown argument 'iodepth'", "nfsport", "localaddr", "gid"),
    "nfs://h/x?^" + "y" * 200: ("unknown argument 'yyyyyyyy", "...'", "nfsport", "gid"),
    "nfs://h/x?uid=1&^uid=1": ("uid", "twice"),
    "nfs://h/x?^nfsport": ("nfsport", "value"),
    "nfs://h/x?nfsport=^0": ("nfsport", "1 to 65535"),
    "nfs://h:2049/x?nfsport=^2050": ("2050", "contradicts", "2049"),
    "nfs://h/x?version=^4": ("version=4", "NFSv4.0", "use 4.1", "mount"),
    "nfs://h/x?nfsvers=^": ("nfsvers is 3, 4.1 or 4.2",),
    "nfs://h/x?version=4.1&vers=^4.2": ("vers=4.2", "contradicts"),
    "nfs://h/x?proto=^udp": ("tcp, tcp6, rdma or rdma6",),
    "nfs://h/x?proto=tcp&rdmaport=^1": ("rdmaport", "proto=rdma", "nfsport"),
    "nfs://h/x?proto=rdma&namespace=^rdma": ("namespace: it is gone", "names always go over TCP"),
    "nfs://h/x?gss_context=^job": ("gss_context: it is gone since 0.7.0", "leave it out"),
    "nfs://h/x?rsize=^0": ("rsize", "1 to 64m"),
    "nfs://h/x?wsize=^65537k": ("wsize", "1 to 64m"),
    "nfs://h/x?wsize=^4194304k": ("1 to 64m",),
    "nfs://h/x?wsize=^1g": ("k or m",),
    "nfs://h/x?timeo=^0": ("timeo", "1 to 6000", "tenths of a second"),
    "nfs://h/x?retrans=^1001": ("retrans", "0 to 1000"),
    "nfs://h/x?soft=^2": ("soft", "=1 or =0"),
    "nfs://h/x?hard&^soft": ("hard and soft", "contradict"),
    "nfs://h/x?uid=^4294967295": ("0 to 4294967294",),
    "nfs://h/x?uid=^2147483648+": ("up to 2147483647 and a plus sign",),
    "nfs://h/x?port=^7+": ("port is a number from 1 to 65535",),
    "nfs://h/x?localaddr=^10.0.0.1+": ("localaddr", "'+'"),
    "nfs://h/x?tls_ca=^": ("tls_ca needs a value",),
    "nfs://h/x?sec=^krb": ("sec is sys, krb5, krb5i or krb5p",),
    "nfs://h/x?^security=krb5": ("unknown argument 'security'", " sec "),
    "nfs://h/x?localaddr=^eth0": ("'eth0'", "localaddr"),
    "nfs://h/x?localaddr=^" + "1" * 300: ("localaddr",),
    "nfs://h/x?localaddr=^10.0.0.1-10.0.0.300": ("not a range",),
    "nfs://h/x?localaddr=^10.0.1.1/24": ("'10.0.1.1/24' is not a prefix",),
}


def test_refused(tool: Tool) -> None:
    check_refused(_REFUSED, tool)
    assert "namespace" not in refusal(tool("nfs://h/x?nconnect=4"))[1], "it is gone"


# ---- names, and pools of the environment ----


def test_by_name(tool: Tool) -> None:
    cases: list[tuple[str, str, list[Json]]] = [
        (_ENV, "e4a", [mount("/mnt/v32"), mount("/mnt/v33")]),
        (_ENV, "e4b", [mount("/mnt/v42")]),
        (" \t\n a:/x\r\n\v\f b:/y \n", "b", [mount("/y")]),
        ("a:nfs://[::1]:1/x,/y b:/y", "a", [nfs("::1", port=1), mount("/y")]),
        ("nfs:/mnt/a", "nfs", [mount("/mnt/a")]),
        ("Z-9_.x:/mnt/a", "Z-9_.x", [mount("/mnt/a")]),
        ("a:relative b:/y", "b", [mount("/y")]),
        ("ab:/x a:/y abc:/z", "a", [mount("/y")]),
    ]
    for env, name, paths in cases:
        assert lines(tool(name, NFSMULTI_POOLS=env)) == paths, env


_ENV_REFUSED: dict[str, Words] = {
    "a:^": ("path is missing",),
    "b:/x a:/mnt/a,^ c:/y": ("path is missing",),
    "a:/mnt/a ^/mnt/b": ("'/mnt/b'", "NAME:PATH,PATH", "white space"),
    "a:/x ^b": ("'b'", "NAME:PATH,PATH"),
    "a:/x ^4b:/y": ("a letter first",),
    "a:/x ^\u00e4b:/y": ("a letter first",),
    "a:/x ^_b:/y": ("a letter first",),
    "a:/x ^:/y": ("':/y'", "NAME:PATH,PATH"),
    "a:/x ^nfs://h/x": ("name is missing", "NAME:nfs://"),
    "a:/x b:/y ^a:/x": ("'a'", "twice"),
    "b:/x a:^nfs4://h/x": ("unknown scheme",),
    "a:/mnt/^\x01": ("control character",),
}


def test_environment_refused(tool: Tool) -> None:
    check_refused(_ENV_REFUSED, lambda env: tool("a", NFSMULTI_POOLS=env))


def test_an_unknown_name_is_told_with_those_there_are(tool: Tool) -> None:
    """As many whole names as there is room for."""
    for count in range(80):
        names = [f"pool{i:02}" for i in range(count)]
        names[:1] = [f"{name}{'x' * (count % 7)}" for name in names[:1]]  # so that some just fit
        env = " ".join(f"{name}:/x" for name in names)
        column, reason = refusal(tool("e4c", NFSMULTI_POOLS=env))
        told = reason.partition("known: ")[2].split()
        assert (column, "'e4c'" in reason) == (0, True)
        assert told == (names or ["none"]) or (
            told == [*names[: len(told) - 1], "..."] and len(told) > 19
        )


def test_the_first_variable_that_knows_a_name_decides(tool: Tool) -> None:
    both = {"NFSMULTI_POOLS": "a:/n b:/o", "IOTRAP_MOUNT_POOLS": "a:/i c:/j"}
    assert [path["dir"] for path in lines(tool("a", **both))] == ["/n"]
    assert [path["dir"] for path in lines(tool("c", **both))] == ["/j"]
    done = tool("d", **both)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "nfsmulti-pool: NFSMULTI_POOLS: no pool is named 'd'; known: a b",
        "nfsmulti-pool: IOTRAP_MOUNT_POOLS: no pool is named 'd'; known: a c",
    ]
    done = tool("a", NFSMULTI_POOLS="b:/o", IOTRAP_MOUNT_POOLS="a:/i,")
    assert done.stderr.startswith("nfsmulti-pool: IOTRAP_MOUNT_POOLS: column 6: a path is missing")
    assert done.stderr.endswith("\n  a:/i,\n       ^\n")
    assert tool("a").stderr.count("not set") == 2


def test_by_file(tool: Tool) -> None:
    for env, file, directories, relative in (
        (_ENV, "/mnt/v33/d/f", ["/mnt/v32", "/mnt/v33"], "d/f"),
        (_ENV, "/mnt/v42//d//f", ["/mnt/v42"], "d//f"),
        (_ENV, "//mnt///v42/f", ["/mnt/v42"], "f"),
        ("a:/mnt b:/mnt/v/", "/mnt/v/f", ["/mnt/v"], "f"),
        ("b:/mnt/v/ a:/mnt", "/mnt/v/f", ["/mnt/v"], "f"),
        ("a:/mnt b:/mnt/v/", "/mnt/v2/f", ["/mnt"], "v2/f"),
        ("a:/mnt,/mnt/v/d b:/mnt/v/", "/mnt/v/f", ["/mnt/v"], "f"),
        ("a:/mnt/v b:/mnt/v c:/mnt/v/d", "/mnt/v/d/f", ["/mnt/v/d"], "f"),
    ):
        found = lines(tool("--file", file, NFSMULTI_POOLS=env))
        assert [path["dir"] for path in found] == directories, (env, file)
        assert {path["relative"] for path in found} == {relative}, (env, file)


def test_by_file_refuses(tool: Tool) -> None:
    """The name; and of the environment two pools that hold the mount, or a malformed one.

    Where no pool has the file, the other variable is asked.
    """
    for file, others, words in (
        ("/mnt/v320/f", True, ("no pool", "'/mnt/v320/f'")),
        ("/mnt", True, ("no pool",)),
        ("f", True, ("no pool",)),
        ("/mnt/v32", False, ("'/mnt/v32'", "no file")),
        ("/mnt/v32//", False, ("no file",)),
        ("/mnt/v32/../../etc/shadow", False, ("'..'",)),
    ):
        check_refused({file: words}, lambda file: tool("--file", file, NFSMULTI_POOLS=_ENV))
        done = tool("--file", file, NFSMULTI_POOLS=_ENV)
        assert ("IOTRAP_MOUNT_POOLS: not set" in done.stderr) == others, file
    of_pools: dict[str, Words] = {
        "a:/mnt/v c:/mnt ^b:/mnt/w,/mnt/v/": ("'a' and 'b'",),
        "a:/mnt/v b:^smb://h/x": ("unknown scheme",),
    }
    check_refused(of_pools, lambda env: tool("--file", "/mnt/v/f", NFSMULTI_POOLS=env))


# ---- a job's file names ----


def parsed(lib: CData, pool: str) -> CData:
    made = ffi.gc(zeros("pool"), lib.pool_free)
    assert lib.pool_parse(os.fsencode(pool), made, zeros("pool_error")) == 0
    return made


def test_relative_name(testlib: CData) -> None:
    for pool, marked, expected in (
        ("nfs://h/x", "f", "f"),
        ("nfs://h/x", "//d/f", "d/f"),
        ("/mnt/a,/mnt/b", "/mnt/b/f", "f"),
        ("/mnt/a", "/mnt//a//d/f", "d/f"),
        ("/mnt,/mnt/a", "/mnt/a/f", "f"),
        ("nfs://h/x,/mnt/a", "/mnt/a/f", "f"),
        ("/", "/d/f", "d/f"),
        ("nfs://h/x", "x" * 4095, "x" * 4095),
        ("nfs://h/x", "^", ("''", "no file")),
        ("nfs://h/x", "//^", ("no file",)),
        ("/mnt/a", "/mnt/a^", ("'/mnt/a'", "no file")),
        ("nfs://h/x", "^..", ("'..'",)),
        ("nfs://h/x", "d/^../f", ("'..'",)),
        ("/mnt/a", "/mnt/a/^../b/f", ("'..'",)),
        ("/mnt/a", "^/mnt/b/f", ("'/mnt/b/f'", "none of the pool's mounts", "/mnt/a")),
        ("nfs://h/x,/mnt/a", "^/x/f", ("none of the pool's mounts", "/mnt/a")),
        ("nfs://h/x", "x" * 4095 + "^x", ("4096",)),
    ):
        file, column = at_mark(marked)
        name, rest, error = (
            ffi.new("char[]", file.encode()),
            ffi.new("const char **"),
            zeros("pool_error"),
        )
        code = testlib.pool_relative_name(parsed(testlib, pool), name, rest, error)
        if isinstance(expected, str):
            assert (code, text(rest[0])) == (0, expected), (pool, file)
            continue
        assert (code, error.column) == (-errno.EINVAL, column), (pool, file)
        assert all(word in text(error.reason) for word in expected), (pool, file)


# ---- resolving ----


def test_as_many_paths_are_resolved_as_a_pool_takes(testlib: CData) -> None:
    """A failure leaves the pool as it was. What a host is resolved to is in test_engine_pool.py."""

    def resolved(written: str, found: int = _PATHS_MAX) -> tuple[int, int, int]:
        def most(_host: CData, _family: int, addrs: CData, room: int, *_why: CData) -> int:
            for at in range(min(found, room)):
                addrs[at].ss_family = socket.AF_INET
            return min(found, int(room))

        pool, error = parsed(testlib, written), zeros("pool_error")
        code = testlib.pool_resolve(pool, ffi.callback("pool_resolver", most), error)
        return int(code), int(error.column), int(pool.count)

    assert resolved("nfs://most/x") == (0, 0, _PATHS_MAX)
    assert resolved("nfs://most/x,/mnt/a") == (-errno.EINVAL, 14, 2)
    assert resolved("/mnt/a,nfs://most/x") == (-errno.EINVAL, 8, 2)
    assert resolved("/mnt/a,nfs://none/x", 0) == (-errno.EHOSTUNREACH, 8, 2)
    assert resolved("nfs://starving/x", -errno.ENOMEM) == (-errno.ENOMEM, 0, 1)


def test_tool_resolves(tool: Tool) -> None:
    pool = "nfs://127.0.0.[1-2]:7/x?uid=7&localaddr=127.0.0.9,nfs://[::1]/x,/mnt/a"
    of_range: Json = {"port": 7, "uid": 7, "localaddr": "127.0.0.9"}
    assert lines(tool("--resolve", pool)) == [
        *({**nfs(one, **of_range), "address": one} for one in ("127.0.0.1", "127.0.0.2")),
        {**nfs("::1"), "address": "::1"},
        mount("/mnt/a"),
    ]
    for proto in ("tcp6", "rdma6"):
        unresolved = f"/mnt/ä,^nfs://127.0.0.[1-2]/x?proto={proto}"
        refused = {unresolved: ("cannot resolve '127.0.0.1'",)}
        check_refused(refused, lambda pool: tool("--resolve", pool))


# ---- local addresses ----


def _ranges(lib: CData, *written: str) -> CData:
    ranges = ffi.new("struct address_range[]", len(written))
    for number, one in enumerate(written):
        assert (
            lib.address_range_read(one.encode(), len(one), ffi.addressof(ranges, number))
            == ffi.NULL
        )
    return ranges


def _in_turn(lib: CData, turns: Iterable[int], *written: str) -> list[str]:
    ranges, found = _ranges(lib, *written), []
    for turn in turns:
        address = lib.address_in_turn(ranges, len(written), turn)
        binary = bytes(ffi.buffer(address.rest))  # behind the port; IPv6: and behind flowinfo
        six = address.ss_family == socket.AF_INET6
        packed = binary[6:22] if six else binary[2:6]
        found.append(socket.inet_ntop(address.ss_family, packed))
    return found


def test_addresses_of_ranges_and_prefixes_have_their_turns(testlib: CData) -> None:
    for written, count, first, last in (
        ("10.0.0.254-10.0.1.2", 5, "10.0.0.254", "10.0.1.2"),
        ("0.0.0.0-255.255.255.255", 2**32 - 1, "0.0.0.0", "255.255.255.254"),
        ("10.0.1.0/24", 254, "10.0.1.1", "10.0.1.254"),
        ("10.0.0.4/31", 2, "10.0.0.4", "10.0.0.5"),
        ("10.0.0.5/32", 1, "10.0.0.5", "10.0.0.5"),
        ("0.0.0.0/0", 2**32 - 2, "0.0.0.1", "255.255.255.254"),
        ("fd00::/126", 2, "fd00::1", "fd00::2"),
        ("fd00::/64", 2**32 - 2, "fd00::1", "fd00::ffff:fffe"),
    ):
        ranges = _ranges(testlib, written)
        assert ranges[0].count == count, written
        assert _in_turn(testlib, (0, count - 1, count), written) == [first, last, first], written
    several = "10.0.0.7", "10.0.1.1-10.0.1.2", "10.0.2.8/30"
    expected = ["10.0.0.7", "10.0.1.1", "10.0.1.2", "10.0.2.9", "10.0.2.10"]
    assert _in_turn(testlib, range(11), *several) == [*expected * 2, expected[0]]


def test_what_is_no_range_of_addresses(testlib: CData) -> None:
    """A count of 0: it may be a name."""
    for written, count, why in (
        ("node-1", 0, "not an address"),
        ("1" * 45, 0, "not an address"),
        ("10.0.0.2-10.0.0.1", 1, "not a range"),
        ("10.0.0.1-fd00::1", 1, "not a range"),
        ("fd00::1-fd00::1:0:0:2", 1, "not a range"),
        ("10.0.0.1/33", 1, "not a prefix"),
        ("10.0.0.0/24x", 1, "not a prefix"),
        ("10.0.0.1/31", 1, "not a prefix"),
        ("fd00:0:0:0:1::/64", 1, "not a prefix"),
    ):
        found = zeros("address_range")
        assert why in text(testlib.address_range_read(written.encode(), len(written), found)), (
            written
        )
        assert found.count == count, written


# ---- nfsmulti-pool ----


def test_tool_escapes_strings(tool: Tool) -> None:
    pool = '/mnt/"\\"\udcff,nfs://h/%22%5c'
    assert lines(tool(pool)) == [mount('/mnt/"\\"\udcff'), nfs("h", '/"\\')]
    (path,) = lines(tool("--file", "/x/a\tb\n", NFSMULTI_POOLS="a:/x"))
    assert path["relative"] == "a\tb\n"


def test_tool_shows_the_column(tool: Tool) -> None:
    """Also behind the text; a tab is as wide as a blank there."""
    done = tool("/mnt/ä,nfs://h/x?uid=x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "nfsmulti-pool: column 23: uid is a number from 0 to 4294967294, or up to 2147483647 "
        "and a plus sign",
        "  /mnt/ä,nfs://h/x?uid=x",
        "                       ^",
    ]
    message, text, caret = tool("/mnt/\ta,").stderr.splitlines()
    assert "column 6" in message
    assert (text, caret.index("^")) == ("  /mnt/ a,", 7)


def test_tool_help_version_and_usage(tool: Tool) -> None:
    for word, said in (("--help", r".*--resolve.*"), ("--version", r"nfsmulti \d+\.\d+\.\d+\n")):
        done = tool(word)
        assert (done.returncode, done.stderr) == (0, "")
        assert re.fullmatch(said, done.stdout, re.DOTALL)
    for args in ([], ["/a", "/b"], ["--file", "/x/f", "/a"], ["--wrong"]):
        done = tool(*args)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Usage:" in done.stderr


# --- spread.h: which bytes of an I/O go over which connection ---

U32 = 2**32 - 1


def spread_of(policy: str, **members: Any) -> CData:
    values = {"policy": getattr(CONSTANTS, f"SPREAD_{policy}"), "step": 1, **members}
    return ffi.new("struct spread *", values)


def cut(
    lib: CData, spread: CData, offset: int, length: int, longest: int
) -> Iterator[tuple[int, int, int]]:
    """Cut an I/O as the engine does: (offset, length, connection) of each piece."""
    piece, at, end = zeros("spread_piece"), offset, offset + length
    while at < end:
        lib.spread_cut(spread, at, end - at, longest, at == offset, piece)
        yield piece.offset, piece.length, piece.connection
        assert piece.length
        at += piece.length


def test_pieces_max_is_what_the_worst_offset_needs(testlib: CData) -> None:
    for stripe_size, length, longest in product(range(1, 9), repeat=3):
        for policy in ("STRIPE", "JOB"):
            spread = spread_of(policy, count=3, stripe_size=stripe_size)
            needed = max(
                len(list(cut(testlib, spread, offset, length, longest)))
                for offset in range(stripe_size)
            )
            told = testlib.spread_pieces_max(spread, length, longest)
            assert told == needed, (policy, stripe_size, length, longest)


def test_stripes_beyond_32_bits_take_turns(testlib: CData) -> None:
    """2^32 stripes are no multiple of three connections."""
    spread = spread_of("STRIPE", first=7, step=2, count=3, stripe_size=4096)
    offset = (2**32 - 2) * 4096
    connections = [one for _, _, one in cut(testlib, spread, offset, 5 * 4096, 5 * 4096)]
    assert connections == [11, 7, 9, 11, 7]


def test_pieces_max_does_not_overflow(testlib: CData) -> None:
    one_byte_stripes = spread_of("STRIPE", count=2, stripe_size=1)
    huge_stripes = spread_of("STRIPE", count=2, stripe_size=2**64 - 1)
    assert testlib.spread_pieces_max(one_byte_stripes, U32, U32) == U32
    assert testlib.spread_pieces_max(huge_stripes, U32, 1) == U32
    assert testlib.spread_pieces_max(huge_stripes, U32, U32) == 2
    assert testlib.spread_pieces_max(spread_of("ROUNDROBIN", count=2), U32, 1) == U32


@pytest.mark.parametrize("count", [1, 2, 3, 8, 13, 64])
def test_queue_chooses_the_least_loaded(testlib: CData, count: int) -> None:
    """Of several the one that was given nothing for longest, as a look at all of them finds it."""
    loads, given_at, chance = [0] * count, [0] * count, random.Random(count)
    flying: list[tuple[int, int]] = []

    def least() -> int:
        return min(range(count), key=lambda i: (loads[i], given_at[i], i))

    load = ffi.gc(testlib.spread_load_new(count), testlib.spread_load_free)
    spread = spread_of("QUEUE", count=count, load=load)
    for turn in range(1, 1000):
        if flying and chance.random() < 0.4:
            connection, size = flying.pop(chance.randrange(len(flying)))
            size = -size
        else:
            size = 4096 * chance.randint(1, 4)
            connection = next(iter(cut(testlib, spread, turn, size, 4096)))[2]
            assert connection == least()
            given_at[connection] = turn
            flying.append((connection, size))
        testlib.spread_load_add(load, connection, size)
        loads[connection] += size
        assert testlib.spread_load_least(load) == least()


# --- in a job ---


@pytest.mark.parametrize("policy", ["ROUNDROBIN", "QUEUE"])
def test_blocks_take_idle_connections_in_turn(scenario: Scenarios, policy: str) -> None:
    """Each on one connection, whatever calls it is cut into; over three paths of two each."""
    number = getattr(CONSTANTS, f"SPREAD_{policy}")
    terms = {"paths": 3, "nconnect": 2, "depth": 1, "rsize": BLOCK // 4}
    ran = scenario(reads=True, spread=number, **terms)
    used = [
        {c.connection for c in ran.calls(Nfs.READ) if c.offset // BLOCK == n} for n in range(BLOCKS)
    ]
    addresses = [call.address for call in ran.calls(Nfs.READ)[::4]]
    assert len(ran.calls(Nfs.READ)) == 4 * BLOCKS
    assert len(set.union(*used[:6])) == 6
    assert used == (used[:6] * 3)[:BLOCKS]
    assert addresses == ([0, 1, 2] * BLOCKS)[:BLOCKS]


def test_queue_keeps_away_from_a_path_that_is_held_up(scenario: Scenarios) -> None:
    """The others go on with what is not stuck there."""
    queue = CONSTANTS.SPREAD_QUEUE
    held = on(Nfs.READ, {"delay": 10 * SECOND}, address=1)
    ran = scenario(held, reads=True, spread=queue, paths=3, depth=4)
    calls = ran.calls(Nfs.READ)
    assert len(calls) == BLOCKS
    assert len([call for call in calls if call.address == 1]) <= 2
    assert len([call for call in calls if call.answered < SECOND]) >= BLOCKS - 2


# --- terms.h: what the table of options must have, and what it decides ---

# What jobs that share paths may each have for themselves. setup.c compares their pools by itself.
_A_JOBS_OWN = {
    "pool", "nconnect", "nclients", "client_depth", "client_files", "client_start",
    "first_path", "spread",
    "spread_reads", "spread_writes", "stripe_size",
    "inline", "stable", "hold_writes", "busy_poll", "arrival_rate", "arrival_bw",
    "arrival_process", "arrival_spin", "arrival_batch", "meta_read", "meta_write", "meta_mix",
    "meta_verify", "require_version", "stats_file", "live_file", "trace",
}  # fmt: skip
_TEXTS = [ffi.new("char[]", word) for word in (b"first", b"second")]


def _members(lib: CData) -> list[CData]:
    return [term for term in terms_rows(lib) if term.kind != CONSTANTS.TERM_GONE]


def _place(term: CData, terms: CData) -> CData:
    """Return where a term's number is, or the address of its text."""
    is_text = term.kind in {CONSTANTS.TERM_TEXT, CONSTANTS.TERM_ADDRESSES}
    at = ffi.cast("char *", terms) + term.at
    return ffi.cast("char **" if is_text else "unsigned int *", at)


def _put(term: CData, terms: CData, which: int) -> None:
    """Give a term the first or the second of two values that it may have."""
    place = _place(term, terms)
    number = term.values[which].value if term.values[which].word else which
    place[0] = _TEXTS[which] if ffi.typeof(place) is ffi.typeof("char **") else number


def test_each_member_has_a_row(testlib: CData) -> None:
    """A member without one is silently no option."""
    rows = {term.at for term in terms_rows(testlib)}
    members = {name: field.offset for name, field in ffi.typeof("struct terms").fields}
    assert [name for name, at in members.items() if at not in rows] == ["pad", "given", "each"]


def test_a_paths_argument_wins_over_its_jobs_option(testlib: CData) -> None:
    """And the job's is what a path has that says nothing."""
    for term in _members(testlib):
        job, path = zeros("terms"), zeros("terms")
        _put(term, job, 0)
        _put(term, path, 1)
        silent = testlib.terms_over(path, job)
        assert _place(term, ffi.addressof(silent))[0] == _place(term, job)[0], text(term.word)
        testlib.term_give(ffi.addressof(term), path)
        own = testlib.terms_over(path, job)
        assert _place(term, ffi.addressof(own))[0] == _place(term, path)[0], text(term.word)


def test_jobs_that_differ_in_a_term_of_paths_share_none(testlib: CData) -> None:
    own = set()
    for term in _members(testlib):
        jobs = [zeros("terms"), zeros("terms")]
        for which, job in enumerate(jobs):
            testlib.terms_init(job)
            _put(term, job, which)
        one, other = map(testlib.terms_key, jobs)
        if ffi.string(one) == ffi.string(other):
            own.add(text(term.word))
    assert own == _A_JOBS_OWN
