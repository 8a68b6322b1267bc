/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * path.h - a path of one job: its address, terms and names. group/path.h has the functions for a
 * job's connections and files.
 */
#pragma once

#include "client/timers.h"
#include "wait.h"
#include "pool/pool.h"
#include "transport/transport.h"
#include "wire/credentials.h"

struct entries_terms;
struct names;
struct nfs_version;
struct path_file;

enum { PATH_IO_MAX = 64 << 20 }; /* bytes of one call at most */

struct path_config {
	struct terms terms;	/* the path's arguments and the job's options; owns its strings */
	char *label;		/* the path's name in messages */
	char *dir;		/* a kernel mount; NULL: NFS from user space */
	char *address, *export; /* literal address, for MOUNT; export's path */
	struct sockaddr_storage remote;
	socklen_t remote_length;
	struct address_range *locals; /* bound in turn; none: the kernel chooses */
	unsigned int local_count;
	unsigned int nfs_port; /* 0: ask rpcbind */
	bool rdma;	       /* data goes over RDMA */
	uint32_t rsize, wsize; /* bytes at most: nfs(5) */
	struct rpc_timing timing;
	uint64_t setup_time; /* nanoseconds for one answer before the first file is open */
	uint32_t uid, gid;
};

/* Before the first file is open, a server may ask to wait for this many setup_times: by default
 * for 2 minutes, longer than a grace period. */
enum { PATH_SETUPS_MAX = 12 };

struct path_job {
	uint32_t file_count; /* files are numbered from 0 */
	/* For a metadata job, whose files are directories of entries. NULL: files hold data. */
	const struct entries_terms *entries;
	bool failover;	       /* others can stand in for this path */
	uint32_t clients;      /* nclients=: the job's connections are clients of their own; or 0 */
	uint32_t first_client; /* the first one's number, for client_name= */
	bool (*stop)(void);    /* true: the run was stopped: wait for nothing */
	bool (*over)(void);    /* true: send the server nothing more. NULL: never */
	void (*log)(const char *format, ...) __attribute__((format(printf, 1, 2)));
	void **state; /* the protocol's, of all paths of the job: NULL at first */
	uint64_t (*clock)(const struct clock *clock); /* NULL: CLOCK_MONOTONIC */
};

struct path {
	struct path_config config;
	struct path_job job;
	const struct nfs_version *version;
	struct auth_sys_ids ids; /* AUTH_SYS's user and groups */
	struct tls_terms tls_terms;
	struct rpc_loans loans;	      /* the connections' buffers */
	void *state;		      /* the protocol's */
	struct names *names;	      /* NULL: not open */
	int directory;		      /* of a mount, or -1 */
	uint32_t read_max, write_max; /* bytes of one READ and one WRITE, 0: not known yet */
	struct path_file *files;
	bool unusable;		  /* failover: the path was given up, since opening a file failed */
	bool alone;		  /* failover: no other path is left */
	bool at_work;		  /* a file has been opened: names wait as long as I/O does */
	bool mount_known;	  /* NFSv3: the root handle is from an earlier MOUNT call */
	uint64_t create_verifier; /* NFSv3: exclusive CREATE's */
	uint32_t retries;	  /* how often the current question was asked again */
	unsigned int connections; /* opened so far: chooses the next local address */

	bool quiet; /* path_say() says nothing: a step is taken again whose failure was told */

	/* log_once.c's, once per path. After trouble an answer resets all but delay_logged. */
	bool stall_logged;   /* the server has stopped answering */
	bool expiry_logged;  /* soft: an I/O has timed out */
	bool refusal_logged; /* connecting again fails */
	bool delay_logged;   /* the server keeps asking to wait, or refusing a call */
	char no_context[96]; /* the start of the last logged reason why there is no context */
	uint32_t dead;	     /* failover.c's: connections that are dead */
};

/* Logs a line about the path, by its label, unless it is quiet. */
#define path_say(path, format, ...) \
	((path)->quiet ? (void)0    \
		       : (path)->job.log("%s: " format, (path)->config.label, ##__VA_ARGS__))

/* failover: another path can take over. */
static inline bool path_has_stand_in(const struct path *path)
{
	return path->job.failover && !path->alone;
}

/* Nanoseconds to wait for a server where there is an alternative, such as another path. */
static inline uint64_t path_detour_time(const struct path_config *config)
{
	return min_of(max_of(timer_major(&config->timing), 5 * SEC), 10 * SEC);
}

/*
 * Nanoseconds to wait for MOUNT, a ready connection, or (names_deadline()) an answer about names:
 * setup_time until the first file is open. Then path_detour_time() with a stand-in; without one a
 * major time-out (nfs(5)), and if hard one more for each repetition of the question, up to 600 s.
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

/* The server's port for data, over RDMA or TCP. */
static inline unsigned int path_port(const struct path *path, bool rdma)
{
	return rdma ? path->config.terms.rdmaport : path->config.nfs_port;
}

/* Both ends of a connection; `turn` chooses one of the local addresses. With nclients= it is the
 * client's number in the job. */
struct rpc_address path_address(const struct path *path, bool rdma, unsigned int turn);

/* A random number, different in each run: for a client's first xid, the verifier of exclusive
 * CREATEs, and the names of a mix's entries. */
uint32_t path_random(void);
