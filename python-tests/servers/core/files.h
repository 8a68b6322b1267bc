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
enum {
	STATUS_NOENT = 2,
	STATUS_EXIST = 17,
	STATUS_INVAL = 22,
	STATUS_NOSPC = 28,
	STATUS_STALE = 70,
	STATUS_NOTSUPP = 10004,
	STATUS_DELAY = 10008,
};
enum file_type { FILE_REGULAR = 1, FILE_DIRECTORY = 2, FILE_SYMLINK = 5 };

struct name {
	const char *bytes;
	uint32_t length; /* 1 … FILE_NAME_MAX */
};

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

/*
 * --- what a procedure of NFSv3, or an operation of NFSv4.1, asks for, as far as fronts look at it
 * (arguments.c) ---
 */

struct arguments {
	uint64_t file; /* by its handle, else the current one */
	bool stale;    /* there is none of that handle */
	struct name name;
	uint64_t offset; /* READDIR: the cookie */
	uint32_t count;	 /* READDIR: the bytes of results that the caller takes */
	uint32_t stable; /* enum io_stable */
	uint32_t claim;	 /* OPEN: enum nfs4_claim */
	uint64_t wanted; /* GETATTR: bit N is attribute N */

	/* SEQUENCE's, also for the operations behind it. */
	uint64_t session; /* its number */
	uint32_t sequence, slot, highest;
};

/* `file`: the current one, of NFSv4.1. in->bad: these are no arguments. */
void read_arguments(struct arguments *arguments, uint32_t version, uint32_t number, uint64_t file,
		    struct xdr_in *in);

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
static inline uint32_t get_page(struct xdr_in *in, uint64_t directory, struct name_page *page)
{
	uint64_t cookie = xdr_get_u64(in);

	page->cookie = cookie ? cookie + 1 : FIRST_COOKIE;
	page->step = 1;
	page->verifier = xdr_get_u64(in);
	return in->bad ? 0 : files_list(directory, page->cookie - FIRST_COOKIE, page);
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
FILES(uint32_t, files_read)(struct front *front, uint64_t file, struct transfer *read);
/* Its data is next in the call's arguments, perhaps not in full: who wants it steps over it. */
uint32_t files_write(struct front *front, uint64_t file, struct transfer *write);
FILES(uint32_t, files_commit)(struct front *front, uint64_t file, struct transfer *commit);
