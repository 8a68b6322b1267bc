/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * network.h - simulated sockets in the place of TCP's: send(2) and its like, and the functions of
 * the engine's stream.h, are defined here, below its own channels. Bytes arrive late and in
 * pieces, connections are reset in the middle of a record, addresses are out of reach for a while.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ADDRESSES_MAX = 4 };

/*
 * A connection: its client's end is a descriptor, its server's end is this. It lives as long as
 * either end or a delivery knows it.
 */
struct link_end {
	uint32_t address; /* that it leads to */
	void *context;	  /* what the server keeps of it */

	/* network.c's */
	int fd; /* -1: the client has closed it */
	unsigned int users;
	bool up;    /* the server has accepted it */
	bool lost;  /* it was reset: the client is told when it has read what came before */
	bool ended; /* the server has closed it: the same */
	bool told;  /* the client has read that */
	int failed; /* connecting has: a negative errno */

	uint8_t *inbox; /* bytes that have reached the client */
	size_t inbox_length;
	uint64_t arrives_there, arrives_here; /* the latest deliveries: they keep their order */
	uint64_t sent, delivered;	      /* bytes, by the client, and to the server */
};

struct network_terms {
	uint64_t latency;  /* nanoseconds, one way, at most */
	uint64_t reset_in; /* one in so many deliveries resets the connection; 0: none does */
	uint64_t window;   /* bytes on their way to the server, at most; 0: 256 KiB */
};

/* Addresses are numbers from 0, each with a port of its own: 1 + its number. */
void network_begin(void);
/* False: a connection is left. The world has ended. */
bool network_end(void);

/* The client is gone without closing: its descriptors are. The world has ended. */
void network_abandon(void);

/* From now on it is like that. */
void network_fail(const struct network_terms *terms);

/* A server listens or does not; that it stops resets its connections. */
void network_listen(bool listens);
/* New connections to an address are refused. */
void network_refuse(uint32_t address);
/* An address is out of reach for a while, or (UINT64_MAX) until network_heal(): nothing arrives
 * over it, in neither direction, and nothing is lost but by resets. */
void network_cut(uint32_t address, uint64_t time);
/* From now on nothing fails any more, and all is fast. */
void network_heal(void);

/* A client has read since this was asked last, and there is more. */
bool network_is_read(void);

/* The times that clients asked since when an address was not heard. */
uint32_t network_asked_unheard(void);

/* Sends bytes to the client. */
void network_send(struct link_end *end, const void *bytes, size_t length);

/* The server ends the connection, and `end` with it. */
void network_reset(struct link_end *end, const char *why);
/* The same, once the client has read what was sent. */
void network_finish(struct link_end *end);
