/* SPDX-License-Identifier: GPL-2.0-only */
/* nfs3_call.c - a call of NFSv3 as the client sends it, for tests to look at. */
#include "client/protocol.h"
#include "nfs/meta_call.h"
#include "nfs/version.h"

uint8_t *nfs3_put_call(struct xdr_out *out, const struct meta_arguments *arguments);

/* A metadata operation; for NULL: the liveness probe. Returns where its arguments begin. */
uint8_t *nfs3_put_call(struct xdr_out *out, const struct meta_arguments *arguments)
{
	const struct auth_sys_ids ids = {0};
	struct meta_request request = {.base.meta = true};
	struct call call = {.request = arguments ? &request.base : NULL, .xid = 7};
	struct auth_sys auth;

	if (arguments)
		request.arguments = *arguments;
	auth_sys_init(&auth, &ids);
	return nfs3_protocol.encode(out, &call, &auth.base);
}
