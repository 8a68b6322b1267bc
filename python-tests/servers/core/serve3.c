/* SPDX-License-Identifier: GPL-2.0-only */
#include "core/call.h"

#include "core/files.h"
#include "nfs/nfs3.h"

enum { CREATE_GUARDED = 1, CREATE_EXCLUSIVE = 2 };
enum { FSINFO_PROPERTIES = 0x1b }; /* links, symbolic links, homogeneous, settable times */

static const uint64_t SPACE = 1ull << 50, FILES = 4096; /* what FSSTAT says is there */

/* --- what several have --- */

static void put_attributes(struct xdr_out *out, uint64_t file)
{
	const struct file_attributes attributes = files_attributes(file);
	const bool directory = attributes.type == FILE_DIRECTORY;
	const uint32_t high = htobe32(attributes.size >> 32);
	const uint32_t low = htobe32((uint32_t)attributes.size);
	const uint32_t words[NFS3_FATTR_SIZE / 4] = {
		[0] = htobe32(attributes.type),
		[1] = htobe32(directory ? 0777 : 0666),
		[2] = htobe32(1), /* link; then owner and group */
		[5] = high,
		[6] = low,
		[7] = high, /* of storage; then the device */
		[8] = low,
		[11] = htobe32(attributes.file_system >> 32),
		[12] = htobe32((uint32_t)attributes.file_system),
		[13] = htobe32((file + 1) >> 32),
		[14] = htobe32((uint32_t)(file + 1)), /* three times follow */
	};

	xdr_put_fixed(out, words, sizeof(words));
}

static void put_post_attributes(const struct nfs_call *call, uint64_t file)
{
	xdr_put_u32(call->out, call->limits->optional);
	if (call->limits->optional)
		put_attributes(call->out, file);
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

/* --- procedures: each reads its arguments behind the handle, and has them admitted; after 0 its
 * results stand behind the status --- */

static uint32_t do_null(struct nfs_call *call, struct arguments *asked)
{
	return 0;
}

static uint32_t do_getattr(struct nfs_call *call, struct arguments *asked)
{
	put_attributes(call->out, asked->file);
	return 0;
}

static uint32_t do_setattr(struct nfs_call *call, struct arguments *asked)
{
	struct xdr_in *in = call->in;
	uint32_t status;
	uint64_t size;
	bool has_size;

	get_new_attributes(in, &has_size, &size);
	if (xdr_get_u32(in)) /* guard: a change time, which never changes here */
		xdr_get_u64(in);
	status = admit(call, 0);
	if (has_size && !status)
		files_set_size(asked->file, size);
	return status;
}

static uint32_t do_lookup(struct nfs_call *call, struct arguments *asked)
{
	uint64_t file;
	uint32_t status = admit(call, get_name(call->in, &asked->name));

	status = status ?: files_lookup(asked->file, asked->name, &file);
	if (status)
		return status;
	files_put_handle(call->out, file);
	put_post_attributes(call, file);
	put_no_attributes(call->out); /* of the directory */
	return 0;
}

static uint32_t do_access(struct nfs_call *call, struct arguments *asked)
{
	uint32_t rights = xdr_get_u32(call->in), status = admit(call, 0);

	put_no_attributes(call->out);
	xdr_put_u32(call->out, rights);
	return status;
}

static uint32_t do_read(struct nfs_call *call, struct arguments *asked)
{
	struct transfer read = get_range(call->in, asked);
	uint32_t status = admit(call, 0);

	status = status ?: files_read(call->front, asked->file, &read);
	if (status)
		return status;
	put_post_attributes(call, asked->file); /* as Linux and Ganesha do */
	put_words(call->out, (uint32_t[]){read.length, read.end, read.length}, 3);
	call->data = read.data;
	call->data_length = read.length;
	return 0;
}

static uint32_t do_write(struct nfs_call *call, struct arguments *asked)
{
	const uint32_t most = call->limits->write_max;
	struct transfer write;
	uint32_t words[5], status;

	get_words(call->in, words, 5);
	write.offset = asked->offset = (uint64_t)words[0] << 32 | words[1];
	asked->count = words[2];
	write.stable = asked->stable = words[3];
	write.length = words[4];
	status = write.length == asked->count && write.length <= most ? 0 : STATUS_INVAL;
	status = admit(call, status);
	if (status)
		return status;
	status = files_write(call->front, asked->file, &write);
	put_words(call->out, (uint32_t[]){0, 0, write.length, write.stable}, 4);
	xdr_put_fixed(call->out, &write.verifier, sizeof(write.verifier));
	return status;
}

static uint32_t make(struct nfs_call *call, struct arguments *asked, enum file_type type,
		     uint32_t how)
{
	struct xdr_in *in = call->in;
	bool has_size = false;
	uint64_t size, file;
	struct name target;
	uint32_t status = get_name(in, &asked->name);

	if (type == FILE_REGULAR)
		how = xdr_get_u32(in);
	if (how == CREATE_EXCLUSIVE)
		xdr_get_u64(in); /* verifier */
	else
		get_new_attributes(in, &has_size, &size);
	if (type == FILE_SYMLINK)
		get_name(in, &target);
	status = admit(call, status);
	status = status ?: files_make(asked->file, asked->name, type, how == CREATE_GUARDED, &file);
	if (status)
		return status;
	if (has_size)
		files_set_size(file, size);
	xdr_put_u32(call->out, true);
	files_put_handle(call->out, file);
	put_post_attributes(call, file);
	put_no_wcc(call->out);
	return 0;
}

static uint32_t do_create(struct nfs_call *call, struct arguments *asked)
{
	return make(call, asked, FILE_REGULAR, 0);
}

static uint32_t do_mkdir(struct nfs_call *call, struct arguments *asked)
{
	return make(call, asked, FILE_DIRECTORY, CREATE_GUARDED);
}

static uint32_t do_symlink(struct nfs_call *call, struct arguments *asked)
{
	return make(call, asked, FILE_SYMLINK, CREATE_GUARDED);
}

static uint32_t do_remove(struct nfs_call *call, struct arguments *asked)
{
	uint32_t status = admit(call, get_name(call->in, &asked->name));

	return status ?: files_remove(asked->file, asked->name);
}

static uint32_t do_rename(struct nfs_call *call, struct arguments *asked)
{
	struct name other;
	uint64_t to;
	uint32_t status = get_name(call->in, &asked->name);

	status = status ?: get_handle(call->in, &to);
	status = admit(call, status ?: get_name(call->in, &other));
	return status ?: files_rename(asked->file, asked->name, to, other);
}

static uint32_t do_link(struct nfs_call *call, struct arguments *asked)
{
	uint64_t directory;
	uint32_t status = get_handle(call->in, &directory);

	status = admit(call, status ?: get_name(call->in, &asked->name));
	return status ?: files_link(asked->file, directory, asked->name);
}

static uint32_t do_readdir(struct nfs_call *call, struct arguments *asked)
{
	struct xdr_out *out = call->out;
	struct name_page page = get_page(call->in, asked);
	uint32_t status;

	asked->count = xdr_get_u32(call->in);
	status = admit(call, 0);
	status = status ?: list_page(asked, &page);
	if (status)
		return status;
	put_no_attributes(out);
	xdr_put_u64(out, page.verifier);
	for (uint32_t i = 0; i < page.count; i++) {
		xdr_put_u32(out, true);
		xdr_put_u64(out, page.cookie + i); /* file id */
		xdr_put_opaque(out, page.names[i], (uint32_t)strlen(page.names[i]));
		xdr_put_u64(out, page.cookie + i * page.step);
	}
	xdr_put_u32(out, false);
	xdr_put_u32(out, page.end);
	return 0;
}

static uint32_t do_fsstat(struct nfs_call *call, struct arguments *asked)
{
	enum { SPACES = 3, FILE_COUNTS = 3 };

	put_post_attributes(call, asked->file);
	for (int i = 0; i < SPACES; i++)
		xdr_put_u64(call->out, SPACE);
	for (int i = 0; i < FILE_COUNTS; i++)
		xdr_put_u64(call->out, FILES);
	xdr_put_u32(call->out, 0); /* how long this is true */
	return 0;
}

static uint32_t do_fsinfo(struct nfs_call *call, struct arguments *asked)
{
	const struct limits *limits = call->limits;
	struct xdr_out *out = call->out;

	put_post_attributes(call, asked->file);
	xdr_put_u32(out, limits->read_max);
	xdr_put_u32(out, limits->read_max);
	xdr_put_u32(out, 4096);
	xdr_put_u32(out, limits->write_max);
	xdr_put_u32(out, limits->write_max);
	xdr_put_u32(out, 4096);
	xdr_put_u32(out, 4096);	     /* dtpref */
	xdr_put_u64(out, INT64_MAX); /* the largest file */
	xdr_put_u32(out, 0);	     /* times are kept to … */
	xdr_put_u32(out, 1);	     /* … a nanosecond */
	xdr_put_u32(out, FSINFO_PROPERTIES);
	return 0;
}

static uint32_t do_commit(struct nfs_call *call, struct arguments *asked)
{
	struct transfer commit = get_range(call->in, asked);
	uint32_t status = admit(call, 0);

	status = status ?: files_commit(call->front, asked->file, &commit);
	put_no_wcc(call->out);
	xdr_put_fixed(call->out, &commit.verifier, sizeof(commit.verifier));
	return status;
}

/* --- all of them --- */

static const struct {
	uint32_t (*serve)(struct nfs_call *call, struct arguments *asked); /* NULL: it is not */
	uint16_t words; /* of "no attributes" behind a status that has nothing else behind it */
	bool bare;	/* there are no arguments but a handle */
} procedures[NFS3_COMMIT + 1] = {
	[NFS3_NULL] = {do_null, 0, true},	 [NFS3_GETATTR] = {do_getattr, 0, true},
	[NFS3_SETATTR] = {do_setattr, 2, false}, [NFS3_LOOKUP] = {do_lookup, 1, false},
	[NFS3_ACCESS] = {do_access, 1, false},	 [NFS3_READ] = {do_read, 1, false},
	[NFS3_WRITE] = {do_write, 2, false},	 [NFS3_CREATE] = {do_create, 2, false},
	[NFS3_MKDIR] = {do_mkdir, 2, false},	 [NFS3_SYMLINK] = {do_symlink, 2, false},
	[NFS3_REMOVE] = {do_remove, 2, false},	 [NFS3_RMDIR] = {do_remove, 2, false},
	[NFS3_RENAME] = {do_rename, 4, false},	 [NFS3_LINK] = {do_link, 3, false},
	[NFS3_READDIR] = {do_readdir, 1, false}, [NFS3_FSSTAT] = {do_fsstat, 1, true},
	[NFS3_FSINFO] = {do_fsinfo, 1, true},	 [NFS3_COMMIT] = {do_commit, 2, false},
};

bool serve_nfs3(struct nfs_call *call, uint32_t procedure)
{
	static const uint32_t no_attributes[4];
	const struct xdr_out begin = *call->out;
	struct arguments *asked = call->asked;
	uint32_t status = 0;

	if (procedure > NFS3_COMMIT || !procedures[procedure].serve)
		return false;
	memset(asked, 0, ARGUMENTS_EACH);
	asked->number = procedure;
	if (procedure != NFS3_NULL) {
		xdr_put_u32(call->out, 0);
		asked->status = get_handle(call->in, &asked->file);
	}
	if (procedures[procedure].bare)
		status = admit(call, 0);
	status = status ?: procedures[procedure].serve(call, asked);
	if (call->in->bad)
		return true;
	if (status) {
		*call->out = begin;
		xdr_put_u32(call->out, status);
	}
	if (call->out->at == begin.at + sizeof(status))
		put_words(call->out, no_attributes, procedures[procedure].words);
	front_end(call, status);
	return true;
}
