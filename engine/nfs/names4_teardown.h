/* SPDX-License-Identifier: GPL-2.0-only */
/* names4_teardown.h - at the end NFSv4.1's server is told what it need not keep any longer. */
#pragma once

#include "nfs/names_client.h"
#include "nfs/nfs4_client.h"

/*
 * names_ask(), but for 2.5 s at the most, 0.5 s where the job was to end 2 s ago, and not at all
 * where the path is dead while others go on, the server is gone, or the job is over. `names` may be
 * NULL.
 */
void names4_tell(struct names *names, struct nfs4_request *request);

/*
 * struct nfs_version's. Destroys what the server has of the path's client. Waits as long as
 * names4_tell() for each answer, 10 s and 2 s in all, and for none after one that did not come.
 */
void names4_teardown(struct path *path);
