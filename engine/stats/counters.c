/* SPDX-License-Identifier: GPL-2.0-only */
#include "stats/counters.h"

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
