/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * terms.h - the options of a job and the arguments of its paths. Each is a member of struct terms,
 * and a row of terms_table that says everything else about it.
 *
 * From the rows come fio's table of options, the arguments of a path in a pool, the JSON of
 * nfsmulti-pool, what a path takes from its job, which jobs share paths, docs/options.md and
 * nfsmulti(7). To add an option: a member, a row, and what it does.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "terms/choices.h"

enum { TERMS_MAX = 80 }; /* rows of terms_table */

/* A job's terms, set by fio, or a path's, where terms that the path does not name are 0 or NULL. */
struct terms {
	void *pad; /* fio keeps the thread_data here */
	char *pool;
	unsigned int nconnect;
	unsigned int nclients; /* 0: the job is one client */
	unsigned int client_depth, client_start, client_files;
	char *client_name;
	unsigned int first_path; /* counted from 0 */
	unsigned int spread, spread_reads, spread_writes;
	unsigned long long stripe_size; /* bytes; 0: the job's largest block */
	unsigned int version;		/* NFSv4's minor version, or VERSION_40; 0: NFSv3 */
	unsigned int proto;		/* enum mount_proto */
	unsigned int port, mountport;	/* 0: ask rpcbind */
	unsigned int rdmaport;
	unsigned int inline_max;   /* bytes */
	unsigned int rsize, wsize; /* bytes; 0: the server's maximum, at most 1 MiB */
	unsigned int timeo;	   /* tenths of a second */
	unsigned int retrans;
	unsigned int reconnect; /* enum reconnect */
	unsigned int soft;
	unsigned int failover;
	char *localaddr; /* one address, or several joined by "+" */
	unsigned int uid, gid;
	unsigned int xprtsec;		   /* enum path_xprtsec */
	char *tls_ca, *tls_cert, *tls_key; /* files */
	char *tls_name;			   /* NULL: the host as written in the pool */
	unsigned int ktls;		   /* enum tls_ktls */
	unsigned int security;		   /* enum path_sec */
	char *principal, *keytab, *ccache; /* the client's */
	char *server_principal;		   /* NULL: nfs@ and the host as written in the pool */
	unsigned int stable;		   /* enum io_stable */
	unsigned int stateless;		   /* NFSv4: files are not opened */
	unsigned int trunking;		   /* NFSv4: one session for all connections */
	unsigned long long hold_writes;	   /* bytes; 0: none */
	unsigned int discard;		   /* READ payload is dropped in the kernel */
	unsigned int busy_poll;		   /* microseconds */
	char *arrival_rate, *arrival_bw;   /* per second, I/Os or bytes, as open_loop.c reads it */
	unsigned int arrival_process;	   /* enum arrival_process */
	unsigned int arrival_spin;	   /* microseconds */
	unsigned int rx_timestamps;
	unsigned int arrival_batch; /* microseconds */
	unsigned int metadata;
	unsigned int meta_read, meta_write; /* enum meta_op */
	char *meta_mix;
	unsigned int meta_verify;
	unsigned int dir_entries, tree_depth, shared_dir;
	char *require_version;
	char *stats_file, *live_file;
	unsigned int trace;

	bool given[TERMS_MAX]; /* by row: the path itself names the term */
	bool each[TERMS_MAX];  /* by row: "N+": client n of nclients= has N + n */
};

enum term_kind {
	TERM_NUMBER,	/* unsigned int, `least` to `most`; without `preset` a job's may be 0 */
	TERM_SIZE,	/* the same, in bytes; in a path k and m may follow the number */
	TERM_BYTES,	/* unsigned long long; only of jobs */
	TERM_CHOICE,	/* unsigned int, one of `values` */
	TERM_SWITCH,	/* unsigned int, 0 or 1; only of jobs */
	TERM_FLAG,	/* unsigned int, 0 or 1: `least` by WORD, the other by WORD=0 (in a path) */
	TERM_TEXT,	/* char * */
	TERM_ADDRESSES, /* char *: literal addresses, joined by '+' */
	TERM_GONE,	/* a former option, or a likely mistake for one: refused with `help` */
};

/* What a path needs for a term to have an effect. */
enum term_needs { NEEDS_NOTHING, NEEDS_TLS, NEEDS_KERBEROS, NEEDS_TCP, NEEDS_CLEAR /* no TLS */ };

enum { TERM_VALUES_MAX = 10 };

struct term {
	const char *word; /* the option's name */
	const char *alias;
	const char *help; /* for fio and docs/options.md; NULL: only of paths */
	size_t at;	  /* the member's offset; TERM_GONE has no member: sizeof(struct terms) */
	enum term_kind kind;
	uint32_t least, most; /* a job's TERM_NUMBER: `most` 0 is no limit */
	uint32_t each_most;   /* not 0: a path may give "N+" (terms->each), N up to this */
	enum term_needs needs;
	/* Its words in a path, with blanks between; JSON uses the first. NULL: only of jobs. */
	const char *in_path;
	const char *unit;   /* for messages */
	const char *preset; /* a job's default; NULL: the default is 0 or NULL */
	struct term_value {
		const char *word;
		unsigned int value;
		const char *help;
	} values[TERM_VALUES_MAX];
	const char *refusal; /* why the value `refused` is refused; printed after "WORD=VALUE" */
	unsigned int refused;
	bool shared; /* only of jobs: jobs that share paths have the same value */
};

extern const struct term terms_table[];
#define for_each_term(term) for (const struct term *term = terms_table; (term)->word; (term)++)

/* The row of a member: TERM(port). */
#define TERM(member) term_at(offsetof(struct terms, member))
const struct term *term_at(size_t at);

/* True if a path itself names the term: term_given(TERM(port), &path->terms). */
static inline bool term_given(const struct term *term, const struct terms *terms)
{
	return terms->given[term - terms_table];
}
void term_give(const struct term *term, struct terms *terms);

/* True if each client of nclients= has a number of its own. */
static inline bool term_is_each(const struct term *term, const struct terms *terms)
{
	return terms->each[term - terms_table];
}

/* The term's member in `terms`. */
static inline unsigned int *term_number(const struct term *term, const struct terms *terms)
{
	return (unsigned int *)((char *)terms + term->at);
}

static inline unsigned long long *term_bytes(const struct term *term, const struct terms *terms)
{
	return (unsigned long long *)((char *)terms + term->at);
}

static inline char **term_string(const struct term *term, const struct terms *terms)
{
	return (char **)((char *)terms + term->at);
}

static inline bool term_is_text(const struct term *term)
{
	return term->kind == TERM_TEXT || term->kind == TERM_ADDRESSES;
}

/* The row of a choice's `values` with this number: "krb5p" is the word of
 * term_value(TERM(security), SEC_KRB5P). */
const struct term_value *term_value(const struct term *term, unsigned int number);

static inline bool term_refuses(const struct term *term, const struct term_value *value)
{
	return term->refusal && value->value == term->refused;
}

/* The term's value as text; a number is written into `room`; "": a text that is not set. */
enum { TERM_ROOM = 24 };
const char *term_text(const struct term *term, const struct terms *terms, char room[TERM_ROOM]);

static inline bool terms_over_rdma(const struct terms *terms)
{
	return terms->proto == MOUNT_RDMA || terms->proto == MOUNT_RDMA6;
}

/* A job's defaults for its paths: numbers have their preset, choices are 0. */
void terms_init(struct terms *terms);

/* Copies strings, too. False: out of memory: the caller frees the strings by terms_free(to). */
bool terms_copy(struct terms *to, const struct terms *from);
void terms_free(struct terms *terms);

/* A path's own terms, and its job's for the rest. The strings stay with their owners. */
struct terms terms_over(const struct terms *path, const struct terms *job);

/* One string, for the caller to free, of all terms but pool= that decide where a job's paths lead
 * and whether they are refused: only jobs with the same string share paths. NULL: no memory. */
char *terms_key(const struct terms *job);

/* True if `terms` set any term with these needs. */
bool terms_need(const struct terms *terms, enum term_needs needs);

/* Prints the terms that a path names itself, as members of a JSON object: `, "port": 2049`. */
void terms_print(FILE *out, const struct terms *path);
void terms_print_string(FILE *out, const char *key, const char *text);
