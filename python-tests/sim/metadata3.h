/* SPDX-License-Identifier: GPL-2.0-only */
/* metadata3.h - the simulated server's metadata operations of NFSv3 (RFC 1813, 3.3). */
#pragma once

#include "nfs/nfs3.h"
#include "wire/xdr.h"

/* Carries a call out whose arguments are in `in`; results, with their status, go into `out`. */
void metadata3_answer(enum nfs3_procedure procedure, struct xdr_in *in, struct xdr_out *out);

/* A status that is not 0, and the attributes that follow it. */
void metadata3_refuse(enum nfs3_procedure procedure, struct xdr_out *out, uint32_t status);
