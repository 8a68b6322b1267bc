/* SPDX-License-Identifier: GPL-2.0-only */
#include "meta_job.h"

#include <stdlib.h>

#include "metadata.h"

static bool add_kind(struct meta_job *meta, enum meta_op op)
{
	if (!meta->operations[op])
		meta->operations[op] = calloc(1, sizeof(*meta->operations[op]));
	return meta->operations[op];
}

static bool add_kinds(struct meta_job *meta, const struct thread_data *td)
{
	return (!td_read(td) || add_kind(meta, metadata_op(td, DDIR_READ))) &&
	       (!td_write(td) || add_kind(meta, metadata_op(td, DDIR_WRITE)));
}

struct meta_job *meta_job_new(const struct thread_data *td)
{
	struct meta_job *meta = calloc(1, sizeof(*meta));

	if (!meta)
		return NULL;
	meta->requests = calloc(td->o.iodepth, sizeof(*meta->requests));
	if (meta->requests && add_kinds(meta, td))
		return meta;
	meta_job_free(meta);
	return NULL;
}

void meta_job_free(struct meta_job *meta)
{
	if (!meta)
		return;
	for (int op = 0; op < META_OPS; op++)
		free(meta->operations[op]);
	free(meta->requests);
	free(meta);
}

void meta_job_begins(struct meta_job *meta, const struct thread_data *td, const struct io_u *io_u)
{
	meta->requests[io_u->index].op = metadata_op(td, io_u->ddir);
}

void meta_job_issued(struct meta_job *meta, struct io_u *const *io_us, uint32_t count)
{
	if (!meta->begun)
		meta->begun = meta->now;
	for (uint32_t i = 0; i < count; i++)
		meta->requests[io_us[i]->index].begun = meta->now;
}

void meta_job_ends(struct meta_job *meta, const struct io_u *io_u, int error)
{
	const struct meta_request *request = &meta->requests[io_u->index];
	struct operations *operations = meta->operations[request->op];

	meta->ended = meta->now;
	if (error)
		operations->errors++;
	else
		histogram_add(&operations->latency, meta->now - request->begun);
}
