/* SPDX-License-Identifier: GPL-2.0-only */
/* serve3.h - NFSv3's procedures (RFC 1813, 3.3): arguments read, carried out, results written. */
#pragma once

#include "core/call.h"

/* Serves a call of that procedure. False: there is none of that number, and nothing was written. */
bool serve_nfs3(struct nfs_call *call, uint32_t procedure);

/* The results of a procedure that was not carried out: why, and no attributes. */
void refuse_nfs3(uint32_t procedure, struct xdr_out *out, uint32_t status);
