/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * directory.h - operations on the files below a kernel mount or another directory. No name leads
 * out of the directory, neither by ".." nor by a symbolic link (openat2(2), RESOLVE_BENEATH). All
 * functions return 0 or a negative errno, unless said otherwise, and may block as system calls do.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A descriptor of the directory itself, or a negative errno (-ENOTDIR). */
int directory_open(const char *path);

/* Opens a file with open(2)'s flags: a descriptor, or a negative errno. */
int directory_open_file(int directory, const char *name, int flags);

/*
 * An O_PATH descriptor of the directory `name`; -ELOOP or -ENOTDIR where `name` is a symbolic link.
 * Without `across`: -EXDEV where `name` leads into another mount, even of the same file system.
 */
int directory_enter(int directory, const char *name, bool across);

/* Sets *size for a regular file; -EISDIR or -EINVAL for anything else. */
int directory_size(int directory, const char *name, uint64_t *size);

/*
 * Creates an empty file and the directories above it. *created is false where the name exists: a
 * file stays as it is, and a symbolic link is followed.
 */
int directory_create(int directory, const char *name, bool *created);

/* Removes a file; 0 also where there is none. */
int directory_remove(int directory, const char *name);

/* Drops a file's cached pages: posix_fadvise(2), POSIX_FADV_DONTNEED. */
int directory_drop_cache(int directory, const char *name);
