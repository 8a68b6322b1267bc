/* SPDX-License-Identifier: GPL-2.0-only */
#include "counts.h"

#include <inttypes.h>
#include <sys/resource.h>

#include "nfs4.h"
#include "util.h"

static const char *const nfs_names[NFS_PROCEDURES] = {
	"NULL",	   "GETATTR",	  "SETATTR", "LOOKUP", "ACCESS",   "READLINK", "READ",	 "WRITE",
	"CREATE",  "MKDIR",	  "SYMLINK", "MKNOD",  "REMOVE",   "RMDIR",    "RENAME", "LINK",
	"READDIR", "READDIRPLUS", "FSSTAT",  "FSINFO", "PATHCONF", "COMMIT",
};

static const char *const nfs4_names[NFS4_OPERATIONS] = {
	[OP_CLOSE] = "CLOSE",
	[OP_COMMIT] = "COMMIT",
	[OP_CREATE] = "CREATE",
	[OP_GETATTR] = "GETATTR",
	[OP_GETFH] = "GETFH",
	[OP_LOOKUP] = "LOOKUP",
	[OP_OPEN] = "OPEN",
	[OP_PUTFH] = "PUTFH",
	[OP_PUTROOTFH] = "PUTROOTFH",
	[OP_READ] = "READ",
	[OP_REMOVE] = "REMOVE",
	[OP_SETATTR] = "SETATTR",
	[OP_WRITE] = "WRITE",
	[OP_BIND_CONN_TO_SESSION] = "BIND_CONN_TO_SESSION",
	[OP_EXCHANGE_ID] = "EXCHANGE_ID",
	[OP_CREATE_SESSION] = "CREATE_SESSION",
	[OP_DESTROY_SESSION] = "DESTROY_SESSION",
	[OP_SEQUENCE] = "SEQUENCE",
	[OP_DESTROY_CLIENTID] = "DESTROY_CLIENTID",
	[OP_RECLAIM_COMPLETE] = "RECLAIM_COMPLETE",
};

static const char *const mount_names[MOUNT_PROCEDURES] = {
	"NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT",
};

void counts_add(struct counts *sum, const struct counts *one)
{
	for (int i = 0; i < NFS_PROCEDURES; i++)
		sum->nfs[i] += one->nfs[i];
	for (int i = 0; i < NFS4_OPERATIONS; i++)
		sum->nfs4[i] += one->nfs4[i];
	for (int i = 0; i < MOUNT_PROCEDURES; i++)
		sum->mount[i] += one->mount[i];
	sum->read_bytes += one->read_bytes;
	sum->write_bytes += one->write_bytes;
	sum->connections += one->connections;
	sum->system_calls += one->system_calls;
	sum->stalls += one->stalls;
	sum->busy += one->busy;
}

static void print_calls(FILE *out, const char *program, const char *const *names,
			const uint64_t *calls, int count)
{
	const char *separator = "";

	fprintf(out, "\"%s\": {", program);
	for (int i = 0; i < count; i++) {
		if (!calls[i])
			continue;
		fprintf(out, "%s\"%s\": %" PRIu64, separator, names[i], calls[i]);
		separator = ", ";
	}
	fprintf(out, "}, ");
}

static double seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

void counts_print(const struct counts *sum, FILE *out)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	fprintf(out, "{");
	print_calls(out, "nfs", nfs_names, sum->nfs, NFS_PROCEDURES);
	print_calls(out, "nfs4", nfs4_names, sum->nfs4, NFS4_OPERATIONS);
	print_calls(out, "mount", mount_names, sum->mount, MOUNT_PROCEDURES);
	fprintf(out,
		"\"read_bytes\": %" PRIu64 ", \"write_bytes\": %" PRIu64
		", \"connections\": %" PRIu64 ", \"system_calls\": %" PRIu64
		", \"stalls\": %" PRIu64
		", \"busy_seconds\": %.6f, \"user_seconds\": %.6f, \"system_seconds\": %.6f}\n",
		sum->read_bytes, sum->write_bytes, sum->connections, sum->system_calls, sum->stalls,
		(double)sum->busy / SEC, seconds(usage.ru_utime), seconds(usage.ru_stime));
	fflush(out);
}
