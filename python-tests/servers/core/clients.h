/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * clients.h - NFSv4.1's clients, sessions and opens (RFC 8881), which each front has: all of these
 * are a front's. Those that return a number return an nfsstat4.
 */
#pragma once

#include "core/call.h"
#include "core/nfs4.h"

/* Before an operation on `file`, the current one, whose arguments are next in the call; not 0: it
 * is not carried out. */
uint32_t clients_begin(struct front *front, enum nfs4_operation operation, uint64_t file);
/* After it. */
void clients_end(struct front *front, enum nfs4_operation operation, uint32_t status);

/* Who asks, and who answers. */
struct exchange {
	uint64_t client;
	uint32_t sequence; /* of the next CREATE_SESSION */
	bool confirmed;
	uint64_t minor;
	const char *server; /* its name: addresses where it is the same are one server's */
};
/* `owner`: the client's verifier and name, as it sent them. */
void clients_exchange(struct front *front, const uint8_t *owner, size_t length,
		      struct exchange *exchange);
uint32_t clients_destroy(struct front *front, uint64_t client);

struct session_id {
	uint32_t instance, index;
	uint64_t number;
};
/* *slots: as asked for, and then as granted. */
uint32_t clients_create_session(struct front *front, uint64_t client, uint32_t sequence,
				uint32_t *slots, struct session_id *id);
uint32_t clients_bind_session(struct front *front, struct session_id id);
uint32_t clients_destroy_session(struct front *front, struct session_id id);

struct sequence {
	struct session_id session;
	uint32_t sequence, slot;
	uint32_t slots, target; /* there are, and are to be used */
	const uint8_t *kept;	/* the call has come again: these are its results; or NULL */
	uint32_t kept_length;	/* bytes */
};
/* `in`: the arguments from its own on, to the call's end. */
uint32_t clients_sequence(struct front *front, struct xdr_in in, struct sequence *sequence);

uint32_t clients_reclaim_complete(struct front *front);

struct stateid {
	uint32_t words[4]; /* its sequence number first */
};
uint32_t clients_may_open(struct front *front, enum nfs4_claim claim);
struct stateid clients_open(struct front *front, uint64_t file);
/* For a READ or WRITE of the file. */
uint32_t clients_use(struct front *front, uint64_t file, const struct stateid *stateid);
uint32_t clients_close(struct front *front, uint64_t file, const struct stateid *stateid);
