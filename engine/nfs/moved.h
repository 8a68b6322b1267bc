/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * moved.h - what becomes of an I/O that READ, WRITE or COMMIT has carried out: the same in NFSv3
 * and NFSv4 (RFC 1813, 3.3.6, 3.3.7, 3.3.21; RFC 8881, 18.22, 18.32, 18.3). No state.
 */
#pragma once

#include <errno.h>

#include "client/protocol.h"

/* The results of a call whose status is good. */
struct moved {
	uint32_t count;		  /* READ, WRITE: bytes */
	bool eof;		  /* READ */
	enum io_stable committed; /* WRITE */
	const uint8_t *verifier;  /* WRITE, COMMIT: LEDGER_VERIFIER bytes, else zeros */
};

/* The I/O ends with a positive errno; `fault` as struct call_result has it. */
static inline enum verdict moved_fail(struct call_result *result, int error, const char *fault)
{
	result->error = error;
	result->fault = fault;
	return CALL_FAIL;
}

static inline enum verdict moved_read(const struct call *call, const struct moved *moved,
				      struct call_result *result)
{
	if (moved->count == call_rest(call) || moved->eof)
		return CALL_DONE;
	if (moved->count)
		return CALL_REST;
	return moved_fail(result, EIO, "no data came, and not the end of file either");
}

static inline enum verdict moved_write(const struct call *call, const struct moved *moved,
				       struct call_result *result)
{
	if (!moved->count)
		return moved_fail(result, EIO, "the server took no data");
	if (moved->committed < call->io->stable)
		return moved_fail(result, EIO,
				  "the server made it less durable than stable= asks for");
	return moved->count == call_rest(call) ? CALL_DONE : CALL_REST;
}

/* Fills *result for a call with an I/O. */
static inline enum verdict moved_judge(const struct call *call, const struct moved *moved,
				       struct call_result *result)
{
	enum io_op op = call->io->op;

	if (op != IO_COMMIT && moved->count > call_rest(call))
		return moved_fail(result, EPROTO, "the reply contradicts the call or itself");
	result->count = moved->count;
	result->durable = moved->committed != IO_UNSTABLE;
	memcpy(result->verifier, moved->verifier, sizeof(result->verifier));
	switch (op) {
	case IO_READ: return moved_read(call, moved, result);
	case IO_WRITE: return moved_write(call, moved, result);
	default: return CALL_DONE;
	}
}
