/* SPDX-License-Identifier: GPL-2.0-only */
/* meta_mix.h - which operations a metadata job does, and how often: by meta_mix=, or one for reads
 * and one for writes or trims. */
#pragma once

#include "engine_options.h"

#include "nfs/meta.h"

struct meta_mix {
	uint32_t weights[META_OPS]; /* 0: not in the mix */
	uint32_t reads, writes;	    /* their sums */
	bool beside;		    /* what is made and removed lies beside the job's entries */
};

/* The job's mix. 0, or -EINVAL, logged. */
int meta_mix_of(const struct thread_data *td, struct meta_mix *mix);

/* Refuses what does not fit its mix, and sets fio's rwmixread from it. 0 or -EINVAL, logged. */
int meta_mix_check(struct thread_data *td);

/* True where an I/O may do it: a removal of a mix makes what it removes, where there is nothing. */
bool meta_mix_does(const struct meta_mix *mix, enum meta_op op);

/* An I/O's operation, by a number below the sum of its direction's weights. */
enum meta_op meta_mix_at(const struct meta_mix *mix, enum fio_ddir ddir, uint32_t number);
