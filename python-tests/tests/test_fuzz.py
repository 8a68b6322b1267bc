# SPDX-License-Identifier: GPL-2.0-only
"""Fuzzing of what reads bytes of servers and users: libFuzzer, under ASan and UBSan.

python-tests/fuzz/ gives each decoder a number of inputs, on all processors. A run that shall find
something takes longer; this one has an hour for each, which is five hours on two processors:

    NFSMULTI_FUZZ_SECONDS=3600 ./nfsmulti test --full -k fuzz

What they have learned stays in build/fuzz/NAME/corpus for the next run. An input that fails is kept
beside it; it is tried alone by

    cmake --build build/clang --target fuzz && build/clang/fuzz NAME build/fuzz/NAME/crash-...

and, once it is understood, stands among the seeds for good: a few inputs to begin with, most of
them sound, and the vectors of other tests.
"""

import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import test_codec
import test_pool
import test_wire
from conftest import missing

from nfsmulti.errors import MissingError
from nfsmulti.paths import BUILD, PYTHON_TESTS
from nfsmulti.processes import Process, find, run
from servers.rpc import mark, message, record, xdr

# Four times as many, which take most of a minute more, reach 2 % more branches than these.
_INPUTS = {
    "krb5_token": 40_000,
    "nfs3": 250_000,
    "pool": 4_000,
    "record": 1_000,
    "rpcsec_gss": 5_000,
}
_INPUTS_ELSE = 100_000
# Bytes; else 4096, or as many as the longest seed has. Each pool of a variable is compared with all
# before it: 4096 bytes of short ones take a second.
_LONGEST = {"environment": 200}
_WANTED = int(os.environ.get("NFSMULTI_FUZZ_SECONDS") or 0)
_SECONDS = _WANTED or 300  # a slow machine tries fewer
_BUILD_SECONDS = 900.0
_INPUT_SECONDS = 10  # for one input; more is a finding
_GRACE = 60.0  # to start, to read the corpus, to write the last words
_FEWEST = 1000  # inputs; a program that is stuck tries less
# What conftest.py sets for fio costs four inputs of five.
_ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=1", "LSAN_OPTIONS": ""}

# --- seeds ---

_XID = 0x01020304
_ATTRIBUTES = struct.pack(">I84x", 1)
_NOBODYS, _BROKEN, _AGAIN, _DROPPED = 1 << 31, 1 << 30, 1 << 29, 1 << 28


def _stream(records: bytes, sizes: Sequence[int] = (255,)) -> bytes:
    """Return a stream for record.c: the squares of 16 sizes cut it."""
    return bytes(sizes[i % len(sizes)] for i in range(16)) + records


def _message(head: int, bulk: int, kind: int = 0, rest: int = 0) -> bytes:
    """Return a message for record.c: a head of 8 bytes and more, bulk data, a rest."""
    return xdr(head - 8, bulk | kind) + bytes(head - 8) + bytes(bulk) + bytes(rest)


_RECORDS = (
    record(_message(128, 20000, _AGAIN, rest=40)) * 2 + record(_message(8, 0, _AGAIN)),
    record(_message(40, 300), (8, 0, 33)) + record(_message(8, 1), (1,)),
    record(_message(128, 20000, _DROPPED, rest=3), (9000,)) * 2 + record(_message(8, 3)),
    record(_message(200, 50, _NOBODYS)) + record(_message(8, 0, _BROKEN)),
    record(_message(128, 20000)) + record(_message(39000, 0)),  # a head longer than any
    mark(0) + mark(1 << 30, last=False),
)

# Directories' pages.
_READDIR3 = xdr(1, 0, 5, 2) + b"e4\0\0" + xdr(0, 3, 1, 0, 6, 5) + b"e4.13\0\0\0" + xdr(0, 4)
_READDIR4 = xdr(1, 0, 3, 2) + b"e4\0\0" + xdr(0, 0, 1, 0, 4, 2) + b"r5\0\0" + xdr(1, 0, 0)
_READDIR, _RENAME, _ACCESS, _SETATTR = 26, 29, 3, 34
_BODIES = [
    *((body.operation.value, body.result) for body in test_codec.BODIES),
    (_READDIR, xdr(_READDIR, 0) + b"verifier" + _READDIR4 + xdr(0, 1)),
    (_READDIR, xdr(_READDIR, 10027)),
    (_RENAME, xdr(_RENAME, 0) + 2 * xdr(1, 0, 2, 0, 3)),
    (_ACCESS, xdr(_ACCESS, 0, 63, 31)),
    (_SETATTR, xdr(_SETATTR, 13, 0)),
]


def _results() -> list[bytes]:
    """Return replies to compounds, whose operations fuzz/nfs.c knows by their places."""
    source = (PYTHON_TESTS / "fuzz/nfs.c").read_text().partition("operations[] = {")[2]
    names = re.findall(r"NFS4_(\w+)", source.partition("}")[0])
    numbers = test_codec.OPERATIONS
    places = {numbers[f"NFS4_{name}"]: place for place, name in enumerate(names)}
    seeds = [bytes(1) + xdr(10021, 0, 0)]
    for operation, result in _BODIES:
        if operation in places:
            status = int.from_bytes(result[4:8])
            seeds.append(bytes([1, places[operation]]) + xdr(status, 0, 1) + result)
    return seeds


def _token(choice: int, flags: int, extra: int = 0, rotation: int = 0) -> bytes:
    """Return a Wrap token for krb5_token.c, not sealed yet; an EC of 4096 lies."""
    outer, copy = (struct.pack(">4B2HQ", 5, 4, flags, 255, extra, rrc, 7) for rrc in (rotation, 0))
    return bytes([choice]) + outer + bytes(16) + b"plaintext" + bytes(extra % 4096) + copy


# RPCSEC_GSS: the reply that makes the client's context, and those to its call.


def _some(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def _init(window: int = 5, handle: bytes = b"ctx1", major: int = 1) -> bytes:
    """Return the reply that makes a context; the window by its place in fuzz/rpcsec_gss.c."""
    proved, fields, minor = 1, 1, 0
    head = bytes([window, proved, fields]) + _some(handle)
    return head + bytes([major, minor]) + _some(b"a token")


def _reply(form: int, number: int = 0) -> bytes:
    """Return a reply to the call, whose verifier is of its latest number or the one before."""
    proved = 1
    return bytes([number, proved, form]) + _some(b"results of a call")


_FOREIGN_REPLY = bytes([0, 0, 6]) + _some(bytes(28)) + b"\3" + _some(b"results")
_CLIENTS = (
    *(_init() + _reply(form) for form in range(4)),
    _init() + _FOREIGN_REPLY + _reply(3, 1),
    _init() + _reply(3, 2) + _reply(3),
    *(_init(window=window) for window in range(10)),
    _init(handle=bytes(129)),
    _init(major=128),
)

# TLS: how fuzz/tls.c is to read what follows.
_RECORD, _WITHOUT_TYPE, _, _, _NONE = range(5)
_ALERT, _HANDSHAKE = 21, 22
_TICKET, _KEY_UPDATE = xdr(4 << 24 | 9) + bytes(9), xdr(24 << 24 | 1) + b"\0"


def _said(form: int, choice: int, what: bytes = b"") -> bytes:
    return bytes([form, choice]) + what


_DATA_PATH = ("READ", "WRITE", "COMMIT")  # as fuzz/nfs.c has them

_SEEDS: dict[str, tuple[bytes, ...]] = {
    "environment": (
        b"e4a:/mnt/v32/,/mnt/v33/ e4b:/mnt/v42/\0e4b",
        b"e4a:/mnt/v32/,/mnt/v33/ e4b:/mnt/v42/\0/mnt/v33/dir/file",
        b"lab:nfs://10.0.0.[1-2]/x\t\ne4a:/\0nobody",
    ),
    "krb5_token": (
        bytes(1) + b"\4\4\0" + b"\xff" * 5 + bytes(20),
        *(_token(16 + choice, 2 + 4 * (choice % 2)) for choice in range(8)),
        *(_token(16 + choice, 2, extra, 40) for choice in (0, 4) for extra in (0, 7, 60, 4096)),
        *(_token(24 + choice, 3 + 4 * choice) for choice in (0, 1)),
    ),
    "message": tuple(message(_XID, rest) for rest in test_codec.RPC_REPLIES),
    "nfs3": (
        *(
            bytes([_DATA_PATH.index(name)]) + sent
            for name, sent, *_ in test_codec.results()
            if name in _DATA_PATH
        ),
        b"\x07" + xdr(0) + _ATTRIBUTES + b"verifier" + _READDIR3 + xdr(0, 1),
        b"\x07" + xdr(10003) + bytes(4),
    ),
    "nfs4": tuple(_results()),
    "pool": (
        b"/mnt/a,/mnt/b/\0/mnt/b/dir/file",
        *(pool.encode() + b"\0/file" for pool in test_pool.ACCEPTED if len(pool) < 300),
        *(b"nfs://", b"nfs://[", b"nfs://[%", b"nfs://h/%", b"nfs://h/x?uid=%"),
        b"/mnt/a\0/mnt/a/" + b"x" * 5000,
    ),
    "record": (
        *(_stream(records, sizes) for records in _RECORDS for sizes in ((255,), (0, 3, 60))),
    ),
    "rpcrdma": (
        *(sent for sent, _ in test_wire.REPLIES.values()),
        *(sent for sent, _ in test_wire.REFUSED.values()),
        bytes.fromhex("f6ab0e18 01 01 03 3f"),
    ),
    "rpcsec_gss": (*(bytes([choice]) + client for choice in range(3) for client in _CLIENTS),),
    "tls": (
        *(_said(_RECORD, _ALERT, alert) for alert in (b"\1\0", b"\2\x74")),
        *(_said(_RECORD, _HANDSHAKE, said) for said in (_TICKET * 2 + _KEY_UPDATE, _TICKET[:-1])),
        *(_said(form, _HANDSHAKE, _TICKET) for form in (_WITHOUT_TYPE, _NONE)),
    ),
}


# --- fuzzing ---

Fuzzer = Future[str]  # what it says

pytestmark = [pytest.mark.full, pytest.mark.timeout(_SECONDS + 2 * _GRACE)]


def _fuzz(programs: Path, name: str, running: ExitStack) -> str:
    """Run a fuzzer, which `running` may end early; give what it said. Fails where it found any."""
    folder = BUILD / "fuzz" / name
    corpus, seeds, log = folder / "corpus", folder / "seeds", folder / "log"
    for one in (corpus, seeds):
        one.mkdir(parents=True, exist_ok=True)
    for i, seed in enumerate(_SEEDS[name]):
        (seeds / str(i)).write_bytes(seed)
    options = [
        f"-max_total_time={_SECONDS}",
        f"-timeout={_INPUT_SECONDS}",
        f"-artifact_prefix={folder}/",
        "-print_final_stats=1",
        f"-max_len={_LONGEST.get(name, 0)}",
    ]
    if not _WANTED:
        options.append(f"-runs={_INPUTS.get(name, _INPUTS_ELSE)}")
    argv = [str(programs / "fuzz"), name, *options, str(corpus), str(seeds)]
    with log.open("wb") as output:
        process = Process(argv, env=_ENVIRONMENT, stdout=output, stderr=output)
    status = running.enter_context(process).wait(_SECONDS + _GRACE)
    said = log.read_text(errors="replace")
    if status != 0:
        how = "did not end" if status is None else f"ended with status {status}"
        pytest.fail(f"fuzz {name} {how}\n{said[-6000:]}", pytrace=False)
    return said


def _fuzzed(item: pytest.Item) -> str | None:
    """Return the decoder that a test of this module is about."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return params.get("decoder") if item.path == Path(__file__) else None


@pytest.fixture(scope="module")
def fuzzers(request: pytest.FixtureRequest, clang_build: Path) -> Iterator[Mapping[str, Fuzzer]]:
    """Yield the fuzzers of the tests that are to run; as many work as there are processors."""
    resources = run([find("clang"), "-print-resource-dir"], timeout=_GRACE).check().stdout.strip()
    if not any(Path(resources).rglob("libclang_rt.fuzzer*")):
        missing(MissingError("libFuzzer is not installed", "apt-get install libclang-rt-dev"))
    processors = os.cpu_count() or 1
    make = ["cmake", "--build", str(clang_build), "--target", "fuzz", "--parallel"]
    run([*make, str(processors)], timeout=_BUILD_SECONDS).check()
    names = [name for item in request.session.items if (name := _fuzzed(item))]
    with ThreadPoolExecutor(processors) as pool, ExitStack() as running:
        yield {name: pool.submit(_fuzz, clang_build, name, running) for name in names}
        pool.shutdown(wait=False, cancel_futures=True)


@pytest.mark.parametrize("decoder", _SEEDS)
def test_fuzz(fuzzers: Mapping[str, Fuzzer], decoder: str) -> None:
    said = fuzzers[decoder].result()
    tried = re.search(r"^stat::number_of_executed_units: *(\d+)$", said, re.MULTILINE)
    assert tried, said[-2000:]
    assert int(tried[1]) >= _FEWEST


def test_every_fuzzer_has_seeds() -> None:
    main = (PYTHON_TESTS / "fuzz/main.c").read_text()
    assert set(re.findall(r"fuzz_(\w+)}", main)) == set(_SEEDS)
