/* SPDX-License-Identifier: GPL-2.0-only */
/* export_items.c - what both kinds of export need: words for errors, and the memory of names. */
#include "group/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int export_fail(struct export *export, const char *what, const char *name, int error,
		const char *status)
{
	snprintf(export->error, sizeof(export->error), "%s \"%.100s\": %s%s%s%s", what, name,
		 status ?: "", status ? " (" : "", strerror(-error), status ? ")" : "");
	return error;
}

void export_items_free(struct export_items *items)
{
	free(items->items);
	free(items->names);
	*items = (struct export_items){0};
}
