/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * service.h - the programs that the sink serves, NFS versions 3 and 4.1 (core/) and MOUNT version
 * 3, one call at a time: a call's head in memory in, a reply's head out.
 */
#pragma once

#include <stdbool.h>

#include "core/call.h"

/* What the sink was asked to do: a serving thread writes its own, the sum may be taken at any time.
 */
enum { NFS_PROCEDURES = 22, NFS4_OPERATIONS = 76, MOUNT_PROCEDURES = 6 };

struct counts {
	uint64_t nfs[NFS_PROCEDURES];	/* calls, by RFC 1813's numbers */
	uint64_t nfs4[NFS4_OPERATIONS]; /* operations that went well, by RFC 8881's numbers */
	uint64_t mount[MOUNT_PROCEDURES];
	uint64_t read_bytes, write_bytes; /* of file data */
	uint64_t connections;		  /* accepted so far */
	uint64_t stalls;		  /* in which a call came */
	uint64_t busy;			  /* ns that these have served, and not waited */
} __attribute__((aligned(64)));

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
