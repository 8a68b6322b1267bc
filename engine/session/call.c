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
