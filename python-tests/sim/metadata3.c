/* SPDX-License-Identifier: GPL-2.0-only */
#include "metadata3.h"

#include <errno.h>
#include <string.h>

#include "namespace.h"
#include "world.h"

enum { STATUS_STALE = 70, PAGE_MAX = 16 };

static const uint8_t *get_name(struct xdr_in *in, uint32_t *length)
{
	*length = xdr_get_u32(in);
	return xdr_skip(in, *length);
}

/* The directory's handle is one that nobody looks at: 0. */
static object_t get_handle(struct xdr_in *in)
{
	object_t object = 0;
	uint32_t length = xdr_get_u32(in);
	const uint8_t *bytes = xdr_skip(in, length);

	if (bytes && length == sizeof(object))
		memcpy(&object, bytes, sizeof(object));
	return object;
}

static void put_handle(struct xdr_out *out, object_t object)
{
	xdr_put_opaque(out, &object, sizeof(object));
}

/* fattr3 (2.6), of which the type alone is of interest. */
static void put_attributes(struct xdr_out *out, object_t object)
{
	static const uint8_t rest[NFS3_FATTR_SIZE - 4];

	xdr_put_u32(out, namespace_type(object));
	xdr_put_fixed(out, rest, sizeof(rest));
}

/* Attributes that are left out: those that end all results. */
static void put_none(enum nfs3_procedure procedure, struct xdr_out *out)
{
	static const uint32_t none[4];
	uint32_t words = 2; /* wcc_data */

	switch (procedure) {
	case NFS3_GETATTR: words = 0; break;
	case NFS3_READ:
	case NFS3_LOOKUP:
	case NFS3_ACCESS:
	case NFS3_READDIR: words = 1; break;
	case NFS3_LINK: words = 3; break;
	case NFS3_RENAME: words = 4; break;
	default: break;
	}
	xdr_put_fixed(out, none, 4 * words);
}

void metadata3_refuse(enum nfs3_procedure procedure, struct xdr_out *out, uint32_t status)
{
	xdr_put_u32(out, status);
	put_none(procedure, out);
}

/* --- by handle --- */

static void answer_by_handle(enum nfs3_procedure procedure, object_t object, struct xdr_in *in,
			     struct xdr_out *out)
{
	const uint8_t *name;
	uint32_t length, status = namespace_has(object) ? 0 : STATUS_STALE;

	in->at = procedure == NFS3_LINK ? in->at : in->end;
	if (procedure == NFS3_LINK) {
		get_handle(in);
		name = get_name(in, &length);
		status = status ?: namespace_link(object, name, length);
	}
	if (status) {
		metadata3_refuse(procedure, out, status);
		return;
	}
	xdr_put_u32(out, 0);
	if (procedure == NFS3_GETATTR)
		put_attributes(out, object);
	else
		put_none(procedure, out);
	if (procedure == NFS3_ACCESS)
		xdr_put_u32(out, 0x3f);
}

/* --- by name --- */

/* A page of some entries. */
static void list(struct xdr_in *in, struct xdr_out *out)
{
	uint64_t cookie = xdr_get_u64(in), count = 1 + world_random(PAGE_MAX);
	char name[16];

	in->at = in->end;
	xdr_put_u32(out, 0);
	put_none(NFS3_READDIR, out);
	xdr_put_u64(out, 1); /* verifier */
	for (; count && namespace_list(cookie, name); count--) {
		xdr_put_u32(out, true);
		xdr_put_u64(out, 1 + cookie);
		xdr_put_opaque(out, name, (uint32_t)strlen(name));
		xdr_put_u64(out, ++cookie);
	}
	xdr_put_u32(out, false);
	xdr_put_u32(out, !namespace_list(cookie, name));
}

static uint32_t make(enum nfs3_procedure procedure, struct xdr_in *in, object_t *made)
{
	static const enum meta_type types[] = {
		[NFS3_CREATE] = META_TYPE_FILE,
		[NFS3_MKDIR] = META_TYPE_DIRECTORY,
		[NFS3_SYMLINK] = META_TYPE_SYMLINK,
	};
	uint32_t length;
	const uint8_t *name = get_name(in, &length);

	in->at = in->end;
	return namespace_make(name, length, types[procedure], made);
}

static uint32_t change(enum nfs3_procedure procedure, struct xdr_in *in, object_t *found)
{
	uint32_t length, other_length;
	const uint8_t *name, *other;

	if (procedure == NFS3_CREATE || procedure == NFS3_MKDIR || procedure == NFS3_SYMLINK)
		return make(procedure, in, found);
	name = get_name(in, &length);
	if (procedure == NFS3_LOOKUP)
		return namespace_lookup(name, length, found);
	if (procedure != NFS3_RENAME)
		return namespace_remove(name, length);
	get_handle(in);
	other = get_name(in, &other_length);
	return namespace_rename(name, length, other, other_length);
}

static void answer_by_name(enum nfs3_procedure procedure, struct xdr_in *in, struct xdr_out *out)
{
	object_t found = 0;
	uint32_t status = change(procedure, in, &found);

	if (status) {
		metadata3_refuse(procedure, out, status);
		return;
	}
	xdr_put_u32(out, 0);
	if (found && procedure != NFS3_LOOKUP)
		xdr_put_u32(out, true);
	if (found)
		put_handle(out, found);
	if (found)
		xdr_put_u32(out, 0); /* no attributes */
	put_none(procedure, out);
}

void metadata3_answer(enum nfs3_procedure procedure, struct xdr_in *in, struct xdr_out *out)
{
	object_t object = get_handle(in);

	if (object)
		answer_by_handle(procedure, object, in, out);
	else if (procedure == NFS3_READDIR)
		list(in, out);
	else
		answer_by_name(procedure, in, out);
}
