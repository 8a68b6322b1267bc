/* SPDX-License-Identifier: GPL-2.0-only */
/* kerberos.c - the Kerberos mechanism: kerberos_making.c makes contexts, in a thread. */
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
