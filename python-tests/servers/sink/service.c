/* SPDX-License-Identifier: GPL-2.0-only */
#include "service.h"

#include "compound.h"
#include "files.h"
#include "nfs/nfs3.h"
#include "nfs4.h"
#include "util.h"
#include "wire.h"

enum { CALL = 0, REPLY = 1, RPC_VERSION = 2, MSG_ACCEPTED = 0 };
enum { SUCCESS = 0, PROG_UNAVAIL = 1, PROG_MISMATCH = 2, PROC_UNAVAIL = 3 };
enum { PROGRAM_MOUNT = 100005, NFS3_PATHCONF = 20 };

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

/* --- NFS: each reads its arguments behind the handle and, unless these are incomplete, writes its
 * results --- */

struct nfs_call {
	const struct service *service;
	struct xdr_in *in;
	struct xdr_out *out;
	uint32_t file;	/* that it is about */
	uint32_t *data; /* READ: bytes that follow its results */
};

static void do_getattr(const struct nfs_call *call)
{
	xdr_put_u32(call->out, NFS3_OK);
	put_attributes(call->out, call->file);
}

static void do_setattr(const struct nfs_call *call)
{
	struct xdr_in *in = call->in;
	uint64_t size;
	bool has_size;

	get_new_attributes(in, &has_size, &size);
	if (xdr_get_u32(in)) /* guard: a change time, which never changes here */
		xdr_get_u64(in);
	if (in->bad)
		return;
	if (has_size)
		files_set_size(call->file, size);
	xdr_put_u32(call->out, NFS3_OK);
	put_no_wcc(call->out);
}

static void do_lookup(const struct nfs_call *call)
{
	struct xdr_out *out = call->out;
	const char *name;
	uint32_t length;
	int file;

	if (!get_name(call->in, &name, &length)) {
		put_error(out, NFS3ERR_INVAL, 1);
		return;
	}
	file = length == 1 && *name == '.' ? (int)call->file
					   : files_lookup(call->file, name, length);
	if (file < 0) {
		put_error(out, NFS3ERR_NOSPC, 1);
		return;
	}
	xdr_put_u32(out, NFS3_OK);
	put_handle(out, file);
	put_post_attributes(out, file);
	put_no_attributes(out); /* of the directory */
}

static void do_access(const struct nfs_call *call)
{
	xdr_put_u32(call->out, NFS3_OK);
	put_no_attributes(call->out);
	xdr_put_u32(call->out, xdr_get_u32(call->in));
}

static void do_read(const struct nfs_call *call)
{
	const struct service *service = call->service;
	uint64_t offset = xdr_get_u64(call->in), size = files_size(call->file);
	uint64_t rest = offset < size ? size - offset : 0;
	uint32_t count = min_of(xdr_get_u32(call->in), service->read_max);

	if (call->in->bad)
		return;
	count = (uint32_t)min_of(rest, (uint64_t)count);
	service->counts->read_bytes += count;
	xdr_put_u32(call->out, NFS3_OK);
	put_post_attributes(call->out, call->file); /* as Linux and Ganesha do */
	xdr_put_u32(call->out, count);
	xdr_put_u32(call->out, count == rest);
	xdr_put_u32(call->out, count);
	*call->data = count;
}

/* Up to its data, which is not waited for. The stability asked for is the one promised. */
static void do_write(const struct nfs_call *call)
{
	uint64_t offset = xdr_get_u64(call->in);
	uint32_t count = xdr_get_u32(call->in);
	uint32_t stable = xdr_get_u32(call->in);
	uint32_t length = xdr_get_u32(call->in);

	if (call->in->bad)
		return;
	if (length != count || length > call->service->write_max) {
		put_error(call->out, NFS3ERR_INVAL, 2);
		return;
	}
	files_grow(call->file, offset + length);
	call->service->counts->write_bytes += length;
	xdr_put_u32(call->out, NFS3_OK);
	put_no_wcc(call->out);
	xdr_put_u32(call->out, count);
	xdr_put_u32(call->out, stable);
	xdr_put_u64(call->out, WRITE_VERIFIER);
}

static void make(const struct nfs_call *call, bool is_directory)
{
	struct xdr_in *in = call->in;
	struct xdr_out *out = call->out;
	uint32_t length, how = CREATE_GUARDED;
	bool has_size = false, made;
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
	if (!named) {
		put_error(out, NFS3ERR_INVAL, 2);
		return;
	}
	file = files_create(call->file, name, length, is_directory, &made);
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

static void do_create(const struct nfs_call *call)
{
	make(call, false);
}

static void do_mkdir(const struct nfs_call *call)
{
	make(call, true);
}

static void do_remove(const struct nfs_call *call)
{
	const char *name;
	uint32_t length;

	if (!get_name(call->in, &name, &length)) {
		put_error(call->out, NFS3ERR_INVAL, 2);
		return;
	}
	files_remove(call->file, name, length);
	xdr_put_u32(call->out, NFS3_OK);
	put_no_wcc(call->out);
}

static void begin_about(const struct nfs_call *call)
{
	xdr_put_u32(call->out, NFS3_OK);
	put_post_attributes(call->out, call->file);
}

static void do_fsstat(const struct nfs_call *call)
{
	enum { SPACES = 3, FILE_COUNTS = 3 };

	begin_about(call);
	for (int i = 0; i < SPACES; i++)
		xdr_put_u64(call->out, SPACE);
	for (int i = 0; i < FILE_COUNTS; i++)
		xdr_put_u64(call->out, FILES_MAX);
	xdr_put_u32(call->out, 0); /* how long this is true */
}

static void do_fsinfo(const struct nfs_call *call)
{
	const struct service *service = call->service;
	struct xdr_out *out = call->out;

	begin_about(call);
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

static void do_pathconf(const struct nfs_call *call)
{
	begin_about(call);
	xdr_put_u32(call->out, 1); /* links */
	xdr_put_u32(call->out, FILE_NAME_MAX);
	xdr_put_u32(call->out, true);  /* longer names are refused */
	xdr_put_u32(call->out, true);  /* chown is restricted */
	xdr_put_u32(call->out, false); /* case matters … */
	xdr_put_u32(call->out, true);  /* … and is kept */
}

static void do_commit(const struct nfs_call *call)
{
	xdr_get_u64(call->in); /* offset */
	xdr_get_u32(call->in); /* count */
	xdr_put_u32(call->out, NFS3_OK);
	put_no_wcc(call->out);
	xdr_put_u64(call->out, WRITE_VERIFIER);
}

static const struct {
	void (*serve)(const struct nfs_call *call); /* NULL: it is not served */
	int words; /* of "no attributes" that an error has behind it */
} procedures[NFS3_COMMIT + 1] = {
	[NFS3_GETATTR] = {do_getattr, 0},   [NFS3_SETATTR] = {do_setattr, 2},
	[NFS3_LOOKUP] = {do_lookup, 1},	    [NFS3_ACCESS] = {do_access, 1},
	[NFS3_READ] = {do_read, 1},	    [NFS3_WRITE] = {do_write, 2},
	[NFS3_CREATE] = {do_create, 2},	    [NFS3_MKDIR] = {do_mkdir, 2},
	[NFS3_REMOVE] = {do_remove, 2},	    [NFS3_RMDIR] = {do_remove, 2},
	[NFS3_FSSTAT] = {do_fsstat, 1},	    [NFS3_FSINFO] = {do_fsinfo, 1},
	[NFS3_PATHCONF] = {do_pathconf, 1}, [NFS3_COMMIT] = {do_commit, 2},
};

/* An accept_stat. */
static uint32_t serve_nfs(const struct service *service, uint32_t procedure, struct xdr_in *in,
			  struct xdr_out *out, uint32_t *data)
{
	struct nfs_call call = {.service = service, .in = in, .out = out, .data = data};

	if (procedure > NFS3_COMMIT || (procedure && !procedures[procedure].serve))
		return PROC_UNAVAIL;
	if (procedure && !get_handle(in, &call.file))
		put_error(out, NFS3ERR_BADHANDLE, procedures[procedure].words);
	else if (procedure)
		procedures[procedure].serve(&call);
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
	if (program != NFS_PROGRAM && program != PROGRAM_MOUNT)
		return PROG_UNAVAIL;
	if (program == NFS_PROGRAM && version == NFS_V4)
		return serve_nfs4(service, procedure, in, whole, out, data);
	if (version != NFS_V3)
		return PROG_MISMATCH;
	if (program == NFS_PROGRAM)
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
		xdr_put_u32(head, NFS_V3);
		xdr_put_u32(head, program == NFS_PROGRAM ? NFS_V4 : NFS_V3);
	}
	return true;
}
