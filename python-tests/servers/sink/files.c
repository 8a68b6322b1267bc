/* SPDX-License-Identifier: GPL-2.0-only */
#include "files.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

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
static uint64_t looked_up_size;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void files_init(uint64_t size)
{
	looked_up_size = size;
	files[FILE_ROOT].is_directory = true;
	files[FILE_ANY].size = size;
	file_count = 2;
}

static int find(uint32_t directory, const char *name, uint32_t length)
{
	for (uint32_t i = FILE_ANY + 1; i < file_count; i++)
		if (!files[i].removed && files[i].parent == directory &&
		    files[i].length == length && !memcmp(files[i].name, name, length))
			return (int)i;
	return -1;
}

static int add(uint32_t directory, const char *name, uint32_t length, bool is_directory,
	       uint64_t size)
{
	uint32_t number = file_count;

	if (number == FILES_MAX || length > FILE_NAME_MAX)
		return -1;
	files[number].parent = directory;
	files[number].is_directory = is_directory;
	files[number].length = (uint8_t)length;
	memcpy(files[number].name, name, length);
	files[number].size = size;
	file_count = number + 1;
	return (int)number;
}

int files_lookup(uint32_t directory, const char *name, uint32_t length)
{
	int number;

	pthread_mutex_lock(&lock);
	number = find(directory, name, length);
	if (number < 0)
		number = add(directory, name, length, false, looked_up_size);
	pthread_mutex_unlock(&lock);
	return number;
}

int files_create(uint32_t directory, const char *name, uint32_t length, bool is_directory,
		 bool *made)
{
	int number;

	pthread_mutex_lock(&lock);
	number = find(directory, name, length);
	*made = number < 0;
	if (number < 0)
		number = add(directory, name, length, is_directory, 0);
	pthread_mutex_unlock(&lock);
	return number;
}

void files_remove(uint32_t directory, const char *name, uint32_t length)
{
	int number;

	pthread_mutex_lock(&lock);
	number = find(directory, name, length);
	if (number > 0)
		files[number].removed = true;
	pthread_mutex_unlock(&lock);
}

bool files_exist(uint32_t file)
{
	return file < file_count;
}

bool files_is_directory(uint32_t file)
{
	return files[file].is_directory;
}

uint64_t files_size(uint32_t file)
{
	return atomic_load_explicit(&files[file].size, memory_order_relaxed);
}

void files_set_size(uint32_t file, uint64_t size)
{
	atomic_store_explicit(&files[file].size, size, memory_order_relaxed);
}

void files_grow(uint32_t file, uint64_t end)
{
	uint64_t size = files_size(file);

	while (size < end && !atomic_compare_exchange_weak(&files[file].size, &size, end))
		;
}
