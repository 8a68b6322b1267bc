/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * service.h - the programs that the sink serves, NFS version 3 and MOUNT version 3 (RFC 1813), one
 * call at a time: a call's head in memory in, a reply's head out.
 */
#ifndef NFS_SINK_SERVICE_H
#define NFS_SINK_SERVICE_H

#include <stdbool.h>

#include "counts.h"
#include "rpc/xdr.h"

struct service {
	uint32_t read_max, write_max; /* rtmax and wtmax */
	struct counts *counts;	      /* the serving thread's */
};

/* What else than its head belongs to an answered call. */
struct answer {
	uint32_t data; /* READ: bytes of file data to be sent behind the reply's head */
	bool write;    /* WRITE: there is no reply yet, service_wrote() makes it … */
	uint32_t xid, count, stable; /* … of these, once the data has come */
};

/*
 * Answers the call whose record begins at `call`; leaves `call` behind what it has read. call->bad:
 * the call goes on past the bytes at hand, and nothing has happened. False: that is no call; its
 * connection is of no use any more.
 */
bool service_answer(const struct service *service, struct xdr_in *call, struct xdr_out *head,
		    struct answer *answer);

void service_wrote(const struct answer *answer, struct xdr_out *head);

#endif
