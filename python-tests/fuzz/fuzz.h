/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz.h - what the decoders of this folder share.
 *
 * Each reads libFuzzer's input by one decoder of the engine. AddressSanitizer and
 * UndefinedBehaviorSanitizer watch what it touches, expect() what it says.
 */
#ifndef NFSMULTI_FUZZ_H
#define NFSMULTI_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "util.h"

/* assert() is not compiled in. */
#define expect(condition)                                                                       \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                                \
		}                                                                               \
	} while (0)

/* What is left of it: a heap block of its own, so that no read beyond goes unseen. */
struct input {
	const uint8_t *at, *end;
};

/* 0 where nothing is left. */
static inline uint8_t take_byte(struct input *input)
{
	return input->at < input->end ? *input->at++ : 0;
}

/* As many bytes, if so many are left. */
static inline struct iovec take(struct input *input, size_t length)
{
	struct iovec bytes = {(void *)input->at, 0};

	bytes.iov_len = min_of(length, (size_t)(input->end - input->at));
	input->at += bytes.iov_len;
	return bytes;
}

/* One for each decoder. */
void fuzz_environment(struct input *input);
void fuzz_krb5_token(struct input *input);
void fuzz_message(struct input *input);
void fuzz_nfs3(struct input *input);
void fuzz_nfs4(struct input *input);
void fuzz_pool(struct input *input);
void fuzz_record(struct input *input);
void fuzz_rpcrdma(struct input *input);
void fuzz_rpcsec_gss(struct input *input);
void fuzz_tls(struct input *input);

#endif
