/* SPDX-License-Identifier: GPL-2.0-only */
#include "wire/message.h"

#include "util.h"

/* RFC 5531, 9 */
enum { CALL = 0, REPLY = 1 };
enum { RPC_VERSION = 2 };
enum { MSG_ACCEPTED = 0, MSG_DENIED = 1 };
enum { AUTH_BODY_MAX = 400 };

void rpc_encode_header(struct xdr_out *out, uint32_t xid, uint32_t program, uint32_t version,
		       uint32_t procedure)
{
	const uint32_t header[] = {
		htobe32(xid),	  htobe32(CALL),    htobe32(RPC_VERSION),
		htobe32(program), htobe32(version), htobe32(procedure),
	};

	xdr_put_fixed(out, header, sizeof(header));
}

void rpc_put_empty(struct xdr_out *out, uint32_t flavor)
{
	xdr_put_u32(out, flavor);
	xdr_put_u32(out, 0);
}

void rpc_encode_call(struct xdr_out *out, uint32_t xid, uint32_t program, uint32_t version,
		     uint32_t procedure, struct rpc_credentials *credentials,
		     struct rpc_stamp *stamp)
{
	const uint8_t *start = out->at;

	rpc_encode_header(out, xid, program, version, procedure);
	credentials->flavor->put(credentials, stamp, out, start);
}

static void decode_accepted(struct xdr_in *in, struct rpc_reply_header *header)
{
	uint32_t stat;

	header->verifier.flavor = xdr_get_u32(in);
	header->verifier.length = xdr_get_u32(in);
	if (header->verifier.length > AUTH_BODY_MAX) {
		header->verdict = RPC_NOT_A_REPLY;
		return;
	}
	header->verifier.body = xdr_skip(in, header->verifier.length);
	stat = xdr_get_u32(in);
	/* The enum's first values are the RFC's accept_stat. */
	header->verdict = stat <= RPC_SYSTEM_ERR ? (enum rpc_verdict)stat : RPC_NOT_A_REPLY;
	if (stat == RPC_PROG_MISMATCH) {
		header->low = xdr_get_u32(in);
		header->high = xdr_get_u32(in);
	}
}

static void decode_denied(struct xdr_in *in, struct rpc_reply_header *header)
{
	switch (xdr_get_u32(in)) {
	case 0:
		header->verdict = RPC_OTHER_VERSION;
		header->low = xdr_get_u32(in);
		header->high = xdr_get_u32(in);
		break;
	case 1:
		header->verdict = RPC_AUTH_ERROR;
		header->auth_stat = xdr_get_u32(in);
		break;
	default: header->verdict = RPC_NOT_A_REPLY;
	}
}

void rpc_decode_reply(struct xdr_in *in, struct rpc_reply_header *header)
{
	memset(header, 0, sizeof(*header));
	header->verdict = RPC_NOT_A_REPLY;
	header->xid = xdr_get_u32(in);
	if (xdr_get_u32(in) != REPLY)
		return;
	switch (xdr_get_u32(in)) {
	case MSG_ACCEPTED: decode_accepted(in, header); break;
	case MSG_DENIED: decode_denied(in, header); break;
	default: break;
	}
}

/* NULL: rpc_verdict_text() makes the text, which names versions or an auth_stat. */
static const struct {
	int error;
	const char *words;
} verdicts[] = {
	[RPC_SUCCESS] = {0, "success"},
	[RPC_PROG_UNAVAIL] = {EPROTONOSUPPORT,
			      "the server does not offer NFS on this port (PROG_UNAVAIL)"},
	[RPC_PROG_MISMATCH] = {EPROTONOSUPPORT, NULL},
	[RPC_PROC_UNAVAIL] = {EPROTONOSUPPORT, "the server lacks the procedure (PROC_UNAVAIL)"},
	[RPC_GARBAGE_ARGS] = {EINVAL, "the server could not read the call (GARBAGE_ARGS)"},
	[RPC_SYSTEM_ERR] = {EREMOTEIO, "the server ran out of something (SYSTEM_ERR)"},
	[RPC_OTHER_VERSION] = {EPROTONOSUPPORT, NULL},
	[RPC_AUTH_ERROR] = {EACCES, NULL},
	[RPC_NOT_A_REPLY] = {EPROTO, "the reply is not an RPC reply"},
};

int rpc_verdict_errno(const struct rpc_reply_header *header)
{
	return verdicts[header->verdict].error;
}

/* RFC 5531, 9: auth_stat */
const char *rpc_auth_stat_name(uint32_t stat)
{
	static const char *const names[] = {
		[0] = "AUTH_OK",
		[1] = "AUTH_BADCRED",
		[2] = "AUTH_REJECTEDCRED",
		[3] = "AUTH_BADVERF",
		[4] = "AUTH_REJECTEDVERF",
		[5] = "AUTH_TOOWEAK",
		[6] = "AUTH_INVALIDRESP",
		[7] = "AUTH_FAILED",
		[RPC_CREDENTIAL_PROBLEM] = "RPCSEC_GSS_CREDPROBLEM",
		[RPC_CONTEXT_PROBLEM] = "RPCSEC_GSS_CTXPROBLEM",
	};

	return stat < ARRAY_SIZE(names) && names[stat] ? names[stat] : "an unknown auth_stat";
}

/* AUTH_TOOWEAK may mean the source port or the flavor. */
static void denial_text(uint32_t stat, char *text, size_t size)
{
	if (rpc_denies_context(stat))
		snprintf(text, size,
			 "the server does not know the Kerberos context that it has just made "
			 "(%s): its log says why",
			 rpc_auth_stat_name(stat));
	else
		snprintf(text, size,
			 "the server denied the credentials (%s): it may want a reserved source "
			 "port (run as root, or export with \"insecure\") or Kerberos: "
			 "security=krb5, krb5i or krb5p",
			 rpc_auth_stat_name(stat));
}

void rpc_verdict_text(const struct rpc_reply_header *header, uint32_t version, char *text,
		      size_t size)
{
	switch (header->verdict) {
	case RPC_PROG_MISMATCH:
		snprintf(text, size,
			 "the server offers NFS versions %u to %u, not %u (PROG_MISMATCH): "
			 "version= chooses another",
			 header->low, header->high, version);
		break;
	case RPC_OTHER_VERSION:
		snprintf(text, size,
			 "the server speaks RPC versions %u to %u, not 2 (RPC_MISMATCH)",
			 header->low, header->high);
		break;
	case RPC_AUTH_ERROR: denial_text(header->auth_stat, text, size); break;
	default: snprintf(text, size, "%s", verdicts[header->verdict].words); break;
	}
}
