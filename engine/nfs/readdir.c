/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/readdir.h"

#include "nfs/nfs4_results.h"

static void get_name(struct xdr_in *in, struct readdir_entry *entry)
{
	entry->length = xdr_get_u32(in);
	xdr_require(in, entry->length && entry->length <= READDIR_NAME_MAX);
	entry->name = (const char *)xdr_skip(in, entry->length);
	if (entry->name)
		xdr_require(in, !memchr(entry->name, '/', entry->length) &&
					!memchr(entry->name, '\0', entry->length));
}

static void get_entry(struct xdr_in *in, bool nfs4, struct readdir_entry *entry)
{
	if (nfs4) {
		entry->cookie = xdr_get_u64(in);
		get_name(in, entry);
		get_bitmap(in); /* of attributes: none are asked for, but a server may send some */
		skip_opaque(in);
	} else {
		xdr_get_u64(in); /* fileid */
		get_name(in, entry);
		entry->cookie = xdr_get_u64(in);
	}
}

void readdir_decode(struct xdr_in *in, bool nfs4, struct readdir_page *page)
{
	struct readdir_entry entry;

	memset(page, 0, sizeof(*page));
	page->nfs4 = nfs4;
	page->verifier = xdr_skip(in, LISTING_VERIFIER);
	page->entries = in->at;
	while (xdr_get_bool(in)) {
		get_entry(in, nfs4, &entry);
		page->cookie = entry.cookie;
		page->count++;
	}
	page->end = in->at;
	page->eof = xdr_get_bool(in);
}

bool readdir_next(struct xdr_in *in, const struct readdir_page *page, struct readdir_entry *entry)
{
	if (!xdr_get_bool(in))
		return false;
	get_entry(in, page->nfs4, entry);
	return !in->bad;
}
