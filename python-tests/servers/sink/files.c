/* SPDX-License-Identifier: GPL-2.0-only */
#include "service.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "core/files.h"
#include "util.h"

enum { FILES_MAX = 4096, ROOT = 0, ANY = 1 };
enum { HANDLE_BYTES = 32, HANDLE_WORDS = HANDLE_BYTES / 4 };

static const uint64_t WRITE_VERIFIER = 0x6e66732d73696e6b;
static const uint64_t LOOKED_UP_SIZE = 1ull << 40; /* of a file that was not created */

struct file {
	_Atomic uint64_t size;
	uint32_t parent;
	bool is_directory;
	bool removed; /* its number is not given out again */
	uint8_t length;
	char name[FILE_NAME_MAX];
};

static struct file files[FILES_MAX];
static _Atomic uint32_t file_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void files_init(void)
{
	files[ROOT].is_directory = true;
	files[ANY].size = LOOKED_UP_SIZE;
	file_count = 2;
}

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

	if (files[file].is_directory)
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

static uint64_t find(uint64_t directory, struct name name)
{
	for (uint32_t i = ANY + 1; i < file_count; i++)
		if (!files[i].removed && files[i].parent == directory &&
		    files[i].length == name.length &&
		    !memcmp(files[i].name, name.bytes, name.length))
			return i;
	return ROOT;
}

static uint32_t add(uint64_t directory, struct name name, bool is_directory, uint64_t size,
		    uint64_t *file)
{
	uint32_t number = file_count;

	if (number == FILES_MAX)
		return STATUS_NOSPC;
	files[number].parent = (uint32_t)directory;
	files[number].is_directory = is_directory;
	files[number].length = (uint8_t)name.length;
	memcpy(files[number].name, name.bytes, name.length);
	files[number].size = size;
	file_count = number + 1;
	*file = number;
	return 0;
}

static bool is(struct name name, const char *text)
{
	return name.length == strlen(text) && !memcmp(name.bytes, text, name.length);
}

uint32_t files_lookup(uint64_t directory, struct name name, uint64_t *file)
{
	uint32_t status = 0;

	*file = directory;
	if (is(name, ".") || (directory == ROOT && is(name, "export")))
		return 0;
	pthread_mutex_lock(&lock);
	*file = find(directory, name);
	if (!*file)
		status = add(directory, name, false, LOOKED_UP_SIZE, file);
	pthread_mutex_unlock(&lock);
	return status;
}

uint32_t files_make(uint64_t directory, struct name name, enum file_type type, bool guarded,
		    uint64_t *file)
{
	uint32_t status;

	if (type == FILE_SYMLINK)
		return STATUS_NOTSUPP;
	pthread_mutex_lock(&lock);
	*file = find(directory, name);
	if (*file)
		status = guarded ? STATUS_EXIST : 0;
	else
		status = add(directory, name, type == FILE_DIRECTORY, 0, file);
	pthread_mutex_unlock(&lock);
	return status;
}

uint32_t files_remove(uint64_t directory, struct name name)
{
	uint64_t file;

	pthread_mutex_lock(&lock);
	file = find(directory, name);
	if (file)
		files[file].removed = true;
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
	uint64_t size = files_attributes(file).size;
	uint64_t rest = read->offset < size ? size - read->offset : 0;
	uint32_t most = min_of(read->length, front->limits.read_max);

	read->length = (uint32_t)min_of(rest, (uint64_t)most);
	read->end = read->length == rest;
	front->counts->read_bytes += read->length;
	return 0;
}

/* The stability asked for is the one promised. */
uint32_t files_write(struct front *front, uint64_t file, struct transfer *write)
{
	uint64_t end = write->offset + write->length, size = files[file].size;

	while (size < end && !atomic_compare_exchange_weak(&files[file].size, &size, end))
		;
	front->counts->write_bytes += write->length;
	write->verifier = WRITE_VERIFIER;
	return 0;
}

uint32_t files_commit(struct front *front, uint64_t file, struct transfer *commit)
{
	commit->verifier = WRITE_VERIFIER;
	return 0;
}
