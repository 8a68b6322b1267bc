/* SPDX-License-Identifier: GPL-2.0-only */
/* made.h - entries that a mix of operations has made and not yet removed, the oldest first. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A ring. Of zeros at first. */
struct made {
	uint64_t *entries; /* `size` of them */
	uint64_t first, count, size;
};

/* False: there is no memory to remember it. */
bool made_add(struct made *made, uint64_t entry);

/* False: there is none. */
bool made_take(struct made *made, uint64_t *entry);

void made_free(struct made *made);
