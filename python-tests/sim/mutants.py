# SPDX-License-Identifier: GPL-2.0-only
"""Take lines out of the engine that matter, one after the other: nfsmulti-sim finds each.

Run as a program, with the folder of a build. It ends with status 1 where one was not found in 2000
jobs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_JOBS = 2000  # each was found within 1400
_SECONDS = 900  # what takes as long does not end


@dataclass(frozen=True)
class Mutant:
    """A file of the engine, a text that stands there once, and what stands there instead."""

    what: str
    file: str
    text: str
    instead: str


MUTANTS = [
    Mutant(
        "a WRITE's verifier is not compared", "group/ledger.h",
        "bool changed = ledger->unstable && memcmp(ledger->verifier, verifier, LEDGER_VERIFIER);",
        "bool changed = false;",
    ),
    Mutant(
        "a COMMIT's verifier is not compared", "group/ledger.h",
        "	if (!ledger_same(commit->verifier, verifier)) {\n		if (!commit->bytes",
        "	if (false) {\n		if (!commit->bytes",
    ),
    Mutant(
        "what a COMMIT that failed was to cover is forgotten", "group/ledger.h",
        "	if (!ledger_settled(ledger, commit))\n		ledger->lost += commit->bytes;",
        "",
    ),
    Mutant(
        "what a COMMIT that was put off was to cover is forgotten", "group/ledger.h",
        "	ledger->unstable += commit->bytes;",
        "",
    ),
    Mutant(
        "a reply's xid is not compared in full", "client/call.h",
        "call->rpc == rpc && call->xid == xid && call->last_sent",
        "call->rpc == rpc && call->last_sent",
    ),
    Mutant(
        "xids have no generation", "client/call.h",
        "table->generation++ << table->index_bits",
        "table->generation << table->index_bits",
    ),
    Mutant(
        "calls that were sent are not sent again after a loss", "client/disconnect.c",
        "	TAILQ_CONCAT(&rpc->sent, &rpc->waiting, link);\n"
        "	TAILQ_CONCAT(&rpc->waiting, &rpc->sent, link);",
        "",
    ),
    Mutant(
        "an overdue call is not sent again", "client/client.c",
        "		if (!can_retransmit(rpc, call))",
        "		if (true)",
    ),
    Mutant(
        "a delayed call is forgotten", "client/client.c",
        "		if (call->resume_at > now)\n			continue;",
        "		continue;",
    ),
    Mutant(
        "soft calls have all the time", "client/timers.h",
        "return timing->soft && now - call->since > timer_major(timing);",
        "return false;",
    ),
    Mutant(
        "a time-out grows beyond 600 s", "client/timers.h",
        "min_of(timing->timeo * call->tries, 600 * SEC)", "timing->timeo * call->tries",
    ),
    Mutant(
        "a time-out doubles each time", "client/timers.h",
        "min_of(timing->timeo * call->tries, 600 * SEC)",
        "min_of(timing->timeo << min_of(call->tries, 12u), 600 * SEC)",
    ),
    Mutant(
        "a major time-out takes four times as long", "client/timers.h",
        "return timing->timeo * (timing->retrans + 1);",
        "return 4 * timing->timeo * (timing->retrans + 1);",
    ),
    Mutant(
        "a call that is put off waits for more than 5 s", "client/timers.h",
        "DELAY_LAST = 5 * SEC;", "DELAY_LAST = 10 * SEC;",
    ),
    Mutant(
        "session set-up that is put off waits for more than 1 s", "client/timers.h",
        "SETUP_DELAY_LAST = SEC;", "SETUP_DELAY_LAST = 5 * SEC;",
    ),
    Mutant(
        "a job that is told to end waits for its calls", "fio/job_io.c",
        "	group_abort(group, EINTR);", "",
    ),
    Mutant(
        "several files: each COMMIT is of the first", "fio/pieces.c",
        "	io->file = file;\n	io->offset = 0;", "	io->file = 0;\n	io->offset = 0;",
    ),
    Mutant(
        "several files: what is held is written again to the first", "fio/pieces.c",
        "	io->file = extent->file;", "	io->file = 0;",
    ),
    Mutant(
        "fragments: data goes on behind a mark as if there was none", "wire/record.c",
        "	reader->in_fragment = false;\n	return 1;\n}\n\nstatic int read_rest",
        "	return 0;\n}\n\nstatic int read_rest",
    ),
    Mutant(
        "a READ's part is taken for all of it", "nfs/io_result.h",
        "	if (io_result->count)\n		return CALL_PARTIAL;",
        "	if (io_result->count)\n		return CALL_DONE;",
    ),
    Mutant(
        "a WRITE's part is taken for all of it", "nfs/io_result.h",
        "return io_result->count == call_rest(call) ? CALL_DONE : CALL_PARTIAL;",
        "return CALL_DONE;",
    ),
    Mutant(
        "the rest of a WRITE is sent from its beginning", "client/send.c",
        ".at = io->buffer + io->done,",
        ".at = io->buffer,",
    ),
    Mutant(
        "a dead path keeps its I/O", "client/disconnect.c",
        "		rpc->events->given_back(io);",
        "",
    ),
    Mutant(
        "NFSv4.1: a slot whose call is given up is used again", "nfs/nfs4_session.c",
        "	if (!answered || (call->tries > 1 && !call->slot_used)) {", "	if (false) {",
    ),
    Mutant(
        "NFSv4.1: a retry has the file's present stateid", "nfs/nfs4_protocol.c",
        "					 call->stateid};", "					 NULL};",
    ),
    Mutant(
        "NFSv4.1: an outdated EXCHANGE_ID counts", "nfs/nfs4_client.c",
        "return state->client->known && state->client->answers != state->asked_after;",
        "return false;",
    ),
    Mutant(
        "NFSv4.1: a slot's number goes on where SEQUENCE was refused", "nfs/nfs4_session.c",
        "	else if (call->slot_used)", "	else",
    ),
    Mutant(
        "hold: what is older is let go before it is durable", "group/hold.c",
        "		if (!oldest->settled || oldest->under_way)", "		if (oldest->under_way)",
    ),
    Mutant(
        "hold: what was durable is not written again over what is older", "group/hold.c",
        "		if (extent->dropped)\n			continue;\n		disown(extent);",
        "		extent->dropped = extent->dropped || extent->settled;\n"
        "		if (extent->dropped)\n			continue;\n		disown(extent);",
    ),
    Mutant(
        "hold: overlapping writes are written again in any order", "fio/syncs.c",
        "		    overlaps_one_under_way(job, extent))", "		    false)",
    ),
    Mutant(
        "metadata: a create that finds its own file fails", "nfs/meta_call.h",
        "	    !io->meta->looks_up && again)", "	    false)",
    ),
    Mutant(
        "metadata: a rename that was carried out is turned back", "nfs/meta_call.h",
        "	else if (error == ENOENT && meta_takes_other(io->meta->op) && again)",
        "	else if (false)",
    ),
    Mutant(
        "trunking: a connection is not bound to its session", "nfs/nfs4_client.c",
        "	case NFS4ERR_CONN_NOT_BOUND_TO_SESSION: state->unbound = true; break;",
        "	case NFS4ERR_CONN_NOT_BOUND_TO_SESSION: break;",
    ),
    Mutant(
        "trunking: paths to one server are clients apart", "nfs/nfs4_client.c",
        "				adopt(state, other);\n				return;", "				break;",
    ),
    Mutant(
        "Kerberos: the window is not asked", "wire/gss_context.c",
        "	return context->usable && window->next - window->oldest < room;", "	return room;",
    ),
    Mutant(
        "Kerberos: an overdue call keeps its number", "client/client.c",
        "			context->overdue(rpc->credentials, &call->stamp);", "			(void)context;",
    ),
    Mutant(
        "Kerberos: answers by the context before are not believed", "wire/rpcsec_gss.c",
        "	gss->earlier = stamp->context + 1 == gss->context.number;",
        "	gss->earlier = false;",
    ),
    Mutant(
        "Kerberos: a call of a context that is gone fails", "client/reply.c",
        "	return CALL_AUTHENTICATE;", "	return fail_by_verdict(reply);",
    ),
    Mutant(
        "Kerberos: a reply's verifier is not compared", "wire/rpcsec_gss.c",
        "		if (!verify_mic(gss, &part, 1, verifier->body, verifier->length))\n"
        "			continue;",
        "		(void)part;",
    ),
    Mutant(
        "Kerberos: the verifier of an RPC error is not compared", "client/reply.c",
        "	if (!rpc_is_accepted(&reply->header) ||",
        "	if (reply->header.verdict != RPC_SUCCESS ||",
    ),
    Mutant(
        "Kerberos: data that is in place is not verified", "wire/rpcsec_gss.c",
        "	return !tail.bad && verify_mic(gss, parts, 3, mic, mic_length) &&",
        "	return !tail.bad &&",
    ),
    Mutant(
        "discard: what follows the data is dropped with it", "wire/record.c",
        "(struct iovec){NULL, bulk}", "(struct iovec){NULL, bulk + 4}",
    ),
    Mutant(
        "TLS: where STARTTLS is not offered, calls go in clear", "transport/tls.c",
        "		return -ECONNABORTED;\n	}\n	enter(tls, STAGE_HANDSHAKE);",
        "		static const struct stream_io clear = {stream_send, stream_recv};\n"
        "		tls->stream.io = &clear;\n		enter(tls, STAGE_UP);\n"
        "		return 0;\n	}\n	enter(tls, STAGE_HANDSHAKE);",
    ),
    Mutant(
        "TLS: hands are not shaken", "transport/tls.c",
        "	enter(tls, STAGE_HANDSHAKE);", "	enter(tls, STAGE_NULL);",
    ),
    Mutant(
        "TLS: the server's certificate is not verified", "transport/tls_session.c",
        "	gnutls_session_set_verify_cert2(session->gnutls, session->wanted, 2, 0);\n", "",
    ),
    Mutant(
        "TLS: a server need not ask for the client's certificate", "transport/tls_session.c",
        "	if (!session->mutual ||", "	if (true ||",
    ),
    Mutant(
        "TLS: the client's certificate goes only to a server that trusts its authority",
        "transport/tls_session.c",
        " |\n		GNUTLS_FORCE_CLIENT_CERT;", ";",
    ),
    Mutant(
        "TLS: the end of a connection is not noticed", "transport/tls_session.c",
        "	if (!length && !session->ended) {", "	if (!length) {",
    ),
    Mutant(
        "TLS: keys serve for ever", "transport/tls_session.c",
        "	return most >= RECORDS_MAX ?", "	return TLS_FRESH;\n	return most >= RECORDS_MAX ?",
    ),
    Mutant(
        "TLS: what is encrypted is encrypted again", "transport/tls_session.c",
        "	if (!error && !session->taken)", "	if (!error)",
    ),
]  # fmt: skip


def _simulate(build: Path) -> str | None:
    """Build the simulator; return what it says of a fault, or None where it finds none."""
    subprocess.run(
        ["cmake", "--build", build, "--target", "nfsmulti-sim", "--parallel", "2"],
        check=True,
        capture_output=True,
    )
    program = [str(build / "nfsmulti-sim"), "--jobs", str(_JOBS)]
    try:
        done = subprocess.run(
            program, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "it does not end"
    if not done.returncode:
        return None
    return [*done.stdout.splitlines(), f"it ends by signal {-done.returncode}"][0]


def main(build: Path) -> int:
    """Try all; return how many were not found."""
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        source, work = Path(folder, "source"), Path(folder, "build")
        shutil.copytree(_ROOT, source, ignore=shutil.ignore_patterns("build", "results", ".git"))
        headers = f"-DFIO_HEADERS_DIR={build / 'fio-headers'}"
        configure = ["cmake", "-S", str(source), "-B", str(work), headers]
        configure.append("-DCMAKE_BUILD_TYPE=Debug")
        subprocess.run(configure, check=True, capture_output=True)
        for mutant in MUTANTS:
            file = source / "engine" / mutant.file
            text = file.read_text()
            if text.count(mutant.text) != 1:
                sys.exit(f"{mutant.file}: not once there: {mutant.text!r}")
            file.write_text(text.replace(mutant.text, mutant.instead))
            said = _simulate(work)
            file.write_text(text)
            print(f"{mutant.what}: {said or 'NOT FOUND'}", flush=True)
            missed += not said
    return missed


if __name__ == "__main__":
    sys.exit(1 if main(Path(sys.argv[1]).resolve()) else 0)
