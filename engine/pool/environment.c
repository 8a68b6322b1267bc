/* SPDX-License-Identifier: GPL-2.0-only */
/* environment.c - several pools in one variable: "name:path,path,... name:path,...", of which one
 * is found by its name or by a file's; and a file's name below a pool's mounts. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar.h"

static const char white_space[] = " \t\n\v\f\r";

struct entry {
	struct span name;
	struct scanner list; /* of paths */
};

static struct span take_name(struct scanner *scanner)
{
	struct span none = {scanner->at, scanner->at};

	if (scanner_done(scanner) || !strchr(LETTERS, scanner_peek(scanner)))
		return none;
	return scanner_while(scanner, NAME_CHARACTERS);
}

bool pool_is_name(const char *text)
{
	struct scanner scanner = scanner_over(text, NULL);

	return span_length(take_name(&scanner)) && scanner_done(&scanner);
}

static struct span next_word(struct scanner *env)
{
	scanner_while(env, white_space);
	return scanner_until(env, white_space);
}

static int read_entry(const struct scanner *env, struct span word, struct entry *entry)
{
	struct scanner scanner = scanner_within(env, word);

	entry->name = take_name(&scanner);
	if (!span_length(entry->name) || !scanner_take(&scanner, ':'))
		return scanner_refuse(env, word.at,
				      "'%s' is no pool: write NAME:PATH,PATH,... without white "
				      "space in it; a name has letters, digits, '_', '-', '.', "
				      "a letter first",
				      QUOTE(word));
	if (scanner_take_word(&scanner, "//"))
		return scanner_refuse(env, word.at,
				      "a pool's name is missing before this URL: NAME:%.*s://...",
				      (int)span_length(entry->name), entry->name.at);
	entry->list = scanner;
	return 0;
}

static int check_repeated(const struct scanner *env, struct span name)
{
	struct scanner before = {.text = env->text, .at = env->text, .end = name.at};

	for (;;) {
		struct span word = next_word(&before);
		struct scanner scanner = scanner_within(&before, word);

		if (!span_length(word))
			return 0;
		if (span_same(take_name(&scanner), name))
			return scanner_refuse(env, name.at, "the pool '%s' is named twice",
					      QUOTE(name));
	}
}

/* Returns 1 with the next entry, 0 after the last, or -EINVAL with the scanner's error filled. */
static int next_entry(struct scanner *env, struct entry *entry)
{
	struct span word = next_word(env);

	if (!span_length(word))
		return 0;
	return read_entry(env, word, entry) ?: check_repeated(env, entry->name) ?: 1;
}

static int not_found(struct scanner env, const char *name)
{
	static const char more[] = " ...";
	char names[150] = "";
	struct entry entry;

	while (next_entry(&env, &entry) > 0) {
		size_t used = strlen(names), room = sizeof(names) - used;
		bool fits = span_length(entry.name) + sizeof(more) < room;

		snprintf(names + used, room, fits ? " %.*s" : more, (int)span_length(entry.name),
			 entry.name.at);
		if (!fits)
			break;
	}
	pool_refuse(env.err, 0, "no pool is named '%s'; known:%s", QUOTE(span_over(name)),
		    *names ? names : " none");
	return -ENOENT;
}

/* As pool_find() finds the pool of a name in the variable with the text `env`. */
static int find_by_name(const char *env, const char *name, struct pool *pool,
			struct pool_error *err)
{
	struct scanner scanner = scanner_over(env, err);
	struct entry entry, found = {0};
	int more;

	*pool = (struct pool){0};
	/* Reads all entries, to refuse a name that is given twice. */
	while ((more = next_entry(&scanner, &entry)) > 0)
		if (span_is(entry.name, name))
			found = entry;
	if (more < 0)
		return more;
	if (!found.name.at)
		return not_found(scanner_over(env, err), name);
	return list_read(&found.list, pool);
}

/* The rest of `file` below `directory`; several slashes count as one. NULL: `file` is elsewhere. */
static const char *below(const char *directory, const char *file)
{
	struct scanner outer = scanner_over(directory, NULL);
	struct scanner inner = scanner_over(file, NULL);
	struct span component;

	if (scanner_peek(&inner) != '/')
		return NULL;
	component = scanner_component(&outer);
	for (; span_length(component); component = scanner_component(&outer))
		if (!span_same(component, scanner_component(&inner)))
			return NULL;
	scanner_while(&inner, "/");
	return inner.at;
}

/* The rest of `file` below the pool's longest mount that holds it, by whole components ("" where
 * `file` is the mount itself). NULL: no mount holds it. */
static const char *below_mount(const struct pool *pool, const char *file)
{
	const char *shortest = NULL;

	for (unsigned int i = 0; i < pool->count; i++) {
		const char *rest;

		if (pool->paths[i].kind != PATH_MOUNT)
			continue;
		rest = below(pool->paths[i].dir, file);
		if (rest && (!shortest || rest > shortest))
			shortest = rest;
	}
	return shortest;
}

const struct pool_path *pool_first_mount(const struct pool *pool)
{
	for (unsigned int i = 0; i < pool->count; i++)
		if (pool->paths[i].kind == PATH_MOUNT)
			return &pool->paths[i];
	return NULL;
}

/* Strips an absolute name of its mount or, in a pool without mounts, of its leading slashes. */
static int strip(const struct pool *pool, struct scanner *name)
{
	const struct pool_path *mount = pool_first_mount(pool);
	const char *rest = below_mount(pool, name->at);

	if (mount && !rest)
		return scanner_refuse(name, name->at,
				      "'%s' lies in none of the pool's mounts: name a file "
				      "relative to them, or below one of them, such as %.60s",
				      QUOTE(span_over(name->at)), mount->dir);
	if (mount)
		name->at = rest;
	scanner_while(name, "/");
	return 0;
}

int pool_relative_name(const struct pool *pool, const char *file, const char **relative,
		       struct pool_error *err)
{
	struct scanner name = scanner_over(file, err);
	int refused;

	if ((size_t)(name.end - name.at) >= PATH_MAX)
		return scanner_refuse(&name, file + PATH_MAX - 1,
				      "a file name has fewer than %d bytes", PATH_MAX);
	refused = check_components(name, "a file name");
	if (!refused && scanner_peek(&name) == '/')
		refused = strip(pool, &name);
	if (refused)
		return refused;
	if (scanner_done(&name))
		return scanner_refuse(&name, name.at, "'%s' names no file inside the pool",
				      QUOTE(span_over(file)));
	*relative = name.at;
	return 0;
}

/* Of the pools read so far, the one with the longest mount that holds a file. */
struct choice {
	struct pool pool;
	const char *rest;  /* of the file's name, below the pool's mount; NULL: no pool yet */
	struct span name;  /* of the pool */
	struct span rival; /* the name of a later pool that holds the same mount */
};

static int consider(struct entry *entry, const char *file, struct choice *choice)
{
	struct pool pool;
	const char *rest;
	int err = list_read(&entry->list, &pool);

	if (err)
		return err;
	rest = below_mount(&pool, file);
	if (rest && rest == choice->rest)
		choice->rival = entry->name;
	if (!rest || (choice->rest && rest <= choice->rest)) {
		pool_free(&pool);
		return 0;
	}
	pool_free(&choice->pool);
	*choice = (struct choice){.pool = pool, .rest = rest, .name = entry->name};
	return 0;
}

static int choose(struct scanner *env, const char *file, struct choice *choice)
{
	struct entry entry;
	int more;

	while ((more = next_entry(env, &entry)) > 0) {
		int err = consider(&entry, file, choice);

		if (err)
			return err;
	}
	if (more)
		return more;
	if (choice->rival.at)
		return scanner_refuse(env, choice->rival.at,
				      "'%s' and '%s' both hold the mount of '%s': name the pool",
				      QUOTE(choice->name), QUOTE(choice->rival),
				      QUOTE(span_over(file)));
	if (choice->rest)
		return 0;
	pool_refuse(env->err, 0, "no pool holds a mount that '%s' lies in", QUOTE(span_over(file)));
	return -ENOENT;
}

static int find_by_file(const char *env, const char *file, struct pool *pool, const char **relative,
			struct pool_error *err)
{
	struct scanner scanner = scanner_over(env, err);
	struct choice choice = {0};
	int refused = choose(&scanner, file, &choice);

	if (!refused) {
		refused = pool_relative_name(&choice.pool, file, relative, err);
		if (refused)
			err->column = 0; /* `file` is at fault, not a place in `env` */
	}
	if (refused)
		pool_free(&choice.pool);
	*pool = choice.pool;
	return refused;
}

static int look_for(const char *text, const char *file, struct pool *pool,
		    struct pool_search *search)
{
	static const char *const variables[] = {"NFSMULTI_POOLS", "IOTRAP_MOUNT_POOLS"};
	int error = -ENOENT;

	*search = (struct pool_search){.places[0].text = text, .end = 1};
	if (text && !pool_is_name(text))
		return pool_parse(text, pool, &search->places[0].err);
	for (unsigned int i = 0; error == -ENOENT && i < 2; i++) {
		struct pool_place *place = &search->places[i];

		*place = (struct pool_place){variables[i], getenv(variables[i]), {0, "not set"}};
		search->end = i + 1;
		if (place->text)
			error = text ? find_by_name(place->text, text, pool, &place->err)
				     : find_by_file(place->text, file, pool, &search->relative,
						    &place->err);
		search->first = error == -ENOENT ? 0 : i;
	}
	return error;
}

void pool_log_error(pool_log *log, const struct pool_place *place, const struct pool_error *err)
{
	const char *where = place->variable ?: "pool";

	if (err->column)
		log("%s: column %zu: %s, in \"%s\"", where, err->column, err->reason, place->text);
	else
		log("%s: %s", where, err->reason);
}

int pool_find(const char *text, const char *file, struct pool *pool, struct pool_search *search,
	      pool_log *log)
{
	struct pool_search own;
	bool told = false;
	int error;

	search = search ?: &own;
	error = look_for(text, file, pool, search);
	for (unsigned int i = search->first; error && log && i < search->end; i++) {
		if (!search->places[i].text || (error == -ENOENT && file))
			continue;
		pool_log_error(log, &search->places[i], &search->places[i].err);
		told = true;
	}
	if (!error || !log || told)
		return error;
	if (file)
		log("no pool: give pool=, or a file below a mount that NFSMULTI_POOLS or "
		    "IOTRAP_MOUNT_POOLS names (\"%s\" is not)",
		    file);
	else
		log("pool=%s: neither NFSMULTI_POOLS nor IOTRAP_MOUNT_POOLS is set; a directory "
		    "begins with a slash, an export with nfs://",
		    text);
	return error;
}
