/* SPDX-License-Identifier: GPL-2.0-only */
/* environment.c - the input is a variable that holds pools, and after a '\0' what is wanted of it:
 * a pool's name, or a file. */
#include "expect_pool.h"
#include "refusal.h"

static int find(const char *env, const char *wanted, struct pool *pool, struct pool_error *err)
{
	const char *relative;
	int failed;

	if (*wanted != '/')
		return pool_by_name(env, wanted, pool, err);
	failed = pool_by_file(env, wanted, pool, &relative, err);
	if (!failed)
		expect_relative(relative, wanted);
	return failed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *env = text_of(data, size);
	size_t length = strlen(env), behind = length < size ? length + 1 : size;
	char *wanted = text_of(data + behind, size - behind);
	struct pool pool;
	struct pool_error err;
	int error = find(env, wanted, &pool, &err);

	if (error) {
		/* Where the file is at fault, no place in the variable is. */
		if (*wanted == '/' && error == -EINVAL && !err.column)
			expect_reason(env, &err);
		else
			expect_refusal(error, env, &err);
		expect(!pool.paths && !pool.count);
	} else {
		expect_pool(&pool, env);
		expect(pool_is_name(wanted) || *wanted == '/');
	}
	pool_free(&pool);
	free(wanted);
	free(env);
	return 0;
}
