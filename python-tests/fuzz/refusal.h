/* SPDX-License-Identifier: GPL-2.0-only */
/* refusal.h - what holds for each text that is no pool, and for a name within one (pool.h). */
#ifndef NFSMULTI_FUZZ_REFUSAL_H
#define NFSMULTI_FUZZ_REFUSAL_H

#include <errno.h>
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

static inline void expect_reason(const char *text, const struct pool_error *err)
{
	expect(err->column <= strlen(text) + 1);
	expect(*err->reason);
	expect(memchr(err->reason, '\0', sizeof(err->reason)));
	expect(!strpbrk(err->reason, "\r\n\t\x1b\x7f"));
}

/* What is wrong in the text has a place there. */
static inline void expect_refusal(int error, const char *text, const struct pool_error *err)
{
	expect(error == -ENOENT || (error == -EINVAL && err->column));
	expect_reason(text, err);
}

/* It is the end of `file`, and leads nowhere else. */
static inline void expect_relative(const char *relative, const char *file)
{
	expect(relative >= file && relative < file + strlen(file) && *relative != '/');
	for (const char *part = relative; part; part = strchr(part, '/')) {
		part += *part == '/';
		expect(strncmp(part, "..", 2) || (part[2] && part[2] != '/'));
	}
}

#endif
