/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * relay.h - an RPC channel over RDMA that lives in a process of its own.
 *
 * librdmacm and libibverbs do not survive a fork: a process that has used them cannot hand that to
 * its children, nor can these begin anew. fio forks its jobs from the process that finds out sizes
 * and lays files out. What is done there over RDMA is done by the program nfsmulti-relay instead,
 * one for each channel: it has the queue pair, and passes on what it is sent over a pair of local
 * sockets. It ends with the channel, or when nobody has the other end of its socket any more.
 *
 * The channel carries calls with data and without, but no READ: replies go inline.
 */
#ifndef NFSMULTI_RPC_RELAY_H
#define NFSMULTI_RPC_RELAY_H

#include "rpc/rpc.h"

enum {
	RELAY_CALLS = 16,	   /* that nfsmulti-relay has under way at once */
	RELAY_DATA_MAX = 64 << 10, /* bytes of one call's data: such a message fits into a socket */
	RELAY_REPLY_MAX = 1024,	   /* bytes of a reply: RPCRDMA_INLINE_MIN */
};

/* Each message to nfsmulti-relay begins with this; an RPC call and its data follow. */
struct relay_call {
	uint32_t head; /* bytes of the call; the rest is data */
};

/*
 * Each message from it begins with this. The first tells that it is connected (error 0), or why
 * not. Later ones: error 0, and an RPC reply follows; a positive errno, and the words of why RDMA
 * refused the call `xid` follow; a negative errno: the connection is lost, and the program ends.
 */
struct relay_answer {
	int32_t error;
	uint32_t xid;
};

/* The program's name, which is beside the engine's own file. False: it is not there. */
bool relay_program(char *name, size_t size);

extern const struct rpc_channel_ops rpc_relay;

#endif
