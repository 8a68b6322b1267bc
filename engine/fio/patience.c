/* SPDX-License-Identifier: GPL-2.0-only */
#include "patience.h"

#include "util.h"

static const uint64_t NAMES_GRACE = 2 * SEC; /* after being told: for names, such as an unlink … */
static const uint64_t IO_GRACE = 3 * SEC;    /* … and for I/O */
static const uint64_t SILENCE = 3 * SEC;     /* after the runtime: without a single reply … */
static const uint64_t SYNC_SILENCE = 60 * SEC; /* … and while a COMMIT is all that is waited for */

static __thread struct {
	struct thread_data *td;
	bool setup;
	uint64_t told_at, silent_since; /* 0: not yet */
} here;

static void begin(struct thread_data *td, bool setup)
{
	memset(&here, 0, sizeof(here));
	here.td = td;
	here.setup = setup;
}

void patience_setup(struct thread_data *td)
{
	begin(td, true);
}

void patience_run(struct thread_data *td)
{
	begin(td, false);
}

void patience_end(void)
{
	begin(NULL, false);
}

static bool runtime_over(const struct thread_data *td)
{
	return td->o.timeout && utime_since_now(&td->epoch) >= td->o.timeout + td->o.ramp_time;
}

bool patience_told(void)
{
	if (!here.td || here.told_at)
		return here.told_at;
	if (here.td->terminate && (here.setup || !runtime_over(here.td)))
		here.told_at = clock_now();
	return here.told_at;
}

bool patience_stopped(void)
{
	return patience_told() && (here.setup || clock_now() - here.told_at > NAMES_GRACE);
}

bool patience_lost(bool progress, bool syncing)
{
	uint64_t now;

	if (patience_told())
		return clock_now() - here.told_at > IO_GRACE;
	if (progress || !here.td || !runtime_over(here.td)) {
		here.silent_since = 0;
		return false;
	}
	now = clock_now();
	if (!here.silent_since)
		here.silent_since = now;
	return now - here.silent_since > (syncing ? SYNC_SILENCE : SILENCE);
}
