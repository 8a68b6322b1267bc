/* SPDX-License-Identifier: GPL-2.0-only */
/* auth_sys.h - AUTH_SYS: user, group and further groups by their numbers (RFC 5531, appendix A). */
#pragma once

#include "wire/credentials.h"

#define AUTH_SYS_GIDS_MAX    16 /* the RFC's */
#define AUTH_SYS_MACHINE_MAX 64 /* ours; the RFC allows 255 */
#define AUTH_SYS_ROOM	     168

struct auth_sys_ids {
	char machine[AUTH_SYS_MACHINE_MAX + 1];
	uint32_t uid, gid;
	uint32_t gids[AUTH_SYS_GIDS_MAX];
	uint32_t gid_count;
};

/* Encoded once: each call copies it. */
struct auth_sys {
	struct rpc_credentials base;
	uint32_t length;
	uint8_t bytes[AUTH_SYS_ROOM];
};

/*
 * This process's own name, ids and groups, of which there is room for the first AUTH_SYS_GIDS_MAX.
 * Returns the number of groups that it is in.
 */
uint32_t auth_sys_own_ids(struct auth_sys_ids *ids);

void auth_sys_init(struct auth_sys *auth, const struct auth_sys_ids *ids);
