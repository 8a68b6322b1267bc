/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kerberos.c - Kerberos as a mechanism of RPCSEC_GSS. The system's GSS-API library makes contexts;
 * wire/krb5_token.h makes messages' tokens. For each new context, sample tokens of both are
 * compared. The library may wait half a minute for the KDC, so it runs in its own thread, which may
 * outlive the mechanism.
 */
#include <errno.h>
#include <gssapi/gssapi.h>
#include <gssapi/gssapi_ext.h>
#include <gssapi/gssapi_krb5.h>
#include <krb5/krb5.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/transport.h"
#include "util.h"
#include "wire/krb5_keys.h"
#include "wire/rpcsec_gss.h"

/* With a cached ticket a step takes 0.2 ms: a short wait ends sooner than the next tick comes. */
enum { PATIENCE_NS = 2000000 };

/* One context in the making. */
struct making {
	/* Used by the thread, while it works. */
	struct terms terms; /* a copy; NULL: the library's default */
	gss_ctx_id_t context;
	gss_buffer_desc reply, token; /* from the server, and for it */
	char error[400];
	struct gss_step step;
	struct krb5_keys *keys; /* RPC_CONTEXT_READY */
	uint64_t sequence;	/* RPC_CONTEXT_READY: of our first token */
	enum rpc_context_state progress;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool works, left; /* under the lock: the thread is running; the owner has left */
	bool looked_at;	  /* the owner has already waited for this step */
};

enum { WORDS_MAX = 240 };

/* --- the words for a failure --- */

static bool no_ticket(OM_uint32 major, OM_uint32 minor)
{
	return GSS_ROUTINE_ERROR(major) == GSS_S_NO_CRED ||
	       GSS_ROUTINE_ERROR(major) == GSS_S_CREDENTIALS_EXPIRED ||
	       (krb5_error_code)minor == KRB5KRB_AP_ERR_TKT_EXPIRED;
}

static const char *remedy(const struct making *making, OM_uint32 major, OM_uint32 minor)
{
	switch ((krb5_error_code)minor) {
	case KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN: return ": name another by server_principal=";
	case KRB5KDC_ERR_C_PRINCIPAL_UNKNOWN: return ": name another by principal=";
	case KRB5_PARSE_MALFORMED:
		return ": write principal=USER@REALM, and server_principal=nfs@HOST or "
		       "nfs/HOST@REALM";
	case KRB5_KDC_UNREACH:
	case KRB5_REALM_UNKNOWN:
	case KRB5_REALM_CANT_RESOLVE:
		return ": does the KDC run, and is krb5.conf (KRB5_CONFIG) right?";
	case KRB5_CONFIG_BADFORMAT:
	case KRB5_CONFIG_CANTOPEN: return ": mend krb5.conf, or name another by KRB5_CONFIG";
	case KRB5KDC_ERR_PREAUTH_FAILED:
	case KRB5KRB_AP_ERR_BAD_INTEGRITY:
		return ": a key differs: is the keytab current, and is this the right server?";
	case KRB5KRB_AP_ERR_SKEW:
	case KRB5KRB_AP_ERR_TKT_NYV:
	case KRB5_KDCREP_SKEW:
		return ": set the clocks here, at the KDC and at the server: they must agree "
		       "within 300 s (clockskew in krb5.conf)";
	case KRB5_CC_FORMAT:
	case KRB5_CCACHE_BADVNO:
	case KRB5_CC_UNKNOWN_TYPE:
	case KRB5_FCC_PERM:
	case KRB5_KCM_NO_SERVER:
		return ": run kinit, or name another cache by ccache= or KRB5CCNAME";
	default: break;
	}
	if (making->terms.keytab || !no_ticket(major, minor))
		return "";
	return making->terms.principal ? ": run kinit as that principal, or give keytab="
				       : ": run kinit, or give keytab= and principal=";
}

static void fail(struct making *making, const char *what, OM_uint32 major, OM_uint32 minor)
{
	const char *cache = making->terms.ccache, *file = cache ? strchr(cache, ':') : NULL;
	gss_buffer_desc library = GSS_C_EMPTY_BUFFER;
	OM_uint32 ignored, more = 0;
	char words[WORDS_MAX];

	gss_display_status(&ignored, minor ? minor : major,
			   minor ? GSS_C_MECH_CODE : GSS_C_GSS_CODE, GSS_C_NO_OID, &more, &library);
	snprintf(words, sizeof(words), "%.*s", (int)library.length, (const char *)library.value);
	gss_release_buffer(&ignored, &library);
	if (!cache || making->terms.keytab || !no_ticket(major, minor) ||
	    strstr(words, file ? file + 1 : cache))
		cache = NULL;
	snprintf(making->error, sizeof(making->error), "%s: %s%s%s%s%s", what, words,
		 cache ? " (cache: " : "", cache ?: "", cache ? ")" : "",
		 remedy(making, major, minor));
}

/* The words for a keytab that lacks the principal's key, or any key. */
static void fail_keytab(struct making *making)
{
	krb5_principal principal = NULL;
	krb5_keytab keytab = NULL;
	krb5_keytab_entry entry;
	krb5_context context;
	krb5_error_code error;
	const char *words;

	if (krb5_init_context(&context))
		return;
	error = krb5_parse_name(context, making->terms.principal ?: "any@any", &principal)
			?: krb5_kt_resolve(context, making->terms.keytab, &keytab)
			?: krb5_kt_get_entry(context, keytab, principal, 0, 0, &entry);
	if (!error)
		krb5_free_keytab_entry_contents(context, &entry);
	else if (error == KRB5_KT_NOTFOUND && !making->terms.principal)
		error = krb5_kt_have_content(context, keytab);
	words = krb5_get_error_message(context, error);
	if (error && principal)
		snprintf(making->error, sizeof(making->error),
			 "no ticket: keytab=%s: %s: klist -k lists a keytab's principals",
			 making->terms.keytab, words);
	krb5_free_error_message(context, words);
	if (keytab)
		krb5_kt_close(context, keytab);
	krb5_free_principal(context, principal);
	krb5_free_context(context);
}

/* --- one step, in the thread --- */

static gss_name_t import(const char *text, gss_OID type)
{
	gss_buffer_desc buffer = {strlen(text), (void *)text};
	gss_name_t name = GSS_C_NO_NAME;
	OM_uint32 minor;

	gss_import_name(&minor, &buffer, type, &name);
	return name;
}

/*
 * Returns the cache that the library would choose for this server. Without a principal we do not
 * let the library choose, since MIT's 1.20.1 crashes on a default cache that it cannot read.
 */
static char *choose_cache(const char *server)
{
	krb5_principal service = NULL, client = NULL;
	const char *host = strchr(server, '@');
	krb5_ccache cache = NULL;
	krb5_context context;
	const char *chosen;
	char *name = NULL, *copy;

	if (krb5_init_context(&context))
		return NULL; /* the library's next call also fails, and reports why */
	if (strchr(server, '/'))
		krb5_parse_name(context, server, &service);
	else
		krb5_sname_to_principal(context, host ? host + 1 : server, "nfs", KRB5_NT_SRV_HST,
					&service);
	if (!service || krb5_cc_select(context, service, &cache, &client) || !cache)
		krb5_cc_default(context, &cache);
	if (cache) {
		krb5_cc_get_full_name(context, cache, &name);
		krb5_cc_close(context, cache);
	}
	chosen = name ?: krb5_cc_default_name(context); /* NULL: krb5.conf has no valid one */
	copy = chosen ? strdup(chosen) : NULL;
	krb5_free_string(context, name);
	krb5_free_principal(context, client);
	krb5_free_principal(context, service);
	krb5_free_context(context);
	return copy;
}

/* Gets the client's tickets. */
static OM_uint32 acquire(struct making *making, gss_cred_id_t *credential, OM_uint32 *minor)
{
	gss_key_value_element_desc elements[2];
	gss_key_value_set_desc store = {0, elements};
	gss_name_t name = GSS_C_NO_NAME;
	OM_uint32 major, ignored;

	*credential = GSS_C_NO_CREDENTIAL;
	if (!making->terms.ccache && !making->terms.principal)
		making->terms.ccache = choose_cache(making->terms.server_principal);
	if (making->terms.keytab)
		elements[store.count++] =
			(gss_key_value_element_desc){"client_keytab", making->terms.keytab};
	if (making->terms.ccache)
		elements[store.count++] =
			(gss_key_value_element_desc){"ccache", making->terms.ccache};
	if (making->terms.principal)
		name = import(making->terms.principal, (gss_OID)GSS_KRB5_NT_PRINCIPAL_NAME);
	major = gss_acquire_cred_from(minor, name, 0, GSS_C_NO_OID_SET, GSS_C_INITIATE, &store,
				      credential, NULL, NULL);
	gss_release_name(&ignored, &name);
	if (!GSS_ERROR(major) || making->terms.ccache)
		return major;
	/* The library says that no cache has the principal, but does not name an unreadable cache.
	 */
	making->terms.ccache = choose_cache(making->terms.server_principal);
	return making->terms.ccache ? acquire(making, credential, minor) : major;
}

static OM_uint32 initiate(struct making *making, gss_cred_id_t credential, OM_uint32 *lifetime,
			  OM_uint32 *minor)
{
	const OM_uint32 flags = GSS_C_MUTUAL_FLAG | GSS_C_INTEG_FLAG | GSS_C_CONF_FLAG;
	gss_OID type = strchr(making->terms.server_principal, '/')
			       ? (gss_OID)GSS_KRB5_NT_PRINCIPAL_NAME
			       : GSS_C_NT_HOSTBASED_SERVICE;
	gss_name_t server = import(making->terms.server_principal, type);
	OM_uint32 major, ignored;

	major = gss_init_sec_context(minor, credential, &making->context, server,
				     (gss_OID)gss_mech_krb5, flags, 0, GSS_C_NO_CHANNEL_BINDINGS,
				     &making->reply, NULL, &making->token, NULL, lifetime);
	gss_release_name(&ignored, &server);
	return major;
}

/* --- our own tokens are compared with the library's --- */

static const char sample[] = "both-say-the-same-of-these-bytes";
static const struct iovec sample_part = {(void *)sample, sizeof(sample)};
static gss_buffer_desc sample_buffer = {sizeof(sample), (void *)sample};

/* RFC 4121, 4.2.6 */
enum { FLAGS_AT = 2, SEQUENCE_AT = 8, ACCEPTOR_SUBKEY = 4, TOKEN_HEADER = 16 };

static uint64_t sequence_of(const gss_buffer_desc *token)
{
	uint64_t sequence;

	memcpy(&sequence, (const uint8_t *)token->value + SEQUENCE_AT, sizeof(sequence));
	return be64toh(sequence);
}

/*
 * Compares MICs, whose bytes are the same for the same sequence number. Wrap tokens always differ,
 * so our keys must unwrap the library's.
 */
static bool tokens_agree(struct making *making, const gss_buffer_desc *library_mic)
{
	struct krb5_keys *keys = making->keys;
	uint8_t own[KRB5_MIC_MAX];
	gss_buffer_desc token = GSS_C_EMPTY_BUFFER;
	OM_uint32 minor;
	uint32_t length;
	uint8_t *plain;
	bool agrees;

	if (library_mic->length != krb5_mic_size(keys) ||
	    !krb5_mic(keys, KRB5_INITIATOR, sequence_of(library_mic), &sample_part, 1, own) ||
	    memcmp(own, library_mic->value, library_mic->length))
		return false;
	if (gss_wrap(&minor, making->context, 1, GSS_C_QOP_DEFAULT, &sample_buffer, NULL, &token))
		return false;
	agrees = krb5_unwrap(keys, KRB5_INITIATOR, token.value, token.length, &plain, &length) &&
		 length == sizeof(sample) && !memcmp(plain, sample, length);
	gss_release_buffer(&minor, &token);
	return agrees;
}

/* Makes our own keys from the context's, and checks them against the library's tokens. */
static bool make_keys(struct making *making, gss_buffer_set_t key, const gss_buffer_desc *token)
{
	const gss_buffer_desc *secret = &key->elements[0], *oid = &key->elements[1];
	/* The last arc of the identifier is the encryption type: one byte below 128. */
	uint32_t enctype = ((const uint8_t *)oid->value)[oid->length - 1];
	bool subkey = ((const uint8_t *)token->value)[FLAGS_AT] & ACCEPTOR_SUBKEY;

	if (krb5_keys_new(&making->keys, enctype, secret->value, secret->length, subkey)) {
		snprintf(making->error, sizeof(making->error),
			 "cannot use the context's encryption type, number %u; supported is AES, "
			 "17 to 20: set permitted_enctypes in krb5.conf",
			 enctype);
		return false;
	}
	making->step.enctype = making->keys->enctype->name;
	if (tokens_agree(making, token))
		return true;
	snprintf(making->error, sizeof(making->error),
		 "our tokens of %s differ from those of this system's Kerberos library",
		 making->step.enctype);
	return false;
}

static bool export_context(struct making *making)
{
	gss_buffer_set_t key = GSS_C_NO_BUFFER_SET;
	gss_buffer_desc token = GSS_C_EMPTY_BUFFER;
	OM_uint32 major, minor;
	bool made;

	major = gss_inquire_sec_context_by_oid(&minor, making->context,
					       (gss_OID)GSS_C_INQ_SSPI_SESSION_KEY, &key);
	if (!major)
		major = gss_get_mic(&minor, making->context, GSS_C_QOP_DEFAULT, &sample_buffer,
				    &token);
	if (major || key->count < 2 || !key->elements[1].length || token.length <= TOKEN_HEADER) {
		fail(making, "the Kerberos library does not export the context's key", major,
		     minor);
		made = false;
	} else {
		making->sequence = sequence_of(&token) + 2;
		made = make_keys(making, key, &token);
	}
	gss_release_buffer(&minor, &token);
	if (key)
		explicit_bzero(key->elements[0].value, key->elements[0].length);
	gss_release_buffer_set(&minor, &key);
	return made;
}

/*
 * Only one thread at a time gets tickets, since the library empties a cache before it stores new
 * ones. A forked process has none of our threads, so its lock begins unlocked.
 */
static pthread_mutex_t tickets = PTHREAD_MUTEX_INITIALIZER;

static void forget_lock(void)
{
	pthread_mutex_init(&tickets, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forget_lock);
}

/* One step of the library, which may wait: fills `step`; never returns RPC_CONTEXT_WAITS. */
static enum rpc_context_state making_step(struct making *making)
{
	gss_cred_id_t credential;
	OM_uint32 major, minor = 0, ignored, lifetime = 0;

	making->step = (struct gss_step){.error = making->error};
	gss_release_buffer(&ignored, &making->token);
	pthread_mutex_lock(&tickets);
	major = acquire(making, &credential, &minor);
	pthread_mutex_unlock(&tickets);
	if (GSS_ERROR(major)) {
		fail(making, "no ticket", major, minor);
		if (making->terms.keytab && no_ticket(major, minor))
			fail_keytab(making);
		return RPC_CONTEXT_FAILED;
	}
	major = initiate(making, credential, &lifetime, &minor);
	gss_release_cred(&ignored, &credential);
	if (GSS_ERROR(major)) {
		fail(making, "no context", major, minor);
		return RPC_CONTEXT_FAILED;
	}
	if (major != GSS_S_COMPLETE) {
		making->step.token = making->token.value;
		making->step.length = making->token.length;
		return RPC_CONTEXT_ASKS;
	}
	making->step.lifetime =
		lifetime == GSS_C_INDEFINITE ? UINT64_MAX : (uint64_t)lifetime * SEC;
	return export_context(making) ? RPC_CONTEXT_READY : RPC_CONTEXT_FAILED;
}

static void making_free(struct making *making)
{
	OM_uint32 minor;

	gss_delete_sec_context(&minor, &making->context, GSS_C_NO_BUFFER);
	gss_release_buffer(&minor, &making->token);
	free(making->reply.value);
	krb5_keys_free(making->keys);
	terms_free(&making->terms);
	pthread_cond_destroy(&making->changed);
	pthread_mutex_destroy(&making->lock);
	free(making);
}

/* --- the thread --- */

struct kerberos {
	struct gss_mechanism base;
	const struct terms *terms;
	struct making *making; /* NULL: no context is being made */
};

static struct kerberos *kerberos_of(const struct gss_mechanism *mechanism)
{
	return container_of(mechanism, struct kerberos, base);
}

static void *run(void *argument)
{
	struct making *making = argument;
	bool left;

	making->progress = making_step(making);
	pthread_mutex_lock(&making->lock);
	making->works = false;
	left = making->left;
	pthread_cond_signal(&making->changed);
	pthread_mutex_unlock(&making->lock);
	if (left)
		making_free(making);
	return NULL;
}

/* Starts the thread with all signals blocked: signals are for the job. */
static void start_step(struct making *making)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	making->works = true;
	making->looked_at = false;
	if (pthread_create(&thread, &attributes, run, making)) {
		making->works = false;
		making->progress = RPC_CONTEXT_FAILED;
		making->step.error = "no thread can be started for the Kerberos library";
	}
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* True if the thread has finished. Waits for that once per step, PATIENCE_NS at most. */
static bool is_done(struct making *making)
{
	struct timespec until;
	bool done;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += PATIENCE_NS;
	if (until.tv_nsec >= (long)SEC) {
		until.tv_sec++;
		until.tv_nsec -= (long)SEC;
	}
	pthread_mutex_lock(&making->lock);
	if (making->works && !making->looked_at)
		pthread_cond_timedwait(&making->changed, &making->lock, &until);
	making->looked_at = true;
	done = !making->works;
	pthread_mutex_unlock(&making->lock);
	return done;
}

/* --- making a context --- */

/* Frees the context in the making, now or when its thread ends. */
static void leave(struct kerberos *kerberos)
{
	struct making *making = kerberos->making;
	bool works;

	if (!making)
		return;
	kerberos->making = NULL;
	kerberos->base.next = NULL;
	pthread_mutex_lock(&making->lock);
	works = making->works;
	making->left = true;
	pthread_mutex_unlock(&making->lock);
	if (!works)
		making_free(making);
}

/* With a keytab and no ccache, tickets stay in this process: a cache per principal and keytab.
 * False: out of memory. */
static bool set_ccache(struct terms *terms)
{
	if (terms->ccache || !terms->keytab ||
	    asprintf(&terms->ccache, "MEMORY:nfsmulti %s %s", terms->principal ?: "",
		     terms->keytab) >= 0)
		return true;
	terms->ccache = NULL;
	return false;
}

static void begin(struct gss_mechanism *mechanism)
{
	struct kerberos *kerberos = kerberos_of(mechanism);
	struct making *making = calloc(1, sizeof(*making));
	pthread_condattr_t monotonic;

	leave(kerberos);
	if (!making)
		return;
	pthread_mutex_init(&making->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&making->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (terms_copy(&making->terms, kerberos->terms) && set_ccache(&making->terms)) {
		kerberos->making = making;
		start_step(making);
	} else {
		making_free(making);
	}
}

static void feed(struct gss_mechanism *mechanism, const uint8_t *reply, uint32_t length)
{
	struct making *making = kerberos_of(mechanism)->making;

	if (!making)
		return;
	free(making->reply.value);
	making->reply.value = malloc(length ?: 1);
	making->reply.length = making->reply.value ? length : 0;
	if (making->reply.length)
		memcpy(making->reply.value, reply, length);
	start_step(making);
}

static enum rpc_context_state progress(struct gss_mechanism *mechanism, struct gss_step *step)
{
	struct kerberos *kerberos = kerberos_of(mechanism);
	struct making *making = kerberos->making;

	*step = (struct gss_step){.error = "out of memory"};
	if (!making)
		return RPC_CONTEXT_FAILED;
	if (!is_done(making))
		return RPC_CONTEXT_WAITS;
	*step = making->step;
	if (making->progress != RPC_CONTEXT_READY)
		return making->progress;
	mechanism->next = making->keys;
	return RPC_CONTEXT_READY;
}

static void adopt(struct gss_mechanism *mechanism)
{
	struct kerberos *kerberos = kerberos_of(mechanism);

	krb5_wrap_end(mechanism->keys);
	krb5_keys_free(mechanism->earlier);
	mechanism->earlier = mechanism->keys;
	mechanism->keys = mechanism->next;
	mechanism->sequence = kerberos->making->sequence;
	kerberos->making->keys = NULL;
	leave(kerberos);
}

/* --- making and ending --- */

static void end(struct gss_mechanism *mechanism)
{
	struct kerberos *kerberos = kerberos_of(mechanism);

	leave(kerberos);
	krb5_keys_free(mechanism->keys);
	krb5_keys_free(mechanism->earlier);
	free(kerberos);
}

int kerberos_new(struct gss_mechanism **mechanism, const struct terms *terms)
{
	static const struct gss_mechanism_ops ops = {
		.begin = begin,
		.feed = feed,
		.progress = progress,
		.adopt = adopt,
		.free = end,
	};
	struct kerberos *kerberos = calloc(1, sizeof(*kerberos));

	if (!kerberos)
		return -ENOMEM;
	kerberos->base.ops = &ops;
	kerberos->terms = terms;
	*mechanism = &kerberos->base;
	return 0;
}
