/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tls.c - the input is a record that a server sends beside data, as the kernel hands it over. Its
 * first byte chooses one of these forms, and how many bytes of a session ticket are still to come;
 * the second one is the record's type.
 */
#include <errno.h>
#include <linux/tls.h>
#include <sanitizer/asan_interface.h>
#include <string.h>
#include <sys/socket.h>

#include "fuzz.h"
#include "transport/tls.h"
#include "transport/transport.h"
#include "util.h"

enum form { RECORD, WITHOUT_TYPE, OTHER_LEVEL, OTHER_KIND, NONE, FORMS };
enum { ALERT = 21, HANDSHAKE = 22 };

static struct record {
	enum form form;
	uint8_t type;
	const uint8_t *bytes;
	size_t length;
	uint32_t ticket; /* bytes of it that are still to come */
	uint8_t *behind; /* it, where it was received to: */
	size_t room;	 /* that nobody is to read */
} record;

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
	const struct iovec *space = message->msg_iov;
	struct cmsghdr *beside = CMSG_FIRSTHDR(message);

	if (record.form == NONE) {
		errno = EAGAIN;
		return -1;
	}
	record.length = min_of(record.length, space->iov_len);
	record.behind = mempcpy(space->iov_base, record.bytes, record.length);
	record.room = space->iov_len - record.length;
	ASAN_POISON_MEMORY_REGION(record.behind, record.room);
	beside->cmsg_len = CMSG_LEN(1);
	beside->cmsg_level = record.form == OTHER_LEVEL ? SOL_SOCKET : SOL_TLS;
	beside->cmsg_type = record.form == OTHER_KIND ? TLS_SET_RECORD_TYPE : TLS_GET_RECORD_TYPE;
	*CMSG_DATA(beside) = record.type;
	if (record.form == WITHOUT_TYPE)
		message->msg_controllen = 0;
	return (ssize_t)record.length;
}

static bool is(uint8_t type)
{
	return record.form == RECORD && record.type == type;
}

static void read_record(void)
{
	char why[RPC_WHY_MAX] = "";
	uint32_t ticket = record.ticket;
	int meaning = ktls_judge(-1, -EIO, &ticket, why);

	ASAN_UNPOISON_MEMORY_REGION(record.behind, record.room);
	expect(!ticket || meaning == -EAGAIN || ticket == record.ticket);
	expect(!*why == (meaning != -ECONNABORTED));
	if (record.form == WITHOUT_TYPE)
		expect(!meaning == !record.length); /* the end of the stream */
	switch (meaning) {
	case 0:
		expect(is(ALERT) ? record.bytes[1] == GNUTLS_A_CLOSE_NOTIFY
				 : record.form == WITHOUT_TYPE && !record.length);
		break;
	case -EAGAIN:
		expect(record.form == NONE || is(HANDSHAKE));
		expect(record.length <= record.ticket || record.form == NONE ||
		       record.bytes[record.ticket] == GNUTLS_HANDSHAKE_NEW_SESSION_TICKET);
		break;
	case -EKEYEXPIRED:
		expect(is(HANDSHAKE));
		expect(memchr(record.bytes, GNUTLS_HANDSHAKE_KEY_UPDATE, record.length));
		break;
	case -ECONNABORTED: expect(is(ALERT) && record.bytes[1] != GNUTLS_A_CLOSE_NOTIFY); break;
	default: expect(meaning == -EPROTO);
	}
}

void fuzz_tls(struct input *input)
{
	uint8_t choice = take_byte(input), second = take_byte(input);
	struct iovec rest = take(input, SIZE_MAX);

	record = (struct record){
		.form = choice % FORMS,
		.type = second,
		.bytes = rest.iov_base,
		.length = rest.iov_len,
		.ticket = choice / FORMS,
	};
	read_record();
}
