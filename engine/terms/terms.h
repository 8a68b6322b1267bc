/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * terms.h - what a user may say of a job and of its paths: a member of struct terms for each
 * option, and a row of terms_table that says all the rest about it.
 *
 * From the row follows fio's table of options, and from that docs/options.md and nfsmulti(7). To
 * add an option: a member, a row, and what it does.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "terms/choices.h"

/* As fio stores them. */
struct terms {
	void *pad; /* fio keeps the thread_data here */
	char *pool;
	unsigned int nconnect;
	unsigned int first_path; /* counted from 0 */
	unsigned int spread, spread_reads, spread_writes;
	unsigned long long stripe_size; /* bytes; 0: the job's largest block */
	unsigned int version;		/* NFSv4's minor version, VERSION_40; 0: NFSv3 */
	unsigned int proto;		/* enum mount_proto */
	unsigned int port, mountport;	/* 0: ask rpcbind */
	unsigned int rdmaport;
	unsigned int inline_max;   /* bytes */
	unsigned int rsize, wsize; /* bytes; 0: the server's maximum, at most 1 MiB */
	unsigned int timeo;	   /* tenths of a second */
	unsigned int retrans;
	unsigned int soft;
	unsigned int failover;
	char *localaddr;		   /* one address, or several joined by "+" */
	unsigned int xprtsec;		   /* enum path_xprtsec */
	char *tls_ca, *tls_cert, *tls_key; /* files */
	char *tls_name;			   /* NULL: the host as it is written */
	unsigned int ktls;		   /* enum tls_ktls */
	unsigned int security;		   /* enum path_sec */
	char *principal, *keytab, *ccache; /* the client's */
	char *server_principal;		   /* NULL: nfs@ and the host as it is written */
	unsigned int gss_context;	   /* 1: what terms_check() refuses */
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
};

enum term_kind {
	TERM_NUMBER, /* unsigned int, from `least` to `most`; without a preset also 0 */
	TERM_SIZE,   /* unsigned int, of bytes */
	TERM_BYTES,  /* unsigned long long */
	TERM_CHOICE, /* unsigned int, one of `values` */
	TERM_SWITCH, /* unsigned int, 0 or 1 */
	TERM_FLAG,   /* sets an unsigned int to `least`, 0 or 1; WORD=0 to the other */
	TERM_TEXT,   /* char * */
	TERM_GONE,   /* refused with `help`: there was such an option */
};

enum { TERM_VALUES_MAX = 10 };

struct term {
	const char *word; /* the option's */
	enum term_kind kind;
	size_t at; /* of its member */
	uint32_t least, most;
	const char *alias;
	const char *preset; /* where a job says nothing; without one: 0 or NULL */
	struct term_value {
		const char *word;
		unsigned int value;
		const char *help;
	} values[TERM_VALUES_MAX];
	const char *help; /* fio's, and docs/options.md's */
};

extern const struct term terms_table[];
#define for_each_term(term) for (const struct term *term = terms_table; (term)->word; (term)++)
