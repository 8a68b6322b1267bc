/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rpcsec_gss.h - RPCSEC_GSS version 1 (RFC 2203): calls that show who sends them, with integrity or
 * privacy of arguments, results and data, by any mechanism of GSS-API. One for each client, with a
 * context (gss_context.h) of its own.
 *
 * NULL calls go without credentials. A context that the server has forgotten, or that expires soon,
 * is replaced once the calls that were sent with it are answered.
 */
#pragma once

#include "stats/counters.h"
#include "wire/credentials.h"
#include "wire/gss_mechanism.h"

/* RFC 2203, 5.3.1 */
enum gss_service { GSS_SERVICE_NONE = 1, GSS_SERVICE_INTEGRITY = 2, GSS_SERVICE_PRIVACY = 3 };

struct rpcsec_gss_terms {
	enum gss_service service;
	struct gss_mechanism *mechanism;    /* freed with the credentials, also where new() fails */
	struct security_counters *counters; /* the owner's; it outlives the credentials */
	uint32_t data_max;		    /* bytes of data that a call carries at most */
};

/* 0 or -ENOMEM. */
int rpcsec_gss_new(struct rpc_credentials **credentials, const struct rpcsec_gss_terms *terms);
void rpcsec_gss_free(struct rpc_credentials *credentials);
