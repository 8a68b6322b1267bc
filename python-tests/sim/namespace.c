/* SPDX-License-Identifier: GPL-2.0-only */
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"
#include "world.h"

/* Those below TYPES are no objects of the directory. */
enum { TYPES = 8, ROOT = 0, DIRECTORY = 1, FILES = 2 };

static const char *const handles[FILES + SERVER_FILES_MAX] = {
	[ROOT] = "/",	      [DIRECTORY] = "dir",  [FILES] = SERVER_HANDLE,
	[FILES + 1] = "fil1", [FILES + 2] = "fil2", [FILES + 3] = "fil3"};

struct namespace_entry namespace[NAMESPACE_ENTRIES];
static uint64_t made; /* objects */

void namespace_begin(void)
{
	memset(namespace, 0, sizeof(namespace));
	made = 0;
}

/* --- handles and attributes --- */

uint32_t namespace_file(object_t object)
{
	return object >= FILES && object < ARRAY_SIZE(handles) ? (uint32_t)object - FILES : 0;
}

/* "file", "file1" and so on. */
static object_t file_named(struct name name)
{
	return FILES + (name.length > 4 ? name.bytes[4] - '0' : 0) % SERVER_FILES_MAX;
}

static bool has_name(object_t object)
{
	for (uint32_t i = 0; i < NAMESPACE_ENTRIES; i++)
		if (namespace[i].names[0] == object || namespace[i].names[1] == object)
			return true;
	return false;
}

uint32_t files_find(const uint8_t *handle, uint32_t length, object_t *file)
{
	for (*file = 0; *file < ARRAY_SIZE(handles); ++*file)
		if (length == strlen(handles[*file]) && !memcmp(handle, handles[*file], length))
			return 0;
	if (length != sizeof(*file))
		return STATUS_STALE;
	memcpy(file, handle, length);
	return *file >= TYPES && has_name(*file) ? 0 : STATUS_STALE;
}

void files_put_handle(struct xdr_out *out, object_t file)
{
	if (file < ARRAY_SIZE(handles))
		xdr_put_opaque(out, handles[file], (uint32_t)strlen(handles[file]));
	else
		xdr_put_opaque(out, &file, sizeof(file));
}

/* An object's number says its type. */
struct file_attributes files_attributes(object_t file)
{
	enum file_type type = file < FILES ? FILE_DIRECTORY : FILE_REGULAR;

	if (file >= ARRAY_SIZE(handles))
		type = (enum file_type)(file % TYPES);
	return (struct file_attributes){.type = type, .size = server.size};
}

void files_set_size(object_t file, uint64_t size)
{
}

/* --- names --- */

/* What a name leads to; its entry is *entry. */
static object_t *find(struct name name, struct namespace_entry **entry)
{
	char text[16] = "";
	unsigned long number;

	if (name.length < 2 || name.length >= sizeof(text))
		abort();
	memcpy(text, name.bytes, name.length);
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

uint32_t files_lookup(object_t directory, struct name name, object_t *found)
{
	struct namespace_entry *entry;

	if (directory == DIRECTORY)
		*found = *find(name, &entry);
	else
		*found = *name.bytes == 'd' ? DIRECTORY : file_named(name);
	return *found ? 0 : (uint32_t)STATUS_NOENT;
}

uint32_t files_make(object_t directory, struct name name, enum file_type type, bool guarded,
		    object_t *file)
{
	struct namespace_entry *entry;
	object_t *at;

	*file = file_named(name);
	if (directory != DIRECTORY)
		return 0;
	at = find(name, &entry);
	if (*at)
		return STATUS_EXIST;
	set(at, ++made * TYPES + type, entry);
	*file = *at;
	return 0;
}

uint32_t files_remove(object_t directory, struct name name)
{
	struct namespace_entry *entry;
	object_t *at = find(name, &entry);

	if (!*at)
		return STATUS_NOENT;
	set(at, 0, entry);
	return 0;
}

uint32_t files_rename(object_t from, struct name name, object_t to, struct name other)
{
	struct namespace_entry *entry;
	object_t *source = find(name, &entry);
	object_t *target = find(other, &entry);

	if (!*source)
		return STATUS_NOENT;
	if (*source == *target) /* RFC 1813, 3.3.14 */
		return 0;
	set(target, *source, entry);
	*source = 0;
	return 0;
}

uint32_t files_link(object_t file, object_t directory, struct name name)
{
	struct namespace_entry *entry;
	object_t *at = find(name, &entry);

	if (*at)
		return STATUS_EXIST;
	set(at, file, entry);
	return 0;
}

/* Name `number` of all that there are, from 0; false: there are fewer. */
static bool list(uint64_t number, char *name)
{
	for (uint32_t i = 0; i < 2 * NAMESPACE_ENTRIES; i++)
		if (namespace[i / 2].names[i % 2] && !number--) {
			snprintf(name, 16, "%c%x", i % 2 ? 'r' : 'e', i / 2);
			return true;
		}
	return false;
}

uint32_t files_list(object_t directory, uint64_t first, struct name_page *page)
{
	uint64_t most = 1 + world_random(PAGE_NAMES);
	char unused[16];

	page->count = 0;
	while (page->count < most && list(first + page->count, page->names[page->count]))
		page->count++;
	page->end = !list(first + page->count, unused);
	return 0;
}
