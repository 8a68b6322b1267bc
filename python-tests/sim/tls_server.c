/* SPDX-License-Identifier: GPL-2.0-only */
#include "tls.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "server.h"
#include "util.h"
#include "wire/message.h"
#include "wire/record.h"
#include "world.h"

/* --- records --- */

static uint64_t next_key(struct tls_keys *keys)
{
	return token_key(keys->key, keys->number++);
}

void tls_keys_update(struct tls_keys *keys)
{
	*keys = (struct tls_keys){.key = token_key(keys->key, TLS_UPDATE)};
}

size_t tls_record_seal(struct tls_keys *keys, enum tls_record_type type, const void *bytes,
		       size_t length, uint8_t *record)
{
	uint8_t wire_type = (uint8_t)type;
	const struct iovec parts[] = {{&wire_type, 1}, {(void *)bytes, length}};
	uint16_t size = htobe16((uint16_t)(TOKEN_WRAP + 1 + length));

	memcpy(record, &size, TLS_HEAD);
	token_wrap(next_key(keys), parts, 2, record + TLS_HEAD);
	return TLS_HEAD + TOKEN_WRAP + 1 + length;
}

static size_t size_of(const struct tls_incoming *incoming)
{
	uint16_t size;

	memcpy(&size, incoming->bytes, TLS_HEAD);
	return TLS_HEAD + min_of((size_t)be16toh(size), sizeof(incoming->bytes) - TLS_HEAD);
}

size_t tls_record_missing(const struct tls_incoming *incoming)
{
	if (incoming->have < TLS_HEAD)
		return TLS_HEAD - incoming->have;
	return size_of(incoming) - incoming->have;
}

bool tls_record_open(struct tls_keys *keys, struct tls_incoming *incoming,
		     struct tls_record *record)
{
	uint32_t length;
	uint8_t *plain;
	bool good = token_unwrap(next_key(keys), incoming->bytes + TLS_HEAD,
				 (uint32_t)(incoming->have - TLS_HEAD), &plain, &length);

	incoming->have = 0;
	if (!good || !length)
		return false;
	*record = (struct tls_record){(enum tls_record_type) * plain, plain + 1, length - 1};
	return true;
}

/* --- connections --- */

enum { AUTH_TLS = 7 };

/* A connection over TLS. */
struct tls_end {
	LIST_ENTRY(tls_end) link;
	struct link_end *end;
	enum { IN_CLEAR, GREETED, SHAKEN } stage;
	struct tls_hello hello; /* that it was answered by */
	struct tls_keys in, out;
	struct tls_incoming incoming;
};

static LIST_HEAD(, tls_end) ends;

static struct {
	struct tls_faults faults;
	enum { WELL, SILENT, DENIES, CLOSES, WRONG, ASKS_NOT, REFUSES } state;
} tls;

void tls_server_begin(const struct tls_faults *faults)
{
	tls.faults = (struct tls_faults){.paths = faults->paths, .mutual = faults->mutual};
	tls.state = WELL;
}

void tls_server_fail(const struct tls_faults *faults)
{
	tls.faults = *faults;
}

void tls_server_heal(void)
{
	const struct tls_faults faults = tls.faults;

	tls_server_begin(&faults);
	tls.faults.worn = faults.worn;
}

uint64_t tls_record_weight(void)
{
	return tls.faults.worn ? (1 << 24) / tls.faults.worn : 1;
}

/* --- what fails --- */

static void turn_back(void *context)
{
	tls.state = WELL;
}

static void turn_by_chance(void)
{
	if (!world_chance(tls.faults.turn_in))
		return;
	tls.state = SILENT + (uint32_t)world_random(tls.faults.mutual ? 6 : 4);
	world_tell("server: its TLS fails, as state %u has it", tls.state);
	world_plan(world_random(20 * SEC), turn_back, NULL, NULL);
}

void tls_server_restart(void)
{
	turn_by_chance();
}

/* --- sending --- */

static void send_record(struct tls_end *one, enum tls_record_type type, const void *bytes,
			size_t length)
{
	uint8_t record[TLS_SIZE_MAX];
	size_t size = tls_record_seal(&one->out, type, bytes, length, record);

	if (one->stage == SHAKEN && world_chance(tls.faults.forge_in)) {
		world.failures[FAILED_CHANGED]++;
		record[TLS_HEAD + world_random(size - TLS_HEAD)] ^= 1 + world_random(255);
	}
	network_send(one->end, record, size);
}

static void update_by_chance(struct tls_end *one)
{
	static const uint8_t ticket[100];

	if (!world_chance(tls.faults.update_in))
		return;
	send_record(one, TLS_TICKET, ticket, world_random(sizeof(ticket)));
	if (!world_random(2))
		return;
	send_record(one, TLS_UPDATE, NULL, 0);
	tls_keys_update(&one->out);
}

/* Instead of the record, or of what would follow it. */
static void end_within(struct tls_end *one, const void *bytes, size_t length)
{
	uint8_t record[TLS_SIZE_MAX];
	size_t size = tls_record_seal(&one->out, TLS_DATA, bytes, length, record);

	world.failures[FAILED_RESET]++;
	network_send(one->end, record, 1 + world_random(size - 1));
	network_finish(one->end);
}

static struct tls_end *find(const struct link_end *end)
{
	struct tls_end *one;

	LIST_FOREACH (one, &ends, link)
		if (one->end == end)
			return one;
	return NULL;
}

void tls_server_send(struct link_end *end, const void *bytes, size_t length)
{
	struct tls_end *one = find(end);
	size_t part;

	if (!one) {
		network_send(end, bytes, length);
		return;
	}
	update_by_chance(one);
	for (const uint8_t *at = bytes; length; at += part, length -= part) {
		part = min_of(length, (size_t)TLS_PLAIN_MAX);
		if (!world_random(4))
			part = 1 + world_random(part);
		if (world_chance(tls.faults.end_in)) {
			end_within(one, at, part);
			return;
		}
		send_record(one, TLS_DATA, at, part);
	}
	if (!world_chance(tls.faults.end_in))
		return;
	send_record(one, TLS_CLOSE, NULL, 0);
	network_finish(end);
}

/* --- the probe --- */

static void answer_probe(struct tls_end *one, uint32_t xid)
{
	const uint32_t offers[] = {
		htobe32(RECORD_LAST_FRAGMENT | 32), xid, htobe32(1), 0, 0, htobe32(8), 0, 0, 0};
	const uint32_t silent[] = {htobe32(RECORD_LAST_FRAGMENT | 24), xid, htobe32(1), 0, 0, 0, 0};
	const uint32_t denies[] = {htobe32(RECORD_LAST_FRAGMENT | 20),
				   xid,
				   htobe32(1),
				   htobe32(1),
				   htobe32(1),
				   htobe32(2)}; /* AUTH_REJECTEDCRED */
	uint8_t reply[sizeof(offers)];

	world.failures[FAILED_HANDSHAKE] += tls.state != WELL;
	switch (tls.state) {
	case SILENT: network_send(one->end, silent, sizeof(silent)); return;
	case DENIES: network_send(one->end, denies, sizeof(denies)); return;
	case CLOSES: network_finish(one->end); return;
	default: break;
	}
	memcpy(reply, offers, sizeof(offers));
	memcpy(reply + 6 * sizeof(uint32_t), "STARTTLS", 8);
	network_send(one->end, reply, sizeof(reply));
	one->stage = GREETED;
}

/* NULL, with an empty AUTH_TLS and no verifier (RFC 9289, 4.1). */
static bool is_probe(const uint32_t *words)
{
	return words[0] == htobe32(RECORD_LAST_FRAGMENT | (NULL_CALL_SIZE - RECORD_MARK_SIZE)) &&
	       !words[6] && words[7] == htobe32(AUTH_TLS) && !words[8] && !words[9] && !words[10];
}

/* All that comes in clear; returns how much of it was taken. */
static size_t take_clear(struct tls_end *one, const uint8_t *bytes, size_t length)
{
	struct tls_incoming *incoming = &one->incoming;
	size_t part = min_of(length, NULL_CALL_SIZE - incoming->have);
	uint32_t words[NULL_CALL_SIZE / sizeof(uint32_t)];

	memcpy(incoming->bytes + incoming->have, bytes, part);
	incoming->have += part;
	if (incoming->have < NULL_CALL_SIZE)
		return part;
	incoming->have = 0;
	memcpy(words, incoming->bytes, sizeof(words));
	if (!is_probe(words))
		world_violated("a call goes in clear to address %u, which is to be over TLS",
			       network_address(one->end));
	turn_by_chance();
	answer_probe(one, words[1]);
	return part;
}

/* --- hands are shaken --- */

static void answer_hello(struct tls_end *one, const struct tls_hello *client)
{
	uint64_t key;

	if (world_chance(tls.faults.shake_in)) {
		world.failures[FAILED_HANDSHAKE]++;
		if (world_random(2))
			network_finish(one->end);
		return;
	}
	world.failures[FAILED_HANDSHAKE] += tls.state != WELL;
	one->hello = (struct tls_hello){
		.key = world_random(UINT64_MAX),
		.asks = tls.faults.mutual && tls.state != ASKS_NOT,
		.wrong = tls.state == WRONG,
	};
	send_record(one, TLS_HELLO, &one->hello, sizeof(one->hello));
	key = token_key(client->key, one->hello.key);
	one->in = (struct tls_keys){token_client_key(key), 0};
	one->out = (struct tls_keys){token_server_key(key), 0};
}

/* A client certificate is refused when the client takes its hands for shaken. */
static void finish_handshake(struct tls_end *one, const struct tls_finished *client)
{
	if (one->hello.wrong)
		world_violated("hands are shaken with a server whose certificate is wrong");
	if (tls.faults.mutual && one->hello.asks && !client->certificate)
		world_violated("a client has no certificate, of which it was asked");
	one->stage = SHAKEN;
	if (tls.state != REFUSES)
		return;
	world.failures[FAILED_HANDSHAKE]++;
	send_record(one, TLS_REFUSAL, NULL, 0);
	network_finish(one->end);
}

static void take_record(struct tls_end *one)
{
	struct tls_record record = {.type = TLS_REFUSAL};
	struct tls_hello hello;
	struct tls_finished finished;

	if (!tls_record_open(&one->in, &one->incoming, &record))
		world_violated("a record is not by its client's keys");
	switch (record.type) {
	case TLS_HELLO:
		memcpy(&hello, record.bytes, sizeof(hello));
		answer_hello(one, &hello);
		return;
	case TLS_FINISHED:
		memcpy(&finished, record.bytes, sizeof(finished));
		finish_handshake(one, &finished);
		return;
	case TLS_DATA:
		if (one->stage != SHAKEN)
			world_violated("a call comes before hands are shaken");
		if (tls.faults.mutual && !one->hello.asks)
			world_violated("a call goes to a server that asks for no certificate");
		server_network.received(one->end, record.bytes, record.length);
		return;
	default: network_finish(one->end); return;
	}
}

/* Returns how much was taken. */
static size_t take_cipher(struct tls_end *one, const uint8_t *bytes, size_t length)
{
	struct tls_incoming *incoming = &one->incoming;
	size_t part = min_of(length, tls_record_missing(incoming));

	memcpy(incoming->bytes + incoming->have, bytes, part);
	incoming->have += part;
	if (!tls_record_missing(incoming))
		take_record(one);
	return part;
}

/* --- the network's --- */

static struct tls_end *accept_end(struct link_end *end)
{
	struct tls_end *one;

	if (!(tls.faults.paths >> network_address(end) & 1))
		return NULL;
	one = calloc(1, sizeof(*one));
	if (!one)
		abort();
	one->end = end;
	LIST_INSERT_HEAD(&ends, one, link);
	return one;
}

static void gone(struct link_end *end)
{
	struct tls_end *one = find(end);

	server_network.gone(end);
	if (!one)
		return;
	LIST_REMOVE(one, link);
	free(one);
}

/* What is taken may cost the connection. */
static void received(struct link_end *end, const uint8_t *bytes, size_t length)
{
	struct tls_end *one = find(end) ?: accept_end(end);
	size_t part;

	if (!one)
		server_network.received(end, bytes, length);
	for (; one && length; one = find(end), bytes += part, length -= part)
		part = one->stage == IN_CLEAR ? take_clear(one, bytes, length)
					      : take_cipher(one, bytes, length);
}

const struct network_server tls_network = {.received = received, .gone = gone};
