/* SPDX-License-Identifier: GPL-2.0-only */
#include "metadata4.h"

#include <errno.h>
#include <string.h>

#include "server.h"
#include "util.h"
#include "world.h"

enum { PAGE_MAX = 16, COOKIE = 3 /* those below mean something else (18.23.3) */ };

static const char *const handles_of[HANDLE_FILE + SERVER_FILES_MAX] = {
	[HANDLE_ROOT] = "/",	    [HANDLE_DIRECTORY] = "dir", [HANDLE_FILE] = SERVER_HANDLE,
	[HANDLE_FILE + 1] = "fil1", [HANDLE_FILE + 2] = "fil2", [HANDLE_FILE + 3] = "fil3"};

static const uint8_t *get_name(struct xdr_in *in, uint32_t *length)
{
	*length = xdr_get_u32(in);
	return xdr_skip(in, *length);
}

/* change_info4: nobody looks at it. */
static void put_change(struct xdr_out *out)
{
	static const uint32_t change[5];

	xdr_put_fixed(out, change, sizeof(change));
}

/* bitmap4 and attrlist4 */
static void skip_attributes(struct xdr_in *in)
{
	xdr_skip(in, 4 * xdr_get_u32(in));
	xdr_skip(in, xdr_get_u32(in));
}

/* --- handles --- */

uint32_t metadata4_file(const struct metadata4 *handles)
{
	object_t file = handles->current - HANDLE_FILE;

	return file < SERVER_FILES_MAX ? (uint32_t)file : 0;
}

/* "file", "file1" and so on. */
static object_t file_named(const uint8_t *name, uint32_t length)
{
	return HANDLE_FILE + (length > 4 ? name[4] - '0' : 0) % SERVER_FILES_MAX;
}

static uint32_t put_file(struct metadata4 *handles, struct xdr_in *in)
{
	uint32_t length;
	const uint8_t *bytes = get_name(in, &length);

	for (uint32_t i = 0; bytes && i < ARRAY_SIZE(handles_of); i++)
		if (length == strlen(handles_of[i]) && !memcmp(bytes, handles_of[i], length)) {
			handles->current = i;
			return 0;
		}
	if (!bytes || length != sizeof(object_t))
		return NFS4ERR_STALE;
	memcpy(&handles->current, bytes, length);
	return namespace_has(handles->current) ? 0 : NFS4ERR_STALE;
}

static uint32_t get_handle(const struct metadata4 *handles, struct xdr_out *out)
{
	object_t current = handles->current;

	if (current < ARRAY_SIZE(handles_of))
		xdr_put_opaque(out, handles_of[current], (uint32_t)strlen(handles_of[current]));
	else
		xdr_put_opaque(out, &current, sizeof(current));
	return 0;
}

static uint32_t lookup(struct metadata4 *handles, struct xdr_in *in)
{
	uint32_t length;
	const uint8_t *name = get_name(in, &length);

	if (handles->current == HANDLE_DIRECTORY)
		return namespace_lookup(name, length, &handles->current);
	handles->current = name && *name == 'd' ? HANDLE_DIRECTORY : file_named(name, length);
	return 0;
}

static enum meta_type type_of(object_t object)
{
	if (object == HANDLE_ROOT || object == HANDLE_DIRECTORY)
		return META_TYPE_DIRECTORY;
	return object < ARRAY_SIZE(handles_of) ? META_TYPE_FILE : namespace_type(object);
}

static uint32_t get_attributes(const struct metadata4 *handles, struct xdr_in *in,
			       struct xdr_out *out)
{
	uint32_t words = xdr_get_u32(in), asked = xdr_get_u32(in);
	const uint32_t known = 1u << NFS4_ATTR_TYPE | 1u << NFS4_ATTR_SIZE |
			       1u << NFS4_ATTR_LEASE_TIME | 1u << NFS4_ATTR_MAXREAD |
			       1u << NFS4_ATTR_MAXWRITE;
	uint8_t bytes[64];
	struct xdr_out values = {bytes, bytes + sizeof(bytes), false};

	if (words > 1)
		xdr_get_u32(in);
	asked &= known;
	xdr_put_u32(&values, type_of(handles->current));
	xdr_put_u64(&values, SERVER_FILE);
	if (asked & 1u << NFS4_ATTR_LEASE_TIME)
		xdr_put_u32(&values, 90);
	if (asked & 1u << NFS4_ATTR_MAXREAD)
		xdr_put_u64(&values, SERVER_FILE);
	if (asked & 1u << NFS4_ATTR_MAXWRITE)
		xdr_put_u64(&values, SERVER_FILE);
	xdr_put_u32(out, 1);
	xdr_put_u32(out, asked);
	xdr_put_opaque(out, bytes, (uint32_t)(values.at - bytes));
	return 0;
}

/* --- one object's --- */

static uint32_t access_of(struct xdr_in *in, struct xdr_out *out)
{
	uint32_t asked = xdr_get_u32(in);

	xdr_put_u32(out, asked);
	xdr_put_u32(out, asked);
	return 0;
}

static uint32_t set_attributes(struct xdr_in *in, struct xdr_out *out)
{
	xdr_skip(in, NFS4_STATEID);
	skip_attributes(in);
	xdr_put_u32(out, 0); /* those that were set */
	return 0;
}

/* --- the directory's --- */

/* A directory or a symbolic link. */
static uint32_t create(struct metadata4 *handles, struct xdr_in *in, struct xdr_out *out)
{
	enum meta_type type = (enum meta_type)xdr_get_u32(in);
	uint32_t length, status;
	const uint8_t *name;

	if (type == META_TYPE_SYMLINK)
		get_name(in, &length);
	name = get_name(in, &length);
	skip_attributes(in);
	status = namespace_make(name, length, type, &handles->current);
	put_change(out);
	xdr_put_u32(out, 0); /* attributes that were set */
	return status;
}

uint32_t metadata4_open(struct metadata4 *handles, bool create_it, struct xdr_in *in)
{
	uint32_t length;
	const uint8_t *name = get_name(in, &length);

	if (handles->current != HANDLE_DIRECTORY) {
		handles->current = file_named(name, length);
		return 0;
	}
	if (!create_it)
		return namespace_lookup(name, length, &handles->current);
	return namespace_make(name, length, META_TYPE_FILE, &handles->current);
}

static uint32_t remove_name(struct xdr_in *in, struct xdr_out *out)
{
	uint32_t length;
	const uint8_t *name = get_name(in, &length);

	put_change(out);
	return namespace_remove(name, length);
}

static uint32_t rename_name(struct xdr_in *in, struct xdr_out *out)
{
	uint32_t length, other_length;
	const uint8_t *name = get_name(in, &length), *other = get_name(in, &other_length);

	put_change(out);
	put_change(out);
	return namespace_rename(name, length, other, other_length);
}

static uint32_t link_name(const struct metadata4 *handles, struct xdr_in *in, struct xdr_out *out)
{
	uint32_t length;
	const uint8_t *name = get_name(in, &length);

	put_change(out);
	return namespace_link(handles->saved, name, length);
}

/* A page of some entries, without attributes. */
static uint32_t list(struct xdr_in *in, struct xdr_out *out)
{
	uint64_t cookie = xdr_get_u64(in), number = cookie ? cookie - COOKIE + 1 : 0;
	char name[16];

	xdr_skip(in, NFS4_VERIFIER + 2 * 4); /* how many bytes */
	xdr_skip(in, 4 * xdr_get_u32(in));   /* attributes */
	xdr_put_u64(out, 1);		     /* verifier */
	for (uint64_t i = world_random(PAGE_MAX) + 1; i && namespace_list(number, name); i--) {
		xdr_put_u32(out, true);
		xdr_put_u64(out, COOKIE + number++);
		xdr_put_opaque(out, name, (uint32_t)strlen(name));
		xdr_put_u32(out, 0);
		xdr_put_u32(out, 0);
	}
	xdr_put_u32(out, false);
	xdr_put_u32(out, !namespace_list(number, name));
	return 0;
}

/* --- all of them --- */

bool metadata4_serves(enum nfs4_operation operation)
{
	switch (operation) {
	case NFS4_PUTROOTFH:
	case NFS4_PUTFH:
	case NFS4_SAVEFH:
	case NFS4_GETFH:
	case NFS4_LOOKUP:
	case NFS4_GETATTR:
	case NFS4_ACCESS:
	case NFS4_SETATTR:
	case NFS4_CREATE:
	case NFS4_REMOVE:
	case NFS4_RENAME:
	case NFS4_LINK:
	case NFS4_READDIR: return true;
	default: return false;
	}
}

uint32_t metadata4_answer(enum nfs4_operation operation, struct metadata4 *handles,
			  struct xdr_in *in, struct xdr_out *out)
{
	switch (operation) {
	case NFS4_PUTROOTFH: handles->current = HANDLE_ROOT; return 0;
	case NFS4_PUTFH: return put_file(handles, in);
	case NFS4_SAVEFH: handles->saved = handles->current; return 0;
	case NFS4_GETFH: return get_handle(handles, out);
	case NFS4_LOOKUP: return lookup(handles, in);
	case NFS4_GETATTR: return get_attributes(handles, in, out);
	case NFS4_ACCESS: return access_of(in, out);
	case NFS4_SETATTR: return set_attributes(in, out);
	case NFS4_CREATE: return create(handles, in, out);
	case NFS4_REMOVE: return remove_name(in, out);
	case NFS4_RENAME: return rename_name(in, out);
	case NFS4_LINK: return link_name(handles, in, out);
	default: return list(in, out);
	}
}
