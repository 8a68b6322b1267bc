/* SPDX-License-Identifier: GPL-2.0-only */
/* worn.c - a kernel that says how many records its keys have served for, for tests to call. */
#include <endian.h>
#include <linux/tls.h>
#include <string.h>
#include <sys/socket.h>

#include "transport/tls.h"

static uint64_t records[TLS_RX + 1]; /* by direction */

uint64_t worn_records(uint64_t sent, uint64_t received);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *length);
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *length);
gnutls_cipher_algorithm_t __wrap_gnutls_cipher_get(gnutls_session_t session);

/* The number is the last part of the keys. */
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
	uint64_t number;

	if (level != SOL_TLS)
		return __real_getsockopt(fd, level, name, value, length);
	number = htobe64(records[name]);
	memcpy((uint8_t *)value + *length - sizeof(number), &number, sizeof(number));
	return 0;
}

gnutls_cipher_algorithm_t __wrap_gnutls_cipher_get(gnutls_session_t session)
{
	return GNUTLS_CIPHER_AES_128_GCM;
}

uint64_t worn_records(uint64_t sent, uint64_t received)
{
	records[TLS_TX] = sent;
	records[TLS_RX] = received;
	return ktls_records(-1, NULL);
}
