/* SPDX-License-Identifier: GPL-2.0-only */
#include "worker.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "util.h"

/* Waits for more calls, or until the client takes its replies. */
static void wait_for(const struct worker *worker, struct connection *connection, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = connection};

	epoll_ctl(worker->epoll, EPOLL_CTL_MOD, connection_fd(connection), &event);
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
	worker->counts.stalls++;
	nanosleep(&rest, NULL);
}

static void *work(void *argument)
{
	enum { EVENTS = 64 };
	struct worker *worker = argument;
	struct epoll_event events[EVENTS];

	for (;;) {
		int count = epoll_wait(worker->epoll, events, EVENTS, worker->patience);
		uint64_t begin;

		if (count <= 0)
			continue;
		sit_out(worker);
		begin = clock_now();
		for (int i = 0; i < count; i++)
			serve(worker, &events[i]);
		worker->counts.busy += clock_now() - begin;
	}
	return NULL;
}

int worker_start(struct worker *worker, const struct worker_config *config)
{
	pthread_attr_t attributes;
	cpu_set_t cpus;
	int error;

	*worker = (struct worker){
		.front = {.limits = config->limits, .counts = &worker->counts},
		.stall = config->stall,
		.epoll = epoll_create1(EPOLL_CLOEXEC),
		.patience = config->spin ? 0 : -1,
	};
	if (worker->epoll < 0)
		return -errno;
	pthread_attr_init(&attributes);
	if (config->cpu >= 0) {
		CPU_ZERO(&cpus);
		CPU_SET(config->cpu, &cpus);
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
