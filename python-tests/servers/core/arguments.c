/* SPDX-License-Identifier: GPL-2.0-only */
#include "core/files.h"
#include "core/nfs4.h"
#include "nfs/nfs3.h"
#include "util.h"

/* As the RFCs write them, up to the last one that is looked at: a letter of read_one() each. */
static const char *const nfs3[NFS3_COMMIT + 1] = {
	[NFS3_GETATTR] = "h", [NFS3_SETATTR] = "h", [NFS3_LOOKUP] = "hn",
	[NFS3_ACCESS] = "h",  [NFS3_READ] = "hoc",  [NFS3_WRITE] = "hoce",
	[NFS3_CREATE] = "hn", [NFS3_MKDIR] = "hn",  [NFS3_REMOVE] = "hn",
	[NFS3_RMDIR] = "hn",  [NFS3_LINK] = "h",    [NFS3_READDIR] = "hoddc",
	[NFS3_FSSTAT] = "h",  [NFS3_FSINFO] = "h",  [NFS3_COMMIT] = "hoc",
};

static const char *const nfs4[NFS4_LAST + 1] = {
	[NFS4_BIND_CONN_TO_SESSION] = "s",
	[NFS4_COMMIT] = "oc",
	[NFS4_CREATE] = "dn",
	[NFS4_DESTROY_SESSION] = "s",
	[NFS4_GETATTR] = "b",
	[NFS4_LINK] = "n",
	[NFS4_LOOKUP] = "n",
	[NFS4_OPEN] = "dddddvmp",
	[NFS4_PUTFH] = "h",
	[NFS4_READ] = "ddddoc",
	[NFS4_READDIR] = "odddc",
	[NFS4_REMOVE] = "n",
	[NFS4_SECINFO] = "n",
	[NFS4_SEQUENCE] = "sqlgd",
	[NFS4_WRITE] = "ddddoec",
};

/* How OPEN makes a file (RFC 8881, 18.16). */
static void skip_making(struct xdr_in *in)
{
	uint32_t mode;

	if (xdr_get_u32(in) != OPEN4_CREATE)
		return;
	mode = xdr_get_u32(in);
	if (mode == EXCLUSIVE4 || mode == EXCLUSIVE4_1)
		xdr_get_u64(in);
	if (mode == EXCLUSIVE4)
		return;
	get_attributes(in);
	xdr_skip(in, xdr_get_u32(in));
}

static void read_name(struct arguments *arguments, struct xdr_in *in)
{
	arguments->name.length = xdr_get_u32(in);
	arguments->name.bytes = (const char *)xdr_skip(in, arguments->name.length);
}

static void read_claim(struct arguments *arguments, struct xdr_in *in)
{
	arguments->claim = xdr_get_u32(in);
	if (arguments->claim == NFS4_CLAIM_NULL)
		read_name(arguments, in);
}

static void read_one(struct arguments *arguments, struct xdr_in *in, char which)
{
	switch (which) {
	case 'h': arguments->stale = get_handle(in, &arguments->file) != 0; break;
	case 'n': read_name(arguments, in); break;
	case 'o': arguments->offset = xdr_get_u64(in); break;
	case 'c': arguments->count = xdr_get_u32(in); break;
	case 'e': arguments->stable = xdr_get_u32(in); break;
	case 'p': read_claim(arguments, in); break;
	case 's':
		xdr_get_u64(in); /* struct session_id */
		arguments->session = xdr_get_u64(in);
		break;
	case 'q': arguments->sequence = xdr_get_u32(in); break;
	case 'l': arguments->slot = xdr_get_u32(in); break;
	case 'g': arguments->highest = xdr_get_u32(in); break;
	case 'm': skip_making(in); break;
	case 'b': arguments->wanted = get_attributes(in); break;
	case 'v': xdr_skip(in, xdr_get_u32(in)); break; /* of any length */
	default: xdr_get_u32(in);
	}
}

void read_arguments(struct arguments *arguments, uint32_t version, uint32_t number, uint64_t file,
		    struct xdr_in *in)
{
	const bool known = number < (version == NFS_V3 ? ARRAY_SIZE(nfs3) : ARRAY_SIZE(nfs4));
	const char *layout = !known ? NULL : version == NFS_V3 ? nfs3[number] : nfs4[number];

	*arguments = (struct arguments){
		.file = file,
		.session = arguments->session,
		.sequence = arguments->sequence,
		.slot = arguments->slot,
	};
	for (const char *at = layout; at && *at && !in->bad; at++)
		read_one(arguments, in, *at);
}
