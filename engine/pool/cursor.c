/* SPDX-License-Identifier: GPL-2.0-only */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cursor.h"
#include "pool.h"

struct cursor cursor_over(const char *text, struct pool_error *err)
{
	return (struct cursor){.text = text, .at = text, .end = text + strlen(text), .err = err};
}

struct cursor cursor_within(const struct cursor *cursor, struct span span)
{
	return (struct cursor){
		.text = cursor->text, .at = span.at, .end = span.end, .err = cursor->err};
}

bool cursor_done(const struct cursor *cursor)
{
	return cursor->at == cursor->end;
}

char cursor_peek(const struct cursor *cursor)
{
	return cursor_done(cursor) ? '\0' : *cursor->at;
}

size_t cursor_column(const struct cursor *cursor, const char *at)
{
	return (size_t)(at - cursor->text) + 1;
}

bool cursor_take(struct cursor *cursor, char character)
{
	if (cursor_done(cursor) || *cursor->at != character)
		return false;
	cursor->at++;
	return true;
}

bool cursor_take_word(struct cursor *cursor, const char *word)
{
	size_t length = strlen(word);

	if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, word, length) != 0)
		return false;
	cursor->at += length;
	return true;
}

static struct span take_run(struct cursor *cursor, const char *set, bool wanted)
{
	struct span run = {cursor->at, cursor->at};

	while (run.end < cursor->end && (strchr(set, *run.end) != NULL) == wanted)
		run.end++;
	cursor->at = run.end;
	return run;
}

struct span cursor_while(struct cursor *cursor, const char *set)
{
	return take_run(cursor, set, true);
}

struct span cursor_until(struct cursor *cursor, const char *set)
{
	return take_run(cursor, set, false);
}

struct span cursor_component(struct cursor *cursor)
{
	cursor_while(cursor, "/");
	return cursor_until(cursor, "/");
}

bool cursor_number(struct cursor *cursor, uint32_t most, uint32_t *number)
{
	struct span digits = cursor_while(cursor, "0123456789");
	uint64_t value = 0;

	for (const char *digit = digits.at; digit < digits.end; digit++) {
		value = value * 10 + (uint64_t)(*digit - '0');
		if (value > most)
			return false;
	}
	*number = (uint32_t)value;
	return digits.at < digits.end;
}

static bool take_hexadecimal(struct cursor *cursor, unsigned int *value)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";
	const char *digit;

	if (cursor_done(cursor))
		return false;
	digit = strchr(digits, *cursor->at);
	if (!digit)
		return false;
	cursor->at++;
	*value = *value << 4 | (unsigned int)((digit - digits) & 15);
	return true;
}

static int decode_character(struct cursor *raw, char *character)
{
	const char *at = raw->at;
	unsigned int value = 0;

	if (!cursor_take(raw, '%')) {
		*character = *raw->at++;
		return 0;
	}
	if (!take_hexadecimal(raw, &value) || !take_hexadecimal(raw, &value))
		return cursor_refuse(raw, at,
				     "'%%' needs two hexadecimal digits after it; "
				     "for the character '%%' itself write %%25");
	*character = (char)value;
	if (character_is_control(*character))
		return cursor_refuse(raw, at, "%%%02X is a control character: remove it", value);
	return 0;
}

int cursor_decode(const struct cursor *cursor, struct span span, char **decoded)
{
	struct cursor raw = cursor_within(cursor, span);
	char *out = calloc(1, span_length(span) + 1);
	int err = 0;

	*decoded = out;
	if (!out)
		return pool_no_memory(cursor->err);
	while (!err && !cursor_done(&raw))
		err = decode_character(&raw, out++);
	if (err) {
		free(*decoded);
		*decoded = NULL;
	}
	return err;
}

int pool_refuse(struct pool_error *err, size_t column, const char *reason, ...)
{
	va_list values;

	err->column = column;
	va_start(values, reason);
	vsnprintf(err->reason, sizeof(err->reason), reason, values);
	va_end(values);
	return -EINVAL;
}

int pool_no_memory(struct pool_error *err)
{
	pool_refuse(err, 0, "out of memory");
	return -ENOMEM;
}

size_t span_length(struct span span)
{
	return (size_t)(span.end - span.at);
}

bool span_same(struct span a, struct span b)
{
	return span_length(a) == span_length(b) && memcmp(a.at, b.at, span_length(a)) == 0;
}

bool span_is(struct span span, const char *word)
{
	return span_same(span, (struct span){word, word + strlen(word)});
}

char *span_string(struct span span)
{
	return strndup(span.at, span_length(span));
}

bool character_is_control(char character)
{
	return (unsigned char)character < 0x20 || character == 0x7f;
}

const char *span_quote(struct span span, char quoted[QUOTED_MAX])
{
	static const char more[] = "...";
	size_t room = QUOTED_MAX - sizeof(more);
	size_t length = span_length(span);
	char *out = quoted;

	for (const char *in = span.at; in < span.end && (size_t)(out - quoted) < room; in++)
		*out++ = character_is_control(*in) ? '?' : *in;
	memcpy(out, length > room ? more : "", length > room ? sizeof(more) : 1);
	return quoted;
}
