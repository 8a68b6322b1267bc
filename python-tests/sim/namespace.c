/* SPDX-License-Identifier: GPL-2.0-only */
#include "namespace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum { TYPES = 8 };

struct namespace_entry namespace[NAMESPACE_ENTRIES];
static uint64_t made; /* objects */

void namespace_begin(void)
{
	memset(namespace, 0, sizeof(namespace));
	made = 0;
}

/* An object's number, and its type. */
enum meta_type namespace_type(object_t object)
{
	return (enum meta_type)(object % TYPES);
}

bool namespace_has(object_t object)
{
	for (uint32_t i = 0; i < NAMESPACE_ENTRIES; i++)
		if (namespace[i].names[0] == object || namespace[i].names[1] == object)
			return true;
	return false;
}

bool namespace_list(uint64_t number, char name[16])
{
	for (uint32_t i = 0; i < 2 * NAMESPACE_ENTRIES; i++)
		if (namespace[i / 2].names[i % 2] && !number--) {
			snprintf(name, 16, "%c%x", i % 2 ? 'r' : 'e', i / 2);
			return true;
		}
	return false;
}

/* What a name leads to; its entry is *entry. */
static object_t *find(const void *name, uint32_t length, struct namespace_entry **entry)
{
	char text[16] = "";
	unsigned long number;

	if (length < 2 || length >= sizeof(text))
		abort();
	memcpy(text, name, length);
	number = strtoul(text + 1, NULL, 16);
	if (number >= NAMESPACE_ENTRIES || (*text != 'e' && *text != 'r'))
		abort();
	world_tell("server:     %s", text);
	*entry = &namespace[number];
	return &(*entry)->names[*text == 'r'];
}

static void set(object_t *name, object_t object, struct namespace_entry *entry)
{
	*name = object;
	entry->changes++;
}

uint32_t namespace_lookup(const void *name, uint32_t length, object_t *found)
{
	struct namespace_entry *entry;

	*found = *find(name, length, &entry);
	return *found ? 0 : ENOENT;
}

uint32_t namespace_make(const void *name, uint32_t length, enum meta_type type, object_t *object)
{
	struct namespace_entry *entry;
	object_t *at = find(name, length, &entry);

	if (*at)
		return EEXIST;
	set(at, ++made * TYPES + type, entry);
	*object = *at;
	return 0;
}

uint32_t namespace_remove(const void *name, uint32_t length)
{
	struct namespace_entry *entry;
	object_t *at = find(name, length, &entry);

	if (!*at)
		return ENOENT;
	set(at, 0, entry);
	return 0;
}

uint32_t namespace_rename(const void *from, uint32_t from_length, const void *to,
			  uint32_t to_length)
{
	struct namespace_entry *entry;
	object_t *source = find(from, from_length, &entry);
	object_t *target = find(to, to_length, &entry);

	if (!*source)
		return ENOENT;
	if (*source == *target) /* RFC 1813, 3.3.14 */
		return 0;
	set(target, *source, entry);
	*source = 0;
	return 0;
}

uint32_t namespace_link(object_t object, const void *name, uint32_t length)
{
	struct namespace_entry *entry;
	object_t *at = find(name, length, &entry);

	if (*at)
		return EEXIST;
	set(at, object, entry);
	return 0;
}
