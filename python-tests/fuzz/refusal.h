/* SPDX-License-Identifier: GPL-2.0-only */
/* refusal.h - what holds for each text that is no pool (pool.h). */
#ifndef NFSMULTI_FUZZ_REFUSAL_H
#define NFSMULTI_FUZZ_REFUSAL_H

#include <string.h>

#include "fuzz.h"
#include "pool/pool.h"

/* The text that begins with the bytes and ends with them or the first '\0', for the caller to free.
 */
static inline char *text_of(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);

	if (!text)
		abort();
	return text;
}

static inline void expect_refusal(const char *text, const struct pool_error *err)
{
	expect(err->column <= strlen(text) + 1);
	expect(*err->reason);
	expect(memchr(err->reason, '\0', sizeof(err->reason)));
	expect(!strpbrk(err->reason, "\r\n"));
}

#endif
