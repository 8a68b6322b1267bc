/* SPDX-License-Identifier: GPL-2.0-only */
/* engine_options.h - the engine's options as fio has them: it stores each job's as struct terms. */
#pragma once

#include "fio.h"
#include "terms/terms.h"

/* Filled as the engine is loaded. */
extern struct fio_option engine_option_table[];

/* Those of a job. */
static inline const struct terms *options_of(const struct thread_data *td)
{
	return td->eo;
}
