/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scanner.h - how this folder reads text.
 *
 * A scanner stands inside a text and never passes its own end, which may lie before the text's end.
 * It knows where the text begins, so that each refusal has its column.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pool_error;

#define LETTERS		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS		"0123456789"
#define NAME_CHARACTERS LETTERS DIGITS "-._" /* of hosts and of pools' names */

/* A part of a text, not terminated. */
struct span {
	const char *at, *end;
};

struct scanner {
	const char *text; /* column 1 */
	const char *at, *end;
	struct pool_error *err; /* filled by scanner_refuse() */
};

struct scanner scanner_over(const char *text, struct pool_error *err);

/* A scanner of the same text, from the span's begin to its end. */
struct scanner scanner_within(const struct scanner *scanner, struct span span);

bool scanner_done(const struct scanner *scanner);
char scanner_peek(const struct scanner *scanner); /* '\0' at the end */
size_t scanner_column(const struct scanner *scanner, const char *at);

/* Each passes over its argument if the scanner stands at it, and says whether it did. */
bool scanner_take(struct scanner *scanner, char character);
bool scanner_take_word(struct scanner *scanner, const char *word);

/* Passes over the characters that are (not) in `set`; the span may be empty. */
struct span scanner_while(struct scanner *scanner, const char *set);
struct span scanner_until(struct scanner *scanner, const char *set);

/* The next part of a file name between slashes; empty after the last. */
struct span scanner_component(struct scanner *scanner);

/* Passes over decimal digits; false where there are none or they say more than `most`. */
bool scanner_number(struct scanner *scanner, uint32_t most, uint32_t *number);

/*
 * Replaces each %XX by the character it stands for. Returns 0 with *decoded for the caller to free,
 * -EINVAL (a broken %XX, or one that stands for a control character) or -ENOMEM, with *err filled.
 */
int scanner_decode(const struct scanner *scanner, struct span span, char **decoded);

size_t span_length(struct span span);
struct span span_over(const char *text);
bool span_same(struct span a, struct span b);
bool span_is(struct span span, const char *word);
bool character_is_control(char character);

/* The text of a span for a message: shortened, printable. */
#define QUOTED_MAX  44
#define QUOTE(span) span_quote((span), (char[QUOTED_MAX]){0})
const char *span_quote(struct span span, char quoted[QUOTED_MAX]);

/* Fills *err; returns -EINVAL. Column 0: no place in the text is at fault. */
int pool_refuse(struct pool_error *err, size_t column, const char *reason, ...)
	__attribute__((format(printf, 3, 4)));
/* The same with the column of `at`, and printf's arguments behind it. */
#define scanner_refuse(scanner, at, ...) \
	pool_refuse((scanner)->err, scanner_column((scanner), (at)), __VA_ARGS__)
int pool_no_memory(struct pool_error *err); /* returns -ENOMEM */
