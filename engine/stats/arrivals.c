/* SPDX-License-Identifier: GPL-2.0-only */
#include "stats/arrivals.h"

#include <math.h>

#include "stats/json_line.h"

static const double GROWTH = 0.01; /* responses may grow by this share of the time that passed */

enum {
	FEWEST = 8,    /* I/Os that show a trend */
	LATE_PART = 10 /* sustained: dropped I/O waited for at most 1/LATE_PART of the schedule */
};

/* A number in (0, 1], by SplitMix64 (Steele, Lea, Flood 2014), which takes any seed. */
static double draw(struct arrivals *arrivals)
{
	uint64_t z = arrivals->random += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	z ^= z >> 31;
	return (double)((z >> 11) + 1) * 0x1p-53;
}

/* Mean nanoseconds between two arrivals. */
static double mean_gap(const struct arrivals *arrivals, uint64_t bytes)
{
	return 1e9 / arrivals->terms.rate * (arrivals->terms.by_bytes ? (double)bytes : 1);
}

static void advance(struct arrivals *arrivals, double gap)
{
	double whole;

	arrivals->part = modf(arrivals->part + gap, &whole);
	arrivals->due += (uint64_t)whole;
}

static double exponential(struct arrivals *arrivals)
{
	return -log(draw(arrivals));
}

uint64_t arrivals_take(struct arrivals *arrivals, uint64_t bytes)
{
	uint64_t due = arrivals->due;

	arrivals->taken++;
	arrivals->bytes += bytes;
	advance(arrivals,
		mean_gap(arrivals, bytes) * (arrivals->terms.fixed ? 1 : exponential(arrivals)));
	return due;
}

uint64_t arrivals_left(const struct arrivals *arrivals, uint64_t now)
{
	return arrivals->due > now ? arrivals->due - now : 0;
}

/* Arrivals that are due and not taken, estimated by the mean rate: counting a long backlog would
 * take time. */
static uint64_t backlog(const struct arrivals *arrivals)
{
	uint64_t bytes = arrivals->taken ? arrivals->bytes / arrivals->taken : 1;

	if (arrivals->due > arrivals->seen)
		return 0;
	return 1 + (uint64_t)((double)(arrivals->seen - arrivals->due) / mean_gap(arrivals, bytes));
}

void arrivals_init(struct arrivals *arrivals, const struct arrivals_terms *terms)
{
	*arrivals = (struct arrivals){.terms = *terms, .random = terms->seed};
}

void arrivals_begin(struct arrivals *arrivals, uint64_t now, uint64_t bytes)
{
	/* A whole first gap would make jobs with equal gaps all send at once. */
	double share = arrivals->terms.fixed ? draw(arrivals) : exponential(arrivals);

	arrivals_end(arrivals, false);
	arrivals->running = true;
	arrivals->begun = arrivals->seen = arrivals->due = arrivals->last = now;
	arrivals->part = 0;
	arrivals->trend = (struct arrivals_trend){0};
	advance(arrivals, share * mean_gap(arrivals, bytes));
}

void arrivals_measure(struct arrivals *arrivals, uint64_t now)
{
	arrivals->begun = arrivals->since = arrivals->seen = arrivals->last = now;
	arrivals->span = arrivals->scheduled = arrivals->dropped = 0;
	arrivals->grew = false;
	arrivals->trend = (struct arrivals_trend){0};
	arrivals->crowded = arrivals->finished = 0;
	histogram_free(&arrivals->lag);
}

void arrivals_look(struct arrivals *arrivals, uint64_t now)
{
	arrivals->seen = now;
	arrivals->in_time = arrivals->finished;
}

void arrivals_freed(struct arrivals *arrivals, uint64_t now)
{
	arrivals->freed = now;
}

void arrivals_sent(struct arrivals *arrivals, uint64_t due, uint64_t now)
{
	if (due < arrivals->since)
		return;
	histogram_add(&arrivals->lag, now - due);
	arrivals->crowded += due <= arrivals->freed;
}

void arrivals_finished(struct arrivals *arrivals, uint64_t due, uint64_t now)
{
	double at = (double)due - (double)arrivals->begun, response = (double)(now - due);
	struct arrivals_trend *trend = &arrivals->trend;

	if (due < arrivals->since)
		return;
	arrivals->finished++;
	arrivals->last = now;
	trend->count += 1;
	trend->at += at;
	trend->at_squared += at * at;
	trend->response += response;
	trend->product += at * response;
}

/* True if responses grew, by the slope of the least-squares line. */
static bool responses_grew(const struct arrivals_trend *trend)
{
	double n = trend->count, spread = n * trend->at_squared - trend->at * trend->at;

	if (n < FEWEST)
		return false;
	return n * trend->product - trend->at * trend->response >
	       spread * (GROWTH + 2 / sqrt(n / 2));
}

void arrivals_end(struct arrivals *arrivals, bool cut)
{
	uint64_t dropped = cut ? backlog(arrivals) : 0;

	if (!arrivals->running)
		return;
	if (!cut) {
		arrivals->in_time = arrivals->finished;
		arrivals->seen = arrivals->last;
	}
	if (arrivals->seen > arrivals->begun)
		arrivals->span += arrivals->seen - arrivals->begun;
	arrivals->scheduled += (cut ? arrivals->seen : arrivals->due) - arrivals->begun;
	arrivals->late = dropped ? arrivals->seen - arrivals->due : 0;
	arrivals->dropped += dropped;
	arrivals->grew = arrivals->grew || responses_grew(&arrivals->trend) ||
			 arrivals->late > (arrivals->seen - arrivals->begun) / LATE_PART;
	arrivals->running = false;
}

uint64_t arrivals_due(const struct arrivals *arrivals)
{
	return arrivals->lag.count + arrivals->dropped;
}

bool arrivals_sustained(const struct arrivals *arrivals)
{
	return !arrivals->grew;
}

static double offered(const struct arrivals *arrivals)
{
	return per_second(arrivals_due(arrivals), arrivals->scheduled);
}

static double achieved(const struct arrivals *arrivals)
{
	return per_second(arrivals->in_time, arrivals->span);
}

/* The share of sent I/O that had to wait for the depth. */
static double crowded_share(const struct arrivals *arrivals)
{
	uint64_t sent = arrivals->lag.count;

	return sent ? (double)arrivals->crowded / (double)sent : 0;
}

void arrivals_write(FILE *out, const struct line_job *job, const struct arrivals *arrivals)
{
	line_begin(out, "arrivals", job);
	line_string(out, "process", arrivals->terms.fixed ? "fixed" : "poisson");
	line_number(out, "due", arrivals_due(arrivals));
	line_number(out, "sent", arrivals->lag.count);
	line_number(out, "dropped", arrivals->dropped);
	line_number(out, "in_time", arrivals->in_time);
	fprintf(out, "\"seconds\": %.6f, \"offered\": %.3f, \"achieved\": %.3f, ",
		(double)arrivals->span / 1e9, offered(arrivals), achieved(arrivals));
	fprintf(out, "\"depth_used_up\": %.6f, ", crowded_share(arrivals));
	latency_write(out, "lag_", &arrivals->lag, latency_percentiles);
	fprintf(out, "\"lag_end_us\": %.3f, \"sustained\": %s, ", microseconds(arrivals->late),
		arrivals_sustained(arrivals) ? "true" : "false");
	line_end(out);
}

void arrivals_tell(char line[ARRIVALS_LINE], const struct arrivals *arrivals)
{
	const struct histogram *lag = &arrivals->lag;

	snprintf(line, ARRIVALS_LINE,
		 "arrivals: %s: offered %.1f/s, achieved %.1f/s; %" PRIu64 " due, %" PRIu64
		 " sent, %" PRIu64
		 " dropped; lag (usec): p50=%.1f, p99=%.1f, max=%.1f, at the end=%.1f; %.1f %% "
		 "found iodepth used up",
		 arrivals_sustained(arrivals)
			 ? "sustained"
			 : "not sustained (responses grew all the time: percentiles say nothing)",
		 offered(arrivals), achieved(arrivals), arrivals_due(arrivals), lag->count,
		 arrivals->dropped, microseconds(histogram_percentile(lag, 50)),
		 microseconds(histogram_percentile(lag, 99)), microseconds(lag->max),
		 microseconds(arrivals->late), 100 * crowded_share(arrivals));
}
