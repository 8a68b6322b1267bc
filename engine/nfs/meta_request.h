/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * meta_request.h - a metadata operation on what its caller names by handle and name, whatever
 * version of NFS carries it. No entry of a job is meant, and nothing is kept: what became of a copy
 * whose reply was lost is the caller's to find out.
 */
#pragma once

#include "nfs/meta.h"
#include "client/call.h"

struct meta_request {
	struct rpc_request base; /* with `meta` set */
	/* LOOKUP, GETATTR, ACCESS, READDIR, MKDIR, REMOVE, RMDIR, FSSTAT or FSINFO; over NFSv3
	 * CREATE and SETATTR too, over NFSv4 ROOT. */
	struct meta_arguments arguments;
	/* But for its page: that lies in the reply, for listed(). */
	struct meta_result result;
	/* READDIR: takes a page. */
	void (*listed)(struct meta_request *request, const struct readdir_page *page);
};

static inline struct meta_request *meta_request_of(const struct call *call)
{
	return (struct meta_request *)call->request;
}

/* It was answered with success. */
static inline void meta_request_take(struct meta_request *request, const struct meta_result *result)
{
	if (request->arguments.op == META_READDIR)
		request->listed(request, &result->page);
	request->result = *result;
	request->result.page = (struct readdir_page){0};
}
