/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * compound.h - NFSv4.1's one procedure (RFC 8881, 16.2), of minor versions 1 and 2: sessions, a
 * few operations on files, and no state. The export is the root, and "export" in the root.
 *
 * Nothing may follow READ and WRITE, whose data is not looked at. WRITE is served before its data
 * has come if only SEQUENCE and PUTFH precede it; any other call is served once all of it is here.
 */
#pragma once

#include "service.h"

/* The server's name: addresses where it is the same are one server's. Before any is served. */
void compound_init(const char *owner);

/* `in`: a COMPOUND's arguments, `whole` if to their end. The rest is service_answer()'s. */
void compound_serve(const struct service *service, struct xdr_in *in, bool whole,
		    struct xdr_out *out, uint32_t *data);
