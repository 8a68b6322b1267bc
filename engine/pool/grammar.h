/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * grammar.h - the parts of a pool's text: list, host, arguments.
 *
 * Each function leaves the scanner behind what it read and returns 0, or -EINVAL or -ENOMEM with
 * the scanner's error filled.
 */
#pragma once

#include "scanner.h"
#include "pool.h"

/* path { "," path }, to the scanner's end. *pool is empty on failure. */
int list_read(struct scanner *list, struct pool *pool);

/* A host's text: `before`, and where it has a range, each of first … last, and `after`. */
struct host {
	struct span before, after;
	bool ranged;
	uint32_t first, last;
	int digits; /* the number's least width: that of `first` as written */
};

/* Stops behind the host: at ':' or the scanner's end. */
int host_read(struct scanner *authority, struct host *host);
unsigned int host_count(const struct host *host); /* saturates above POOL_PATHS_MAX */
/* The host of one number of the range, for the caller to free. */
int host_name(const struct scanner *scanner, const struct host *host, unsigned int index,
	      char **name);

/* An IPv4 address, or an IPv6 address that may end in %zone. */
bool address_is_valid(struct span address);

/* arg { "&" arg }: stops at ',' or the scanner's end. */
int arguments_read(struct scanner *list, struct pool_path *path);

#define PORT_MAX 65535
