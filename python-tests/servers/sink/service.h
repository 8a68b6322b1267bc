/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * service.h - the programs that the sink serves, NFS versions 3 and 4.1 (core/) and MOUNT version
 * 3, one call at a time: a call's head in memory in, a reply's head out.
 */
#pragma once

#include <stdbool.h>

#include "core/call.h"
#include "counts.h"

enum { SINK_MAGIC = 0x73696e6b }; /* in handles */

/* A serving thread's. */
struct front {
	struct limits limits;
	struct counts *counts;
};

/*
 * Before any call is served; `name`: this server's, at whose addresses sessions are one's. False:
 * there is no memory.
 */
bool service_init(const char *name);

/*
 * Answers the call whose record begins at `in`, all of it if `whole`; leaves `in` behind what
 * it has read. A WRITE's data is not waited for: the reply is to be sent when it has come. *data:
 * bytes of file data to be sent behind the reply's head, which is READ's. in->bad: the call goes
 * on past the bytes at hand, and nothing has happened. False: that is no call; its connection is of
 * no use any more.
 */
bool service_answer(struct front *front, struct xdr_in *in, bool whole, struct xdr_out *head,
		    uint32_t *data);
