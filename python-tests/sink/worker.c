/* SPDX-License-Identifier: GPL-2.0-only */
#include "worker.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "session.h"
#include "util.h"

/* Waits for more calls, or until the client takes its replies. */
static void wait_for(const struct worker *worker, struct session *session, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = session};

	epoll_ctl(worker->epoll, EPOLL_CTL_MOD, session_fd(session), &event);
}

static void serve(struct worker *worker, const struct epoll_event *event)
{
	struct session *session = event->data.ptr;
	int error = session_serve(session);

	if (error == -EAGAIN) {
		wait_for(worker, session, EPOLLOUT);
	} else if (error) {
		if (error == -EPROTO)
			fprintf(stderr, "nfs-sink: a client sent something that is no NFS call\n");
		session_close(session);
	} else if (event->events & EPOLLOUT) {
		wait_for(worker, session, EPOLLIN);
	}
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
		begin = clock_now();
		for (int i = 0; i < count; i++)
			serve(worker, &events[i]);
		worker->counts.system_calls++;
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
		.service = {config->read_max, config->write_max, &worker->counts},
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
	struct session *session = session_open(fd, &worker->service);
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = session};

	if (!session)
		close(fd);
	else if (epoll_ctl(worker->epoll, EPOLL_CTL_ADD, fd, &event))
		session_close(session);
}
