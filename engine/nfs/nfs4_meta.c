/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/nfs4_meta.h"

#include "util.h"

/* RFC 8881, 16.2.3.1.2: the stateid that an operation before it in the compound has given. */
static const struct nfs4_stateid CURRENT_STATEID = {{[3] = 1}};

enum nfs4_operation nfs4_meta_operation(enum meta_op op)
{
	switch (op) {
	case META_GETATTR:
	case META_FSSTAT:
	case META_FSINFO:
	case META_ROOT: return NFS4_GETATTR;
	case META_SETATTR: return NFS4_SETATTR;
	case META_LOOKUP: return NFS4_LOOKUP;
	case META_ACCESS: return NFS4_ACCESS;
	case META_READDIR: return NFS4_READDIR;
	case META_OPEN:
	case META_CREATE: return NFS4_OPEN;
	case META_MKDIR:
	case META_SYMLINK: return NFS4_CREATE;
	case META_REMOVE:
	case META_RMDIR: return NFS4_REMOVE;
	case META_RENAME: return NFS4_RENAME;
	case META_LINK: return NFS4_LINK;
	}
	return NFS4_ILLEGAL;
}

/* GETFH of what it leads to stands behind it, */
static bool brings_handle(enum meta_op op)
{
	return op == META_LOOKUP || op == META_ROOT || meta_makes(op);
}

/* and GETATTR behind that. */
static bool brings_attributes(enum meta_op op)
{
	return op == META_LOOKUP || op == META_GETATTR || op == META_FSSTAT || op == META_FSINFO ||
	       op == META_ROOT;
}

/* --- arguments --- */

static void put_open(struct nfs4_compound *compound, const struct meta_arguments *arguments)
{
	bool creates = arguments->op == META_CREATE;
	const struct nfs4_open open = {
		.client = arguments->client,
		.owner = arguments->owner,
		.owner_length = arguments->owner_length,
		.access = creates ? NFS4_ACCESS_BOTH : NFS4_ACCESS_READ,
		.create = creates,
		.mode = FILE_MODE,
		.claim = NFS4_CLAIM_NULL,
		.name = arguments->name,
	};

	nfs4_put_open(compound, &open);
}

void nfs4_put_meta(struct nfs4_compound *compound, const struct meta_arguments *arguments)
{
	enum meta_op op = arguments->op;

	nfs4_put_handle(compound, meta_by_handle(op) ? &arguments->handle : arguments->directory);
	switch (op) {
	case META_GETATTR:
	case META_FSSTAT:
	case META_FSINFO:
	case META_ROOT: break;
	case META_LOOKUP: nfs4_put_lookup(compound, arguments->name); break;
	case META_ACCESS: nfs4_put_access(compound); break;
	case META_READDIR: nfs4_put_readdir(compound, arguments->listing, arguments->bytes); break;
	case META_SETATTR: nfs4_put_touch(compound); break;
	case META_OPEN:
	case META_CREATE: put_open(compound, arguments); break;
	case META_MKDIR: nfs4_put_mkdir(compound, arguments->name, DIRECTORY_MODE); break;
	case META_SYMLINK: nfs4_put_symlink(compound, arguments->name, META_SYMLINK_TARGET); break;
	case META_RENAME: nfs4_put_rename(compound, arguments->name, arguments->other); break;
	case META_LINK: nfs4_put_link(compound, arguments->directory, arguments->other); break;
	case META_REMOVE:
	case META_RMDIR: nfs4_put_remove(compound, arguments->name); break;
	}
	if (brings_handle(op))
		nfs4_put_getfh(compound);
	if (op == META_LOOKUP || op == META_GETATTR)
		nfs4_put_getattr(compound, NFS4_GETATTR_STAT);
	if (op == META_FSSTAT)
		nfs4_put_getattr(compound, NFS4_GETATTR_ROOM);
	if (op == META_FSINFO || op == META_ROOT)
		nfs4_put_getattr(compound, NFS4_GETATTR_LIMITS);
	if (arguments->closes)
		nfs4_put_close(compound, &CURRENT_STATEID);
}

/* --- results --- */

static uint32_t get_open(struct nfs4_results *results, struct nfs4_meta_result *result)
{
	uint32_t status = nfs4_next_result(results, NFS4_OPEN);

	if (!status)
		nfs4_get_open(results, &result->opened);
	return status;
}

static uint32_t get_readdir(struct nfs4_results *results, struct nfs4_meta_result *result)
{
	uint32_t status = nfs4_next_result(results, NFS4_READDIR);

	if (!status)
		nfs4_get_readdir(results, &result->all.page);
	return status;
}

static uint32_t get_access(struct nfs4_results *results, struct nfs4_meta_result *result)
{
	uint32_t status = nfs4_next_result(results, NFS4_ACCESS);

	if (!status)
		result->all.access = nfs4_get_access(results);
	return status;
}

/* The operation itself. */
static uint32_t get_operation(struct nfs4_results *results, enum meta_op op,
			      struct nfs4_meta_result *result)
{
	uint32_t status = 0;

	switch (op) {
	case META_GETATTR:
	case META_FSSTAT:
	case META_FSINFO:
	case META_ROOT: return 0;
	case META_ACCESS: return get_access(results, result);
	case META_READDIR: return get_readdir(results, result);
	case META_OPEN:
	case META_CREATE: return get_open(results, result);
	case META_LINK:
	case META_RENAME: status = nfs4_next_result(results, NFS4_SAVEFH); break;
	default: break;
	}
	if (!status && op == META_LINK)
		status = nfs4_next_result(results, NFS4_PUTFH);
	return status ?: nfs4_skip_result(results, nfs4_meta_operation(op));
}

static uint64_t told(const struct nfs4_attributes *attributes, enum nfs4_attribute attribute,
		     uint64_t value)
{
	return attributes->told >> attribute & 1 ? value : META_UNTOLD;
}

static uint32_t get_attributes(struct nfs4_results *results, struct meta_result *result)
{
	struct nfs4_attributes found;
	uint32_t status = nfs4_next_result(results, NFS4_GETATTR);

	if (status)
		return status;
	nfs4_get_attributes(results, &found);
	result->kind = (struct meta_kind){found.type, found.size};
	result->identity = (struct meta_identity){{found.fsid[0], found.fsid[1]}, found.fileid};
	result->limits = (struct meta_limits){
		.read_max = (uint32_t)min_of(found.read_max, (uint64_t)UINT32_MAX),
		.write_max = (uint32_t)min_of(found.write_max, (uint64_t)UINT32_MAX),
		.lease_time = found.lease_time,
	};
	result->room = (struct meta_room){
		.bytes_available = told(&found, NFS4_ATTR_SPACE_AVAIL, found.space[0]),
		.bytes_free = told(&found, NFS4_ATTR_SPACE_FREE, found.space[1]),
		.bytes_total = told(&found, NFS4_ATTR_SPACE_TOTAL, found.space[2]),
		.files_available = told(&found, NFS4_ATTR_FILES_AVAIL, found.files[0]),
		.files_free = told(&found, NFS4_ATTR_FILES_FREE, found.files[1]),
		.files_total = told(&found, NFS4_ATTR_FILES_TOTAL, found.files[2]),
	};
	return 0;
}

uint32_t nfs4_get_meta(struct nfs4_results *results, enum meta_op op, bool root, bool closes,
		       struct nfs4_meta_result *result)
{
	uint32_t status;

	memset(result, 0, sizeof(*result));
	status = nfs4_next_result(results, root ? NFS4_PUTROOTFH : NFS4_PUTFH)
			 ?: get_operation(results, op, result);
	result->carried_out = !status;
	if (!status && brings_handle(op)) {
		status = nfs4_next_result(results, NFS4_GETFH);
		if (!status)
			nfs4_get_handle(results, &result->all.found);
	}
	if (!status && brings_attributes(op))
		status = get_attributes(results, &result->all);
	if (!status && closes)
		result->close = nfs4_skip_result(results, NFS4_CLOSE);
	return status;
}

/* --- what goes back --- */

void nfs4_put_return(struct nfs4_compound *compound, const struct nfs_handle *directory,
		     const char *name, enum nfs4_operation operation,
		     const struct nfs4_stateid *stateid)
{
	nfs4_put_handle(compound, directory);
	nfs4_put_lookup(compound, name);
	if (operation == NFS4_CLOSE)
		nfs4_put_close(compound, stateid);
	else
		nfs4_put_delegreturn(compound, stateid);
}

uint32_t nfs4_get_return(struct nfs4_results *results, enum nfs4_operation operation)
{
	return nfs4_next_result(results, NFS4_PUTFH)
		       ?: nfs4_next_result(results, NFS4_LOOKUP)
		       ?: nfs4_skip_result(results, operation);
}
