/* SPDX-License-Identifier: GPL-2.0-only */
#include "group/group.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include "nfs/names.h"
#include "transport/rdma_memory.h"

enum { EVENTS = 64 };

static const uint64_t TICK = WAIT_SLICE_MS * MSEC;

/* client_start=: while clients are to begin, one begins at most this much late. */
enum { START_MS = 5 };

/* nclients: a tick looks at the deadlines of all clients, so the next one comes this much later. */
static const uint64_t CLIENT_TICK = 10 * MSEC;

/* --- waiting for several connections at once --- */

/* Registers a connection's events with epoll. The kernel itself removes a closed descriptor. */
static int update_epoll(const struct group *group, struct conn *conn)
{
	struct epoll_event event = {.data.u32 = conn->number};
	int operation = EPOLL_CTL_MOD, fd;
	short events;

	if (group->epoll_fd < 0)
		return 0;
	events = conn->ops->poll_events(conn);
	if (conn->polled_epoch != *conn->poll_epoch)
		operation = EPOLL_CTL_ADD;
	else if (conn->polled_events == events)
		return 0;
	event.events = (uint32_t)events;
	fd = conn->ops->poll_fd(conn);
	if (fd >= 0 && epoll_ctl(group->epoll_fd, operation, fd, &event) && errno != EEXIST)
		return -errno;
	conn->polled_epoch = *conn->poll_epoch;
	conn->polled_events = events;
	return 0;
}

/* How long a wait may sleep: with nclients at most until the next client's deadline. */
static int slice_ms(const struct group *group)
{
	uint64_t now = group->job.clock.now;

	if (!group->due || group->next_due >= now + TICK)
		return WAIT_SLICE_MS;
	return group->next_due > now ? (int)((group->next_due - now) / MSEC) + 1 : 0;
}

/* Calls epoll_pwait2(2), which glibc has since 2.35, as a bare system call. Linux before
 * 5.11 lacks the call: there the wait ends early, by less than 1 ms. */
static int wait_for_events(const struct group *group, struct epoll_event *events)
{
	struct timespec slice = {0};
	long ready;

	if (!group->job.wake_at)
		return epoll_wait(group->epoll_fd, events, EVENTS, slice_ms(group));
	slice.tv_nsec = (long)conn_job_slice(&group->job);
	ready = syscall(SYS_epoll_pwait2, group->epoll_fd, events, EVENTS, &slice, NULL, 0);
	if (ready < 0 && errno == ENOSYS)
		return epoll_wait(group->epoll_fd, events, EVENTS,
				  (int)(slice.tv_nsec / (long)MSEC));
	return (int)ready;
}

/* Schedules the next tick for this connection's deadline, but not before CLIENT_TICK is over. */
static void note_next(struct group *group, uint64_t due)
{
	group->next_due = min_of(group->next_due, max_of(due, group->job.clock.now + CLIENT_TICK));
}

/* Notes when the tick of a connection is due next, after the connection was used. A deadline within
 * TICK stays, even if the connection is used all the time. Once epoll has refused a connection, all
 * ticks come every TICK: one of them reads the replies. */
static inline void note_due(struct group *group, const struct conn *conn)
{
	uint64_t due, *noted;

	if (!group->due)
		return;
	due = group->unpolled ? 0 : conn->ops->due(conn);
	noted = &group->due[conn->number];
	*noted = due ?: min_of(*noted, group->job.clock.now + TICK);
	note_next(group, *noted);
}

static void reap_ready(struct group *group, struct conn *conn)
{
	conn->ops->reap(conn, false);
	update_epoll(group, conn);
	note_due(group, conn);
}

static void reap_polled(struct group *group, bool wait)
{
	struct epoll_event events[EVENTS];
	int ready = wait ? wait_for_events(group, events)
			 : epoll_wait(group->epoll_fd, events, EVENTS, 0);

	for (int i = 0; i < ready; i++) {
		struct conn *conn = group->conns[events[i].data.u32];

		if (i == 0)
			conn->transport.syscalls++; /* counts the wait once */
		if (conn->turn == CONN_TAKES)
			update_epoll(group, conn); /* it may have sent all: no POLLOUT any more */
		else
			reap_ready(group, conn);
	}
}

/* Registers a connection again whose descriptor a tick may have replaced. */
static void watch_again(struct group *group, struct conn *conn)
{
	int error = update_epoll(group, conn);

	if (!error)
		return;
	if (!group->unpolled)
		path_say(conn->path,
			 "cannot add a connection to epoll: %s: its replies are read up to 100 ms "
			 "late",
			 strerror(-error));
	group->unpolled = true;
	conn->ops->reap(conn, false);
}

/* nclients: ticks only the clients that are due: of thousands, few are. */
static void tick_due(struct group *group)
{
	uint64_t now = group->job.clock.now;

	group->next_due = UINT64_MAX;
	for (uint32_t i = 0; i < group->job.conn_count; i++) {
		struct conn *conn = group->conns[i];

		if (!conn || conn->turn == CONN_TAKES)
			continue;
		if (group->due[i] > now) {
			note_next(group, group->due[i]);
			continue;
		}
		if (group->unpolled)
			conn->ops->reap(conn, false);
		conn->ops->tick(conn);
		watch_again(group, conn);
		group->due[i] = UINT64_MAX;
		note_due(group, conn);
	}
}

static void tick_all(struct group *group)
{
	for_each_conn (group, conn)
		if (conn->ops->tick)
			conn->ops->tick(conn);
	for_each_conn (group, conn)
		watch_again(group, conn);
}

static void tick(struct group *group)
{
	group->last_tick = group->job.clock.now;
	if (group->due)
		tick_due(group);
	else
		tick_all(group);
	if (group->job.failover)
		group->job.news = true; /* a connection may have become silent */
	if (group->job.ticked)
		group->job.ticked(group->job.owner);
}

static void reissue(struct group *group)
{
	struct conn_io *io;

	while ((io = io_list_take(&group->job.requeued))) {
		uint32_t number;

		group->job.outstanding--; /* group_submit() counts it again */
		number = group_submit(group, io->conn->number, io);
		group->conns[number]->counters.reissues++;
	}
	group_flush(group);
}

static void reap_once(struct group *group, bool wait)
{
	if (group->epoll_fd < 0) {
		group->conns[0]->ops->reap(group->conns[0], wait);
		note_due(group, group->conns[0]);
	} else if (!wait && group->job.conn_count == 1) {
		reap_ready(group, group->conns[0]); /* epoll would find no other */
	} else {
		reap_polled(group, wait);
	}
}

/* Polls for completions without sleeping, for busy_poll or until wake_at. True where a completion
 * came, or wake_at has passed. */
static bool reap_busily(struct group *group)
{
	const struct conn_job *job = &group->job;
	uint64_t until = job->clock.read(&job->clock) + job->busy_poll;
	bool to_the_end = job->wake_at && until + job->spin >= job->wake_at;

	if (to_the_end)
		until = job->wake_at;
	else if (!job->busy_poll)
		return false;
	do
		reap_once(group, false);
	while (TAILQ_EMPTY(&job->finished) && job->clock.read(&job->clock) < until);
	return to_the_end || !TAILQ_EMPTY(&job->finished);
}

void group_reap(struct group *group, bool wait)
{
	bool busily = group->job.busy_poll || group->job.wake_at;

	if (!wait || !busily || !reap_busily(group))
		reap_once(group, wait);
	if (TAILQ_EMPTY(&group->job.finished)) /* no reply has read the clock */
		clock_read(&group->job.clock);
	if (group->job.clock.now - group->last_tick >= TICK)
		tick(group);
	else if (group->due && group->job.clock.now >= group->next_due)
		tick_due(group);
	if (group->job.news) { /* only with failover */
		group->job.news = false;
		failover_look(group);
	}
	if (!TAILQ_EMPTY(&group->job.requeued))
		reissue(group);
}

uint32_t group_submit(struct group *group, uint32_t connection, struct conn_io *io)
{
	struct conn *conn = group->conns[connection];

	if (conn->dead)
		conn = failover_choose(group, connection, io);
	if (!conn->dirty) {
		conn->dirty = true;
		TAILQ_INSERT_TAIL(&group->dirty, conn, dirty_link);
	}
	conn->ops->submit(conn, io);
	return conn->number;
}

void group_flush(struct group *group)
{
	struct conn *conn;

	while ((conn = TAILQ_FIRST(&group->dirty))) {
		TAILQ_REMOVE(&group->dirty, conn, dirty_link);
		conn->dirty = false;
		conn->ops->flush(conn);
		update_epoll(group, conn);
		note_due(group, conn);
	}
}

bool group_unsent(const struct group *group)
{
	for_each_conn (group, conn)
		if (conn->ops->unsent && conn->ops->unsent(conn))
			return true;
	return false;
}

uint32_t group_io_max(const struct group *group, enum io_op op)
{
	uint32_t most = UINT32_MAX;

	for (uint32_t i = 0; i < group->path_count; i++) {
		const struct path *path = group->paths[i];

		if (!path->unusable)
			most = min_of(most, op == IO_READ ? path->read_max : path->write_max);
	}
	return most;
}

bool group_reachable(const struct group *group)
{
	for_each_conn (group, conn)
		if (conn->outstanding && (!conn->ops->reachable || conn->ops->reachable(conn)))
			return true;
	return false;
}

void group_abort(struct group *group, int error)
{
	for_each_conn (group, conn)
		if (!group->job.clients || conn->outstanding) /* idle ones can leave */
			conn->ops->abort(conn, error);
}

/* --- opening --- */

static int open_conn(struct group *group, uint32_t number)
{
	struct path *path = group->paths[number % group->path_count];
	const struct conn_ops *ops = path->config.dir ? &conn_mount : &conn_nfs;
	int error = ops->open(&group->conns[number], path, &group->job, number);
	struct conn *conn = group->conns[number];

	if (!error)
		conn->polled_epoch = *conn->poll_epoch - 1; /* not in epoll yet */
	return error;
}

static int cannot_watch(const struct group *group, int error)
{
	group->job.log("epoll cannot watch the connections: %s: use fewer, or raise the limit "
		       "(ulimit -n, sysctl fs.epoll.max_user_watches)",
		       strerror(-error));
	return error;
}

static int open_epoll(struct group *group)
{
	if (!group->job.polled)
		return 0;
	group->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return group->epoll_fd < 0 ? cannot_watch(group, -errno) : 0;
}

static bool has_file(const struct conn *conn, uint32_t file)
{
	return !conn->job->own_files || conn_job_place(conn->job, file).connection == conn->number;
}

/* One step of opening a connection, or of leaving: 0, -EINPROGRESS, or another negative errno. */
typedef int group_step(struct group *group, uint32_t number);

static int make_ready(struct group *group, uint32_t number)
{
	int error = group->conns[number] ? 0 : open_conn(group, number);
	struct conn *conn = group->conns[number];

	if (error)
		return error;
	error = conn->ops->ready ? conn->ops->ready(conn) : 0;
	if (error == -EINPROGRESS || (error && !failover_do_without(group, conn)))
		return error;
	error = update_epoll(group, conn);
	return error ? cannot_watch(group, error) : 0;
}

static int opened(struct group *group, uint32_t number)
{
	struct conn *conn = group->conns[number];

	if (!conn || !has_file(conn, group->opening))
		return 0;
	clock_read(&group->job.clock);
	return conn->ops->opened(conn);
}

static int leave(struct group *group, uint32_t number)
{
	struct conn *conn = group->conns[number];

	return conn && conn->ops->leave ? conn->ops->leave(conn) : 0;
}

/* Connections that are being opened, or are leaving. */
struct awaited {
	group_step *step;
	bool opens;		/* client_start= may hold some back, and the others stay at work */
	struct pollfd *polls;	/* of those that take the step; and one for epoll */
	uint32_t first;		/* all before this one are done */
	uint32_t pending, most; /* how many take it, and may at once */
	uint32_t done;
	bool held; /* some may not begin yet */
};

/* client_start=: false: it is too soon for the connection to begin, and for those behind it. */
static bool may_begin(struct group *group, uint32_t number)
{
	uint64_t rate = group->job.client_start;

	return group->conns[number] || !rate ||
	       number * SEC <= (clock_read(&group->job.clock) - group->began) * rate;
}

/* Takes a step with each connection that is not done, until `most` are pending. */
static int step_conns(struct group *group, struct awaited *awaited)
{
	uint32_t count = group->job.conn_count;

	awaited->pending = 0;
	awaited->held = false;
	for (uint32_t i = awaited->first; i < count && awaited->pending < awaited->most; i++) {
		struct conn *conn = group->conns[i];
		int error;

		if (conn && conn->turn == CONN_DONE) {
			awaited->first += awaited->first == i;
			continue;
		}
		awaited->held = awaited->opens && !may_begin(group, i);
		if (awaited->held)
			break;
		error = awaited->step(group, i);
		conn = group->conns[i];
		if (error == -EINPROGRESS) {
			conn->turn = CONN_TAKES;
			awaited->polls[awaited->pending++] = (struct pollfd){
				.fd = conn->ops->poll_fd(conn),
				.events = conn->ops->poll_events(conn),
			};
		} else if (error) {
			return error;
		} else if (conn) {
			conn->turn = CONN_DONE;
			awaited->done++;
			note_due(group, conn);
		}
	}
	return 0;
}

/*
 * Takes steps until all connections are done, from the first on: with nclients= a few at a time,
 * since servers queue few new connections, and Linux's closes the oldest of more than 64 that it
 * does not know yet. `opens`: all others get ticks and their replies meanwhile; one whose lease is
 * due opens before its turn. `time`: gives up if no further connection is done for so many
 * nanoseconds; 0: no limit, since the steps end by themselves.
 */
static int await_conns(struct group *group, group_step *step, bool opens, uint64_t time,
		       bool (*stop)(void))
{
	enum { CLIENTS_AT_ONCE = 48 };
	uint32_t count = group->job.conn_count;
	struct awaited awaited = {
		.step = step,
		.opens = opens,
		.most = group->job.clients ? min_of(count, (uint32_t)CLIENTS_AT_ONCE) : count,
	};
	struct patience patience = patience_begin(clock_now(), time);
	int error = 0;

	awaited.polls = calloc((size_t)count + 1, sizeof(*awaited.polls));
	if (!awaited.polls)
		return -ENOMEM;
	for_each_conn (group, conn)
		if (conn)
			conn->turn = CONN_WAITS;
	while (!error) {
		uint32_t done = awaited.done;

		error = step_conns(group, &awaited);
		if (error || !(awaited.pending || awaited.held))
			break;
		if (opens && group->due && clock_read(&group->job.clock) >= group->next_due)
			tick_due(group);
		if (awaited.done != done)
			patience = patience_begin(clock_now(), time);
		awaited.polls[awaited.pending] =
			(struct pollfd){.fd = opens ? group->epoll_fd : -1, .events = POLLIN};
		error = wait_part(awaited.polls, awaited.pending + 1,
				  awaited.held ? START_MS : WAIT_SLICE_MS, time ? &patience : NULL,
				  stop);
		if (awaited.polls[awaited.pending].revents)
			reap_polled(group, false);
	}
	free(awaited.polls);
	for_each_conn (group, conn) { /* after an error, too, their I/O goes on */
		if (!error || !opens || !conn)
			continue;
		conn->turn = CONN_DONE;
		note_due(group, conn);
	}
	return error;
}

/*
 * nclients: has all clients tell the server that they leave. Gives up when none finishes for 2.5 s
 * (0.5 s in a stopped run), and when nothing more may be sent (path_job.over).
 */
static void leave_all(struct group *group)
{
	const struct path_job *job = &group->paths[0]->job;

	await_conns(group, leave, false, (job->stop() ? 500 : 2500) * MSEC, job->over);
}

/* Sets job.memory, where a path uses RDMA. 0 or a negative errno. */
static int open_memory(struct group *group)
{
	bool wanted = false;

	for (uint32_t i = 0; i < group->path_count; i++)
		wanted = wanted || (group->job.rdma && group->paths[i]->config.rdma);
	if (!wanted)
		return 0;
#ifdef HAVE_RDMA
	group->job.memory = rdma_memory_new(group->job.buffers, group->job.log);
	return group->job.memory ? 0 : -ENOMEM;
#else
	return -EPROTONOSUPPORT;
#endif
}

static void drop_conn(struct group *group, uint32_t number)
{
	struct conn *conn = group->conns[number];

	group->conns[number] = NULL;
	latency_free(&conn->latency);
	conn->ops->close(conn);
}

/* nclients: a step of opening after a client has failed: opens no more clients, goes on with those
 * that have begun, and drops each that fails. */
static int go_on(struct group *group, uint32_t number)
{
	struct conn *conn = group->conns[number];
	int error = conn ? conn->ops->ready(conn) : 0;

	if (!error || error == -EINPROGRESS)
		return error;
	drop_conn(group, number);
	return 0;
}

/*
 * nclients: says how many were served, where one has failed with `error`. That is known once those
 * have come to an end that were being opened beside that one; the reason has been told.
 */
static void say_opened(struct group *group, int error)
{
	bool reset = error == -ECONNRESET || error == -EPIPE;
	uint32_t opened = 0;

	for (uint32_t i = 0; i < group->path_count; i++)
		group->paths[i]->quiet = true;
	await_conns(group, go_on, false, 2500 * MSEC, group->stop);
	for (uint32_t i = 0; i < group->path_count; i++)
		group->paths[i]->quiet = false;
	for_each_conn (group, conn)
		opened += conn && conn->turn == CONN_DONE;
	if (!opened || opened == group->job.clients) /* all: the fault is this machine's */
		return;
	if (reset)
		group->job.log("%u of %u clients were served: raise the server's limit of "
			       "connections (nfs-ganesha: RPC_Max_Connections), or use nclients=%u",
			       opened, group->job.clients, opened);
	else
		group->job.log("%u of %u clients were served: use nclients=%u", opened,
			       group->job.clients, opened);
}

int group_open(struct group *group, struct path **paths, uint32_t path_count, uint32_t per_path,
	       bool (*stop)(void))
{
	uint32_t count = group->job.clients ?: path_count * per_path;
	int error;

	group->paths = paths;
	group->stop = stop;
	group->path_count = path_count;
	group->epoll_fd = -1;
	group->job.clock.read = group->job.clock.read ?: clock_monotonic;
	TAILQ_INIT(&group->dirty);
	TAILQ_INIT(&group->job.finished);
	TAILQ_INIT(&group->job.requeued);
	for (uint32_t i = 0; i < path_count; i++)
		path_forget_troubles(paths[i]);
	group->job.conn_count = group->job.alive = count;
	/* Mounts share a ring: the first connection waits for all. */
	group->job.polled =
		(count > 1 || group->job.punctual) && !path_all_mounts(paths, path_count);
	group->began = clock_read(&group->job.clock);
	group->conns = calloc(count, sizeof(*group->conns));
	group->due = group->job.clients ? calloc(count, sizeof(*group->due)) : NULL;
	error = group->conns && !group->due == !group->job.clients ? 0 : -ENOMEM;
	error = error ?: open_memory(group) ?: open_epoll(group)
			?: await_conns(group, make_ready, true, 0, stop);
	if (error && error != -EINTR && group->job.clients && group->conns)
		say_opened(group, error);
	if (error)
		group_close(group);
	return error;
}

void group_close(struct group *group)
{
	if (group->job.clients && group->conns)
		leave_all(group);
	for (uint32_t i = 0; group->conns && i < group->job.conn_count; i++)
		if (group->conns[i])
			drop_conn(group, i);
#ifdef HAVE_RDMA
	rdma_memory_free(group->job.memory);
	group->job.memory = NULL;
#endif
	if (group->epoll_fd >= 0)
		close(group->epoll_fd);
	free(group->conns);
	free(group->due);
	group->conns = NULL;
	group->due = NULL;
	group->epoll_fd = -1;
}

/* With failover, gives up a path that fails; the last usable one waits for its server. */
static int open_on_path(struct group *group, uint32_t number_of_path, uint32_t number,
			const char *name)
{
	struct path *path = group->paths[number_of_path];
	int error = 0;

	if (!path->unusable)
		error = path_open_file(path, number, name, group->job.writes);
	if (error && error != -EINTR && failover_give_path_up(group, number_of_path))
		return 0;
	if (!question_is_left(path, error))
		return error;
	path->alone = true;
	return path_open_file(path, number, name, group->job.writes);
}

/* nclients: the clients whose file it is open it by their own connections. For the job's first
 * file, the wait is limited as for names (PATH_SETUPS_MAX); for later files it is as long as that
 * of I/O. */
static int await_opens(struct group *group)
{
	uint64_t time = PATH_SETUPS_MAX * group->paths[0]->config.setup_time;
	int error = await_conns(group, opened, true, group->opened ? 0 : time, group->stop);

	if (error == -ETIMEDOUT)
		group->job.log(
			"nclients=%u: for %llu s no more clients opened a file: use fewer, or "
			"wait until the server's grace period is over",
			group->job.clients, (unsigned long long)(time / SEC));
	group->opened = group->opened || !error;
	return error;
}

int group_open_file(struct group *group, uint32_t number, const char *name)
{
	int error = 0;

	for (uint32_t i = 0; !error && i < group->path_count; i++)
		error = open_on_path(group, i, number, name);
	for_each_conn (group, conn)
		if (!error && conn->ops->open_file && has_file(conn, number))
			error = conn->ops->open_file(conn, number);
	group->opening = number;
	if (!error && group->job.clients)
		error = await_opens(group);
	if (error)
		group_close_file(group, number);
	return error;
}

void group_close_file(struct group *group, uint32_t number)
{
	for_each_conn (group, conn) {
		if (!conn->ops->close_file || !has_file(conn, number))
			continue;
		conn->ops->close_file(conn, number);
		if (group->due)
			group->due[conn->number] = group->next_due = 0;
	}
	for (uint32_t i = 0; i < group->path_count; i++)
		path_close_file(group->paths[i], number);
}
