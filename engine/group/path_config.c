/* SPDX-License-Identifier: GPL-2.0-only */
#include "group/path.h"

#include <fcntl.h>
#include <glob.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Reads one part of localaddr=. NULL, or why it is refused. */
static const char *read_local(const char *text, int family, struct address_range *range, char *why,
			      size_t why_size)
{
	const char *refusal = address_range_read(text, strlen(text), range);

	if (refusal && range->count)
		return refusal;
	if (refusal) { /* it may be a name, or have a zone */
		if (pool_getaddrinfo(text, family, &range->first, 1, why, why_size) < 1)
			return why;
		range->count = 1;
	}
	return range->first.ss_family == family ? NULL
						: "of another family than the server's address";
}

static int add_local(const char *text, pool_log *log, struct path_config *config)
{
	struct address_range range, *grown;
	char room[128];
	const char *why = read_local(text, config->remote.ss_family, &range, room, sizeof(room));

	if (why) {
		log("localaddr=%s: \"%s\": %s", config->terms.localaddr, text, why);
		return -EINVAL;
	}
	grown = reallocarray(config->locals, config->local_count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	config->locals = grown;
	config->locals[config->local_count++] = range;
	return 0;
}

/* Reads "part+part+…" into config->locals. */
static int read_locals(pool_log *log, struct path_config *config)
{
	char *list, *rest, *one;
	int error = 0;

	if (!config->terms.localaddr)
		return 0;
	rest = list = strdup(config->terms.localaddr);
	if (!list)
		return -ENOMEM;
	while (!error && (one = strsep(&rest, "+")))
		error = add_local(one, log, config);
	free(list);
	return error;
}

static void copy_terms(pool_log *log, struct path_config *config)
{
	enum { NFS_PORT = 2049, TRANSFER_SIZE = 1 << 20, TIMEO = 600, RETRANS = 2 };
	static atomic_flag said = ATOMIC_FLAG_INIT;
	const struct terms *terms = &config->terms;

	config->rdma = terms_over_rdma(terms);
	config->nfs_port = terms->port; /* for names alone, where data goes over RDMA */
	config->rsize = min_of(terms->rsize ?: TRANSFER_SIZE, (unsigned int)PATH_IO_MAX);
	config->wsize = min_of(terms->wsize ?: TRANSFER_SIZE, (unsigned int)PATH_IO_MAX);
	config->timing.timeo = terms->timeo * 100000000ull;
	config->timing.retrans = terms->retrans;
	config->timing.soft = terms->soft;
	config->timing.reconnect = terms->reconnect
					   ?: terms->nclients ? RECONNECT_JITTER
							      : RECONNECT_BACKOFF;
	config->setup_time = 10 * SEC;
	/* A user who changes timeo= or retrans= for a slow server means the set-up, too. */
	if (terms->timeo != TIMEO || terms->retrans != RETRANS)
		config->setup_time = max_of(timer_major(&config->timing), 5 * SEC);
	config->uid = term_given(TERM(uid), terms) ? terms->uid : geteuid();
	config->gid = term_given(TERM(gid), terms) ? terms->gid : getegid();
	if (!terms->version)
		return;
	/* NFSv4 has one port and no MOUNT: mountport= is ignored, as in nfs(5). */
	if (terms->mountport && !atomic_flag_test_and_set(&said))
		log("mountport= is ignored: NFSv4 has no MOUNT");
	config->nfs_port = config->nfs_port ?: NFS_PORT;
}

/* Sets defaults: tls_key= is tls_cert=, tls_name= is the host as written, and server_principal= is
 * nfs@ and the host. False: out of memory. */
static bool set_names(struct terms *terms, const struct pool_path *path)
{
	if (terms->tls_cert && !terms->tls_key && !(terms->tls_key = strdup(terms->tls_cert)))
		return false;
	if (!terms->tls_name && !(terms->tls_name = strdup(path->host)))
		return false;
	if (terms->server_principal ||
	    asprintf(&terms->server_principal, "nfs@%s", path->host) >= 0)
		return true;
	terms->server_principal = NULL;
	return false;
}

/* --- why a path cannot have its terms, and what to do --- */

static bool has_rdma_device(void)
{
	glob_t devices = {0};
	bool has = !glob("/sys/class/infiniband/?*", GLOB_NOSORT, NULL, &devices);

	globfree(&devices);
	return has;
}

static int check_terms(pool_log *log, const struct path_config *config)
{
	const struct terms *terms = &config->terms;
	bool tls = terms->xprtsec != XPRTSEC_NONE;
	const struct refusal {
		const struct term *term;
		bool given;
		const char *why;
	} refusals[] = {
#ifndef HAVE_TLS
		{TERM(xprtsec), tls,
		 "the engine was built without GnuTLS: apt-get install libgnutls28-dev, build "
		 "again; or use xprtsec=none"},
#endif
		{TERM(xprtsec), tls && config->rdma,
		 "there is no TLS over RDMA (RFC 9289): use proto=tcp, or xprtsec=none"},
		{TERM(xprtsec), terms->xprtsec == XPRTSEC_MTLS && !terms->tls_cert,
		 "the client's certificate is missing: give tls_cert= and tls_key=, or use "
		 "xprtsec=tls"},
		{TERM(security), terms->security > SEC_KRB5 && config->rdma,
		 "only krb5 works over RDMA: krb5i and krb5p protect data, which RDMA moves "
		 "outside the RPC message (RFC 8166, 8.2.2): use krb5, or proto=tcp"},
#ifndef HAVE_GSS
		{TERM(security), terms->security != SEC_SYS,
		 "the engine was built without Kerberos: apt-get install libkrb5-dev "
		 "libgnutls28-dev, build again; or use security=sys"},
#endif
#ifndef HAVE_RDMA
		{TERM(proto), config->rdma,
		 "the engine was built without libibverbs and librdmacm: apt-get install "
		 "libibverbs-dev librdmacm-dev, build again; or use proto=tcp"},
#endif
		/* Checked before the layout, which needs no RDMA, but would be useless without. */
		{TERM(proto), config->rdma && !has_rdma_device(),
		 "this machine has no RDMA device: load its driver (rdma link lists devices), or "
		 "use proto=tcp"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		const struct term *term = refusals[i].term;

		if (!refusals[i].given)
			continue;
		log("%s: %s=%s: %s", config->label,
		    term_given(term, terms) ? term->in_path : term->word,
		    term_value(term, *term_number(term, terms))->word, refusals[i].why);
		return term == TERM(proto) ? -ENODEV : -EPROTONOSUPPORT;
	}
	return 0;
}

/* Checks that a keytab file is readable. Does not check another type of keytab (TYPE:name). */
static int check_keytab(pool_log *log, const struct path_config *config)
{
	const char *name = config->terms.keytab, *file = name;

	if (!name || config->terms.security == SEC_SYS)
		return 0;
	if (!strncmp(name, "FILE:", strlen("FILE:")))
		file += strlen("FILE:");
	else if (*name != '/' && strchr(name, ':'))
		return 0;
	if (!faccessat(AT_FDCWD, file, R_OK, AT_EACCESS))
		return 0;
	log("%s: keytab=%s: %s: name a file that you may read, or leave it out and use "
	    "kinit's tickets",
	    config->label, name, strerror(errno));
	return -EINVAL; /* ENOENT would mean a missing file of the job */
}

/* Refuses a security option of the job for a mount: mount(8)'s options set its security. */
static int check_mount(const struct terms *job, pool_log *log, const struct pool_path *path,
		       const struct term *term)
{
	const char *word = term->in_path, *value = term_value(term, *term_number(term, job))->word;

	if (!*term_number(term, job))
		return 0;
	log("%s: %s=%s: the kernel sets a mount's security: mount with -o %s=%s, and give "
	    "the option only to other paths (nfs://...?%s=%s)",
	    path->label, term->word, value, word, value, word, value);
	return -EPROTONOSUPPORT;
}

static int mount_terms(const struct terms *job, pool_log *log, const struct pool_path *path,
		       struct path_config *config)
{
	int error = check_mount(job, log, path, TERM(xprtsec))
			    ?: check_mount(job, log, path, TERM(security));

	if (error)
		return error;
	config->dir = strdup(path->dir);
	return config->dir ? 0 : -ENOMEM;
}

static int nfs_terms(pool_log *log, const struct pool_path *path, struct path_config *config)
{
	char address[ADDRESS_TEXT];

	config->remote = path->addr;
	config->remote_length = path->addr_len;
	config->address = strdup(address_text(&path->addr, address));
	config->export = strdup(path->export);
	if (!config->address || !config->export || !set_names(&config->terms, path))
		return -ENOMEM;
	copy_terms(log, config);
	return check_terms(log, config) ?: check_keytab(log, config) ?: read_locals(log, config);
}

int path_config_make(struct path_config *config, const struct pool_path *path,
		     const struct terms *job, pool_log *log)
{
	const struct terms terms = terms_over(&path->terms, job);
	int error = 0;

	memset(config, 0, sizeof(*config));
	config->label = strdup(path->label);
	if (!terms_copy(&config->terms, &terms) || !config->label)
		error = -ENOMEM;
	else if (path->kind == PATH_MOUNT)
		error = mount_terms(job, log, path, config);
	else
		error = nfs_terms(log, path, config);
	if (error)
		path_config_free(config);
	return error;
}

/* Refuses terms that need TLS or Kerberos (`needs`) where `term` does not turn it on. */
static int check_used(const struct terms *job, const struct pool *pool, enum term_needs needs,
		      const struct term *term, const char *refusal, pool_log *log)
{
	bool used = false;

	for (unsigned int i = 0; i < pool->count; i++) {
		const struct pool_path *path = &pool->paths[i];
		const struct terms terms = terms_over(&path->terms, job);
		bool uses = *term_number(term, &terms);

		used = used || uses;
		if (!uses && terms_need(&path->terms, needs)) {
			log("%s: %s", path->label, refusal);
			return -EINVAL;
		}
	}
	if (used || !terms_need(job, needs))
		return 0;
	log("%s", refusal);
	return -EINVAL;
}

/* How to make a path suit `term`, which needs TCP, perhaps in clear; NULL: it suits already. */
static const char *tcp_refusal(const struct term *term, const struct terms *job,
			       const struct pool_path *path)
{
	const struct terms terms = terms_over(&path->terms, job);

	if (path->kind == PATH_MOUNT)
		return "name the mount's export (nfs://...)";
	if (terms_over_rdma(&terms))
		return "use proto=tcp";
	if (term->needs == NEEDS_CLEAR && terms.xprtsec != XPRTSEC_NONE)
		return "use xprtsec=none";
	if (term == TERM(discard) && terms.security > SEC_KRB5)
		return "krb5i and krb5p check the data that is read: use krb5 or sys";
	return NULL;
}

static int check_tcp(const struct terms *job, const struct pool *pool, const struct term *term,
		     pool_log *log)
{
	for (unsigned int i = 0; *term_number(term, job) && i < pool->count; i++) {
		const char *refusal = tcp_refusal(term, job, &pool->paths[i]), *value;
		char room[TERM_ROOM];

		if (!refusal)
			continue;
		value = term_text(term, job, room);
		log("%s: %s=%s is for TCP%s: %s, or leave %s=%s out", pool->paths[i].label,
		    term->word, value, term->needs == NEEDS_CLEAR ? " in clear" : "", refusal,
		    term->word, value);
		return -EPROTONOSUPPORT;
	}
	return 0;
}

int path_config_check(const struct terms *job, const struct pool *pool, pool_log *log)
{
	static const char tls[] =
		"tls_ca=, tls_cert=, tls_key=, tls_name= and ktls= have no effect without TLS: "
		"give xprtsec=tls or mtls too, or leave them out";
	static const char kerberos[] =
		"principal=, keytab=, ccache= and server_principal= need Kerberos: give "
		"security=krb5, krb5i or krb5p too (sec= in a path), or leave them out";
	int error = check_used(job, pool, NEEDS_TLS, TERM(xprtsec), tls, log)
			    ?: check_used(job, pool, NEEDS_KERBEROS, TERM(security), kerberos, log);

	for_each_term (term)
		if (!error && term->needs >= NEEDS_TCP)
			error = check_tcp(job, pool, term, log);
	return error;
}
