/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job.h - a simulated job: fio's I/Os by the engine's fio/job_io.c, over random paths on random
 * terms. What they do and what must hold of that is a workload's; that each completes once, in
 * time, and with an error that the job's terms allow, is checked here.
 */
#pragma once

#include "wait.h"
#include "fio/job.h"
#include "group/path.h"
#include "server.h"

enum { DEPTH_MAX = 32, PATHS_MAX = 3 };
/* Bytes of an I/O, and of the least that rsize, wsize and stripes cut from it. */
enum { IO_MAX = 4096, PIECE_MIN = 256 };
enum { JOB_PIECES_MAX = 2 * IO_MAX / PIECE_MIN + 1 /* of an I/O: stripes cut as well */ };

/* What I/Os do: `number` is an I/O's, below the job's depth. */
struct workload {
	/* What it has for each job. */
	void (*begin)(void);
	/* Chooses what an idle I/O does, and sets its ddir, offset, buffer and length; false:
	 * nothing now. */
	bool (*choose)(uint32_t number, struct io_u *io_u);
	/* It has completed. */
	void (*ended)(uint32_t number, const struct io_u *io_u);
	/* All has healed, and no I/O is left: the job's end. May be NULL. */
	void (*settle)(void);
};
extern const struct workload data_workload, metadata_workload;

/* The longest step of time, unless timeo is long. */
static const uint64_t JOB_TICK = 100 * MSEC;

/* The one that there is. */
struct sim_job {
	/* `decide` NULL: chosen by chance, as are the calls' fates, and each size that is 0. */
	struct scenario terms;
	bool metadata;
	bool full;	       /* writes may find no room */
	bool punctual;	       /* no I/O takes several calls in turn, each of which has its time */
	bool changes;	       /* replies may be changed on their way */
	bool discards;	       /* what is read goes nowhere */
	uint32_t client_depth; /* client_depth=, or 0 */
	struct rpc_timing timing;
	const struct workload *workload;
	struct job engine;
	struct thread_data td;
	uint64_t ended;	    /* I/Os */
	uint64_t healed_at; /* 0: things fail */
	uint64_t tick;	    /* the longest step of time */

	/* Its I/Os as fio has them. */
	struct {
		struct io_u io_u;
		bool busy;
		uint64_t begun;
		/* When the oldest I/O began that this one waits for, or it itself; and the losses
		 * of connections before that. */
		uint64_t waits_since, losses;
	} ios[DEPTH_MAX];
};
extern struct sim_job sim_job;

/*
 * Runs the job of a seed; returns how many I/Os have completed. `world` has what they lived
 * through, and what does not hold.
 */
uint64_t job_run(uint64_t seed, uint32_t ios, bool trace);

/* Opens paths, what the workload has of them, and the group, while nothing fails. */
bool job_set_up(const struct server_terms *server_terms);
/* Closes all of it, and ends the world. */
void job_tear_down(void);

/* One round: what there is to do now, or else time passes to what happens next. */
void job_step(void);
uint32_t job_outstanding(void); /* I/Os */

/* Begins one I/O, where an idle one finds something to do. */
void job_begin_any(void);

/* Begins that idle I/O, whose io_u is set. */
void job_begin(uint32_t number);
/* The I/O is of the file of that number. */
void job_set_file(struct io_u *io_u, uint32_t file);

/* From now on nothing fails. */
void job_heal(void);

/* Goes on until no I/O is left: each ends as soon after all has healed as its calls may wait. */
void job_finish(void);

/*
 * --- Kerberos (security.c): the engine's RPCSEC_GSS for each client, by a mechanism whose KDC may
 * be slow, or away for a while. What it promises is checked for each context and reply ---
 */

/* Chosen by a seed for its job, which has no Kerberos in two of three. */
void security_choose(uint64_t seed, struct contexts_terms *terms, struct server_fails *fails);
/* All clients are gone: they have given back what was theirs. */
void security_end(void);

/* Client `own` of a job that is many, from 1: it begins, or (NULL) has ended. */
void job_note_client(uint32_t own, const struct rpc_client *rpc);
