/* SPDX-License-Identifier: GPL-2.0-only */
#include "engine_options.h"

#include "optgroup.h"

/* nfs(5): the later of the two words counts. */
static int set_hard(void *data, int *value)
{
	((struct engine_options *)data)->soft = !*value;
	return 0;
}

static int set_soft(void *data, int *value)
{
	((struct engine_options *)data)->soft = *value != 0;
	return 0;
}

#define OPTION(word, kind, title)                                                               \
	.name = (word), .lname = (title), .type = FIO_OPT_##kind, .category = FIO_OPT_C_ENGINE, \
	.group = FIO_OPT_G_NFS
#define AT(member) .off1 = offsetof(struct engine_options, member)
#define VALUE(word, number, meaning)                                \
	{                                                           \
		.ival = (word), .oval = (number), .help = (meaning) \
	}

#define SPREAD_VALUES(base)                                                                 \
	{                                                                                   \
		VALUE("job", (base) + SPREAD_JOB, "One path per job"),                      \
			VALUE("roundrobin", (base) + SPREAD_ROUNDROBIN,                     \
			      "The next connection for each I/O"),                          \
			VALUE("queue", (base) + SPREAD_QUEUE,                               \
			      "The connection with the fewest bytes in flight"),            \
			VALUE("stripe", (base) + SPREAD_STRIPE, "By offset (stripe_size)"), \
	}

struct fio_option engine_option_table[] = {
	{
		OPTION("pool", STR_STORE, "Pool of paths"),
		AT(pool),
		.help = "Paths to the same files: nfs://HOST[:PORT]/EXPORT[?ARG=VALUE&...] or "
			"/DIRECTORY, separated by commas; or a pool's name in NFSMULTI_POOLS or "
			"IOTRAP_MOUNT_POOLS",
	},
	{
		OPTION("nconnect", INT, "Connections per path"),
		AT(nconnect),
		.minval = 1,
		.maxval = 256,
		.def = "1",
		.help = "Connections that a job opens on each path",
	},
	{
		OPTION("first_path", INT, "Path of the first job"),
		AT(first_path),
		.maxval = 65535,
		.def = "0",
		.help = "spread=job: the path of the first job, counted from 0, so that jobs on "
			"several hosts begin on different ones",
	},
	{
		OPTION("spread", STR, "Spread of I/O"),
		AT(spread),
		.def = "job",
		.posval = SPREAD_VALUES(0),
		.help = "How a job's I/O is spread over its connections",
	},
	{
		OPTION("spread_reads", STR, "Spread of reads"),
		AT(spread_reads),
		.posval = SPREAD_VALUES(1),
		.help = "As spread, for reads only",
	},
	{
		OPTION("spread_writes", STR, "Spread of writes"),
		AT(spread_writes),
		.posval = SPREAD_VALUES(1),
		.help = "As spread, for writes only",
	},
	{
		OPTION("stripe_size", STR_VAL, "Stripe size"),
		AT(stripe_size),
		.help = "Bytes per stripe, for spread=stripe (default: the job's largest block "
			"size)",
	},
	{
		OPTION("version", STR, "Version of NFS"),
		.alias = "nfsvers", /* --version is fio's own on its command line */
		AT(version),
		.def = "3",
		.posval =
			{
				VALUE("3", 0, "NFSv3"),
				VALUE("4.1", 1, "NFSv4.1, with sessions"),
				VALUE("4.2", 2, "NFSv4.2: the same operations"),
				VALUE("4.0", VERSION_40, "Not supported"),
				VALUE("4", VERSION_40, "Not supported"),
			},
		.help = "Version of NFS, as in nfs(5); on the command line --nfsvers, or version= "
			"in a path",
	},
	{
		OPTION("trunking", STR, "Trunking of sessions"),
		AT(trunking),
		.def = "clientid",
		.posval =
			{
				VALUE("clientid", 0,
				      "A session for each connection, one client ID"),
				VALUE("session", 1, "One session over all connections of the job"),
			},
		.help = "NFSv4: what a job's connections share (RFC 8881, 2.10.5)",
	},
	{
		OPTION("open", STR, "How files are opened"),
		AT(stateless),
		.def = "file",
		.posval =
			{
				VALUE("file", 0, "OPEN, as applications do"),
				VALUE("none", 1, "No OPEN: I/O uses special stateids"),
			},
		.help = "NFSv4: how files are opened. NFSv3 has no OPEN and ignores it",
	},
	{
		OPTION("proto", STR, "Transport"),
		AT(proto),
		.def = "tcp",
		.posval =
			{
				VALUE("tcp", MOUNT_TCP, "TCP"),
				VALUE("tcp6", MOUNT_TCP6, "TCP over IPv6"),
				VALUE("rdma", MOUNT_RDMA, "RDMA"),
				VALUE("rdma6", MOUNT_RDMA6, "RDMA over IPv6"),
			},
		.help = "Transport, as in nfs(5)",
	},
	{
		OPTION("port", INT, "NFS port"),
		AT(port),
		.maxval = 65535,
		.help = "The server's NFS port (default: as its rpcbind says; NFSv4: 2049)",
	},
	{
		OPTION("mountport", INT, "MOUNT port"),
		AT(mountport),
		.maxval = 65535,
		.help = "The server's MOUNT port (default: as its rpcbind says). NFSv4 has no "
			"MOUNT and ignores it",
	},
	{
		OPTION("rdmaport", INT, "RDMA port"),
		AT(rdmaport),
		.minval = 1,
		.maxval = 65535,
		.def = "20049",
		.help = "The server's port for NFS over RDMA",
	},
	{
		OPTION("namespace", UNSUPPORTED, "Transport of names"),
		.help = "it is gone: names always go over TCP; leave it out",
	},
	{
		OPTION("inline", INT, "RDMA inline threshold"),
		AT(inline_max),
		.minval = 1024,
		.maxval = 65536,
		.def = "4096",
		.help = "RDMA: bytes of the longest message sent without chunks, either way "
			"(the server's own threshold may be smaller)",
	},
	{
		OPTION("rsize", INT, "READ size"),
		AT(rsize),
		.help = "Maximum bytes that one READ asks for (default: the server's maximum, at "
			"most 1m)",
	},
	{
		OPTION("wsize", INT, "WRITE size"),
		AT(wsize),
		.help = "Maximum bytes that one WRITE carries (default: the server's maximum, at "
			"most 1m)",
	},
	{
		OPTION("timeo", INT, "Retransmission timeout"),
		AT(timeo),
		.minval = 1,
		.maxval = 6000,
		.def = "600",
		.help = "Tenths of a second to wait for a reply before the call is sent again "
			"(NFSv4: over another connection)",
	},
	{
		OPTION("retrans", INT, "Retransmissions"),
		AT(retrans),
		.maxval = 1000,
		.def = "2",
		.help = "Times a call is sent again before hard reconnects and soft gives up",
	},
	{
		OPTION("hard", STR_SET, "Retry for ever"),
		.cb = set_hard,
		.help = "Retry for ever when the server does not answer (the default)",
	},
	{
		OPTION("soft", STR_SET, "Give up"),
		.cb = set_soft,
		.help = "Fail an I/O with ETIMEDOUT when retrans retransmissions brought no reply",
	},
	{
		OPTION("failover", BOOL, "Failover"),
		AT(failover),
		.def = "0",
		.help = "Reissue the I/O of a path that does not answer on the others, until it "
			"answers again",
	},
	{
		OPTION("localaddr", STR_STORE, "Local addresses"),
		AT(localaddr),
		.help = "Addresses to connect from, in turn, joined by '+'. NFSv3's MOUNT and "
			"rpcbind, and KDCs, are asked from the system's choice",
	},
	{
		OPTION("xprtsec", STR, "Transport security"),
		AT(xprtsec),
		.def = "none",
		.posval =
			{
				VALUE("none", XPRTSEC_NONE, "None"),
				VALUE("tls", XPRTSEC_TLS, "TLS 1.3 (RFC 9289)"),
				VALUE("mtls", XPRTSEC_MTLS,
				      "TLS, with a certificate of the client's own"),
			},
		.help = "Security of the transport, as in nfs(5)",
	},
	{
		OPTION("tls_ca", STR_STORE, "TLS: authorities"),
		AT(tls_ca),
		.help = "xprtsec=tls, mtls: PEM file with the authorities that sign servers' "
			"certificates (default: those that the system trusts)",
	},
	{
		OPTION("tls_cert", STR_STORE, "TLS: own certificate"),
		AT(tls_cert),
		.help = "xprtsec=mtls: PEM file with the client's certificate",
	},
	{
		OPTION("tls_key", STR_STORE, "TLS: own key"),
		AT(tls_key),
		.help = "xprtsec=mtls: PEM file with the client's key (default: it is in tls_cert)",
	},
	{
		OPTION("tls_name", STR_STORE, "TLS: the server's name"),
		AT(tls_name),
		.help = "xprtsec=tls, mtls: the name or address that the server's certificate must "
			"have (default: the host as the pool names it)",
	},
	{
		OPTION("ktls", STR, "TLS by the kernel"),
		AT(ktls),
		.def = "auto",
		.posval =
			{
				VALUE("auto", KTLS_AUTO, "By the kernel where it can"),
				VALUE("1", KTLS_ON, "By the kernel, or not at all"),
				VALUE("0", KTLS_OFF, "By GnuTLS"),
			},
		.help = "xprtsec=tls, mtls: who encrypts and decrypts",
	},
	{
		OPTION("security", STR, "Security flavor"), /* --sec is fio's --section */
		AT(security),
		.def = "sys",
		.posval =
			{
				VALUE("sys", SEC_SYS, "AUTH_SYS: numbers of user and groups"),
				VALUE("krb5", SEC_KRB5, "Kerberos: who calls is proved"),
				VALUE("krb5i", SEC_KRB5I, "Kerberos, with integrity of all data"),
				VALUE("krb5p", SEC_KRB5P,
				      "Kerberos, with privacy: all data is encrypted"),
			},
		.help = "Security flavor, nfs(5)'s sec; in a path sec=. Never --sec on the command "
			"line: fio takes that for its own --section",
	},
	{
		OPTION("principal", STR_STORE, "Kerberos: own principal"),
		AT(principal),
		.help = "Kerberos: the client's principal (default: the credential cache's)",
	},
	{
		OPTION("keytab", STR_STORE, "Kerberos: own keys"),
		AT(keytab),
		.help = "Kerberos: file with the client's keys, by which tickets are got and "
			"renewed (default: the credential cache's tickets)",
	},
	{
		OPTION("ccache", STR_STORE, "Kerberos: credential cache"),
		AT(ccache),
		.help = "Kerberos: credential cache with the client's tickets, a file or a name "
			"such as KEYRING:persistent:1000 (default: KRB5CCNAME, or the user's own)",
	},
	{
		OPTION("server_principal", STR_STORE, "Kerberos: the server's principal"),
		AT(server_principal),
		.help = "Kerberos: the server's principal, nfs/HOST@REALM, or nfs@HOST (default: "
			"nfs@ and the host as the pool names it)",
	},
	{
		OPTION("gss_context", STR, "Kerberos: contexts"),
		AT(gss_context),
		.def = "connection",
		.posval =
			{
				VALUE("connection", 0, "One for each connection"),
				VALUE("job", 1, "Gone since 0.7.0"),
			},
		.help = "Kerberos: what has a context (RFC 2203, 5.2), with its numbers and its "
			"window",
	},
	{
		OPTION("stable", STR, "WRITE stability"),
		AT(stable),
		.def = "unstable",
		.posval =
			{
				VALUE("unstable", IO_UNSTABLE, "Durable at the next COMMIT"),
				VALUE("data_sync", IO_DATA_SYNC, "Data durable at once"),
				VALUE("file_sync", IO_FILE_SYNC, "All durable at once"),
			},
		.help = "How WRITE asks (RFC 1813, stable_how); sync=1 means file_sync",
	},
	{
		OPTION("hold_writes", STR_VAL, "Writes held for resending"),
		AT(hold_writes),
		.def = "0",
		.help = "Bytes of uncommitted data that a job keeps, to write it again if a server "
			"restarts; COMMITs begin at half of that. Kernel mounts ignore it: "
			"the kernel does the same",
	},
	{
		OPTION("discard", BOOL, "Discard what is read"),
		AT(discard),
		.def = "0",
		.help = "Payload of READs of 32 KiB and more is dropped in the kernel and not "
			"copied to fio. Over TCP, for jobs that verify nothing",
	},
	{
		OPTION("busy_poll", INT, "Busy polling"),
		AT(busy_poll),
		.maxval = 1000000,
		.def = "0",
		.help = "Microseconds to poll for replies before each wait",
	},
	{
		OPTION("arrival_rate", STR_STORE, "Arrivals"),
		AT(arrival_rate),
		.help = "I/Os per second and job, by a clock that waits for no reply: latency "
			"begins when an I/O is due (default: none, the next I/O follows a reply)",
	},
	{
		OPTION("arrival_bw", STR_STORE, "Arrivals, in bytes"),
		AT(arrival_bw),
		.help = "Instead of arrival_rate, bytes per second and job: the gap after an I/O "
			"is in proportion to its length",
	},
	{
		OPTION("arrival_process", STR, "Gaps between arrivals"),
		AT(arrival_process),
		.def = "poisson",
		.posval =
			{
				VALUE("poisson", ARRIVAL_POISSON,
				      "At random, as of many independent users"),
				VALUE("fixed", ARRIVAL_FIXED, "Equal gaps"),
			},
		.help = "How arrivals follow each other; randseed and the job's number decide the "
			"schedule",
	},
	{
		OPTION("arrival_spin", INT, "Polling before an arrival"),
		AT(arrival_spin),
		.maxval = 1000000,
		.def = "20",
		.help = "Microseconds before each arrival that are polled and not slept",
	},
	{
		OPTION("rx_timestamps", BOOL, "Kernel's receive stamps"),
		AT(rx_timestamps),
		.def = "0",
		.help = "Split the time from a call's sending to its reply by the kernel's receive "
			"stamps: service is the network's and the server's, wake-up this client's",
	},
	{
		OPTION("arrival_batch", INT, "Arrivals sent together"),
		AT(arrival_batch),
		.maxval = 1000,
		.def = "0",
		.help = "Microseconds that an I/O which is due waits for others, to be sent with "
			"them; replies wait as long, at most twice",
	},
	{
		OPTION("metadata", BOOL, "Metadata operations"),
		AT(metadata),
		.def = "0",
		.help = "Each I/O is one operation on one entry of a directory, the job's file: "
			"the entry's number is offset / bs",
	},
	{
		OPTION("meta_read", STR, "What a read does"),
		AT(meta_read),
		.def = "getattr",
		.posval =
			{
				VALUE("getattr", META_GETATTR, "GETATTR, by the entry's handle"),
				VALUE("lookup", META_LOOKUP, "LOOKUP, by its name"),
				VALUE("access", META_ACCESS, "ACCESS, by its handle"),
				VALUE("open", META_OPEN, "NFSv4: OPEN and CLOSE"),
				VALUE("readdir", META_READDIR, "READDIR of its whole directory"),
			},
		.help = "metadata=1: what a read does with its entry",
	},
	{
		OPTION("meta_write", STR, "What a write does"),
		AT(meta_write),
		.def = "create",
		.posval =
			{
				VALUE("create", META_CREATE, "Creates a regular file"),
				VALUE("mkdir", META_MKDIR, "Creates a directory"),
				VALUE("symlink", META_SYMLINK, "Creates a symbolic link"),
				VALUE("setattr", META_SETATTR, "Sets the time of modification"),
				VALUE("rename", META_RENAME,
				      "Gives the entry its other name, or the first one back"),
				VALUE("link", META_LINK, "LINK: its other name as well"),
				VALUE("remove", META_REMOVE, "Removes a file or symbolic link"),
				VALUE("rmdir", META_RMDIR, "Removes a directory"),
			},
		.help = "metadata=1: what a write does with its entry; a trim removes, by "
			"rmdir where that is given",
	},
	{
		OPTION("meta_create", UNSUPPORTED, "How files are created"),
		.help = "it is gone since 0.7.0: each create is GUARDED; leave it out",
	},
	{
		OPTION("meta_mix", STR_STORE, "Mix of operations"),
		AT(meta_mix),
		.help = "metadata=1: operations by weight, instead of meta_read and meta_write, as "
			"in getattr:70,lookup:20,readdir:5,create:3,remove:2, with rw=randrw. "
			"The engine sets rwmixread from the weights, in whole per cent",
	},
	{
		OPTION("meta_verify", BOOL, "Check entries"),
		AT(meta_verify),
		.def = "0",
		.help = "metadata=1, jobs that read: check by READDIR, before the job begins, that "
			"no entry is missing or there twice, and then that each is what "
			"meta_write= makes",
	},
	{
		OPTION("dir_entries", INT, "Entries of a directory"),
		AT(dir_entries),
		.minval = 2,
		.def = "1000",
		.help = "metadata=1: entries of one directory",
	},
	{
		OPTION("tree_depth", INT, "Depth of the tree"),
		AT(tree_depth),
		.maxval = 8,
		.def = "1",
		.help = "metadata=1: levels of directories below the job's; 0: all entries lie in "
			"that one",
	},
	{
		OPTION("shared_dir", BOOL, "Shared directories"),
		AT(shared_dir),
		.def = "0",
		.help = "metadata=1: jobs with the same file name share its directories, each with "
			"entries of its own (default: they work on the same entries)",
	},
	{
		OPTION("require_version", STR_STORE, "Version of the engine"),
		AT(require_version),
		.help = "Refuse to run unless the engine is of this version: for jobs that are "
			"sent to other hosts",
	},
	{
		OPTION("stats_file", STR_STORE, "Statistics file"),
		AT(stats_file),
		.help = "Append one JSON line per connection, per kind of metadata operation, "
			"per arrival clock and per line that the job told, at its end",
	},
	{
		OPTION("live_file", STR_STORE, "Live statistics"),
		AT(live_file),
		.help = "Write each job's lines of connections to FILE.NUMBER, a local file, once "
			"a second while replies arrive, over those before",
	},
	{
		OPTION("trace", BOOL, "Trace"),
		AT(trace),
		.def = "0",
		.help = "Print one line per operation on stderr (also by the environment's "
			"IOTRAP_TRACE)",
	},
	{.name = NULL},
};
