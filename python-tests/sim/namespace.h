/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * namespace.h - the simulated server's names (servers/core/files.h): its files, and a directory
 * whose entries have two names each (nfs/entries.h), which may lead to an object. Changes are
 * durable at once.
 */
#pragma once

#include <stdint.h>

enum { NAMESPACE_ENTRIES = 48 };

/* An object, which is its handle as well; 0: none. */
typedef uint64_t object_t;

struct namespace_entry {
	object_t names[2]; /* what its first and its other name lead to */
	uint64_t changes;  /* that were carried out on these */
};
extern struct namespace_entry namespace[NAMESPACE_ENTRIES];

void namespace_begin(void);
/* The number of a file outside the directory, from 0; 0 for any other object. */
uint32_t namespace_file(object_t object);
