/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs4_setup.h - the requests that get, keep and give up a client ID, sessions and opens (RFC 8881,
 * 18). Each function fills *request, for its owner to submit.
 */
#pragma once

#include "nfs/nfs4_client.h"

/*
 * EXCHANGE_ID, CREATE_SESSION, BIND_CONN_TO_SESSION, RECLAIM_COMPLETE, DESTROY_SESSION (over a
 * connection that is bound to it: 18.37.3), DESTROY_CLIENTID, or SEQUENCE alone, which renews the
 * lease. `session`: the one to be made, bound to or destroyed; else NULL.
 */
void nfs4_ask(struct nfs4_request *request, enum nfs4_operation operation,
	      const struct nfs4_client *client, const struct nfs4_session *session);
/* OPEN by the file's handle. */
void nfs4_ask_open(struct nfs4_request *request, const struct nfs4_client *client,
		   const struct nfs4_file *file, enum nfs4_claim claim);
/* DELEGRETURN of the delegation that came as the file was opened again. */
void nfs4_ask_delegreturn(struct nfs4_request *request, const struct nfs4_client *client,
			  const struct nfs4_file *file);

/* SEQUENCE comes before it: the call needs a slot. */
bool nfs4_is_sequenced(enum nfs4_operation operation);

/* Any request, of names4.c's too: writes the operations; reads their results, and returns the first
 * status that is not 0; true for one that the request's maker handles. */
void nfs4_put_request(const struct nfs4_request *request, struct nfs4_compound *compound);
uint32_t nfs4_get_request(struct nfs4_request *request, struct nfs4_results *results);
bool nfs4_tolerates(const struct nfs4_request *request, uint32_t status);
