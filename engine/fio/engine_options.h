/* SPDX-License-Identifier: GPL-2.0-only */
/* engine_options.h - the engine's options as fio stores them. docs/options.md and nfsmulti(7)
 * explain them. */
#pragma once

#include "fio.h"
#include "terms/choices.h"

/* spread_reads and spread_writes: one more than enum spread_policy, 0: as spread says. */
enum { SPREAD_AS_SPREAD = 0 };

struct engine_options {
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
	char *localaddr;
	unsigned int xprtsec; /* enum path_xprtsec */
	char *tls_ca, *tls_cert, *tls_key, *tls_name;
	unsigned int ktls;     /* enum tls_ktls */
	unsigned int security; /* enum path_sec */
	char *principal, *keytab, *ccache, *server_principal;
	unsigned int gss_context;	 /* 1: what terms_check() refuses */
	unsigned int stable;		 /* enum io_stable */
	unsigned int stateless;		 /* NFSv4: files are not opened */
	unsigned int trunking;		 /* NFSv4: one session for all connections */
	unsigned long long hold_writes;	 /* bytes; 0: none */
	unsigned int discard;		 /* READ payload is dropped in the kernel */
	unsigned int busy_poll;		 /* microseconds */
	char *arrival_rate, *arrival_bw; /* per second, I/Os or bytes, as open_loop.c reads it */
	unsigned int arrival_process;	 /* enum arrival_process */
	unsigned int arrival_spin;	 /* microseconds */
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

enum { VERSION_40 = 40 }; /* which is refused */

extern struct fio_option engine_option_table[];

/* Those of a job. */
static inline const struct engine_options *options_of(const struct thread_data *td)
{
	return td->eo;
}
