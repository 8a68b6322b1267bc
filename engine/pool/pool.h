/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pool.h - a pool, and the functions that read its text.
 *
 * A pool is a list of paths to the same files. Its grammar is in docs/pools.md and nfsmulti(7):
 *
 *	pool  := path { "," path } | name
 *	path  := "/" absolute directory                               (a kernel mount)
 *	       | "nfs://" host [ ":" port ] "/" export [ "?" arg { "&" arg } ]
 *	host  := name | IPv4 | "[" IPv6 [ ( "%25" | "%" ) zone ] "]"
 *	       | a name or IPv4 address that holds one range "[" first "-" last "]"
 *	arg   := word [ "=" value ]               (the words: terms/table.c)
 *
 * "%2C" and the like encode a character in exports and values; in a directory they are plain text.
 * No path, word or value may be empty, and no path may contain a control character or begin or end
 * with a blank.
 *
 * All functions except pool_find() and pool_getaddrinfo() are pure: no I/O, no environment, no
 * fio. A struct pool owns its strings; pool_free() frees them. A function that fails to read a pool
 * leaves the pool empty.
 */
#pragma once

#include <sys/socket.h>

#include "terms/terms.h"

#define POOL_PATHS_MAX 1024

/*
 * Where and why a text was refused. `column` counts bytes from 1; it is one past the end of the
 * text if something is missing there, and 0 where no place in the text is at fault. `reason` is one
 * line.
 */
struct pool_error {
	size_t column;
	char reason[280];
};

enum path_kind { PATH_MOUNT, PATH_NFS };

struct pool_path {
	enum path_kind kind;
	char *dir;    /* PATH_MOUNT: absolute, no trailing slash unless it is "/" */
	char *host;   /* PATH_NFS: as written, no brackets, range expanded; connect to `addr` */
	char *export; /* PATH_NFS: begins with "/" */
	struct terms terms;	      /* PATH_NFS: those that the path names itself */
	struct sockaddr_storage addr; /* PATH_NFS: valid after pool_resolve(); port 0 */
	socklen_t addr_len;	      /* 0 before pool_resolve() */
	/*
	 * How messages name the path: "/mnt/a", "10.0.0.1:/export", "[fe80::1%eth0]:/export", or
	 * "10.0.0.1:2049:/export" where the path names a port. A path that is given twice has
	 * the same label twice.
	 */
	char *label;
	size_t column; /* where the path begins in the text, for later refusals */
};

struct pool {
	struct pool_path *paths;
	unsigned int count; /* 1 … POOL_PATHS_MAX */
};

/* Reads a list of paths (not a name). Returns 0, or -EINVAL / -ENOMEM with *err. */
int pool_parse(const char *text, struct pool *pool, struct pool_error *err);

/* The first path that is a kernel mount; NULL: there is none. */
const struct pool_path *pool_first_mount(const struct pool *pool);

/* True where the text can only be a pool's name: letters, digits, '_', '-', '.', a letter first. */
bool pool_is_name(const char *text);

/* Where a pool was looked for, and what is wrong there. */
struct pool_search {
	struct pool_place {
		const char *variable; /* of the environment; NULL: the text that was given */
		const char *text;     /* NULL: the variable is not set */
		struct pool_error err;
	} places[2];
	unsigned int first,
		end;	      /* the places to tell of: all if none has the pool, else the last */
	const char *relative; /* `file`, as of pool_relative_name() */
};

/* Writes one line for people; `format` has no newline. */
typedef void pool_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Reads the pool in `text`; if that can only be a name, or is NULL, finds the pool of that name, or
 * of `file`, in the first of NFSMULTI_POOLS and IOTRAP_MOUNT_POOLS that has it. These variables
 * have white space between pools: "name:path,path,... name:path,...". Each name must be well-formed
 * and given once; paths of pools with other names are not read. The pool of `file` (absolute) has
 * the longest mount that holds it, by whole components; if two have that mount, both are refused.
 *
 * Returns 0; -ENOENT where no pool has the name or the mount; or -EINVAL / -ENOMEM. Columns, also
 * those of paths, count in the variable; if `file` itself is refused, the column is 0. A failure is
 * told by `log`, unless that is NULL. `search` may be NULL.
 */
int pool_find(const char *text, const char *file, struct pool *pool, struct pool_search *search,
	      pool_log *log);

/* Tells what is wrong at a place. */
void pool_log_error(pool_log *log, const struct pool_place *place, const struct pool_error *err);

/*
 * Resolves `host`, a name or an address; writes up to `max` IPv4 or IPv6 addresses with port 0 and
 * returns their number, or a negative errno with the resolver's own words in `why`. pool_resolve()
 * gives AF_UNSPEC or AF_INET6 as `family`.
 */
typedef int (*pool_resolver)(const char *host, int family, struct sockaddr_storage *addrs,
			     unsigned int max, char *why, size_t why_size);

/* The C library's resolver. Of a name with IPv4 and IPv6 addresses it returns only the IPv4 ones,
 * unless AF_INET6 is asked for: both families lead to one interface, and would not be two paths. */
int pool_getaddrinfo(const char *host, int family, struct sockaddr_storage *addrs, unsigned int max,
		     char *why, size_t why_size);

/*
 * Gives every NFS path its address. A host with several addresses becomes one path per address, in
 * the resolver's order, where the host's path was; the labels show the address instead of the name.
 * May be called only once. Returns 0, or fills *err and leaves *pool: -EHOSTUNREACH where a host
 * has no address, -EINVAL where the pool grows over POOL_PATHS_MAX, -ENOMEM.
 */
int pool_resolve(struct pool *pool, pool_resolver resolve, struct pool_error *err);

/*
 * A job's file name, relative to the paths of `pool`. A name that lies in a mount (the longest, by
 * whole components) loses the mount's directory; another absolute name loses its leading slashes
 * where the pool has no mount, and is refused where the pool has one. ".." components, empty names
 * (also a mount itself) and names over PATH_MAX are refused. Returns 0 with *relative inside
 * `file`, or -EINVAL with *err, whose column counts in `file`.
 */
int pool_relative_name(const struct pool *pool, const char *file, const char **relative,
		       struct pool_error *err);

void pool_free(struct pool *pool);

/* Addresses in a row, `count` of them, that differ in their last 32 bits. */
struct address_range {
	struct sockaddr_storage first;
	uint32_t count;
};

/*
 * Reads ADDRESS, FIRST-LAST, or PREFIX/LENGTH: all of the prefix but its first and last address,
 * where it has more than two. NULL, or why the text is none of them; range->count is then 0 where
 * it does not begin with an address.
 */
const char *address_range_read(const char *text, size_t length, struct address_range *range);

/* An address as text, without its port: "10.0.0.1", "fe80::1%eth0"; "?" where it is none. */
enum { ADDRESS_TEXT = 64 };
const char *address_text(const struct sockaddr_storage *address, char text[ADDRESS_TEXT]);

/* How many addresses all ranges have, of which there is at least one. */
uint64_t addresses_in(const struct address_range *ranges, uint32_t count);

/* Address number `turn` of all ranges, one behind the other and again from the first one on. */
struct sockaddr_storage address_in_turn(const struct address_range *ranges, uint32_t count,
					uint32_t turn);
