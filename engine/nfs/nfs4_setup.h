/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs4_setup.h - the requests with which a client ID, sessions and opens are had, kept and given up
 * (RFC 8881, 18). Each fills *request, which is then the owner's to submit.
 */
#ifndef NFSMULTI_NFS_NFS4_SETUP_H
#define NFSMULTI_NFS_NFS4_SETUP_H

#include "nfs/nfs4_client.h"

void nfs4_ask_exchange_id(struct nfs4_request *request, const struct nfs4_client *client);
void nfs4_ask_create_session(struct nfs4_request *request, const struct nfs4_client *client,
			     const struct nfs4_session *session);
/* By the file's handle. */
void nfs4_ask_open(struct nfs4_request *request, const struct nfs4_client *client,
		   const struct nfs4_file *file, enum nfs4_claim claim);
/* Of a delegation that came with being opened again. */
void nfs4_ask_delegreturn(struct nfs4_request *request, const struct nfs4_file *file);
void nfs4_ask_reclaim_complete(struct nfs4_request *request);

/* SEQUENCE alone. */
void nfs4_ask_renewal(struct nfs4_request *request);

/* A session is destroyed over a connection that is bound to it (18.37.3). */
void nfs4_ask_bind_conn(struct nfs4_request *request, const struct nfs4_session *session);
void nfs4_ask_destroy_session(struct nfs4_request *request, const struct nfs4_session *session);
void nfs4_ask_destroy_clientid(struct nfs4_request *request, const struct nfs4_client *client);

#endif
