/* SPDX-License-Identifier: GPL-2.0-only */
#include "group/hold.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "util.h"

int hold_init(struct hold *hold, uint64_t size)
{
	uint64_t extents = size / HOLD_EXTENT_BYTES + HOLD_EXTENTS_MIN;
	/* Populated, since later page faults would be measured as time of the server. */
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	*hold = (struct hold){
		.memory = memory == MAP_FAILED ? NULL : memory,
		.size = size,
		.extents = calloc(extents, sizeof(*hold->extents)),
		.extent_max = extents,
	};
	if (hold->memory && hold->extents)
		return 0;
	hold_free(hold);
	return -ENOMEM;
}

void hold_free(struct hold *hold)
{
	if (hold->memory)
		munmap(hold->memory, hold->size);
	free(hold->extents);
	memset(hold, 0, sizeof(*hold));
}

/* The offset of `length` free bytes in a row; hold->size: there are none. */
static uint64_t place_for(const struct hold *hold, uint32_t length)
{
	uint64_t tail;

	if (hold->first == hold->end)
		return 0;
	tail = hold_extent(hold, hold->first)->data - hold->memory;
	if (hold->head <= tail) /* wrapped around */
		return tail - hold->head >= length ? hold->head : hold->size;
	if (hold->size - hold->head >= length)
		return hold->head;
	return tail >= length ? 0 : hold->size;
}

bool hold_room(const struct hold *hold, uint32_t length)
{
	return hold->end - hold->first < hold->extent_max && place_for(hold, length) < hold->size;
}

struct hold_extent *hold_take(struct hold *hold, uint32_t file, uint64_t offset, const void *data,
			      uint32_t length)
{
	struct hold_extent *extent = hold_extent(hold, hold->end);

	*extent = (struct hold_extent){
		.data = hold->memory + place_for(hold, length),
		.offset = offset,
		.length = length,
		.file = file,
		.under_way = true,
	};
	memcpy(extent->data, data, length);
	hold->head = extent->data - hold->memory + length;
	hold->end++;
	hold->under_way++;
	return extent;
}

/* Frees the oldest extents, up to the first that is not settled, or is still under way. */
static void trim_settled(struct hold *hold)
{
	while (hold->first < hold->end) {
		const struct hold_extent *oldest = hold_extent(hold, hold->first);

		if (!oldest->settled || oldest->under_way)
			return;
		hold->first++;
	}
}

/* Removes the extent from the count of its ledger. */
static void disown(struct hold_extent *extent)
{
	if (extent->ledger)
		extent->ledger->held--;
	extent->ledger = NULL;
}

/* The bytes that an extent counts for; a small one counts more, as hold->extents may fill first. */
static uint64_t room_of(const struct hold_extent *extent)
{
	return max_of(extent->length, (uint32_t)HOLD_EXTENT_BYTES);
}

static bool is_uncovered(const struct hold *hold, const struct hold_extent *extent)
{
	return !extent->settled && !extent->under_way && extent->answered > hold->covered;
}

/* The caller must call trim_settled() afterwards. */
static void settle(struct hold *hold, struct hold_extent *extent)
{
	if (is_uncovered(hold, extent))
		hold->uncovered -= room_of(extent);
	disown(extent);
	extent->settled = true;
}

static void drop(struct hold *hold, struct hold_extent *extent)
{
	settle(hold, extent);
	extent->dropped = true;
}

void hold_wrote(struct hold *hold, struct hold_extent *extent, struct ledger *ledger,
		const uint8_t verifier[LEDGER_VERIFIER])
{
	if (extent->dropped)
		return;
	if (extent->ledger &&
	    (extent->ledger != ledger || !ledger_same(extent->verifier, verifier)))
		extent->mixed_verifiers = hold->lost = true;
	disown(extent);
	extent->ledger = ledger;
	ledger->held++;
	memcpy(extent->verifier, verifier, LEDGER_VERIFIER);
}

void hold_finished(struct hold *hold, struct hold_extent *extent, bool failed, uint32_t connection)
{
	hold->under_way--;
	extent->under_way = false;
	extent->connection = connection;
	extent->answered = ++hold->clock;
	if (is_uncovered(hold, extent))
		hold->uncovered += room_of(extent);
	if (failed && extent->again)
		hold->lost = true;
	else if (failed)
		drop(hold, extent);
	else if (!extent->ledger)
		settle(hold, extent);
	trim_settled(hold);
}

uint64_t hold_begin_replay(struct hold *hold)
{
	uint64_t bytes = 0;

	hold->lost = false;
	hold_begin_commit(hold); /* earlier replies no longer count */
	for_each_extent (hold, extent) {
		if (extent->dropped)
			continue;
		disown(extent);
		extent->mixed_verifiers = extent->settled = false;
		bytes += extent->length;
	}
	return bytes;
}

void hold_again(struct hold *hold, struct hold_extent *extent)
{
	extent->under_way = extent->again = true;
	hold->under_way++;
}

void hold_begin_commit(struct hold *hold)
{
	hold->covered = hold->clock;
	hold->uncovered = 0;
}

/* True where a COMMIT, sent at clock `sent`, covers what was answered of the extent. */
static bool covers(const struct hold_extent *extent, const struct ledger *ledger, uint64_t sent)
{
	return extent->ledger == ledger && extent->answered <= sent;
}

void hold_committed(struct hold *hold, const struct ledger *ledger, uint64_t sent,
		    const uint8_t verifier[LEDGER_VERIFIER])
{
	for_each_extent (hold, extent) {
		if (!covers(extent, ledger, sent))
			continue;
		if (extent->mixed_verifiers || !ledger_same(extent->verifier, verifier))
			hold->lost = true;
		else if (!extent->under_way)
			settle(hold, extent);
	}
	trim_settled(hold);
}

void hold_commit_failed(struct hold *hold, const struct ledger *ledger, uint64_t sent)
{
	for_each_extent (hold, extent) {
		if (!covers(extent, ledger, sent) || extent->under_way)
			continue;
		if (extent->again)
			hold->lost = true;
		else
			drop(hold, extent);
	}
	trim_settled(hold);
}

void hold_forget(struct hold *hold, uint32_t file)
{
	for_each_extent (hold, extent)
		if (extent->file == file)
			drop(hold, extent);
	trim_settled(hold);
}

void hold_hand_over(struct hold *hold, uint32_t file, uint32_t twin)
{
	for_each_extent (hold, extent)
		if (extent->file == file && extent->settled)
			extent->file = twin;
	hold_forget(hold, file);
}
