/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tls.c - an RPC channel over TLS 1.3 (RFC 9289): a stream (stream.h) whose bytes GnuTLS encrypts,
 * unless the kernel takes over after the handshake.
 *
 * A channel is connected after four steps: TCP connects, the server answers a probe by STARTTLS,
 * the TLS handshake completes, and the server answers a NULL call over TLS, which alone shows that
 * it accepts the client's certificate. The owner's calls are sent only then, so never in clear.
 *
 * Ciphertext lies in two buffers of our own, so that one system call moves many records. What works
 * on the session (all before the part "with the kernel") returns 0 or a count, or a negative errno:
 * -EAGAIN if no data can be moved now, any other if the session has failed, with details in `why`,
 * if there are any. Of these tls_read() alone waits, where it is told to.
 */
#include "transport/tls.h"

#include <arpa/inet.h>
#include <endian.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "transport/stream.h"
#include "util.h"
#include "wire/message.h"

enum {
	RECORD_MAX = 16384, /* plaintext of one record (RFC 8446, 5.1) */
	RECORD_ROOM = RECORD_MAX + 512,
	BATCH = 8, /* records that one system call sends */
	OUT_MAX = (BATCH + 2) * RECORD_ROOM,
	IN_MAX = 8 * RECORD_ROOM,
	DNS_NAME_ROOM = 256, /* a name has 253 characters at most (RFC 1035) */
};

/*
 * AES-GCM's limit is 2^24.5 records per key (RFC 8446, 5.5). Some servers do not survive a
 * KeyUpdate, so the connection is replaced instead: after RECORDS_WORN when all its calls are
 * answered, and after RECORDS_MAX in any case.
 */
static const uint64_t RECORDS_WORN = 1 << 24, RECORDS_MAX = (1 << 24) + (1 << 22);

/*
 * Asking the kernel for its record count takes system calls, which also copy the keys. A record
 * has at least one byte: with n records left until RECORDS_WORN the kernel is asked again after n
 * bytes, but never sooner than after ASKED_AFTER bytes.
 */
static const uint64_t ASKED_AFTER = 1 << 18;

/* How much the session's keys may still be used (RFC 8446, 5.5). */
enum tls_wear {
	TLS_FRESH,
	TLS_WORN,    /* send no new call */
	TLS_USED_UP, /* send nothing */
};

/* Bytes in a buffer: at[from … to) are still to be used. */
struct tls_bytes {
	uint8_t *at;
	uint32_t from, to;
};

enum stage { STAGE_TCP, STAGE_PROBE, STAGE_HANDSHAKE, STAGE_NULL, STAGE_UP };

struct tls {
	struct stream stream;
	struct tls_terms *terms;
	enum stage stage;
	uint64_t began; /* the handshake */

	/* The NULL call of STAGE_PROBE, and that of STAGE_NULL. */
	struct rpc_handler asks;	 /* gets the reply */
	const struct rpc_handler *owner; /* gets all later replies */
	uint32_t xid;
	bool answered;
	bool offered; /* the answer is RPC_SUCCESS with the verifier STARTTLS */
	enum rpc_verdict verdict;

	uint64_t acknowledged;
	enum tls_wear wear; /* at the latest flush */

	/* TLS itself, by GnuTLS. */
	gnutls_session_t gnutls;
	char *why; /* RPC_WHY_MAX bytes */

	struct in6_addr address;	 /* the server's certificate must have it */
	gnutls_typed_vdata_st wanted[2]; /* what GnuTLS checks in the certificate, without a copy */

	struct tls_bytes in, out; /* ciphertext */
	uint8_t *record;	  /* buffer for a record whose bytes lie in several spans */
	uint32_t taken;		  /* bytes of plaintext encrypted into `out` */

	uint32_t in_most; /* bytes that the next receive takes at most */
	bool may_wait;	  /* the next receive may wait */
	bool may_receive; /* the next read may receive */
	bool ended;	  /* recv(2) returned 0 */
	bool closed;	  /* the server has sent close_notify */
	bool limited;	  /* the server has a lower record size limit (RFC 8449) */
	bool in_kernel;	  /* the kernel has the keys, and moves all bytes */
	uint32_t ticket;  /* ktls_judge()'s */
	int failed;	  /* a negative errno */

	/* The kernel's records when last asked, and the moved bytes at which to ask again. */
	uint64_t records, ask_at;
};

static struct tls *tls_of(const struct rpc_channel *channel)
{
	return container_of(stream_of(channel), struct tls, stream);
}

static uint32_t length_of(const struct tls_bytes *bytes)
{
	return bytes->to - bytes->from;
}

/* Turns a code of GnuTLS into an errno; keeps the first failure and its reason. */
static int result_of(struct tls *tls, ssize_t code)
{
	if (tls->failed)
		return tls->failed;
	if (code >= 0)
		return 0;
	if (!gnutls_error_is_fatal((int)code))
		return -EAGAIN;
	if (tls->ended)
		return tls->failed = -ECONNRESET;
	tls->failed = -ECONNABORTED;
	if (code == GNUTLS_E_FATAL_ALERT_RECEIVED)
		tls_why_alert(tls->why, gnutls_alert_get(tls->gnutls));
	else if (code == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR)
		tls_why_certificate(tls->why, tls->gnutls);
	else
		snprintf(tls->why, RPC_WHY_MAX, "%s",
			 code == GNUTLS_E_KEY_USAGE_VIOLATION
				 ? "the server's certificate may not sign (its keyUsage lacks "
				   "digitalSignature): the server needs a new one"
				 : gnutls_strerror((int)code));
	return tls->failed;
}

/* --- the socket --- */

static void receive(struct tls *tls)
{
	struct tls_bytes *in = &tls->in;
	int flags = tls->may_wait ? 0 : MSG_DONTWAIT;
	uint64_t left;
	ssize_t length;

	left = sampled_leave(&tls->stream.base.counters->tls.crypto);
	length = recv(tls->stream.base.fd, in->at, tls->in_most, flags);
	sampled_return(&tls->stream.base.counters->tls.crypto, left);
	tls->stream.base.counters->syscalls++;
	tls->may_receive = false;
	in->from = 0;
	in->to = length > 0 ? (uint32_t)length : 0;
	tls->ended = !length;
	if (length < 0 && errno != EAGAIN && errno != EINTR)
		tls->failed = -errno;
}

static ssize_t pull(gnutls_transport_ptr_t context, void *to, size_t size)
{
	struct tls *tls = context;
	struct tls_bytes *in = &tls->in;
	uint32_t length;

	if (!length_of(in) && tls->may_receive && !tls->ended)
		receive(tls);
	length = min_of((uint32_t)size, length_of(in));
	if (!length && !tls->ended) {
		gnutls_transport_set_errno(tls->gnutls, tls->failed ? EIO : EAGAIN);
		return -1;
	}
	memcpy(to, in->at + in->from, length);
	in->from += length;
	return length;
}

static ssize_t push(gnutls_transport_ptr_t context, const void *from, size_t size)
{
	struct tls *tls = context;
	struct tls_bytes *out = &tls->out;

	if (size > OUT_MAX - out->to) {
		gnutls_transport_set_errno(tls->gnutls, EAGAIN);
		return -1;
	}
	memcpy(out->at + out->to, from, size);
	out->to += (uint32_t)size;
	return (ssize_t)size;
}

/* Sends the ciphertext. 0, or a negative errno, not stored in `failed`: an alert may say why. */
static int flush(struct tls *tls)
{
	struct tls_bytes *out = &tls->out;

	while (length_of(out)) {
		ssize_t length = send(tls->stream.base.fd, out->at + out->from, length_of(out),
				      MSG_DONTWAIT | MSG_NOSIGNAL);

		tls->stream.base.counters->syscalls++;
		if (length < 0)
			return errno == EINTR ? -EAGAIN : -errno;
		out->from += (uint32_t)length;
	}
	out->from = out->to = 0;
	return 0;
}

/* --- a session --- */

/* GnuTLS keeps the server's record size limit, but has no function to ask for the limit. */
static int hear_extension(void *context, unsigned int type, const unsigned char *data,
			  unsigned int size)
{
	enum { RECORD_SIZE_LIMIT = 28 }; /* RFC 8449: counts the content type's byte, too */
	struct tls *tls = context;

	if (type == RECORD_SIZE_LIMIT && size == sizeof(uint16_t))
		tls->limited = (data[0] << 8 | data[1]) <= RECORD_MAX;
	return 0;
}

static int hear_extensions(gnutls_session_t gnutls, unsigned int type, unsigned int when,
			   unsigned int incoming, const gnutls_datum_t *message)
{
	return gnutls_ext_raw_parse(gnutls_session_get_ptr(gnutls), hear_extension, message, 0);
}

/* GnuTLS checks a certificate's purpose only if told to, and takes `name` for a DNS name unless
 * its type is GNUTLS_DT_IP_ADDRESS. */
static int set_name(struct tls *tls, const char *name)
{
	struct in6_addr *address = &tls->address;
	unsigned int size = inet_pton(AF_INET, name, address) == 1    ? sizeof(struct in_addr)
			    : inet_pton(AF_INET6, name, address) == 1 ? sizeof(*address)
								      : 0; /* a DNS name */
	void *wanted = size ? (void *)address : (void *)name;

	tls->wanted[0] = (gnutls_typed_vdata_st){
		size ? GNUTLS_DT_IP_ADDRESS : GNUTLS_DT_DNS_HOSTNAME, wanted, size};
	tls->wanted[1] = (gnutls_typed_vdata_st){GNUTLS_DT_KEY_PURPOSE_OID,
						 (void *)GNUTLS_KP_TLS_WWW_SERVER, 0};
	gnutls_session_set_verify_cert2(tls->gnutls, tls->wanted, 2, 0);
	if (size)
		return 0; /* RFC 6066, 3: server_name must not be an address */
	return gnutls_server_name_set(tls->gnutls, GNUTLS_NAME_DNS, name, strlen(name));
}

static int set_terms(struct tls *tls)
{
	static unsigned char sunrpc[] = "sunrpc"; /* RFC 9289, 8.2 */
	const gnutls_datum_t protocol = {sunrpc, sizeof(sunrpc) - 1};

	return gnutls_priority_set_direct(tls->gnutls,
					  "NORMAL:-VERS-ALL:+VERS-TLS1.3:%PROFILE_MEDIUM", NULL)
		       ?: gnutls_credentials_set(tls->gnutls, GNUTLS_CRD_CERTIFICATE,
						 tls->terms->credentials)
		       ?: gnutls_alpn_set_protocols(tls->gnutls, &protocol, 1, 0)
		       ?: set_name(tls, tls->terms->name);
}

static int init(struct tls *tls)
{
	const unsigned int flags =
		GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_TICKETS | GNUTLS_NO_AUTO_REKEY |
		GNUTLS_FORCE_CLIENT_CERT; /* whichever authorities the server names */
	int error;

	tls->in.at = malloc(IN_MAX);
	tls->out.at = malloc(OUT_MAX);
	tls->record = malloc(RECORD_MAX);
	if (!tls->in.at || !tls->out.at || !tls->record)
		return -ENOMEM;
	error = gnutls_init(&tls->gnutls, flags);
	if (error)
		return result_of(tls, error);
	gnutls_transport_set_ptr(tls->gnutls, tls);
	gnutls_transport_set_pull_function(tls->gnutls, pull);
	gnutls_transport_set_push_function(tls->gnutls, push);
	gnutls_session_set_ptr(tls->gnutls, tls);
	gnutls_handshake_set_hook_function(tls->gnutls, GNUTLS_HANDSHAKE_ENCRYPTED_EXTENSIONS,
					   GNUTLS_HOOK_PRE, hear_extensions);
	return result_of(tls, set_terms(tls));
}

/* Searches as GnuTLS does: a name that is too long ends the search, and GnuTLS uses the subject. */
static bool has_dns_name(gnutls_x509_crt_t certificate)
{
	int kind = 0;

	for (unsigned int i = 0; kind >= 0 && kind != GNUTLS_SAN_DNSNAME; i++) {
		char name[DNS_NAME_ROOM];
		size_t size = sizeof(name);

		kind = gnutls_x509_crt_get_subject_alt_name(certificate, i, name, &size, NULL);
	}
	return kind == GNUTLS_SAN_DNSNAME;
}

static int refuse(struct tls *tls, const char *why)
{
	snprintf(tls->why, RPC_WHY_MAX, "%s", why);
	return tls->failed = -ECONNABORTED;
}

/* Without a DNS name GnuTLS accepts the certificate's subject; RFC 9525 (2) does not. */
static int check_named(struct tls *tls)
{
	gnutls_x509_crt_t certificate;
	const gnutls_datum_t *chain;
	unsigned int count;
	bool named;

	if (tls->wanted[0].type != GNUTLS_DT_DNS_HOSTNAME)
		return 0;
	chain = gnutls_certificate_get_peers(tls->gnutls, &count);
	if (gnutls_x509_crt_init(&certificate))
		return tls->failed = -ENOMEM;
	named = !gnutls_x509_crt_import(certificate, chain, GNUTLS_X509_FMT_DER) &&
		has_dns_name(certificate);
	gnutls_x509_crt_deinit(certificate);
	if (named)
		return 0;
	return refuse(tls, "the server's certificate has no DNS name in its subjectAltName (its "
			   "subject does not count): the server needs a new one");
}

/* xprtsec=mtls promises that the server asks for the client's certificate. */
static int check_mutual(struct tls *tls)
{
	if (!tls->terms->mutual || (gnutls_certificate_client_get_request_status(tls->gnutls) &&
				    gnutls_certificate_get_ours(tls->gnutls)))
		return 0;
	return refuse(tls, "the server does not ask for the client's certificate: turn "
			   "mutual TLS on there, or use xprtsec=tls");
}

static bool is_unsent(const struct tls *tls)
{
	return length_of(&tls->out);
}

/* True where more can be read: poll(2) does not report bytes received before. */
static bool is_pending(const struct tls *tls)
{
	return length_of(&tls->in) || tls->failed || tls->closed ||
	       gnutls_record_check_pending(tls->gnutls);
}

static const char *cipher_name(const struct tls *tls)
{
	return gnutls_cipher_get_name(gnutls_cipher_get(tls->gnutls));
}

/* One step of the handshake. */
static int handshake(struct tls *tls)
{
	int code, error;

	tls->in_most = IN_MAX;
	do {
		tls->may_receive = true;
		code = gnutls_handshake(tls->gnutls);
	} while (code == GNUTLS_E_WARNING_ALERT_RECEIVED);
	error = result_of(tls, code);
	flush(tls); /* also sends our own alert */
	return tls->failed ?: error ?: check_named(tls) ?: check_mutual(tls);
}

/*
 * Hands the session to the kernel, right after the handshake. 0: the socket now sends and receives
 * plaintext, and tls_write() and tls_read() must not be used any more. -ENOTSUP, with a reason in
 * `why`, -ENOTCONN (see ktls_begin()), or -EBUSY (data was already received): the session stays as
 * it was. Another negative errno: it has failed.
 */
static int to_kernel(struct tls *tls)
{
	int error = -ENOTSUP;

	if (is_pending(tls)) /* the kernel would miss these bytes */
		return -EBUSY;
	if (tls->limited)
		snprintf(tls->why, RPC_WHY_MAX,
			 "the server takes shorter TLS records than the kernel makes: use ktls=0");
	else if (is_unsent(tls))
		snprintf(tls->why, RPC_WHY_MAX,
			 "the end of the TLS handshake is not sent yet: use ktls=0");
	else if ((error = ktls_begin(tls->stream.base.fd, tls->gnutls)))
		snprintf(tls->why, RPC_WHY_MAX,
			 "the kernel does not take the keys of %s: use ktls=0", cipher_name(tls));
	tls->in_kernel = !error;
	return error;
}

/* Sends close_notify, if it can leave at once. */
static void say_bye(struct tls *tls)
{
	if (tls->in_kernel) {
		ktls_bye(tls->stream.base.fd);
		return;
	}
	if (tls->failed || length_of(&tls->out))
		return;
	gnutls_bye(tls->gnutls, GNUTLS_SHUT_WR);
	flush(tls);
}

/* --- sending --- */

/* A position in spans: `used` bytes of the first are done. */
struct cursor {
	const struct iovec *spans;
	int count;
	size_t used;
};

/* Takes up to `most` bytes off the first span that has any; NULL: none has, or `most` is 0. */
static const uint8_t *take(struct cursor *cursor, size_t most, size_t *length)
{
	const uint8_t *bytes;

	while (most && cursor->count && cursor->used == cursor->spans->iov_len) {
		cursor->spans++;
		cursor->count--;
		cursor->used = 0;
	}
	if (!most || !cursor->count)
		return NULL;
	bytes = (const uint8_t *)cursor->spans->iov_base + cursor->used;
	*length = min_of(most, cursor->spans->iov_len - cursor->used);
	cursor->used += *length;
	return bytes;
}

/* Returns the bytes of the next record: in place if one span has them all, else gathered. */
static const uint8_t *next_record(struct tls *tls, struct cursor *cursor, size_t *length)
{
	size_t gathered = 0, part;
	const uint8_t *bytes = take(cursor, RECORD_MAX, length);

	if (!bytes || *length == RECORD_MAX || cursor->count == 1)
		return bytes;
	for (part = *length; bytes; bytes = take(cursor, RECORD_MAX - gathered, &part)) {
		memcpy(tls->record + gathered, bytes, part);
		gathered += part;
	}
	*length = gathered;
	return tls->record;
}

/* Makes one record, or several where the server wants shorter ones (RFC 8449). */
static int encrypt_record(struct tls *tls, const uint8_t *bytes, size_t length)
{
	while (length) {
		ssize_t done = gnutls_record_send(tls->gnutls, bytes, length);

		if (done < 0)
			return result_of(tls, done);
		tls->taken += (uint32_t)done;
		bytes += done;
		length -= (size_t)done;
	}
	return 0;
}

static int encrypt(struct tls *tls, const struct iovec *spans, int count)
{
	struct cursor cursor = {spans, count, 0};
	const uint8_t *bytes;
	size_t length;
	int error = 0;

	sampled_begin(&tls->stream.base.counters->tls.crypto);
	for (int i = 0; !error && i < BATCH; i++) {
		bytes = next_record(tls, &cursor, &length);
		if (!bytes)
			break;
		error = encrypt_record(tls, bytes, length);
	}
	sampled_end(&tls->stream.base.counters->tls.crypto);
	return error;
}

/* Sends a batch of the spans' bytes. Returns their count once the socket has all their ciphertext;
 * after -EAGAIN the caller must pass the same bytes again. */
static ssize_t tls_write(struct stream *stream, struct iovec *spans, int count)
{
	struct tls *tls = tls_of(&stream->base);
	ssize_t taken;
	int error = tls->failed;

	if (!error && !tls->taken)
		error = encrypt(tls, spans, count);
	error = error ?: flush(tls);
	if (error)
		return error;
	taken = tls->taken;
	tls->taken = 0;
	return taken;
}

/* --- receiving --- */

/* As much as the spans have room for, but at least a record: the rest stays in the socket. */
static uint32_t worth_receiving(const struct iovec *spans, int count)
{
	size_t room = 0;

	for (int i = 0; i < count; i++)
		room += spans[i].iov_len;
	return (uint32_t)min_of(max_of(room, (size_t)RECORD_ROOM), (size_t)IN_MAX);
}

/* Fills the spans from records; receives from the socket at most once. */
static ssize_t decrypt(struct tls *tls, const struct iovec *spans, int count)
{
	struct cursor cursor = {spans, count, 0};
	ssize_t total = 0, length;
	const uint8_t *to;
	size_t room;
	int error;

	while ((to = take(&cursor, RECORD_MAX, &room))) {
		length = tls->failed ?: gnutls_record_recv(tls->gnutls, (void *)to, room);
		error = result_of(tls, length);
		tls->closed = !length;
		if (error || !length)
			return total ?: error;
		total += length;
		cursor.used -= room - length;
	}
	return total;
}

/*
 * Receives into the spans; 0 at the end of the stream. With `may_receive` the first read without
 * buffered data receives from the socket once; with `wait` it waits for WAIT_SLICE_MS at most.
 */
static ssize_t tls_read(struct stream *stream, struct iovec *spans, int count, bool wait)
{
	struct tls *tls = tls_of(&stream->base);
	ssize_t total;

	tls->may_wait = wait;
	tls->in_most = worth_receiving(spans, count);
	sampled_begin(&tls->stream.base.counters->tls.crypto);
	total = decrypt(tls, spans, count);
	sampled_end(&tls->stream.base.counters->tls.crypto);
	return total;
}

/* Reads all that GnuTLS has received, since poll(2) does not report it. */
static int tls_receive(struct rpc_channel *channel, bool wait)
{
	struct tls *tls = tls_of(channel);
	int error;

	tls->may_receive = true;
	do {
		error = stream_receive(channel, wait);
		wait = false;
	} while (!error && is_pending(tls));
	return error;
}

/* --- state --- */

static uint64_t records(const struct tls *tls, unsigned int direction)
{
	uint64_t number;
	uint8_t wire[8];

	if (gnutls_record_get_state(tls->gnutls, direction, NULL, NULL, NULL, wire))
		return 0;
	memcpy(&number, wire, sizeof(number));
	return be64toh(number);
}

static uint64_t kernel_records(struct tls *tls)
{
	uint64_t moved = tls->stream.base.counters->bytes_sent +
			 tls->stream.base.counters->bytes_received,
		 left;

	if (moved >= tls->ask_at) {
		tls->records = ktls_records(tls->stream.base.fd, tls->gnutls);
		left = RECORDS_WORN - min_of(tls->records, RECORDS_WORN);
		tls->ask_at = moved + max_of(left, ASKED_AFTER);
	}
	return tls->records;
}

static enum tls_wear wear_of(struct tls *tls)
{
	uint64_t most =
		tls->in_kernel ? kernel_records(tls) : max_of(records(tls, 0), records(tls, 1));

	return most >= RECORDS_MAX ? TLS_USED_UP : most >= RECORDS_WORN ? TLS_WORN : TLS_FRESH;
}

/* --- with the kernel --- */

/* With kTLS a record other than data makes the receive fail. */
static ssize_t ktls_read(struct stream *stream, struct iovec *space, int count, bool wait)
{
	struct tls *tls = tls_of(&stream->base);
	ssize_t length = stream_recv(stream, space, count, wait);

	if (length < 0)
		length = ktls_judge(stream->base.fd, (int)length, &tls->ticket, tls->why);
	if (length != -EKEYEXPIRED)
		return length;
	/* A server that changes its keys (KeyUpdate) is expected to do so again. */
	tls->terms->rekeyed = true;
	snprintf(tls->why, RPC_WHY_MAX,
		 "the server changed its TLS keys (KeyUpdate), which kTLS cannot follow: %s",
		 tls->terms->ktls == KTLS_ON ? "use ktls=0" : "GnuTLS encrypts from now on");
	return tls->terms->ktls == KTLS_ON ? -ECONNABORTED : -EKEYEXPIRED;
}

/* A record that was forged fails the next call for the socket, whichever that is. */
static ssize_t ktls_write(struct stream *stream, struct iovec *spans, int count)
{
	struct tls *tls = tls_of(&stream->base);
	ssize_t length = stream_send(stream, spans, count);

	return length == -EBADMSG ? ktls_judge(stream->base.fd, -EBADMSG, &tls->ticket, tls->why)
				  : length;
}

/* --- connecting --- */

/*
 * A client asks for TLS by a probe (RFC 9289, 4.1): a NULL call whose credential has the flavor
 * AUTH_TLS. To accept, the server replies with the verifier STARTTLS. A NULL call without
 * credentials, over TLS, then asks whether the server accepts the client.
 */
static void queue_null(struct tls *tls)
{
	enum { AUTH_TLS = 7, NULL_PROCEDURE = 0 };
	const struct rpc_payload none = {0};
	struct xdr_out head;

	tls->xid = (uint32_t)clock_now();
	tls->answered = false;
	if (!stream_begin(&tls->stream.base, &head)) /* no memory: the flush fails */
		return;
	rpc_encode_header(&head, tls->xid, tls->terms->program, tls->terms->version,
			  NULL_PROCEDURE);
	rpc_put_empty(&head, tls->stage == STAGE_PROBE ? AUTH_TLS : RPC_AUTH_NONE);
	rpc_put_empty(&head, RPC_AUTH_NONE);
	stream_queue(&tls->stream.base, tls->xid, &head, &none);
}

/* struct rpc_handler's reply(); the second reply to one call breaks the protocol, too. */
static int take_answer(void *context, const struct rpc_reply *message, struct rpc_bulk *bulk)
{
	static const uint8_t starttls[] = {'S', 'T', 'A', 'R', 'T', 'T', 'L', 'S'};
	struct xdr_in in = {message->message, message->message + message->have, false};
	struct tls *tls = context;
	struct rpc_reply_header reply;

	if (!message->whole)
		return 0;
	rpc_decode_reply(&in, &reply);
	if (in.bad || reply.verdict == RPC_NOT_A_REPLY || reply.xid != tls->xid || tls->answered)
		return -EPROTO;
	tls->answered = true;
	tls->verdict = reply.verdict;
	tls->offered = reply.verdict == RPC_SUCCESS && reply.verifier.flavor == RPC_AUTH_NONE &&
		       reply.verifier.length == sizeof(starttls) &&
		       !memcmp(reply.verifier.body, starttls, sizeof(starttls));
	return (int)message->have;
}

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

	tls->stage = stage;
	snprintf(tls->why, RPC_WHY_MAX, "%s", words[stage]);
	if (stage == STAGE_PROBE || stage == STAGE_NULL)
		queue_null(tls);
	if (stage == STAGE_HANDSHAKE)
		tls->began = clock_now();
	if (stage == STAGE_UP)
		tls->stream.reader.handler = tls->owner;
}

/* Sends the NULL call, and receives its reply, behind which nothing may follow. */
static int ask(struct tls *tls)
{
	struct rpc_channel *channel = &tls->stream.base;
	int error;

	error = stream_flush(channel);
	if (error == -ENOMEM)
		return error;
	/* After any other error the server may have said why before it closed. */
	error = tls_receive(channel, false);
	if (error == -ECONNRESET && tls->answered)
		error = 0; /* what comes next finds the end */
	if (error || !tls->answered)
		return error ?: -EAGAIN;
	return stream_receiving(channel) ? -EPROTO : 0;
}

static int probe(struct tls *tls)
{
	static const struct stream_io io = {tls_write, tls_read};
	int error = ask(tls);

	if (error == -ECONNRESET)
		snprintf(
			tls->why, RPC_WHY_MAX,
			"the server closes the connection at the probe for TLS: is it starting, or "
			"does it lack TLS? Its log says why");
	if (error)
		return error;
	if (!tls->offered) {
		snprintf(tls->why, RPC_WHY_MAX,
			 "the server offers no TLS (it %s): turn TLS on there, or use xprtsec=none",
			 tls->verdict == RPC_SUCCESS ? "answers the probe without STARTTLS"
						     : "denies the probe");
		return -ECONNABORTED;
	}
	tls->stream.io = &io;
	return 0;
}

/* Called if a record arrived before the kernel had the keys. If it ends the session, GnuTLS reports
 * why; else ktls=1 is refused. */
static int refuse_early(struct tls *tls)
{
	uint8_t byte;
	struct iovec span = {&byte, sizeof(byte)};
	ssize_t length = tls_read(&tls->stream, &span, 1, false);

	if (!length)
		return 0; /* the server has closed: the first call will find that */
	if (length < 0 && length != -EAGAIN)
		return (int)length;
	snprintf(tls->why, RPC_WHY_MAX,
		 "the server sends data along with its handshake, which the kernel would miss: use "
		 "ktls=0");
	return -ENOTSUP;
}

/* Gives the kernel the keys right after the handshake, before a record arrives. */
static int enter_kernel(struct tls *tls)
{
	static const struct stream_io io = {ktls_write, ktls_read};
	const enum tls_ktls ktls = tls->terms->ktls;
	const bool never = ktls == KTLS_OFF || (ktls == KTLS_AUTO && tls->terms->rekeyed);
	int error = never ? -ENOTSUP : to_kernel(tls);

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
	int error = handshake(tls);

	if (error)
		return error;
	counters->count++;
	counters->time += clock_now() - tls->began;
	counters->algorithm = cipher_name(tls);
	return enter_kernel(tls);
}

/* Takes one step of the current stage; 0: the next stage has begun. */
static int step(struct tls *tls)
{
	int error;

	switch (tls->stage) {
	case STAGE_TCP: error = tcp_socket_connected(tls->stream.base.fd); break;
	case STAGE_PROBE: error = probe(tls); break;
	case STAGE_HANDSHAKE: error = shake_hands(tls); break;
	default: error = ask(tls); break;
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

	if (tls->stage == STAGE_TCP || is_unsent(tls))
		return POLLIN | POLLOUT;
	return stream_poll_events(channel);
}

/* --- opening and closing --- */

static void free_tls(struct tls *tls, bool at_once)
{
	stream_close(&tls->stream, at_once);
	if (tls->gnutls)
		gnutls_deinit(tls->gnutls);
	free(tls->in.at);
	free(tls->out.at);
	free(tls->record);
	free(tls);
}

static int tls_open(struct rpc_channel **channel, const struct rpc_terms *terms)
{
	static const struct stream_io clear = {stream_send, stream_recv};
	struct tls *tls = calloc(1, sizeof(*tls));
	int error = tls ? stream_open(&tls->stream, &clear, terms) : -ENOMEM;

	if (error) {
		free(tls);
		return error;
	}
	tls->terms = terms->tls;
	tls->why = terms->why;
	tls->owner = terms->handler;
	tls->asks = (struct rpc_handler){.reply = take_answer, .context = tls};
	tls->stream.reader.handler = &tls->asks;
	error = init(tls);
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
		say_bye(tls);
	free_tls(tls, at_once);
}

/* --- connected --- */

/* Counts bytes as sent when they are encrypted: the server may answer some of them before the rest
 * of their batch is sent. */
static uint64_t tls_sent(const struct rpc_channel *channel)
{
	return stream_sent(channel) + tls_of(channel)->taken;
}

static bool tls_begin(struct rpc_channel *channel, struct xdr_out *head)
{
	return tls_of(channel)->wear == TLS_FRESH && stream_begin(channel, head);
}

static void say_worn(const struct tls *tls)
{
	snprintf(tls->why, RPC_WHY_MAX, "TLS key limit reached (2^24 records): reconnecting");
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

	tls->wear = wear_of(tls);
	if (tls->wear != TLS_USED_UP)
		return stream_flush(channel);
	say_worn(tls);
	return -ECONNABORTED;
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
