/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * namespace.h - the directory of the simulated server, whatever version of NFS asks: an entry has
 * two names (nfs/entries.h), each of which may lead to an object. Changes are durable at once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "nfs/meta.h"

enum { NAMESPACE_ENTRIES = 48 };

/* An object, which is its handle as well; 0: none. */
typedef uint64_t object_t;

struct namespace_entry {
	object_t names[2]; /* what its first and its other name lead to */
	uint64_t changes;  /* that were carried out on these */
};
extern struct namespace_entry namespace[NAMESPACE_ENTRIES];

void namespace_begin(void);

enum meta_type namespace_type(object_t object);
/* It has a name. */
bool namespace_has(object_t object);
/* Name `number` of all that there are, from 0; false: there are fewer. */
bool namespace_list(uint64_t number, char name[16]);

/* Each returns 0 or an nfsstat3, which nfsstat4 has as well (EEXIST, ENOENT); names are bytes. */
uint32_t namespace_lookup(const void *name, uint32_t length, object_t *found);
uint32_t namespace_make(const void *name, uint32_t length, enum meta_type type, object_t *made);
uint32_t namespace_remove(const void *name, uint32_t length);
uint32_t namespace_rename(const void *from, uint32_t from_length, const void *to,
			  uint32_t to_length);
uint32_t namespace_link(object_t object, const void *name, uint32_t length);
