/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * service.h - the programs that the sink serves, NFS versions 3 (RFC 1813) and 4 (compound.h) and
 * MOUNT version 3, one call at a time: a call's head in memory in, a reply's head out.
 */
#pragma once

#include <stdbool.h>

#include "counts.h"
#include "wire/xdr.h"

struct service {
	uint32_t read_max, write_max; /* rtmax and wtmax */
	struct counts *counts;	      /* the serving thread's */
	uint64_t time;		      /* that each call takes, ns; 0: no more than it does */
	uint64_t free;		      /* when the thread is done with what it has begun */
};

/*
 * Answers the call whose record begins at `call`, all of it if `whole`; leaves `call` behind what
 * it has read. A WRITE's data is not waited for: the reply is to be sent when it has come. *data:
 * bytes of file data to be sent behind the reply's head, which is READ's. call->bad: the call goes
 * on past the bytes at hand, and nothing has happened. False: that is no call; its connection is of
 * no use any more.
 */
bool service_answer(const struct service *service, struct xdr_in *call, bool whole,
		    struct xdr_out *head, uint32_t *data);
