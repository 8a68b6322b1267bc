/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz.h - what the programs of this folder share.
 *
 * Each gives libFuzzer's bytes to one decoder of the engine. AddressSanitizer and
 * UndefinedBehaviorSanitizer watch what it touches, expect() what it says.
 */
#ifndef NFSMULTI_FUZZ_H
#define NFSMULTI_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* assert() is not compiled in. */
#define expect(condition)                                                                       \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                                \
		}                                                                               \
	} while (0)

/* libFuzzer's entry. The bytes are a heap block of their own, so that no read beyond goes unseen.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
