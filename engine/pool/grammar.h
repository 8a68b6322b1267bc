/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * grammar.h - the internal functions of this folder: they scan text (scanner.c), and read the parts
 * of a pool's text (list, addresses, arguments).
 *
 * A scanner has a position in a text, and an end that it never passes: the text's, or an earlier
 * one. It also keeps where the text begins, so that each refusal can name a column.
 */
#pragma once

#include <string.h>

#include "pool.h"

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

static inline struct scanner scanner_over(const char *text, struct pool_error *err)
{
	return (struct scanner){.text = text, .at = text, .end = text + strlen(text), .err = err};
}

/* A scanner of the same text, from the span's begin to its end. */
static inline struct scanner scanner_within(const struct scanner *scanner, struct span span)
{
	return (struct scanner){
		.text = scanner->text, .at = span.at, .end = span.end, .err = scanner->err};
}

static inline bool scanner_done(const struct scanner *scanner)
{
	return scanner->at == scanner->end;
}

/* '\0' at the end */
static inline char scanner_peek(const struct scanner *scanner)
{
	return scanner_done(scanner) ? '\0' : *scanner->at;
}

static inline size_t scanner_column(const struct scanner *scanner, const char *at)
{
	return (size_t)(at - scanner->text) + 1;
}

/* Passes over the argument and returns true if the text continues with it; else returns false. */
bool scanner_take(struct scanner *scanner, char character);
bool scanner_take_word(struct scanner *scanner, const char *word);

/* Passes over characters while they are in `set`, or until one is; the span may be empty. */
struct span scanner_while(struct scanner *scanner, const char *set);
struct span scanner_until(struct scanner *scanner, const char *set);

/* The next part of a file name between slashes; empty after the last. */
struct span scanner_component(struct scanner *scanner);

/* Passes over decimal digits; false where there are none, or the number is above `most`. */
bool scanner_number(struct scanner *scanner, uint32_t most, uint32_t *number);

/* Replaces each %XX by the character it stands for. Returns 0 with *decoded for the caller to free,
 * -EINVAL (a broken %XX, or one of a control character) or -ENOMEM, with scanner->err filled. */
int scanner_decode(const struct scanner *scanner, struct span span, char **decoded);

static inline size_t span_length(struct span span)
{
	return (size_t)(span.end - span.at);
}

static inline struct span span_over(const char *text)
{
	return (struct span){text, text + strlen(text)};
}

static inline bool span_same(struct span a, struct span b)
{
	return span_length(a) == span_length(b) && memcmp(a.at, b.at, span_length(a)) == 0;
}

static inline bool span_is(struct span span, const char *word)
{
	return span_same(span, span_over(word));
}

static inline bool character_is_control(char character)
{
	return (unsigned char)character < 0x20 || character == 0x7f;
}

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

/*
 * --- the parts of a pool's text ---
 *
 * Each function that reads moves the scanner behind what it read, and returns 0, or -EINVAL or
 * -ENOMEM with the scanner's error filled.
 */

/* path { "," path }, to the scanner's end. *pool is empty on failure. */
int list_read(struct scanner *list, struct pool *pool);

/* An IPv4 address, or an IPv6 address that may end in %zone: a link-local one's interface. */
bool address_is_valid(struct span address);

/* arg { "&" arg }: stops at ',' or the scanner's end. */
int arguments_read(struct scanner *list, struct pool_path *path);

/* Refuses ".." as a component of `name`; the message calls the name `what` ("a file name"). */
int check_components(struct scanner name, const char *what);
