/* SPDX-License-Identifier: GPL-2.0-only */
#include "stats/counters.h"

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

static void write_tls(FILE *out, const struct transport_counters *transport)
{
	line_string(out, "cipher", transport->cipher);
	line_number(out, "ktls", transport->ktls);
	line_number(out, "handshakes", transport->handshakes);
	fprintf(out, "\"handshake_mean_us\": %.3f, ",
		microseconds(transport->handshake_time) / (double)transport->handshakes);
}

static void write_kerberos(FILE *out, const struct security_counters *security)
{
	line_string(out, "enctype", security->enctype);
	line_number(out, "contexts", security->contexts);
	fprintf(out, "\"context_mean_us\": %.3f, ",
		security->contexts
			? microseconds(security->context_time) / (double)security->contexts
			: 0.0);
}

/* CPU time of encryption and checksums, by TLS and Kerberos; kTLS spends it in system calls. */
static void write_crypto(FILE *out, const struct counters *counters,
			 const struct transport_counters *transport)
{
	uint64_t total = transport->crypto.total + counters->security.crypto.total;

	if (counters->security.enctype || (transport->handshakes && !transport->ktls))
		fprintf(out, "\"crypto_ms\": %.3f, ", microseconds(total) / 1e3);
}

static void write_client(FILE *out, const struct client_label *client,
			 const struct outages *outages)
{
	line_number(out, "client", client->number);
	if (*client->name)
		line_string(out, "client_name", client->name);
	outages_write(out, outages);
}

static void write_label(FILE *out, const struct counters_label *label)
{
	line_number(out, "connection", label->connection);
	line_string(out, "path", label->path);
	line_string(out, "local", label->local);
	line_string(out, "remote", label->remote);
	line_string(out, "transport", label->transport);
	if (label->sec)
		line_string(out, "sec", label->sec);
	if (label->xprtsec)
		line_string(out, "xprtsec", label->xprtsec);
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

static void write_spans(FILE *out, const struct latency *latency,
			const struct latency_percentile *percentiles)
{
	if (latency->lag.count)
		latency_write(out, "lag_", &latency->lag, percentiles);
	latency_write(out, "wait_", &latency->wait, percentiles);
	latency_write(out, "rtt_", &latency->rtt, percentiles);
	if (latency->response) {
		latency_write(out, "service_", &latency->response->service, percentiles);
		latency_write(out, "wake_up_", &latency->response->wake_up, percentiles);
	}
}

void counters_write(FILE *out, const struct line_job *job, const struct counters_label *label,
		    const struct counters *counters, const struct transport_counters *transport,
		    const struct latency *latency)
{
	line_begin(out, NULL, job);
	write_label(out, label);
	if (label->client)
		write_client(out, label->client, &counters->outages);
	if (transport->handshakes)
		write_tls(out, transport);
	if (counters->security.enctype)
		write_kerberos(out, &counters->security);
	write_crypto(out, counters, transport);
	write_done(out, counters);
	write_transport(out, transport);
	if (!strcmp(label->transport, "rdma"))
		write_rdma(out, transport);
	write_trouble(out, counters);
	write_spans(out, latency, label->client ? latency_client_percentiles : latency_percentiles);
	line_end(out);
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
