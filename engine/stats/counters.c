/* SPDX-License-Identifier: GPL-2.0-only */
#include "stats/counters.h"

#include <inttypes.h>
#include <string.h>

/* A JSON string (RFC 8259, 7). Bytes over 0x7e are written as U+0080 … U+00FF: any name stays
 * valid. */
static void write_string(FILE *out, const char *key, const char *text)
{
	fprintf(out, "\"%s\": \"", key);
	for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
		if (*at == '"' || *at == '\\')
			fprintf(out, "\\%c", *at);
		else if (*at < 0x20 || *at > 0x7e)
			fprintf(out, "\\u%04x", *at);
		else
			fputc(*at, out);
	}
	fputs("\", ", out);
}

static void write_number(FILE *out, const char *key, uint64_t value)
{
	fprintf(out, "\"%s\": %" PRIu64 ", ", key, value);
}

static double microseconds(uint64_t nanoseconds)
{
	return (double)nanoseconds / 1000.0;
}

static void write_rdma(FILE *out, const struct transport_counters *transport)
{
	write_number(out, "credits", transport->credits);
	write_number(out, "rnr_errors", transport->rnr_errors);
	write_number(out, "retry_errors", transport->retry_errors);
	write_number(out, "registrations", transport->registrations);
}

void counters_write(FILE *out, const struct counters_label *label, const struct counters *counters,
		    const struct transport_counters *transport)
{
	uint64_t replies = counters->rtt_count ? counters->rtt_count : 1;

	fputc('{', out);
	write_string(out, "job", label->job);
	write_number(out, "job_number", label->job_number);
	write_number(out, "connection", label->connection);
	write_string(out, "path", label->path);
	write_string(out, "local", label->local);
	write_string(out, "remote", label->remote);
	write_string(out, "transport", label->transport);
	write_number(out, "read_ops", counters->read_ops);
	write_number(out, "read_bytes", counters->read_bytes);
	write_number(out, "write_ops", counters->write_ops);
	write_number(out, "write_bytes", counters->write_bytes);
	write_number(out, "commits", counters->commits);
	write_number(out, "meta_ops", counters->meta_ops);
	write_number(out, "lookups", counters->lookups);
	write_number(out, "rewritten_bytes", counters->rewritten_bytes);
	write_number(out, "syscalls", transport->syscalls);
	write_number(out, "bytes_sent", transport->bytes_sent);
	write_number(out, "bytes_received", transport->bytes_received);
	write_number(out, "sends", transport->sends);
	write_number(out, "receives", transport->receives);
	if (!strcmp(label->transport, "rdma"))
		write_rdma(out, transport);
	write_number(out, "retransmissions", counters->retransmissions);
	write_number(out, "reconnects", counters->reconnects);
	write_number(out, "reissues", counters->reissues);
	write_number(out, "stale_replies", counters->stale_replies);
	write_number(out, "errors", counters->errors);
	fprintf(out, "\"rtt_mean_us\": %.3f, \"rtt_max_us\": %.3f}\n",
		microseconds(counters->rtt_sum / replies), microseconds(counters->rtt_max));
}
