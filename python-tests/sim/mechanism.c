/* SPDX-License-Identifier: GPL-2.0-only */
#include "security.h"

#include <stdlib.h>
#include <string.h>

#include "util.h"
#include "world.h"

struct kdc kdc;

void kdc_heal(void)
{
	kdc.back_at = 0;
	kdc.terms.away_in = kdc.terms.silence = 0;
	kdc.terms.work = MSEC;
}

static struct mechanism *mechanism_of(struct gss_mechanism *base)
{
	return container_of(base, struct mechanism, base);
}

/* --- making a context --- */

/* Its work takes a while; then it is in that state. */
static void work(struct mechanism *mechanism, enum mechanism_state next, uint64_t most)
{
	mechanism->state = WORKS;
	mechanism->next = next;
	mechanism->work_until = world.clock.now + world_random(most + 1);
}

static bool kdc_answers(void)
{
	if (world.clock.now < kdc.back_at)
		return false;
	if (!world_chance(kdc.terms.away_in))
		return true;
	world.failures[FAILED_KDC]++;
	kdc.back_at = world.clock.now + world_random(30 * SEC);
	world_tell("KDC: away for %.3f s", (double)(kdc.back_at - world.clock.now) / SEC);
	return false;
}

/* False: there is none. */
static bool get_ticket(struct mechanism *mechanism)
{
	uint64_t now = world.clock.now;
	uint64_t wanted = now + (kdc.terms.keeps ? 0 : kdc.terms.lifetime / 2);

	if (mechanism->ticket_end > wanted)
		return true;
	if (kdc_answers())
		mechanism->ticket_end = kdc.terms.lifetime ? now + kdc.terms.lifetime : UINT64_MAX;
	return mechanism->ticket_end > now;
}

/* Tickets are of any length. */
static void begin(struct gss_mechanism *base)
{
	struct mechanism *mechanism = mechanism_of(base);

	security_context_begins(mechanism);
	mechanism->next_keys.key = 0;
	if (!get_ticket(mechanism)) {
		work(mechanism, HAS_FAILED, kdc.terms.silence);
		return;
	}
	mechanism->half = world_random(UINT64_MAX);
	mechanism->token[0] = mechanism->ticket_end;
	mechanism->token[1] = mechanism->half;
	mechanism->token_length = 16 + (uint32_t)world_random(sizeof(mechanism->token) - 15);
	work(mechanism, TELLS, kdc.terms.work);
}

static void feed(struct gss_mechanism *base, const uint8_t *reply, uint32_t length)
{
	struct mechanism *mechanism = mechanism_of(base);
	uint64_t token[2];

	if (mechanism->state != WAITS_FOR_REPLY)
		world_violated("a mechanism is given a token that it does not wait for");
	if (mechanism->next_keys.key) { /* the second round's: nothing is left to say */
		work(mechanism, HAS_MADE, kdc.terms.work);
		return;
	}
	if (length != sizeof(token)) {
		work(mechanism, HAS_FAILED, 0);
		return;
	}
	memcpy(token, reply, sizeof(token));
	mechanism->next_keys.key = token_key(mechanism->half, token[0]);
	mechanism->token[0] = mechanism->next_keys.key;
	mechanism->token_length = sizeof(mechanism->token[0]);
	work(mechanism, token[1] ? TELLS : HAS_MADE, kdc.terms.work);
}

static uint64_t lifetime(const struct mechanism *mechanism)
{
	uint64_t now = world.clock.now;

	return mechanism->ticket_end == UINT64_MAX ? UINT64_MAX
						   : max_of(mechanism->ticket_end, now) - now;
}

static void adopt(struct gss_mechanism *base)
{
	struct mechanism *mechanism = mechanism_of(base);

	mechanism->state = IDLE;
	mechanism->earlier = mechanism->present;
	mechanism->present = mechanism->next_keys;
	mechanism->made = world.clock.now;
	mechanism->lifetime = lifetime(mechanism);
}

static enum rpc_context_state progress(struct gss_mechanism *base, struct gss_step *step)
{
	struct mechanism *mechanism = mechanism_of(base);

	*step = (struct gss_step){.error = "the KDC does not answer"};
	if (mechanism->state == WORKS && world.clock.now >= mechanism->work_until)
		mechanism->state = mechanism->next;
	switch (mechanism->state) {
	case WORKS: return RPC_CONTEXT_WAITS;
	case TELLS:
		mechanism->state = WAITS_FOR_REPLY;
		step->token = (const uint8_t *)mechanism->token;
		step->length = mechanism->token_length;
		return RPC_CONTEXT_ASKS;
	case HAS_MADE: step->lifetime = lifetime(mechanism); return RPC_CONTEXT_READY;
	default: return RPC_CONTEXT_FAILED;
	}
}

/* --- making and ending --- */

static void end(struct gss_mechanism *base)
{
	struct mechanism *mechanism = mechanism_of(base);

	LIST_REMOVE(mechanism, link);
	free(mechanism);
}

struct mechanism *mechanism_new(const struct rpc_client *rpc)
{
	static const struct gss_mechanism_ops ops = {begin, feed, progress, adopt, end};
	struct mechanism *mechanism = calloc(1, sizeof(*mechanism));

	if (!mechanism)
		abort();
	mechanism->rpc = rpc;
	mechanism->base = (struct gss_mechanism){
		.ops = &ops,
		.keys = &mechanism->present,
		.earlier = &mechanism->earlier,
		.next = &mechanism->next_keys,
	};
	return mechanism;
}
