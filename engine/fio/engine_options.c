/* SPDX-License-Identifier: GPL-2.0-only */
#include "engine_options.h"

#include "optgroup.h"

struct fio_option engine_option_table[TERMS_MAX];

/* nfs(5): the later of the two words counts. */
static int set_hard(void *data, int *value)
{
	((struct terms *)data)->soft = !*value;
	return 0;
}

static int set_soft(void *data, int *value)
{
	((struct terms *)data)->soft = *value != 0;
	return 0;
}

static const enum fio_opt_type types[] = {
	[TERM_NUMBER] = FIO_OPT_INT,	   [TERM_SIZE] = FIO_OPT_INT,
	[TERM_BYTES] = FIO_OPT_STR_VAL,	   [TERM_CHOICE] = FIO_OPT_STR,
	[TERM_SWITCH] = FIO_OPT_BOOL,	   [TERM_FLAG] = FIO_OPT_STR_SET,
	[TERM_TEXT] = FIO_OPT_STR_STORE,   [TERM_ADDRESSES] = FIO_OPT_STR_STORE,
	[TERM_GONE] = FIO_OPT_UNSUPPORTED,
};

static void make(struct fio_option *option, const struct term *term)
{
	*option = (struct fio_option){
		.name = term->word,
		.lname = term->word, /* fio wants one, and gfio alone shows it */
		.alias = term->alias,
		.type = types[term->kind],
		.help = term->help,
		.def = term->preset,
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_NFS,
	};
	if (term->kind == TERM_FLAG)
		option->cb = term->least ? set_soft : set_hard;
	else if (term->kind != TERM_GONE)
		option->off1 = (unsigned int)term->at;
	if (term->kind == TERM_NUMBER) {
		option->minval = term->preset ? (int)term->least : 0;
		option->maxval = term->most;
	}
	for (int i = 0; term->values[i].word; i++)
		option->posval[i] = (struct value_pair){
			.ival = term->values[i].word,
			.oval = term->values[i].value,
			.help = term->values[i].help,
		};
}

__attribute__((constructor)) static void make_all(void)
{
	struct fio_option *option = engine_option_table;

	for_each_term (term)
		if (term->help)
			make(option++, term);
}
