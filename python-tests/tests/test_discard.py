# SPDX-License-Identifier: GPL-2.0-only
"""discard=1: data that is dropped in the kernel counts, comes and fails as data that is copied."""

from __future__ import annotations

import errno
import struct

import pytest
from engine_helpers import Place, done, fixture_of_places, job_of, refused, sections
from scripted_jobs import KIB, MIB, Client, Options, Outcome, case, runs

from servers.scripted import Answer, Hook, Nfs, ScriptedServer, Status, on

pytestmark = pytest.mark.sanitized
exported = fixture_of_places("nfs", "nfs4")
mounted = fixture_of_places("mount")


def test_what_is_dropped_is_counted_and_told(exported: Place) -> None:
    jobs = sections(long={"bs": "64k"}, short={"bs": "16k", "stonewall": None})
    result = exported.fio(rw="read", size="8m", filename="f", discard=1, arguments=jobs)
    report, dropped = done(result), {"long": 0, "short": 0}
    for line in result.stats:
        dropped[line.job] += line.discarded_bytes
    assert {job_of(report, name)["read"]["io_bytes"] for name in dropped} == {8 * MIB}
    assert 4 * MIB < dropped["long"] <= 8 * MIB
    assert dropped["short"] == 0
    told = f"READ payload was dropped in the kernel, not copied: {dropped['long'] / 2**30:.2f} GiB"
    assert f"long: discard=1: {told}" in result.messages
    assert "short: discard=1: nothing was dropped: READs below 32 KiB are copied" in result.messages


_LESS = struct.pack(">5I", Status.OK, 0, 64 * KIB, 0, 64 * KIB) + bytes(60 * KIB)
# How READs are answered; the errno and words that the job ends with.
_ANSWERS: dict[str, tuple[Hook, int, str]] = {
    "as usual": (on(Nfs.READ, Answer()), 0, ""),
    "fragments that end in the data": (on(Nfs.READ, Answer(fragments=(33_333, 1, MIB))), 0, ""),
    "short": (on(Nfs.READ, Answer(limit=40_000)), 0, ""),
    "twice": (on(Nfs.READ, Answer(repeat=(0,))), 0, ""),
    "lost within the data": (on(Nfs.READ, Answer(cut=40 * KIB, end="close"), nth=3), 0, ""),
    "less than its count": (on(Nfs.READ, Answer(results=_LESS)), errno.EPROTO, "the protocol"),
    "an error": (on(Nfs.READ, Answer(status=Status.IO)), errno.EIO, "NFS3ERR_IO"),
    "end of file": (on(Nfs.READ, Answer(limit=0, eof=1)), errno.EIO, "beyond the end of file"),
}
_READING: Options = {"rw": "read", "bs": 64 * KIB, "size": MIB}


@runs(
    {
        f"{name}, discard={discard}": case(
            hook, **_READING, discard=discard, files={"f": bytes(MIB)}, error=error, says=words,
            expected=name == "lost within the data",
        )
        for name, (hook, error, words) in _ANSWERS.items()
        for discard in (0, 1)
    }
)  # fmt: skip
def test_it_comes_and_fails_as_what_is_copied(ran: Outcome) -> None:
    if not ran.case.error:
        (line,) = ran.stats
        discard = int(str(ran.case.options["discard"]))
        assert done(ran.result).bytes("read") == MIB
        assert (line.read_bytes, line.errors) == (MIB, 0)
        assert line.reconnects == ran.case.expected
        assert discard * MIB / 2 <= line.discarded_bytes <= discard * line.bytes_received


def test_it_is_refused_before_a_server_is_asked(client: Client, server: ScriptedServer) -> None:
    refusals: tuple[tuple[str, Options, str], ...] = (
        ("", {"verify": "crc32c"}, "verify= checks: leave one of them out"),
        (",/tmp", {}, "discard=1 is for TCP in clear: name the mount's export (nfs://...)"),
        ("", {"proto": "rdma"}, "use proto=tcp, or leave discard=1 out"),
        ("&xprtsec=tls", {}, "use xprtsec=none, or leave discard=1 out"),
        ("", {"security": "krb5p"}, "use krb5 or sys, or leave discard=1 out"),
    )
    for more, options, words in refusals:
        refused(client(server, pool=server.pool() + more, rw="read", discard=1, **options), words)
    assert server.calls() == []


def test_a_later_job_is_refused_before_its_file_is_laid_out(mounted: Place) -> None:
    jobs = sections(plain={"filename": "a"}, dropping={"filename": "b", "discard": 1})
    result = mounted.fio(pool=mounted.paths[0], rw="read", size="64k", arguments=jobs)
    refused(result, "dropping: ", "name the mount's export (nfs://...)")
    assert mounted.names() == ["a"]
