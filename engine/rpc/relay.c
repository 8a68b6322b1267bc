/* SPDX-License-Identifier: GPL-2.0-only */
#include "rpc/relay.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rpc/address.h"
#include "util.h"

enum { WAIT_MS = 100, SEND_BUFFER = 4 * RELAY_DATA_MAX };

struct relay {
	struct rpc_channel base;
	struct rpc_terms terms;
	pid_t pid;
	int fd; /* our end of the pair */
	bool up;
	bool full; /* begin() found no room */
	int error; /* what ended the channel, found while it sent */
	uint64_t sent;
	uint8_t head[RPC_HEAD_MAX];
};

static struct relay *relay_of(struct rpc_channel *channel)
{
	return container_of(channel, struct relay, base);
}

static const struct relay *relay_of_const(const struct rpc_channel *channel)
{
	return container_of(channel, struct relay, base);
}

/* --- the other process --- */

/* Never by PATH or from the working folder: it is to be as trustworthy as the engine itself. */
bool relay_program(char *name, size_t size)
{
	const char *program = "nfsmulti-relay", *slash;
	Dl_info self;

	snprintf(name, size, "%s", program);
	if (!dladdr(&rpc_relay, &self))
		return false;
	slash = strrchr(self.dli_fname, '/');
	if (!slash)
		return false;
	snprintf(name, size, "%.*s%s", (int)(slash + 1 - self.dli_fname), self.dli_fname, program);
	return access(name, X_OK) == 0;
}

/*
 * With the socket as its standard input, and nothing else of this process but standard error: who
 * waits for the end of our other files shall not wait for it. Signals of a terminal are not for it:
 * it is needed to tidy up after them.
 */
static int spawn(struct relay *relay, char *const argv[], int socket)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none;
	int error;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, socket, STDIN_FILENO);
	posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attributes, &none);
	error = posix_spawn(&relay->pid, argv[0], &files, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&files);
	return -error;
}

static int name_host(const struct sockaddr_storage *address, socklen_t length,
		     char host[NI_MAXHOST], char port[NI_MAXSERV])
{
	return getnameinfo((const struct sockaddr *)address, length, host, NI_MAXHOST, port,
			   NI_MAXSERV, NI_NUMERICHOST | NI_NUMERICSERV)
		       ? -EINVAL
		       : 0;
}

static int start(struct relay *relay, int socket)
{
	const struct rpc_address *address = &relay->terms.address;
	char program[PATH_MAX], host[NI_MAXHOST], port[NI_MAXSERV];
	char local[NI_MAXHOST], local_port[NI_MAXSERV];
	bool bound = address->local.ss_family != AF_UNSPEC;
	char *const argv[] = {program, host, port, bound ? local : NULL, NULL};
	int error = name_host(&address->remote, address->remote_length, host, port);

	if (!error && bound)
		error = name_host(&address->local, address->local_length, local, local_port);
	if (error)
		return error;
	if (!relay_program(program, sizeof(program)))
		return -ENOENT;
	return spawn(relay, argv, socket);
}

/* --- opening and closing --- */

static int relay_open(struct rpc_channel **channel, const struct rpc_terms *terms)
{
	const int size = SEND_BUFFER;
	struct relay *relay = calloc(1, sizeof(*relay));
	int pair[2], error;

	if (!relay)
		return -ENOMEM;
	relay->base = (struct rpc_channel){&rpc_relay, terms->counters};
	relay->terms = *terms;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		error = -errno;
		free(relay);
		return error;
	}
	relay->fd = pair[0];
	setsockopt(relay->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	error = start(relay, pair[1]);
	close(pair[1]);
	if (error) {
		close(relay->fd);
		free(relay);
		return error;
	}
	*channel = &relay->base;
	return 0;
}

/* The program keeps nothing that would have to be put in order. */
static void relay_close(struct rpc_channel *channel)
{
	struct relay *relay = relay_of(channel);

	close(relay->fd);
	kill(relay->pid, SIGKILL);
	while (waitpid(relay->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(relay);
}

/* --- receiving --- */

struct message {
	struct relay_answer answer;
	uint8_t rest[RELAY_REPLY_MAX];
};

/* The length of what follows a message's beginning; -EAGAIN: there is none, or what failed. */
static int take_message(struct relay *relay, struct message *message)
{
	ssize_t length = recv(relay->fd, message, sizeof(*message), MSG_DONTWAIT);

	relay->base.counters->syscalls++;
	if (length < 0)
		return -errno;
	if (length < (ssize_t)sizeof(message->answer))
		return -ECONNRESET; /* it has ended */
	return (int)(length - (ssize_t)sizeof(message->answer));
}

static int relay_connected(struct rpc_channel *channel)
{
	struct relay *relay = relay_of(channel);
	struct message message;
	int length;

	if (relay->up)
		return 0;
	length = take_message(relay, &message);
	if (length < 0)
		return length == -EAGAIN ? -EINPROGRESS : length;
	relay->up = !message.answer.error;
	return message.answer.error;
}

static int take_reply(struct relay *relay, const struct message *message, uint32_t length)
{
	const struct rpc_handler *handler = relay->terms.handler;
	struct rpc_reply reply = {message->rest, length, true};
	struct rpc_bulk bulk = {0};
	int head = handler->reply(handler->context, &reply, &bulk);

	relay->base.counters->bytes_received += length;
	if (head <= 0)
		return head ?: -EBADMSG;
	if (bulk.token)
		handler->finished(handler->context, bulk.token);
	return 0;
}

static int deliver(struct relay *relay, const struct message *message, uint32_t length)
{
	const struct rpc_handler *handler = relay->terms.handler;
	char why[160];

	if (message->answer.error < 0)
		return message->answer.error;
	if (!message->answer.error)
		return take_reply(relay, message, length);
	snprintf(why, sizeof(why), "%.*s", (int)length, (const char *)message->rest);
	handler->refused(handler->context, message->answer.xid, message->answer.error, why);
	return 0;
}

static short relay_poll_events(const struct rpc_channel *channel)
{
	return (short)(relay_of_const(channel)->full ? POLLIN | POLLOUT : POLLIN);
}

static int relay_receive(struct rpc_channel *channel, bool wait)
{
	struct relay *relay = relay_of(channel);
	struct pollfd poll_fd = {.fd = relay->fd, .events = relay_poll_events(channel)};
	struct message message;
	int length, error = 0;

	if (wait)
		poll(&poll_fd, 1, WAIT_MS);
	relay->full = false; /* until a call finds it so again */
	while (!error && (length = take_message(relay, &message)) >= 0)
		error = deliver(relay, &message, (uint32_t)length);
	if (error)
		return error;
	return length == -EAGAIN ? 0 : length;
}

static bool relay_receiving(const struct rpc_channel *channel)
{
	return false; /* a message comes whole */
}

/* --- sending --- */

/* A socket that can be written to has room for the largest message. */
static bool relay_begin(struct rpc_channel *channel, struct xdr_out *head)
{
	struct relay *relay = relay_of(channel);
	struct pollfd poll_fd = {.fd = relay->fd, .events = POLLOUT};

	if (relay->error)
		return false;
	relay->full = poll(&poll_fd, 1, 0) < 1;
	*head = (struct xdr_out){relay->head, relay->head + sizeof(relay->head), false};
	return !relay->full;
}

static uint64_t relay_queue(struct rpc_channel *channel, uint32_t xid, const struct xdr_out *head,
			    const struct rpc_data *data)
{
	struct relay *relay = relay_of(channel);
	struct relay_call call = {(uint32_t)(head->at - relay->head)};
	struct iovec parts[] = {
		{&call, sizeof(call)},
		{relay->head, call.head},
		{data->at, data->incoming ? 0 : data->length},
	};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts)};
	ssize_t sent = sendmsg(relay->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (sent < 0)
		relay->error = -errno; /* flush() tells */
	else
		channel->counters->bytes_sent += (uint64_t)sent;
	channel->counters->syscalls++;
	return ++relay->sent;
}

static uint64_t relay_sent(const struct rpc_channel *channel)
{
	return relay_of_const(channel)->sent;
}

static int relay_flush(struct rpc_channel *channel)
{
	return relay_of(channel)->error;
}

/* --- the rest of the interface --- */

static int relay_poll_fd(const struct rpc_channel *channel)
{
	return relay_of_const(channel)->fd;
}

static void relay_names(const struct rpc_channel *channel, char *local, char *remote, size_t size)
{
	const struct relay *relay = relay_of_const(channel);

	snprintf(local, size, "process %d", relay->pid);
	rpc_address_text((const struct sockaddr *)&relay->terms.address.remote, remote, size);
}

const struct rpc_channel_ops rpc_relay = {
	.name = "relay",
	.once = true,
	.data_max = RELAY_DATA_MAX,
	.open = relay_open,
	.connected = relay_connected,
	.poll_fd = relay_poll_fd,
	.poll_events = relay_poll_events,
	.begin = relay_begin,
	.queue = relay_queue,
	.sent = relay_sent,
	.flush = relay_flush,
	.receive = relay_receive,
	.receiving = relay_receiving,
	.names = relay_names,
	.close = relay_close,
};
