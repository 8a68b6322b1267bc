/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * files.c - nfs-sink's files exist in name only: a name, a kind and a size. Their data is nowhere.
 *
 * Any name that is looked up exists, so that read jobs need no layout; a handle that was not made
 * here stands for a file that is there from the start, so that clients without MOUNT and LOOKUP are
 * served too. The export is the root, and "export" in the root. Safe for use by several threads.
 */
#include "core/files.h"

#include <pthread.h>
#include <stdatomic.h>

#include "sink.h"
#include "util.h"

enum { SINK_MAGIC = 0x73696e6b }; /* in handles */
enum { FILES_MAX = 4096, ROOT = 0, ANY = 1 };
enum { HANDLE_BYTES = 32, HANDLE_WORDS = HANDLE_BYTES / 4 };

static const uint64_t WRITE_VERIFIER = 0x6e66732d73696e6b;
#define LOOKED_UP_SIZE (1ull << 40) /* of a file that was not created */

struct file {
	_Atomic uint64_t size;
	uint32_t parent;
	enum file_type type;
	uint8_t length; /* 0: it was removed, and its number is not given out again */
	char name[FILE_NAME_MAX];
};

static struct file files[FILES_MAX] = {
	[ROOT] = {.type = FILE_DIRECTORY},
	[ANY] = {.type = FILE_REGULAR, .size = LOOKED_UP_SIZE},
};
static _Atomic uint32_t file_count = ANY + 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* --- handles and attributes --- */

uint32_t files_find(const uint8_t *handle, uint32_t length, uint64_t *file)
{
	uint32_t words[2];

	*file = ANY;
	if (length != HANDLE_BYTES)
		return 0;
	memcpy(words, handle, sizeof(words));
	if (words[0] == htobe32(SINK_MAGIC))
		*file = be32toh(words[1]);
	return *file < file_count ? 0 : STATUS_STALE;
}

void files_put_handle(struct xdr_out *out, uint64_t file)
{
	const uint32_t words[HANDLE_WORDS] = {htobe32(SINK_MAGIC), htobe32((uint32_t)file)};

	xdr_put_opaque(out, words, sizeof(words));
}

struct file_attributes files_attributes(uint64_t file)
{
	enum { DIRECTORY_SIZE = 4096 };

	if (files[file].type == FILE_DIRECTORY)
		return (struct file_attributes){.type = FILE_DIRECTORY, .size = DIRECTORY_SIZE};
	return (struct file_attributes){
		.type = FILE_REGULAR,
		.size = atomic_load_explicit(&files[file].size, memory_order_relaxed)};
}

void files_set_size(uint64_t file, uint64_t size)
{
	atomic_store_explicit(&files[file].size, size, memory_order_relaxed);
}

/* --- names --- */

static bool is(struct name name, const char *text, size_t length)
{
	return name.length == length && !memcmp(name.bytes, text, length);
}

static uint64_t find(uint64_t directory, struct name name)
{
	for (uint32_t i = ANY + 1; i < file_count; i++)
		if (files[i].parent == directory && is(name, files[i].name, files[i].length))
			return i;
	return ROOT;
}

/* A file of that name is there then: the one that there is, or a new one of that type and size. */
static uint32_t find_or_add(uint64_t directory, struct name name, enum file_type type,
			    uint64_t size, bool guarded, uint64_t *file)
{
	uint32_t status = 0;

	pthread_mutex_lock(&lock);
	*file = find(directory, name);
	if (*file) {
		status = guarded ? STATUS_EXIST : 0;
	} else if (file_count == FILES_MAX) {
		status = STATUS_NOSPC;
	} else {
		*file = file_count;
		files[*file].parent = (uint32_t)directory;
		files[*file].type = type;
		files[*file].length = (uint8_t)name.length;
		memcpy(files[*file].name, name.bytes, name.length);
		files[*file].size = size;
		file_count++;
	}
	pthread_mutex_unlock(&lock);
	return status;
}

uint32_t files_lookup(uint64_t directory, struct name name, uint64_t *file)
{
	*file = directory;
	if (is(name, ".", 1) || (directory == ROOT && is(name, "export", 6)))
		return 0;
	return find_or_add(directory, name, FILE_REGULAR, LOOKED_UP_SIZE, false, file);
}

uint32_t files_make(uint64_t directory, struct name name, enum file_type type, bool guarded,
		    uint64_t *file)
{
	if (type == FILE_SYMLINK)
		return STATUS_NOTSUPP;
	return find_or_add(directory, name, type, 0, guarded, file);
}

uint32_t files_remove(uint64_t directory, struct name name)
{
	uint64_t file;

	pthread_mutex_lock(&lock);
	file = find(directory, name);
	if (file)
		files[file].length = 0;
	pthread_mutex_unlock(&lock);
	return 0;
}

uint32_t files_rename(uint64_t from, struct name name, uint64_t to, struct name other)
{
	return STATUS_NOTSUPP;
}

uint32_t files_link(uint64_t file, uint64_t directory, struct name name)
{
	return STATUS_NOTSUPP;
}

uint32_t files_list(uint64_t directory, uint64_t first, struct name_page *page)
{
	return STATUS_NOTSUPP;
}

/* --- data --- */

uint32_t files_read(struct front *front, uint64_t file, struct transfer *read)
{
	uint64_t size = files[file].size;
	uint64_t rest = read->offset < size ? size - read->offset : 0;
	uint32_t most = min_of(read->length, (uint32_t)IO_MAX);

	read->length = (uint32_t)min_of(rest, (uint64_t)most);
	read->end = read->length == rest;
	front->counts.read_bytes += read->length;
	return 0;
}

/* The stability asked for is the one promised. */
uint32_t files_write(struct front *front, uint64_t file, struct transfer *write)
{
	uint64_t end = write->offset + write->length, size = files[file].size;

	while (size < end && !atomic_compare_exchange_weak(&files[file].size, &size, end))
		;
	front->counts.write_bytes += write->length;
	write->verifier = WRITE_VERIFIER;
	return 0;
}

uint32_t files_commit(struct front *front, uint64_t file, struct transfer *commit)
{
	commit->verifier = WRITE_VERIFIER;
	return 0;
}
