# SPDX-License-Identifier: GPL-2.0-only
"""Options that a job cannot have, or not together: one line says so, before a server is asked.

What fio itself refuses of them is in test_engine_bad_input.py, pools are in test_pool.py.
"""

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from scripted_jobs import Case, Outcome, case, runs

from servers.scripted import DATA

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
_NO_TLS = "have no effect without TLS: give xprtsec=tls or mtls too, or leave them out"
_NO_KERBEROS = "principal=, keytab=, ccache= and server_principal= need Kerberos: give security="

# What the jobs of a group have, and a word of each refusal; what each has beside that, and words.
_Row = tuple[Mapping[str, Any], *tuple[str, ...]]
_Groups = Mapping[str, tuple[Mapping[str, Any], str, list[_Row]]]
_BEFORE: _Groups = {
    "any": ({}, "", [
        ({"rw": "trim"}, "rw=trim: NFSv3 and NFSv4.1 have no operation that trims", "use reads"),
        ({"rw": "randtrimwrite"}, "rw=randtrimwrite: NFSv3", "use reads and writes"),
        (
            {"verify": "crc32c", "trim_percentage": 50, "trim_backlog": 4},
            "trim_percentage: NFSv3", "use reads and writes",
        ),
        ({"fill_device": 1}, "fill_device", "size="),
        ({"rw": "read", "pre_read": 1}, "pre_read", "stonewall"),
        # From 4 GiB on, fio itself dies of its blocks.
        ({"bs": "4g", "size": "2t", "spread": "stripe"}, "bs"),
        ({"bs": "1t", "size": "2t", "spread": "stripe"}, "bs"),
        ({"wsize": -1}, "wsize=-1 is negative"),
        ({"stripe_size": -1}, "stripe_size=-1 is negative"),
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
        ({"metadata": 0, "meta_verify": 1}, "need metadata=1"),
        ({"metadata": 0, "meta_mix": "open:1"}, "need metadata=1"),
    ]),
    "meta_mix": ({**_TREE, "rw": "randrw"}, "meta_mix=", [
        ({"meta_mix": "getattr"}, '"getattr"', "getattr:70,lookup:20"),
        ({"meta_mix": "getattr:0,create:1"}, '"getattr:0"', "from 1 to"),
        ({"meta_mix": "getattr:1.5,create:1"}, '"getattr:1.5"', "from 1 to"),
        ({"meta_mix": "getattr:99999999999999999999"}, "from 1 to"),
        ({"meta_mix": "getattr:1,rename:1"}, '"rename:1"', "operation of a mix"),
        ({"meta_mix": "getattr:1,stat:1"}, '"stat:1"', "operation of a mix"),
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
        ({"arrival_rate": -5}, "arrival_rate=-5", _RATES),
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
        (
            {"url": {"gid": "7+", "sec": "krb5"}},
            "gid=7+ is for AUTH_SYS, since with Kerberos all clients are one principal: use sec",
        ),
    ]),
    "foreign addresses": ({}, "", [
        ({how: 4, "localaddr": f"127.0.0.8+{foreign}"}, f"{foreign} is not this machine's")
        for how, foreign in product(
            ("nclients", "nconnect"), ("192.0.2.1", "127.255.255.255", "224.0.0.1", "0.0.0.0")
        )
    ]),
    "discard": ({"rw": "read", "discard": 1}, "discard=1", [
        ({"verify": "crc32c"}, "verify= checks: leave one of them out"),
        (
            {"pool": "{},/tmp"},
            "discard=1 is for TCP in clear: name the mount's export (nfs://...)",
        ),
        ({"proto": "rdma"}, "use proto=tcp, or leave discard=1 out"),
        ({"pool": "{}&xprtsec=tls"}, "use xprtsec=none, or leave discard=1 out"),
        ({"security": "krb5p"}, "use krb5 or sys, or leave discard=1 out"),
    ]),
    "rx_timestamps": ({"rw": "read", "rx_timestamps": 1}, "", [
        *(
            ({"pool": f"nfs://127.0.0.1/x{path}"}, "rx_timestamps=1 is for TCP in clear: ")
            for path in ("?xprtsec=tls", "?proto=rdma", ",/tmp")
        ),
        ({"arrival_batch": 20}, "arrival_batch=20: give arrival_rate= or arrival_bw="),
    ]),
    "TLS": ({"pool": _V41}, "", [
        (
            {"xprtsec": "mtls"},
            "xprtsec=mtls: the client's certificate is missing: give tls_cert= and tls_key=",
        ),
        (
            {"xprtsec": "tls", "proto": "rdma"},
            "there is no TLS over RDMA (RFC 9289): use proto=tcp, or xprtsec=none",
        ),
        ({"ktls": 1}, _NO_TLS),
        ({"tls_ca": "ca.pem"}, _NO_TLS),
        (
            {"pool": f"{_V41}&tls_name=a&xprtsec=none,nfs://127.0.0.2/x", "xprtsec": "tls"},
            ": 127.0.0.1:/x: tls_ca=, tls_cert=, tls_key=, tls_name= and ktls= have no effect",
        ),
        (
            {"pool": "/tmp", "xprtsec": "tls"},
            "the kernel sets a mount's security: mount with -o xprtsec=tls",
        ),
    ]),
    "Kerberos": ({"pool": _V41}, "", [
        (
            {"pool": f"/tmp,{_V41}", "security": "krb5p"},
            "/tmp: security=krb5p: the kernel sets a mount's security: mount with -o sec=krb5p, "
            "and give the option only to other paths (nfs://...?sec=krb5p)",
        ),
        *(
            (words, f"={flavor}: only krb5 works over RDMA: krb5i and krb5p protect")
            for flavor in ("krb5i", "krb5p")
            for words in (
                {"security": flavor, "proto": "rdma"},
                {"pool": f"{_V41}&sec={flavor}&proto=rdma"},
            )
        ),
        *(
            ({name: value, **words}, f": {where}: {_NO_KERBEROS}")
            for name, value in {
                "principal": "me@LAB",
                "keytab": "/etc/hostname",
                "ccache": "KEYRING:persistent:0",
                "server_principal": "nfs@nas.lab",
            }.items()
            for words, where in (
                ({}, "job"),
                ({"pool": f"{_V41}&sec=sys", "security": "sys"}, "job"),
                (
                    {
                        "pool": f"{_V41}&{name}={value}&sec=sys,nfs://127.0.0.2/x",
                        "security": "krb5", name: None,
                    },
                    "127.0.0.1:/x",
                ),
            )
        ),
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
