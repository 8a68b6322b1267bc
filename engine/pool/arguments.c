/* SPDX-License-Identifier: GPL-2.0-only */
/* arguments.c - the arguments of a URL: the terms that a path sets for itself. */
#include <stdlib.h>
#include <string.h>

#include "grammar.h"
#include "util.h"

/* A list of arguments, and the argument that is being read. */
struct reading {
	struct scanner *list;
	struct pool_path *path;
	struct span words[TERMS_MAX]; /* of the arguments so far */
	uint32_t count;

	const struct term *term;
	char name[QUOTED_MAX]; /* the argument's word, as written */
	const char *at;	       /* the value in the text, or the word where there is no value */
	const char *value;     /* decoded; "1" where there is no value */
};

/* Refuses the argument. The format begins with a %s for its word. */
#define REFUSE(reading, format, ...) \
	scanner_refuse((reading)->list, (reading)->at, format, (reading)->name, ##__VA_ARGS__)

/* Sets the term. Two words may name one term (nfsport and port): their values must agree. */
static int set(struct reading *reading, unsigned int number)
{
	const struct term *term = reading->term;
	struct terms *terms = &reading->path->terms;
	unsigned int *member = term_number(term, terms);
	char room[TERM_ROOM];

	if (!term_given(term_at(term->at), terms) || *member == number) {
		*member = number;
		term_give(term, terms);
		return 0;
	}
	if (term->kind == TERM_FLAG)
		return scanner_refuse(reading->list, reading->at,
				      "hard and soft contradict each other: give one");
	return REFUSE(reading, "%s=%s contradicts the %s given before it: give one", reading->value,
		      term_text(term, terms, room));
}

static unsigned int take_unit(struct scanner *value)
{
	if (scanner_take(value, 'k') || scanner_take(value, 'K'))
		return 10;
	if (scanner_take(value, 'm') || scanner_take(value, 'M'))
		return 20;
	return 0;
}

static int read_number(struct reading *reading)
{
	const struct term *term = reading->term;
	struct scanner value = scanner_over(reading->value, NULL);
	bool is_size = term->kind == TERM_SIZE;
	uint32_t number;
	bool read = scanner_number(&value, term->most, &number);
	unsigned int shift = is_size ? take_unit(&value) : 0;
	bool each =
		read && term->each_most && number <= term->each_most && scanner_take(&value, '+');

	reading->path->terms.each[term - terms_table] = each;
	if (read && number >= term->least && number <= term->most >> shift && scanner_done(&value))
		return set(reading, number << shift);
	if (is_size)
		return REFUSE(reading,
			      "%s is a size from %u to %um: bytes, or a number with k or m",
			      term->least, term->most >> 20);
	return REFUSE(reading, "%s is a number from %u to %u%s", term->least, term->most,
		      term->unit ?: "");
}

/* "none, tls or mtls" */
static int refuse_choice(const struct reading *reading)
{
	char words[64] = "";
	size_t used = 0;

	for (const struct term_value *value = reading->term->values; value->word; value++) {
		bool last = !value[1].word || term_refuses(reading->term, &value[1]);
		const char *between = last ? " or " : ", ";

		if (!term_refuses(reading->term, value))
			used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%s",
						 used ? between : "", value->word);
	}
	return REFUSE(reading, "%s is %s", words);
}

static int read_choice(struct reading *reading)
{
	const struct term_value *value = reading->term->values;

	while (value->word && strcmp(reading->value, value->word) != 0)
		value++;
	if (!value->word)
		return refuse_choice(reading);
	if (term_refuses(reading->term, value))
		return REFUSE(reading, "%s=%s%s", value->word, reading->term->refusal);
	return set(reading, value->value);
}

static int read_flag(struct reading *reading)
{
	bool one = !strcmp(reading->value, "1");

	if (!one && strcmp(reading->value, "0") != 0)
		return REFUSE(reading, "%s takes no value, or =1 or =0");
	return set(reading, one ? reading->term->least : !reading->term->least);
}

static int check_addresses(const struct reading *reading)
{
	struct scanner value = scanner_over(reading->value, NULL);

	do {
		struct span one = scanner_until(&value, "+");
		struct address_range range;
		const char *why = address_range_read(one.at, span_length(one), &range);

		if (why && !address_is_valid(one))
			return scanner_refuse(reading->list, reading->at,
					      "'%s' is %s: %s takes addresses, ranges "
					      "(10.0.0.1-10.0.0.9) and prefixes (10.0.1.0/24), "
					      "joined by '+'",
					      QUOTE(one), why, reading->name);
	} while (scanner_take(&value, '+'));
	return 0;
}

static int read_text(struct reading *reading)
{
	char **member = term_string(reading->term, &reading->path->terms);
	int error = reading->term->kind == TERM_ADDRESSES ? check_addresses(reading) : 0;

	if (error)
		return error;
	if (!*reading->value)
		return REFUSE(reading, "%s needs a value: %s=...", reading->name);
	*member = strdup(reading->value);
	if (!*member)
		return pool_no_memory(reading->list->err);
	term_give(reading->term, &reading->path->terms);
	return 0;
}

static int read_term(struct reading *reading)
{
	switch (reading->term->kind) {
	case TERM_CHOICE: return read_choice(reading);
	case TERM_FLAG: return read_flag(reading);
	case TERM_TEXT:
	case TERM_ADDRESSES: return read_text(reading);
	case TERM_GONE: return REFUSE(reading, "%s: %s", reading->term->help);
	default: return read_number(reading);
	}
}

/* Refuses rdmaport= beside a proto= other than rdma and rdma6: it would have no effect. */
static int check_rdma(const struct reading *reading)
{
	const struct terms *terms = &reading->path->terms;

	if (!term_given(TERM(proto), terms) || terms_over_rdma(terms) ||
	    !term_given(TERM(rdmaport), terms))
		return 0;
	return scanner_refuse(reading->list, reading->at,
			      "rdmaport needs proto=rdma; TCP's port is nfsport");
}

static bool has_word(const char *words, struct span word)
{
	struct scanner scanner = scanner_over(words, NULL);
	bool found = false;

	do
		found = span_same(scanner_until(&scanner, " "), word);
	while (!found && scanner_take(&scanner, ' '));
	return found;
}

static int refuse_unknown(const struct scanner *list, struct span word)
{
	struct scanner rest = *list;
	bool given = scanner_take(&rest, '=');
	struct span value = scanner_until(&rest, "&,");
	char words[208] = "";

	for_each_term (term) {
		if (!term->in_path && term->kind != TERM_GONE && span_is(word, term->word))
			return scanner_refuse(list, word.at, "give it as a job option: --%s=%s",
					      term->word, given ? QUOTE(value) : "VALUE");
		if (term->in_path && term->kind != TERM_GONE)
			snprintf(words + strlen(words), sizeof(words) - strlen(words), " %s",
				 term->in_path);
	}
	return scanner_refuse(list, word.at, "unknown argument '%s'; known:%s", QUOTE(word), words);
}

/* Finds the term of a word. Refuses an unknown word, and a word that was given before. */
static int find_term(struct reading *reading, struct span word)
{
	for (uint32_t i = 0; i < reading->count; i++)
		if (span_same(word, reading->words[i]))
			return REFUSE(reading, "%s is given twice");
	if (reading->count < TERMS_MAX)
		reading->words[reading->count++] = word;
	reading->term = NULL;
	for_each_term (term)
		if (term->in_path && has_word(term->in_path, word))
			reading->term = term;
	if (reading->term)
		return 0;
	refuse_unknown(reading->list, word);
	return -EINVAL;
}

static int read_value(struct reading *reading)
{
	struct scanner *list = reading->list;
	char *value = NULL;
	int err = 0;

	if (scanner_take(list, '=')) {
		reading->at = list->at;
		err = scanner_decode(list, scanner_until(list, "&,"), &value);
	} else if (reading->term->kind != TERM_FLAG) {
		return REFUSE(reading, "%s needs a value: %s=...", reading->name);
	}
	reading->value = value ?: "1";
	if (!err)
		err = read_term(reading) ?: check_rdma(reading);
	free(value);
	return err;
}

int arguments_read(struct scanner *list, struct pool_path *path)
{
	struct reading reading = {.list = list, .path = path};

	do {
		struct span word = scanner_until(list, "=&,");
		int err;

		if (!span_length(word))
			return scanner_refuse(list, word.at,
					      "an argument is missing here: ARG=VALUE");
		reading.at = word.at;
		span_quote(word, reading.name);
		err = find_term(&reading, word) ?: read_value(&reading);
		if (err)
			return err;
	} while (scanner_take(list, '&'));
	return 0;
}
