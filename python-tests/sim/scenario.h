/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scenario.h - a written job in the simulator: its runner decides the fate of each call that the
 * server receives, and reads afterwards which calls there were, and what the engine has said. No
 * scenario draws chance from a job's seed. cffi reads this file: it has declarations only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A call that the server has received; over NFSv4.1 an operation of a compound. */
struct scenario_call {
	uint32_t version, procedure; /* 3: NFSv3's; 4: the operation of NFSv4.1 */
	uint32_t nth;		     /* of its procedure since I/O began, from 1 */
	uint64_t time, answered;     /* ns since I/O began; answered 0: no reply has left */
	uint32_t xid, connection, address;
	uint32_t client; /* nclients: which one's, from 1; 0: the job's own */
	uint32_t file;	 /* READ, WRITE, COMMIT, OPEN: its number, from 0 */
	uint64_t offset; /* READ, WRITE, COMMIT */
	uint32_t count, stable;
	uint32_t status;		  /* of its result; NFSv3: 0, or the fate's */
	uint32_t session, slot, sequence; /* NFSv4.1 */
	uint32_t claim;			  /* OPEN */
};

enum scenario_end { SCENARIO_STAYS, SCENARIO_RESET, SCENARIO_CLOSE };

/* What else happens, before the call is carried out. */
enum scenario_act {
	SCENARIO_NOTHING,
	SCENARIO_REFUSE,	 /* nobody listens any more, and all connections are reset */
	SCENARIO_EXPIRE,	 /* NFSv4.1: the client is forgotten, with its sessions and opens */
	SCENARIO_REVOKE,	 /* its opens are */
	SCENARIO_SESSIONS,	 /* its sessions are */
	SCENARIO_REFUSE_ADDRESS, /* new connections to the call's address are refused */
	SCENARIO_CONTEXTS,	 /* the server forgets all Kerberos contexts */
	SCENARIO_TICKETS,	 /* the same, and for 10 s it refuses tickets */
};

/* What becomes of a call. All zeros: it is carried out and answered. */
struct scenario_fate {
	bool forgets;	    /* first, the server loses what is not durable: another verifier */
	bool restarts;	    /* instead: that, and its connections, clients and replies */
	bool unheard;	    /* it is not carried out, nor answered */
	bool mute;	    /* it is carried out, and not answered */
	bool unserved;	    /* it is not carried out: the reply says PROG_UNAVAIL (NFSv3) */
	bool garbage;	    /* it is carried out: 40 bytes of 0xff are the reply */
	bool is_call;	    /* it is carried out: the reply's message type is CALL (NFSv3) */
	bool refused;	    /* it is carried out: its transport refuses it, as by RDMA_ERROR */
	bool renames;	    /* the reply has a verifier that no other reply has */
	bool repeats;	    /* CREATE_SESSION: as if the one before it came again (NFSv4.1) */
	uint32_t status;    /* it is not carried out: the reply has this status */
	uint32_t limit;	    /* READ, WRITE: this many bytes are moved at most; 0: all */
	uint32_t fragment;  /* the reply's record is cut into fragments of so many bytes; 0: one */
	uint32_t committed; /* WRITE: 1 + the reply's stable_how; 0: as was asked */
	uint64_t delay;	    /* ns until the reply leaves */
	uint64_t cut;	    /* ns for which the call's address is out of reach from now on */
	enum scenario_end end; /* of the connection, with the reply, or without one */
	enum scenario_act act;
};

typedef void (*scenario_decide)(const struct scenario_call *call, struct scenario_fate *fate);
typedef void (*scenario_say)(const char *line); /* the engine's */

/*
 * The terms: files, to which blocks are given in turn, so that each block is read or written once,
 * in order. A job that is_possible() (scenario.c) does not take is refused.
 */
struct scenario {
	uint32_t version; /* 3 or 4 */
	bool reads, soft, failover, goes_on;
	bool trunks;			    /* NFSv4.1: one session for all connections */
	uint32_t files;			    /* 1 to 4 */
	uint32_t blocks, block;		    /* of all files: their number, and bytes of each */
	uint32_t size;			    /* bytes of each file at the server; 0: as has room */
	uint32_t rsize, wsize;		    /* bytes of a call; 0: of a block */
	uint32_t depth, fsync, paths, hold; /* fsync: blocks of a file; hold: bytes, or 0 */
	uint32_t timeo, retrans;	    /* as in nfs(5): tenths of a second */
	uint32_t stable;		    /* of enum io_stable */
	uint32_t nconnect;
	uint32_t nclients;     /* 0, or paths to depth; client_depth is depth / nclients */
	uint32_t reconnect;    /* of enum reconnect */
	uint32_t client_start; /* clients that begin in a second; 0: all at once */
	uint32_t service;      /* Kerberos: of enum gss_service; 0: AUTH_SYS */
	uint32_t spread;       /* of enum spread_policy */
	uint32_t stripe;       /* bytes; 0: two blocks */
	bool uncached, binds;  /* NFSv4.1: as in struct clients_terms */
	uint32_t slots, lease; /* NFSv4.1; lease: seconds; 0: 90 */
	uint32_t window;       /* bytes on their way to the server, at most; 0: 256 KiB */
	bool trace;
	scenario_decide decide;
	scenario_say say;
};

struct scenario_result {
	int error; /* a positive errno: of the first I/O that failed, or of the sync at the end */
	uint32_t reconnects, retransmissions, rtts;
	uint32_t unheard;  /* times that the engine asked since when an address was not heard */
	uint32_t connects; /* how often the engine has begun to connect */
	uint32_t contexts; /* of Kerberos, that were made */
	uint64_t making;   /* ns that this took */
	uint64_t connected[64]; /* the first of these, in ns since I/O began */
	uint64_t began;		/* ns from the first connection's beginning to the last one's */
	uint64_t took;		/* ns of I/O, with the sync */
	uint64_t moved;		/* bytes of the blocks, as far as they were read or written */
	uint64_t rewritten;	/* bytes that were written again */
	bool durable, sound;	/* all that was written is; all that was read is what was there */
	const char *keeps;	/* what the server keeps of NFSv4.1's clients afterwards, or "" */
	const char *violation;	/* "": none */
	uint32_t calls;
	struct scenario_call log[4096]; /* of these */
};

/* Runs it, within 600 s of the world's time. Texts of the result are valid until the next run. */
void scenario_run(const struct scenario *scenario, struct scenario_result *result);

/* --- the server's, and the job's --- */

/* The fate of a call, and its place in the log; NULL where no I/O of a scenario is under way. */
struct scenario_call *scenario_received(const struct scenario_call *call,
					struct scenario_fate *fate);
void scenario_answered(struct scenario_call *call);
void scenario_connects(void);
/* The call of that number had the fate `refused`. */
bool scenario_refused(uint32_t xid);
/* The engine has said that. */
void scenario_said(const char *line);
