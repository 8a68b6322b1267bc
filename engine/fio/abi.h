/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * abi.h - checks that the engine was compiled for the fio that loads it.
 *
 * An engine uses fio's own structures. fio changes them between releases without changing
 * FIO_IOOPS_VERSION, which is all that fio itself checks. So the engine compares two symbols that
 * fio exports: its version, and its option table, with each option's offset in struct
 * thread_options.
 */
#pragma once

#include <stddef.h>

#define ABI_WHY_MAX 1024

struct fio_option;

/* The symbols that a fio exports; NULL and 0 where it exports none. */
struct abi_fio {
	const char *version;		  /* fio_version_string */
	const struct fio_option *options; /* fio_options, ended by an entry without a name */
	size_t options_size;		  /* of the whole table, in bytes */
};

/* Looks up the symbols of the fio in this process. */
void abi_running(struct abi_fio *fio);

/* Compares a fio with the headers that the engine was compiled with. Returns NULL when they fit,
 * else `why`, holding one line (no newline) that says what differs. */
const char *abi_compare(const struct abi_fio *fio, char *why, size_t size);

/*
 * Checks the fio of this process. Returns NULL when it can use the engine, else `why` (ABI_WHY_MAX
 * bytes suffice), holding one line (no newline) that says what differs and how to rebuild the
 * engine.
 */
const char *abi_check(char *why, size_t size);
