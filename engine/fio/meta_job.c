/* SPDX-License-Identifier: GPL-2.0-only */
#include "meta_job.h"

#include <stdlib.h>

/* What makes and what removes entries of a kind. */
static const struct {
	enum meta_op make, remove;
} kinds[MADE_KINDS] = {
	[MADE_FILES] = {META_CREATE, META_REMOVE},
	[MADE_DIRECTORIES] = {META_MKDIR, META_RMDIR},
};

static bool kind_of(enum meta_op op, enum made_kind *kind)
{
	*kind = op == kinds[MADE_FILES].make || op == kinds[MADE_FILES].remove ? MADE_FILES
									       : MADE_DIRECTORIES;
	return op == kinds[*kind].make || op == kinds[*kind].remove;
}

/* --- memory --- */

struct meta_job *meta_job_new(const struct thread_data *td, const struct entries_terms *terms)
{
	struct meta_job *meta = calloc(1, sizeof(*meta));

	if (!meta)
		return NULL;
	meta->td = td;
	meta->terms = terms;
	/* A seed of fio's that nothing else draws from: a mix has no trims. */
	init_rand_seed(&meta->random, td->rand_seeds[FIO_RAND_TRIM_OFF], false);
	meta->made = calloc(td->o.nr_files, sizeof(*meta->made));
	if (meta->made && !meta_mix_of(td, &meta->mix))
		return meta;
	meta_job_free(meta);
	return NULL;
}

void meta_job_free(struct meta_job *meta)
{
	if (!meta)
		return;
	for (uint32_t i = 0; meta->made && i < meta->td->o.nr_files; i++)
		for (int kind = 0; kind < MADE_KINDS; kind++)
			made_free(&meta->made[i][kind]);
	free(meta->made);
	free(meta);
}

/* --- what an I/O does --- */

static enum meta_op draw(struct meta_job *meta, enum fio_ddir ddir)
{
	const struct meta_mix *mix = &meta->mix;
	uint32_t sum = ddir == DDIR_READ ? mix->reads : mix->writes;

	return meta_mix_at(mix, ddir, sum > 1 ? rand32_upto(&meta->random, sum - 1) : 0);
}

struct entries_terms meta_job_terms(const struct meta_job *meta, const struct fio_file *f)
{
	struct entries_terms terms = *meta->terms;

	terms.count = (f->file_offset + f->io_size) / meta->td->o.min_bs[DDIR_READ];
	return terms;
}

/*
 * It makes or removes an entry beside the job's: a new one is in the directory of the one that fio
 * has chosen.
 */
static void go_beside(struct meta_job *meta, struct meta_request *request, const struct io_u *io_u,
		      enum made_kind kind)
{
	struct entries_terms terms;

	if (request->op == kinds[kind].remove &&
	    made_take(&meta->made[io_u->file->fileno][kind], &request->entry))
		return;
	meta->made_first += request->op == kinds[kind].remove;
	request->op = kinds[kind].make;
	terms = meta_job_terms(meta, io_u->file);
	request->entry = entries_beside(&terms, request->entry, meta->turn++);
}

void meta_job_begins(struct meta_job *meta, struct meta_request *request, const struct io_u *io_u)
{
	enum made_kind kind;

	request->op = request->removes = draw(meta, io_u->ddir);
	request->entry = io_u->offset / meta->td->o.min_bs[DDIR_READ];
	if (meta->mix.beside && kind_of(request->op, &kind))
		go_beside(meta, request, io_u, kind);
}

void meta_job_issued(struct meta_job *meta, struct meta_request *request, uint64_t now,
		     uint64_t lag)
{
	if (!meta->begun)
		meta->begun = now;
	request->begun = now - lag;
}

/* True where the removal is to follow for which an entry was made. */
static bool note_made(struct meta_job *meta, struct meta_request *request, const struct io_u *io_u)
{
	enum made_kind kind;

	if (!kind_of(request->op, &kind) || request->op != kinds[kind].make)
		return false;
	if (request->removes == request->op) {
		/* Without memory nobody removes it: it is one of those that are left. */
		made_add(&meta->made[io_u->file->fileno][kind], request->entry);
		return false;
	}
	request->op = request->removes;
	request->begun = meta->now;
	return true;
}

bool meta_job_ends(struct meta_job *meta, struct meta_request *request, const struct io_u *io_u,
		   int error)
{
	struct operations *operations = &meta->operations[request->op];

	meta->ended = meta->now;
	if (error) {
		operations->errors++;
		return false;
	}
	histogram_add(&operations->latency, meta->now - request->begun);
	return meta->mix.beside && note_made(meta, request, io_u);
}

/* --- the end --- */

uint64_t meta_job_left(const struct meta_job *meta, enum made_kind kind)
{
	return meta->operations[kinds[kind].make].latency.count -
	       meta->operations[kinds[kind].remove].latency.count;
}
