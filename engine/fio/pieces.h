/* SPDX-License-Identifier: GPL-2.0-only */
/* pieces.h - cuts requests into pieces, submits these to the connections, and takes the results.
 * All I/O of a running job passes here: fio's, syncs and replays. Nothing here waits. */
#pragma once

#include "job.h"

/* Makes `request` a COMMIT of `count` files from `file` on, over every path where one is due. */
void pieces_commit(const struct job *job, struct request *request, uint32_t file, uint32_t count);

/* True where the hold has room for the next piece of a request, or the request needs none. */
bool pieces_room(const struct job *job, const struct request *request);

/*
 * Submits the rest of a request, as far as there are idle ios and, for a WRITE, room in the hold.
 * True where all is submitted; if no COMMIT was due, a COMMIT request then has no pieces.
 */
bool pieces_submit(struct job *job, struct request *request);

/* Submits a held extent once more, as a piece of `request`. There must be an idle io. */
void pieces_replay(struct job *job, struct request *request, struct hold_extent *extent);

/* Takes what the connections have finished. Returns the next request that is complete; NULL: none
 * for now. */
struct request *pieces_take(struct job *job);

/* The name of an open file, or NULL: it is not open. */
const char *job_file_name(const struct job *job, uint32_t file);

/* True where two open files of the job are the same file at the server. */
bool job_same_file(const struct job *job, uint32_t a, uint32_t b);
