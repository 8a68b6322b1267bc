/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hooks.h - the scripted server's front of the core (core/call.h): Python has the files, and is
 * asked what becomes of each operation (core.py, which reads this header). A thread serves one
 * server; several may be there.
 */
#pragma once

#include "core/clients.h"
#include "core/files.h"

enum { HOOKS_UNHEARD = -1 }; /* hooks_begin(): the call is as if it had not come */

/*
 * Python's, as files.h's are. A call of NFSv3 or an operation of NFSv4.1, before it is carried out,
 * and after it: both see struct asked, and return a status.
 */
extern int32_t (*hooks_begin)(uint32_t operation);
extern uint32_t (*hooks_end)(void);
/* Puts a file's handle there; returns its length. */
extern uint32_t (*hooks_tell)(uint64_t file, uint8_t *handle);
extern uint32_t (*hooks_write)(uint64_t file, struct transfer *write, const uint8_t *data);

/* A call. `begun` and what follows are set for each of its operations; a call of NFSv3 is one. */
struct asked {
	uint32_t version, procedure, connection, address;
	const uint8_t *arguments;
	uint32_t length, header; /* header: bytes of RPC's, before the arguments */
	uint8_t *results;
	uint32_t room, begun, written; /* where the operation's status stands; results so far */
	bool replaced;		       /* by end(): READ's data is none of the results */
	struct arguments operation;    /* what the one under way asks for */
};

struct hooked_server; /* it begins with its struct clients */

struct hooked_server *hooks_new(const char *name, uint32_t instance, bool delegates,
				uint32_t slots);
void hooks_free(struct hooked_server *server);

/* False: these are no arguments, or more than these. */
bool hooks_answer(struct hooked_server *server, const struct limits *limits, struct asked *asked);
