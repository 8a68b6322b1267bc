/* SPDX-License-Identifier: GPL-2.0-only */
/* page.h - what holds for each page of a directory that was decoded (readdir.h). */
#ifndef NFSMULTI_FUZZ_PAGE_H
#define NFSMULTI_FUZZ_PAGE_H

#include "fuzz.h"
#include "nfs/readdir.h"

/* What is read again is what was counted. */
static inline void expect_page(const struct readdir_page *page)
{
	struct xdr_in in = {page->entries, page->end, false};
	struct readdir_entry entry = {0};
	uint32_t count = 0;

	while (readdir_next(&in, page, &entry)) {
		expect(entry.length && entry.length <= READDIR_NAME_MAX);
		count++;
	}
	expect(count == page->count && entry.cookie == page->cookie && !in.bad);
}

#endif
