/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hooks.h - the scripted server's front of the core (core/call.h): Python has the files, and is
 * asked what becomes of each operation (core.py, which reads this header). A thread serves one
 * server; several may be there.
 */
#pragma once

#include "core/clients.h"
#include "core/files.h"

enum { HOOKS_UNHEARD = -1 }; /* begin(): the compound is as if it had not come */

/* Python's. Those that return a number return 0 or a status. */
struct hooks {
	/* An operation of NFSv4.1, before it is carried out, and after it: both see struct asked.
	 */
	int32_t (*begin)(uint32_t operation, uint64_t file);
	uint32_t (*end)(uint32_t operation, uint32_t status);

	/* As in core/files.h. */
	uint32_t (*find)(const uint8_t *handle, uint32_t length, uint64_t *file);
	uint32_t (*tell)(uint64_t file, uint8_t *handle); /* returns its length */
	uint32_t (*attributes)(uint64_t file, struct file_attributes *attributes);
	uint32_t (*set_size)(uint64_t file, uint64_t size);
	uint32_t (*lookup)(uint64_t directory, const struct name *name, uint64_t *file);
	uint32_t (*make)(uint64_t directory, const struct name *name, uint32_t type, bool guarded,
			 uint64_t *file);
	uint32_t (*remove)(uint64_t directory, const struct name *name);
	uint32_t (*link)(uint64_t file, uint64_t directory, const struct name *name);
	uint32_t (*list)(uint64_t directory, uint64_t first, struct name_page *page);
	uint32_t (*read)(uint64_t file, struct transfer *read);
	uint32_t (*write)(uint64_t file, struct transfer *write, const uint8_t *data);
	uint32_t (*commit)(uint64_t file, struct transfer *commit);
};

/* A call; what the core has read and written so far is set for each operation. */
struct asked {
	uint32_t version, procedure, connection, address;
	uint32_t refusal; /* NFSv3: the call is not carried out, and has this status; or 0 */
	const uint8_t *arguments;
	uint32_t length, read;
	uint8_t *results;
	uint32_t room, begun, written; /* where the operation's status stands; results so far */
	bool replaced;		       /* by end(): READ's data is none of the results */

	/* SEQUENCE's, from begin() on: the slots that may be in use by then, and are to be used. */
	uint32_t highest, target;
};

struct hooked_server;

struct hooked_server *hooks_new(const char *name, uint32_t instance, bool delegates,
				uint32_t slots);
void hooks_free(struct hooked_server *server);

enum hooked { HOOKED_ANSWERED, HOOKED_GARBAGE, HOOKED_UNHEARD };
enum hooked hooks_answer(struct hooked_server *server, const struct hooks *hooks,
			 const struct limits *limits, struct asked *asked);

void hooks_restart(struct hooked_server *server);
void hooks_end_sessions(struct hooked_server *server);
/* The session that was made last, as if its CREATE_SESSION had failed. */
void hooks_drop_session(struct hooked_server *server);

/* struct clients_kept. */
void hooks_kept(const struct hooked_server *server, uint32_t kept[4]);
