/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rpcsec_gss.c - the input's first byte chooses a service; then come the reply that makes a context
 * and replies to a call, by the context's key or of any bytes. What else happens to a context is
 * the simulator's.
 */
#include "wire/rpcsec_gss.h"

#include <endian.h>
#include <string.h>

#include "fuzz.h"
#include "wire/message.h"
#include "wire/reply.h"

enum { MESSAGE_MAX = 1024, HANDLE_MAX = 128 };

/* --- a mechanism that asks nobody: one token, and the context is made --- */

static bool token_was_sent;

static void begin(struct gss_mechanism *mechanism)
{
	token_was_sent = false;
}

static void feed(struct gss_mechanism *mechanism, const uint8_t *reply, uint32_t length)
{
	token_was_sent = true;
}

static enum rpc_context_state progress(struct gss_mechanism *mechanism, struct gss_step *step)
{
	static const uint8_t token[] = "a ticket";

	*step = (struct gss_step){.token = token, .length = sizeof(token), .lifetime = UINT64_MAX};
	return token_was_sent ? RPC_CONTEXT_READY : RPC_CONTEXT_ASKS;
}

static void keep(struct gss_mechanism *mechanism)
{
}

static const struct gss_mechanism_ops ops = {begin, feed, progress, keep, keep};
static struct gss_mechanism mechanism = {.ops = &ops};

/* aes128-cts-hmac-sha256-128: its tokens are made at once. */
static void make_keys(void)
{
	static const uint8_t key[16] = "a context's key";

	if (!mechanism.keys)
		expect(!krb5_keys_new(&mechanism.keys, 19, key, sizeof(key), false));
	mechanism.earlier = mechanism.next = mechanism.keys;
}

/* --- what a server says --- */

/* As many bytes as the next one says. */
static struct iovec some(struct input *input)
{
	return take(input, take_byte(input));
}

static void put_some(struct xdr_out *out, struct iovec bytes)
{
	xdr_put_opaque(out, bytes.iov_base, (uint32_t)bytes.iov_len);
}

/* An accepted reply up to its results. True where its verifier is of that number, and no other. */
static bool put_accepted(struct input *input, struct xdr_out *out, uint32_t number)
{
	enum { REPLY = 1, ACCEPTED = 0, SUCCESS = 0 };
	uint32_t wire = htobe32(number);
	bool right = take_byte(input) % 4;
	uint8_t sum[KRB5_MIC_MAX];

	xdr_put_u32(out, 0); /* xid */
	xdr_put_u32(out, REPLY);
	xdr_put_u32(out, ACCEPTED);
	xdr_put_u32(out, right ? RPC_GSS : take_byte(input));
	expect(krb5_mic(mechanism.keys, KRB5_ACCEPTOR, 0, &(struct iovec){&wire, sizeof(wire)}, 1,
			sum));
	put_some(out, right ? (struct iovec){sum, krb5_mic_size(mechanism.keys)} : some(input));
	xdr_put_u32(out, SUCCESS);
	return right;
}

/*
 * Results, protected for that number, or for another, or changed on their way, or of any bytes.
 * True where they are to be taken: then they are `plain`.
 */
static bool put_results(struct input *input, struct xdr_out *out, enum gss_service service,
			uint32_t number, struct iovec *plain)
{
	enum { ANY, OTHER_NUMBER, CHANGED, FORMS = 8 } form = take_byte(input) % FORMS;
	uint32_t written = htobe32(number + (form == OTHER_NUMBER));
	uint8_t body[sizeof(written) + UINT8_MAX];
	uint8_t token[KRB5_WRAP_FRONT + sizeof(body) + KRB5_WRAP_BACK_MAX];
	struct iovec whole = {body, sizeof(written)};

	*plain = some(input);
	memcpy(mempcpy(body, &written, sizeof(written)), plain->iov_base, plain->iov_len);
	whole.iov_len += plain->iov_len;
	if (form == ANY || service == GSS_SERVICE_NONE) {
		xdr_put_fixed(out, plain->iov_base, (uint32_t)plain->iov_len);
		return false;
	}
	if (service == GSS_SERVICE_INTEGRITY) {
		put_some(out, whole);
		expect(krb5_mic(mechanism.keys, KRB5_ACCEPTOR, 0, &whole, 1, token));
		whole.iov_len = krb5_mic_size(mechanism.keys);
	} else {
		expect(krb5_wrap(mechanism.keys, KRB5_ACCEPTOR, 0, &whole, 1, token));
		whole.iov_len += krb5_wrap_size(mechanism.keys);
	}
	token[0] ^= form == CHANGED;
	put_some(out, (struct iovec){token, whole.iov_len});
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

/* --- the client --- */

/* Results of any bytes, or a handle, statuses, the window and a token. False: they make none. */
static bool put_init(struct input *input, struct xdr_out *out, uint32_t window)
{
	bool any = !(take_byte(input) % 4);
	struct iovec handle = some(input);
	uint32_t major;

	if (any) {
		xdr_put_fixed(out, handle.iov_base, (uint32_t)handle.iov_len);
		return true;
	}
	major = take_byte(input);
	put_some(out, handle);
	xdr_put_u32(out, major & 1 ? major >> 1 : major << 15); /* of a routine, or not */
	xdr_put_u32(out, take_byte(input));
	xdr_put_u32(out, window);
	put_some(out, some(input));
	return handle.iov_len && handle.iov_len <= HANDLE_MAX;
}

/* False where there is no context. */
static bool make_context(struct rpc_credentials *credentials, struct input *input)
{
	static const uint32_t windows[] = {0, 1, 2, 3, 5, 32, 255, 256, 257, UINT32_MAX};
	const struct rpc_context_ops *context = credentials->flavor->context;
	uint32_t window = windows[take_byte(input) % ARRAY_SIZE(windows)];
	uint8_t message[MESSAGE_MAX], *block;
	struct xdr_out out = {message, message + sizeof(message), false};
	struct rpc_reply_header header;
	struct xdr_in in;
	bool proved, taken;

	expect(context->step(credentials, 0) == RPC_CONTEXT_ASKS);
	proved = put_accepted(input, &out, window);
	proved = put_init(input, &out, window) && proved;
	block = arrive(message, &out, &in, &header);
	taken = context->answered(credentials, &header, &in);
	free(block);
	if (taken && !in.bad && context->step(credentials, 0) == RPC_CONTEXT_READY) {
		expect(proved);
		return context->room(credentials, true);
	}
	expect((taken && in.bad) || *context->error(credentials));
	return false;
}

static void send_call(struct rpc_credentials *credentials, struct rpc_stamp *stamp)
{
	const struct rpc_flavor *flavor = credentials->flavor;
	uint8_t bytes[RPC_HEAD_MAX], data_bytes[10] = {0}, *arguments;
	struct xdr_out out = {bytes, bytes + sizeof(bytes), false};
	struct rpc_payload data = {.at = data_bytes, .length = sizeof(data_bytes)};

	rpc_encode_call(&out, 0, 100003, 4, 1, credentials, stamp);
	arguments = out.at;
	xdr_put_fixed(&out, "arguments of it", 16);
	expect(!flavor->wrap || flavor->wrap(credentials, stamp, &out, arguments, &data));
	expect(!out.bad && stamp->numbers[0] > stamp->numbers[1]);
}

static void expect_same(const struct xdr_in *in, struct iovec bytes)
{
	expect((size_t)(in->end - in->at) == bytes.iov_len);
	expect(!memcmp(in->at, bytes.iov_base, bytes.iov_len));
}

/* Results whose second half is data that was received apart. They are as long as `plain`, as far as
 * the client can tell. */
static void unwrap_around(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
			  const struct xdr_in *all, uint32_t lead, struct iovec plain, bool whole)
{
	size_t length = plain.iov_len / 8 * 4, front = plain.iov_len - length;
	size_t rest = (size_t)(all->end - all->at) - lead - plain.iov_len;
	struct iovec data = {malloc(length), length}, before = {plain.iov_base, front};
	uint8_t *block = malloc(lead + front + rest), *behind = block + lead + front;
	struct xdr_in in = {block, behind + rest, false};

	memcpy(block, all->at, lead + front);
	memcpy(data.iov_base, all->at + lead + front, length);
	memcpy(behind, all->end - rest, rest);
	expect(credentials->flavor->unwrap_around(credentials, stamp, &in, &data, behind) == whole);
	if (whole) {
		expect_same(&in, before);
		expect(!memcmp(data.iov_base, (uint8_t *)plain.iov_base + front, length));
	}
	free(block);
	free(data.iov_base);
}

/* What is believed is the server's, and what is unwrapped is what was wrapped. */
static void receive(struct rpc_credentials *credentials, const struct rpc_stamp *stamp,
		    enum gss_service service, struct input *input)
{
	const struct rpc_flavor *flavor = credentials->flavor;
	uint32_t number = stamp->numbers[take_byte(input) % 3], lead;
	uint8_t message[MESSAGE_MAX], *block;
	struct xdr_out out = {message, message + sizeof(message), false};
	struct rpc_reply_header header;
	struct iovec plain;
	struct xdr_in in;
	bool right, whole;

	right = put_accepted(input, &out, number) && number;
	whole = put_results(input, &out, service, number, &plain);
	block = arrive(message, &out, &in, &header);
	expect((flavor->check(credentials, stamp, &header.verifier) == RPC_BELIEVED) == right);
	if (right && flavor->unwrap) {
		lead = flavor->lead(credentials, stamp, in, (uint32_t)(in.end - in.at),
				    (uint32_t)plain.iov_len);
		if (lead)
			unwrap_around(credentials, stamp, &in, lead, plain, whole);
		expect(flavor->unwrap(credentials, stamp, &in) == whole);
		if (whole)
			expect_same(&in, plain);
	}
	free(block);
}

/* The call goes out twice, and either may be answered. */
void fuzz_rpcsec_gss(struct input *input)
{
	struct security_counters counters = {0};
	const struct rpcsec_gss_terms terms = {
		.service = GSS_SERVICE_NONE + take_byte(input) % 3,
		.mechanism = &mechanism,
		.counters = &counters,
	};
	struct rpc_credentials *credentials;
	struct rpc_stamp stamp = {0};

	make_keys();
	if (rpcsec_gss_new(&credentials, &terms))
		return;
	if (make_context(credentials, input)) {
		send_call(credentials, &stamp);
		send_call(credentials, &stamp);
		while (input->at < input->end)
			receive(credentials, &stamp, terms.service, input);
	}
	rpcsec_gss_free(credentials);
}
