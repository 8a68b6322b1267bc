/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * path.h - a path as one job uses it: where it leads and on what terms, and its name space. What
 * connections and files of a job have of it is group/path.h's.
 */
#pragma once

#include "client/timers.h"
#include "clock.h"
#include "pool/pool.h"
#include "transport/tls.h"
#include "transport/transport.h"
#include "util.h"
#include "wire/credentials.h"

struct entries_terms;
struct names;
struct nfs_version;
struct path_file;

enum {
	PATH_IO_MAX = 64 << 20
}; /* bytes of one call, whatever the user wants and the server offers */

struct path_config {
	struct terms terms;	/* its own, and its job's for the rest; its strings are its own */
	char *label;		/* how messages name the path */
	char *dir;		/* a kernel mount; NULL: NFS from user space, by what follows */
	char *address, *export; /* literal address, for MOUNT */
	struct sockaddr_storage remote;
	socklen_t remote_length;
	struct sockaddr_storage
		*locals; /* local addresses, bound in turn; none: the system's choice */
	unsigned int local_count;
	unsigned int nfs_port, mount_port; /* 0: ask rpcbind */
	bool rdma;			   /* data goes over RDMA */
	uint32_t rsize, wsize; /* bytes, if the server offers so many; path_open(): 0 is 1 MiB */
	struct rpc_timing timing;
	uint64_t setup_time; /* nanoseconds: for names, before the first file is open */
	uint32_t uid, gid;
};

struct path_job {
	uint32_t file_count; /* files have numbers below this */
	/* Files are directories, with entries on these terms; NULL: they hold data. */
	const struct entries_terms *entries;
	bool failover;	    /* others can stand in for this path */
	bool (*stop)(void); /* true: give up waiting */
	bool (*over)(void); /* true: not even tell the server of the end. NULL: never */
	void (*log)(const char *format, ...) __attribute__((format(printf, 1, 2)));
	void **state; /* the protocol's, of all paths of the job: NULL at first */
	uint64_t (*clock)(const struct clock *clock); /* NULL: CLOCK_MONOTONIC */
};

struct path {
	struct path_config config;
	struct path_job job;
	const struct nfs_version *version;
	struct auth_sys_ids ids;     /* who calls */
	struct auth_sys credentials; /* `ids`, as they are sent */
	struct tls_credentials *tls; /* NULL: calls go in clear */
	struct tls_terms tls_terms;
	void *state;		      /* the protocol's */
	struct names *names;	      /* NULL: not open */
	int directory;		      /* of a mount, or -1 */
	uint32_t read_max, write_max; /* bytes of one READ and one WRITE, 0: not known yet */
	struct path_file *files;
	bool unusable;	  /* failover: it could not open a file, and is not used again */
	bool alone;	  /* failover: nobody is left to stand in for it */
	bool at_work;	  /* a file has been opened: names wait for the server as I/O does */
	bool mount_known; /* NFSv3: MOUNT has not been asked for it: an earlier answer served */
	uint64_t create_verifier; /* NFSv3: of files that are created exclusively */
	uint32_t retries;	  /* of a question about names, over other connections */
	unsigned int connections; /* opened so far: whose turn a local address is */

	/* What its connections have to say is said once for all of them: log_once.c. */
	bool stall_logged;   /* that it has stopped answering, and not yet that it answers again */
	bool expiry_logged;  /* soft: that it did not answer in time, and not that it answers again
			      */
	bool refusal_logged; /* why it does not let us connect again, by the same rule */
	bool delay_logged;   /* that the server keeps asking to wait */
	char no_context[96]; /* why there is none: the beginning of what was said last */
	uint32_t dead;	     /* failover: so many of them are */
};

/* failover: others can stand in for this path, as long as there are any. */
static inline bool path_has_stand_in(const struct path *path)
{
	return path->job.failover && !path->alone;
}

/* Nanoseconds that a server is waited for where there is another way than to go on waiting. */
static inline uint64_t path_detour_time(const struct path_config *config)
{
	return min_of(max_of(timer_major(&config->timing), 5 * SEC), 10 * SEC);
}

/*
 * Nanoseconds that a server has for one operation on names over one connection. Before the first
 * file is open that is all: nobody wants to wait three minutes for a server that is not there. Then
 * it is a major time-out (nfs(5), retrans), which grows as often as one has passed.
 */
static inline uint64_t path_names_timeout(const struct path *path)
{
	const struct path_config *config = &path->config;
	uint64_t major = timer_major(&config->timing);

	if (!path->at_work)
		return config->setup_time;
	if (path_has_stand_in(path))
		return path_detour_time(config);
	return config->timing.soft ? major : min_of(major * (path->retries + 1), 600 * SEC);
}

/*
 * Nanoseconds that it may ask to wait with one such operation, again and again, before the first
 * file is open: by default 2 minutes, which is longer than a grace period.
 */
static inline uint64_t path_wait_max(const struct path *path)
{
	return 12 * path->config.setup_time;
}

/* The server's port for data, over RDMA or TCP. */
unsigned int path_port(const struct path *path, bool rdma);

/* Where its next connection for data goes, and from where; and that for names. */
struct rpc_address path_next_address(struct path *path, bool rdma);
struct rpc_address path_names_address(const struct path *path);

/* The generation of a client's first xid. */
uint32_t path_random(void);
