/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * call.h - one call of a server for tests: MOUNT and epoll are the sink's, time and faults the
 * simulator's, and what Python decides is in scripted/hooks.h; what NFSv3 and NFSv4.1 read and
 * write is the same for all.
 *
 * What there is of files, each front has: it defines the functions of files.h. NFSv4.1's clients
 * are kept in clients.h. Nothing here is kept from one call to the next.
 */
#pragma once

#include <stddef.h>

#include "wire/xdr.h"

/* nfsstat3, and nfsstat4 as well. */
enum {
	STATUS_NOENT = 2,
	STATUS_EXIST = 17,
	STATUS_INVAL = 22,
	STATUS_NOSPC = 28,
	STATUS_STALE = 70,
	STATUS_NOTSUPP = 10004,
	STATUS_DELAY = 10008,
};

struct name {
	const char *bytes;
	uint32_t length; /* 1 … FILE_NAME_MAX */
};

struct stateid {
	uint32_t words[4]; /* its sequence number first */
};

struct session_id {
	uint32_t instance, index, high, number;
};
enum { SESSION_WORDS = 4 };

/* What a procedure of NFSv3, or an operation of NFSv4.1, asks for, as far as fronts look at it. */
struct arguments {
	uint32_t number; /* the procedure's or operation's */
	uint32_t status; /* what is wrong with them, or 0; STALE: their handle is no file's */
	uint64_t file;	 /* by its handle, else the current one */
	struct name name;
	uint64_t offset; /* READDIR: the cookie */
	uint32_t count;	 /* READDIR: the bytes of results that the caller takes */
	uint32_t stable; /* enum io_stable */
	uint32_t claim;	 /* OPEN: enum nfs4_claim */
	uint64_t wanted; /* GETATTR: bit N is attribute N */

	/* READ's, WRITE's and the like's; CREATE_SESSION's. */
	struct stateid stateid;
	uint64_t client;
	uint32_t client_sequence;

	/* SEQUENCE's, in its order, also for the operations behind it; other operations' session.
	 */
	struct session_id session;
	uint32_t sequence, slot, highest, keep; /* keep: the reply, or 0 */
};
/* So much is 0 before each operation. */
#define ARGUMENTS_EACH offsetof(struct arguments, stateid)

struct front;	/* a front's own, for its functions */
struct clients; /* clients.h */

struct limits {
	uint32_t read_max, write_max; /* rtmax and wtmax */
	uint32_t optional; /* NFSv3: the flag before optional attributes; 0: none are sent */

	/* NFSv4.1's */
	uint64_t attributes;	/* bit N is attribute N, which is served */
	uint32_t lease;		/* seconds */
	const uint8_t *flavors; /* SECINFO's results */
	uint32_t flavors_length;
	bool terse;	       /* is silent of which attributes were set */
	bool closes_apart;     /* CLOSE does not take the current stateid */
	bool goes_on;	       /* a compound goes on behind an operation that failed */
	bool zero_id;	       /* the client that came last has the ID 0 */
	uint32_t target;       /* slots of a session that are to be used; 0: all */
	uint32_t next_session; /* 1 + EXCHANGE_ID's sequence once confirmed; 0: the next */
	uint32_t request_max, response_max; /* bytes that a session takes; 0: as asked for */
};

struct nfs_call {
	struct front *front;
	const struct limits *limits;
	/* The arguments; in->bad: they go on past the bytes at hand, and nothing has happened. */
	struct xdr_in *in;
	struct arguments *asked; /* of the procedure or operation under way */
	struct xdr_out *out;	 /* gets the results, all but READ's data */
	const uint8_t *data;	 /* what is to be sent behind these; the sink's is nowhere */
	uint32_t data_length;	 /* without its pad */

	/* NFSv4.1's */
	struct clients *clients;
	struct compound *compound;	    /* while one is served */
	uint32_t call_header, reply_header; /* RPC's, before the arguments and results: bytes */
	uint32_t connection, address;	    /* the former's number, and where it leads to */
	struct slot *slot; /* that carries the call, where replies are kept; or NULL */
	uint64_t client;   /* the same: the one whose session the call came over; or 0 */
};

/* Numbers one behind the other; 0 where there are fewer. Unrolled, so that nfs-sink costs little.
 */
static inline void get_words(struct xdr_in *in, uint32_t *words, uint32_t count)
{
	memset(words, 0, count * sizeof(*words));
	xdr_get_fixed(in, words, count * sizeof(*words));
#pragma GCC unroll 9
	for (uint32_t i = 0; i < count; i++)
		words[i] = be32toh(words[i]);
}

static inline void put_words(struct xdr_out *out, const uint32_t *words, uint32_t count)
{
	uint8_t *room = xdr_room(out, count * sizeof(*words));

#pragma GCC unroll 9
	for (uint32_t i = 0; room && i < count; i++) {
		uint32_t wire = htobe32(words[i]);

		memcpy(room + i * sizeof(wire), &wire, sizeof(wire));
	}
}

/* RPC's header (RFC 5531, 9). */
enum { RPC_ACCEPTED = 24 }; /* bytes of a reply's header, by AUTH_NONE */
enum accept_stat {
	ACCEPT_SUCCESS = 0,
	ACCEPT_PROG_UNAVAIL = 1,
	ACCEPT_PROG_MISMATCH = 2,
	ACCEPT_PROC_UNAVAIL = 3
};
struct rpc_call {
	uint32_t xid, program, version, procedure;
};

/* Up to the credentials. False: that is no call. */
static inline bool rpc_get_call(struct xdr_in *in, struct rpc_call *call)
{
	enum { CALL = 0, RPC_VERSION = 2 };
	uint32_t words[6] = {0};

	xdr_get_fixed(in, words, sizeof(words));
	*call = (struct rpc_call){be32toh(words[0]), be32toh(words[3]), be32toh(words[4]),
				  be32toh(words[5])};
	return in->bad || (words[1] == CALL && words[2] == htobe32(RPC_VERSION));
}

/* The same of the same words, such as of a call that comes again. */
static inline uint32_t words_sum(struct xdr_in words)
{
	uint32_t sum = 2166136261u; /* FNV-1a, by words */

	while (!words.bad) {
		sum = (sum ^ xdr_get_u32(&words)) * 16777619u;
		sum ^= sum >> 15; /* else the high bytes of two words may cancel each other */
	}
	return sum;
}

/* A credential and a verifier: anybody may do anything. */
static inline void rpc_skip_credentials(struct xdr_in *in)
{
	for (int i = 0; i < 2; i++) {
		xdr_get_u32(in);
		xdr_skip(in, xdr_get_u32(in));
	}
}

static inline void rpc_put_accepted(struct xdr_out *out, uint32_t xid, enum accept_stat status)
{
	enum { REPLY = 1 };
	/* MSG_ACCEPTED, AUTH_NONE */
	const uint32_t words[] = {htobe32(xid), htobe32(REPLY), 0, 0, 0, htobe32(status)};

	xdr_put_fixed(out, words, sizeof(words));
}

/* --- NFSv3's procedures (RFC 1813, 3.3; serve3.c): arguments read, carried out, results written
 * ---
 */

/* Serves a call of that procedure. False: there is none of that number, and nothing was written. */
bool serve_nfs3(struct nfs_call *call, uint32_t procedure);

/*
 * --- NFSv4.1's one procedure (RFC 8881, 16.2; serve4.c), of minor versions 1 and 2: arguments
 * read, operations carried out in turn, results written ---
 *
 * Nothing may follow READ and WRITE, whose data is not looked at here. WRITE is served before its
 * data has come if only SEQUENCE and PUTFH precede it; any other call once all of it is here.
 */

/* call->in: a COMPOUND's arguments, `whole` if to their end. */
void serve_nfs4(struct nfs_call *call, bool whole);

/* --- the fate of procedures and operations, which each front decides: it defines these --- */

/* Before it is carried out, call->asked, which may be changed; not 0: it is not. */
uint32_t front_begin(struct nfs_call *call);
/* After it: the status that an operation has then, with results to match. */
uint32_t front_end(struct nfs_call *call, uint32_t status);

/*
 * Once all arguments are read, but for a WRITE's data: 0, or why it is not carried out. `status`:
 * what is wrong with them.
 */
static inline uint32_t admit(struct nfs_call *call, uint32_t status)
{
	struct arguments *asked = call->asked;

	if (call->in->bad)
		return STATUS_INVAL; /* which is not sent */
	asked->status = asked->status ?: status;
	return front_begin(call) ?: asked->status;
}
