/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/readdir.h"

enum { BITMAP_WORDS_MAX = 8, ATTRIBUTES_MAX = 1024 }; /* our limits: no attributes are asked for */

static bool get_name(struct xdr_in *in, struct readdir_entry *entry)
{
	entry->length = xdr_get_u32(in);
	if (in->bad)
		return true;
	if (!entry->length || entry->length > READDIR_NAME_MAX)
		return false;
	entry->name = (const char *)xdr_skip(in, entry->length);
	return !entry->name || (!memchr(entry->name, '/', entry->length) &&
				!memchr(entry->name, '\0', entry->length));
}

/* fattr4: READDIR asks for no attributes, but a server may send some. */
static bool skip_attributes(struct xdr_in *in)
{
	uint32_t words = xdr_get_u32(in), length;

	if (words > BITMAP_WORDS_MAX)
		return false;
	xdr_skip(in, words * sizeof(uint32_t));
	length = xdr_get_u32(in);
	if (length > ATTRIBUTES_MAX)
		return false;
	xdr_skip(in, length);
	return true;
}

/* Reads an entry. False: it breaks the protocol. */
static bool get_entry(struct xdr_in *in, bool nfs4, struct readdir_entry *entry)
{
	if (nfs4) {
		entry->cookie = xdr_get_u64(in);
		return get_name(in, entry) && skip_attributes(in);
	}
	xdr_get_u64(in); /* fileid */
	if (!get_name(in, entry))
		return false;
	entry->cookie = xdr_get_u64(in);
	return true;
}

/* Reads one bool: before an entry, after the last entry, or eof. False: neither 0 nor 1. */
static bool get_flag(struct xdr_in *in, bool *flag)
{
	uint32_t value = xdr_get_u32(in);

	*flag = value;
	return value <= 1;
}

static bool decode(struct xdr_in *in, bool nfs4, struct readdir_page *page)
{
	struct readdir_entry entry;
	bool follows;

	page->verifier = xdr_skip(in, LISTING_VERIFIER);
	page->entries = in->at;
	for (;;) {
		if (!get_flag(in, &follows))
			return false;
		if (in->bad || !follows)
			break;
		if (!get_entry(in, nfs4, &entry))
			return false;
		page->cookie = entry.cookie;
		page->count++;
	}
	page->end = in->at;
	return get_flag(in, &page->eof);
}

bool readdir_decode(struct xdr_in *in, bool nfs4, struct readdir_page *page)
{
	bool sound;

	memset(page, 0, sizeof(*page));
	sound = decode(in, nfs4, page);
	if (!sound || in->bad)
		memset(page, 0, sizeof(*page));
	else
		page->nfs4 = nfs4;
	return sound;
}

bool readdir_next(struct xdr_in *in, const struct readdir_page *page, struct readdir_entry *entry)
{
	bool follows;

	return get_flag(in, &follows) && follows && !in->bad && get_entry(in, page->nfs4, entry) &&
	       !in->bad;
}
