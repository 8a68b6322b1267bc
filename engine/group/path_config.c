/* SPDX-License-Identifier: GPL-2.0-only */
#include "group/path_config.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/getaddrinfo.h"

/* Reads "address+address+…" into config->locals. */
static int parse_locals(const char *text, int family, const struct path_terms *terms,
			struct path_config *config)
{
	char why[128], *list = strdup(text), *rest = list, *one;
	int error = 0;

	while (list && !error && (one = strsep(&rest, "+"))) {
		struct sockaddr_storage address, *grown;
		int count = pool_getaddrinfo(one, family, &address, 1, why, sizeof(why));

		if (count < 1 || address.ss_family != config->remote.ss_family) {
			terms->log("localaddr=%s: \"%s\": %s", text, one,
				   count < 1 ? why : "of another family than the server's address");
			error = -EINVAL;
			break;
		}
		grown = realloc(config->locals, (config->local_count + 1) * sizeof(*grown));
		if (!grown) {
			error = -ENOMEM;
			break;
		}
		config->locals = grown;
		config->locals[config->local_count++] = address;
	}
	free(list);
	return list ? error : -ENOMEM;
}

/* A path's own argument wins. */
#define CHOOSE(path_args, flag, member) \
	((path_args)->set & (flag) ? (path_args)->member : terms->args.member)

/* NFSv4 has one port, and no MOUNT: nfs(5) ignores mountport= then. */
static int version_terms(const struct path_terms *terms, const struct path_args *args,
			 struct path_config *config)
{
	enum { NFS_PORT = 2049 };
	static atomic_flag said = ATOMIC_FLAG_INIT;
	unsigned int version = CHOOSE(args, ARG_VERSION, minor);

	config->minor = version;
	config->stateless = terms->stateless;
	config->trunks = terms->trunks;
	if (!version)
		return 0;
	if (config->mount_port && !atomic_flag_test_and_set(&said))
		terms->log("mountport= is ignored: NFSv4 has no MOUNT");
	config->nfs_port = config->nfs_port ?: NFS_PORT;
	return 0;
}

/* Whoever wants other than nfs(5)'s defaults for a slow server means the set-up, too. */
static uint64_t setup_time(const struct path_config *config)
{
	enum { TIMEO = 60, RETRANS = 2 };
	bool told = config->timing.timeo != TIMEO * SEC || config->timing.retrans != RETRANS;

	return told ? max_of(config->timing.timeo * (config->timing.retrans + 1), 5 * SEC)
		    : 10 * SEC;
}

static void copy_terms(const struct path_terms *terms, const struct path_args *args,
		       struct path_config *config)
{
	config->rdma = CHOOSE(args, ARG_PROTO, proto) == PROTO_RDMA;
	config->rdma_port = CHOOSE(args, ARG_RDMAPORT, rdmaport);
	config->nfs_port = CHOOSE(args, ARG_PORT, port); /* of names, where data goes over RDMA */
	config->mount_port = CHOOSE(args, ARG_MOUNTPORT, mountport);
	config->rsize = CHOOSE(args, ARG_RSIZE, rsize);
	config->wsize = CHOOSE(args, ARG_WSIZE, wsize);
	config->timing.timeo = CHOOSE(args, ARG_TIMEO, timeo) * 100000000ull;
	config->timing.retrans = CHOOSE(args, ARG_RETRANS, retrans);
	config->setup_time = setup_time(config);
	config->timing.soft = CHOOSE(args, ARG_SOFT, soft);
	config->uid = CHOOSE(args, ARG_UID, uid);
	config->gid = CHOOSE(args, ARG_GID, gid);
}

static int copy_address(const struct pool_path *path, struct path_config *config)
{
	char address[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];

	if (getnameinfo((const struct sockaddr *)&path->addr, path->addr_len, address,
			sizeof(address), NULL, 0, NI_NUMERICHOST))
		return -EINVAL;
	config->remote = path->addr;
	config->remote_length = path->addr_len;
	config->address = strdup(address);
	config->export = strdup(path->export);
	return config->address && config->export ? 0 : -ENOMEM;
}

/* Asked before a file is laid out for nothing. */
static bool has_rdma_device(void)
{
	DIR *devices = opendir("/sys/class/infiniband");
	const struct dirent *entry;
	bool found = false;

	while (devices && !found && (entry = readdir(devices)))
		found = entry->d_name[0] != '.';
	if (devices)
		closedir(devices);
	return found;
}

static int check_rdma(const struct path_terms *terms, const struct pool_path *path,
		      const struct path_config *config)
{
	if (!config->rdma)
		return 0;
#ifndef HAVE_RDMA
	terms->log("%s: proto=rdma: the engine was built without libibverbs and librdmacm: apt-get "
		   "install libibverbs-dev librdmacm-dev, build again; or use proto=tcp",
		   path->label);
	return -EPROTONOSUPPORT;
#endif
	if (has_rdma_device())
		return 0;
	terms->log(
		"%s: proto=rdma: this machine has no RDMA device: load its driver (rdma link lists "
		"devices), or use proto=tcp",
		path->label);
	return -ENODEV;
}

static int copy_text(const char *from, char **to)
{
	*to = from ? strdup(from) : NULL;
	return *to || !from ? 0 : -ENOMEM;
}

/* Without a key of its own it lies beside the certificate, in one file. */
static int copy_tls(const struct path_terms *terms, const struct pool_path *path,
		    struct path_config *config)
{
	const struct path_args *args = &path->args;
	const char *certificate = CHOOSE(args, ARG_TLS_CERT, tls_cert);
	const char *key = CHOOSE(args, ARG_TLS_KEY, tls_key);
	const char *name = CHOOSE(args, ARG_TLS_NAME, tls_name);

	return copy_text(CHOOSE(args, ARG_TLS_CA, tls_ca), &config->tls_ca)
		       ?: copy_text(certificate, &config->tls_cert)
		       ?: copy_text(key ?: certificate, &config->tls_key)
		       ?: copy_text(name ?: path->host, &config->tls_name);
}

/* Why a path cannot have the security that is asked for, and what to do; NULL: it can. */
static const char *tls_refusal(const struct path_config *config)
{
#ifndef HAVE_TLS
	return "the engine was built without GnuTLS: apt-get install libgnutls28-dev, build again; "
	       "or use xprtsec=none";
#endif
	if (config->rdma)
		return "there is no TLS over RDMA (RFC 9289): use proto=tcp, or xprtsec=none";
	if (config->xprtsec == XPRTSEC_MTLS && !config->tls_cert)
		return "the client's certificate is missing: give tls_cert= and tls_key=, or use "
		       "xprtsec=tls";
	return NULL;
}

static int tls_terms(const struct path_terms *terms, const struct pool_path *path,
		     struct path_config *config)
{
	const char *refusal;
	int error;

	config->xprtsec = CHOOSE(&path->args, ARG_XPRTSEC, xprtsec);
	config->ktls = terms->ktls;
	if (config->xprtsec == XPRTSEC_NONE)
		return 0;
	error = copy_tls(terms, path, config);
	if (error)
		return error;
	refusal = tls_refusal(config);
	if (!refusal)
		return 0;
	terms->log("%s: xprtsec=%s: %s", path->label, pool_xprtsec_word(config->xprtsec), refusal);
	return -EPROTONOSUPPORT;
}

static int copy_kerberos(const struct path_terms *terms, const struct pool_path *path,
			 struct path_config *config)
{
	const struct path_args *args = &path->args;
	const char *server = CHOOSE(args, ARG_SERVER_PRINCIPAL, server_principal);
	int error = copy_text(CHOOSE(args, ARG_PRINCIPAL, principal), &config->principal)
			    ?: copy_text(CHOOSE(args, ARG_KEYTAB, keytab), &config->keytab)
			    ?: copy_text(CHOOSE(args, ARG_CCACHE, ccache), &config->ccache)
			    ?: copy_text(server, &config->server_principal);

	if (error || server)
		return error;
	if (asprintf(&config->server_principal, "nfs@%s", path->host) < 0) {
		config->server_principal = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* Only files are looked at: a keytab of another kind has its name before a colon. */
static int check_keytab(const struct path_terms *terms, const struct pool_path *path,
			const struct path_config *config)
{
	const char *name = config->keytab, *file = name;

	if (name && !strncmp(name, "FILE:", strlen("FILE:")))
		file += strlen("FILE:");
	else if (!name || (*name != '/' && strchr(name, ':')))
		return 0;
	if (!faccessat(AT_FDCWD, file, R_OK, AT_EACCESS))
		return 0;
	terms->log("%s: keytab=%s: %s: name a file that you may read, or leave it out and use "
		   "kinit's tickets",
		   path->label, name, strerror(errno));
	return -EINVAL; /* ENOENT is of a job's file */
}

/* Why a path cannot have Kerberos, and what to do; NULL: it can. */
static const char *kerberos_refusal(const struct path_config *config)
{
	if (config->rdma && config->sec != SEC_KRB5)
		return "over RDMA there is krb5 alone: krb5i and krb5p protect data, which RDMA "
		       "moves apart from its message (RFC 8166, 8.2.2): use krb5, or proto=tcp";
#ifndef HAVE_GSS
	return "the engine was built without Kerberos: apt-get install libkrb5-dev "
	       "libgnutls28-dev, build again; or leave it out";
#else
	return NULL;
#endif
}

static int kerberos_terms(const struct path_terms *terms, const struct pool_path *path,
			  struct path_config *config)
{
	const char *refusal;
	int error;

	config->sec = CHOOSE(&path->args, ARG_SEC, sec);
	if (config->sec == SEC_SYS)
		return 0;
	error = copy_kerberos(terms, path, config) ?: check_keytab(terms, path, config);
	if (error)
		return error;
	refusal = kerberos_refusal(config);
	if (!refusal)
		return 0;
	terms->log("%s: %s=%s: %s", path->label, path->args.set & ARG_SEC ? "sec" : "security",
		   pool_sec_word(config->sec), refusal);
	return -EPROTONOSUPPORT;
}

/* `word` is nfs(5)'s, and that of a path's arguments. */
static int refuse_for_mount(const struct path_terms *terms, const struct pool_path *path,
			    const char *option, const char *word, const char *value)
{
	terms->log("%s: %s=%s: a kernel mount's security is its own: mount with -o %s=%s, and give "
		   "the option to other paths alone (nfs://...?%s=%s)",
		   path->label, option, value, word, value, word, value);
	return -EPROTONOSUPPORT;
}

/* The kernel has its own security, which the mount decides. */
static int mount_terms(const struct path_terms *terms, const struct pool_path *path,
		       struct path_config *config)
{
	enum path_xprtsec xprtsec = terms->args.xprtsec;
	enum path_sec sec = terms->args.sec;

	if (xprtsec != XPRTSEC_NONE)
		return refuse_for_mount(terms, path, "xprtsec", "xprtsec",
					pool_xprtsec_word(xprtsec));
	if (sec != SEC_SYS)
		return refuse_for_mount(terms, path, "security", "sec", pool_sec_word(sec));
	config->dir = strdup(path->dir);
	return config->dir ? 0 : -ENOMEM;
}

static int nfs_terms(const struct path_terms *terms, const struct pool_path *path,
		     struct path_config *config)
{
	const char *locals = CHOOSE(&path->args, ARG_LOCALADDR, localaddr);
	int error = copy_address(path, config);

	if (error)
		return error;
	copy_terms(terms, &path->args, config);
	error = version_terms(terms, &path->args, config)
			?: tls_terms(terms, path, config)
			?: kerberos_terms(terms, path, config)
			?: check_rdma(terms, path, config);
	if (error)
		return error;
	return locals ? parse_locals(locals, config->remote.ss_family, terms, config) : 0;
}

int path_config_make(struct path_config *config, const struct pool_path *path,
		     const struct path_terms *terms)
{
	int error;

	memset(config, 0, sizeof(*config));
	config->label = strdup(path->label);
	if (path->kind == PATH_MOUNT)
		error = mount_terms(terms, path, config);
	else
		error = nfs_terms(terms, path, config);
	if (!error && !config->label)
		error = -ENOMEM;
	if (error)
		path_config_free(config);
	return error;
}

/* --- options that nothing uses --- */

/* Options of one kind of security. */
struct security {
	uint32_t arguments; /* of enum path_arg */
	bool given;	    /* for all paths */
	bool (*asked)(const struct path_terms *terms, const struct path_args *args);
	const char *refusal;
};

static bool asks_for_tls(const struct path_terms *terms, const struct path_args *args)
{
	return CHOOSE(args, ARG_XPRTSEC, xprtsec) != XPRTSEC_NONE;
}

static bool asks_for_kerberos(const struct path_terms *terms, const struct path_args *args)
{
	return CHOOSE(args, ARG_SEC, sec) != SEC_SYS;
}

static int check_used(const struct path_terms *terms, const struct pool *pool,
		      const struct security *security)
{
	bool used = false;

	for (unsigned int i = 0; i < pool->count; i++) {
		const struct pool_path *path = &pool->paths[i];
		bool asked = security->asked(terms, &path->args);

		used = used || asked;
		if (!asked && path->args.set & security->arguments) {
			terms->log("%s: %s", path->label, security->refusal);
			return -EINVAL;
		}
	}
	if (!security->given || used)
		return 0;
	terms->log("%s", security->refusal);
	return -EINVAL;
}

static int check_stamps(const struct path_terms *terms, const struct pool *pool)
{
	for (unsigned int i = 0; terms->stamps && i < pool->count; i++) {
		const struct pool_path *path = &pool->paths[i];
		bool rdma = CHOOSE(&path->args, ARG_PROTO, proto) == PROTO_RDMA;

		if (path->kind == PATH_NFS && !rdma && !asks_for_tls(terms, &path->args))
			continue;
		terms->log("%s: rx_timestamps=1: the kernel tells when a reply came over TCP in "
			   "clear alone, not over RDMA or TLS, nor of a mount: leave it out",
			   path->label);
		return -EINVAL;
	}
	return 0;
}

/* Why a path's data cannot be dropped in the kernel, and what to do; NULL: it can. */
static const char *discard_refusal(const struct path_terms *terms, const struct pool_path *path)
{
	const struct path_args *args = &path->args;

	if (path->kind == PATH_MOUNT)
		return "a kernel mount copies all that is read: name its export (nfs://...)";
	if (CHOOSE(args, ARG_PROTO, proto) == PROTO_RDMA)
		return "RDMA copies nothing: use proto=tcp";
	if (asks_for_tls(terms, args))
		return "TLS must see all that is read, to decrypt it: use xprtsec=none";
	if (CHOOSE(args, ARG_SEC, sec) > SEC_KRB5)
		return "krb5i and krb5p must see all that is read, to check it: use krb5 or sys";
	return NULL;
}

static int check_discard(const struct path_terms *terms, const struct pool *pool)
{
	for (unsigned int i = 0; terms->discards && i < pool->count; i++) {
		const char *refusal = discard_refusal(terms, &pool->paths[i]);

		if (!refusal)
			continue;
		terms->log("%s: discard=1: %s, or leave discard=1 out", pool->paths[i].label,
			   refusal);
		return -EPROTONOSUPPORT;
	}
	return 0;
}

int path_config_check(const struct path_terms *terms, const struct pool *pool)
{
	const struct path_args *args = &terms->args;
	const struct security tls = {
		.arguments = ARG_TLS_CA | ARG_TLS_CERT | ARG_TLS_KEY | ARG_TLS_NAME,
		.given = args->tls_ca || args->tls_cert || args->tls_key || args->tls_name ||
			 terms->ktls,
		.asked = asks_for_tls,
		.refusal = "tls_ca=, tls_cert=, tls_key=, tls_name= and ktls= mean nothing in "
			   "clear: give xprtsec=tls or mtls too, or leave them out",
	};
	const struct security kerberos = {
		.arguments = ARG_PRINCIPAL | ARG_KEYTAB | ARG_CCACHE | ARG_SERVER_PRINCIPAL,
		.given = args->principal || args->keytab || args->ccache || args->server_principal,
		.asked = asks_for_kerberos,
		.refusal =
			"principal=, keytab=, ccache= and server_principal= are Kerberos's: give "
			"security=krb5, krb5i or krb5p too (sec= in a path), or leave them out",
	};

	return check_used(terms, pool, &tls)
		       ?: check_used(terms, pool, &kerberos)
		       ?: check_stamps(terms, pool)
		       ?: check_discard(terms, pool);
}
