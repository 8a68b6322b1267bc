/* SPDX-License-Identifier: GPL-2.0-only */
#include "wire/credentials.h"

#include <grp.h>
#include <stdlib.h>

#include "util.h"
#include "wire/message.h"

uint32_t auth_sys_own_ids(struct auth_sys_ids *ids)
{
	int count = getgroups(0, NULL);
	gid_t *groups = count > 0 ? calloc(count, sizeof(*groups)) : NULL;

	count = groups ? getgroups(count, groups) : 0;
	memset(ids, 0, sizeof(*ids));
	if (gethostname(ids->machine, sizeof(ids->machine)))
		snprintf(ids->machine, sizeof(ids->machine), "localhost");
	ids->machine[AUTH_SYS_MACHINE_MAX] = '\0';
	ids->uid = geteuid();
	ids->gid = getegid();
	for (int i = 0; i < count && ids->gid_count < AUTH_SYS_GIDS_MAX; i++)
		ids->gids[ids->gid_count++] = groups[i];
	free(groups);
	return max_of(count, 0);
}

static void auth_sys_put(struct rpc_credentials *credentials, struct rpc_stamp *stamp,
			 struct xdr_out *out, const uint8_t *start)
{
	const struct auth_sys *auth = container_of(credentials, const struct auth_sys, base);

	xdr_put_fixed(out, auth->bytes, auth->length);
}

/* AUTH_SHORT is a hint that later calls need not use (RFC 5531, appendix A). */
static enum rpc_belief auth_sys_check(struct rpc_credentials *credentials,
				      const struct rpc_stamp *stamp,
				      const struct rpc_verifier *verifier)
{
	return verifier->flavor <= RPC_AUTH_SHORT ? RPC_BELIEVED : RPC_REFUSED;
}

static const struct rpc_flavor auth_sys_flavor = {
	.put = auth_sys_put,
	.check = auth_sys_check,
};

void auth_sys_init(struct auth_sys *auth, const struct auth_sys_ids *ids)
{
	struct xdr_out out = {auth->bytes, auth->bytes + sizeof(auth->bytes), false};
	uint32_t name = strlen(ids->machine);

	xdr_put_u32(&out, RPC_AUTH_SYS);
	xdr_put_u32(&out, 4 + 4 + name + xdr_pad(name) + 4 + 4 + 4 + 4 * ids->gid_count);
	xdr_put_u32(&out, 0); /* stamp */
	xdr_put_opaque(&out, ids->machine, name);
	xdr_put_u32(&out, ids->uid);
	xdr_put_u32(&out, ids->gid);
	xdr_put_u32(&out, ids->gid_count);
	for (uint32_t i = 0; i < ids->gid_count; i++)
		xdr_put_u32(&out, ids->gids[i]);
	rpc_put_empty(&out, RPC_AUTH_NONE); /* verifier */
	auth->base.flavor = &auth_sys_flavor;
	auth->length = out.at - auth->bytes;
}
