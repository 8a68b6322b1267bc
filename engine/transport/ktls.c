/* SPDX-License-Identifier: GPL-2.0-only */
/* ktls.c - gives keys to the kernel, and handles the records that the kernel leaves to us. */
#include "transport/tls.h"

#include <endian.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

/* RFC 8446, 5.1 */
enum { RECORD_ALERT = 21, RECORD_HANDSHAKE = 22, RECORD_MAX = 16384 };

/* linux/tls.h has a structure for each cipher, with parts of these sizes in bytes. */
struct cipher {
	gnutls_cipher_algorithm_t gnutls;
	uint16_t kernel;
	uint8_t iv, key, salt;
};

#define CIPHER(gnutls_, kernel_)                                                             \
	{                                                                                    \
		gnutls_, kernel_, kernel_##_IV_SIZE, kernel_##_KEY_SIZE, kernel_##_SALT_SIZE \
	}

static const struct cipher ciphers[] = {
	CIPHER(GNUTLS_CIPHER_AES_128_GCM, TLS_CIPHER_AES_GCM_128),
	CIPHER(GNUTLS_CIPHER_AES_256_GCM, TLS_CIPHER_AES_GCM_256),
	CIPHER(GNUTLS_CIPHER_CHACHA20_POLY1305, TLS_CIPHER_CHACHA20_POLY1305),
};

enum { NUMBER = 8, KEYS_MAX = 64 };

static const struct cipher *cipher_of(gnutls_session_t session)
{
	for (size_t i = 0; i < ARRAY_SIZE(ciphers); i++)
		if (ciphers[i].gnutls == gnutls_cipher_get(session))
			return &ciphers[i];
	return NULL;
}

/* One of linux/tls.h's structures: its parts, without gaps. */
struct keys {
	uint8_t bytes[KEYS_MAX];
	socklen_t length;
};

static void append(struct keys *keys, const void *part, size_t length)
{
	memcpy(keys->bytes + keys->length, part, length);
	keys->length += (socklen_t)length;
}

static int give_keys(int fd, gnutls_session_t session, const struct cipher *cipher, int direction)
{
	const struct tls_crypto_info info = {TLS_1_3_VERSION, cipher->kernel};
	struct keys keys = {.length = 0};
	gnutls_datum_t mac, iv, key;
	uint8_t number[NUMBER];
	int error;

	if (gnutls_record_get_state(session, direction == TLS_RX, &mac, &iv, &key, number) ||
	    iv.size != cipher->salt + cipher->iv || key.size != cipher->key)
		return -ENOTSUP;
	append(&keys, &info, sizeof(info));
	append(&keys, iv.data + cipher->salt, cipher->iv);
	append(&keys, key.data, cipher->key);
	append(&keys, iv.data, cipher->salt);
	append(&keys, number, NUMBER);
	error = setsockopt(fd, SOL_TLS, direction, keys.bytes, keys.length) ? -errno : 0;
	explicit_bzero(&keys, sizeof(keys));
	return error;
}

/* Makes TLS the socket's upper layer. -ENOTCONN: there is TLS, but the socket is not connected. */
static int add_layer(int fd)
{
	static const char name[] = "tls";

	return setsockopt(fd, IPPROTO_TCP, TCP_ULP, name, sizeof(name)) ? -errno : 0;
}

bool ktls_there(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool there = add_layer(fd) == -ENOTCONN;

	if (fd >= 0)
		close(fd);
	return there;
}

/* A kernel accepts a cipher's keys for both directions, or for neither. */
int ktls_begin(int fd, gnutls_session_t session)
{
	const struct cipher *cipher = cipher_of(session);
	const int no_pad = 1;
	int error;

	if (!cipher)
		return -ENOTSUP;
	error = add_layer(fd);
	if (error == -ENOTCONN)
		return -ENOTCONN;
	if (error || give_keys(fd, session, cipher, TLS_RX))
		return -ENOTSUP;
	if (give_keys(fd, session, cipher, TLS_TX))
		return -ECONNABORTED;
	/* Servers seldom pad: the kernel decrypts into place, and only padded records twice. */
	setsockopt(fd, SOL_TLS, TLS_RX_EXPECT_NO_PAD, &no_pad, sizeof(no_pad));
	return 0;
}

uint64_t ktls_records(int fd, gnutls_session_t session)
{
	const struct cipher *cipher = cipher_of(session);
	const uint32_t before =
		sizeof(struct tls_crypto_info) + cipher->iv + cipher->key + cipher->salt;
	uint64_t most = 0, number;

	for (int direction = TLS_TX; direction <= TLS_RX; direction++) {
		struct keys keys = {.length = before + NUMBER};

		if (getsockopt(fd, SOL_TLS, direction, keys.bytes, &keys.length))
			continue;
		memcpy(&number, keys.bytes + before, NUMBER);
		explicit_bzero(&keys, sizeof(keys));
		most = max_of(most, be64toh(number));
	}
	return most;
}

/* --- records of other types than data --- */

/* A message of one record, with its type as control message. */
struct record {
	struct msghdr message;
	struct iovec span;
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(1)];
	} beside;
};

static void record_init(struct record *record, void *bytes, size_t length)
{
	*record = (struct record){.span = {bytes, length}};
	record->message.msg_iov = &record->span;
	record->message.msg_iovlen = 1;
	record->message.msg_control = &record->beside;
	record->message.msg_controllen = sizeof(record->beside);
}

static int judge_alert(const uint8_t *alert, size_t length, char *why)
{
	enum { ALERT = 2 }; /* level, description */

	if (length < ALERT)
		return -EPROTO;
	if (alert[1] == GNUTLS_A_CLOSE_NOTIFY)
		return 0;
	tls_why_alert(why, alert[1]);
	return -ECONNABORTED;
}

/* Beside data a server may send session tickets, which are not used, and KeyUpdate. */
static int judge_handshake(const uint8_t *at, size_t length, uint32_t *ticket)
{
	enum { HEADER = 4 }; /* type, length in three bytes */

	for (;;) {
		uint32_t size = min_of(*ticket, (uint32_t)length);

		at += size;
		length -= size;
		*ticket -= size;
		if (length < HEADER || at[0] != GNUTLS_HANDSHAKE_NEW_SESSION_TICKET)
			break;
		*ticket = HEADER + (uint32_t)(at[1] << 16 | at[2] << 8 | at[3]);
	}
	if (!length)
		return -EAGAIN;
	return at[0] == GNUTLS_HANDSHAKE_KEY_UPDATE ? -EKEYEXPIRED : -EPROTO;
}

static int judge_record(int fd, uint32_t *ticket, char *why)
{
	uint8_t bytes[RECORD_MAX];
	struct record record;
	const struct cmsghdr *type;
	ssize_t length;

	record_init(&record, bytes, sizeof(bytes));
	length = recvmsg(fd, &record.message, MSG_DONTWAIT);
	if (length < 0)
		return -errno;
	type = CMSG_FIRSTHDR(&record.message);
	if (!length && !type)
		return 0; /* the server has closed since */
	if (!type || type->cmsg_level != SOL_TLS || type->cmsg_type != TLS_GET_RECORD_TYPE)
		return -EPROTO;
	switch (*CMSG_DATA(type)) {
	case RECORD_ALERT: return judge_alert(bytes, (size_t)length, why);
	case RECORD_HANDSHAKE: return judge_handshake(bytes, (size_t)length, ticket);
	default: return -EPROTO;
	}
}

int ktls_judge(int fd, int error, uint32_t *ticket, char *why)
{
	switch (error) {
	case -EIO: return judge_record(fd, ticket, why);
	case -EBADMSG:
		snprintf(why, RPC_WHY_MAX, "%s", gnutls_strerror(GNUTLS_E_DECRYPTION_FAILED));
		return -ECONNABORTED;
	default: return error;
	}
}

void ktls_bye(int fd)
{
	uint8_t alert[] = {GNUTLS_AL_WARNING, GNUTLS_A_CLOSE_NOTIFY};
	struct record record;

	record_init(&record, alert, sizeof(alert));
	record.beside.header = (struct cmsghdr){CMSG_LEN(1), SOL_TLS, TLS_SET_RECORD_TYPE};
	*CMSG_DATA(&record.beside.header) = RECORD_ALERT;
	sendmsg(fd, &record.message, MSG_DONTWAIT | MSG_NOSIGNAL);
}
