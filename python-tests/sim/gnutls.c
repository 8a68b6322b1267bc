/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * gnutls.c - what the engine's tls_session.c wants of GnuTLS, in the library's place: a handshake
 * of three records, then records both ways (tls.h), over the two functions that move its
 * bytes.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tls.h"
#include "transport/tls_session.h"
#include "util.h"
#include "wire/message.h"
#include "world.h"

/* Calls that are queued when keys are found to be worn may still go: stream.c's, and the channel's
 * own. */
enum { STILL_GO = 128 + 1 };

struct gnutls_session_int {
	gnutls_transport_ptr_t transport;
	gnutls_pull_func pull;
	gnutls_push_func push;
	int transport_error;

	struct tls_hello hello; /* the client's, and then the server's */
	struct tls_finished finished;
	bool greeted, verifies, forced, over;
	unsigned int status; /* of the server's certificate */
	struct tls_keys in, out;
	struct tls_incoming incoming;
	struct tls_record data; /* yet to be given */
};

/* --- terms --- */

int gnutls_init(gnutls_session_t *session, unsigned int flags)
{
	*session = calloc(1, sizeof(**session));
	if (!*session)
		return GNUTLS_E_MEMORY_ERROR;
	(*session)->forced = flags & GNUTLS_FORCE_CLIENT_CERT;
	return 0;
}

void gnutls_deinit(gnutls_session_t session)
{
	free(session);
}

void gnutls_transport_set_ptr(gnutls_session_t session, gnutls_transport_ptr_t transport)
{
	session->transport = transport;
}

void gnutls_transport_set_pull_function(gnutls_session_t session, gnutls_pull_func pull)
{
	session->pull = pull;
}

void gnutls_transport_set_push_function(gnutls_session_t session, gnutls_push_func push)
{
	session->push = push;
}

void gnutls_transport_set_errno(gnutls_session_t session, int error)
{
	session->transport_error = error;
}

int gnutls_priority_set_direct(gnutls_session_t session, const char *priorities, const char **at)
{
	return 0;
}

int gnutls_credentials_set(gnutls_session_t session, gnutls_credentials_type_t type,
			   void *credentials)
{
	return 0;
}

int gnutls_alpn_set_protocols(gnutls_session_t session, const gnutls_datum_t *protocols,
			      unsigned int count, unsigned int flags)
{
	return 0;
}

int gnutls_server_name_set(gnutls_session_t session, gnutls_server_name_type_t type,
			   const void *name, size_t length)
{
	return 0;
}

void gnutls_session_set_verify_cert2(gnutls_session_t session, gnutls_typed_vdata_st *wanted,
				     unsigned int count, unsigned int flags)
{
	session->verifies = true;
}

void gnutls_session_set_ptr(gnutls_session_t session, void *context)
{
}

void gnutls_handshake_set_hook_function(gnutls_session_t session, unsigned int type, int when,
					gnutls_handshake_hook_func hook)
{
}

/* --- records --- */

static int transport_code(const gnutls_session_t session, int otherwise)
{
	return session->transport_error == EAGAIN ? GNUTLS_E_AGAIN : otherwise;
}

static int put(gnutls_session_t session, enum tls_record_type type, const void *bytes,
	       size_t length)
{
	struct tls_keys keys = session->out;
	uint8_t record[TLS_SIZE_MAX];
	size_t size = tls_record_seal(&keys, type, bytes, length, record);

	if (session->push(session->transport, record, size) < 0)
		return transport_code(session, GNUTLS_E_PUSH_ERROR);
	session->out = keys;
	return 0;
}

static int take(gnutls_session_t session, struct tls_record *record)
{
	struct tls_incoming *incoming = &session->incoming;
	size_t missing;

	if (session->over)
		world_violated("a TLS session that has failed is used");
	while ((missing = tls_record_missing(incoming))) {
		ssize_t length = session->pull(session->transport, incoming->bytes + incoming->have,
					       missing);

		if (length < 0)
			return transport_code(session, GNUTLS_E_PULL_ERROR);
		if (!length)
			return GNUTLS_E_PREMATURE_TERMINATION;
		incoming->have += (size_t)length;
	}
	return tls_record_open(&session->in, incoming, record) ? 0 : GNUTLS_E_DECRYPTION_FAILED;
}

/* --- the handshake --- */

static int greet(gnutls_session_t session)
{
	session->hello.key = world_random(UINT64_MAX);
	session->greeted = true;
	return put(session, TLS_HELLO, &session->hello, sizeof(session->hello));
}

static int refuse(gnutls_session_t session)
{
	session->status = GNUTLS_CERT_INVALID | GNUTLS_CERT_EXPIRED;
	put(session, TLS_REFUSAL, NULL, 0);
	return GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR;
}

int gnutls_handshake(gnutls_session_t session)
{
	struct tls_record record;
	int code = session->greeted ? 0 : greet(session);
	uint64_t half = session->hello.key, key;

	code = code ?: take(session, &record);
	if (code)
		return code;
	memcpy(&session->hello, record.bytes, sizeof(session->hello));
	key = token_key(half, session->hello.key);
	session->in = (struct tls_keys){token_server_key(key), 0};
	session->out = (struct tls_keys){token_client_key(key), 0};
	if (session->hello.wrong && session->verifies)
		return refuse(session);
	/* The server says that it trusts somebody else. */
	session->finished.certificate = session->hello.asks && session->forced;
	return put(session, TLS_FINISHED, &session->finished, sizeof(session->finished));
}

int gnutls_bye(gnutls_session_t session, gnutls_close_request_t how)
{
	return put(session, TLS_CLOSE, NULL, 0);
}

/* --- data --- */

static ssize_t give(gnutls_session_t session, void *to, size_t size)
{
	struct tls_record *data = &session->data;
	size_t part = min_of(size, data->length);

	memcpy(to, data->bytes, part);
	data->bytes += part;
	data->length -= part;
	return (ssize_t)part;
}

ssize_t gnutls_record_send(gnutls_session_t session, const void *bytes, size_t length)
{
	int code = put(session, TLS_DATA, bytes, length);

	if (session->out.number * tls_record_weight() > (1 << 24) + STILL_GO * tls_record_weight())
		world_violated("record %llu goes out by keys that are worn",
			       (unsigned long long)session->out.number);
	return code ?: (ssize_t)length;
}

ssize_t gnutls_record_recv(gnutls_session_t session, void *to, size_t size)
{
	struct tls_record record;
	int code;

	if (session->data.length)
		return give(session, to, size);
	code = take(session, &record);
	if (code) {
		session->over = code != GNUTLS_E_AGAIN;
		return code;
	}
	switch (record.type) {
	case TLS_DATA: session->data = record; return give(session, to, size);
	case TLS_CLOSE: return 0;
	case TLS_REFUSAL: session->over = true; return GNUTLS_E_FATAL_ALERT_RECEIVED;
	case TLS_UPDATE: tls_keys_update(&session->in); break;
	default: break;
	}
	return GNUTLS_E_AGAIN;
}

size_t gnutls_record_check_pending(gnutls_session_t session)
{
	return session->data.length;
}

/* --- what it is --- */

int gnutls_record_get_state(gnutls_session_t session, unsigned int read, gnutls_datum_t *mac,
			    gnutls_datum_t *iv, gnutls_datum_t *key, unsigned char number[8])
{
	const struct tls_keys *keys = read ? &session->in : &session->out;
	uint64_t wire = htobe64(keys->number * tls_record_weight());

	memcpy(number, &wire, sizeof(wire));
	return 0;
}

gnutls_alert_description_t gnutls_alert_get(gnutls_session_t session)
{
	return GNUTLS_A_CERTIFICATE_UNKNOWN;
}

unsigned int gnutls_session_get_verify_cert_status(gnutls_session_t session)
{
	return session->status;
}

unsigned int gnutls_certificate_client_get_request_status(gnutls_session_t session)
{
	return session->hello.asks;
}

const gnutls_datum_t *gnutls_certificate_get_ours(gnutls_session_t session)
{
	static const gnutls_datum_t certificate;

	return session->finished.certificate ? &certificate : NULL;
}

gnutls_cipher_algorithm_t gnutls_cipher_get(gnutls_session_t session)
{
	return GNUTLS_CIPHER_AES_256_GCM;
}

/* --- in the engine's place --- */

/* No files are read. */
int __wrap_tls_credentials_new(struct tls_credentials **credentials, const struct terms *terms,
			       char *why)
{
	*credentials = calloc(1, sizeof(**credentials));
	return *credentials ? 0 : -ENOMEM;
}

/* xids are the same for the same seed. */
void __real_null_call_init(struct null_call *null, uint32_t xid, uint32_t program, uint32_t version,
			   bool probe);
void __wrap_null_call_init(struct null_call *null, uint32_t xid, uint32_t program, uint32_t version,
			   bool probe)
{
	__real_null_call_init(null, (uint32_t)world_random(UINT32_MAX), program, version, probe);
}
