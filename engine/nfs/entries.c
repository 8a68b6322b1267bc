/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/entries.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_MAX_BYTES = 4096 };

/* --- directories --- */

static uint64_t own_directory(const struct entries_terms *terms, uint64_t entry)
{
	return terms->depth ? entry / terms->per_directory : 0;
}

uint64_t entries_directories(const struct entries_terms *terms)
{
	return terms->count ? own_directory(terms, terms->count - 1) + 1 : 1;
}

static bool beside(const struct entries_terms *terms, uint64_t entry)
{
	return entry >= terms->count;
}

/* The number of the directory that holds an entry. */
static uint64_t directory_of(const struct entries_terms *terms, uint64_t entry)
{
	return beside(terms, entry) ? (entry - terms->count) % entries_directories(terms)
				    : own_directory(terms, entry);
}

uint64_t entries_beside(const struct entries_terms *terms, uint64_t entry, uint64_t turn)
{
	return terms->count + turn * entries_directories(terms) + own_directory(terms, entry);
}

/* The number of the directory that is `above` levels over directory `number`. */
static uint64_t ancestor(const struct entries_terms *terms, uint64_t number, uint32_t above)
{
	while (above--)
		number /= terms->per_directory;
	return number;
}

/*
 * Calls step() for the directories above directory `number`, from the top down, and for that one,
 * which holds entries. If `number` is not 0, omits those that are also above `number` - 1.
 */
static int step_down(const struct entries_terms *terms, const char *top, uint64_t number,
		     entries_step *step, void *context, struct nfs_handle *found)
{
	char path[PATH_MAX_BYTES];
	int used = snprintf(path, sizeof(path), "%s", top), error = 0;

	if ((size_t)used >= sizeof(path))
		return -ENAMETOOLONG;
	if (!number)
		error = step(context, path, terms->make, found);
	for (uint32_t level = 1; !error && level <= terms->depth; level++) {
		uint32_t above = terms->depth - level;
		uint64_t here = ancestor(terms, number, above);
		bool new = !number || here != ancestor(terms, number - 1, above);

		used += snprintf(path + used, sizeof(path) - (size_t)used, "/d%" PRIx64, here);
		if ((size_t)used >= sizeof(path))
			return -ENAMETOOLONG;
		if (new)
			error = step(context, path, terms->make, found);
	}
	return error;
}

int entries_open(struct entries **out, const struct entries_terms *terms, uint32_t handle_max,
		 const char *top, entries_step *step, void *context)
{
	struct entries *entries = calloc(1, sizeof(*entries));
	uint64_t count = entries_directories(terms);
	int error = 0;

	if (!entries)
		return -ENOMEM;
	entries->terms = *terms;
	entries->handle_max = handle_max;
	entries->top = strdup(top);
	entries->directories = calloc(count, sizeof(*entries->directories));
	entries->handles = calloc(terms->count ?: 1, 1 + handle_max);
	if (!entries->top || !entries->directories || !entries->handles)
		error = -ENOMEM;
	for (uint64_t i = 0; !error && i < count; i++)
		error = step_down(terms, top, i, step, context, &entries->directories[i]);
	if (error)
		entries_close(entries);
	else
		*out = entries;
	return error;
}

void entries_close(struct entries *entries)
{
	if (!entries)
		return;
	free(entries->directories);
	free(entries->handles);
	free(entries->way);
	free(entries->top);
	free(entries);
}

const struct nfs_handle *entries_directory(const struct entries *entries, uint64_t entry)
{
	return &entries->directories[directory_of(&entries->terms, entry)];
}

void entries_note_directory(struct entries *entries, uint64_t entry,
			    const struct nfs_handle *handle)
{
	entries->directories[directory_of(&entries->terms, entry)] = *handle;
}

/*
 * Component *number of a path, where "." does not count. NULL: the path has too few; their number
 * is then subtracted from *number.
 */
static const char *component(const char *path, uint32_t *number, int *length)
{
	for (; *(path += strspn(path, "/")); path += *length) {
		*length = (int)strcspn(path, "/");
		if ((*length != 1 || *path != '.') && !(*number)--)
			return path;
	}
	return NULL;
}

bool entries_way(const struct entries *entries, uint64_t entry, uint32_t number,
		 char name[COMPONENT_MAX])
{
	const struct entries_terms *terms = &entries->terms;
	const char *above_top;
	int length;

	if (!entries->way)
		return false;
	above_top = component(entries->way, &number, &length);
	if (above_top)
		snprintf(name, COMPONENT_MAX, "%.*s", length, above_top);
	else if (number < terms->depth)
		snprintf(name, COMPONENT_MAX, "d%" PRIx64,
			 ancestor(terms, directory_of(terms, entry), terms->depth - 1 - number));
	return above_top || number < terms->depth;
}

/* --- entries --- */

uint32_t entries_name(const struct entries *entries, uint64_t entry, bool other,
		      char name[ENTRY_NAME_MAX])
{
	char kind = other ? 'r' : 'e';

	if (beside(&entries->terms, entry))
		return (uint32_t)snprintf(name, ENTRY_NAME_MAX, "n%012" PRIx64 ".%" PRIx64,
					  entries->terms.run, entry - entries->terms.count);
	if (entries->terms.shared)
		return (uint32_t)snprintf(name, ENTRY_NAME_MAX, "%c%" PRIx64 ".%x", kind, entry,
					  entries->terms.job);
	return (uint32_t)snprintf(name, ENTRY_NAME_MAX, "%c%" PRIx64, kind, entry);
}

bool entries_number(const struct entries *entries, const char *name, uint32_t length,
		    uint64_t *entry, bool *other)
{
	char text[ENTRY_NAME_MAX], same[ENTRY_NAME_MAX];

	if (length < 2 || length >= ENTRY_NAME_MAX)
		return false;
	memcpy(text, name, length);
	text[length] = '\0';
	*other = *text == 'r';
	*entry = strtoull(text + 1, NULL, 16);
	return *entry < entries->terms.count &&
	       entries_name(entries, *entry, *other, same) == length && !strcmp(text, same);
}

void entries_path(const struct entries *entries, uint64_t entry, bool other,
		  char path[ENTRY_PATH_MAX])
{
	const struct entries_terms *terms = &entries->terms;
	uint64_t number = directory_of(terms, entry);

	for (uint32_t above = terms->depth; above--;)
		path += snprintf(path, DIRECTORY_NAME_MAX + 1, "d%" PRIx64 "/",
				 ancestor(terms, number, above));
	entries_name(entries, entry, other, path);
}

static uint8_t *slot_of(const struct entries *entries, uint64_t entry)
{
	return entries->handles + entry * (1 + entries->handle_max);
}

bool entries_handle(const struct entries *entries, uint64_t entry, struct nfs_handle *handle)
{
	const uint8_t *slot = beside(&entries->terms, entry) ? NULL : slot_of(entries, entry);

	handle->length = slot ? *slot : 0;
	if (handle->length)
		memcpy(handle->bytes, slot + 1, handle->length);
	return handle->length;
}

void entries_note(struct entries *entries, uint64_t entry, const struct nfs_handle *handle)
{
	uint32_t length = handle ? handle->length : 0;
	uint8_t *slot;

	if (beside(&entries->terms, entry))
		return;
	slot = slot_of(entries, entry);
	*slot = (uint8_t)length;
	if (length)
		memcpy(slot + 1, handle->bytes, length);
}
