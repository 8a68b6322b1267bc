/* SPDX-License-Identifier: GPL-2.0-only */
#include "transport/portion.h"

#include "util.h"

enum {
	SETTLE = 32,  /* receives before a new part shows its effect */
	TRIAL = 256,  /* receives: some milliseconds */
	HOLD = 16384, /* receives: a tenth of a second or more */
	AWAKE = 32,   /* a thread that does more receives than this per sleep is busy */
};

static void enter(struct portion *portion, uint32_t part, int phase, uint32_t until)
{
	portion->part = part;
	portion->phase = phase;
	portion->receives = 0;
	portion->until = until;
}

void portion_init(struct portion *portion)
{
	enter(portion, PORTION_HALF, PORTION_SETTLES, SETTLE);
}

/* Keeps or drops a part after its trial. */
static void judge(struct portion *portion, const struct portion_sample *sample)
{
	const struct portion_sample *since = &portion->since;
	uint64_t time = max_of(sample->now - since->now, (uint64_t)1);
	double rate = (double)(sample->bytes - since->bytes) / (double)time;
	bool awake = (sample->slept - since->slept) * AWAKE < TRIAL;

	if (portion->part > PORTION_HALF && rate < 1.1 * portion->before) {
		enter(portion, portion->part / 2, PORTION_HOLDS, HOLD);
	} else if (awake || portion->part == PORTION_LEAST) {
		enter(portion, portion->part, PORTION_HOLDS, HOLD);
	} else {
		portion->before = rate;
		enter(portion, portion->part * 2, PORTION_SETTLES, SETTLE);
	}
}

void portion_weigh(struct portion *portion, const struct portion_sample *sample)
{
	switch (portion->phase) {
	case PORTION_SETTLES:
		portion->since = *sample;
		enter(portion, portion->part, PORTION_IS_TRIED, TRIAL);
		break;
	case PORTION_IS_TRIED: judge(portion, sample); break;
	default: portion_init(portion);
	}
}

struct portion_sample portion_sample(uint64_t bytes)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (struct portion_sample){clock_now(), bytes, (uint64_t)usage.ru_nvcsw};
}
