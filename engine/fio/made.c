/* SPDX-License-Identifier: GPL-2.0-only */
#include "made.h"

#include <stdlib.h>

enum { SIZE_FIRST = 1024 };

/* Into twice the room, the oldest in front. */
static bool grow(struct made *made)
{
	uint64_t size = made->size ? 2 * made->size : SIZE_FIRST;
	uint64_t *entries = calloc(size, sizeof(*entries));

	if (!entries)
		return false;
	for (uint64_t i = 0; i < made->count; i++)
		entries[i] = made->entries[(made->first + i) % made->size];
	free(made->entries);
	made->entries = entries;
	made->first = 0;
	made->size = size;
	return true;
}

bool made_add(struct made *made, uint64_t entry)
{
	if (made->count == made->size && !grow(made))
		return false;
	made->entries[(made->first + made->count++) % made->size] = entry;
	return true;
}

bool made_take(struct made *made, uint64_t *entry)
{
	if (!made->count)
		return false;
	*entry = made->entries[made->first];
	made->first = (made->first + 1) % made->size;
	made->count--;
	return true;
}

void made_free(struct made *made)
{
	free(made->entries);
}
