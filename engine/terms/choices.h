/* SPDX-License-Identifier: GPL-2.0-only */
/* choices.h - the values of options that a user chooses by a word. */
#pragma once

/* How durable a completed write is: stable_how (RFC 1813, 3.3.7). */
enum io_stable { IO_UNSTABLE, IO_DATA_SYNC, IO_FILE_SYNC };

enum { VERSION_40 = 40 }; /* NFSv4.0, which is refused */

/* nfs(5), proto. */
enum mount_proto { MOUNT_TCP, MOUNT_TCP6, MOUNT_RDMA, MOUNT_RDMA6 };

/* nfs(5), xprtsec: security of the transport (RFC 9289). */
enum path_xprtsec { XPRTSEC_NONE, XPRTSEC_TLS, XPRTSEC_MTLS };

/* nfs(5), sec: AUTH_SYS, or Kerberos by RPCSEC_GSS (RFC 2203): authentication, integrity, privacy.
 */
enum path_sec { SEC_SYS, SEC_KRB5, SEC_KRB5I, SEC_KRB5P };

/* Who encrypts after the handshake: the kernel where it can, only the kernel, only GnuTLS. */
enum tls_ktls { KTLS_AUTO, KTLS_ON, KTLS_OFF };

enum spread_policy { SPREAD_JOB, SPREAD_ROUNDROBIN, SPREAD_QUEUE, SPREAD_STRIPE };

/* spread_reads, spread_writes: 0: as spread; else enum spread_policy plus 1. */
enum { SPREAD_AS_SPREAD = 0 };

/* reconnect: the pauses between connections; not given: jitter with nclients, else backoff. */
enum reconnect { RECONNECT_NOT_GIVEN, RECONNECT_BACKOFF, RECONNECT_JITTER, RECONNECT_LINUX };

enum arrival_process { ARRIVAL_POISSON, ARRIVAL_FIXED };

/* RFC 1813, 3.3, and RFC 8881, 18, have a procedure or an operation for each. */
enum meta_op {
	META_GETATTR, /* by the entry's handle */
	META_LOOKUP,  /* by its name; with attributes, as stat(2) needs them */
	META_ACCESS,  /* by its handle */
	META_OPEN,    /* NFSv4: OPEN for reading, and CLOSE */
	META_READDIR, /* of the directory that holds it, from its beginning to its end */
	META_CREATE,  /* a regular file; EEXIST if the name exists */
	META_MKDIR,
	META_SYMLINK,
	META_SETATTR, /* sets its time of modification to the server's time */
	META_RENAME,  /* to its other name, or back from that */
	META_LINK,    /* adds its other name */
	META_REMOVE,  /* a file or a symbolic link, by one of its names */
	META_RMDIR,
	META_FSSTAT, /* of the file system that a directory lies in, by its handle */
	META_FSINFO, /* the largest READ and WRITE of a file or directory, by its handle */
	META_ROOT,   /* NFSv4: META_FSINFO of the server's root, by PUTROOTFH; finds its handle */
};
