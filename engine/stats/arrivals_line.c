/* SPDX-License-Identifier: GPL-2.0-only */
#include "stats/arrivals_line.h"

#include "stats/json_line.h"
#include "stats/latency.h"

static double per_second(uint64_t count, uint64_t nanoseconds)
{
	return nanoseconds ? (double)count * 1e9 / (double)nanoseconds : 0;
}

static double offered(const struct arrivals *arrivals)
{
	return per_second(arrivals_due(arrivals), arrivals->scheduled);
}

static double achieved(const struct arrivals *arrivals)
{
	return per_second(arrivals->in_time, arrivals->span);
}

/* Of those that were sent. */
static double crowded_share(const struct arrivals *arrivals)
{
	uint64_t sent = arrivals->lag.count;

	return sent ? (double)arrivals->crowded / (double)sent : 0;
}

void arrivals_write(FILE *out, const struct arrivals_label *label, const struct arrivals *arrivals)
{
	fputc('{', out);
	line_string(out, "kind", "arrivals");
	line_string(out, "job", label->job);
	line_number(out, "job_number", label->job_number);
	line_string(out, "process", arrivals->terms.fixed ? "fixed" : "poisson");
	line_number(out, "due", arrivals_due(arrivals));
	line_number(out, "sent", arrivals->lag.count);
	line_number(out, "dropped", arrivals->dropped);
	line_number(out, "in_time", arrivals->in_time);
	fprintf(out, "\"seconds\": %.6f, \"offered\": %.3f, \"achieved\": %.3f, ",
		(double)arrivals->span / 1e9, offered(arrivals), achieved(arrivals));
	fprintf(out, "\"depth_used_up\": %.6f, ", crowded_share(arrivals));
	latency_write(out, "lag_", &arrivals->lag);
	fputs(", ", out);
	fprintf(out, "\"lag_end_us\": %.3f, \"sustained\": %s}\n", microseconds(arrivals->late),
		arrivals_sustained(arrivals) ? "true" : "false");
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
