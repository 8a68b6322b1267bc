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
	/* All has healed, and no I/O is left: the job's end. */
	void (*settle)(void);
};
extern const struct workload data_workload, metadata_workload;

struct job_terms {
	bool nfs4, soft, failover, metadata;
	bool trunks;   /* NFSv4.1: one session for all connections */
	bool full;     /* writes may find no room */
	bool punctual; /* no I/O takes several calls in turn, each of which has its time */
	uint32_t depth, path_count, per_path, files;
	uint32_t clients, client_depth; /* nclients= and client_depth=, or 0 */
	uint64_t hold;			/* bytes; 0: none */
	struct rpc_timing timing;
	uint32_t service;		 /* of enum gss_service; 0: AUTH_SYS */
	bool changes;			 /* replies may be changed on their way */
	bool discards;			 /* what is read goes nowhere */
	const struct scenario *scenario; /* NULL: the job's terms are chosen by chance */
};

/* The one that there is. */
struct sim_job {
	struct job_terms terms;
	const struct workload *workload;
	struct job engine;
	struct thread_data td;
	uint64_t ended;	    /* I/Os */
	uint64_t healed_at; /* 0: things fail */
	uint64_t tick;	    /* the longest step of time */
};
extern struct sim_job sim_job;

/*
 * Runs the job of a seed; returns how many I/Os have completed. `world` has what they lived
 * through, and what does not hold.
 */
uint64_t job_run(uint64_t seed, uint32_t ios, bool trace);

/* Opens paths, what the workload has of them, and the group, while nothing fails. */
bool job_set_up(const struct server_terms *server_terms);
/* Sets the engine's part of a scenario's terms (scenario.c). */
void scenario_fill_job(struct job *engine, const struct scenario *scenario);
/* Closes all of it, and ends the world. */
void job_tear_down(void);

/* One round: what there is to do now, or else time passes to what happens next. */
void job_step(void);
uint32_t job_outstanding(void); /* I/Os */

/* Begins one I/O, where an idle one finds something to do. */
void job_begin_any(void);

/* Begins that idle I/O, whose io_u is set. */
void job_begin(uint32_t number);
struct io_u *job_io(uint32_t number);
/* A file of the job by its number: its name, and the file of an I/O. */
const char *job_file(uint32_t number);
void job_set_file(struct io_u *io_u, uint32_t file);

/* From now on nothing fails. */
void job_heal(void);
/* The user is more patient from now on. */
void job_set_timeo(uint64_t timeo);

/* Goes on until no I/O is left: each ends as soon after all has healed as its calls may wait. */
void job_finish(void);

/* --- how long its terms let a call wait: nfs(5)'s rules, stated apart from the engine's timers.h;
 * upper bounds, in nanoseconds (endings.c) --- */

/* "retrans": a soft call fails when timeo, and as much again for each retransmission, is over. */
uint64_t limit_soft(void);

/*
 * "timeo": each copy of a call is waited for by timeo longer than the one before it, at most 600 s.
 * The wait for the latest copy of a call that has had no answer for `unanswered`, while connections
 * were lost so often: each of them may have cost a copy.
 */
uint64_t limit_copy(uint64_t unanswered, uint64_t losses);

/* A call that was asked to come later, by NFS3ERR_JUKEBOX or NFS4ERR_DELAY, waits no longer. */
static const uint64_t LIMIT_DELAY = 5 * SEC;
/* The same, where all calls wait for it. */
static const uint64_t LIMIT_SETUP_DELAY = SEC;

/* Until a connection is there again, and a session: the terms do not say it. */
static const uint64_t LIMIT_CONNECT = 10 * SEC;

/* One job in some ends so. All is healed afterwards. */
void ending_run(void);

/*
 * --- the clients of a job that is many (nclients.c): whatever has failed, each is there again once
 * all has healed, and was served where it had I/O, or its errors are told of. Where there are none,
 * these do nothing ---
 */

/* Client `own`, from 1: it begins, or (NULL) has ended. */
void nclients_note(uint32_t own, const struct rpc_client *rpc);

/* All is lost: a client whose connection is says so, and what to do. */
void nclients_check_causes(void);

/* All has healed, and no I/O is left: goes on until each client is there. */
void nclients_return(void);
