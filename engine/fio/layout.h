/* SPDX-License-Identifier: GPL-2.0-only */
/* layout.h - writes the part of a file that a job wants to read and that is not there yet. */
#pragma once

#include "group/path.h"
#include "fio.h"

/*
 * Fills [from, to) of `name` with data as fio's options shape it, over all the given paths at once,
 * and makes it durable. 0 or a negative errno, logged (-EINTR: the run was stopped).
 */
int layout_write(struct thread_data *td, struct path **paths, uint32_t path_count, const char *name,
		 uint64_t from, uint64_t to);
