/* SPDX-License-Identifier: GPL-2.0-only */
#include "transport/tls_session.h"

#include <arpa/inet.h>
#include <endian.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

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

static uint32_t length_of(const struct tls_bytes *bytes)
{
	return bytes->to - bytes->from;
}

/* Turns a code of GnuTLS into an errno; keeps the first failure and its reason. */
static int result_of(struct tls_session *session, ssize_t code)
{
	if (session->failed)
		return session->failed;
	if (code >= 0)
		return 0;
	if (!gnutls_error_is_fatal((int)code))
		return -EAGAIN;
	if (session->ended)
		return session->failed = -ECONNRESET;
	session->failed = -ECONNABORTED;
	if (code == GNUTLS_E_FATAL_ALERT_RECEIVED)
		tls_why_alert(session->why, gnutls_alert_get(session->gnutls));
	else if (code == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR)
		tls_why_certificate(session->why, session->gnutls);
	else
		snprintf(session->why, RPC_WHY_MAX, "%s",
			 code == GNUTLS_E_KEY_USAGE_VIOLATION
				 ? "the server's certificate may not sign (its keyUsage lacks "
				   "digitalSignature): the server needs a new one"
				 : gnutls_strerror((int)code));
	return session->failed;
}

/* --- the socket --- */

static void receive(struct tls_session *session)
{
	struct tls_bytes *in = &session->in;
	int flags = session->may_wait ? 0 : MSG_DONTWAIT;
	uint64_t left;
	ssize_t length;

	left = sampled_leave(&session->counters->tls.crypto);
	length = recv(session->fd, in->at, session->in_most, flags);
	sampled_return(&session->counters->tls.crypto, left);
	session->counters->syscalls++;
	session->may_receive = false;
	in->from = 0;
	in->to = length > 0 ? (uint32_t)length : 0;
	session->ended = !length;
	if (length < 0 && errno != EAGAIN && errno != EINTR)
		session->failed = -errno;
}

static ssize_t pull(gnutls_transport_ptr_t context, void *to, size_t size)
{
	struct tls_session *session = context;
	struct tls_bytes *in = &session->in;
	uint32_t length;

	if (!length_of(in) && session->may_receive && !session->ended)
		receive(session);
	length = min_of((uint32_t)size, length_of(in));
	if (!length && !session->ended) {
		gnutls_transport_set_errno(session->gnutls, session->failed ? EIO : EAGAIN);
		return -1;
	}
	memcpy(to, in->at + in->from, length);
	in->from += length;
	return length;
}

static ssize_t push(gnutls_transport_ptr_t context, const void *from, size_t size)
{
	struct tls_session *session = context;
	struct tls_bytes *out = &session->out;

	if (size > OUT_MAX - out->to) {
		gnutls_transport_set_errno(session->gnutls, EAGAIN);
		return -1;
	}
	memcpy(out->at + out->to, from, size);
	out->to += (uint32_t)size;
	return (ssize_t)size;
}

/* Sends the ciphertext. 0, or a negative errno, not stored in `failed`: an alert may say why. */
static int flush(struct tls_session *session)
{
	struct tls_bytes *out = &session->out;

	while (length_of(out)) {
		ssize_t length = send(session->fd, out->at + out->from, length_of(out),
				      MSG_DONTWAIT | MSG_NOSIGNAL);

		session->counters->syscalls++;
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
	struct tls_session *session = context;

	if (type == RECORD_SIZE_LIMIT && size == sizeof(uint16_t))
		session->limited = (data[0] << 8 | data[1]) <= RECORD_MAX;
	return 0;
}

static int hear_extensions(gnutls_session_t gnutls, unsigned int type, unsigned int when,
			   unsigned int incoming, const gnutls_datum_t *message)
{
	return gnutls_ext_raw_parse(gnutls_session_get_ptr(gnutls), hear_extension, message, 0);
}

/* GnuTLS checks a certificate's purpose only if told to, and takes `name` for a DNS name unless
 * its type is GNUTLS_DT_IP_ADDRESS. */
static int set_name(struct tls_session *session, const char *name)
{
	struct in6_addr *address = &session->address;
	unsigned int size = inet_pton(AF_INET, name, address) == 1    ? sizeof(struct in_addr)
			    : inet_pton(AF_INET6, name, address) == 1 ? sizeof(*address)
								      : 0; /* a DNS name */
	void *wanted = size ? (void *)address : (void *)name;

	session->wanted[0] = (gnutls_typed_vdata_st){
		size ? GNUTLS_DT_IP_ADDRESS : GNUTLS_DT_DNS_HOSTNAME, wanted, size};
	session->wanted[1] = (gnutls_typed_vdata_st){GNUTLS_DT_KEY_PURPOSE_OID,
						     (void *)GNUTLS_KP_TLS_WWW_SERVER, 0};
	gnutls_session_set_verify_cert2(session->gnutls, session->wanted, 2, 0);
	if (size)
		return 0; /* RFC 6066, 3: server_name must not be an address */
	return gnutls_server_name_set(session->gnutls, GNUTLS_NAME_DNS, name, strlen(name));
}

static int set_terms(struct tls_session *session, const struct tls_terms *terms)
{
	static unsigned char sunrpc[] = "sunrpc"; /* RFC 9289, 8.2 */
	const gnutls_datum_t protocol = {sunrpc, sizeof(sunrpc) - 1};

	return gnutls_priority_set_direct(session->gnutls,
					  "NORMAL:-VERS-ALL:+VERS-TLS1.3:%PROFILE_MEDIUM", NULL)
		       ?: gnutls_credentials_set(session->gnutls, GNUTLS_CRD_CERTIFICATE,
						 terms->credentials)
		       ?: gnutls_alpn_set_protocols(session->gnutls, &protocol, 1, 0)
		       ?: set_name(session, terms->name);
}

int tls_session_init(struct tls_session *session, const struct tls_terms *terms, int fd,
		     struct transport_counters *counters, char *why)
{
	const unsigned int flags =
		GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_TICKETS | GNUTLS_NO_AUTO_REKEY |
		GNUTLS_FORCE_CLIENT_CERT; /* whichever authorities the server names */
	int error;

	*session = (struct tls_session){
		.fd = fd, .counters = counters, .why = why, .mutual = terms->mutual};
	session->in.at = malloc(IN_MAX);
	session->out.at = malloc(OUT_MAX);
	session->record = malloc(RECORD_MAX);
	if (!session->in.at || !session->out.at || !session->record)
		return -ENOMEM;
	error = gnutls_init(&session->gnutls, flags);
	if (error)
		return result_of(session, error);
	gnutls_transport_set_ptr(session->gnutls, session);
	gnutls_transport_set_pull_function(session->gnutls, pull);
	gnutls_transport_set_push_function(session->gnutls, push);
	gnutls_session_set_ptr(session->gnutls, session);
	gnutls_handshake_set_hook_function(session->gnutls, GNUTLS_HANDSHAKE_ENCRYPTED_EXTENSIONS,
					   GNUTLS_HOOK_PRE, hear_extensions);
	return result_of(session, set_terms(session, terms));
}

void tls_session_free(struct tls_session *session)
{
	if (session->gnutls)
		gnutls_deinit(session->gnutls);
	free(session->in.at);
	free(session->out.at);
	free(session->record);
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

static int refuse(struct tls_session *session, const char *why)
{
	snprintf(session->why, RPC_WHY_MAX, "%s", why);
	return session->failed = -ECONNABORTED;
}

/* Without a DNS name GnuTLS accepts the certificate's subject; RFC 9525 (2) does not. */
static int check_named(struct tls_session *session)
{
	gnutls_x509_crt_t certificate;
	const gnutls_datum_t *chain;
	unsigned int count;
	bool named;

	if (session->wanted[0].type != GNUTLS_DT_DNS_HOSTNAME)
		return 0;
	chain = gnutls_certificate_get_peers(session->gnutls, &count);
	if (gnutls_x509_crt_init(&certificate))
		return session->failed = -ENOMEM;
	named = !gnutls_x509_crt_import(certificate, chain, GNUTLS_X509_FMT_DER) &&
		has_dns_name(certificate);
	gnutls_x509_crt_deinit(certificate);
	if (named)
		return 0;
	return refuse(session,
		      "the server's certificate has no DNS name in its subjectAltName (its "
		      "subject does not count): the server needs a new one");
}

/* xprtsec=mtls promises that the server asks for the client's certificate. */
static int check_mutual(struct tls_session *session)
{
	if (!session->mutual || (gnutls_certificate_client_get_request_status(session->gnutls) &&
				 gnutls_certificate_get_ours(session->gnutls)))
		return 0;
	return refuse(session, "the server does not ask for the client's certificate: turn "
			       "mutual TLS on there, or use xprtsec=tls");
}

int tls_session_handshake(struct tls_session *session)
{
	int code, error;

	session->in_most = IN_MAX;
	do {
		session->may_receive = true;
		code = gnutls_handshake(session->gnutls);
	} while (code == GNUTLS_E_WARNING_ALERT_RECEIVED);
	error = result_of(session, code);
	flush(session); /* also sends our own alert */
	return session->failed ?: error ?: check_named(session) ?: check_mutual(session);
}

int tls_session_to_kernel(struct tls_session *session)
{
	int error = -ENOTSUP;

	if (tls_session_pending(session)) /* the kernel would miss these bytes */
		return -EBUSY;
	if (session->limited)
		snprintf(session->why, RPC_WHY_MAX,
			 "the server takes shorter TLS records than the kernel makes: use ktls=0");
	else if (tls_session_unsent(session))
		snprintf(session->why, RPC_WHY_MAX,
			 "the end of the TLS handshake is not sent yet: use ktls=0");
	else if ((error = ktls_begin(session->fd, session->gnutls)))
		snprintf(session->why, RPC_WHY_MAX,
			 "the kernel does not take the keys of %s: use ktls=0",
			 tls_session_cipher(session));
	session->in_kernel = !error;
	return error;
}

void tls_session_bye(struct tls_session *session)
{
	if (session->in_kernel) {
		ktls_bye(session->fd);
		return;
	}
	if (session->failed || length_of(&session->out))
		return;
	gnutls_bye(session->gnutls, GNUTLS_SHUT_WR);
	flush(session);
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
static const uint8_t *next_record(struct tls_session *session, struct cursor *cursor,
				  size_t *length)
{
	size_t gathered = 0, part;
	const uint8_t *bytes = take(cursor, RECORD_MAX, length);

	if (!bytes || *length == RECORD_MAX || cursor->count == 1)
		return bytes;
	for (part = *length; bytes; bytes = take(cursor, RECORD_MAX - gathered, &part)) {
		memcpy(session->record + gathered, bytes, part);
		gathered += part;
	}
	*length = gathered;
	return session->record;
}

/* Makes one record, or several where the server wants shorter ones (RFC 8449). */
static int encrypt_record(struct tls_session *session, const uint8_t *bytes, size_t length)
{
	while (length) {
		ssize_t done = gnutls_record_send(session->gnutls, bytes, length);

		if (done < 0)
			return result_of(session, done);
		session->taken += (uint32_t)done;
		bytes += done;
		length -= (size_t)done;
	}
	return 0;
}

static int encrypt(struct tls_session *session, const struct iovec *spans, int count)
{
	struct cursor cursor = {spans, count, 0};
	const uint8_t *bytes;
	size_t length;
	int error = 0;

	sampled_begin(&session->counters->tls.crypto);
	for (int i = 0; !error && i < BATCH; i++) {
		bytes = next_record(session, &cursor, &length);
		if (!bytes)
			break;
		error = encrypt_record(session, bytes, length);
	}
	sampled_end(&session->counters->tls.crypto);
	return error;
}

ssize_t tls_session_write(struct tls_session *session, const struct iovec *spans, int count)
{
	ssize_t taken;
	int error = session->failed;

	if (!error && !session->taken)
		error = encrypt(session, spans, count);
	error = error ?: flush(session);
	if (error)
		return error;
	taken = session->taken;
	session->taken = 0;
	return taken;
}

/* --- receiving --- */

bool tls_session_pending(const struct tls_session *session)
{
	return length_of(&session->in) || session->failed || session->closed ||
	       gnutls_record_check_pending(session->gnutls);
}

/* As much as the spans have room for, but at least a record: the rest stays in the socket. */
static uint32_t worth_receiving(const struct iovec *spans, int count)
{
	size_t room = 0;

	for (int i = 0; i < count; i++)
		room += spans[i].iov_len;
	return (uint32_t)min_of(max_of(room, (size_t)RECORD_ROOM), (size_t)IN_MAX);
}

/* Fills the spans from records; receives from the socket at most once. */
static ssize_t decrypt(struct tls_session *session, const struct iovec *spans, int count)
{
	struct cursor cursor = {spans, count, 0};
	ssize_t total = 0, length;
	const uint8_t *to;
	size_t room;
	int error;

	while ((to = take(&cursor, RECORD_MAX, &room))) {
		length = session->failed ?: gnutls_record_recv(session->gnutls, (void *)to, room);
		error = result_of(session, length);
		session->closed = !length;
		if (error || !length)
			return total ?: error;
		total += length;
		cursor.used -= room - length;
	}
	return total;
}

ssize_t tls_session_read(struct tls_session *session, const struct iovec *spans, int count,
			 bool wait)
{
	ssize_t total;

	session->may_wait = wait;
	session->in_most = worth_receiving(spans, count);
	sampled_begin(&session->counters->tls.crypto);
	total = decrypt(session, spans, count);
	sampled_end(&session->counters->tls.crypto);
	return total;
}

/* --- state --- */

bool tls_session_unsent(const struct tls_session *session)
{
	return length_of(&session->out);
}

static uint64_t records(const struct tls_session *session, unsigned int direction)
{
	uint64_t number;
	uint8_t wire[8];

	if (gnutls_record_get_state(session->gnutls, direction, NULL, NULL, NULL, wire))
		return 0;
	memcpy(&number, wire, sizeof(number));
	return be64toh(number);
}

static uint64_t kernel_records(struct tls_session *session)
{
	uint64_t moved = session->counters->bytes_sent + session->counters->bytes_received, left;

	if (moved >= session->ask_at) {
		session->records = ktls_records(session->fd, session->gnutls);
		left = RECORDS_WORN - min_of(session->records, RECORDS_WORN);
		session->ask_at = moved + max_of(left, ASKED_AFTER);
	}
	return session->records;
}

enum tls_wear tls_session_wear(struct tls_session *session)
{
	uint64_t most = session->in_kernel ? kernel_records(session)
					   : max_of(records(session, 0), records(session, 1));

	return most >= RECORDS_MAX ? TLS_USED_UP : most >= RECORDS_WORN ? TLS_WORN : TLS_FRESH;
}

const char *tls_session_cipher(const struct tls_session *session)
{
	return gnutls_cipher_get_name(gnutls_cipher_get(session->gnutls));
}
