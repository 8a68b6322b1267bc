/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rpcsec_gss.c - the input's first byte chooses a service and an encryption type; what follows
 * happens to a client: contexts are made, calls go out, replies come, by the context's own key or
 * of any bytes, calls are denied, connections are lost, time passes.
 */
#include "gss_mechanism.h"
#include "wire/message.h"
#include "wire/reply.h"
#include "wire/rpcsec_gss.h"

enum event { MAKE, SEND, RECEIVE, OVERDUE, RELEASE, DENY, LOSE, WAIT, EVENTS };
enum { CALLS = 4, MESSAGE_MAX = 1024, HANDLE_MAX = 128 };

struct sent {
	struct rpc_stamp stamp;
	uint32_t made; /* the mechanism's contexts when it went out: by the last of them */
	bool out;      /* the client knows it, so that a reply may come */
	bool awaited;  /* and the window waits for it */
};

struct client {
	const uint8_t *at, *end; /* the input that is left */
	struct mechanism mechanism;
	struct security_counters counters;
	struct rpc_credentials *credentials;
	enum gss_service service;
	struct sent calls[CALLS];
	uint64_t now;
	bool prepared; /* calls may go out */
	bool asked;    /* the reply that makes a context is awaited */
	/* The latest of these: the window, and whether it shows that it is the server's. */
	uint32_t offered;
	bool proved;
	uint32_t window; /* of the present context */
};

/* --- the input --- */

static uint8_t next(struct client *client)
{
	return client->at < client->end ? *client->at++ : 0;
}

/* As many bytes as the next one says. */
static struct iovec some(struct client *client)
{
	size_t length = next(client);
	struct iovec bytes = {(void *)client->at, 0};

	bytes.iov_len = min_of(length, (size_t)(client->end - client->at));
	client->at += bytes.iov_len;
	return bytes;
}

static struct sent *any_call(struct client *client)
{
	return &client->calls[next(client) % CALLS];
}

static const struct rpc_context_ops *context_of(const struct client *client)
{
	return client->credentials->flavor->context;
}

/* --- what a server says --- */

static void put_some(struct xdr_out *out, struct iovec bytes)
{
	xdr_put_opaque(out, bytes.iov_base, (uint32_t)bytes.iov_len);
}

/* `change`: bits of its last byte that are others when it arrives. */
static void put_mic(struct xdr_out *out, struct krb5_keys *keys, struct iovec part, uint8_t change)
{
	uint32_t length = krb5_mic_size(keys);
	uint8_t mic[GSS_MIC_MAX];

	expect(krb5_mic(keys, KRB5_ACCEPTOR, 0, &part, 1, mic));
	mic[length - 1] ^= change;
	xdr_put_opaque(out, mic, length);
}

/* An accepted reply up to its results. True where its verifier is of that number, and no other. */
static bool put_accepted(struct client *client, struct xdr_out *out, struct krb5_keys *keys,
			 uint32_t number)
{
	enum { REPLY = 1, ACCEPTED = 0, SUCCESS = 0 };
	uint32_t wire = htobe32(number);
	bool right = next(client) % 4;

	xdr_put_u32(out, 0); /* xid */
	xdr_put_u32(out, REPLY);
	xdr_put_u32(out, ACCEPTED);
	xdr_put_u32(out, right ? RPC_GSS : next(client));
	if (right)
		put_mic(out, keys, (struct iovec){&wire, sizeof(wire)}, 0);
	else
		put_some(out, some(client));
	xdr_put_u32(out, SUCCESS);
	return right;
}

static void put_integrity(struct xdr_out *out, struct krb5_keys *keys, uint32_t number,
			  struct iovec plain, uint8_t change)
{
	uint8_t body[sizeof(number) + UINT8_MAX];
	uint32_t length = (uint32_t)(sizeof(number) + plain.iov_len);

	number = htobe32(number);
	memcpy(body, &number, sizeof(number));
	memcpy(body + sizeof(number), plain.iov_base, plain.iov_len);
	xdr_put_opaque(out, body, length);
	put_mic(out, keys, (struct iovec){body, length}, change);
}

/* With any EC and RRC (RFC 4121, 4.2.5). */
static void put_privacy(struct client *client, struct xdr_out *out, struct krb5_keys *keys,
			uint32_t number, struct iovec plain, uint8_t change)
{
	enum { FLAGS = 3, SUBKEY = 4, EXTRA_MAX = 32 };
	uint8_t extra = next(client) % EXTRA_MAX;
	const uint8_t flags = FLAGS | (keys->acceptor_subkey ? SUBKEY : 0);
	uint8_t header[PEER_HEADER] = {5, 4, flags, 0xff, 0, extra};
	uint8_t message[MESSAGE_MAX], *token, *at;
	uint32_t length;

	number = htobe32(number);
	at = mempcpy(message, header, sizeof(header));
	message[PEER_ROTATION] = next(client);
	message[PEER_ROTATION + 1] = next(client);
	at = mempcpy(at, "any confounder...", CTS_BLOCK);
	at = mempcpy(at, &number, sizeof(number));
	at = mempcpy(at, plain.iov_base, plain.iov_len);
	memset(at, 0, extra);
	at = mempcpy(at + extra, header, sizeof(header));
	token = peer_seal(keys, KRB5_ACCEPTOR, message, (size_t)(at - message), &length);
	token[length - 1] ^= change;
	xdr_put_opaque(out, token, length);
	free(token);
}

/*
 * Results, protected for that number, or for another, or changed on their way, or of any bytes.
 * True where they are to be taken: then they are `plain`.
 */
static bool put_results(struct client *client, struct xdr_out *out, struct krb5_keys *keys,
			uint32_t number, struct iovec *plain)
{
	enum { ANY, OTHER_NUMBER, CHANGED, FORMS = 8 } form = next(client) % FORMS;
	uint32_t written = number + (form == OTHER_NUMBER);
	uint8_t change = form == CHANGED;

	*plain = some(client);
	if (form == ANY || client->service == GSS_SERVICE_NONE)
		xdr_put_fixed(out, plain->iov_base, (uint32_t)plain->iov_len);
	else if (client->service == GSS_SERVICE_INTEGRITY)
		put_integrity(out, keys, written, *plain, change);
	else
		put_privacy(client, out, keys, written, *plain, change);
	return form > CHANGED;
}

/* As it comes: a block of its own, for the caller to free, and its header read. */
static uint8_t *arrive(const uint8_t *message, const struct xdr_out *out, struct xdr_in *in,
		       struct rpc_reply_header *header)
{
	size_t length = (size_t)(out->at - message);
	uint8_t *block = malloc(length);

	expect(!out->bad);
	memcpy(block, message, length);
	*in = (struct xdr_in){block, block + length, false};
	rpc_decode_reply(in, header);
	return block;
}

/* --- contexts --- */

static void lose(struct client *client)
{
	context_of(client)->lost(client->credentials);
	for (size_t i = 0; i < CALLS; i++)
		client->calls[i].out = client->calls[i].awaited = false;
	client->prepared = client->asked = false;
}

static void expect_reason(const struct client *client)
{
	expect(*context_of(client)->error(client->credentials));
}

static void ask(struct client *client)
{
	const struct rpc_call_header call = {.program = 100003, .version = 4};
	uint8_t bytes[RPC_HEAD_MAX];
	struct xdr_out out = {bytes, bytes + sizeof(bytes), false};
	struct rpc_payload token = {0};

	context_of(client)->put_request(client->credentials, &out, &call, &token);
	expect(!out.bad && token.at && token.length);
	client->asked = true;
}

/* Results of any bytes, or a handle, statuses, the window and a token. */
static void put_init(struct client *client, struct xdr_out *out)
{
	struct iovec handle;
	uint32_t major;

	if (!(next(client) % 4)) {
		handle = some(client);
		xdr_put_fixed(out, handle.iov_base, (uint32_t)handle.iov_len);
		return;
	}
	handle = some(client);
	major = next(client);
	put_some(out, handle);
	xdr_put_u32(out, major & 1 ? major >> 1 : major << 15); /* of a routine, or not */
	xdr_put_u32(out, next(client));
	xdr_put_u32(out, client->offered);
	put_some(out, some(client));
	client->proved = client->proved && handle.iov_len && handle.iov_len <= HANDLE_MAX;
}

static void answer(struct client *client)
{
	static const uint32_t windows[] = {0, 1, 2, 3, 5, 32, 255, 256, 257, UINT32_MAX};
	struct krb5_keys *keys = mechanism_keys(&client->mechanism, client->mechanism.made + 1);
	uint8_t message[MESSAGE_MAX], *block;
	struct xdr_out out = {message, message + sizeof(message), false};
	struct rpc_reply_header header;
	struct xdr_in in;
	bool taken;

	client->offered = windows[next(client) % ARRAY_SIZE(windows)];
	client->proved = put_accepted(client, &out, keys, client->offered);
	put_init(client, &out);
	block = arrive(message, &out, &in, &header);
	taken = context_of(client)->answered(client->credentials, &header, &in);
	free(block);
	client->asked = false;
	if (!taken)
		expect_reason(client);
	if (in.bad || !taken)
		lose(client);
}

static void make(struct client *client)
{
	uint32_t made = client->mechanism.made;

	if (client->asked) {
		answer(client);
		return;
	}
	if (client->prepared)
		return;
	switch (context_of(client)->step(client->credentials, client->now)) {
	case RPC_CONTEXT_READY: client->prepared = true; break;
	case RPC_CONTEXT_ASKS: ask(client); break;
	case RPC_CONTEXT_WAITS: break;
	case RPC_CONTEXT_FAILED: expect_reason(client); lose(client);
	}
	if (!client->prepared || made == client->mechanism.made)
		return;
	expect(client->proved);
	client->window = client->offered;
}

/* --- calls --- */

static void check_window(const struct client *client, const struct sent *call)
{
	for (size_t i = 0; i < CALLS; i++) {
		const struct sent *other = &client->calls[i];

		if (other != call && other->awaited && other->stamp.context == call->stamp.context)
			expect(call->stamp.numbers[0] - other->stamp.numbers[0] < client->window);
	}
}

static void send_call(struct client *client)
{
	const struct rpc_flavor *flavor = client->credentials->flavor;
	struct sent *call = any_call(client);
	uint8_t bytes[RPC_HEAD_MAX], data_bytes[16] = {0}, *arguments;
	struct xdr_out out = {bytes, bytes + sizeof(bytes), false};
	struct rpc_payload data = {.at = data_bytes, .length = sizeof(data_bytes)};

	data.length -= next(client) % sizeof(data_bytes);
	data.incoming = next(client) % 2;
	if (!client->prepared || !flavor->context->room(client->credentials, next(client) % 2))
		return;
	rpc_encode_call(&out, 0, 100003, 4, 1, client->credentials, &call->stamp);
	arguments = out.at;
	xdr_put_fixed(&out, "arguments of it", 16);
	expect(!flavor->wrap ||
	       flavor->wrap(client->credentials, &call->stamp, &out, arguments, &data));
	expect(!flavor->wrap_end || flavor->wrap_end(client->credentials));
	expect(!out.bad && call->stamp.numbers[0] > call->stamp.numbers[1]);
	check_window(client, call);
	call->made = client->mechanism.made;
	call->out = call->awaited = true;
}

static void forget(struct client *client, struct sent *call)
{
	context_of(client)->release(client->credentials, &call->stamp);
	call->out = call->awaited = false;
}

static bool has_number(const struct sent *call, uint32_t number)
{
	for (size_t i = 0; i < ARRAY_SIZE(call->stamp.numbers); i++)
		if (number && call->stamp.numbers[i] == number)
			return true;
	return false;
}

static uint32_t any_number(struct client *client, const struct sent *call)
{
	uint8_t choice = next(client) % 4;

	return choice < 3 ? call->stamp.numbers[choice] : next(client);
}

static void expect_same(const struct xdr_in *in, struct iovec bytes)
{
	expect((size_t)(in->end - in->at) == bytes.iov_len);
	expect(!memcmp(in->at, bytes.iov_base, bytes.iov_len));
}

/* The same results, whose second half is data that was received apart. They are as long as `plain`,
 * as far as the client can tell. */
static void unwrap_around(struct client *client, const struct sent *call, const struct xdr_in *all,
			  uint32_t lead, struct iovec plain, bool whole)
{
	const struct rpc_flavor *flavor = client->credentials->flavor;
	size_t length = plain.iov_len / 8 * 4, front = plain.iov_len - length;
	size_t rest = (size_t)(all->end - all->at) - lead - plain.iov_len;
	struct iovec data = {malloc(length), length}, before = {plain.iov_base, front};
	uint8_t *block = malloc(lead + front + rest), *behind = block + lead + front;
	struct xdr_in in = {block, behind + rest, false};

	memcpy(block, all->at, lead + front);
	memcpy(data.iov_base, all->at + lead + front, length);
	memcpy(behind, all->end - rest, rest);
	expect(flavor->unwrap_around(client->credentials, &call->stamp, &in, &data, behind) ==
	       whole);
	if (whole) {
		expect_same(&in, before);
		expect(!memcmp(data.iov_base, (uint8_t *)plain.iov_base + front, length));
	}
	free(block);
	free(data.iov_base);
}

/* What is unwrapped is what was wrapped. */
static void unwrap(struct client *client, const struct sent *call, struct xdr_in *in,
		   struct iovec plain, bool whole)
{
	const struct rpc_flavor *flavor = client->credentials->flavor;
	uint32_t length = (uint32_t)(in->end - in->at), lead = 0;

	if (flavor->lead)
		lead = flavor->lead(client->credentials, &call->stamp, *in, length,
				    (uint32_t)plain.iov_len);
	if (lead)
		unwrap_around(client, call, in, lead, plain, whole);
	expect(flavor->unwrap(client->credentials, &call->stamp, in) == whole);
	if (whole)
		expect_same(in, plain);
}

/* What is believed is the server's. */
static void receive(struct client *client)
{
	const struct rpc_flavor *flavor = client->credentials->flavor;
	struct sent *call = any_call(client);
	struct krb5_keys *keys = mechanism_keys(&client->mechanism, call->made);
	uint32_t number = any_number(client, call);
	uint8_t message[MESSAGE_MAX], *block;
	struct xdr_out out = {message, message + sizeof(message), false};
	struct rpc_reply_header header;
	struct iovec plain;
	struct xdr_in in;
	bool right, whole, believed;

	if (!call->out)
		return;
	right = put_accepted(client, &out, keys, number) && has_number(call, number) &&
		client->mechanism.made - call->made <= 1;
	whole = put_results(client, &out, keys, number, &plain);
	block = arrive(message, &out, &in, &header);
	believed =
		flavor->check(client->credentials, &call->stamp, &header.verifier) == RPC_BELIEVED;
	expect(believed == right);
	if (believed && flavor->unwrap)
		unwrap(client, call, &in, plain, whole);
	if (believed)
		forget(client, call);
	free(block);
}

static void deny(struct client *client)
{
	uint32_t auth_stat = RPC_CREDENTIAL_PROBLEM - 1 + next(client) % 4;
	struct sent *call = any_call(client);
	bool again;

	if (!call->out)
		return;
	again = context_of(client)->denied(client->credentials, &call->stamp, auth_stat);
	expect(!again || auth_stat == RPC_CREDENTIAL_PROBLEM || auth_stat == RPC_CONTEXT_PROBLEM);
	forget(client, call);
	if (again)
		client->prepared = false;
}

static void overdue(struct client *client)
{
	struct sent *call = any_call(client);

	context_of(client)->overdue(client->credentials, &call->stamp);
	call->awaited = false;
}

static void wait_a_while(struct client *client)
{
	client->now += next(client) * SEC;
	if (context_of(client)->due(client->credentials, client->now))
		client->prepared = false;
}

static void happen(struct client *client, enum event event)
{
	switch (event) {
	case MAKE: make(client); break;
	case SEND: send_call(client); break;
	case RECEIVE: receive(client); break;
	case OVERDUE: overdue(client); break;
	case RELEASE: forget(client, any_call(client)); break;
	case DENY: deny(client); break;
	case LOSE: lose(client); break;
	default: wait_a_while(client);
	}
}

static void farewell(struct client *client)
{
	const struct rpc_call_header call = {.program = 100003, .version = 4};
	uint8_t bytes[RPC_HEAD_MAX];
	struct xdr_out out = {bytes, bytes + sizeof(bytes), false};

	context_of(client)->put_farewell(client->credentials, &out, &call);
	expect(!out.bad);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct client client = {.at = data, .end = data + size};
	uint8_t choice = next(&client);
	const struct rpcsec_gss_terms terms = {
		.service = GSS_SERVICE_NONE + choice % 3,
		.mechanism = &client.mechanism.base,
		.counters = &client.counters,
	};

	client.service = terms.service;
	client.mechanism = (struct mechanism){{&mechanism_ops}, .enctype = choice / 3 % 4};
	if (rpcsec_gss_new(&client.credentials, &terms))
		return 0;
	while (client.at < client.end)
		happen(&client, (enum event)(next(&client) % EVENTS));
	farewell(&client);
	rpcsec_gss_free(client.credentials);
	return 0;
}
