/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * files.h - names, files and their data, which each front has: all of these are a front's. Those
 * that return a number return 0 or an nfsstat3 that nfsstat4 has as well.
 */
#pragma once

#include "core/call.h"

/* A function of the front's, or Python's: then it is a pointer, which Python sets. */
#ifdef FILES_ARE_PYTHONS
#define FILES(type, name) extern type(*name)
#else
#define FILES(type, name) type name
#endif

enum { FILE_NAME_MAX = 255 };
enum file_type { FILE_REGULAR = 1, FILE_DIRECTORY = 2, FILE_SYMLINK = 5 };

struct file_attributes {
	enum file_type type;
	uint64_t size, file_system;
};

#define NO_FILE UINT64_MAX

/* A file is a number, 0 the root. STALE: the handle is none of a file that is there. */
FILES(uint32_t, files_find)(const uint8_t *handle, uint32_t length, uint64_t *file);
void files_put_handle(struct xdr_out *out, uint64_t file);
FILES(struct file_attributes, files_attributes)(uint64_t file);
FILES(void, files_set_size)(uint64_t file, uint64_t size);

FILES(uint32_t, files_lookup)(uint64_t directory, struct name name, uint64_t *file);
/* EXIST where there is one of that name, always if `guarded` or no regular file is to be made. */
FILES(uint32_t, files_make)
(uint64_t directory, struct name name, enum file_type type, bool guarded, uint64_t *file);
FILES(uint32_t, files_remove)(uint64_t directory, struct name name);
FILES(uint32_t, files_rename)(uint64_t from, struct name name, uint64_t to, struct name other);
FILES(uint32_t, files_link)(uint64_t file, uint64_t directory, struct name name);

/* Names from number `first` on, as many as the front likes; its cookies may be odd. */
enum { PAGE_NAMES = 16 };
enum { FIRST_COOKIE = 3 }; /* those below mean something else (RFC 8881, 18.23.3) */
struct name_page {
	uint64_t cookie, step; /* of the first name, and up to the next one's */
	uint64_t verifier;     /* of the cookies: at first the client's */
	uint32_t count;
	bool end; /* there are no more */
	char names[PAGE_NAMES][FILE_NAME_MAX + 1];
};
FILES(uint32_t, files_list)(uint64_t directory, uint64_t first, struct name_page *page);

/* --- arguments of both versions; not 0 also where they have not come in full --- */

static inline uint32_t get_handle(struct xdr_in *in, uint64_t *file)
{
	uint32_t length = xdr_get_u32(in);
	const uint8_t *bytes = xdr_skip(in, length);

	return bytes ? files_find(bytes, length, file) : (uint32_t)STATUS_STALE;
}

static inline uint32_t get_name(struct xdr_in *in, struct name *name)
{
	name->length = xdr_get_u32(in);
	name->bytes = (const char *)xdr_skip(in, name->length);
	return name->bytes && name->length && name->length <= FILE_NAME_MAX ? 0 : STATUS_INVAL;
}

/* READDIR's cookie and verifier; the page that is behind them. */
static inline struct name_page get_page(struct xdr_in *in, struct arguments *asked)
{
	struct name_page page = {.step = 1};

	asked->offset = xdr_get_u64(in);
	page.cookie = asked->offset ? asked->offset + 1 : FIRST_COOKIE;
	page.verifier = xdr_get_u64(in);
	return page;
}

static inline uint32_t list_page(const struct arguments *asked, struct name_page *page)
{
	return files_list(asked->file, page->cookie - FIRST_COOKIE, page);
}

/* --- data --- */

/* Data that is moved; all but the offset is set to what was done. */
struct transfer {
	uint64_t offset;
	uint32_t length;
	uint32_t stable;     /* WRITE: enum io_stable */
	bool end;	     /* READ: of the file */
	const uint8_t *data; /* READ: see struct nfs_call */
	uint64_t verifier;   /* WRITE and COMMIT */
};

/* READ's and COMMIT's. */
static inline struct transfer get_range(struct xdr_in *in, struct arguments *asked)
{
	uint32_t words[3];

	get_words(in, words, 3);
	asked->offset = (uint64_t)words[0] << 32 | words[1];
	asked->count = words[2];
	return (struct transfer){.offset = asked->offset, .length = asked->count};
}

FILES(uint32_t, files_read)(struct front *front, uint64_t file, struct transfer *read);
/* Its data is next in the call's arguments, perhaps not in full: who wants it steps over it. */
uint32_t files_write(struct front *front, uint64_t file, struct transfer *write);
FILES(uint32_t, files_commit)(struct front *front, uint64_t file, struct transfer *commit);
