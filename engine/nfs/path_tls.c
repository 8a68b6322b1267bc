/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/path_tls.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>

#include "nfs/nfs3.h"
#include "nfs/version.h"

#ifdef HAVE_TLS
/* Said once, by the process that all jobs come from. */
static void say_mount(const struct path *path)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!path->config.terms.version && !atomic_flag_test_and_set(&said))
		path->job.log("%s: xprtsec=%s: NFSv3's MOUNT goes in clear, as servers take it; "
			      "all other calls go over TLS",
			      path->config.label,
			      term_value(TERM(xprtsec), path->config.terms.xprtsec)->word);
}

static int check_kernel(const struct path_config *config, char *why)
{
	if (config->terms.ktls != KTLS_ON || ktls_there())
		return 0;
	snprintf(why, RPC_WHY_MAX,
		 "ktls=1: this kernel has no TLS: modprobe tls, or leave ktls= out");
	return -EPROTONOSUPPORT;
}

int path_tls_open(struct path *path)
{
	const struct path_config *config = &path->config;
	const bool own = config->terms.xprtsec == XPRTSEC_MTLS;
	const struct tls_files files = {
		.ca = config->terms.tls_ca,
		.certificate = own ? config->terms.tls_cert : NULL,
		.key = own ? config->terms.tls_key : NULL,
	};
	char why[RPC_WHY_MAX];
	int error;

	if (config->terms.xprtsec == XPRTSEC_NONE)
		return 0;
	error = check_kernel(config, why) ?: tls_credentials_new(&path->tls, &files, why);
	if (error) {
		path->job.log("%s: xprtsec=%s: %s", config->label,
			      term_value(TERM(xprtsec), config->terms.xprtsec)->word, why);
		return error;
	}
	say_mount(path);
	path->tls_terms = (struct tls_terms){
		.credentials = path->tls,
		.ktls = config->terms.ktls,
		.mutual = own,
		.name = config->terms.tls_name,
		.program = NFS_PROGRAM,
		.version = path->version->protocol->version,
	};
	return 0;
}

void path_tls_close(struct path *path)
{
	tls_credentials_free(path->tls);
}

const struct rpc_channel_ops *path_transport(const struct path *path)
{
	return path->config.terms.xprtsec == XPRTSEC_NONE ? &rpc_tcp : &rpc_tls;
}
#else
int path_tls_open(struct path *path)
{
	return 0; /* path_config.c refuses it */
}

void path_tls_close(struct path *path)
{
}

const struct rpc_channel_ops *path_transport(const struct path *path)
{
	return &rpc_tcp;
}
#endif
