/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs-sink - a server of NFSv3 and NFSv4.1 for tests that costs next to nothing: READ is answered
 * from one memory area, WRITE is thrown away, and files are names (files.c).
 *
 * Threads serve connections. Another one accepts these and hands them out in turn, and the main
 * thread waits for the signal that ends all.
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/clients.h"
#include "core/files.h"
#include "nfs/nfs3.h"
#include "nfs/nfs4.h"
#include "sink.h"
#include "util.h"
#include "wire/record.h"

/* Exit statuses: as the programs beside fio have them. */
enum { FAILED = 1, WRONG_COMMAND_LINE = 2 };

/* Those that serve. */
enum { THREADS_MAX = 256 };
static struct front fronts[THREADS_MAX];
static unsigned int front_count;

static _Atomic uint64_t connections; /* accepted so far */

static struct options {
	uint16_t port;
	uint64_t pacing; /* bytes/s of each connection; 0: no limit */
	bool count;
	bool spin; /* poll for calls, never sleep */
	/* ns: nothing is answered for the last `stall` of each `every`; of 0: it always is */
	uint64_t stall, every;
	uint64_t begun; /* by clock_now(): when the first `every` began */
} options;

/* --- calls --- */

static struct limits limits = {
	.read_max = IO_MAX, .write_max = IO_MAX, .optional = true, .lease = 90};
static struct clients clients;

uint32_t front_begin(struct nfs_call *call)
{
	return NFS4_OK;
}

uint32_t front_end(struct nfs_call *call, uint32_t status)
{
	if (!call->clients)
		call->front->counts.nfs[call->asked->number]++;
	else if (!status)
		call->front->counts.nfs4[call->asked->number]++;
	return status;
}

uint32_t front_take_slot(struct nfs_call *call, struct session *session, struct slot *slot)
{
	return NFS4_OK;
}

void front_uses(struct nfs_call *call, struct client *client)
{
}

enum { PROGRAM_MOUNT = 100005 };
enum mount_procedure { MOUNT_NULL = 0, MOUNT_MNT = 1, MOUNT_UMNT = 3, MOUNT_EXPORT = 5 };

static void do_mount(struct xdr_in *in, struct xdr_out *out)
{
	enum { AUTH_SYS = 1 };

	xdr_skip(in, xdr_get_u32(in)); /* any path is exported */
	xdr_put_u32(out, 0);
	files_put_handle(out, 0);
	xdr_put_u32(out, 1); /* flavors */
	xdr_put_u32(out, AUTH_SYS);
}

static enum accept_stat answer_mount(const struct nfs_call *call, uint32_t procedure)
{
	switch ((enum mount_procedure)procedure) {
	case MOUNT_NULL: break;
	case MOUNT_MNT: do_mount(call->in, call->out); break;
	case MOUNT_UMNT: xdr_skip(call->in, xdr_get_u32(call->in)); break;
	case MOUNT_EXPORT: xdr_put_u32(call->out, false); break; /* the list ends */
	default: return ACCEPT_PROC_UNAVAIL;
	}
	if (!call->in->bad)
		call->front->counts.mount[procedure]++;
	return ACCEPT_SUCCESS;
}

static enum accept_stat answer_nfs4(struct nfs_call *call, uint32_t procedure, bool whole)
{
	call->clients = &clients;
	if (procedure == NFS4_COMPOUND)
		serve_nfs4(call, whole);
	return procedure <= NFS4_COMPOUND ? ACCEPT_SUCCESS : ACCEPT_PROC_UNAVAIL;
}

/* Other than ACCEPT_SUCCESS only where nothing was written. */
static enum accept_stat dispatch(struct nfs_call *call, const struct rpc_call *rpc, bool whole)
{
	if (rpc->program != NFS_PROGRAM && rpc->program != PROGRAM_MOUNT)
		return ACCEPT_PROG_UNAVAIL;
	if (rpc->program == NFS_PROGRAM && rpc->version == NFS_V4)
		return answer_nfs4(call, rpc->procedure, whole);
	if (rpc->version != NFS_V3)
		return ACCEPT_PROG_MISMATCH;
	if (rpc->program == NFS_PROGRAM)
		return serve_nfs3(call, rpc->procedure) ? ACCEPT_SUCCESS : ACCEPT_PROC_UNAVAIL;
	return answer_mount(call, rpc->procedure);
}

/*
 * Answers the call whose record begins at `in`, all of it if `whole`; leaves `in` behind what
 * it has read. A WRITE's data is not waited for: the reply is to be sent when it has come. *data:
 * bytes of file data to be sent behind the reply's head, which is READ's. in->bad: the call goes
 * on past the bytes at hand, and nothing has happened. False: that is no call; its connection is of
 * no use any more.
 */
static bool answer(struct front *front, struct xdr_in *in, bool whole, struct xdr_out *head,
		   uint32_t *data)
{
	struct nfs_call call = {
		.front = front, .limits = &limits, .in = in, .asked = &front->asked, .out = head};
	const struct xdr_out start = *head;
	struct rpc_call rpc;
	enum accept_stat status;

	if (!rpc_get_call(in, &rpc))
		return false;
	rpc_skip_credentials(in);
	rpc_put_accepted(head, rpc.xid, ACCEPT_SUCCESS);
	status = dispatch(&call, &rpc, whole);
	*data = call.data_length;
	if (status == ACCEPT_SUCCESS)
		return true;
	*head = start;
	rpc_put_accepted(head, rpc.xid, status);
	if (status == ACCEPT_PROG_MISMATCH) {
		xdr_put_u32(head, NFS_V3);
		xdr_put_u32(head, rpc.program == NFS_PROGRAM ? NFS_V4 : NFS_V3);
	}
	return true;
}

/*
 * --- a client's connection: bytes in, calls answered in the order of their arrival, replies out.
 * All replies to what has arrived together leave together ---
 *
 * A reply is a head, encoded into the connection's own memory, and for READ so many zeros behind
 * it, all out of one small area of memory that stays in the processor's cache. (sendfile(2) of a
 * memfd was measured too: it halves the copies and doubles the time, for client and server.)
 * Nothing here blocks.
 */

enum { AREA = 64 * 1024, PAD_MAX = 3 };
enum {
	REPLY_HEAD_MAX = 512,
	REPLY_SPANS_MAX = 1 + (IO_MAX + PAD_MAX + AREA - 1) / AREA,
	HEADS = 128 * 1024,
	SPANS = 1024, /* UIO_MAXIOV */

	HEAD_MAX = 4096,       /* no call has a longer one */
	STAGE = 256 * 1024,    /* many small calls by one receive */
	BULKY = 16 * 1024,     /* data from here on is thrown away unread, so … */
	AHEAD_OF_BULKY = 1024, /* … no more than the next head is read ahead */
};

static const uint8_t area[AREA] __attribute__((aligned(4096)));

struct connection {
	int fd;
	struct front *front;

	uint32_t from, to;   /* bytes received and not yet used: stage[from … to) */
	uint32_t ahead;	     /* how far to fill the stage */
	uint32_t skip;	     /* bytes of a record, not received yet, that nobody wants */
	struct xdr_out head; /* the reply to that record, added when the record has come */
	uint32_t data;	     /* of that reply */

	uint32_t first, last; /* spans[first … last) are to be sent */
	uint32_t heads_used;
	struct iovec spans[SPANS];
	uint8_t heads[HEADS];
	uint8_t stage[STAGE];
};

static void connection_close(struct connection *connection)
{
	close(connection->fd);
	free(connection);
}

/* --- replies that have not left yet --- */

/* Room for one reply; false: full, send first. */
static bool begin_reply(struct connection *connection)
{
	struct xdr_out *head = &connection->head;

	if (connection->first == connection->last)
		connection->first = connection->last = connection->heads_used = 0;
	if (connection->last + REPLY_SPANS_MAX > SPANS ||
	    connection->heads_used + RECORD_MARK_SIZE + REPLY_HEAD_MAX > HEADS)
		return false;
	head->at = connection->heads + connection->heads_used + RECORD_MARK_SIZE;
	head->end = head->at + REPLY_HEAD_MAX;
	head->bad = false;
	return true;
}

static void add_span(struct connection *connection, const uint8_t *bytes, uint32_t length)
{
	connection->spans[connection->last++] = (struct iovec){(void *)bytes, length};
}

/* Heads without data lie one behind the other: they are one span. */
static void add_head(struct connection *connection, const uint8_t *bytes, uint32_t length)
{
	struct iovec *last = connection->first == connection->last
				     ? NULL
				     : &connection->spans[connection->last - 1];

	if (last && (uint8_t *)last->iov_base + last->iov_len == bytes)
		last->iov_len += length;
	else
		add_span(connection, bytes, length);
}

/* Queues the reply whose head was written since begin_reply(), with its data, padded. */
static void add_reply(struct connection *connection)
{
	uint8_t *start = connection->heads + connection->heads_used;
	uint32_t length = connection->head.at - start;
	uint32_t padded = connection->data + xdr_pad(connection->data);
	uint32_t mark = htobe32((length - RECORD_MARK_SIZE + padded) | RECORD_LAST_FRAGMENT);

	memcpy(start, &mark, RECORD_MARK_SIZE);
	connection->heads_used += length;
	add_head(connection, start, length);
	for (uint32_t part; padded; padded -= part) {
		part = min_of(padded, (uint32_t)AREA);
		add_span(connection, area, part);
	}
}

/* 0: all is gone, -EAGAIN: the client takes no more now, another negative errno: failed. */
static int send_replies(struct connection *connection)
{
	while (connection->first < connection->last) {
		struct msghdr message = {
			.msg_iov = &connection->spans[connection->first],
			.msg_iovlen = connection->last - connection->first,
		};
		ssize_t length = sendmsg(connection->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (length < 0)
			return -errno;
		connection->first = iovec_skip(connection->spans, connection->first, length);
	}
	return 0;
}

/* --- records --- */

static uint32_t staged(const struct connection *connection)
{
	return connection->to - connection->from;
}

/* Of what is not wanted so much has come; with all of it, the record's reply is due. */
static void skipped(struct connection *connection, uint32_t length)
{
	connection->skip -= length;
	if (!connection->skip)
		add_reply(connection);
}

/* Bytes received, 0 for none now, or a negative errno; *full: there may be more. */
static ssize_t receive(struct connection *connection, bool *full)
{
	/* TCP takes MSG_TRUNC for "throw it away" (tcp(7)): nothing is copied. */
	bool discard = connection->skip;
	uint32_t want;
	ssize_t length;

	if (connection->from) {
		memmove(connection->stage, connection->stage + connection->from,
			staged(connection));
		connection->to = staged(connection);
		connection->from = 0;
	}
	/* No more than there is memory for, although none is touched: sanitizers cannot know. */
	want = discard ? min_of(connection->skip, (uint32_t)STAGE)
		       : connection->ahead - connection->to;
	length = recv(connection->fd, connection->stage + connection->to, want,
		      MSG_DONTWAIT | (discard ? MSG_TRUNC : 0));
	if (length <= 0)
		return length ? (errno == EAGAIN ? 0 : -errno) : -ECONNRESET;
	*full = length == want;
	if (discard)
		skipped(connection, (uint32_t)length);
	else
		connection->to += length;
	return length;
}

/* 1: one record was answered, 0: more bytes are needed, -EAGAIN: no room for its reply, -EPROTO. */
static int answer_record(struct connection *connection)
{
	const uint8_t *start = connection->stage + connection->from;
	struct xdr_in call = {start, connection->stage + connection->to, false};
	uint32_t mark = xdr_get_u32(&call);
	uint32_t length = mark & ~RECORD_LAST_FRAGMENT;
	uint32_t have = call.end - call.at, used;

	if (call.bad)
		return 0;
	/* Nobody's client splits its calls into fragments. */
	if (!(mark & RECORD_LAST_FRAGMENT) || length > IO_MAX + HEAD_MAX)
		return -EPROTO;
	if (!begin_reply(connection))
		return -EAGAIN;
	if (have > length)
		call.end = call.at + length;
	if (!answer(connection->front, &call, have >= length, &connection->head, &connection->data))
		return -EPROTO;
	if (call.bad) {
		connection->ahead = STAGE;
		return have < length && have < HEAD_MAX ? 0 : -EPROTO;
	}
	used = call.at - start - RECORD_MARK_SIZE;
	connection->from += RECORD_MARK_SIZE + min_of(length, have);
	connection->skip = length - used;
	connection->ahead = connection->skip >= BULKY ? AHEAD_OF_BULKY : STAGE;
	skipped(connection, min_of(length, have) - used);
	return 1;
}

/*
 * Serves what has arrived, all of it if the client `ends`. 0: wait for more, -EAGAIN: wait until
 * the client takes its replies, another negative errno: close it (-ECONNRESET: the client is gone,
 * -EPROTO: what it says is not NFS).
 */
static int connection_serve(struct connection *connection, bool ends)
{
	bool full = true;

	for (;;) {
		int answered = 1, error;
		ssize_t length;

		while (answered > 0 && !connection->skip)
			answered = answer_record(connection);
		error = send_replies(connection);
		if (error)
			return error;
		if (answered == -EAGAIN) /* there is room again */
			continue;
		if (answered < 0)
			return answered;
		if (!full && !ends)
			return 0;
		length = receive(connection, &full);
		if (length <= 0)
			return (int)length;
	}
}

/* --- a thread that serves --- */

/* What has come by now is served afterwards. */
static void sit_out_stall(struct front *front)
{
	struct timespec rest;
	uint64_t left;

	if (!options.every)
		return;
	left = options.every - (clock_now() - options.begun) % options.every;
	if (left > options.stall)
		return;
	rest = (struct timespec){(time_t)(left / SEC), (long)(left % SEC)};
	front->counts.stalls++;
	nanosleep(&rest, NULL);
}

static void *serve(void *argument)
{
	enum { EVENTS = 64 };
	struct front *front = argument;
	struct epoll_event events[EVENTS];

	for (;;) {
		int count = epoll_wait(front->epoll, events, EVENTS, options.spin ? 0 : -1);
		uint64_t begin;

		if (count <= 0)
			continue;
		sit_out_stall(front);
		begin = clock_now();
		for (int i = 0; i < count; i++) {
			struct connection *connection = events[i].data.ptr;
			int error = connection_serve(connection, events[i].events & EPOLLRDHUP);

			if (error == -EPROTO)
				fprintf(stderr,
					"nfs-sink: a client sent something that is no NFS call\n");
			if (error && error != -EAGAIN)
				connection_close(connection);
		}
		front->counts.busy += clock_now() - begin;
	}
	return NULL;
}

/* Fails the program where that is not possible. */
static void start_thread(int cpu, void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	pthread_t thread;
	cpu_set_t cpus;
	int failed;

	pthread_attr_init(&attributes);
	if (cpu >= 0) {
		CPU_ZERO(&cpus);
		CPU_SET(cpu, &cpus);
		pthread_attr_setaffinity_np(&attributes, sizeof(cpus), &cpus);
	}
	failed = pthread_create(&thread, &attributes, run, argument);
	pthread_attr_destroy(&attributes);
	if (failed)
		error(FAILED, failed, "cannot start a thread on processor %d", cpu);
}

static void start_front(struct front *front)
{
	front->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (front->epoll < 0)
		error(FAILED, errno, "cannot start a thread on processor %d", front->cpu);
	start_thread(front->cpu, serve, front);
}

/* --- new connections --- */

static int open_listener(void)
{
	const struct sockaddr_in where = {
		.sin_family = AF_INET,
		.sin_port = htons(options.port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0)
		error(FAILED, errno, "socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* All is inherited by the connections. No congestion control that paces, such as BBR. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	/* The kernel limits what it sends, which takes no privilege. */
	if ((options.pacing && setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &options.pacing,
					  sizeof(options.pacing))) ||
	    bind(fd, (const struct sockaddr *)&where, sizeof(where)) || listen(fd, SOMAXCONN))
		error(FAILED, errno, "cannot listen on port %u", options.port);
	return fd;
}

/* Edges: each is served until nothing has come, or until the client takes no more. */
static void adopt(struct front *front, int fd)
{
	struct connection *connection = malloc(sizeof(*connection));
	struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				    .data.ptr = connection};

	if (!connection) {
		close(fd);
		return;
	}
	connection->fd = fd;
	connection->front = front;
	connection->from = connection->to = connection->skip = 0;
	connection->ahead = STAGE;
	connection->first = connection->last = 0;
	if (epoll_ctl(front->epoll, EPOLL_CTL_ADD, fd, &event))
		connection_close(connection);
}

static void *accept_all(void *argument)
{
	const int *listener = argument;

	for (;;) {
		int fd = accept4(*listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0)
			adopt(&fronts[connections++ % front_count], fd);
	}
	return NULL;
}

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
static void parse_cpus(const char *text)
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
		for (; first <= last && front_count < THREADS_MAX; first++)
			fronts[front_count++].cpu = (int)first;
		at = end + 1;
	} while (*end);
}

/* Two numbers of milliseconds. */
static void parse_stall(const char *text)
{
	uint64_t length, every;
	char end;

	if (sscanf(text, "%" SCNu64 ":%" SCNu64 "%c", &length, &every, &end) != 2 || !length ||
	    length >= every || every > UINT32_MAX)
		error(WRONG_COMMAND_LINE, 0, "--stall=%s: MS:EVERY is wanted, such as 500:5000",
		      text);
	options.stall = length * MSEC;
	options.every = every * MSEC;
}

static const char about[] =
	"Serves NFS versions 3 and 4.1 and MOUNT version 3 over TCP on one port of 127.0.0.1, and "
	"says on which: a line of JSON on stdout when it is ready. Any path is exported by MOUNT, "
	"/export by NFSv4.1; any name exists, and so does the file of any handle.";

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
	switch (key) {
	case 'p': options.port = (uint16_t)number("port", text, 0, UINT16_MAX); break;
	case 'c': parse_cpus(text); break;
	case 'P': options.pacing = number("pacing", text, 1000, INT64_MAX); break;
	case 'S': parse_stall(text); break;
	case 's': options.spin = true; break;
	case 'n': options.count = true; break;
	case ARGP_KEY_ARG: argp_error(state, "'%s' is no option", text); break;
	default: return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* --- the whole --- */

/* NFSv4.1's name of this server is where it listens: it stays the same when the sink restarts. */
static void say_ready(int listener)
{
	/* Replies are not kept: a call that comes again is told so. No open is kept. */
	enum { SESSIONS = 32768, SLOTS = 1024 };
	static const struct clients_terms terms = {.spans = true, .slots = SLOTS};
	static char owner[80];
	struct sockaddr_in where;
	socklen_t length = sizeof(where);
	struct timespec now;
	unsigned int port;

	if (getsockname(listener, (struct sockaddr *)&where, &length))
		error(FAILED, errno, "cannot tell where it listens");
	port = ntohs(where.sin_port);
	snprintf(owner, sizeof(owner), "nfs-sink 127.0.0.1:%u", port);
	if (!clients_init(&clients, SESSIONS, SLOTS))
		error(FAILED, 0, "no memory");
	clock_gettime(CLOCK_REALTIME, &now);
	clients.instance = (uint32_t)nanoseconds_of(&now) ^ (uint32_t)getpid() << 16;
	clients.terms = &terms;
	clients.name = owner;
	printf("{\"address\": \"127.0.0.1\", \"nfsport\": %u, \"mountport\": %u}\n", port, port);
	fflush(stdout);
}

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

static void print_counts(void)
{
	struct counts sum = {0};
	const char *nfs4_names[NFS4_OPERATIONS];

	for (int i = 0; i < NFS4_OPERATIONS; i++)
		nfs4_names[i] = nfs4_operation_name((enum nfs4_operation)i);
	for (unsigned int i = 0; i < front_count; i++) {
		const uint64_t *one = (const uint64_t *)&fronts[i].counts;

		for (size_t at = 0; at < sizeof(sum) / sizeof(*one); at++)
			((uint64_t *)&sum)[at] += one[at];
	}
	printf("{");
	print_calls("nfs", nfs_names, sum.nfs, NFS_PROCEDURES);
	print_calls("nfs4", nfs4_names, sum.nfs4, NFS4_OPERATIONS);
	print_calls("mount", mount_names, sum.mount, MOUNT_PROCEDURES);
	printf("\"read_bytes\": %" PRIu64 ", \"write_bytes\": %" PRIu64
	       ", \"connections\": %" PRIu64 ", \"stalls\": %" PRIu64 ", \"busy_seconds\": %.6f}\n",
	       sum.read_bytes, sum.write_bytes, connections, sum.stalls, (double)sum.busy / SEC);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const struct argp argp = {.options = rows, .parser = parse_option, .doc = about};
	sigset_t signals;
	int listener, signal;

	program_invocation_name = program_invocation_short_name; /* before error()'s messages */
	argp_err_exit_status = WRONG_COMMAND_LINE;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	if (!front_count)
		fronts[front_count++].cpu = -1;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL); /* in all threads */
	limits.attributes = attributes_all();
	options.begun = clock_now();
	listener = open_listener();
	for (unsigned int i = 0; i < front_count; i++)
		start_front(&fronts[i]);
	say_ready(listener);
	start_thread(-1, accept_all, &listener);
	sigwait(&signals, &signal);
	if (options.count)
		print_counts();
	_exit(0);
}
