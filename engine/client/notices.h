/* SPDX-License-Identifier: GPL-2.0-only */
/* notices.h - what people are told of a session: once for a path, however many notice it. */
#pragma once

#include "group/path.h"
#include "wire/message.h"
#include "client/protocol.h"

/* What one channel has to say, and has said. */
struct notices {
	struct path *path;
	bool in_trouble;       /* calls wait for an answer that is overdue, or lost */
	bool refused;	       /* the transport refused a call */
	bool said_flaw;	       /* that a reply is not as it must be, though its status counts */
	enum rpc_verdict said; /* the last one that was told: once for all the calls it met */
	const char *said_unprepared; /* the last status that was told */
};

/* A line about the path. */
#define notice(notices, format, ...) \
	((notices)->path->job.log("%s: " format, (notices)->path->config.label, ##__VA_ARGS__))

/* The connection was lost with so many calls outstanding, for a negative errno. */
void notice_lost(struct notices *notices, uint32_t outstanding, int error);
/* It has stopped answering. */
void notice_silent(struct notices *notices);
/* soft: an I/O has had its time; told once until it answers. */
void notice_expired(struct notices *notices);
/* It has answered: the end of such trouble, if it was in_trouble. */
void notice_answered(struct notices *notices);
/* The trouble is somebody else's now: others take over. */
void notice_handed_over(struct notices *notices);

/* An I/O fails: the server's reply is an RPC error, or an error of the protocol, or wrong. */
void notice_rpc_error(struct notices *notices, const struct call *call,
		      const struct rpc_reply_header *reply);
void notice_failed(struct notices *notices, const struct call *call,
		   const struct call_result *result);
/* What comes before I/O fails: said once for each status. */
void notice_unprepared(struct notices *notices, const struct call *call, int error);
/* The transport could not carry it. */
void notice_refused(struct notices *notices, const struct call *call, const char *why);

/* The server asks to wait again and again. */
void notice_delayed(struct notices *notices, const struct call *call,
		    const struct call_result *result);
