/* SPDX-License-Identifier: GPL-2.0-only */
#include "job.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "open_loop.h"
#include "job_log.h"
#include "nfs/path_client.h"
#include "stats/arrivals.h"
#include "stats/counters.h"
#include "stats/json_line.h"

static struct line_job line_job(const struct job *job)
{
	return (struct line_job){job->td->o.name, terms_job_number(job->td)};
}

/* nclients: the client's number, counted over all jobs of the same nclients. */
static uint32_t client_number(const struct conn *conn)
{
	return conn->path->job.first_client + conn->number;
}

static void write_client(FILE *out, const struct conn *conn)
{
	const struct terms *terms = &conn->path->config.terms;
	struct auth_sys_ids ids;

	line_number(out, "client", client_number(conn));
	path_client_ids(conn->path, client_number(conn), &ids);
	if (terms->client_name && terms->security == SEC_SYS)
		line_string(out, "client_name", ids.machine);
	outages_write(out, &conn->counters.outages);
}

static void write_conn(FILE *out, const struct line_job *job, const struct conn *conn)
{
	const struct path_config *config = &conn->path->config;
	char local[CONN_NAME], remote[CONN_NAME];
	bool client = conn->job->clients;

	conn->ops->names(conn, local, remote);
	line_begin(out, NULL, job);
	line_number(out, "connection", conn->number);
	line_string(out, "path", config->label);
	line_string(out, "local", local);
	line_string(out, "remote", remote);
	line_string(out, "transport", conn->transport_name);
	if (!config->dir) {
		line_string(out, "sec", term_value(TERM(security), config->terms.security)->word);
		line_string(out, "xprtsec", term_value(TERM(xprtsec), config->terms.xprtsec)->word);
	}
	if (client)
		write_client(out, conn);
	counters_write(out, &conn->counters, &conn->transport,
		       !strcmp(conn->transport_name, "rdma"));
	latencies_write(out, &conn->latency,
			client ? latency_client_percentiles : latency_percentiles);
	line_end(out);
}

/* Calls write(2) once: with O_APPEND the lines of jobs that end together do not mix. */
static int write_text(const char *path, int flags, const char *text, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, FILE_MODE);
	ssize_t written;

	if (fd < 0)
		return -errno;
	errno = 0;
	written = write(fd, text, size);
	if (!(flags & O_APPEND) && written == (ssize_t)size && ftruncate(fd, written))
		written = -1;
	close(fd);
	return written == (ssize_t)size ? 0 : -(errno ?: ENOSPC);
}

/* One of a path, not of a connection: with nclients= there are thousands of these, and the thread
 * that does the I/O writes the file. */
static void write_paths(FILE *out, const struct job *job)
{
	const struct line_job label = line_job(job);

	for (uint32_t path = 0; path < job->group.path_count; path++) {
		struct counters sum = {0};
		uint64_t replies = 0, time = 0;

		for (uint32_t i = path; i < job->group.job.conn_count; i += job->group.path_count) {
			const struct conn *conn = job->group.conns[i];

			counters_add(&sum, &conn->counters);
			replies += conn->latency.rtt.count;
			time += conn->latency.rtt.sum;
		}
		counters_write_path(out, &label, job->used[path]->config.label, &sum,
				    (double)time / (double)max_of(replies, (uint64_t)1));
	}
}

static void write_all(FILE *out, const struct job *job)
{
	const struct line_job label = line_job(job);
	const struct meta_job *meta = job->meta;

	for_each_conn (&job->group, conn)
		write_conn(out, &label, conn);
	for (int op = 0; meta && op < META_OPS; op++)
		if (meta_mix_does(&meta->mix, (enum meta_op)op))
			operations_write(out, &label, meta_name((enum meta_op)op),
					 meta->ended - meta->begun, &meta->operations[op]);
	if (job->open)
		arrivals_write(out, &label, &job->open->arrivals);
	if (job->group.job.stamps)
		response_write(out, &label, &job->latency);
	job_log_write(out);
}

/* Writes the lines that `put` makes; `flags` are open(2)'s. 0 or a negative errno. */
static int write_lines(const struct job *job, const char *path, int flags,
		       void (*put)(FILE *out, const struct job *job))
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int error = -ENOMEM;

	if (out) {
		put(out, job);
		fclose(out);
		error = write_text(path, flags, text, size);
	}
	free(text);
	return error;
}

void job_stats_live(void *owner)
{
	struct job *job = owner;
	const char *live_file = job_options(job)->live_file;
	char path[PATH_MAX];
	int length, error;

	if (job->live_failed || job->group.job.clock.now - job->live_at < SEC)
		return;
	job->live_at = job->group.job.clock.now;
	length = snprintf(path, sizeof(path), "%s.%" PRIu32, live_file, terms_job_number(job->td));
	error = length < (int)sizeof(path) ? write_lines(job, path, 0, write_paths) : -ENAMETOOLONG;
	job->live_failed = error != 0;
	if (error)
		job_log("cannot write live_file=%s: %s", live_file, strerror(-error));
}

static void summarise(const struct job *job)
{
	uint32_t count = job->group.job.conn_count;
	struct counters sum = {0};
	char done[128];

	for_each_conn (&job->group, conn)
		counters_add(&sum, &conn->counters);
	if (job_options(job)->metadata)
		snprintf(done, sizeof(done),
			 "%" PRIu64 " metadata operations, %" PRIu64 " LOOKUPs before them",
			 sum.meta_ops, sum.lookups);
	else
		snprintf(done, sizeof(done),
			 "%" PRIu64 " reads, %" PRIu64 " writes, %" PRIu64 " commits", sum.read_ops,
			 sum.write_ops, sum.commits);
	job_log_summary("%u connection%s on %u path%s: %s, %" PRIu64 " retransmissions, %" PRIu64
			" reconnects, %" PRIu64 " errors",
			count, count == 1 ? "" : "s", job->group.path_count,
			job->group.path_count == 1 ? "" : "s", done, sum.retransmissions,
			sum.reconnects, sum.errors);
}

/* `why` has room for CONN_TROUBLE bytes. */
static struct client_figures figures_of(const struct conn *conn, char *why)
{
	const struct counters *counters = &conn->counters;

	snprintf(why, CONN_TROUBLE, "no I/O came to them: give the job more, or use fewer clients");
	if (counters->errors || !outages_over(&counters->outages))
		conn->ops->trouble(conn, why);
	return (struct client_figures){
		.number = client_number(conn),
		.operations = counters->read_ops + counters->write_ops + counters->meta_ops,
		.errors = counters->errors,
		.rtt = &conn->latency.rtt,
		.outages = &counters->outages,
		.why = why,
	};
}

static void say(const char *line)
{
	job_log_summary("%s", line);
}

/* nclients: logs how many clients were served, how evenly, and how soon they were back. */
static void tell_clients(const struct job *job)
{
	uint32_t count = job->group.job.clients;
	struct client_figures *clients = calloc(count, sizeof(*clients));
	char *whys = calloc(count, CONN_TROUBLE);

	if (clients && whys) {
		for_each_conn (&job->group, conn)
			clients[conn->number] =
				figures_of(conn, whys + (size_t)conn->number * CONN_TROUBLE);
		clients_tell(clients, count, say);
	} else {
		job_log("clients: no memory for the lines about them: use fewer clients");
	}
	free(clients);
	free(whys);
}

/* Logs how much data discard=1 kept from fio's buffers. */
static void tell_discarded(const struct job *job)
{
	uint64_t bytes = 0;

	for_each_conn (&job->group, conn)
		bytes += conn->transport.bytes_discarded;
	if (bytes)
		job_log_summary("discard=1: READ payload was dropped in the kernel, not copied: "
				"%.2f GiB",
				(double)bytes / (1 << 30));
	else if (job_options(job)->discard && td_read(job->td) && !job->meta)
		job_log_summary("discard=1: nothing was dropped: READs below 32 KiB are copied");
}

/* Returns 1 if the connection has this security; 0: it has not. */
static uint64_t add_security(struct security_counters *sum, const struct security_counters *one)
{
	if (!one->algorithm)
		return 0;
	sum->algorithm = one->algorithm;
	sum->count += one->count;
	sum->time += one->time;
	return 1;
}

static void tell_tls(const struct job *job)
{
	struct security_counters sum = {0};
	uint64_t count = 0, ktls = 0;

	for_each_conn (&job->group, conn) {
		count += add_security(&sum, &conn->transport.tls);
		ktls += conn->transport.ktls;
	}
	if (count)
		job_log_summary("TLS: %" PRIu64 " connection%s with %s, %" PRIu64
				" by kTLS, %" PRIu64 " handshake%s (msec): avg=%.2f",
				count, count == 1 ? "" : "s", sum.algorithm, ktls, sum.count,
				sum.count == 1 ? "" : "s",
				(double)sum.time / (double)sum.count / MSEC);
}

/* Logs the encryption type and the contexts of the connections with this Kerberos flavor. */
static void tell_kerberos(const struct job *job, enum path_sec sec)
{
	struct security_counters sum = {0};
	uint64_t count = 0;

	for_each_conn (&job->group, conn)
		if (conn->path->config.terms.security == sec)
			count += add_security(&sum, &conn->counters.security);
	if (count)
		job_log_summary("Kerberos: %" PRIu64 " connection%s with %s by %s, %" PRIu64
				" context%s (msec): avg=%.2f",
				count, count == 1 ? "" : "s", term_value(TERM(security), sec)->word,
				sum.algorithm, sum.count, sum.count == 1 ? "" : "s",
				(double)sum.time / (double)sum.count / MSEC);
}

/* Logs which share of the thread's CPU time encryption and checksums took (TLS, Kerberos). */
static void tell_crypto(const struct job *job)
{
	uint64_t crypto = 0, cpu;
	struct rusage usage;

	for_each_conn (&job->group, conn)
		crypto += conn->transport.tls.crypto.total + conn->counters.security.crypto.total;
	if (!crypto || getrusage(RUSAGE_THREAD, &usage))
		return;
	cpu = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * SEC +
	      (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
	job_log_summary("crypto: %.0f %% of the job's CPU, %.2f s of %.2f s",
			min_of(100.0, 100.0 * (double)crypto / (double)max_of(cpu, MSEC)),
			(double)crypto / SEC, (double)cpu / SEC);
}

/* Logs a line per kind of operation. For a single kind fio's own figures are enough. */
static void tell_operations(const struct job *job)
{
	const struct meta_job *meta = job->meta;
	char line[OPERATIONS_LINE];
	uint32_t kinds = 0;

	for (int op = 0; meta && op < META_OPS; op++)
		kinds += meta_mix_does(&meta->mix, (enum meta_op)op);
	for (int op = 0; kinds > 1 && op < META_OPS; op++) {
		if (!meta_mix_does(&meta->mix, (enum meta_op)op))
			continue;
		operations_tell(line, meta_name((enum meta_op)op), meta->ended - meta->begun,
				&meta->operations[op]);
		job_log_summary("%s", line);
	}
}

static void tell_response(struct job *job)
{
	char line[RESPONSE_LINE];

	if (!job->group.job.stamps)
		return;
	for_each_conn (&job->group, conn)
		response_join(&job->latency, &conn->latency);
	response_tell(line, &job->latency.response);
	job_log_summary("%s", line);
}

/* Logs how many entries a mix leaves at the server. */
static void tell_left(const struct job *job)
{
	const struct meta_job *meta = job->meta;

	if (!meta || !meta->mix.beside ||
	    !(meta_mix_does(&meta->mix, META_CREATE) || meta_mix_does(&meta->mix, META_MKDIR)))
		return;
	job_log_summary("meta_mix: beside the job's entries, %" PRIu64 " files and %" PRIu64
			" directories are left; %" PRIu64 " removals had to make an entry first",
			meta_job_left(meta, MADE_FILES), meta_job_left(meta, MADE_DIRECTORIES),
			meta->made_first);
}

void job_stats_report(struct job *job)
{
	const char *stats_file = job_options(job)->stats_file;
	char line[ARRIVALS_LINE];
	int error;

	if (job->open)
		open_loop_end(job->open);
	summarise(job);
	if (job->group.job.clients)
		tell_clients(job);
	tell_discarded(job);
	tell_tls(job);
	for (enum path_sec sec = SEC_KRB5; sec <= SEC_KRB5P; sec++)
		tell_kerberos(job, sec);
	tell_crypto(job);
	tell_operations(job);
	if (job->open) {
		arrivals_tell(line, &job->open->arrivals);
		job_log_summary("%s", line);
	}
	tell_response(job);
	tell_left(job);
	/* Comes last: the file also has the lines that were logged above. */
	error = stats_file ? write_lines(job, stats_file, O_APPEND, write_all) : 0;
	if (error)
		job_log("cannot write stats_file=%s: %s", stats_file, strerror(-error));
}
