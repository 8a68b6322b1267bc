/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * security.h - a simulated job's Kerberos: the engine's RPCSEC_GSS for each client, by the
 * mechanism in mechanism.h. What it promises is checked for each number, context and reply. TLS,
 * which is tls_server.h's, is chosen here as well.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "contexts.h"
#include "mechanism.h"
#include "tls_server.h"

/* Chosen by a seed for its job, which has no Kerberos in two of three, and no TLS in four of five.
 */
struct security_terms {
	struct contexts_terms contexts;
	struct kdc_terms kdc;
	struct tls_faults tls;
};
struct security_terms security_choose(uint64_t seed, uint32_t path_count);

void security_begin(const struct kdc_terms *terms);
/* All clients are gone: they have given back what was theirs. */
void security_end(void);

/* The server has dropped that number, as it lies behind the window of the context with that key. */
void security_check_dropped(uint64_t key, uint32_t number);
