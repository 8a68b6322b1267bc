/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs-sink - a server of NFSv3 and NFSv4.1 for tests that costs next to nothing: READ is answered
 * from one memory area, WRITE is thrown away, and files are names.
 *
 * The main thread accepts connections, hands them out in turn, and takes signals.
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clients.h"
#include "nfs/nfs4.h"
#include "sink.h"
#include "util.h"

enum { THREADS_MAX = 256 };

struct options {
	uint16_t port;
	int cpus[THREADS_MAX]; /* a thread's each; -1: any */
	unsigned int threads;
	uint64_t pacing; /* bytes/s of each connection; 0: no limit */
	bool count;
	bool spin;
	struct stall stall;
};

struct sink {
	struct worker workers[THREADS_MAX];
	struct options options;
	uint64_t connections;
};

/* Exit statuses: as the programs beside fio have them. */
enum { FAILED = 1, WRONG_COMMAND_LINE = 2 };

/* --- options --- */

static uint64_t number(const char *option, const char *text, uint64_t min, uint64_t max)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || value < min || value > max)
		error(WRONG_COMMAND_LINE, 0, "--%s=%s: a number from %llu to %llu is wanted",
		      option, text, (unsigned long long)min, (unsigned long long)max);
	return value;
}

/* A list of numbers and ranges. */
static void parse_cpus(struct options *options, const char *text)
{
	const char *at = text;
	char *end;

	do {
		unsigned long first = strtoul(at, &end, 10), last = first;

		if (end != at && *end == '-')
			last = strtoul(at = end + 1, &end, 10);
		if (end == at || (*end && *end != ',') || last < first || last >= CPU_SETSIZE)
			error(WRONG_COMMAND_LINE, 0,
			      "--cpus=%s: a list such as 1 or 2,4-6 is wanted", text);
		for (; first <= last && options->threads < THREADS_MAX; first++)
			options->cpus[options->threads++] = (int)first;
		at = end + 1;
	} while (*end);
}

/* Two numbers of milliseconds. */
static void parse_stall(struct stall *stall, const char *text)
{
	uint64_t length, every;
	char end;

	if (sscanf(text, "%" SCNu64 ":%" SCNu64 "%c", &length, &every, &end) != 2 || !length ||
	    length >= every || every > UINT32_MAX)
		error(WRONG_COMMAND_LINE, 0, "--stall=%s: MS:EVERY is wanted, such as 500:5000",
		      text);
	*stall = (struct stall){.length = length * MSEC, .every = every * MSEC};
}

static const char about[] =
	"Serves NFS versions 3 and 4.1 and MOUNT version 3 over TCP on one port of 127.0.0.1, and "
	"says on "
	"which: a line of JSON on stdout when it is ready. Any path is exported by MOUNT, /export "
	"by NFSv4.1; any name exists, and so does the file of any handle.";

static const struct argp_option rows[] = {
	{"port", 'p', "PORT", 0, "the port for both programs (default 0: one that is free)", 0},
	{"cpus", 'c', "LIST", 0,
	 "processors with a thread each that serves, such as 1 or 2,4-6 (default: one, on any)", 0},
	{"pacing", 'P', "BYTES", 0,
	 "the most that each connection is sent in a second, headers included (default: no limit)",
	 0},
	{"stall", 'S', "MS:EVERY", 0, "stop answering for MS at the end of each EVERY milliseconds",
	 0},
	{"spin", 's', NULL, 0,
	 "poll for calls and never sleep: a client on the same machine then pays for no wake-ups, "
	 "as it pays for none elsewhere",
	 0},
	{"count", 'n', NULL, 0, "print what was counted, as JSON, at the end", 0},
	{0},
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 'p': options->port = (uint16_t)number("port", text, 0, UINT16_MAX); break;
	case 'c': parse_cpus(options, text); break;
	case 'P': options->pacing = number("pacing", text, 1000, INT64_MAX); break;
	case 'S': parse_stall(&options->stall, text); break;
	case 's': options->spin = true; break;
	case 'n': options->count = true; break;
	case ARGP_KEY_ARG: argp_error(state, "'%s' is no option", text); break;
	default: return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* --- connections --- */

/* The kernel limits what it sends, which takes no privilege. */
static bool set_pacing(int fd, uint64_t rate)
{
	return !rate || !setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
}

static int open_listener(const struct options *options)
{
	const struct sockaddr_in where = {
		.sin_family = AF_INET,
		.sin_port = htons(options->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;

	if (fd < 0)
		error(FAILED, errno, "socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* All is inherited by the connections. No congestion control that paces, such as BBR. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	if (!set_pacing(fd, options->pacing) ||
	    bind(fd, (const struct sockaddr *)&where, sizeof(where)) || listen(fd, SOMAXCONN))
		error(FAILED, errno, "cannot listen on port %u", options->port);
	return fd;
}

/* NFSv4.1's name of this server is where it listens: it stays the same when the sink restarts. */
static void say_ready(int listener)
{
	static char owner[80];
	struct sockaddr_in where;
	socklen_t length = sizeof(where);
	unsigned int port;

	if (getsockname(listener, (struct sockaddr *)&where, &length))
		error(FAILED, errno, "cannot tell where it listens");
	port = ntohs(where.sin_port);
	snprintf(owner, sizeof(owner), "nfs-sink 127.0.0.1:%u", port);
	if (!sink_init(owner))
		error(FAILED, 0, "no memory");
	printf("{\"address\": \"127.0.0.1\", \"nfsport\": %u, \"mountport\": %u}\n", port, port);
	fflush(stdout);
}

static void accept_one(struct sink *sink, int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		worker_give(&sink->workers[sink->connections++ % sink->options.threads], fd);
}

/* --- what was counted: a line of JSON --- */

static const char *const nfs_names[NFS_PROCEDURES] = {
	"NULL",	   "GETATTR",	  "SETATTR", "LOOKUP", "ACCESS",   "READLINK", "READ",	 "WRITE",
	"CREATE",  "MKDIR",	  "SYMLINK", "MKNOD",  "REMOVE",   "RMDIR",    "RENAME", "LINK",
	"READDIR", "READDIRPLUS", "FSSTAT",  "FSINFO", "PATHCONF", "COMMIT",
};

static const char *const mount_names[MOUNT_PROCEDURES] = {
	"NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT",
};

static void print_calls(const char *program, const char *const *names, const uint64_t *calls,
			int count)
{
	const char *separator = "";

	printf("\"%s\": {", program);
	for (int i = 0; i < count; i++) {
		if (!calls[i])
			continue;
		printf("%s\"%s\": %" PRIu64, separator, names[i], calls[i]);
		separator = ", ";
	}
	printf("}, ");
}

static void print_counts(const struct counts *sum)
{
	const char *nfs4_names[NFS4_OPERATIONS];

	for (int i = 0; i < NFS4_OPERATIONS; i++)
		nfs4_names[i] = nfs4_operation_name((enum nfs4_operation)i);
	printf("{");
	print_calls("nfs", nfs_names, sum->nfs, NFS_PROCEDURES);
	print_calls("nfs4", nfs4_names, sum->nfs4, NFS4_OPERATIONS);
	print_calls("mount", mount_names, sum->mount, MOUNT_PROCEDURES);
	printf("\"read_bytes\": %" PRIu64 ", \"write_bytes\": %" PRIu64
	       ", \"connections\": %" PRIu64 ", \"stalls\": %" PRIu64 ", \"busy_seconds\": %.6f}\n",
	       sum->read_bytes, sum->write_bytes, sum->connections, sum->stalls,
	       (double)sum->busy / SEC);
	fflush(stdout);
}

/* --- signals --- */

/* Blocked in all threads, and read from a descriptor by the main one. */
static int open_signals(void)
{
	sigset_t signals;
	int fd;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	fd = signalfd(-1, &signals, SFD_CLOEXEC);
	if (fd < 0)
		error(FAILED, errno, "signalfd");
	return fd;
}

static void tell_counts(const struct sink *sink)
{
	struct counts sum = {0};

	for (unsigned int i = 0; i < sink->options.threads; i++) {
		const uint64_t *one = (const uint64_t *)&sink->workers[i].front.counts;

		for (size_t at = 0; at < sizeof(sum) / sizeof(*one); at++)
			((uint64_t *)&sum)[at] += one[at];
	}
	sum.connections = sink->connections;
	print_counts(&sum);
}

static void take_signal(const struct sink *sink, int signals)
{
	struct signalfd_siginfo signal;

	if (read(signals, &signal, sizeof(signal)) != sizeof(signal))
		return;
	if (sink->options.count)
		tell_counts(sink);
	_exit(0);
}

/* --- the whole --- */

static void start_workers(struct sink *sink)
{
	const struct options *options = &sink->options;
	uint64_t now = clock_now();

	for (unsigned int i = 0; i < options->threads; i++) {
		struct worker *worker = &sink->workers[i];
		int failed;

		worker->front.limits = (struct limits){.read_max = 1 << 20,
						       .write_max = 1 << 20,
						       .optional = true,
						       .attributes = attributes_all(),
						       .lease = 90};
		worker->stall = options->stall;
		worker->stall.begun = now;
		worker->spin = options->spin;
		worker->cpu = options->cpus[i];
		failed = worker_start(worker);
		if (failed)
			error(FAILED, -failed, "cannot start a thread on processor %d",
			      worker->cpu);
	}
}

int main(int argc, char **argv)
{
	static struct sink sink;
	static const struct argp argp = {.options = rows, .parser = parse_option, .doc = about};
	struct pollfd polled[2];

	program_invocation_name = program_invocation_short_name; /* before error()'s messages */
	argp_err_exit_status = WRONG_COMMAND_LINE;
	argp_parse(&argp, argc, argv, 0, NULL, &sink.options);
	if (!sink.options.threads)
		sink.options.cpus[sink.options.threads++] = -1;
	polled[0] = (struct pollfd){.fd = open_signals(), .events = POLLIN};
	start_workers(&sink);
	polled[1] = (struct pollfd){.fd = open_listener(&sink.options), .events = POLLIN};
	say_ready(polled[1].fd);
	for (;;) {
		poll(polled, 2, -1);
		if (polled[0].revents)
			take_signal(&sink, polled[0].fd);
		if (polled[1].revents)
			accept_one(&sink, polled[1].fd);
	}
}
