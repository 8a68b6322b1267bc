/* SPDX-License-Identifier: GPL-2.0-only */
#include "sink.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "core/clients.h"
#include "core/files.h"
#include "nfs/nfs3.h"
#include "nfs/nfs4.h"
#include "util.h"
#include "wire/record.h"

/* --- calls --- */

enum { PROGRAM_MOUNT = 100005 };

static struct clients clients;

/* Replies are not kept: a call that comes again is told so. No open is kept. */
bool sink_init(const char *name)
{
	enum { SESSIONS = 32768, SLOTS = 1024 };
	static const struct clients_terms terms = {.spans = true, .slots = SLOTS};
	struct timespec now;

	if (!clients_init(&clients, SESSIONS, SLOTS))
		return false;
	clock_gettime(CLOCK_REALTIME, &now);
	clients.instance = (uint32_t)(now.tv_sec * SEC + now.tv_nsec) ^ (uint32_t)getpid() << 16;
	clients.terms = &terms;
	clients.name = name;
	return true;
}

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
	struct nfs_call call = {.front = front,
				.limits = &front->limits,
				.in = in,
				.asked = &front->asked,
				.out = head};
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
 * --- the replies of one connection that have not left yet, sent together ---
 *
 * A reply is a head, encoded into the queue's own memory, and for READ so many zeros behind it, all
 * out of one small area of memory that stays in the processor's cache. (sendfile(2) of a memfd was
 * measured too: it halves the copies and doubles the time, for client and server.) Nothing here
 * blocks.
 */

enum {
	REPLY_HEAD_MAX = 512,
	REPLY_DATA_MAX = 16 << 20,
	REPLIES_HEADS = 128 * 1024,
	REPLIES_SPANS = 1024, /* UIO_MAXIOV */
};

struct replies {
	uint32_t first, last; /* spans[first … last) are to be sent */
	uint32_t heads_used;
	struct iovec spans[REPLIES_SPANS];
	uint8_t heads[REPLIES_HEADS];
};

static bool replies_empty(const struct replies *replies)
{
	return replies->first == replies->last;
}

enum { AREA = 64 * 1024, PAD_MAX = 3 };
enum { SPANS_MAX_OF_REPLY = 1 + (REPLY_DATA_MAX + PAD_MAX + AREA - 1) / AREA };

static const uint8_t area[AREA] __attribute__((aligned(4096)));

/* Room for one reply, with at most REPLY_DATA_MAX bytes of data; false: full, send first. */
static bool replies_begin(struct replies *replies, struct xdr_out *head)
{
	if (replies_empty(replies))
		replies->first = replies->last = replies->heads_used = 0;
	if (replies->last + SPANS_MAX_OF_REPLY > REPLIES_SPANS ||
	    replies->heads_used + RECORD_MARK_SIZE + REPLY_HEAD_MAX > REPLIES_HEADS)
		return false;
	head->at = replies->heads + replies->heads_used + RECORD_MARK_SIZE;
	head->end = head->at + REPLY_HEAD_MAX;
	head->bad = false;
	return true;
}

static void add_span(struct replies *replies, const uint8_t *bytes, uint32_t length)
{
	replies->spans[replies->last].iov_base = (void *)bytes;
	replies->spans[replies->last++].iov_len = length;
}

/* Heads without data lie one behind the other: they are one span. */
static void add_head(struct replies *replies, const uint8_t *bytes, uint32_t length)
{
	struct iovec *last = replies_empty(replies) ? NULL : &replies->spans[replies->last - 1];

	if (last && (uint8_t *)last->iov_base + last->iov_len == bytes)
		last->iov_len += length;
	else
		add_span(replies, bytes, length);
}

static void add_data(struct replies *replies, uint32_t length)
{
	while (length) {
		uint32_t part = min_of(length, (uint32_t)AREA);

		add_span(replies, area, part);
		length -= part;
	}
}

/* Queues the reply whose head was written since begin(), with `data` bytes behind it, padded. */
static void replies_add(struct replies *replies, const struct xdr_out *head, uint32_t data)
{
	uint8_t *start = replies->heads + replies->heads_used;
	uint32_t length = head->at - start;
	uint32_t padded = data + xdr_pad(data);
	uint32_t mark = htobe32((length - RECORD_MARK_SIZE + padded) | RECORD_LAST_FRAGMENT);

	memcpy(start, &mark, RECORD_MARK_SIZE);
	replies->heads_used += length;
	add_head(replies, start, length);
	add_data(replies, padded);
}

static void drop(struct replies *replies, size_t length)
{
	while (length) {
		struct iovec *span = &replies->spans[replies->first];
		size_t part = min_of(length, span->iov_len);

		span->iov_base = (uint8_t *)span->iov_base + part;
		span->iov_len -= part;
		length -= part;
		if (!span->iov_len)
			replies->first++;
	}
}

/* Sends. 0: all is gone, -EAGAIN: the client takes no more now, another negative errno: failed. */
static int replies_send(struct replies *replies, int fd)
{
	while (!replies_empty(replies)) {
		struct msghdr message = {
			.msg_iov = &replies->spans[replies->first],
			.msg_iovlen = replies->last - replies->first,
		};
		ssize_t length = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (length < 0)
			return -errno;
		drop(replies, length);
	}
	return 0;
}

/* --- a client's connection: bytes in, calls answered in the order of their arrival, replies out.
 * All replies to what has arrived together leave together --- */

enum {
	HEAD_MAX = 4096,       /* no call has a longer one */
	STAGE = 256 * 1024,    /* many small calls by one receive */
	BULKY = 16 * 1024,     /* data from here on is thrown away unread, so … */
	AHEAD_OF_BULKY = 1024, /* … no more than the next head is read ahead */
};

struct connection {
	int fd;
	struct front *front;

	uint32_t from, to;   /* bytes received and not yet used: stage[from … to) */
	uint32_t ahead;	     /* how far to fill the stage */
	uint32_t skip;	     /* bytes of a record, not received yet, that nobody wants */
	struct xdr_out head; /* the reply to that record, added when the record has come */
	uint32_t data;	     /* of that reply */

	struct replies replies;
	uint8_t stage[STAGE];
};

/* Takes over the socket, which does not block; NULL: no memory. */
static struct connection *connection_open(int fd, struct front *front)
{
	struct connection *connection = malloc(sizeof(*connection));

	if (!connection)
		return NULL;
	connection->fd = fd;
	connection->front = front;
	connection->from = connection->to = connection->skip = 0;
	connection->ahead = STAGE;
	connection->replies.first = connection->replies.last = 0;
	return connection;
}

static void connection_close(struct connection *connection)
{
	close(connection->fd);
	free(connection);
}

static uint32_t staged(const struct connection *connection)
{
	return connection->to - connection->from;
}

/* All of it has come. There is room for its reply: see answer_record(). */
static void end_record(struct connection *connection)
{
	replies_add(&connection->replies, &connection->head, connection->data);
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
	if (!discard) {
		connection->to += length;
		return length;
	}
	connection->skip -= length;
	if (!connection->skip)
		end_record(connection);
	return length;
}

/* What is left of a record of `length` bytes whose head ends at `used` is not wanted. */
static void begin_skip(struct connection *connection, uint32_t length, uint32_t used)
{
	uint32_t rest = length - used, part;

	connection->from += RECORD_MARK_SIZE + used;
	part = min_of(rest, staged(connection));
	connection->from += part;
	connection->skip = rest - part;
	connection->ahead = rest >= BULKY ? AHEAD_OF_BULKY : STAGE;
	if (!connection->skip)
		end_record(connection);
}

/* 1: one record was answered, 0: more bytes are needed, -EAGAIN: no room for its reply, -EPROTO. */
static int answer_record(struct connection *connection)
{
	const uint8_t *start = connection->stage + connection->from;
	struct xdr_in call = {start, connection->stage + connection->to, false};
	uint32_t mark = xdr_get_u32(&call);
	uint32_t length = mark & ~RECORD_LAST_FRAGMENT;
	uint32_t have = call.end - call.at;

	if (call.bad)
		return 0;
	/* Nobody's client splits its calls into fragments. */
	if (!(mark & RECORD_LAST_FRAGMENT) ||
	    length > connection->front->limits.write_max + HEAD_MAX)
		return -EPROTO;
	if (!replies_begin(&connection->replies, &connection->head))
		return -EAGAIN;
	if (have > length)
		call.end = call.at + length;
	if (!answer(connection->front, &call, have >= length, &connection->head, &connection->data))
		return -EPROTO;
	if (call.bad) {
		connection->ahead = STAGE;
		return have < length && have < HEAD_MAX ? 0 : -EPROTO;
	}
	begin_skip(connection, length, call.at - start - RECORD_MARK_SIZE);
	return 1;
}

/* Answers all whole calls at hand. */
static int answer_staged(struct connection *connection)
{
	int error = 1;

	while (error > 0 && !connection->skip)
		error = answer_record(connection);
	return error < 0 ? error : 0;
}

/*
 * Serves what has arrived. 0: wait for more of it, -EAGAIN: wait until the client takes its
 * replies, another negative errno: close it (-ECONNRESET: the client is gone, -EPROTO: what it
 * says is not NFS).
 */
static int connection_serve(struct connection *connection)
{
	bool full = true;

	for (;;) {
		int answered = answer_staged(connection);
		int error = replies_send(&connection->replies, connection->fd);
		ssize_t length;

		if (error)
			return error;
		if (answered == -EAGAIN) /* there is room again */
			continue;
		if (answered || !full)
			return answered;
		length = receive(connection, &full);
		if (length <= 0)
			return (int)length;
	}
}

/* --- the thread --- */

/* Waits for more calls, or until the client takes its replies. */
static void wait_for(const struct worker *worker, struct connection *connection, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = connection};

	epoll_ctl(worker->epoll, EPOLL_CTL_MOD, connection->fd, &event);
}

static void serve(struct worker *worker, const struct epoll_event *event)
{
	struct connection *connection = event->data.ptr;
	int error = connection_serve(connection);

	if (error == -EAGAIN) {
		wait_for(worker, connection, EPOLLOUT);
	} else if (error) {
		if (error == -EPROTO)
			fprintf(stderr, "nfs-sink: a client sent something that is no NFS call\n");
		connection_close(connection);
	} else if (event->events & EPOLLOUT) {
		wait_for(worker, connection, EPOLLIN);
	}
}

/* What has come by now is served afterwards. */
static void sit_out(struct worker *worker)
{
	const struct stall *stall = &worker->stall;
	uint64_t phase, left;
	struct timespec rest;

	if (!stall->every)
		return;
	phase = (clock_now() - stall->begun) % stall->every;
	if (phase < stall->every - stall->length)
		return;
	left = stall->every - phase;
	rest = (struct timespec){(time_t)(left / SEC), (long)(left % SEC)};
	worker->front.counts.stalls++;
	nanosleep(&rest, NULL);
}

static void *work(void *argument)
{
	enum { EVENTS = 64 };
	struct worker *worker = argument;
	struct epoll_event events[EVENTS];

	for (;;) {
		int count = epoll_wait(worker->epoll, events, EVENTS, worker->spin ? 0 : -1);
		uint64_t begin;

		if (count <= 0)
			continue;
		sit_out(worker);
		begin = clock_now();
		for (int i = 0; i < count; i++)
			serve(worker, &events[i]);
		worker->front.counts.busy += clock_now() - begin;
	}
	return NULL;
}

int worker_start(struct worker *worker)
{
	pthread_attr_t attributes;
	cpu_set_t cpus;
	int error;

	worker->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (worker->epoll < 0)
		return -errno;
	pthread_attr_init(&attributes);
	if (worker->cpu >= 0) {
		CPU_ZERO(&cpus);
		CPU_SET(worker->cpu, &cpus);
		pthread_attr_setaffinity_np(&attributes, sizeof(cpus), &cpus);
	}
	error = pthread_create(&worker->thread, &attributes, work, worker);
	pthread_attr_destroy(&attributes);
	return -error;
}

void worker_give(struct worker *worker, int fd)
{
	struct connection *connection = connection_open(fd, &worker->front);
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};

	if (!connection)
		close(fd);
	else if (epoll_ctl(worker->epoll, EPOLL_CTL_ADD, fd, &event))
		connection_close(connection);
}
