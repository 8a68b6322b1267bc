/* SPDX-License-Identifier: GPL-2.0-only */
/* path_entries.h - opens the directories that hold the entries of a path, one after the other. */
#pragma once

#include "conn/path.h"

/*
 * Opens the tree below directory `name`, on the terms of path->job. `hard`: a directory whose
 * answer was lost is asked for again, over another connection, until path_job's stop(); with
 * failover for as long as one operation on names may take. 0 or a negative errno; what cannot be
 * said of the directory, such as a mount that is refused, is logged.
 */
int path_entries_open(struct path *path, const char *name, struct entries **entries);
