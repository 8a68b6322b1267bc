/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * files.h - files that exist in name only: a name, a kind and a size. Their data is nowhere.
 *
 * A file is its number, 0 being the export's root. Any name that is looked up exists, so that read
 * jobs need no layout; FILE_ANY is there from the start. Safe for use by several threads.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { FILES_MAX = 4096, FILE_ROOT = 0, FILE_ANY = 1, FILE_NAME_MAX = 255 };

/* `size`: what a file has that was not created but looked up. */
void files_init(uint64_t size);

/* The number of the file `name` in `directory`, made where it is not there; -1: no more room. */
int files_lookup(uint32_t directory, const char *name, uint32_t length);

/* As files_lookup(), but a new file is empty, and *made says whether it is new. */
int files_create(uint32_t directory, const char *name, uint32_t length, bool is_directory,
		 bool *made);

void files_remove(uint32_t directory, const char *name, uint32_t length);

bool files_exist(uint32_t file);
bool files_is_directory(uint32_t file);
uint64_t files_size(uint32_t file);
void files_set_size(uint32_t file, uint64_t size);
/* Data was written up to `end`. */
void files_grow(uint32_t file, uint64_t end);
