/* SPDX-License-Identifier: GPL-2.0-only */
/* table.c - a row for each term, in the order of docs/options.md and nfsmulti(7). */
#include "terms/terms.h"

/* Does not compile where the member is of another type. */
#define AT(member, type)                       \
	.at = offsetof(struct terms, member) + \
	      0 * _Generic(&((struct terms *)0)->member, type * : 0)

#define NUMBER(name, member, from, to) \
	.word = (name), .kind = TERM_NUMBER, AT(member, unsigned int), .least = (from), .most = (to)
/* At most 64m: more than servers offer, and iodepth times 64m still fits into memory. */
#define SIZE(name, member) \
	.word = (name), .kind = TERM_SIZE, AT(member, unsigned int), .least = 1, .most = 64u << 20
#define BYTES(name, member)  .word = (name), .kind = TERM_BYTES, AT(member, unsigned long long)
#define CHOICE(name, member) .word = (name), .kind = TERM_CHOICE, AT(member, unsigned int)
#define SWITCH(name, member) .word = (name), .kind = TERM_SWITCH, AT(member, unsigned int)
#define FLAG(name, member, sets) \
	.word = (name), .kind = TERM_FLAG, AT(member, unsigned int), .least = (sets)
#define ADDRESSES(name, member) .word = (name), .kind = TERM_ADDRESSES, AT(member, char *)
#define TEXT(name, member)	.word = (name), .kind = TERM_TEXT, AT(member, char *)
#define GONE(name)		.word = (name), .kind = TERM_GONE, .at = sizeof(struct terms)

/* Clients' numbers are below 2^31: no sum with one is -1, or wraps to 0, which is root. */
#define EACH_ID_MOST INT32_MAX
#define EACH_ID_UNIT ", or up to 2147483647 and a plus sign"

#define SPREAD_VALUES(base)                                                            \
	{                                                                              \
		{"job", (base) + SPREAD_JOB, "One path per job"},                      \
			{"roundrobin", (base) + SPREAD_ROUNDROBIN,                     \
			 "The next connection for each I/O"},                          \
			{"queue", (base) + SPREAD_QUEUE,                               \
			 "The connection with the fewest bytes in flight"},            \
			{"stripe", (base) + SPREAD_STRIPE, "By offset (stripe_size)"}, \
	}

const struct term terms_table[] = {
	{TEXT("pool", pool),
	 .help = "Paths to the same files: nfs://HOST[:PORT]/EXPORT[?ARG=VALUE&...] or "
		 "/DIRECTORY, separated by commas; or a pool's name in NFSMULTI_POOLS or "
		 "IOTRAP_MOUNT_POOLS"},
	{NUMBER("nconnect", nconnect, 1, 256), .preset = "1",
	 .help = "Connections that a job opens on each path"},
	{NUMBER("nclients", nclients, 1, 16384), .needs = NEEDS_TCP,
	 .help = "The job is this many NFS clients, each with one connection and, in NFSv4, "
		 "with a client ID, session and opens of its own; they get I/O in turn "
		 "(default: it is one client, with nconnect connections)"},
	{NUMBER("client_depth", client_depth, 1, 65535),
	 .help = "nclients: most I/Os that a client has at the server at once; others wait "
		 "(default: iodepth/nclients, at least 1)"},
	{CHOICE("client_files", client_files), .preset = "shared",
	 .values = {{"shared", 0, "Each client opens all files of the job"},
		    {"own", 1, "Each opens files that no other opens"}},
	 .help = "nclients: whose the job's files are"},
	{NUMBER("client_start", client_start, 0, 100000), .preset = "0",
	 .help = "nclients: clients that begin to connect in a second (0: all at once, as after "
		 "a power failure)"},
	{TEXT("client_name", client_name), .shared = true,
	 .help = "AUTH_SYS: the machine name to send. %d in it becomes the client's "
		 "number, counted over all jobs of that nclients (default: this machine's name)"},
	/* fio would say "Did you mean client?", and its --client=4 talks to a host of that name. */
	{GONE("clients"), .help = "use nclients= instead"},
	{NUMBER("first_path", first_path, 0, 65535), .preset = "0",
	 .help = "spread=job: the path of the first job, counted from 0, so that jobs on "
		 "several hosts begin on different ones"},
	{CHOICE("spread", spread), .preset = "job", .values = SPREAD_VALUES(0),
	 .help = "How a job's I/O is spread over its connections"},
	{CHOICE("spread_reads", spread_reads), .values = SPREAD_VALUES(1),
	 .help = "As spread, for reads only"},
	{CHOICE("spread_writes", spread_writes), .values = SPREAD_VALUES(1),
	 .help = "As spread, for writes only"},
	{BYTES("stripe_size", stripe_size),
	 .help = "Bytes per stripe, for spread=stripe (default: the job's largest block "
		 "size)"},
	{CHOICE("version", version),
	 .alias = "nfsvers", /* --version is fio's own on its command line */
	 .in_path = "version vers nfsvers", .preset = "3",
	 .values = {{"3", 0, "NFSv3"},
		    {"4.1", 1, "NFSv4.1, with sessions"},
		    {"4.2", 2, "NFSv4.2: the same operations"},
		    {"4.0", VERSION_40, "Not supported"},
		    {"4", VERSION_40, "Not supported"}},
	 .refused = VERSION_40,
	 .refusal = ": NFSv4.0 has no sessions, which the engine's calls need: use 4.1, or mount "
		    "the export and name the directory",
	 .help = "Version of NFS, as in nfs(5); on the command line --nfsvers, or version= "
		 "in a path"},
	{CHOICE("trunking", trunking), .shared = true, .preset = "clientid",
	 .values = {{"clientid", 0, "A session for each connection, one client ID"},
		    {"session", 1, "One session over all connections of the job"}},
	 .help = "NFSv4: what a job's connections share (RFC 8881, 2.10.5)"},
	{CHOICE("open", stateless), .shared = true, .preset = "file",
	 .values = {{"file", 0, "OPEN, as applications do"},
		    {"none", 1, "No OPEN: I/O uses special stateids"}},
	 .help = "NFSv4: how files are opened. NFSv3 has no OPEN and ignores it"},
	{CHOICE("proto", proto), .in_path = "proto", .preset = "tcp",
	 .values = {{"tcp", MOUNT_TCP, "TCP"},
		    {"tcp6", MOUNT_TCP6, "TCP over IPv6"},
		    {"rdma", MOUNT_RDMA, "RDMA"},
		    {"rdma6", MOUNT_RDMA6, "RDMA over IPv6"}},
	 .help = "Transport, as in nfs(5)"},
	{NUMBER("port", port, 1, 65535), .in_path = "port nfsport",
	 .help = "The server's NFS port (default: as its rpcbind says; NFSv4: 2049)"},
	{NUMBER("mountport", mountport, 1, 65535), .in_path = "mountport",
	 .help = "The server's MOUNT port (default: as its rpcbind says). NFSv4 has no "
		 "MOUNT and ignores it"},
	{NUMBER("rdmaport", rdmaport, 1, 65535), .in_path = "rdmaport", .preset = "20049",
	 .help = "The server's port for NFS over RDMA"},
	{GONE("namespace"), .in_path = "namespace",
	 .help = "it is gone: names always go over TCP; leave it out"},
	{NUMBER("inline", inline_max, 1024, 65536), .preset = "4096",
	 .help = "RDMA: bytes of the longest message sent without chunks, either way "
		 "(the server's own threshold may be smaller)"},
	{SIZE("rsize", rsize), .in_path = "rsize",
	 .help = "Maximum bytes that one READ asks for (default: the server's maximum, at "
		 "most 1m)"},
	{SIZE("wsize", wsize), .in_path = "wsize",
	 .help = "Maximum bytes that one WRITE carries (default: the server's maximum, at "
		 "most 1m)"},
	{NUMBER("timeo", timeo, 1, 6000), .in_path = "timeo", .unit = " (tenths of a second)",
	 .preset = "600",
	 .help = "Tenths of a second to wait for a reply before the call is sent again "
		 "(NFSv4: over a new connection)"},
	{NUMBER("retrans", retrans, 0, 1000), .in_path = "retrans", .preset = "2",
	 .help = "Times a call is sent again before the client reconnects (hard) or the "
		 "I/O fails (soft)"},
	{CHOICE("reconnect", reconnect), .shared = true,
	 .values = {{"backoff", RECONNECT_BACKOFF, "At once, then after pauses of 0.1 to 1 s"},
		    {"jitter", RECONNECT_JITTER, "After a random part of a second"},
		    {"linux", RECONNECT_LINUX, "As Linux's NFS client: at once, then each 3 s"}},
	 .help = "When a lost connection is made again (default: backoff; with nclients "
		 "jitter, so that thousands do not return in step)"},
	{FLAG("hard", soft, 0), .in_path = "hard",
	 .help = "Retry for ever when the server does not answer (the default)"},
	{FLAG("soft", soft, 1), .in_path = "soft",
	 .help = "Fail an I/O with ETIMEDOUT when retrans retransmissions brought no reply"},
	{SWITCH("failover", failover), .shared = true, .preset = "0",
	 .help = "While a path does not answer, move its I/O to the other paths"},
	{ADDRESSES("localaddr", localaddr), .in_path = "localaddr",
	 .help = "Addresses to connect from, in turn: addresses, ranges (10.0.0.1-10.0.0.9) "
		 "and prefixes (10.0.1.0/24), joined by '+'. For MOUNT, rpcbind and KDCs the "
		 "system chooses the address"},
	{NUMBER("uid", uid, 0, UINT32_MAX - 1), /* (uid_t)-1 says "no user" */
	 .in_path = "uid", .each_most = EACH_ID_MOST, .unit = EACH_ID_UNIT},
	{NUMBER("gid", gid, 0, UINT32_MAX - 1), .in_path = "gid", .each_most = EACH_ID_MOST,
	 .unit = EACH_ID_UNIT},
	{CHOICE("xprtsec", xprtsec), .in_path = "xprtsec", .preset = "none",
	 .values = {{"none", XPRTSEC_NONE, "None"},
		    {"tls", XPRTSEC_TLS, "TLS 1.3 (RFC 9289)"},
		    {"mtls", XPRTSEC_MTLS, "TLS, with a certificate of the client's own"}},
	 .help = "Security of the transport, as in nfs(5)"},
	{TEXT("tls_ca", tls_ca), .in_path = "tls_ca", .needs = NEEDS_TLS,
	 .help = "xprtsec=tls, mtls: PEM file with the authorities that sign servers' "
		 "certificates (default: those that the system trusts)"},
	{TEXT("tls_cert", tls_cert), .in_path = "tls_cert", .needs = NEEDS_TLS,
	 .help = "xprtsec=mtls: PEM file with the client's certificate"},
	{TEXT("tls_key", tls_key), .in_path = "tls_key", .needs = NEEDS_TLS,
	 .help = "xprtsec=mtls: PEM file with the client's key (default: it is in tls_cert)"},
	{TEXT("tls_name", tls_name), .in_path = "tls_name", .needs = NEEDS_TLS,
	 .help = "xprtsec=tls, mtls: the name or address that the server's certificate must "
		 "have (default: the host as the pool names it)"},
	{CHOICE("ktls", ktls), .shared = true, .needs = NEEDS_TLS, .preset = "auto",
	 .values = {{"auto", KTLS_AUTO, "By the kernel where it can"},
		    {"1", KTLS_ON, "By the kernel, or connecting fails"},
		    {"0", KTLS_OFF, "By GnuTLS"}},
	 .help = "xprtsec=tls, mtls: who encrypts and decrypts"},
	{CHOICE("security", security), .in_path = "sec", .preset = "sys",
	 .values = {{"sys", SEC_SYS, "AUTH_SYS: numbers of user and groups"},
		    {"krb5", SEC_KRB5, "Kerberos: authenticates the caller"},
		    {"krb5i", SEC_KRB5I, "Kerberos, with integrity of all data"},
		    {"krb5p", SEC_KRB5P, "Kerberos, with privacy: all data is encrypted"}},
	 .help = "Security flavor, nfs(5)'s sec; in a path sec=. Never --sec on the command "
		 "line: fio takes that for its own --section"},
	{TEXT("principal", principal), .in_path = "principal", .needs = NEEDS_KERBEROS,
	 .help = "Kerberos: the client's principal (default: the credential cache's)"},
	{TEXT("keytab", keytab), .in_path = "keytab", .needs = NEEDS_KERBEROS,
	 .help = "Kerberos: file with the client's keys, to get and renew tickets "
		 "(default: the credential cache's tickets)"},
	{TEXT("ccache", ccache), .in_path = "ccache", .needs = NEEDS_KERBEROS,
	 .help = "Kerberos: credential cache with the client's tickets, a file or a name "
		 "such as KEYRING:persistent:1000 (default: KRB5CCNAME, or the user's own)"},
	{TEXT("server_principal", server_principal), .in_path = "server_principal",
	 .needs = NEEDS_KERBEROS,
	 .help = "Kerberos: the server's principal, nfs/HOST@REALM, or nfs@HOST (default: "
		 "nfs@ and the host as the pool names it)"},
	{GONE("gss_context"), .in_path = "gss_context",
	 .help = "it is gone since 0.7.0: each connection has a context of its own; leave it out"},
	{CHOICE("stable", stable), .preset = "unstable",
	 .values = {{"unstable", IO_UNSTABLE, "Durable at the next COMMIT"},
		    {"data_sync", IO_DATA_SYNC, "Data durable at once"},
		    {"file_sync", IO_FILE_SYNC, "All durable at once"}},
	 .help = "stable_how of WRITEs (RFC 1813); sync=1 means file_sync"},
	{BYTES("hold_writes", hold_writes), .preset = "0",
	 .help = "Bytes of uncommitted data that a job keeps, to write it again if a server "
		 "restarts; COMMITs begin at half of that. Kernel mounts ignore it: "
		 "the kernel does the same"},
	{SWITCH("discard", discard), .shared = true, .needs = NEEDS_CLEAR, .preset = "0",
	 .help = "The kernel discards the payload of READs of 32 KiB and more, instead of "
		 "copying it to fio. Over TCP, for jobs that verify nothing"},
	{NUMBER("busy_poll", busy_poll, 0, 1000000), .preset = "0",
	 .help = "Microseconds to poll for replies before each wait"},
	{TEXT("arrival_rate", arrival_rate),
	 .help = "I/Os per second and job, by a clock that does not wait for replies: "
		 "latency begins when an I/O is due (default: the next I/O follows a reply)"},
	{TEXT("arrival_bw", arrival_bw),
	 .help = "Instead of arrival_rate, bytes per second and job: the gap after an I/O "
		 "is in proportion to its length"},
	{CHOICE("arrival_process", arrival_process), .preset = "poisson",
	 .values = {{"poisson", ARRIVAL_POISSON, "At random, as of many independent users"},
		    {"fixed", ARRIVAL_FIXED, "Equal gaps"}},
	 .help = "How arrivals follow each other; randseed and the job's number decide the "
		 "schedule"},
	{NUMBER("arrival_spin", arrival_spin, 0, 1000000), .preset = "20",
	 .help = "Microseconds before each arrival in which the engine polls and does not "
		 "sleep"},
	{SWITCH("rx_timestamps", rx_timestamps), .shared = true, .needs = NEEDS_CLEAR,
	 .preset = "0",
	 .help = "Split each response time by the kernel's receive timestamps: service is "
		 "the network's and the server's part, wake-up is this client's"},
	{NUMBER("arrival_batch", arrival_batch, 0, 1000), .preset = "0",
	 .help = "Microseconds that a due I/O waits for others, to be sent together; "
		 "a reply waits at most twice this time"},
	{SWITCH("metadata", metadata), .shared = true, .preset = "0",
	 .help = "Each I/O is one operation on one entry; the job's file is a directory; "
		 "the entry's number is offset / bs"},
	{CHOICE("meta_read", meta_read), .preset = "getattr",
	 .values = {{"getattr", META_GETATTR, "GETATTR, by the entry's handle"},
		    {"lookup", META_LOOKUP, "LOOKUP, by its name"},
		    {"access", META_ACCESS, "ACCESS, by its handle"},
		    {"open", META_OPEN, "NFSv4: OPEN and CLOSE"},
		    {"readdir", META_READDIR, "READDIR of its whole directory"}},
	 .help = "metadata=1: what a read does with its entry"},
	{CHOICE("meta_write", meta_write), .preset = "create",
	 .values = {{"create", META_CREATE, "Creates a regular file"},
		    {"mkdir", META_MKDIR, "Creates a directory"},
		    {"symlink", META_SYMLINK, "Creates a symbolic link"},
		    {"setattr", META_SETATTR, "Sets the time of modification"},
		    {"rename", META_RENAME,
		     "Renames the entry to its second name, or back to its first"},
		    {"link", META_LINK, "LINK: adds the entry's second name"},
		    {"remove", META_REMOVE, "Removes a file or symbolic link"},
		    {"rmdir", META_RMDIR, "Removes a directory"}},
	 .help = "metadata=1: what a write does with its entry; a trim removes, by "
		 "rmdir where that is given"},
	{GONE("meta_create"),
	 .help = "it is gone since 0.7.0: each create is GUARDED; leave it out"},
	{TEXT("meta_mix", meta_mix),
	 .help = "metadata=1: operations by weight, instead of meta_read and meta_write, as "
		 "in getattr:70,lookup:20,readdir:5,create:3,remove:2, with rw=randrw. "
		 "The engine sets rwmixread from the weights, in whole per cent"},
	{SWITCH("meta_verify", meta_verify), .preset = "0",
	 .help = "metadata=1, jobs that read: check by READDIR, before the job begins, that each "
		 "entry is there once; and at each read, that it is what meta_write= makes"},
	{NUMBER("dir_entries", dir_entries, 2, 0), .shared = true, .preset = "1000",
	 .help = "metadata=1: entries of one directory"},
	{NUMBER("tree_depth", tree_depth, 0, 8), .shared = true, .preset = "1",
	 .help = "metadata=1: levels of directories below the job's; 0: all entries are in "
		 "the job's directory"},
	{SWITCH("shared_dir", shared_dir), .shared = true, .preset = "0",
	 .help = "metadata=1: jobs with the same file name share its directories, each with "
		 "entries of its own (default: they work on the same entries)"},
	{TEXT("require_version", require_version),
	 .help = "Refuse to run unless the engine is of this version: for jobs that are "
		 "sent to other hosts"},
	{TEXT("stats_file", stats_file),
	 .help = "At the job's end, append JSON lines: one per connection, kind of metadata "
		 "operation, arrival clock and message of the job, and one for rx_timestamps"},
	{TEXT("live_file", live_file),
	 .help = "Once a second while there is I/O, rewrite each job's local file FILE.NUMBER: "
		 "one JSON line per path"},
	{SWITCH("trace", trace), .preset = "0",
	 .help = "Print one line per operation on stderr (also by the environment's "
		 "IOTRAP_TRACE)"},
	{.word = NULL},
};

_Static_assert(sizeof(terms_table) / sizeof(*terms_table) <= TERMS_MAX, "room for `given`");
