/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rdma_session.h - calls of the name space over RDMA, one at a time, each waited for as names.h
 * says. They go through a relay (rpc/relay.h), as fio asks for names before it forks; a call that
 * gets no answer ends the session.
 */
#ifndef NFSMULTI_RDMA_SESSION_H
#define NFSMULTI_RDMA_SESSION_H

#include "nfs/names_ops.h"
#include "nfs/nfs3_names.h"
#include "rpc/relay.h"

struct rdma_session {
	struct names base;
	uint64_t timeout, deadline;
	bool (*stop)(void);
	struct rpc_channel *channel; /* NULL: given up, every operation fails */
	struct rpc_handler handler;
	struct rpc_counters counters; /* nobody asks for them */
	const struct rpc_cred *cred;
	struct nfs3_handle root;

	/* The call under way: its number, and its reply or why there is none. */
	uint32_t xid;
	bool answered;
	uint8_t reply[RELAY_REPLY_MAX];
	uint32_t reply_length;
	int refused; /* positive errno */
};

/*
 * Asks MOUNT for config->export, by TCP, and connects. 0, or a negative errno with the reason in
 * `why`. base.ops is the caller's to set.
 */
int rdma_session_open(struct rdma_session **session, const struct names_config *config, char *why,
		      size_t why_size);
void rdma_session_close(struct rdma_session *session);

/* The time that one operation of names.h may take, its calls together, begins. */
void rdma_session_begin(struct rdma_session *session);

/* 0 with *result, or a negative errno and the reason in base.error. */
int rdma_session_call(struct rdma_session *session, const struct nfs3_name_call *call,
		      struct nfs3_name_result *result);

/* Keeps the words for names_error(), and returns `error`. */
int rdma_session_fail(struct rdma_session *session, int error, const char *words);

#endif
