/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/names_ops.h"

int names_open(struct names **names, const struct names_config *config, char *why, size_t why_size)
{
#ifdef HAVE_RDMA
	if (config->rdma)
		return names_rdma.open(names, config, why, why_size);
#endif
	return names_libnfs.open(names, config, why, why_size);
}

void names_close(struct names *names)
{
	if (names)
		names->ops->close(names);
}

bool names_alive(const struct names *names)
{
	return names->ops->alive(names);
}

const char *names_error(const struct names *names)
{
	return names->error;
}

uint16_t names_nfs_port(const struct names *names)
{
	return names->ops->nfs_port(names);
}

int names_size(struct names *names, const char *name, uint64_t *size)
{
	return names->ops->size(names, name, size);
}

int names_lookup(struct names *names, const char *name, struct nfs3_handle *handle)
{
	return names->ops->lookup(names, name, handle);
}

int names_create(struct names *names, const char *name)
{
	return names->ops->create(names, name);
}

int names_remove(struct names *names, const char *name)
{
	return names->ops->remove(names, name);
}

int names_limits(struct names *names, const struct nfs3_handle *handle, struct nfs3_limits *limits)
{
	return names->ops->limits(names, handle, limits);
}
