/* SPDX-License-Identifier: GPL-2.0-only */
/* pool.c - the input is a pool's text, and after a '\0' the name of a file in it. */
#include <arpa/inet.h>
#include <errno.h>

#include "expect_pool.h"
#include "refusal.h"

/* A name service: as many addresses as the host's name has letters, modulo four. */
static int resolve(const char *host, int family, struct sockaddr_storage *addrs, unsigned int max,
		   char *why, size_t why_size)
{
	unsigned int count = strlen(host) % 4;

	if (!count) {
		snprintf(why, why_size, "unknown");
		return -EHOSTUNREACH;
	}
	for (unsigned int i = 0; i < count && i < max; i++) {
		struct sockaddr_in *addr = (struct sockaddr_in *)&addrs[i];

		*addr = (struct sockaddr_in){.sin_family = AF_INET};
		addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK + i);
	}
	return (int)(count < max ? count : max);
}

static void use(struct pool *pool, const char *text, const char *file)
{
	const char *relative;
	struct pool_error err;
	int error = pool_relative_name(pool, file, &relative, &err);

	if (error)
		expect_refusal(error, file, &err);
	else
		expect_relative(relative, file);
	if (pool_resolve(pool, resolve, &err))
		expect_reason(text, &err);
	expect_pool(pool, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = text_of(data, size);
	size_t length = strlen(text), behind = length < size ? length + 1 : size;
	char *file = text_of(data + behind, size - behind);
	struct pool pool;
	struct pool_error err;
	int error = pool_parse(text, &pool, &err);

	if (error) {
		expect_refusal(error, text, &err);
		expect(!pool.paths && !pool.count);
	} else {
		expect_pool(&pool, text);
		use(&pool, text, file);
	}
	pool_free(&pool);
	free(file);
	free(text);
	return 0;
}
