/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * names_ops.h - what a way to the name space offers: each operation keeps the contract of the
 * function of its name in names.h.
 */
#ifndef NFSMULTI_NAMES_OPS_H
#define NFSMULTI_NAMES_OPS_H

#include "nfs/names.h"

struct names_ops {
	/* On failure `why` says the reason, and there is nothing to close. */
	int (*open)(struct names **names, const struct names_config *config, char *why,
		    size_t why_size);
	void (*close)(struct names *names);
	bool (*alive)(const struct names *names);
	uint16_t (*nfs_port)(const struct names *names);

	/* These set names->error where they fail. */
	int (*size)(struct names *names, const char *name, uint64_t *size);
	int (*lookup)(struct names *names, const char *name, struct nfs3_handle *handle);
	int (*create)(struct names *names, const char *name);
	int (*remove)(struct names *names, const char *name);
	int (*limits)(struct names *names, const struct nfs3_handle *handle,
		      struct nfs3_limits *limits);
};

/* The part of a session that each way begins its own with. */
struct names {
	const struct names_ops *ops;
	char error[256];
};

extern const struct names_ops names_libnfs;
#ifdef HAVE_RDMA
extern const struct names_ops names_rdma;
#endif

#endif
