/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tls_records.h - what a simulated TLS sends: records, each a token (tokens.h) by the sender's keys
 * and its number. Until hands are shaken the keys are nobody's.
 */
#pragma once

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
