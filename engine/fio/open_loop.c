/* SPDX-License-Identifier: GPL-2.0-only */
#include "open_loop.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "options.h"

#include "deadline.h"
#include "job_terms.h"
#include "job_log.h"
#include "util.h"

static uint64_t fio_now(void)
{
	struct timespec now;

	fio_gettime(&now, NULL);
	return nanoseconds_of(&now);
}

struct rate {
	const char *option, *text; /* as given; NULL: not given */
	const char *what;
	long long max;
};

static struct rate rate_of(const struct thread_data *td)
{
	const struct terms *eo = td->eo;

	if (eo->arrival_rate)
		return (struct rate){"arrival_rate", eo->arrival_rate, "I/Os", 10000000};
	return (struct rate){"arrival_bw", eo->arrival_bw, "bytes", 1ll << 50};
}

/* The number in `text`, with fio's suffixes as in rate_iops; 0: it is no number. Refuses a rate for
 * each direction ("1,2,3"), which str_to_decimal() would read as 1. */
static long long number_of(const struct thread_data *td, const char *text)
{
	size_t digits = strspn(text, "0123456789");
	long long number;

	if (!digits || digits > 15 || text[digits + strspn(text + digits, "kmgtibKMGTIB")])
		return 0;
	return str_to_decimal(text, &number, 1, (void *)&td->o, 0, 0) ? 0 : number;
}

#define ANY(values) ((values)[DDIR_READ] || (values)[DDIR_WRITE] || (values)[DDIR_TRIM])

static int check_conflicts(const struct thread_data *td, const char *clock)
{
	const struct thread_options *o = &td->o;
	const struct refusal conflicts[] = {
		{ANY(o->rate) || ANY(o->ratemin),
		 "rate and rate_min: fio's rates wait for replies: leave them out; arrival_bw= is "
		 "bytes per second"},
		{ANY(o->rate_iops) || ANY(o->rate_iops_min),
		 "rate_iops and rate_iops_min: fio's rates wait for replies: leave them out"},
		{o->thinktime, "thinktime: the clock goes on while fio pauses, and I/Os are sent "
			       "late: leave it out"},
		{o->flow, "flow: the clock goes on while fio pauses, and I/Os are sent late: leave "
			  "it out"},
		{o->latency_target, "latency_target: it changes iodepth by the service time only: "
				    "leave it out"},
		{o->read_iolog_file, "read_iolog: the log has its own times: leave one out"},
		{o->write_iolog_file,
		 "write_iolog: fio would log each I/O many times: leave it out"},
		{o->verify && td_rw(td),
		 "verify (rw mixed): fio makes a block's header anew each time that it offers the "
		 "write: verify a job that only writes"},
		{!o->iodepth_batch_complete_min, "iodepth_batch_complete_min=0: fio then waits for "
						 "a reply after each I/O: give at least 1"},
		{o->iodepth_low && o->iodepth_low < o->iodepth,
		 "iodepth_low: fio then sends nothing until only iodepth_low I/Os are in flight: "
		 "leave it out"},
		/* gtod_reduce=1 sets disable_lat, too. */
		{o->disable_lat, "disable_lat or gtod_reduce: lat is the latency from the instant "
				 "when an I/O is due: leave it out"},
		{o->disable_slat, "disable_slat: slat is how late I/Os are sent: leave it out"},
	};
	char what[32];

	snprintf(what, sizeof(what), "%s with ", clock);
	return job_refuse(what, conflicts, ARRAY_SIZE(conflicts));
}

/* Logs the options that good figures need and the job lacks, for the first of numjobs= only. */
static void say_missing(const struct thread_data *td, const char *clock)
{
	const struct thread_options *o = &td->o;

	if (td->subjob_number)
		return;
	if (!o->lat_percentiles)
		job_log("%s without lat_percentiles=1: fio's percentiles are of clat, the service "
			"time; those of lat count from when an I/O is due",
			clock);
	if ((o->lat_log_file || o->bw_log_file || o->iops_log_file) && !o->log_avg_msec &&
	    o->log_entries <= DEF_LOG_ENTRIES)
		job_log("%s with a log of each I/O: fio waits for all replies whenever it makes "
			"the log larger: set log_entries=1048576, or log_avg_msec",
			clock);
}

int open_loop_check(const struct thread_data *td)
{
	const struct terms *eo = td->eo;
	const struct rate rate = rate_of(td);
	long long number = rate.text ? number_of(td, rate.text) : 0;

	if (eo->arrival_batch && !(rate.text && eo->rx_timestamps)) {
		job_log("arrival_batch=%u: give arrival_rate= or arrival_bw=, and rx_timestamps=1, "
			"which shows how long replies wait; or leave it out",
			eo->arrival_batch);
		return -EINVAL;
	}
	if (!rate.text)
		return 0;
	if (eo->arrival_rate && eo->arrival_bw) {
		job_log("arrival_rate with arrival_bw: a job has one clock: give one of them");
		return -EINVAL;
	}
	if (number < 1 || number > rate.max) {
		job_log("%s=%s: set it to this job's %s per second, all directions together: "
			"a number from 1 to %lld; without it an I/O is sent when a reply has come",
			rate.option, rate.text, rate.what, rate.max);
		return -EINVAL;
	}
	return check_conflicts(td, rate.option);
}

struct open_loop *open_loop_new(const struct thread_data *td)
{
	const struct terms *eo = td->eo;
	const struct rate rate = rate_of(td);
	const struct arrivals_terms terms = {
		.rate = (double)number_of(td, rate.text),
		.by_bytes = eo->arrival_bw,
		.fixed = eo->arrival_process == ARRIVAL_FIXED,
		/* fio itself uses this seed only for its own rates. */
		.seed = td->rand_seeds[FIO_RAND_POISSON_OFF],
	};
	struct open_loop *open = calloc(1, sizeof(*open) + td->o.iodepth * sizeof(open->ios[0]));

	if (!open)
		return NULL;
	say_missing(td, rate.option);
	open->td = td;
	arrivals_init(&open->arrivals, &terms);
	prctl(PR_SET_TIMERSLACK, 1); /* else each sleep may last 50 µs longer */
	return open;
}

/*
 * fio sets td->start anew for each loop, and for I/O after a verification: then the schedule begins
 * again. At the end of ramp_time fio sets td->epoch as well: then measuring begins.
 */
static void follow_fio(struct open_loop *open, uint64_t now, uint64_t bytes)
{
	uint64_t started = nanoseconds_of(&open->td->start);

	if (started == open->started)
		return;
	if (open->origin && started == nanoseconds_of(&open->td->epoch))
		arrivals_measure(&open->arrivals, started);
	else
		arrivals_begin(&open->arrivals, now, bytes);
	open->origin = open->origin ?: now;
	open->started = started;
}

uint64_t open_loop_left(struct open_loop *open, const struct io_u *io_u)
{
	uint64_t now = fio_now();

	follow_fio(open, now, io_u->xfer_buflen);
	if (!open->over)
		arrivals_look(&open->arrivals, now);
	return arrivals_left(&open->arrivals, now);
}

void open_loop_take(struct open_loop *open, const struct io_u *io_u)
{
	struct open_loop_io *io = &open->ios[io_u->index];

	*io = (struct open_loop_io){0};
	if (!open_loop_schedules(io_u))
		return;
	io->due = arrivals_take(&open->arrivals, io_u->xfer_buflen);
	open->filled = open->td->cur_depth >= open->td->o.iodepth;
}

void open_loop_sent(struct open_loop *open, struct io_u *io_u)
{
	struct open_loop_io *io = &open->ios[io_u->index];
	uint64_t sent = nanoseconds_of(&io_u->issue_time);

	if (!io->due)
		return;
	io->lag = sent - io->due;
	io_u->start_time = (struct timespec){(time_t)(io->due / SEC), (long)(io->due % SEC)};
	arrivals_sent(&open->arrivals, io->due, sent);
}

void open_loop_finished(struct open_loop *open, const struct io_u *io_u)
{
	const struct open_loop_io *io = &open->ios[io_u->index];

	if (io->due)
		arrivals_finished(&open->arrivals, io->due, fio_now());
}

void open_loop_collected(struct open_loop *open)
{
	if (open->filled)
		arrivals_freed(&open->arrivals, fio_now());
	open->filled = false;
}

void open_loop_over(struct open_loop *open)
{
	const struct thread_data *td = open->td;
	uint64_t end =
		td->o.timeout ? nanoseconds_of(&td->epoch) + td->o.timeout * 1000 : UINT64_MAX;

	if (!open->over) /* fio notices the end of the runtime a little late */
		arrivals_look(&open->arrivals, min_of(fio_now(), end));
	open->over = true;
}

/* td->terminate is not enough: fio also sets it where a further loop finds nothing to do. */
void open_loop_end(struct open_loop *open)
{
	if (deadline_runtime_over(open->td))
		open_loop_over(open);
	arrivals_end(&open->arrivals, open->over);
}
