/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * abi.h - is the fio that loads this engine the one it was compiled for?
 *
 * fio hands its structures to an engine as they are, and changes them between releases without
 * changing FIO_IOOPS_VERSION, all that fio itself checks. Two symbols that fio exports tell enough:
 * its version, and its option table with the offset of every option in struct thread_options.
 */
#pragma once

#include <stddef.h>

#define ABI_WHY_MAX 1024

struct fio_option;

/* What a fio says of itself; NULL and 0 for what it does not export. */
struct abi_fio {
	const char *version;		  /* fio_version_string */
	const struct fio_option *options; /* fio_options, ended by an entry without a name */
	size_t options_size;		  /* of the whole table, in bytes */
};

/* Look up what the fio of this process exports. */
void abi_running(struct abi_fio *fio);

/*
 * Compare a fio with the headers the engine was compiled with; reads only its arguments. Returns
 * NULL when they fit, else `why`, holding one line (no newline) that says what differs.
 */
const char *abi_compare(const struct abi_fio *fio, char *why, size_t size);

/*
 * May the fio of this process use the engine? Returns NULL when it may, else `why` (ABI_WHY_MAX
 * bytes suffice), holding one line (no newline) that names both versions and the rebuild command.
 */
const char *abi_check(char *why, size_t size);
