/* SPDX-License-Identifier: GPL-2.0-only */
#include "own_files.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "util.h"

enum { FILES_MAX = 65536 };

/*
 * Shared with the processes of jobs, and so mapped before the first is forked. Never unmapped: a
 * thread that fio has given up may read it until the process ends. NULL: no memory.
 */
static struct {
	_Atomic uint32_t count;
	_Atomic uint64_t hashes[FILES_MAX];
} * own;

__attribute__((constructor)) static void make(void)
{
	void *memory =
		mmap(NULL, sizeof(*own), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	own = memory == MAP_FAILED ? NULL : memory;
}

/* FNV-1a of a text and its NUL. */
static uint64_t mix(uint64_t hash, const char *text)
{
	do
		hash = (hash ^ (uint8_t)*text) * 0x100000001b3ull;
	while (*text++);
	return hash;
}

static uint64_t hash_of(const struct pool *pool, const char *name)
{
	return mix(mix(0xcbf29ce484222325ull, pool->paths[0].label), name);
}

void own_file_add(const struct pool *pool, const char *name)
{
	uint32_t place = own ? atomic_fetch_add(&own->count, 1) : FILES_MAX;

	if (place < FILES_MAX)
		own->hashes[place] = hash_of(pool, name);
}

bool own_file(const struct pool *pool, const char *name)
{
	uint32_t count = own ? min_of(own->count, (uint32_t)FILES_MAX) : 0;
	uint64_t hash = hash_of(pool, name);

	for (uint32_t i = 0; i < count; i++)
		if (own->hashes[i] == hash)
			return true;
	return false;
}
