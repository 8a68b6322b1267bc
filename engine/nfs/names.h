/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * names.h - asks the server about names and handles of one export, over a TCP connection of its
 * own, whatever transport READ, WRITE and COMMIT use. Up to NAMES_CALLS questions are under way at
 * once, in NFSv4.1 no more than the session has slots. Both versions ask by a struct meta_request.
 *
 * All functions wait for the answer, until path_job's stop() or path_names_timeout(); where a file
 * is open and no path can stand in, they wait as long as I/O does. A server that asks to wait is
 * asked again: before the first file is open, for at most 12 * setup_time. They return 0 or a
 * negative errno, with words in names->error. -EINTR: stop() returned true. names->given_up set:
 * the server did not answer, and is asked no more. Any other errno: its answer, or a bad name.
 *
 * Names are relative to the export, "a/b/c"; empty components and "." are left out, and no symbolic
 * link is followed.
 */
#pragma once

#include "client/client.h"
#include "nfs/meta.h"
#include "nfs/path.h"
#include "nfs/status.h"

struct meta_request;

enum { NAMES_CALLS = 32 };

/* --- a connection for names --- */

struct names {
	struct rpc_client rpc;
	struct rpc_timing timing;
	struct clock clock;
	struct counters counters;
	struct transport_counters transport;
	struct latency latency;
	struct path *path;
	bool connects;		  /* it has a client; if not, the next question makes one */
	bool given_up;		  /* the server did not answer: nothing is asked any more */
	bool found;		  /* `export` is valid */
	struct nfs_handle export; /* the export's root */
	char room[4096];	  /* a path, split into its components */
	enum answer answer;	  /* who reported the error in `error` */
	char error[420];
};

/* Waits until the client is ready. After an error, which it logs, there is nothing to close. */
int names_connect(struct names **names, struct path *path);

/* Opens path->names; opens them again after given_up, or if they found no export. */
int path_names_ready(struct path *path);
/* Closes path->names, but ends no session at the server. */
void path_close_names(struct path *path);

/* Closes the connection until the next question. */
void names_rest(struct names *names);

/* Returns `error`, with `words` in names->error. */
int names_fail(struct names *names, int error, const char *words);

/* --- questions --- */

/* A name in a directory, or a handle, and the result of the latest question about it. */
struct names_item {
	char *name;		  /* NULL: the batch's directory itself */
	struct nfs_handle handle; /* of length 0: not looked up */
	struct meta_kind kind;	  /* of type 0: not known */
	struct meta_identity identity;
	int error;		    /* a negative errno */
	const char *status;	    /* the server's status, or other words why it failed; or NULL */
	bool resent;		    /* an unanswered copy of its call may have been carried out */
	struct meta_result *result; /* set by the caller: where all of the result goes, or NULL */
};

/* The same operation on many items. A member that may be NULL says so. */
struct names_batch {
	enum meta_op op;
	const struct nfs_handle *directory;
	struct names_item *items;
	uint32_t count;
	bool (*wants)(const struct names_item *item); /* NULL: all */
	/* fill() sets arguments other than directory and name; listed() gets names. Both may be
	 * NULL. */
	void (*fill)(struct meta_arguments *arguments, void *context);
	void (*listed)(struct meta_request *request, const struct readdir_page *page);
	void *context;
};

/* 0 if all items were answered; each has its own error. Each answer restarts the time-out.
 * `patient`: waits for a server that refuses connections. */
int names_run(struct names *names, const struct names_batch *batch, bool patient);

/*
 * Asks one question, and returns the item's error. Before the first file is open it does not wait
 * for a server that refuses connections. Where the server has forgotten the export's handle, finds
 * it again, once.
 */
int names_ask(struct names *names, struct names_batch *batch, struct names_item *item);
/* The same for an operation that needs nothing but directory and item. */
int names_ask_name(struct names *names, enum meta_op op, const struct nfs_handle *directory,
		   struct names_item *item);

/* Called after a question about `asked` failed with `error`. Returns 0 if `asked` was the export,
 * and its handle was found again; else the error for the caller to return. */
int names_find_again(struct names *names, const struct nfs_handle *asked, int error);

/* Sends one of the protocol's own requests. names_request_until() waits until `deadline`; with
 * `stop` NULL, asking to wait does not extend that, and a refused connection ends the wait. */
int names_request(struct names *names, struct rpc_request *request);
int names_request_until(struct names *names, struct rpc_request *request, uint64_t deadline,
			bool (*stop)(void));

/* --- walking --- */

/* Walks down from *at through all components of `path` but the last. *last is that last one, in
 * names->room; NULL: `path` has no component. After an error *last is the one that failed.
 * `make`: makes missing directories. */
int names_walk(struct names *names, struct nfs_handle *at, const char *path, bool make,
	       char **last);
/* The same, through the last component as well; *at does not change where `path` has none. */
int names_walk_all(struct names *names, struct nfs_handle *at, const char *path, bool make,
		   char **last);
/* Finds the directory that holds `name`; *last: name's last component. -EINVAL: there is none. */
int names_find(struct names *names, const char *name, bool make, struct nfs_handle *directory,
	       char **last);

/* --- what users ask --- */

/*
 * A question to the server. If its client gives up, another client asks again. (A client
 * reconnects by itself.) Once a file or directory of the path is open, `hard` asks until
 * path_job's stop(), and `soft` for as long as an I/O may take (nfs(5)); with failover a path gives
 * up sooner if others can stand in for it. Before anything is open, the question is asked again
 * only once, and not after a time-out.
 */
struct question {
	int (*ask)(struct names *names, struct question *question);
	const char *what; /* the verb after "cannot": "open" */
	const char *name;
	bool resent; /* CREATE: an earlier copy may have been carried out */

	/* ask()'s other arguments, and where it stores what it finds. */
	uint32_t number;
	bool writes, make;
	uint64_t *size;
	bool *created;
	void **file;
	struct nfs_handle *handle;
	struct meta_limits *limits;
};

/* Returns ask()'s last result, or that of connecting. Logs once that it keeps trying. */
int question_ask(struct path *path, struct question *question);

/* failover, hard: true if the path gave up although it had opened files. The caller asks other
 * paths; if none answers, it asks this path again. */
bool question_is_left(const struct path *path, int error);

/* The size of a regular file; -EISDIR or -EINVAL for anything else. */
int names_size(struct names *names, struct question *question);

/*
 * Creates an empty file and the directories above it; what exists, a symbolic link too, is left as
 * it is, and then *created is false. What an earlier copy has made counts as created.
 */
int names_create(struct names *names, struct question *question);
/* 0 also where there is no such file: an earlier copy may have removed it. */
int names_remove(struct names *names, struct question *question);

/* Finds a directory, or a file. With `make`: a directory; missing ones are made. */
int names_directory(struct names *names, const char *name, bool make, struct nfs_handle *found);

/* What one READ and one WRITE of the file `handle` may carry; NULL: of the export's files. */
int names_limits(struct names *names, const struct nfs_handle *handle, struct meta_limits *limits);
