/* SPDX-License-Identifier: GPL-2.0-only */
#include "session/call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "util.h"

int call_table_init(struct call_table *table, uint32_t count)
{
	memset(table, 0, sizeof(*table));
	table->calls = calloc(count, sizeof(*table->calls));
	if (!table->calls)
		return -ENOMEM;
	while (count > 1u << table->index_bits)
		table->index_bits++;
	/* A random start: the server's reply cache may remember the xids of an earlier run. */
	if (getrandom(&table->generation, sizeof(table->generation), 0) !=
	    sizeof(table->generation))
		table->generation = (uint32_t)clock_now();
	return 0;
}

void call_table_free(struct call_table *table)
{
	free(table->calls);
	table->calls = NULL;
}

/* The one given back last is the one that the processor's cache still has. */
struct call *call_take(struct call_table *table, struct session_channel *channel)
{
	struct call *call = SLIST_FIRST(&table->free);

	if (call)
		SLIST_REMOVE_HEAD(&table->free, next_free);
	else
		call = &table->calls[table->used++];
	*call = (struct call){.channel = channel};
	return call;
}

void call_give_back(struct call_table *table, struct call *call)
{
	call->channel = NULL;
	SLIST_INSERT_HEAD(&table->free, call, next_free);
}

uint32_t call_new_xid(struct call_table *table, const struct call *call)
{
	return table->generation++ << table->index_bits | (uint32_t)(call - table->calls);
}

struct call *call_find(const struct call_table *table, const struct session_channel *channel,
		       uint32_t xid)
{
	uint32_t index = xid & ((1u << table->index_bits) - 1);
	struct call *call = &table->calls[index];

	if (index >= table->used)
		return NULL;
	return call->channel == channel && call->xid == xid && call->last_sent ? call : NULL;
}
