/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tls.c - an RPC channel over TLS (RFC 9289): a stream (stream.h) on a session (tls_session.h).
 *
 * A channel is connected after four steps: TCP connects, the server answers a probe by STARTTLS,
 * the TLS handshake completes, and the server answers a NULL call over TLS, which alone shows that
 * it accepts the client's certificate. The owner's calls are sent only then, so never in clear.
 */
#include <poll.h>
#include <stdlib.h>

#include "transport/stream.h"
#include "transport/tls_session.h"
#include "util.h"
#include "wire/message.h"

enum stage { STAGE_TCP, STAGE_PROBE, STAGE_HANDSHAKE, STAGE_NULL, STAGE_UP };

struct tls {
	struct stream stream;
	struct tls_session session;
	struct tls_terms *terms;
	enum stage stage;
	struct null_call null;
	uint64_t began; /* the handshake */
	uint64_t acknowledged;
	enum tls_wear wear; /* at the latest flush */
};

static struct tls *tls_of(const struct rpc_channel *channel)
{
	return container_of(stream_of(channel), struct tls, stream);
}

/* --- the stream's write() and read() --- */

static ssize_t tls_write(struct stream *stream, struct iovec *spans, int count)
{
	return tls_session_write(&tls_of(&stream->base)->session, spans, count);
}

static ssize_t tls_read(struct stream *stream, struct iovec *space, int count, bool wait)
{
	return tls_session_read(&tls_of(&stream->base)->session, space, count, wait);
}

/* With kTLS a record other than data makes the receive fail. */
static ssize_t ktls_read(struct stream *stream, struct iovec *space, int count, bool wait)
{
	struct tls *tls = tls_of(&stream->base);
	ssize_t length = stream_recv(stream, space, count, wait);

	if (length < 0)
		length = ktls_judge(stream->base.fd, (int)length, &tls->session.ticket,
				    tls->session.why);
	if (length != -EKEYEXPIRED)
		return length;
	/* A server that changes its keys (KeyUpdate) is expected to do so again. */
	tls->terms->rekeyed = true;
	snprintf(tls->session.why, RPC_WHY_MAX,
		 "the server changed its TLS keys (KeyUpdate), which kTLS cannot follow: %s",
		 tls->terms->ktls == KTLS_ON ? "use ktls=0" : "GnuTLS encrypts from now on");
	return tls->terms->ktls == KTLS_ON ? -ECONNABORTED : -EKEYEXPIRED;
}

/* --- connecting --- */

static void enter(struct tls *tls, enum stage stage)
{
	/* The reason to report if a stage times out, or the server ends it. */
	static const char *const words[] = {
		[STAGE_TCP] = "",
		[STAGE_PROBE] = "no answer to the probe for TLS: does the server offer TLS?",
		[STAGE_HANDSHAKE] = "the server did not finish the TLS handshake",
		[STAGE_NULL] = "the server finished the TLS handshake, but answers no call",
		[STAGE_UP] = "",
	};
	const struct tls_terms *terms = tls->terms;

	tls->stage = stage;
	snprintf(tls->session.why, RPC_WHY_MAX, "%s", words[stage]);
	if (stage == STAGE_PROBE || stage == STAGE_NULL)
		null_call_init(&tls->null, (uint32_t)clock_now(), terms->program, terms->version,
			       stage == STAGE_PROBE);
	if (stage == STAGE_HANDSHAKE)
		tls->began = clock_now();
}

/* The probe goes in clear, the NULL call by TLS. */
static ssize_t move_null(struct tls *tls, bool out, struct iovec *span)
{
	static const struct stream_io clear = {stream_send, stream_recv};
	const struct stream_io *io = tls->stage == STAGE_NULL ? tls->stream.io : &clear;

	return out ? io->write(&tls->stream, span, 1) : io->read(&tls->stream, span, 1, false);
}

static int receive_null(struct tls *tls)
{
	struct null_call *null = &tls->null;
	struct iovec space;
	int error;

	while (!(error = null_call_space(null, &space)) && space.iov_len) {
		ssize_t length = move_null(tls, false, &space);

		if (length <= 0)
			return length ? (int)length : -ECONNRESET;
		null->have += (uint32_t)length;
	}
	return error;
}

/* Sends the NULL call, and receives its reply. */
static int ask(struct tls *tls, struct rpc_reply_header *reply)
{
	struct null_call *null = &tls->null;
	int error;

	while (null->sent < NULL_CALL_SIZE) {
		struct iovec span = {null->call + null->sent, NULL_CALL_SIZE - null->sent};
		ssize_t length = move_null(tls, true, &span);

		if (length == -EAGAIN)
			return -EAGAIN;
		if (length < 0)
			break; /* the server may have said why before it closed */
		null->sent += (uint32_t)length;
	}
	tls->session.may_receive = true;
	error = receive_null(tls);
	return error ?: null_call_decode(null, reply);
}

static int probe(struct tls *tls)
{
	struct rpc_reply_header reply;
	int error = ask(tls, &reply);

	if (error == -ECONNRESET)
		snprintf(
			tls->session.why, RPC_WHY_MAX,
			"the server closes the connection at the probe for TLS: is it starting, or "
			"does it lack TLS? Its log says why");
	if (error)
		return error;
	if (!starttls_offered(&reply)) {
		snprintf(tls->session.why, RPC_WHY_MAX,
			 "the server offers no TLS (it %s): turn TLS on there, or use xprtsec=none",
			 reply.verdict == RPC_SUCCESS ? "answers the probe without STARTTLS"
						      : "denies the probe");
		return -ECONNABORTED;
	}
	enter(tls, STAGE_HANDSHAKE);
	return 0;
}

/* Called if a record arrived before the kernel had the keys. If it ends the session, GnuTLS reports
 * why; else ktls=1 is refused. */
static int refuse_early(struct tls *tls)
{
	uint8_t byte;
	struct iovec span = {&byte, sizeof(byte)};
	ssize_t length = tls_session_read(&tls->session, &span, 1, false);

	if (!length)
		return 0; /* the server has closed: the first call will find that */
	if (length < 0 && length != -EAGAIN)
		return (int)length;
	snprintf(tls->session.why, RPC_WHY_MAX,
		 "the server sends data along with its handshake, which the kernel would miss: use "
		 "ktls=0");
	return -ENOTSUP;
}

/* Gives the kernel the keys right after the handshake, before a record arrives. */
static int enter_kernel(struct tls *tls)
{
	static const struct stream_io io = {stream_send, ktls_read};
	const enum tls_ktls ktls = tls->terms->ktls;
	const bool never = ktls == KTLS_OFF || (ktls == KTLS_AUTO && tls->terms->rekeyed);
	int error = never ? -ENOTSUP : tls_session_to_kernel(&tls->session);

	tls->stream.base.counters->ktls = !error;
	if (!error)
		tls->stream.io = &io;
	/* -ENOTCONN, the server has closed: GnuTLS finds out why. */
	else if (error == -ENOTCONN || ((error == -ENOTSUP || error == -EBUSY) && ktls != KTLS_ON))
		error = 0;
	else if (error == -EBUSY)
		error = refuse_early(tls);
	return error;
}

static int shake_hands(struct tls *tls)
{
	struct security_counters *counters = &tls->stream.base.counters->tls;
	int error = tls_session_handshake(&tls->session);

	if (error)
		return error;
	counters->count++;
	counters->time += clock_now() - tls->began;
	counters->algorithm = tls_session_cipher(&tls->session);
	return enter_kernel(tls);
}

/* Takes one step of the current stage; 0: the next stage has begun. */
static int step(struct tls *tls)
{
	struct rpc_reply_header reply;
	int error;

	switch (tls->stage) {
	case STAGE_TCP: error = tcp_socket_connected(tls->stream.base.fd); break;
	case STAGE_PROBE: return probe(tls);
	case STAGE_HANDSHAKE: error = shake_hands(tls); break;
	default: error = ask(tls, &reply); break;
	}
	if (!error)
		enter(tls, tls->stage + 1);
	return error;
}

static int tls_connected(struct rpc_channel *channel)
{
	struct tls *tls = tls_of(channel);
	int error = 0;

	while (!error && tls->stage != STAGE_UP)
		error = step(tls);
	if (error == -EAGAIN || error == -EINTR)
		return -EINPROGRESS;
	/* Linux's server closes, without an alert, after a handshake of over 5 s: try again. */
	if (tls->stage >= STAGE_HANDSHAKE && (error == -ECONNRESET || error == -EPIPE))
		return -EKEYEXPIRED;
	return error;
}

static short tls_connect_events(const struct rpc_channel *channel)
{
	const struct tls *tls = tls_of(channel);

	if (tls->stage == STAGE_TCP || tls_session_unsent(&tls->session))
		return POLLIN | POLLOUT;
	return POLLIN;
}

/* --- opening and closing --- */

static void free_tls(struct tls *tls, bool at_once)
{
	stream_close(&tls->stream, at_once);
	tls_session_free(&tls->session);
	free(tls);
}

static int tls_open(struct rpc_channel **channel, const struct rpc_terms *terms)
{
	static const struct stream_io io = {tls_write, tls_read};
	struct tls *tls = calloc(1, sizeof(*tls));
	int error = tls ? stream_open(&tls->stream, &io, terms) : -ENOMEM;

	if (error) {
		free(tls);
		return error;
	}
	tls->terms = terms->tls;
	error = tls_session_init(&tls->session, terms->tls, tls->stream.base.fd, terms->counters,
				 terms->why);
	if (error)
		free_tls(tls, true);
	else
		*channel = &tls->stream.base;
	return error;
}

static void tls_close(struct rpc_channel *channel, bool abort)
{
	struct tls *tls = tls_of(channel);
	bool at_once = abort || tcp_socket_unacknowledged(channel->fd);

	if (tls->stage == STAGE_UP && !at_once)
		tls_session_bye(&tls->session);
	free_tls(tls, at_once);
}

/* --- connected --- */

/* Counts bytes as sent when they are encrypted: the server may answer some of them before the rest
 * of their batch is sent. */
static uint64_t tls_sent(const struct rpc_channel *channel)
{
	return stream_sent(channel) + tls_of(channel)->session.taken;
}

static bool tls_begin(struct rpc_channel *channel, struct xdr_out *head)
{
	return tls_of(channel)->wear == TLS_FRESH && stream_begin(channel, head);
}

static void say_worn(const struct tls *tls)
{
	snprintf(tls->session.why, RPC_WHY_MAX,
		 "TLS key limit reached (2^24 records): reconnecting");
}

static bool tls_spent(const struct rpc_channel *channel)
{
	const struct tls *tls = tls_of(channel);

	if (tls->wear == TLS_FRESH)
		return false;
	say_worn(tls);
	return true;
}

static int tls_flush(struct rpc_channel *channel)
{
	struct tls *tls = tls_of(channel);

	tls->wear = tls_session_wear(&tls->session);
	if (tls->wear != TLS_USED_UP)
		return stream_flush(channel);
	say_worn(tls);
	return -ECONNABORTED;
}

/* Reads all that GnuTLS has received, since poll(2) does not report it. */
static int tls_receive(struct rpc_channel *channel, bool wait)
{
	struct tls *tls = tls_of(channel);
	int error;

	tls->session.may_receive = true;
	do {
		error = stream_receive(channel, wait);
		wait = false;
	} while (!error && tls_session_pending(&tls->session));
	return error;
}

/*
 * The socket's unacknowledged ciphertext is longer than its plaintext: the result is never too
 * high, except by a record that kTLS holds back. max_of() keeps it from falling.
 */
static uint64_t tls_acknowledged(const struct rpc_channel *channel)
{
	struct tls *tls = tls_of(channel);
	uint64_t sent = tls->stream.sent;
	uint64_t held = tcp_socket_unacknowledged(channel->fd);

	tls->acknowledged = max_of(tls->acknowledged, sent - min_of(sent, held));
	return tls->acknowledged;
}

const struct rpc_channel_ops rpc_tls = {
	.name = "tcp",
	.traits = RPC_SHAKES_HANDS,
	.open = tls_open,
	.connected = tls_connected,
	.poll_events = stream_poll_events,
	.connect_events = tls_connect_events,
	.begin = tls_begin,
	.queue = stream_queue,
	.sent = tls_sent,
	.flush = tls_flush,
	.spent = tls_spent,
	.receive = tls_receive,
	.receiving = stream_receiving,
	.names = tcp_socket_names,
	.unheard = tcp_socket_unheard,
	.acknowledged = tls_acknowledged,
	.close = tls_close,
};
