/* SPDX-License-Identifier: GPL-2.0-only */
#include "service.h"

#include "compound.h"
#include "files.h"
#include "nfs4.h"
#include "util.h"
#include "wire.h"

enum { CALL = 0, REPLY = 1, RPC_VERSION = 2, MSG_ACCEPTED = 0 };
enum { SUCCESS = 0, PROG_UNAVAIL = 1, PROG_MISMATCH = 2, PROC_UNAVAIL = 3 };
enum { PROGRAM_NFS = 100003, PROGRAM_MOUNT = 100005, VERSION = 3 };

enum nfs_procedure {
	NFS_NULL = 0,
	NFS_GETATTR = 1,
	NFS_SETATTR = 2,
	NFS_LOOKUP = 3,
	NFS_ACCESS = 4,
	NFS_READ = 6,
	NFS_WRITE = 7,
	NFS_CREATE = 8,
	NFS_MKDIR = 9,
	NFS_REMOVE = 12,
	NFS_RMDIR = 13,
	NFS_FSSTAT = 18,
	NFS_FSINFO = 19,
	NFS_PATHCONF = 20,
	NFS_COMMIT = 21,
};

enum mount_procedure { MOUNT_NULL = 0, MOUNT_MNT = 1, MOUNT_UMNT = 3, MOUNT_EXPORT = 5 };

enum { NFS3_OK = 0, NFS3ERR_EXIST = 17, NFS3ERR_INVAL = 22, NFS3ERR_NOSPC = 28 };
enum { NFS3ERR_BADHANDLE = 10001 };

enum { TYPE_REGULAR = 1, TYPE_DIRECTORY = 2 };
enum { CREATE_UNCHECKED = 0, CREATE_GUARDED = 1, CREATE_EXCLUSIVE = 2 };
enum { FSINFO_PROPERTIES = 0x1b }; /* links, symbolic links, homogeneous, settable times */

static const uint64_t SPACE = 1ull << 50; /* what FSSTAT says is there */

/* --- attributes --- */

static void put_time(struct xdr_out *out)
{
	xdr_put_u64(out, 0);
}

static void put_attributes(struct xdr_out *out, uint32_t file)
{
	bool directory = files_is_directory(file);
	uint64_t size = directory ? 4096 : files_size(file);

	xdr_put_u32(out, directory ? TYPE_DIRECTORY : TYPE_REGULAR);
	xdr_put_u32(out, directory ? 0777 : 0666);
	xdr_put_u32(out, 1); /* links */
	xdr_put_u64(out, 0); /* owner and group */
	xdr_put_u64(out, size);
	xdr_put_u64(out, size);
	xdr_put_u64(out, 0); /* device */
	xdr_put_u64(out, 1); /* file system */
	xdr_put_u64(out, file + 1);
	put_time(out);
	put_time(out);
	put_time(out);
}

static void put_post_attributes(struct xdr_out *out, uint32_t file)
{
	xdr_put_u32(out, true);
	put_attributes(out, file);
}

static void put_no_attributes(struct xdr_out *out)
{
	xdr_put_u32(out, false);
}

/* Neither before nor after. */
static void put_no_wcc(struct xdr_out *out)
{
	xdr_put_u64(out, 0);
}

/* sattr3, of which only the size means anything here. */
static void get_new_attributes(struct xdr_in *in, bool *has_size, uint64_t *size)
{
	enum { MODE_UID_GID = 3, TIMES = 2, TO_CLIENT_TIME = 2 };

	for (int i = 0; i < MODE_UID_GID; i++)
		if (xdr_get_u32(in))
			xdr_get_u32(in);
	*has_size = xdr_get_u32(in);
	*size = *has_size ? xdr_get_u64(in) : 0;
	for (int i = 0; i < TIMES; i++)
		if (xdr_get_u32(in) == TO_CLIENT_TIME)
			xdr_get_u64(in);
}

/* --- reply headers --- */

static void put_accepted(struct xdr_out *out, uint32_t xid, uint32_t status)
{
	xdr_put_u32(out, xid);
	xdr_put_u32(out, REPLY);
	xdr_put_u32(out, MSG_ACCEPTED);
	xdr_put_u64(out, 0); /* no verifier */
	xdr_put_u32(out, status);
}

/* An error with `words` words of "no attributes" behind it. */
static void put_error(struct xdr_out *out, uint32_t status, int words)
{
	xdr_put_u32(out, status);
	for (int i = 0; i < words; i++)
		xdr_put_u32(out, 0);
}

/* --- NFS: each reads its arguments and, unless these are incomplete, writes its results --- */

static void do_getattr(struct xdr_in *in, struct xdr_out *out)
{
	uint32_t file;

	if (!get_handle(in, &file)) {
		put_error(out, NFS3ERR_BADHANDLE, 0);
		return;
	}
	xdr_put_u32(out, NFS3_OK);
	put_attributes(out, file);
}

static void do_setattr(struct xdr_in *in, struct xdr_out *out)
{
	uint32_t file;
	bool ours = get_handle(in, &file), has_size;
	uint64_t size;

	get_new_attributes(in, &has_size, &size);
	if (xdr_get_u32(in)) /* guard: a change time, which never changes here */
		xdr_get_u64(in);
	if (in->bad)
		return;
	if (!ours) {
		put_error(out, NFS3ERR_BADHANDLE, 2);
		return;
	}
	if (has_size)
		files_set_size(file, size);
	xdr_put_u32(out, NFS3_OK);
	put_no_wcc(out);
}

static void do_lookup(struct xdr_in *in, struct xdr_out *out)
{
	uint32_t directory, length;
	bool ours = get_handle(in, &directory);
	const char *name;
	int file;

	if (!get_name(in, &name, &length) || !ours) {
		put_error(out, NFS3ERR_BADHANDLE, 1);
		return;
	}
	file = length == 1 && *name == '.' ? (int)directory : files_lookup(directory, name, length);
	if (file < 0) {
		put_error(out, NFS3ERR_NOSPC, 1);
		return;
	}
	xdr_put_u32(out, NFS3_OK);
	put_handle(out, file);
	put_post_attributes(out, file);
	put_no_attributes(out); /* of the directory */
}

static void do_access(struct xdr_in *in, struct xdr_out *out)
{
	uint32_t file;
	bool ours = get_handle(in, &file);
	uint32_t wanted = xdr_get_u32(in);

	if (!ours) {
		put_error(out, NFS3ERR_BADHANDLE, 1);
		return;
	}
	xdr_put_u32(out, NFS3_OK);
	put_no_attributes(out);
	xdr_put_u32(out, wanted);
}

static void do_read(const struct service *service, struct xdr_in *in, struct xdr_out *out,
		    uint32_t *data)
{
	uint32_t file, count;
	bool ours = get_handle(in, &file);
	uint64_t offset = xdr_get_u64(in), size, rest;

	count = xdr_get_u32(in);
	if (in->bad)
		return;
	if (!ours) {
		put_error(out, NFS3ERR_BADHANDLE, 1);
		return;
	}
	size = files_size(file);
	rest = offset < size ? size - offset : 0;
	count = min_of(count, service->read_max);
	count = (uint32_t)min_of(rest, (uint64_t)count);
	service->counts->read_bytes += count;
	xdr_put_u32(out, NFS3_OK);
	put_post_attributes(out, file); /* as Linux and Ganesha do */
	xdr_put_u32(out, count);
	xdr_put_u32(out, count == rest);
	xdr_put_u32(out, count);
	*data = count;
}

/* Up to its data, which is not waited for. The stability asked for is the one promised. */
static void do_write(const struct service *service, struct xdr_in *in, struct xdr_out *out)
{
	uint32_t file;
	bool ours = get_handle(in, &file);
	uint64_t offset = xdr_get_u64(in);
	uint32_t count = xdr_get_u32(in);
	uint32_t stable = xdr_get_u32(in);
	uint32_t length = xdr_get_u32(in);

	if (in->bad)
		return;
	if (!ours || length != count || length > service->write_max) {
		put_error(out, ours ? NFS3ERR_INVAL : NFS3ERR_BADHANDLE, 2);
		return;
	}
	files_grow(file, offset + length);
	service->counts->write_bytes += length;
	xdr_put_u32(out, NFS3_OK);
	put_no_wcc(out);
	xdr_put_u32(out, count);
	xdr_put_u32(out, stable);
	xdr_put_u64(out, WRITE_VERIFIER);
}

static void do_create(struct xdr_in *in, struct xdr_out *out, bool is_directory)
{
	uint32_t directory, length, how = CREATE_GUARDED;
	bool ours = get_handle(in, &directory), has_size = false, made;
	uint64_t size = 0;
	const char *name;
	bool named = get_name(in, &name, &length);
	int file;

	if (!is_directory)
		how = xdr_get_u32(in);
	if (how == CREATE_EXCLUSIVE)
		xdr_get_u64(in);
	else
		get_new_attributes(in, &has_size, &size);
	if (in->bad)
		return;
	if (!ours || !named) {
		put_error(out, NFS3ERR_BADHANDLE, 2);
		return;
	}
	file = files_create(directory, name, length, is_directory, &made);
	if (file < 0 || (!made && how == CREATE_GUARDED)) {
		put_error(out, file < 0 ? NFS3ERR_NOSPC : NFS3ERR_EXIST, 2);
		return;
	}
	if (has_size)
		files_set_size(file, size);
	xdr_put_u32(out, NFS3_OK);
	xdr_put_u32(out, true);
	put_handle(out, file);
	put_post_attributes(out, file);
	put_no_wcc(out);
}

static void do_remove(struct xdr_in *in, struct xdr_out *out)
{
	uint32_t directory, length;
	bool ours = get_handle(in, &directory);
	const char *name;

	if (!get_name(in, &name, &length) || !ours) {
		put_error(out, NFS3ERR_BADHANDLE, 2);
		return;
	}
	files_remove(directory, name, length);
	xdr_put_u32(out, NFS3_OK);
	put_no_wcc(out);
}

/* FSSTAT, FSINFO and PATHCONF take a handle alone. */
static bool begin_about(struct xdr_in *in, struct xdr_out *out)
{
	uint32_t file;

	if (!get_handle(in, &file)) {
		put_error(out, NFS3ERR_BADHANDLE, 1);
		return false;
	}
	xdr_put_u32(out, NFS3_OK);
	put_post_attributes(out, file);
	return true;
}

static void do_fsstat(struct xdr_in *in, struct xdr_out *out)
{
	enum { SPACES = 3, FILE_COUNTS = 3 };

	if (!begin_about(in, out))
		return;
	for (int i = 0; i < SPACES; i++)
		xdr_put_u64(out, SPACE);
	for (int i = 0; i < FILE_COUNTS; i++)
		xdr_put_u64(out, FILES_MAX);
	xdr_put_u32(out, 0); /* how long this is true */
}

static void do_fsinfo(const struct service *service, struct xdr_in *in, struct xdr_out *out)
{
	if (!begin_about(in, out))
		return;
	xdr_put_u32(out, service->read_max);
	xdr_put_u32(out, service->read_max);
	xdr_put_u32(out, 4096);
	xdr_put_u32(out, service->write_max);
	xdr_put_u32(out, service->write_max);
	xdr_put_u32(out, 4096);
	xdr_put_u32(out, 4096);	     /* dtpref */
	xdr_put_u64(out, INT64_MAX); /* the largest file */
	xdr_put_u32(out, 0);	     /* times are kept to … */
	xdr_put_u32(out, 1);	     /* … a nanosecond */
	xdr_put_u32(out, FSINFO_PROPERTIES);
}

static void do_pathconf(struct xdr_in *in, struct xdr_out *out)
{
	if (!begin_about(in, out))
		return;
	xdr_put_u32(out, 1); /* links */
	xdr_put_u32(out, FILE_NAME_MAX);
	xdr_put_u32(out, true);	 /* longer names are refused */
	xdr_put_u32(out, true);	 /* chown is restricted */
	xdr_put_u32(out, false); /* case matters … */
	xdr_put_u32(out, true);	 /* … and is kept */
}

static void do_commit(struct xdr_in *in, struct xdr_out *out)
{
	uint32_t file;
	bool ours = get_handle(in, &file);

	xdr_get_u64(in); /* offset */
	xdr_get_u32(in); /* count */
	if (!ours) {
		put_error(out, NFS3ERR_BADHANDLE, 2);
		return;
	}
	xdr_put_u32(out, NFS3_OK);
	put_no_wcc(out);
	xdr_put_u64(out, WRITE_VERIFIER);
}

/* An accept_stat. */
static uint32_t serve_nfs(const struct service *service, uint32_t procedure, struct xdr_in *in,
			  struct xdr_out *out, uint32_t *data)
{
	switch ((enum nfs_procedure)procedure) {
	case NFS_NULL: break;
	case NFS_GETATTR: do_getattr(in, out); break;
	case NFS_SETATTR: do_setattr(in, out); break;
	case NFS_LOOKUP: do_lookup(in, out); break;
	case NFS_ACCESS: do_access(in, out); break;
	case NFS_READ: do_read(service, in, out, data); break;
	case NFS_WRITE: do_write(service, in, out); break;
	case NFS_CREATE: do_create(in, out, false); break;
	case NFS_MKDIR: do_create(in, out, true); break;
	case NFS_REMOVE:
	case NFS_RMDIR: do_remove(in, out); break;
	case NFS_FSSTAT: do_fsstat(in, out); break;
	case NFS_FSINFO: do_fsinfo(service, in, out); break;
	case NFS_PATHCONF: do_pathconf(in, out); break;
	case NFS_COMMIT: do_commit(in, out); break;
	default: return PROC_UNAVAIL;
	}
	if (!in->bad)
		service->counts->nfs[procedure]++;
	return SUCCESS;
}

static uint32_t serve_nfs4(const struct service *service, uint32_t procedure, struct xdr_in *in,
			   bool whole, struct xdr_out *out, uint32_t *data)
{
	if (procedure == NFS4_COMPOUND)
		compound_serve(service, in, whole, out, data);
	return procedure <= NFS4_COMPOUND ? SUCCESS : PROC_UNAVAIL;
}

/* --- MOUNT --- */

static void do_mount(struct xdr_in *in, struct xdr_out *out)
{
	enum { AUTH_SYS = 1 };

	xdr_skip(in, xdr_get_u32(in)); /* any path is exported */
	xdr_put_u32(out, 0);
	put_handle(out, FILE_ROOT);
	xdr_put_u32(out, 1); /* flavors */
	xdr_put_u32(out, AUTH_SYS);
}

static uint32_t serve_mount(const struct service *service, uint32_t procedure, struct xdr_in *in,
			    struct xdr_out *out)
{
	switch ((enum mount_procedure)procedure) {
	case MOUNT_NULL: break;
	case MOUNT_MNT: do_mount(in, out); break;
	case MOUNT_UMNT: xdr_skip(in, xdr_get_u32(in)); break;
	case MOUNT_EXPORT: xdr_put_u32(out, false); break; /* the list ends */
	default: return PROC_UNAVAIL;
	}
	if (!in->bad)
		service->counts->mount[procedure]++;
	return SUCCESS;
}

/* --- calls --- */

/* Anybody may do anything. */
static void skip_auth(struct xdr_in *in)
{
	xdr_get_u32(in);
	xdr_skip(in, xdr_get_u32(in));
}

/* An accept_stat, other than SUCCESS only where nothing was written to `out`. */
static uint32_t serve(const struct service *service, uint32_t program, struct xdr_in *in,
		      bool whole, struct xdr_out *out, uint32_t *data)
{
	uint32_t version = xdr_get_u32(in);
	uint32_t procedure = xdr_get_u32(in);

	skip_auth(in);
	skip_auth(in);
	if (program != PROGRAM_NFS && program != PROGRAM_MOUNT)
		return PROG_UNAVAIL;
	if (program == PROGRAM_NFS && version == NFS4_VERSION)
		return serve_nfs4(service, procedure, in, whole, out, data);
	if (version != VERSION)
		return PROG_MISMATCH;
	if (program == PROGRAM_NFS)
		return serve_nfs(service, procedure, in, out, data);
	return serve_mount(service, procedure, in, out);
}

bool service_answer(const struct service *service, struct xdr_in *call, bool whole,
		    struct xdr_out *head, uint32_t *data)
{
	struct xdr_out start = *head;
	uint32_t xid = xdr_get_u32(call), program, status;

	*data = 0;
	if (xdr_get_u32(call) != CALL || (xdr_get_u32(call) != RPC_VERSION && !call->bad))
		return false;
	put_accepted(head, xid, SUCCESS);
	program = xdr_get_u32(call);
	status = serve(service, program, call, whole, head, data);
	if (status == SUCCESS)
		return true;
	*head = start;
	put_accepted(head, xid, status);
	if (status == PROG_MISMATCH) {
		xdr_put_u32(head, VERSION);
		xdr_put_u32(head, program == PROGRAM_NFS ? NFS4_VERSION : VERSION);
	}
	return true;
}
