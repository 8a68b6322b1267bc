/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/path_credentials.h"

uint32_t path_head_max(const struct path *path)
{
	bool wraps = path->config.terms.security >= SEC_KRB5I;

	return RPC_REPLY_HEAD_MAX + (wraps ? path->config.rsize : 0);
}

#ifdef HAVE_GSS
#include "transport/kerberos.h"
#include "wire/rpcsec_gss.h"

int path_credentials_open(struct rpc_client *rpc)
{
	static const enum gss_service services[] = {
		[SEC_KRB5] = GSS_SERVICE_NONE,
		[SEC_KRB5I] = GSS_SERVICE_INTEGRITY,
		[SEC_KRB5P] = GSS_SERVICE_PRIVACY,
	};
	struct path *path = rpc->server;
	const struct path_config *config = &path->config;
	const struct kerberos_terms kerberos = {
		.principal = config->terms.principal,
		.keytab = config->terms.keytab,
		.ccache = config->terms.ccache,
		.server = config->terms.server_principal,
	};
	struct rpcsec_gss_terms terms = {
		.service = services[config->terms.security],
		.counters = &rpc->counters->security,
		.data_max = config->wsize,
	};
	int error;

	if (config->terms.security == SEC_SYS) {
		rpc->credentials = &path->credentials.base;
		return 0;
	}
	error = kerberos_new(&terms.mechanism, &kerberos);
	return error ?: rpcsec_gss_new(&rpc->credentials, &terms);
}

void path_credentials_close(struct rpc_client *rpc)
{
	const struct path *path = rpc->server;

	if (rpc->credentials && rpc->credentials != &path->credentials.base)
		rpcsec_gss_free(rpc->credentials);
}
#else
int path_credentials_open(struct rpc_client *rpc)
{
	struct path *path = rpc->server;

	rpc->credentials = &path->credentials.base; /* path_config.c refuses Kerberos */
	return 0;
}

void path_credentials_close(struct rpc_client *rpc)
{
}
#endif
