/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/nfs4_session.h"

#include "util.h"

enum { WORD = 64 };

void nfs4_session_begin(struct nfs4_session *session, uint32_t epoch,
			const struct nfs4_session_result *granted)
{
	memcpy(session->id, granted->session, sizeof(session->id));
	session->alive = true;
	session->needs_reset = false;
	session->epoch = epoch;
	session->slots = min_of(granted->fore.slots, session->slots_max);
	session->highest = session->target = session->slots - 1;
	memset(session->busy, 0, sizeof(session->busy));
	for (uint32_t i = 0; i < session->slots; i++)
		session->sequence[i] = 1;
}

static uint32_t highest_busy(const struct nfs4_session *session)
{
	for (uint32_t word = (session->slots + WORD - 1) / WORD; word-- > 0;)
		if (session->busy[word])
			return word * WORD + WORD - 1 -
			       (uint32_t)__builtin_clzll(session->busy[word]);
	return 0;
}

/* Takes the lowest free slot, so that the server can reduce slots (RFC 8881, 2.10.6.1). */
bool nfs4_session_acquire(struct nfs4_session *session, struct call *call)
{
	uint32_t usable = min_of(session->highest, session->target) + 1;

	for (uint32_t word = 0; word * WORD < usable; word++) {
		uint32_t slot;

		if (!~session->busy[word])
			continue;
		slot = word * WORD + (uint32_t)__builtin_ctzll(~session->busy[word]);
		if (slot >= usable)
			break;
		session->busy[word] |= 1ull << slot % WORD;
		call->slot = slot;
		call->highest = highest_busy(session);
		call->epoch = session->epoch;
		call->slot_used = false;
		return true;
	}
	session->waited++;
	return false;
}

void nfs4_session_release(struct nfs4_session *session, struct call *call, bool answered)
{
	bool current = call->epoch && call->epoch == session->epoch;

	call->epoch = 0;
	if (!current)
		return;
	/* No answer, or SEQUENCE refused a retransmission: a copy may still advance the slot. */
	if (!answered || (call->tries > 1 && !call->slot_used)) {
		session->needs_reset = true;
		return;
	}
	session->busy[call->slot / WORD] &= ~(1ull << call->slot % WORD);
	if (call->slot > session->highest)
		session->sequence[call->slot] = 1;
	else if (call->slot_used)
		session->sequence[call->slot]++;
}

void nfs4_session_resize(struct nfs4_session *session, uint32_t highest, uint32_t target)
{
	highest = min_of(highest, session->slots - 1);
	for (uint32_t slot = highest + 1; slot <= session->highest; slot++)
		if (!(session->busy[slot / WORD] >> slot % WORD & 1))
			session->sequence[slot] = 1;
	session->highest = highest;
	session->target = target;
}

void nfs4_session_sequence(const struct nfs4_session *session, const struct call *call, bool cache,
			   struct nfs4_sequence *sequence)
{
	memcpy(sequence->session, session->id, sizeof(sequence->session));
	sequence->slot = call->slot;
	sequence->sequence = session->sequence[call->slot];
	sequence->highest_slot = call->highest;
	sequence->cache = cache;
}
