/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/path_client.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/nfs3.h"
#include "nfs/version.h"
#include "wire/rpcsec_gss.h"

uint32_t path_head_max(const struct path *path)
{
	bool wraps = path->config.terms.security >= SEC_KRB5I;

	return RPC_REPLY_HEAD_MAX + (wraps ? path->config.rsize : 0);
}

static void write_name(const struct path *path, uint32_t number,
		       char name[AUTH_SYS_MACHINE_MAX + 1])
{
	const char *form = path->config.terms.client_name;
	const char *place = form ? strstr(form, "%d") : NULL;

	if (place)
		snprintf(name, AUTH_SYS_MACHINE_MAX + 1, "%.*s%u%s", (int)(place - form), form,
			 number, place + strlen("%d"));
	else if (form)
		snprintf(name, AUTH_SYS_MACHINE_MAX + 1, "%s", form);
}

static uint32_t id_of(const struct path *path, const struct term *term, uint32_t id,
		      uint32_t number)
{
	return id + (term_is_each(term, &path->config.terms) ? number : 0);
}

void path_client_ids(const struct path *path, uint32_t number, struct auth_sys_ids *ids)
{
	const struct path_config *config = &path->config;

	write_name(path, number, ids->machine);
	ids->uid = id_of(path, TERM(uid), config->uid, number);
	ids->gid = id_of(path, TERM(gid), config->gid, number);
}

/* AUTH_SYS; with nclients= of a machine, and perhaps a user and group, of the client's own. */
static int open_sys(struct rpc_client *rpc)
{
	const struct path *path = rpc->server;
	struct auth_sys *auth = malloc(sizeof(*auth));
	struct auth_sys_ids ids = path->ids;

	if (!auth)
		return -ENOMEM;
	if (rpc->own)
		path_client_ids(path, rpc->own - 1, &ids);
	auth_sys_init(auth, &ids);
	rpc->credentials = &auth->base;
	return 0;
}

#ifdef HAVE_GSS
/* A flavor has the number of its service. */
_Static_assert((int)SEC_KRB5 == (int)GSS_SERVICE_NONE &&
		       (int)SEC_KRB5I == (int)GSS_SERVICE_INTEGRITY &&
		       (int)SEC_KRB5P == (int)GSS_SERVICE_PRIVACY,
	       "");
#endif

static int open_kerberos(struct rpc_client *rpc)
{
#ifdef HAVE_GSS
	const struct path *path = rpc->server;
	const struct path_config *config = &path->config;
	struct rpcsec_gss_terms terms = {
		.service = (enum gss_service)config->terms.security,
		.counters = &rpc->counters->security,
		.data_max = config->wsize,
	};
	int error = kerberos_new(&terms.mechanism, &config->terms);

	return error ?: rpcsec_gss_new(&rpc->credentials, &terms);
#else
	return -EPROTONOSUPPORT; /* path_config.c refuses Kerberos */
#endif
}

int path_credentials_open(struct rpc_client *rpc)
{
	const struct path *path = rpc->server;

	return path->config.terms.security == SEC_SYS ? open_sys(rpc) : open_kerberos(rpc);
}

void path_credentials_close(struct rpc_client *rpc)
{
	if (!rpc->credentials)
		return;
#ifdef HAVE_GSS
	if (rpc->credentials->flavor->context) {
		rpcsec_gss_free(rpc->credentials);
		return;
	}
#endif
	free(container_of(rpc->credentials, struct auth_sys, base));
}

/* --- TLS --- */

int path_tls_open(struct path *path)
{
#ifdef HAVE_TLS
	static atomic_flag said = ATOMIC_FLAG_INIT; /* set before jobs are forked: logged once */
	const struct path_config *config = &path->config;
	const char *word = term_value(TERM(xprtsec), config->terms.xprtsec)->word;
	struct gnutls_certificate_credentials_st *credentials;
	char why[RPC_WHY_MAX];
	int error;

	if (config->terms.xprtsec == XPRTSEC_NONE)
		return 0;
	if (config->terms.ktls == KTLS_ON && !ktls_there()) {
		snprintf(why, RPC_WHY_MAX,
			 "ktls=1: this kernel has no TLS: modprobe tls, or leave ktls= out");
		error = -EPROTONOSUPPORT;
	} else {
		error = tls_credentials_new(&credentials, &config->terms, why);
	}
	if (error) {
		path_say(path, "xprtsec=%s: %s", word, why);
		return error;
	}
	if (!config->terms.version && !atomic_flag_test_and_set(&said))
		path_say(path,
			 "xprtsec=%s: NFSv3's MOUNT goes in clear, as rpcbind "
			 "does, since servers have no TLS for them; NFS uses TLS",
			 word);
	path->tls_terms = (struct tls_terms){
		.credentials = credentials,
		.ktls = config->terms.ktls,
		.mutual = config->terms.xprtsec == XPRTSEC_MTLS,
		.name = config->terms.tls_name,
		.program = NFS_PROGRAM,
		.version = path->version->protocol->version,
	};
#endif /* else path_config.c refuses xprtsec= */
	return 0;
}

void path_tls_close(struct path *path)
{
#ifdef HAVE_TLS
	tls_credentials_free(path->tls_terms.credentials);
#endif
}

const struct rpc_channel_ops *path_transport(const struct path *path)
{
#ifdef HAVE_TLS
	if (path->config.terms.xprtsec != XPRTSEC_NONE)
		return &rpc_tls;
#endif
	return &rpc_tcp;
}
