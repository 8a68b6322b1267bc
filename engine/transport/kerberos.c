/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kerberos.c - the Kerberos mechanism: per-message tokens by our own code, contexts by
 * kerberos_making.c, in a thread.
 */
#include "transport/kerberos.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

/* With a cached ticket a step takes 0.2 ms: a short wait ends sooner than the next tick comes. */
enum { PATIENCE_NS = 2000000 };

struct kerberos {
	struct gss_mechanism base;
	const struct terms *terms;
	struct making *making; /* NULL: no context is being made */
	struct krb5_keys *keys, *earlier;
	uint64_t sequence; /* of our next token */
};

static struct kerberos *kerberos_of(const struct gss_mechanism *mechanism)
{
	return container_of(mechanism, struct kerberos, base);
}

/* --- the thread --- */

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
		making->progress = GSS_FAILED;
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

static enum gss_progress progress(struct gss_mechanism *mechanism, struct gss_step *step)
{
	struct kerberos *kerberos = kerberos_of(mechanism);
	struct making *making = kerberos->making;

	*step = (struct gss_step){.error = "out of memory"};
	if (!making)
		return GSS_FAILED;
	if (!is_done(making))
		return GSS_WORKING;
	*step = making->step;
	if (making->progress != GSS_MADE)
		return making->progress;
	krb5_wrap_end(kerberos->keys);
	krb5_keys_free(kerberos->earlier);
	kerberos->earlier = kerberos->keys;
	kerberos->keys = making->keys;
	kerberos->sequence = making->sequence;
	making->keys = NULL;
	step->error = NULL; /* freed with `making` */
	leave(kerberos);
	return GSS_MADE;
}

/* --- messages --- */

static uint32_t mic_size(const struct gss_mechanism *mechanism)
{
	return krb5_mic_size(kerberos_of(mechanism)->keys);
}

static uint32_t wrap_size(const struct gss_mechanism *mechanism)
{
	return krb5_wrap_size(kerberos_of(mechanism)->keys);
}

static bool mic(struct gss_mechanism *mechanism, const struct iovec *parts, int count, uint8_t *to)
{
	struct kerberos *kerberos = kerberos_of(mechanism);

	return krb5_mic(kerberos->keys, KRB5_INITIATOR, kerberos->sequence++, parts, count, to);
}

static bool wrap(struct gss_mechanism *mechanism, const struct iovec *parts, int count, uint8_t *to)
{
	struct kerberos *kerberos = kerberos_of(mechanism);

	return krb5_wrap(kerberos->keys, KRB5_INITIATOR, kerberos->sequence++, parts, count, to);
}

static bool wrap_end(struct gss_mechanism *mechanism)
{
	return krb5_wrap_end(kerberos_of(mechanism)->keys);
}

static struct krb5_keys *keys_of(struct gss_mechanism *mechanism, bool earlier)
{
	struct kerberos *kerberos = kerberos_of(mechanism);

	return earlier ? kerberos->earlier : kerberos->keys;
}

static bool verify(struct gss_mechanism *mechanism, bool earlier, const struct iovec *parts,
		   int count, const uint8_t *token, uint32_t length)
{
	struct krb5_keys *keys = keys_of(mechanism, earlier);

	return keys && krb5_mic_ok(keys, KRB5_ACCEPTOR, parts, count, token, length);
}

static bool unwrap(struct gss_mechanism *mechanism, bool earlier, uint8_t *token, uint32_t length,
		   uint8_t **plain, uint32_t *plain_length)
{
	struct krb5_keys *keys = keys_of(mechanism, earlier);

	return keys && krb5_unwrap(keys, KRB5_ACCEPTOR, token, length, plain, plain_length);
}

static bool unwrap_parts(struct gss_mechanism *mechanism, bool earlier, const struct iovec *parts,
			 int count)
{
	struct krb5_keys *keys = keys_of(mechanism, earlier);

	return keys && krb5_unwrap_parts(keys, KRB5_ACCEPTOR, parts, count);
}

/* --- making and ending --- */

static void end(struct gss_mechanism *mechanism)
{
	struct kerberos *kerberos = kerberos_of(mechanism);

	leave(kerberos);
	krb5_keys_free(kerberos->keys);
	krb5_keys_free(kerberos->earlier);
	free(kerberos);
}

int kerberos_new(struct gss_mechanism **mechanism, const struct terms *terms)
{
	static const struct gss_mechanism_ops ops = {
		.begin = begin,
		.feed = feed,
		.progress = progress,
		.mic_size = mic_size,
		.wrap_size = wrap_size,
		.mic = mic,
		.wrap = wrap,
		.wrap_end = wrap_end,
		.verify = verify,
		.unwrap = unwrap,
		.wrap_front = krb5_wrap_front,
		.unwrap_parts = unwrap_parts,
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
