/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * io_result.h - judges the results of READ, WRITE and COMMIT: is the I/O done, short or failed? The
 * same for NFSv3 and NFSv4. No state.
 */
#pragma once

#include <errno.h>

#include "client/protocol.h"
#include "nfs/meta.h"

static inline enum disposition judge_read(const struct call *call,
					  const struct io_result *io_result,
					  struct call_result *result)
{
	if (io_result->count == call_rest(call) || io_result->eof)
		return CALL_DONE;
	if (io_result->count)
		return CALL_PARTIAL;
	return call_fail(result, EIO, "the reply has neither data nor the end of file");
}

static inline enum disposition judge_write(const struct call *call,
					   const struct io_result *io_result,
					   struct call_result *result)
{
	if (!io_result->count)
		return call_fail(result, EIO, "the server took no data");
	if (io_result->committed < call->io->stable)
		return call_fail(result, EIO,
				 "the server made data less durable than stable= asks for");
	return io_result->count == call_rest(call) ? CALL_DONE : CALL_PARTIAL;
}

/* Fills *result for a call with an I/O. */
static inline enum disposition io_result_judge(const struct call *call,
					       const struct io_result *io_result,
					       struct call_result *result)
{
	enum io_op op = call->io->op;

	if (op != IO_COMMIT && io_result->count > call_rest(call))
		return call_fail(result, EPROTO, "the reply contradicts the call or itself");
	result->count = io_result->count;
	result->durable = io_result->committed != IO_UNSTABLE;
	memcpy(result->verifier, io_result->verifier, sizeof(result->verifier));
	switch (op) {
	case IO_READ: return judge_read(call, io_result, result);
	case IO_WRITE: return judge_write(call, io_result, result);
	default: return CALL_DONE;
	}
}
