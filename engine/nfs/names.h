/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * names.h - the name space of one export: MOUNT, LOOKUP, CREATE, MKDIR, REMOVE, GETATTR and FSINFO,
 * over TCP, whatever READ, WRITE and COMMIT go over.
 *
 * Every function but names_close() waits for the server, until its answer, the deadline, or stop()
 * returns true, whichever comes first. They return 0 or a negative errno (-ETIMEDOUT at the
 * deadline, -EINTR for stop()), and then names_error() says why in words. Names are relative to the
 * export.
 */
#ifndef NFSMULTI_NAMES_H
#define NFSMULTI_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nfs/handle.h"

struct names;

struct names_config {
	const char *address; /* literal, without brackets */
	const char *export;
	unsigned int nfs_port;	 /* 0: as the server's rpcbind says */
	unsigned int mount_port; /* 0: the same */
	uint32_t uid, gid;
	uint64_t timeout;   /* nanoseconds that one operation may take */
	bool (*stop)(void); /* asked about every 100 ms */
};

/* MOUNTs the export. *names is set on success alone; the reason of a failure stands in `why`. */
int names_open(struct names **names, const struct names_config *config, char *why, size_t why_size);
void names_close(struct names *names);

/* False once an operation was given up: open another session. */
bool names_alive(const struct names *names);

const char *names_error(const struct names *names);

/* The port on which the server answers NFS; 0 where the connection is gone. */
uint16_t names_nfs_port(const struct names *names);

/* The size of a regular file; -EISDIR or -EINVAL for anything else. */
int names_size(struct names *names, const char *name, uint64_t *size);

/* Finds a file's handle. */
int names_lookup(struct names *names, const char *name, struct nfs3_handle *handle);

/*
 * Creates an empty file and the directories above it; what exists, a symbolic link too, is left as
 * it is, and then *created is false.
 */
int names_create(struct names *names, const char *name, bool *created);

int names_remove(struct names *names, const char *name);

/* FSINFO's rtmax and wtmax, asked for by the handle of any object of the export (RFC 1813, 3.3.19).
 */
struct nfs3_limits {
	uint32_t read_max, write_max; /* bytes */
};
int names_limits(struct names *names, const struct nfs3_handle *handle, struct nfs3_limits *limits);

#endif
