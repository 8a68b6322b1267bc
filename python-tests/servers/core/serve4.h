/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * serve4.h - NFSv4.1's one procedure (RFC 8881, 16.2), of minor versions 1 and 2: arguments read,
 * operations carried out in turn, results written.
 *
 * Nothing may follow READ and WRITE, whose data is not looked at here. WRITE is served before its
 * data has come if only SEQUENCE and PUTFH precede it; any other call once all of it is here.
 */
#pragma once

#include "core/call.h"

/* call->in: a COMPOUND's arguments, `whole` if to their end. */
void serve_nfs4(struct nfs_call *call, bool whole);
