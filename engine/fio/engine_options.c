/* SPDX-License-Identifier: GPL-2.0-only */
#include "engine_options.h"

#include "conn/connection.h"
#include "pool/spread.h"

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

#define AT(member)    .off1 = offsetof(struct engine_options, member)
#define ENGINE_OPTION .category = FIO_OPT_C_ENGINE, .group = FIO_OPT_G_NFS

#define SPREAD_VALUES(base)                                                               \
	{                                                                                 \
		{.ival = "job", .oval = (base) + SPREAD_JOB, .help = "One path per job"}, \
			{.ival = "roundrobin",                                            \
			 .oval = (base) + SPREAD_ROUNDROBIN,                              \
			 .help = "The next connection for each I/O"},                     \
			{.ival = "queue",                                                 \
			 .oval = (base) + SPREAD_QUEUE,                                   \
			 .help = "The connection with the fewest bytes in flight"},       \
			{.ival = "stripe",                                                \
			 .oval = (base) + SPREAD_STRIPE,                                  \
			 .help = "By offset (stripe_size)"},                              \
	}

struct fio_option engine_option_table[] = {
	{
		.name = "pool",
		.lname = "Pool of paths",
		.type = FIO_OPT_STR_STORE,
		AT(pool),
		.help = "Paths to the same files: nfs://HOST[:PORT]/EXPORT[?ARG=VALUE&...] or "
			"/DIRECTORY, separated by commas; or a pool's name in NFSMULTI_POOLS or "
			"IOTRAP_MOUNT_POOLS",
		ENGINE_OPTION,
	},
	{
		.name = "nconnect",
		.lname = "Connections per path",
		.type = FIO_OPT_INT,
		AT(nconnect),
		.minval = 1,
		.maxval = 256,
		.def = "1",
		.help = "Connections that a job opens on each path",
		ENGINE_OPTION,
	},
	{
		.name = "first_path",
		.lname = "Path of the first job",
		.type = FIO_OPT_INT,
		AT(first_path),
		.maxval = 65535,
		.def = "0",
		.help = "spread=job: the path of the first job, counted from 0, so that jobs on "
			"several hosts begin on different ones",
		ENGINE_OPTION,
	},
	{
		.name = "spread",
		.lname = "Spread of I/O",
		.type = FIO_OPT_STR,
		AT(spread),
		.def = "job",
		.posval = SPREAD_VALUES(0),
		.help = "How a job's I/O is spread over its connections",
		ENGINE_OPTION,
	},
	{
		.name = "spread_reads",
		.lname = "Spread of reads",
		.type = FIO_OPT_STR,
		AT(spread_reads),
		.posval = SPREAD_VALUES(1),
		.help = "As spread, for reads only",
		ENGINE_OPTION,
	},
	{
		.name = "spread_writes",
		.lname = "Spread of writes",
		.type = FIO_OPT_STR,
		AT(spread_writes),
		.posval = SPREAD_VALUES(1),
		.help = "As spread, for writes only",
		ENGINE_OPTION,
	},
	{
		.name = "stripe_size",
		.lname = "Stripe size",
		.type = FIO_OPT_STR_VAL,
		AT(stripe_size),
		.help = "Bytes per stripe, for spread=stripe (default: the job's largest block "
			"size)",
		ENGINE_OPTION,
	},
	{
		.name = "version",
		.alias = "nfsvers", /* --version is fio's own on its command line */
		.lname = "Version of NFS",
		.type = FIO_OPT_STR,
		AT(version),
		.def = "3",
		.posval =
			{
				{.ival = "3", .oval = 0, .help = "NFSv3"},
				{.ival = "4.1", .oval = 1, .help = "NFSv4.1, with sessions"},
				{.ival = "4.2", .oval = 2, .help = "NFSv4.2: the same operations"},
				{.ival = "4.0", .oval = VERSION_40, .help = "Not supported"},
				{.ival = "4", .oval = VERSION_40, .help = "Not supported"},
			},
		.help = "Version of NFS, as in nfs(5); on the command line --nfsvers, or version= "
			"in a path",
		ENGINE_OPTION,
	},
	{
		.name = "trunking",
		.lname = "Trunking of sessions",
		.type = FIO_OPT_STR,
		AT(trunking),
		.def = "clientid",
		.posval =
			{
				{.ival = "clientid",
				 .oval = 0,
				 .help = "A session for each connection, one client ID"},
				{.ival = "session",
				 .oval = 1,
				 .help = "One session over all connections of the job"},
			},
		.help = "NFSv4: what a job's connections share (RFC 8881, 2.10.5)",
		ENGINE_OPTION,
	},
	{
		.name = "open",
		.lname = "How files are opened",
		.type = FIO_OPT_STR,
		AT(stateless),
		.def = "file",
		.posval =
			{
				{.ival = "file", .oval = 0, .help = "OPEN, as applications do"},
				{.ival = "none",
				 .oval = 1,
				 .help = "No OPEN: I/O uses special stateids"},
			},
		.help = "NFSv4: how files are opened. NFSv3 has no OPEN and ignores it",
		ENGINE_OPTION,
	},
	{
		.name = "proto",
		.lname = "Transport",
		.type = FIO_OPT_STR,
		AT(proto),
		.def = "tcp",
		.posval =
			{
				{.ival = "tcp", .oval = MOUNT_TCP, .help = "TCP"},
				{.ival = "tcp6", .oval = MOUNT_TCP6, .help = "TCP over IPv6"},
				{.ival = "rdma", .oval = MOUNT_RDMA, .help = "RDMA"},
				{.ival = "rdma6", .oval = MOUNT_RDMA6, .help = "RDMA over IPv6"},
			},
		.help = "Transport, as in nfs(5)",
		ENGINE_OPTION,
	},
	{
		.name = "port",
		.lname = "NFS port",
		.type = FIO_OPT_INT,
		AT(port),
		.maxval = 65535,
		.help = "The server's NFS port (default: as its rpcbind says; NFSv4: 2049)",
		ENGINE_OPTION,
	},
	{
		.name = "mountport",
		.lname = "MOUNT port",
		.type = FIO_OPT_INT,
		AT(mountport),
		.maxval = 65535,
		.help = "The server's MOUNT port (default: as its rpcbind says). NFSv4 has no "
			"MOUNT and ignores it",
		ENGINE_OPTION,
	},
	{
		.name = "rdmaport",
		.lname = "RDMA port",
		.type = FIO_OPT_INT,
		AT(rdmaport),
		.minval = 1,
		.maxval = 65535,
		.def = "20049",
		.help = "The server's port for NFS over RDMA",
		ENGINE_OPTION,
	},
	{
		.name = "namespace",
		.lname = "Transport of names",
		.type = FIO_OPT_UNSUPPORTED,
		.help = "it is gone: names always go over TCP; leave it out",
		ENGINE_OPTION,
	},
	{
		.name = "inline",
		.lname = "RDMA inline threshold",
		.type = FIO_OPT_INT,
		AT(inline_max),
		.minval = 1024,
		.maxval = 65536,
		.def = "4096",
		.help = "RDMA: bytes of the longest message sent without chunks, either way "
			"(the server's own threshold may be smaller)",
		ENGINE_OPTION,
	},
	{
		.name = "rsize",
		.lname = "READ size",
		.type = FIO_OPT_INT,
		AT(rsize),
		.help = "Maximum bytes that one READ asks for (default: the server's maximum, at "
			"most 1m)",
		ENGINE_OPTION,
	},
	{
		.name = "wsize",
		.lname = "WRITE size",
		.type = FIO_OPT_INT,
		AT(wsize),
		.help = "Maximum bytes that one WRITE carries (default: the server's maximum, at "
			"most 1m)",
		ENGINE_OPTION,
	},
	{
		.name = "timeo",
		.lname = "Retransmission timeout",
		.type = FIO_OPT_INT,
		AT(timeo),
		.minval = 1,
		.maxval = 6000,
		.def = "600",
		.help = "Tenths of a second to wait for a reply before the call is sent again "
			"(NFSv4: over another connection)",
		ENGINE_OPTION,
	},
	{
		.name = "retrans",
		.lname = "Retransmissions",
		.type = FIO_OPT_INT,
		AT(retrans),
		.maxval = 1000,
		.def = "2",
		.help = "Times a call is sent again before hard reconnects and soft gives up",
		ENGINE_OPTION,
	},
	{
		.name = "hard",
		.lname = "Retry for ever",
		.type = FIO_OPT_STR_SET,
		.cb = set_hard,
		.help = "Retry for ever when the server does not answer (the default)",
		ENGINE_OPTION,
	},
	{
		.name = "soft",
		.lname = "Give up",
		.type = FIO_OPT_STR_SET,
		.cb = set_soft,
		.help = "Fail an I/O with ETIMEDOUT when retrans retransmissions brought no reply",
		ENGINE_OPTION,
	},
	{
		.name = "failover",
		.lname = "Failover",
		.type = FIO_OPT_BOOL,
		AT(failover),
		.def = "0",
		.help = "Reissue the I/O of a path that does not answer on the others, until it "
			"answers again",
		ENGINE_OPTION,
	},
	{
		.name = "localaddr",
		.lname = "Local addresses",
		.type = FIO_OPT_STR_STORE,
		AT(localaddr),
		.help = "Addresses to connect from, in turn, joined by '+'",
		ENGINE_OPTION,
	},
	{
		.name = "stable",
		.lname = "WRITE stability",
		.type = FIO_OPT_STR,
		AT(stable),
		.def = "unstable",
		.posval =
			{
				{.ival = "unstable",
				 .oval = IO_UNSTABLE,
				 .help = "Durable at the next COMMIT"},
				{.ival = "data_sync",
				 .oval = IO_DATA_SYNC,
				 .help = "Data durable at once"},
				{.ival = "file_sync",
				 .oval = IO_FILE_SYNC,
				 .help = "All durable at once"},
			},
		.help = "How WRITE asks (RFC 1813, stable_how); sync=1 means file_sync",
		ENGINE_OPTION,
	},
	{
		.name = "hold_writes",
		.lname = "Writes held for resending",
		.type = FIO_OPT_STR_VAL,
		AT(hold_writes),
		.def = "0",
		.help = "Bytes of uncommitted data that a job keeps, to write it again if a server "
			"restarts; COMMITs begin at half of that. Kernel mounts ignore it: "
			"the kernel does the same",
		ENGINE_OPTION,
	},
	{
		.name = "busy_poll",
		.lname = "Busy polling",
		.type = FIO_OPT_INT,
		AT(busy_poll),
		.maxval = 1000000,
		.def = "0",
		.help = "Microseconds to poll for replies before each wait",
		ENGINE_OPTION,
	},
	{
		.name = "metadata",
		.lname = "Metadata operations",
		.type = FIO_OPT_BOOL,
		AT(metadata),
		.def = "0",
		.help = "Each I/O is one operation on one entry of a directory, the job's file: "
			"the entry's number is offset / bs",
		ENGINE_OPTION,
	},
	{
		.name = "meta_read",
		.lname = "What a read does",
		.type = FIO_OPT_STR,
		AT(meta_read),
		.def = "getattr",
		.posval =
			{
				{.ival = "getattr",
				 .oval = META_GETATTR,
				 .help = "GETATTR, by the entry's handle"},
				{.ival = "lookup",
				 .oval = META_LOOKUP,
				 .help = "LOOKUP, by its name"},
				{.ival = "access",
				 .oval = META_ACCESS,
				 .help = "ACCESS, by its handle"},
				{.ival = "open",
				 .oval = META_OPEN,
				 .help = "NFSv4: OPEN and CLOSE; a kernel mount: open(2) and "
					 "close(2)"},
				{.ival = "readdir",
				 .oval = META_READDIR,
				 .help = "READDIR of its whole directory"},
			},
		.help = "metadata=1: what a read does with its entry",
		ENGINE_OPTION,
	},
	{
		.name = "meta_write",
		.lname = "What a write does",
		.type = FIO_OPT_STR,
		AT(meta_write),
		.def = "create",
		.posval =
			{
				{.ival = "create",
				 .oval = META_CREATE,
				 .help = "Creates a regular file"},
				{.ival = "mkdir",
				 .oval = META_MKDIR,
				 .help = "Creates a directory"},
				{.ival = "symlink",
				 .oval = META_SYMLINK,
				 .help = "Creates a symbolic link"},
				{.ival = "setattr",
				 .oval = META_SETATTR,
				 .help = "Sets the time of modification"},
				{.ival = "rename",
				 .oval = META_RENAME,
				 .help = "Gives the entry its other name, or the first one back"},
				{.ival = "link",
				 .oval = META_LINK,
				 .help = "LINK: its other name as well"},
				{.ival = "remove",
				 .oval = META_REMOVE,
				 .help = "Removes a file or symbolic link"},
				{.ival = "rmdir",
				 .oval = META_RMDIR,
				 .help = "Removes a directory"},
			},
		.help = "metadata=1: what a write does with its entry; a trim removes, by "
			"rmdir where that is given",
		ENGINE_OPTION,
	},
	{
		.name = "meta_create",
		.lname = "How files are created",
		.type = FIO_OPT_STR,
		AT(meta_create),
		.def = "guarded",
		.posval =
			{
				{.ival = "guarded",
				 .oval = META_CREATE_GUARDED,
				 .help = "One call; a file that is there when the call has to be "
					 "sent again is taken for its own"},
				{.ival = "exclusive",
				 .oval = META_CREATE_EXCLUSIVE,
				 .help = "CREATE with a verifier, by which the server knows the "
					 "file again, and SETATTR"},
			},
		.help = "metadata=1 over NFSv3: how create makes a file",
		ENGINE_OPTION,
	},
	{
		.name = "meta_mix",
		.lname = "Mix of operations",
		.type = FIO_OPT_STR_STORE,
		AT(meta_mix),
		.help = "metadata=1: operations by weight, instead of meta_read and meta_write, as "
			"in getattr:70,lookup:20,readdir:5,create:3,remove:2, with rw=randrw. "
			"The engine sets rwmixread from the weights, in whole per cent",
		ENGINE_OPTION,
	},
	{
		.name = "meta_verify",
		.lname = "Check entries",
		.type = FIO_OPT_BOOL,
		AT(meta_verify),
		.def = "0",
		.help = "metadata=1, jobs that read: check by READDIR, before the job begins, that "
			"no entry is missing or there twice, and then that each is what "
			"meta_write= makes",
		ENGINE_OPTION,
	},
	{
		.name = "dir_entries",
		.lname = "Entries of a directory",
		.type = FIO_OPT_INT,
		AT(dir_entries),
		.minval = 2,
		.def = "1000",
		.help = "metadata=1: entries of one directory",
		ENGINE_OPTION,
	},
	{
		.name = "tree_depth",
		.lname = "Depth of the tree",
		.type = FIO_OPT_INT,
		AT(tree_depth),
		.maxval = 8,
		.def = "1",
		.help = "metadata=1: levels of directories below the job's; 0: all entries lie in "
			"that one",
		ENGINE_OPTION,
	},
	{
		.name = "shared_dir",
		.lname = "Shared directories",
		.type = FIO_OPT_BOOL,
		AT(shared_dir),
		.def = "0",
		.help = "metadata=1: jobs with the same file name share its directories, each with "
			"entries of its own (default: they work on the same entries)",
		ENGINE_OPTION,
	},
	{
		.name = "require_version",
		.lname = "Version of the engine",
		.type = FIO_OPT_STR_STORE,
		AT(require_version),
		.help = "Refuse to run unless the engine is of this version: for jobs that are "
			"sent to other hosts",
		ENGINE_OPTION,
	},
	{
		.name = "stats_file",
		.lname = "Statistics file",
		.type = FIO_OPT_STR_STORE,
		AT(stats_file),
		.help = "Append one JSON line per connection, and per kind of metadata operation, "
			"at the end of the job",
		ENGINE_OPTION,
	},
	{
		.name = "trace",
		.lname = "Trace",
		.type = FIO_OPT_BOOL,
		AT(trace),
		.def = "0",
		.help = "Print one line per operation on stderr (also by the environment's "
			"IOTRAP_TRACE)",
		ENGINE_OPTION,
	},
	{
		.name = NULL,
	},
};
