# SPDX-License-Identifier: GPL-2.0-only
"""terms.h: what the table of options must have, and what it decides.

A path's own argument wins over its job's option; and jobs that differ in a term of paths share
none.
"""

from engine_c import CONSTANTS, CData, ffi, terms_rows, text, zeros
from scripted_jobs import KIB, Run

from servers.scripted import Nfs

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


def _put(term: CData, terms: CData, which: int) -> None:
    """Give a term the first or the second of two values that it may have."""
    at = ffi.cast("char *", terms) + term.at
    if term.kind in {CONSTANTS.TERM_TEXT, CONSTANTS.TERM_ADDRESSES}:
        ffi.cast("char **", at)[0] = _TEXTS[which]
    else:
        number = term.values[which].value if term.values[which].word else which
        ffi.cast("unsigned int *", at)[0] = number


def _get(term: CData, terms: CData) -> CData:
    """Return what it has: a number, or where its text is."""
    is_text = term.kind in {CONSTANTS.TERM_TEXT, CONSTANTS.TERM_ADDRESSES}
    at = ffi.cast("char *", terms) + term.at
    return ffi.cast("char **" if is_text else "unsigned int *", at)[0]


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
        assert _get(term, ffi.addressof(silent)) == _get(term, job), text(term.word)
        testlib.term_give(ffi.addressof(term), path)
        own = testlib.terms_over(path, job)
        assert _get(term, ffi.addressof(own)) == _get(term, path), text(term.word)


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


# --- as fio runs ---

_WRONG = {
    "nfsvers": "4.1", "proto": "rdma", "port": 1, "mountport": 1, "rsize": "4k", "wsize": "4k",
    "localaddr": "127.0.0.8", "xprtsec": "tls", "security": "krb5p",
}  # fmt: skip
_RIGHT = {
    "vers": 3, "proto": "tcp", "rsize": "16k", "wsize": "32k", "localaddr": "127.0.0.7",
    "xprtsec": "none", "sec": "sys",
}  # fmt: skip


def test_a_url_beside_options_says_where_and_how(job: Run) -> None:
    """Its ports are the server's, the options' are nobody's."""
    ran = job(**_WRONG, bs="64k", size="256k", verify="crc32c", url=_RIGHT)
    reads, writes = ran.calls(Nfs.READ), ran.calls(Nfs.WRITE)
    assert {call.count for call in reads} == {16 * KIB}
    assert {call.count for call in writes} == {32 * KIB}
    assert {call.client[0] for call in reads + writes} == {"127.0.0.7"}
