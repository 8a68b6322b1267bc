/* SPDX-License-Identifier: GPL-2.0-only */
/* terms.c - operations on all terms, by their rows in the table. */
#include "terms/terms.h"

#include <stdlib.h>
#include <string.h>

#include "stats/json_line.h"

const struct term *term_at(size_t at)
{
	const struct term *term = terms_table;

	while (term->at != at)
		term++;
	return term;
}

/* Terms with the same member (hard, soft) share the flag of the first. */
void term_give(const struct term *term, struct terms *terms)
{
	terms->given[term_at(term->at) - terms_table] = true;
}

const struct term_value *term_value(const struct term *term, unsigned int number)
{
	const struct term_value *value = term->values;

	while (value->value != number)
		value++;
	return value;
}

const char *term_text(const struct term *term, const struct terms *terms, char room[TERM_ROOM])
{
	if (term_is_text(term))
		return *term_string(term, terms) ?: "";
	if (term->kind == TERM_CHOICE)
		return term_value(term, *term_number(term, terms))->word;
	snprintf(room, TERM_ROOM, "%u", *term_number(term, terms));
	return room;
}

void terms_free(struct terms *terms)
{
	for_each_term (term)
		if (term_is_text(term))
			free(*term_string(term, terms));
	*terms = (struct terms){0};
}

bool terms_copy(struct terms *to, const struct terms *from)
{
	bool copied = true;

	*to = *from;
	for_each_term (term) {
		char **string = term_string(term, to);

		if (!term_is_text(term) || !*string)
			continue;
		*string = strdup(*string);
		copied = copied && *string;
	}
	return copied;
}

void terms_init(struct terms *terms)
{
	*terms = (struct terms){0};
	for_each_term (term)
		if (term->kind == TERM_NUMBER && term->preset)
			*term_number(term, terms) = (unsigned int)strtoul(term->preset, NULL, 10);
}

struct terms terms_over(const struct terms *path, const struct terms *job)
{
	struct terms all = *job;

	for_each_term (term)
		if (term_given(term, path))
			memcpy((char *)&all + term->at, (const char *)path + term->at,
			       term_is_text(term) ? sizeof(char *) : sizeof(unsigned int));
	memcpy(all.given, path->given, sizeof(all.given));
	memcpy(all.each, path->each, sizeof(all.each));
	return all;
}

char *terms_key(const struct terms *job)
{
	char room[TERM_ROOM], *key = NULL;
	size_t size;
	FILE *out = open_memstream(&key, &size);

	if (!out)
		return NULL;
	for_each_term (term)
		if (term->shared || (term->in_path && term->kind != TERM_GONE))
			fprintf(out, "%s\n", term_text(term, job, room));
	if (!fclose(out))
		return key;
	free(key);
	return NULL;
}

void terms_print_string(FILE *out, const char *key, const char *text)
{
	fputs(", ", out);
	json_string(out, key, text, UINT8_MAX); /* in UTF-8, as it was given */
}

void terms_print(FILE *out, const struct terms *path)
{
	char room[TERM_ROOM], key[TERM_ROOM];

	for_each_term (term) {
		if (!term_given(term, path))
			continue;
		snprintf(key, sizeof(key), "%.*s", (int)strcspn(term->in_path, " "), term->in_path);
		if (term_is_text(term) || term->kind == TERM_CHOICE)
			terms_print_string(out, key, term_text(term, path, room));
		else if (term->kind == TERM_FLAG)
			fprintf(out, ", \"soft\": %s", path->soft ? "true" : "false");
		else if (term_is_each(term, path))
			fprintf(out, ", \"%s\": \"%s+\"", key, term_text(term, path, room));
		else
			fprintf(out, ", \"%s\": %s", key, term_text(term, path, room));
	}
}

bool terms_need(const struct terms *terms, enum term_needs needs)
{
	for_each_term (term)
		if (term->needs == needs &&
		    (term_is_text(term) ? !!*term_string(term, terms) : *term_number(term, terms)))
			return true;
	return false;
}
