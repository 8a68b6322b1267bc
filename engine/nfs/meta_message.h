/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * meta_message.h - what the messages of a metadata operation say: the same in NFSv3 and NFSv4, but
 * for what is said to be of one of them.
 */
#pragma once

#include "nfs/meta.h"
#include "nfs/entries.h"
#include "nfs/readdir.h"

struct meta_arguments {
	enum meta_op op;
	struct nfs_handle handle;	    /* where meta_by_handle(): the entry's */
	const struct nfs_handle *directory; /* that holds it */
	char name[COMPONENT_MAX];	    /* the entry's there, where it is not named by handle */
	char other[ENTRY_NAME_MAX];	    /* META_RENAME, META_LINK: the new one */
	const struct listing *listing;	    /* META_READDIR: where it goes on */
	uint32_t bytes;			    /* META_READDIR: results have at most so many */

	/* NFSv3 */
	bool exclusive;	   /* META_CREATE: by a verifier, without attributes */
	uint64_t verifier; /* of `exclusive`: no other create has it */
	bool made;	   /* META_SETATTR: of a file that was made so */

	/* NFSv4: META_OPEN, META_CREATE. */
	uint64_t client;       /* the client ID */
	const void *owner;     /* of the open, owner_length bytes: */
	uint32_t owner_length; /* calls under way at once want different ones */
	bool closes;	       /* CLOSE is to follow */
};

struct meta_result {
	struct nfs_handle found;       /* of what was looked up or made; of length 0: not told */
	struct meta_kind kind;	       /* GETATTR; LOOKUP, where the server tells it */
	struct readdir_page page;      /* READDIR */
	struct meta_identity identity; /* GETATTR */
	uint32_t access;	       /* ACCESS: of enum meta_access */
	struct meta_room room;	       /* FSSTAT */
	struct meta_limits limits;     /* FSINFO, ROOT */
};
