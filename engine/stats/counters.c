/* SPDX-License-Identifier: GPL-2.0-only */
#include "stats/counters.h"

#include <math.h>
#include <string.h>

#include "stats/json_line.h"

void counters_add(struct counters *sum, const struct counters *one)
{
	sum->read_ops += one->read_ops;
	sum->read_bytes += one->read_bytes;
	sum->write_ops += one->write_ops;
	sum->write_bytes += one->write_bytes;
	sum->commits += one->commits;
	sum->meta_ops += one->meta_ops;
	sum->lookups += one->lookups;
	sum->rewritten_bytes += one->rewritten_bytes;
	sum->retransmissions += one->retransmissions;
	sum->reconnects += one->reconnects;
	sum->reissues += one->reissues;
	sum->stale_replies += one->stale_replies;
	sum->errors += one->errors;
}

static void write_rdma(FILE *out, const struct transport_counters *transport)
{
	line_number(out, "credits", transport->credits);
	line_number(out, "rnr_errors", transport->rnr_errors);
	line_number(out, "retry_errors", transport->retry_errors);
	line_number(out, "registrations", transport->registrations);
}

static void write_security(FILE *out, const struct security_counters *security,
			   const char *const keys[3])
{
	line_string(out, keys[0], security->algorithm);
	line_number(out, keys[1], security->count);
	fprintf(out, "\"%s\": %.3f, ", keys[2],
		microseconds(security->time) / (double)security->count);
}

static void write_all_security(FILE *out, const struct counters *counters,
			       const struct transport_counters *transport)
{
	static const char *const of_tls[] = {"cipher", "handshakes", "handshake_mean_us"};
	static const char *const of_kerberos[] = {"enctype", "contexts", "context_mean_us"};
	const struct security_counters *tls = &transport->tls, *kerberos = &counters->security;

	if (tls->algorithm) {
		write_security(out, tls, of_tls);
		line_number(out, "ktls", transport->ktls);
	}
	if (kerberos->algorithm)
		write_security(out, kerberos, of_kerberos);
	if (kerberos->algorithm || (tls->algorithm && !transport->ktls)) /* else in system calls */
		fprintf(out, "\"crypto_ms\": %.3f, ",
			microseconds(tls->crypto.total + kerberos->crypto.total) / 1e3);
}

static void write_done(FILE *out, const struct counters *counters)
{
	line_number(out, "read_ops", counters->read_ops);
	line_number(out, "read_bytes", counters->read_bytes);
	line_number(out, "write_ops", counters->write_ops);
	line_number(out, "write_bytes", counters->write_bytes);
	line_number(out, "commits", counters->commits);
	line_number(out, "meta_ops", counters->meta_ops);
	line_number(out, "lookups", counters->lookups);
	line_number(out, "rewritten_bytes", counters->rewritten_bytes);
}

static void write_transport(FILE *out, const struct transport_counters *transport)
{
	line_number(out, "syscalls", transport->syscalls);
	line_number(out, "bytes_sent", transport->bytes_sent);
	line_number(out, "bytes_received", transport->bytes_received);
	line_number(out, "discarded_bytes", transport->bytes_discarded);
	line_number(out, "sends", transport->sends);
	line_number(out, "receives", transport->receives);
}

static void write_trouble(FILE *out, const struct counters *counters)
{
	line_number(out, "retransmissions", counters->retransmissions);
	line_number(out, "reconnects", counters->reconnects);
	line_number(out, "reissues", counters->reissues);
	line_number(out, "stale_replies", counters->stale_replies);
	line_number(out, "errors", counters->errors);
}

void latencies_write(FILE *out, const struct latency *latency,
		     const struct latency_percentile *percentiles)
{
	if (latency->lag.count)
		latency_write(out, "lag_", &latency->lag, percentiles);
	latency_write(out, "wait_", &latency->wait, percentiles);
	latency_write(out, "rtt_", &latency->rtt, percentiles);
	if (latency->stamps) {
		latency_write(out, "service_", &latency->response.service, percentiles);
		latency_write(out, "wake_up_", &latency->response.wake_up, percentiles);
	}
}

void counters_write(FILE *out, const struct counters *counters,
		    const struct transport_counters *transport, bool rdma)
{
	write_all_security(out, counters, transport);
	write_done(out, counters);
	write_transport(out, transport);
	if (rdma)
		write_rdma(out, transport);
	write_trouble(out, counters);
}

void counters_write_path(FILE *out, const struct line_job *job, const char *path,
			 const struct counters *sum, double rtt_mean)
{
	line_begin(out, "path", job);
	line_string(out, "path", path);
	write_done(out, sum);
	write_trouble(out, sum);
	fprintf(out, "\"rtt_mean_us\": %.3f, ", rtt_mean / 1e3);
	line_end(out);
}

void operations_write(FILE *out, const struct line_job *job, const char *name, uint64_t span,
		      const struct operations *operations)
{
	const struct histogram *latency = &operations->latency;

	line_begin(out, "operation", job);
	line_string(out, "operation", name);
	line_number(out, "ops", latency->count);
	line_number(out, "errors", operations->errors);
	fprintf(out, "\"iops\": %.3f, ", per_second(latency->count, span));
	latency_write(out, "", latency, latency_percentiles);
	line_end(out);
}

void operations_tell(char line[OPERATIONS_LINE], const char *name, uint64_t span,
		     const struct operations *operations)
{
	const struct histogram *latency = &operations->latency;
	int used = snprintf(
		line, OPERATIONS_LINE,
		"%s: %" PRIu64 " done, %" PRIu64 " errors, IOPS=%.0f, latency (usec): mean=%.1f",
		name, latency->count, operations->errors, per_second(latency->count, span),
		microseconds(histogram_mean(latency)));

	for (const struct latency_percentile *one = latency_percentiles;
	     one->key && used < OPERATIONS_LINE; one++)
		used += snprintf(line + used, OPERATIONS_LINE - (size_t)used, ", p%g=%.1f",
				 one->percent,
				 microseconds(histogram_percentile(latency, one->percent)));
}

/* --- one client's outages --- */

void outages_begin(struct outages *outages, uint64_t now)
{
	outages->begun = now;
	outages->awaited = true;
}

static struct outage *latest(struct outages *outages)
{
	return &outages->kept[(outages->count - 1) % OUTAGES_KEPT];
}

bool outages_over(const struct outages *outages)
{
	return !outages->count || outages_get(outages, outages_kept(outages) - 1)->ended;
}

static void note_end(struct outages *outages, uint64_t now)
{
	struct outage *outage = latest(outages);

	if (outage->ended)
		return;
	outage->ended = now;
	outages->longest = max_of(outages->longest, now - outage->lost);
}

void outages_up(struct outages *outages, uint64_t now, bool waits)
{
	if (!outages->up && !outages_over(outages)) {
		latest(outages)->back = now;
		if (!waits)
			note_end(outages, now);
	}
	outages->up = true;
}

void outages_lost(struct outages *outages, uint64_t now)
{
	if (!outages->up)
		return;
	outages->up = false;
	if (!outages_over(outages)) {
		latest(outages)->back = 0;
		return;
	}
	outages->count++;
	*latest(outages) = (struct outage){.lost = now};
	outages->awaited = true;
}

void outages_answered(struct outages *outages, uint64_t now)
{
	outages->awaited = false;
	if (!outages->first_io)
		outages->first_io = now;
	if (!outages->count || latest(outages)->answered)
		return;
	latest(outages)->answered = now;
	note_end(outages, now);
}

uint32_t outages_kept(const struct outages *outages)
{
	return min_of(outages->count, (uint32_t)OUTAGES_KEPT);
}

const struct outage *outages_get(const struct outages *outages, uint32_t number)
{
	uint32_t first = outages->count - outages_kept(outages);

	return &outages->kept[(first + number) % OUTAGES_KEPT];
}

static void put_time(FILE *out, uint64_t time)
{
	if (time)
		fprintf(out, "%" PRIu64, time / 1000);
	else
		fputs("null", out);
}

static void write_time(FILE *out, const char *key, uint64_t time)
{
	fprintf(out, "\"%s\": ", key);
	put_time(out, time);
	fputs(", ", out);
}

/* `member`: the offset of one of an outage's times. */
static void write_times(FILE *out, const char *key, const struct outages *outages, size_t member)
{
	fprintf(out, "\"%s\": [", key);
	for (uint32_t i = 0; i < outages_kept(outages); i++) {
		const char *outage = (const char *)outages_get(outages, i);

		fputs(i ? ", " : "", out);
		put_time(out, *(const uint64_t *)(outage + member));
	}
	fputs("], ", out);
}

void outages_write(FILE *out, const struct outages *outages)
{
	write_time(out, "begun_at_us", outages->begun);
	write_time(out, "first_io_at_us", outages->first_io);
	line_number(out, "outages", outages->count);
	write_times(out, "lost_at_us", outages, offsetof(struct outage, lost));
	write_times(out, "back_at_us", outages, offsetof(struct outage, back));
	write_times(out, "answered_at_us", outages, offsetof(struct outage, answered));
	write_times(out, "ended_at_us", outages, offsetof(struct outage, ended));
}

/* --- all clients together --- */

static const uint64_t WITHIN[] = {1 * SEC, 5 * SEC, 10 * SEC, 30 * SEC, 90 * SEC};
enum { WITHINS = sizeof(WITHIN) / sizeof(*WITHIN) };

struct sums {
	uint32_t served;
	uint64_t least, most;				/* operations */
	double sum, squares;				/* of operations */
	const struct client_figures *slowest, *fastest; /* by their p50; NULL: none was served */
	uint32_t away, not_back;	   /* clients that lost their connection; those not back */
	uint32_t within[WITHINS];	   /* clients that were back within that time */
	const struct client_figures *last; /* of those that are back: the slowest; NULL: none is */
};

static double p50(const struct client_figures *client)
{
	return microseconds(histogram_percentile(client->rtt, 50));
}

static void add_operations(struct sums *sums, const struct client_figures *one)
{
	double done = (double)one->operations;

	sums->least = min_of(sums->least, one->operations);
	sums->most = max_of(sums->most, one->operations);
	sums->sum += done;
	sums->squares += done * done;
	if (!one->operations)
		return;
	sums->served++;
	if (!sums->slowest || p50(one) > p50(sums->slowest))
		sums->slowest = one;
	if (!sums->fastest || p50(one) < p50(sums->fastest))
		sums->fastest = one;
}

static void add_outages(struct sums *sums, const struct client_figures *one)
{
	const struct outages *outages = one->outages;
	bool back = outages_over(outages);

	sums->away += outages->count > 0;
	sums->not_back += !back;
	if (!outages->count || !back)
		return;
	for (int n = 0; n < WITHINS; n++)
		sums->within[n] += outages->longest <= WITHIN[n];
	if (!sums->last || outages->longest > sums->last->outages->longest)
		sums->last = one;
}

static void tell_served(char *line, const struct sums *sums, uint32_t count)
{
	int used = snprintf(line, CLIENTS_LINE,
			    "clients: %" PRIu32 " of %" PRIu32 " served, %" PRIu64 " to %" PRIu64
			    " operations each, Jain's index %.4f",
			    sums->served, count, sums->least, sums->most,
			    sums->served ? sums->sum * sums->sum / count / sums->squares : 0);

	if (sums->served)
		snprintf(line + used, (size_t)(CLIENTS_LINE - used),
			 "; p50 (usec): %.1f (client %" PRIu32 ") to %.1f (client %" PRIu32 ")",
			 p50(sums->fastest), sums->fastest->number, p50(sums->slowest),
			 sums->slowest->number);
}

/* Rounded down: 100 % is all of them. */
static double per_cent(uint32_t count, uint32_t all)
{
	return floor(1000.0 * count / all) / 10;
}

static void tell_returns(char *line, const struct sums *sums, uint32_t count)
{
	int used = snprintf(line, CLIENTS_LINE,
			    "clients: %" PRIu32 " of %" PRIu32 " lost their connection; back "
			    "within 1, 5, 10, 30, 90 s: ",
			    sums->away, count);

	for (int n = 0; n < WITHINS; n++)
		used += snprintf(line + used, (size_t)(CLIENTS_LINE - used), "%s%.1f",
				 n ? ", " : "", per_cent(sums->within[n], sums->away));
	used += snprintf(line + used, (size_t)(CLIENTS_LINE - used), " %%");
	if (sums->last)
		used += snprintf(line + used, (size_t)(CLIENTS_LINE - used),
				 "; slowest: client %" PRIu32 " after %.3f s", sums->last->number,
				 (double)sums->last->outages->longest / SEC);
	if (sums->not_back)
		snprintf(line + used, (size_t)(CLIENTS_LINE - used),
			 "; not back: %" PRIu32 " of them", sums->not_back);
}

static bool has_cause(const struct client_figures *client)
{
	return !client->operations || !outages_over(client->outages);
}

/* `other` has a cause. */
static bool is_alike(const struct client_figures *one, const struct client_figures *other)
{
	return has_cause(one) && !one->operations == !other->operations &&
	       !strcmp(one->why, other->why);
}

/* How many clients have the cause of client `at`; 0: none, or an earlier one has counted them. */
static uint32_t count_alike(const struct client_figures *clients, uint32_t count, uint32_t at)
{
	uint32_t alike = 0;

	if (!has_cause(&clients[at])) /* most have none: do not compare each with all others */
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		if (!is_alike(&clients[i], &clients[at]))
			continue;
		if (i < at)
			return 0;
		alike++;
	}
	return alike;
}

void clients_tell(const struct client_figures *clients, uint32_t count,
		  void (*say)(const char *line))
{
	struct sums sums = {.least = UINT64_MAX};
	char line[CLIENTS_LINE];
	bool did_io = false;

	for (uint32_t i = 0; i < count; i++) {
		add_operations(&sums, &clients[i]);
		add_outages(&sums, &clients[i]);
		did_io = did_io || clients[i].operations || clients[i].errors;
	}
	tell_served(line, &sums, count);
	say(line);
	if (did_io && sums.away) {
		tell_returns(line, &sums, count);
		say(line);
	}
	for (uint32_t i = 0; did_io && i < count; i++) {
		uint32_t alike = count_alike(clients, count, i);

		if (!alike)
			continue;
		snprintf(line, CLIENTS_LINE,
			 clients[i].operations ? "clients: %" PRIu32 " not back: %s"
					       : "clients: %" PRIu32 " not served: %s",
			 alike, clients[i].why);
		say(line);
	}
}
