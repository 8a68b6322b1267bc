# SPDX-License-Identifier: GPL-2.0-only
"""Bad input: one clear line, a status that is not 0, and nothing left behind.

How pools are refused is in test_pool.py and test_engine_pool.py, what servers refuse in
test_refusals.py, and reading beyond the end of a file in test_engine_io.py.
"""

import random
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from conftest import started_lab
from engine_helpers import (
    Place,
    catches,
    done,
    empty,
    ends,
    eventually,
    failed_io,
    family,
    in_memory,
    place_in_lab,
    refused,
    said,
    sections,
    sleeps,
)
from lab_faults import FaultKind, Faults
from scripted_jobs import NEVER, Case, Outcome, Run, case, runs
from slow_machine import Within

from nfsmulti.fiorun import Engine, FioProcess, Option
from nfsmulti.lab import Lab, LabConfig
from nfsmulti.machine import versions
from nfsmulti.processes import run
from servers.scripted import DATA, Mount, ScriptedServer, on

pytestmark = pytest.mark.sanitized

_V41 = "nfs://127.0.0.1/x?version=4.1"
_TREE: Mapping[str, Any] = {
    "metadata": 1, "rw": "write", "bs": 1, "size": 300, "filename": "tree",
}  # fmt: skip
_CLOCK: Mapping[str, Any] = {
    "rw": "randread", "iodepth": 8, "lat_percentiles": 1, "arrival_rate": 2000,
}  # fmt: skip
_RATES = "from 1 to 10000000"
_SHORT_OF_FILES = ["sh", "-c", 'ulimit -n 67; exec "$@"', "sh"]
_NO_TLS = "have no effect without TLS: give xprtsec=tls or mtls too"
_NO_KERBEROS = "principal=, keytab=, ccache= and server_principal= need Kerberos: give security="

# What the jobs of a group have, and a word of each refusal; what each has beside that, and words.
_Row = tuple[Mapping[str, Any], *tuple[str, ...]]
_Groups = Mapping[str, tuple[Mapping[str, Any], str, list[_Row]]]
_BEFORE: _Groups = {
    "any": ({}, "", [
        ({"rw": "trim"}, "rw=trim: NFSv3 and NFSv4.1 have no operation that trims", "use reads"),
        ({"rw": "randtrimwrite"}, "rw=randtrimwrite: NFSv3", "use reads and writes"),
        ({"verify": "crc32c", "trim_percentage": 50, "trim_backlog": 4}, "trim_percentage: NFSv3"),
        ({"fill_device": 1}, "fill_device", "size="),
        ({"read_iolog": "/etc/hostname", "read_iolog_chunked": 1}, "_chunked", "leave it out"),
        ({"rw": "read", "pre_read": 1}, "pre_read", "stonewall"),
        # From 4 GiB on, fio itself dies of its blocks.
        ({"bs": "4g", "size": "2t", "spread": "stripe"}, "bs"),
        ({"wsize": -1}, "wsize=-1 is negative"),
        ({"localaddr": "::1"}, "localaddr=::1"),
        ({"localaddr": "127.0.0.8++127.0.0.9"}, "localaddr=127.0.0.8++127.0.0.9"),
        ({"client_depth": 2}, "give nclients= too"),
        ({"client_start": 9}, "client_start= are for many clients: give nc"),
        ({"client_files": "own"}, "client_files= and client_start= are for many clients"),
        ({"client_files": "own", "nclients": 2, "nrfiles": 1}, "give nrfiles= as nclients="),
        ({"url": {"uid": "10000+"}}, "uid=10000+ is for many clients: give nclients= too"),
        ({"reconnect": "jitter", "failover": 1}, "a path is given up: leave reconnect= out"),
        ({"reconnect": "linux", "failover": 1}, "a path is given up: leave reconnect= out"),
    ]),
    "metadata": (_TREE, "metadata=1", [
        ({"verify": "crc32c", "bs": "4k", "size": "40k"}, "verify="),
        ({"bs": "1,2"}, "bs"),
        ({"bsrange": "1-4"}, "bs"),
        ({"unlink": 1}, "meta_write=remove"),
        ({"hold_writes": "1m"}, "hold_writes"),
        ({"read_iolog": "/etc/hostname"}, "read_iolog="),
        ({"rw": "randrw"}, "a job of their own"),
        ({"rw": "randrw", "meta_write": "rename"}, "meta_write=setattr"),
        ({"rw": "trimwrite"}, "use rw=trim"),
        ({"rw": "trim", "meta_write": "rename"}, "removes entries: set meta_write=rmdir"),
        ({"rw": "trim", "meta_verify": 1}, "a job that only reads"),
        ({"rw": "trim", "bs": "1,1,2"}, "bs"),
        ({"meta_verify": 1}, "a job that only reads"),
        ({"meta_verify": 1, "rw": "read", "meta_read": "access"}, "getattr and lookup"),
        ({"meta_verify": 1, "rw": "randread", "meta_mix": "getattr:1"}, "no meta_mix"),
        ({"pool": "/tmp,{}"}, "/tmp: ", "gone since 0.7.0", "fio's filecreate, filestat and"),
        ({"metadata": 0, "meta_verify": 1}, "need metadata=1"),
        ({"metadata": 0, "meta_mix": "open:1"}, "need metadata=1"),
    ]),
    "meta_mix": ({**_TREE, "rw": "randrw"}, "meta_mix=", [
        ({"meta_mix": "getattr"}, '"getattr"', "getattr:70,lookup:20"),
        ({"meta_mix": "getattr:0,create:1"}, '"getattr:0"', "from 1 to"),
        ({"meta_mix": "getattr:99999999999999999999"}, "from 1 to"),
        ({"meta_mix": "getattr:1,rename:1"}, '"rename:1"', "operation of a mix"),
        ({"meta_mix": "getattr:1,getattr:2"}, '"getattr:2"', "twice"),
        ({"meta_mix": "getattr:1,create:1", "rw": "randread"}, "rw=randrw", "rw=randread"),
        ({"meta_mix": "getattr:1"}, "need rw=randread"),
        ({"meta_mix": "create:1"}, "need rw=randwrite"),
        ({"meta_mix": "getattr:1,create:1", "rwmixread": 60}, "=50", "rwmixread=60"),
        ({"meta_mix": "getattr:1,create:1", "rwmixwrite": 60}, "=50", "rwmixread=40"),
        ({"meta_mix": "getattr:999,create:1"}, "999 of 1000", "one in a hundred"),
        ({"meta_mix": "getattr:1,create:1", "meta_read": "lookup"}, "leave meta_read="),
    ]),
    "a clock": (_CLOCK, "", [
        ({"arrival_rate": 0}, "arrival_rate=0", _RATES),
        ({"arrival_rate": 10_000_001}, "arrival_rate=10000001", _RATES),
        ({"arrival_rate": None, "arrival_bw": 0}, "arrival_bw=0", "from 1"),
        ({"arrival_rate": "100,200"}, "=100,200", "all directions together"),
        ({"arrival_rate": "50%"}, "arrival_rate=50%", "from 1"),
        ({"arrival_bw": "1m"}, "arrival_rate with arrival_bw", "one of them"),
        ({"rate": "1m"}, "arrival_rate with rate", "leave them out", "arrival_bw="),
        ({"rate_min": "1m"}, "rate_min", "leave them out"),
        ({"rate_iops": 100}, "arrival_rate with rate_iops", "leave them out"),
        ({"thinktime": 100}, "arrival_rate with thinktime", "leave it out"),
        ({"flow": 1}, "arrival_rate with flow", "leave it out"),
        ({"latency_target": "1ms"}, "with latency_target", "leave it out"),
        ({"write_iolog": "/dev/null"}, "with write_iolog", "leave it out"),
        ({"read_iolog": "/dev/null"}, "with read_iolog", "leave one out"),
        ({"rw": "randrw", "verify": "crc32c"}, "with verify", "only writes"),
        ({"iodepth_batch_complete_min": 0}, "complete_min=0", "at least 1"),
        ({"iodepth_low": 2}, "with iodepth_low", "leave it out"),
        ({"disable_lat": 1}, "with disable_lat", "leave it out"),
        ({"disable_slat": 1}, "with disable_slat", "leave it out"),
        ({"gtod_reduce": 1}, "gtod_reduce", "leave it out"),
        ({"arrival_batch": 20}, "arrival_batch=20: give arrival_rate= or arrival_bw=, and rx_time"),
    ]),
    "many clients": ({"nclients": 4}, "", [
        ({"nconnect": 2}, "each client has one connection"),
        ({"trunking": "session"}, "each client has a session of its own"),
        ({"failover": 1}, "no client does another's I/O"),
        ({"client_name": "host"}, "put %d into it"),
        ({"client_name": "x" * 55}, "longer than 54 characters"),
        ({"proto": "rdma"}, "nclients=4 is for TCP: use proto=tcp"),
        ({"pool": "/tmp"}, "nclients=4 is for TCP: name the mount's export"),
        ({"enter": _SHORT_OF_FILES}, "nclients=4 needs 68 open files, and a process may open 67"),
        ({"nclients": -1}, "nclients=-1 is negative, or was too large for fio: give a number in"),
        ({"nclients": 3_000_000_000}, "or was too large for fio: give a number in the option's"),
        ({"url": {"gid": "7+", "sec": "krb5"}}, "with Kerberos all clients are one principal"),
    ]),
    "foreign addresses": ({}, "", [
        ({how: 4, "localaddr": f"127.0.0.8+{foreign}"}, f"{foreign} is not this machine's")
        for how, foreign in (
            ("nclients", "192.0.2.1"), ("nclients", "127.255.255.255"), ("nconnect", "224.0.0.1"),
            ("nconnect", "0.0.0.0"),
        )
    ]),
    "discard": ({"rw": "read", "discard": 1}, "discard=1", [
        ({"verify": "crc32c"}, "verify= checks: leave one of them out"),
        ({"pool": "{},/tmp"}, "discard=1 is for TCP in clear: name the mount's export (nfs:"),
        ({"proto": "rdma"}, "use proto=tcp, or leave discard=1 out"),
        ({"pool": "{}&xprtsec=tls"}, "use xprtsec=none, or leave discard=1 out"),
        ({"security": "krb5p"}, "use krb5 or sys, or leave discard=1 out"),
    ]),
    "rx_timestamps": ({"rw": "read", "rx_timestamps": 1}, "", [
        ({"proto": "rdma"}, "rx_timestamps=1 is for TCP in clear: "),
        ({"pool": "{}&xprtsec=tls"}, "rx_timestamps=1 is for TCP in clear: "),
        ({"pool": "{},/tmp"}, "rx_timestamps=1 is for TCP in clear: "),
        ({"arrival_batch": 20}, "arrival_batch=20: give arrival_rate= or arrival_bw="),
    ]),
    "TLS": ({"pool": _V41}, "", [
        ({"xprtsec": "mtls"}, "client's certificate is missing: give tls_cert= and tls_key="),
        ({"xprtsec": "tls", "proto": "rdma"}, "use proto=tcp, or xprtsec=none"),
        ({"ktls": 1}, _NO_TLS),
        ({"tls_ca": "ca.pem"}, _NO_TLS),
        ({"pool": f"{_V41}&tls_name=a&xprtsec=none,{{}}", "xprtsec": "tls"}, "0.1:/x: ", _NO_TLS),
        ({"pool": "/tmp", "xprtsec": "tls"}, "mount with -o xprtsec=tls"),
    ]),
    "Kerberos": ({"pool": _V41}, "", [
        ({"pool": f"/tmp,{_V41}", "security": "krb5p"}, "/tmp: ", "mount with -o sec=krb5p, "),
        ({"security": "krb5i", "proto": "rdma"}, "=krb5i: only krb5 works over RDMA"),
        ({"pool": f"{_V41}&sec=krb5p&proto=rdma"}, "=krb5p: only krb5 works over RDMA"),
        ({"principal": "me@LAB"}, f": job: {_NO_KERBEROS}"),
        ({"keytab": "/etc/hostname"}, f": job: {_NO_KERBEROS}"),
        ({"ccache": "KEYRING:persistent:0"}, f": job: {_NO_KERBEROS}"),
        ({"server_principal": "nfs@nas.lab"}, f": job: {_NO_KERBEROS}"),
        ({"pool": f"{_V41}&sec=sys", "principal": "me@LAB"}, f": job: {_NO_KERBEROS}"),
        ({"pool": f"{_V41}&keytab=/k&sec=sys,{{}}", "security": "krb5"}, f"0.1:/x: {_NO_KERBEROS}"),
    ]),
}  # fmt: skip


_LATER: _Groups = {
    "a hold": ({}, "hold_writes=", [
        ({"hold_writes": "1p"}, "not enough memory for it"),
        ({"hold_writes": 4095}, "=4095: ", "a write of this job has up to 4096 bytes"),
    ]),
    "metadata": (_TREE, "metadata=1", [
        ({"bs": 7}, "whole numbers of entries"),
        ({"size": "1t"}, "do not fit into this machine's memory"),
    ]),
    "many clients": ({"nclients": 2}, "nclients=2", [
        ({"pool": "{0},{0},{0}", "spread": "queue"}, " is less than the pool's 3 paths"),
    ]),
}  # fmt: skip


def _cases(groups: _Groups) -> Mapping[str, Case]:
    return {
        f"{group}: {own}": case(**{**common, **own}, refused=(word, *words))
        for group, (common, word, rows) in groups.items()
        for own, *words in rows
    }


@runs(_cases(_BEFORE))
def test_one_line_before_a_server_is_asked(ran: Outcome) -> None:
    assert ran.calls() == []


@runs(_cases(_LATER))
def test_one_line_before_any_io(ran: Outcome) -> None:
    """By what the server says of its paths and files, or by what the job has of them."""
    assert ran.calls(*DATA) == []


# --- on servers and mounts ---

_PORTS = "nfsport=22049&mountport=22050"
_V41_PORTS = "nfsport=22049&version=4.1"
_MIB = 1 << 20

FioOptions = dict[str, Option]


# --- the pool, the server and the file ---

_LAB_TABLE: dict[str, tuple[FioOptions, list[str]]] = {
    "refused NFS port": (
        {"pool": "nfs://10.77.0.1/export?nfsport=9&mountport=22050"},
        ["10.77.0.1:9:/export", "port 9", "Connection refused", "is the NFS server running there"],
    ),
    "refused MOUNT port": (
        {"pool": "nfs://10.77.0.1/export?nfsport=22049&mountport=9"},
        ["port 9", "Connection refused", "mountport="],
    ),
    "no rpcbind": (
        {"pool": "nfs://10.77.0.101/export"}, ["port 111", "refused", "version=4.1 needs neither"],
    ),
    "wrong export": (
        {"pool": f"nfs://10.77.0.1/wrong?{_PORTS}"},
        ["10.77.0.1:22049:/wrong", "cannot mount", "is that the export's path"],
    ),
    "no such host": ({"pool": "nfs://nowhere.invalid/x"}, ["cannot resolve 'nowhere.invalid'"]),
    "one bad path of two": (
        {"pool": f"nfs://10.77.0.1/export?{_PORTS},/etc/passwd", "spread": "roundrobin"},
        ["/etc/passwd", "Not a directory"],
    ),
    "another version of the engine": (
        {"require_version": "0.0.1"},
        ["require_version=0.0.1", f"is {versions()['nfsmulti']}", "on every host"],
    ),
    "permission denied for a layout": (
        {"pool": f"nfs://10.77.0.1/squashed?{_PORTS}"},
        ['cannot create "f"', "Permission denied"],
    ),
    "a file that is a folder": ({"filename": "folder"}, ['"folder"', "Is a directory"]),
    "a folder that is a file": ({"filename": "file/f"}, ['"file/f"', "Not a directory"]),
    "a name that would speak to the terminal": (
        {"filename": "\x1b[31m\x07\u202e\u00e4" + "n" * 256},
        ["\"\\x1b[31m\\x07\\xe2\\x80\\xae\u00e4nnn", "File name too long"],
    ),
    "a tree below a file": (
        {**_TREE, "filename": "file/t"}, ['cannot open the directory "', "Not a directory"],
    ),
    "permission denied for a layout by NFSv4.1": (
        {"pool": f"nfs://10.77.0.1/squashed?{_V41_PORTS}"},
        ['cannot create "f"', "Permission denied", "NFS4ERR_ACCESS"],
    ),
    "no RDMA": ({"proto": "rdma"}, ["no RDMA device", "rdma link"]),
}  # fmt: skip


@pytest.mark.parametrize("case", _LAB_TABLE)
def test_one_line_and_a_status(exported: Place, case: str) -> None:
    (exported.files / "folder").mkdir()
    exported.write("file", b"x")
    options, words = _LAB_TABLE[case]
    job: FioOptions = {"rw": "read", "bs": "4k", "size": "64k", "filename": "f", **options}
    pool = job.pop("pool", exported.pool)
    assert isinstance(pool, str)
    result = exported.fio(pool=pool, **job)
    refused(result, *words)
    assert exported.sizes() == {"file": 1}


def _unregister(lab: Lab) -> None:
    enter = ["nsenter", f"--target={lab.server(0).pid}", "--mount", "--net"]
    for program, version in product(("100003", "100005"), "134"):
        run([*enter, "rpcinfo", "-d", program, version], timeout=60)


def test_programs_that_are_not_registered(engine: Engine, tmp_path: Path) -> None:
    mount, nfs = "MOUNT (program 100005)", "NFS (program 100003)"
    known = {"nfsport=22049": mount, "mountport=22050": nfs, "": f"{mount} or {nfs}"}
    with started_lab(LabConfig(addresses=1)) as lab:
        place = place_in_lab(lab, engine, tmp_path)
        _unregister(lab)
        for arguments, missing in known.items():
            pool = f"nfs://10.77.0.1/export?{arguments}".rstrip("?")
            result = place.fio(pool=pool, rw="read", bs="4k", size="64k", filename="f")
            why = f"rpcbind gave no port for {missing}: does it serve NFSv3?"
            refused(result, why, "version=4.1")


def test_options_that_fio_refuses(mounted: Place) -> None:
    """Most are the engine's; fio does so by their declarations."""
    options: dict[str, tuple[Option, str]] = {
        "pool": ("", "failed parsing pool="),
        "nconnect": (257, "nconnect: max value out of range"),
        "spread": ("evenly", "valid values"),
        "timeo": (0, "timeo: min value out of range"),
        "stripes": (4, "stripes"),
        "clients": (4, "Option <clients>: use nclients= instead"),  # fio's own --client is another
        "namespace": ("rdma", "namespace>: it is gone: names always go over TCP; leave it out"),
        "hold_writes": ("all", "hold_writes"),
        "gss_context": ("job", "each connection has a context of its own; leave it out"),
        # fio's own:
        "file_append": (1, "append"),
        "io_submit_mode": ("offload", "offload"),
    }
    job: FioOptions = {"rw": "write", "bs": "4k", "size": "1m", "filename": "f"}
    for name, (value, words) in options.items():
        result = mounted.fio(**{**job, name: value})
        assert result.status == 1
        assert words in result.output + result.stderr
    assert mounted.names() == []


@pytest.mark.timing
def test_what_does_not_answer_is_known_within_seconds(
    exported: Place, faults: Faults, within: Within
) -> None:
    """A server that stands still, an address whose packets are dropped, and one that nobody has."""
    pools = [*exported.paths[:2], f"nfs://10.77.0.200/export?{_PORTS}"]
    job: FioOptions = {"rw": "read", "bs": "4k", "size": "64k", "filename": "f", "timeo": 10}
    faults.begin(FaultKind.STOP, 0)
    faults.begin(FaultKind.DROP, 1)
    with within(15.0), ExitStack() as stack:
        runs = [stack.enter_context(exported.fio.start(pool=pool, **job)) for pool in pools]
        results = [exported.fio.finish(run) for run in runs]
    assert [result.status for result in results] == [1] * 3
    refused(results[0], "10.77.0.1:22049:/export", "the server does not answer")
    refused(results[2], "10.77.0.200", "port 22050", "is the server up")


# --- during the job ---


@pytest.fixture
def small(lab: Lab) -> Iterator[Path]:
    """Yield the folder of an export with a file system of 4 MiB, empty."""
    folder = lab.volume("small")
    empty(folder)
    yield folder
    empty(folder)


def test_full_file_system_during_layout(exported: Place, lab: Lab, small: Path) -> None:
    """What could not be laid out whole is taken back, and not what was there before.

    One server alone: another one would keep the removed file's space for a while.
    """
    job: FioOptions = {"pool": lab.path(0, export="small"), "rw": "read", "bs": "64k", "size": "8m"}
    why = ": No space left on device: NFS3ERR_NOSPC: the file system is full"
    refused(exported.fio(**job, filename="f"), '/small: laying out "f": WRITE at ', why)
    assert list(small.iterdir()) == []
    (small / "g").write_bytes(b"x" * 65536)
    refused(
        exported.fio(**job, filename="g", overwrite=1), 'laying out "g"', "No space left on device"
    )
    assert (small / "g").read_bytes()[:65536] == b"x" * 65536


def test_full_disk_of_a_mount(mounted: Place, lab: Lab) -> None:
    """`lab` is there for its skip alone, where nobody may mount."""
    job: FioOptions = {"bs": "64k", "size": "8m", "iodepth": 8}
    with in_memory(mounted, "4m") as place:
        failed_io(place.fio(rw="write", filename="f", **job), "No space left", place.labels[0])
        (place.files / "f").unlink()
        refused(place.fio(rw="read", filename="g", **job), 'laying out "g"', "No space left")
        assert place.names() == []


# --- two jobs and one file ---


def test_two_jobs_lay_out_the_same_file(place: Place) -> None:
    """Whoever comes first makes it; the longer one wins; and nobody reads what is not there.

    Writers make it while they run.
    """
    more: FioOptions = {"size": "3m", "offset": "1m"}
    jobs = sections(short={"size": "2m"}, long={"size": "4m"}, more=more, again={"size": "2m"})
    for thread in (0, 1):
        words = ["--rw=read", "--bs=64k", f"--filename=d/{thread}", "--iodepth=4", *jobs]
        result = place.fio(create_serialize=0, thread=thread, arguments=words)
        assert done(result).bytes("read") == 11 * _MIB
        assert said(result) == []
        content = (place.files / f"d/{thread}").read_bytes()
        assert len(content) == 4 * _MIB
        assert all(any(content[at : at + 4096]) for at in range(0, len(content), 4096))
    place.fio.well(rw="write", bs="64k", size="1m", filename="d/e/f", numjobs=6)
    assert place.sizes() == {"d/0": 4 * _MIB, "d/1": 4 * _MIB, "d/e/f": _MIB}


# --- interrupted ---


def _interrupted(place: Place, process: FioProcess, number: signal.Signals) -> None:
    """Signal a fio, and expect it to end by that, with nothing left."""
    process.signal(number)
    ends(process)
    result = place.fio.finish(process)
    assert result.status not in (0, None)
    assert result.status > 0, f"fio crashed: {result.messages}"


def test_interrupted_at_any_moment(place: Place) -> None:
    """From its first breath to its steady state, at moments of all kinds.

    Not with a report in JSON: fio 3.33's handler then takes memory for its first line, which hangs
    where the signal has interrupted malloc() or fork().
    """
    moments = random.Random(1)
    job: FioOptions = {"rw": "randrw", "bs": "16k", "size": "8m", "filename": "f", "numjobs": 2}
    job |= {"iodepth": 32, "spread": "roundrobin", "time_based": 1, "runtime": 300}
    job["output-format"] = "normal"
    for thread, number in enumerate((signal.SIGINT, signal.SIGTERM)):
        for longest in (0.1, 0.6):
            with place.fio.start(thread=thread, **job) as process:
                eventually(partial(catches, process.pid, number))
                process.wait(moments.uniform(0, longest))
                _interrupted(place, process, number)
            empty(place.files)


def test_interrupted_as_soon_as_it_has_begun(exported: Place) -> None:
    """A signal between the last fork and the first I/O is not lost."""
    job: FioOptions = {"rw": "randread", "bs": "16k", "size": "1m", "filename": "f", "numjobs": 4}
    with exported.fio.start(**job, iodepth=8, time_based=1, runtime=300) as process:
        # Within fork() fio's handler would wait for malloc()'s lock for ever: main has to sleep.
        eventually(lambda: len(family(process.pid)) == 4 and sleeps(process.pid))
        _interrupted(exported, process, signal.SIGTERM)


@pytest.fixture
def roomy(v3_or_mount: Place) -> Iterator[Place]:
    """Yield an export, and a directory: both in memory, so that no disk holds anything up."""
    if v3_or_mount.kind == "nfs":
        yield v3_or_mount
        return
    with in_memory(v3_or_mount, "3g") as place:
        yield place


def test_interrupted_layout_is_taken_back(roomy: Place) -> None:
    """No half file, and no line of its own about it."""
    file = roomy.files / "f"
    with roomy.fio.start(rw="read", bs="64k", size="2g", filename="f") as process:
        eventually(lambda: file.exists() and file.stat().st_size > 0)
        _interrupted(roomy, process, signal.SIGTERM)
        result = roomy.fio.finish(process)
    assert roomy.names() == []
    assert [line for line in said(result) if "cannot" in line] == []
    # What was there before stays.
    content = roomy.random("f", _MIB)
    with roomy.fio.start(rw="read", bs="64k", size="2g", filename="f", overwrite=1) as process:
        eventually(lambda: file.stat().st_size > len(content))
        _interrupted(roomy, process, signal.SIGTERM)
    with file.open("rb") as opened:
        assert opened.read(len(content)) == content
    empty(roomy.files)


def test_interrupted_while_it_mounts(job: Run) -> None:
    def during(server: ScriptedServer, process: FioProcess) -> None:
        eventually(lambda: len(server.calls(Mount.MNT)) > 0)
        process.signal(signal.SIGTERM)

    ran = job(on(Mount.MNT, NEVER), during=during, error=None)
    assert ran.result.status not in (0, None)
    assert "cannot mount: interrupted: the run was stopped" in ran.result.messages
