/* SPDX-License-Identifier: GPL-2.0-only */
#include "counts.h"

#include <inttypes.h>

#include "nfs/nfs4.h"
#include "util.h"

static const char *const nfs_names[NFS_PROCEDURES] = {
	"NULL",	   "GETATTR",	  "SETATTR", "LOOKUP", "ACCESS",   "READLINK", "READ",	 "WRITE",
	"CREATE",  "MKDIR",	  "SYMLINK", "MKNOD",  "REMOVE",   "RMDIR",    "RENAME", "LINK",
	"READDIR", "READDIRPLUS", "FSSTAT",  "FSINFO", "PATHCONF", "COMMIT",
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

void counts_print(const struct counts *sum, FILE *out)
{
	const char *nfs4_names[NFS4_OPERATIONS];

	for (int i = 0; i < NFS4_OPERATIONS; i++)
		nfs4_names[i] = nfs4_operation_name((enum nfs4_operation)i);
	fprintf(out, "{");
	print_calls(out, "nfs", nfs_names, sum->nfs, NFS_PROCEDURES);
	print_calls(out, "nfs4", nfs4_names, sum->nfs4, NFS4_OPERATIONS);
	print_calls(out, "mount", mount_names, sum->mount, MOUNT_PROCEDURES);
	fprintf(out,
		"\"read_bytes\": %" PRIu64 ", \"write_bytes\": %" PRIu64
		", \"connections\": %" PRIu64 ", \"stalls\": %" PRIu64
		", \"busy_seconds\": %.6f}\n",
		sum->read_bytes, sum->write_bytes, sum->connections, sum->stalls,
		(double)sum->busy / SEC);
	fflush(out);
}
