/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tls.h - a simulated TLS (RFC 9289): records, each a token (tokens.h) by the sender's keys and its
 * number. Until hands are shaken the keys are nobody's.
 *
 * It is between the simulated network and the server, on some of its addresses: there no call may
 * come in clear but the probe for TLS, and none over a session that the client had to refuse. The
 * client's end is the engine's tls.c and tls_session.c on gnutls.c.
 */
#pragma once

#include "network.h"
#include "tokens.h"

enum tls_record_type {
	TLS_DATA,
	TLS_HELLO,    /* the first of either end: struct tls_hello */
	TLS_FINISHED, /* the client's second, by its keys: struct tls_finished */
	TLS_TICKET,   /* means nothing */
	TLS_UPDATE,   /* what follows is by other keys */
	TLS_CLOSE,    /* alerts: nothing more comes */
	TLS_REFUSAL,  /* it is all over */
};

struct tls_hello {
	uint64_t key; /* a half of it */
	bool asks;    /* for a certificate */
	bool wrong;   /* so is the server's own */
};

struct tls_finished {
	bool certificate; /* there is one */
};

enum {
	TLS_HEAD = 2, /* the length of what follows: token, which has the type before the bytes */
	TLS_PLAIN_MAX = 16384,
	TLS_SIZE_MAX = TLS_HEAD + TOKEN_WRAP + 1 + TLS_PLAIN_MAX,
};

/* Of one direction. */
struct tls_keys {
	uint64_t key, number; /* the next record's */
};
void tls_keys_update(struct tls_keys *keys);

/* Writes a record of `length` bytes; returns its size. */
size_t tls_record_seal(struct tls_keys *keys, enum tls_record_type type, const void *bytes,
		       size_t length, uint8_t *record);

/* A record that comes in. */
struct tls_incoming {
	uint8_t bytes[TLS_SIZE_MAX];
	size_t have;
};
/* Bytes of it that are missing, as far as is known; 0: it is whole. */
size_t tls_record_missing(const struct tls_incoming *incoming);

/* What was in it: it lies there until the next one comes. */
struct tls_record {
	enum tls_record_type type;
	const uint8_t *bytes;
	size_t length;
};
/* Decrypts a whole one; the next one may come. False: it was changed. */
bool tls_record_open(struct tls_keys *keys, struct tls_incoming *incoming,
		     struct tls_record *record);

/* --- the server (tls_server.c) --- */

/* One in so many, as in struct server_terms. */
struct tls_faults {
	uint32_t paths; /* a bit for each address that is over TLS; 0: there is no TLS */
	bool mutual;
	uint64_t window;    /* network_terms' */
	uint64_t worn;	    /* records that a key serves for; 0: as many as in life */
	uint64_t turn_in;   /* a restart or probe: no STARTTLS, or wrong certificates for a while */
	uint64_t shake_in;  /* a handshake hangs, or is cut */
	uint64_t forge_in;  /* a byte of a record is another when it arrives */
	uint64_t end_in;    /* the connection ends within a record, or by a close_notify */
	uint64_t update_in; /* a ticket, or other keys, before a reply */
};

/* Nothing fails yet; tls_server_fail() follows. */
void tls_server_begin(const struct tls_faults *faults);
void tls_server_fail(const struct tls_faults *faults);
void tls_server_heal(void);
void tls_server_restart(void);

/* Of a key's records, in life, each of the simulation's counts so many times. */
uint64_t tls_record_weight(void);

/* In the place of the server's own, and of network_send(). */
extern const struct network_server tls_network;
void tls_server_send(struct link_end *end, const void *bytes, size_t length);
