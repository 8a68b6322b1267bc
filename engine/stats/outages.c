/* SPDX-License-Identifier: GPL-2.0-only */
#include "stats/outages.h"

#include "stats/json_line.h"
#include "util.h"

void outages_begin(struct outages *outages, uint64_t now)
{
	outages->begun = now;
	outages->awaited = true;
}

/* The latest outage. */
static struct outage *latest(struct outages *outages)
{
	return &outages->kept[(outages->count - 1) % OUTAGES_KEPT];
}

bool outages_over(const struct outages *outages)
{
	return !outages->count || outage_end(outages_get(outages, outages_kept(outages) - 1));
}

static void note_end(struct outages *outages)
{
	const struct outage *outage = latest(outages);

	if (outage_end(outage))
		outages->longest = max_of(outages->longest, outage_end(outage) - outage->lost);
}

void outages_up(struct outages *outages, uint64_t now, bool waits)
{
	if (!outages->up && !outages_over(outages)) {
		latest(outages)->back = now;
		latest(outages)->waited = waits;
		note_end(outages);
	}
	outages->up = true;
}

void outages_lost(struct outages *outages, uint64_t now)
{
	if (!outages->up)
		return;
	outages->up = false;
	if (!outages_over(outages)) {
		latest(outages)->back = 0;
		return;
	}
	outages->count++;
	*latest(outages) = (struct outage){.lost = now};
	outages->awaited = true;
}

void outages_answered(struct outages *outages, uint64_t now)
{
	outages->awaited = false;
	if (!outages->first_io)
		outages->first_io = now;
	if (!outages->count || latest(outages)->answered)
		return;
	latest(outages)->answered = now;
	note_end(outages);
}

uint32_t outages_kept(const struct outages *outages)
{
	return min_of(outages->count, (uint32_t)OUTAGES_KEPT);
}

const struct outage *outages_get(const struct outages *outages, uint32_t number)
{
	uint32_t first = outages->count - outages_kept(outages);

	return &outages->kept[(first + number) % OUTAGES_KEPT];
}

/* --- the stats file --- */

static void put_time(FILE *out, uint64_t time)
{
	if (time)
		fprintf(out, "%" PRIu64, time / 1000);
	else
		fputs("null", out);
}

static void write_time(FILE *out, const char *key, uint64_t time)
{
	fprintf(out, "\"%s\": ", key);
	put_time(out, time);
	fputs(", ", out);
}

static void write_times(FILE *out, const char *key, const uint64_t *times, uint32_t count)
{
	fprintf(out, "\"%s\": [", key);
	for (uint32_t i = 0; i < count; i++) {
		fputs(i ? ", " : "", out);
		put_time(out, times[i]);
	}
	fputs("], ", out);
}

void outages_write(FILE *out, const struct outages *outages)
{
	uint64_t lost[OUTAGES_KEPT], back[OUTAGES_KEPT], answered[OUTAGES_KEPT];
	uint32_t kept = outages_kept(outages);

	for (uint32_t i = 0; i < kept; i++) {
		const struct outage *outage = outages_get(outages, i);

		lost[i] = outage->lost;
		back[i] = outage->back;
		answered[i] = outage->answered;
	}
	write_time(out, "begun_at_us", outages->begun);
	write_time(out, "first_io_at_us", outages->first_io);
	line_number(out, "outages", outages->count);
	write_times(out, "lost_at_us", lost, kept);
	write_times(out, "back_at_us", back, kept);
	write_times(out, "answered_at_us", answered, kept);
}
