/* SPDX-License-Identifier: GPL-2.0-only */
#include "meta_job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "job_log.h"
#include "nfs/meta_call.h"

enum { SIZE_FIRST = 1024 };

/* Doubles the ring's size, and puts the oldest entry first. False: out of memory. */
static bool grow(struct made *made)
{
	uint64_t size = made->size ? 2 * made->size : SIZE_FIRST;
	uint64_t *entries = calloc(size, sizeof(*entries));

	if (!entries)
		return false;
	for (uint64_t i = 0; i < made->count; i++)
		entries[i] = made->entries[(made->first + i) % made->size];
	free(made->entries);
	made->entries = entries;
	made->first = 0;
	made->size = size;
	return true;
}

enum { WEIGHT_MAX = 1000000 };

/* In enum meta_op the reads come before META_CREATE. */
static bool is_read(enum meta_op op)
{
	return op < META_CREATE;
}

/* A mix leaves the job's own entries in place: it makes and removes only others. */
static bool may_be_mixed(enum meta_op op)
{
	return is_read(op) || op == META_CREATE || op == META_REMOVE || op == META_MKDIR ||
	       op == META_RMDIR || op == META_SETATTR;
}

static void add(struct meta_mix *mix, enum meta_op op, uint32_t weight)
{
	mix->weights[op] = weight;
	*(is_read(op) ? &mix->reads : &mix->writes) += weight;
}

static bool find(const char *name, size_t length, enum meta_op *op)
{
	for (int i = 0; i < META_OPS; i++) {
		*op = (enum meta_op)i;
		if (strlen(meta_name(*op)) == length && !memcmp(meta_name(*op), name, length))
			return may_be_mixed(*op);
	}
	return false;
}

/* The weight in the text; 0: the text is no weight. */
static uint32_t weight_of(const char *text)
{
	char *end;
	unsigned long weight = strtoul(text, &end, 10);

	return *text >= '1' && *text <= '9' && !*end && weight <= WEIGHT_MAX ? (uint32_t)weight : 0;
}

static int parse_item(const char *text, const char *item, struct meta_mix *mix)
{
	size_t length = strcspn(item, ":");
	uint32_t weight = item[length] ? weight_of(item + length + 1) : 0;
	enum meta_op op;

	if (!weight)
		job_log("meta_mix=%s: \"%s\": give each operation a weight, a whole number from 1 "
			"to %d, as in getattr:70,lookup:20,setattr:10",
			text, item, WEIGHT_MAX);
	else if (!find(item, length, &op))
		job_log("meta_mix=%s: \"%s\": an operation of a mix is getattr, lookup, access, "
			"open, readdir, create, remove, mkdir, rmdir or setattr",
			text, item);
	else if (mix->weights[op])
		job_log("meta_mix=%s: \"%s\": named twice", text, item);
	else {
		add(mix, op, weight);
		return 0;
	}
	return -EINVAL;
}

static int parse(const char *text, struct meta_mix *mix)
{
	char *list = strdup(text), *rest = list;
	const char *item;
	int error = list ? 0 : -ENOMEM;

	while (!error && (item = strsep(&rest, ",")))
		error = parse_item(text, item, mix);
	free(list);
	return error;
}

/* Fills in the job's mix. 0, -EINVAL (logged) or -ENOMEM. */
static int mix_of(const struct thread_data *td, struct meta_mix *mix)
{
	const struct terms *eo = td->eo;

	*mix = (struct meta_mix){.beside = eo->meta_mix};
	if (eo->meta_mix)
		return parse(eo->meta_mix, mix);
	if (td_read(td))
		add(mix, eo->meta_read, 1);
	if (td_write(td))
		add(mix, eo->meta_write, 1);
	if (td_trim(td))
		add(mix, eo->meta_write == META_RMDIR ? META_RMDIR : META_REMOVE, 1);
	return 0;
}

static int check_direction(const struct thread_data *td, const struct meta_mix *mix)
{
	enum td_ddir needed = mix->reads && mix->writes ? TD_DDIR_RANDRW
			      : mix->reads		? TD_DDIR_RANDREAD
							: TD_DDIR_RANDWRITE;

	if (td->o.td_ddir == needed)
		return 0;
	job_log("meta_mix=%s: its operations need rw=%s, and this job has rw=%s",
		options_of(td)->meta_mix, ddir_str(needed), ddir_str(td->o.td_ddir));
	return -EINVAL;
}

/* Sets rwmixread= to the share of reads: fio chooses between reads and writes by whole per cent. */
static int set_share(struct thread_data *td, const struct meta_mix *mix)
{
	struct thread_options *o = &td->o;
	const char *text = options_of(td)->meta_mix;
	uint32_t sum = mix->reads + mix->writes, share = (100 * mix->reads + sum / 2) / sum;
	bool given =
		fio_option_is_set(o, rwmix[DDIR_READ]) || fio_option_is_set(o, rwmix[DDIR_WRITE]);

	if (share == 0 || share == 100) {
		job_log("meta_mix=%s: %u of %u are reads, and fio mixes by whole per cent: give "
			"reads and writes at least one in a hundred each",
			text, mix->reads, sum);
		return -EINVAL;
	}
	if (given && o->rwmix[DDIR_READ] != share) {
		job_log("meta_mix=%s: its share of reads is rwmixread=%u, and this job has "
			"rwmixread=%u: leave rwmixread out",
			text, share, o->rwmix[DDIR_READ]);
		return -EINVAL;
	}
	o->rwmix[DDIR_READ] = share;
	o->rwmix[DDIR_WRITE] = 100 - share;
	return 0;
}

/* Refuses options that contradict meta_mix=, and sets fio's rwmixread. 0 or a negative errno. */
static int check_mix(struct thread_data *td)
{
	const struct terms *eo = td->eo;
	struct meta_mix mix;
	int error = mix_of(td, &mix);

	if (error || !eo->meta_mix)
		return error;
	if (eo->meta_read != META_GETATTR || eo->meta_write != META_CREATE) {
		job_log("meta_mix=%s: it names all operations: leave meta_read= and meta_write= "
			"out",
			eo->meta_mix);
		return -EINVAL;
	}
	error = check_direction(td, &mix);
	return error || !mix.reads || !mix.writes ? error : set_share(td, &mix);
}

/* Draws an operation for an I/O of direction `ddir`, by the weights. */
static enum meta_op draw(struct meta_job *meta, enum fio_ddir ddir)
{
	const struct meta_mix *mix = &meta->mix;
	uint32_t sum = ddir == DDIR_READ ? mix->reads : mix->writes;
	uint32_t number = sum > 1 ? rand32_upto(&meta->random, sum - 1) : 0;
	int op = 0;

	for (; op < META_OPS - 1; op++) {
		if (is_read((enum meta_op)op) != (ddir == DDIR_READ))
			continue;
		if (number < mix->weights[op])
			break;
		number -= mix->weights[op];
	}
	return (enum meta_op)op;
}

bool meta_mix_does(const struct meta_mix *mix, enum meta_op op)
{
	if (mix->weights[op])
		return true;
	return mix->beside && ((op == META_CREATE && mix->weights[META_REMOVE]) ||
			       (op == META_MKDIR && mix->weights[META_RMDIR]));
}

/* The operations that make and remove entries of a kind. */
static const struct {
	enum meta_op make, remove;
} kinds[MADE_KINDS] = {
	[MADE_FILES] = {META_CREATE, META_REMOVE},
	[MADE_DIRECTORIES] = {META_MKDIR, META_RMDIR},
};

static bool kind_of(enum meta_op op, enum made_kind *kind)
{
	*kind = op == kinds[MADE_FILES].make || op == kinds[MADE_FILES].remove ? MADE_FILES
									       : MADE_DIRECTORIES;
	return op == kinds[*kind].make || op == kinds[*kind].remove;
}

struct meta_job *meta_job_new(const struct thread_data *td, const struct entries_terms *terms)
{
	struct meta_job *meta = calloc(1, sizeof(*meta));

	if (!meta)
		return NULL;
	meta->td = td;
	meta->terms = terms;
	/* Nothing else draws from this seed of fio's: a mix has no trims. */
	init_rand_seed(&meta->random, td->rand_seeds[FIO_RAND_TRIM_OFF], false);
	meta->made = calloc(td->o.nr_files, sizeof(*meta->made));
	if (meta->made && !mix_of(td, &meta->mix))
		return meta;
	meta_job_free(meta);
	return NULL;
}

void meta_job_free(struct meta_job *meta)
{
	if (!meta)
		return;
	for (uint32_t i = 0; meta->made && i < meta->td->o.nr_files; i++)
		for (int kind = 0; kind < MADE_KINDS; kind++)
			free(meta->made[i][kind].entries);
	for (int op = 0; op < META_OPS; op++)
		histogram_free(&meta->operations[op].latency);
	free(meta->made);
	free(meta);
}

struct entries_terms meta_job_terms(const struct meta_job *meta, const struct fio_file *f)
{
	struct entries_terms terms = *meta->terms;

	terms.count = (f->file_offset + f->io_size) / meta->td->o.min_bs[DDIR_READ];
	return terms;
}

/* Chooses which entry, not one of the job's own, the I/O makes or removes. A new one is in the
 * directory of the entry that fio chose. */
static void go_beside(struct meta_job *meta, struct meta_choice *choice, const struct io_u *io_u,
		      enum made_kind kind)
{
	struct made *made = &meta->made[io_u->file->fileno][kind];
	struct entries_terms terms;

	if (choice->op == kinds[kind].remove && made->count) {
		choice->entry = made->entries[made->first];
		made->first = (made->first + 1) % made->size;
		made->count--;
		return;
	}
	meta->made_first += choice->op == kinds[kind].remove;
	choice->op = kinds[kind].make;
	terms = meta_job_terms(meta, io_u->file);
	choice->entry = entries_beside(&terms, choice->entry, meta->turn++);
}

void meta_job_begins(struct meta_job *meta, struct meta_choice *choice, const struct io_u *io_u)
{
	enum made_kind kind;

	choice->op = choice->removes = draw(meta, io_u->ddir);
	choice->entry = io_u->offset / meta->td->o.min_bs[DDIR_READ];
	if (meta->mix.beside && kind_of(choice->op, &kind))
		go_beside(meta, choice, io_u, kind);
}

void meta_job_issued(struct meta_job *meta, struct meta_choice *choice, uint64_t now, uint64_t lag)
{
	if (!meta->begun)
		meta->begun = now;
	choice->begun = now - lag;
}

/* Records a new entry. True where it was made for a removal, the next operation of the I/O. */
static bool note_made(struct meta_job *meta, struct meta_choice *choice, const struct io_u *io_u)
{
	enum made_kind kind;
	struct made *made;

	if (!kind_of(choice->op, &kind) || choice->op != kinds[kind].make)
		return false;
	made = &meta->made[io_u->file->fileno][kind];
	if (choice->removes == choice->op) {
		/* Without memory for its number, no removal finds the entry: it stays. */
		if (made->count != made->size || grow(made))
			made->entries[(made->first + made->count++) % made->size] = choice->entry;
		return false;
	}
	choice->op = choice->removes;
	choice->begun = meta->now;
	return true;
}

bool meta_job_ends(struct meta_job *meta, struct meta_choice *choice, const struct io_u *io_u,
		   int error)
{
	struct operations *operations = &meta->operations[choice->op];

	meta->ended = meta->now;
	if (error) {
		operations->errors++;
		return false;
	}
	histogram_add(&operations->latency, meta->now - choice->begun);
	return meta->mix.beside && note_made(meta, choice, io_u);
}

uint64_t meta_job_left(const struct meta_job *meta, enum made_kind kind)
{
	return meta->operations[kinds[kind].make].latency.count -
	       meta->operations[kinds[kind].remove].latency.count;
}

/* --- fio's options, applied to entries --- */

enum { ENTRY_BYTES = 1 + NFS4_FHSIZE }; /* memory for an entry, on each path */

static bool one_block_size(const struct thread_data *td)
{
	const struct thread_options *o = &td->o;

	for (int ddir = 0; ddir < DDIR_RWDIR_CNT; ddir++)
		if (o->min_bs[ddir] != o->min_bs[DDIR_READ] ||
		    o->max_bs[ddir] != o->min_bs[DDIR_READ])
			return false;
	return true;
}

int metadata_check(struct thread_data *td)
{
	const struct terms *eo = options_of(td);
	const struct refusal refusals[] = {
		{!one_block_size(td),
		 "bs is the size of an entry, the same for reads, writes and trims: give one "
		 "number, such as bs=1"},
		/* VERIFY_NONE is 0; its header compiles only within fio */
		{td->o.verify, "verify= checks data, and entries have none: leave it out"},
		{td->o.unlink, "unlink=1 removes files: remove the entries by a job with "
			       "meta_write=remove (or rmdir)"},
		{eo->hold_writes, "hold_writes= holds data, and entries have none: leave it out"},
		{td->o.read_iolog_file,
		 "read_iolog= replays reads and writes of data: leave it out"},
		{td_trim(td) && td_write(td),
		 "a job cannot write the entries that it trims: use rw=trim, and a job of its own "
		 "for the writes"},
		{td_trim(td) && !meta_removes(eo->meta_write) && eo->meta_write != META_CREATE,
		 "a trim removes entries: set meta_write=rmdir for directories, and no "
		 "meta_write= for files and symbolic links"},
		{eo->meta_verify && (td_write(td) || td_trim(td)),
		 "meta_verify=1 checks the entries of a job that only reads: give the writes a "
		 "job of their own"},
		{eo->meta_verify && (eo->meta_mix || (eo->meta_read != META_GETATTR &&
						      eo->meta_read != META_LOOKUP)),
		 "meta_verify=1 checks the replies to getattr and lookup: set meta_read= to one "
		 "of them, and no meta_mix="},
		{td_read(td) && td_write(td) && eo->meta_write != META_SETATTR && !eo->meta_mix,
		 "a job cannot read the entries that it creates, renames or removes: give its "
		 "writes a job of their own, or use meta_mix=, or meta_write=setattr"},
	};

	if (eo->metadata)
		return job_refuse("metadata=1: ", refusals, ARRAY_SIZE(refusals)) ?: check_mix(td);
	if (!eo->meta_verify && !eo->meta_mix)
		return 0;
	job_log("metadata=1: meta_verify= and meta_mix= need metadata=1: set it, or leave them "
		"out");
	return -EINVAL;
}

int metadata_check_pool(const struct thread_data *td, const struct pool *pool)
{
	const struct terms *eo = options_of(td);
	const struct pool_path *mount = eo->metadata ? pool_first_mount(pool) : NULL;
	struct meta_mix mix;

	if (mount) {
		job_log("%s: metadata=1 on a kernel mount is gone since 0.7.0: use fio's "
			"filecreate, filestat and filedelete engines there, or give the server's "
			"URL (nfs://SERVER/EXPORT)",
			mount->label);
		return -EOPNOTSUPP;
	}
	if (!eo->metadata || mix_of(td, &mix) || !mix.weights[META_OPEN])
		return 0;
	for (unsigned int i = 0; i < pool->count; i++) {
		const struct pool_path *path = &pool->paths[i];

		if (terms_over(&path->terms, eo).version)
			continue;
		job_log("%s: %s=open: NFSv3 has no OPEN: use version=4.1 or another operation",
			path->label, mix.beside ? "meta_mix" : "meta_read");
		return -EINVAL;
	}
	return 0;
}

void metadata_terms(const struct thread_data *td, struct entries_terms *terms)
{
	const struct terms *eo = options_of(td);

	*terms = (struct entries_terms){
		.per_directory = eo->dir_entries,
		.depth = eo->tree_depth,
		.shared = eo->shared_dir,
		.job = td->subjob_number,
		.make = (td_write(td) || td_trim(td)) && td->o.allow_create && !read_only,
		.run = (uint64_t)path_random() << 16 ^ path_random(), /* 48 bits */
	};
}

int metadata_count(const struct thread_data *td, const struct fio_file *f, uint64_t *count)
{
	uint64_t size = f->file_offset + f->io_size, entry = td->o.min_bs[DDIR_READ];

	*count = size / entry;
	if (size % entry || f->file_offset % entry || !size) {
		job_log("metadata=1: \"%s\" has %" PRIu64 " bytes at %" PRIu64
			": size= and offset= must be whole numbers of entries of bs=%" PRIu64
			" bytes",
			f->file_name, (uint64_t)f->io_size, (uint64_t)f->file_offset, entry);
		return -EINVAL;
	}
	if (*count > memory_of_machine() / ENTRY_BYTES) {
		job_log("metadata=1: \"%s\" has %" PRIu64
			" entries, whose handles do not fit into this machine's memory: size= is "
			"their number times bs=%" PRIu64 " bytes",
			f->file_name, *count, entry);
		return -ENOMEM;
	}
	return 0;
}

struct meta_kind metadata_expected(const struct thread_data *td, enum meta_op op)
{
	if (!options_of(td)->meta_verify || (op != META_GETATTR && op != META_LOOKUP))
		return (struct meta_kind){0};
	switch (options_of(td)->meta_write) {
	case META_MKDIR:
	case META_RMDIR: return (struct meta_kind){META_TYPE_DIRECTORY, 0};
	case META_SYMLINK:
		return (struct meta_kind){META_TYPE_SYMLINK, strlen(META_SYMLINK_TARGET)};
	default: return (struct meta_kind){META_TYPE_FILE, 0};
	}
}

/* Operations that make entries need none, nor do removals in a mix, which make one if needed. */
bool metadata_needs_entries(const struct thread_data *td, enum meta_op *make)
{
	struct meta_mix mix;
	bool needs = false;

	*make = META_CREATE;
	if (mix_of(td, &mix))
		return false;
	if (mix.weights[META_RMDIR] && !mix.beside)
		*make = META_MKDIR;
	for (int op = 0; op < META_OPS; op++)
		needs = needs || (mix.weights[op] && !meta_makes((enum meta_op)op) &&
				  !(mix.beside && meta_removes((enum meta_op)op)));
	return needs;
}

static const char *remedy(const struct thread_data *td, enum meta_op op, int error)
{
	switch (error) {
	case EEXIST:
		if (op == META_LINK)
			return ": it has two names already: remove one of them, by a run with "
			       "meta_write=remove";
		return ": it is there already: remove the entries first, by a run with "
		       "meta_write=remove or rmdir; a job creates each entry once";
	case ENOENT:
		return meta_makes(op) ? ": its directory is gone"
				      : ": was it removed, or renamed, by another job?";
	case EISDIR:
	case ENOTDIR:
		if (!meta_removes(op))
			return "";
		return ": meta_write=remove is for files and symbolic links, rmdir for directories";
	case ENOSPC:
	case EDQUOT: return ": the server has no room for more entries";
	case EFBIG:
	case EMLINK:
		if (!meta_makes(op))
			return "";
		return options_of(td)->tree_depth
			       ? ": the directory holds no more: use a smaller dir_entries="
			       : ": the directory holds no more: use tree_depth=1, which divides "
				 "it";
	case EACCES:
	case EROFS: return ": may this user do that here, and over this export?";
	default: return errno_remedy(error);
	}
}

/* "a file of 0 bytes" */
static void kind_text(const struct meta_kind *kind, char *text, size_t size)
{
	switch (kind->type) {
	case META_TYPE_DIRECTORY: snprintf(text, size, "a directory"); break;
	case META_TYPE_FILE: snprintf(text, size, "a file of %" PRIu64 " bytes", kind->size); break;
	case META_TYPE_SYMLINK:
		snprintf(text, size, "a symbolic link of %" PRIu64 " bytes", kind->size);
		break;
	case 0: snprintf(text, size, "of a type that the server's LOOKUP does not report"); break;
	default: snprintf(text, size, "something of type %u", kind->type);
	}
}

/* meta_verify=1: the entry is there, but of another type or size. */
static void say_other_kind(const struct thread_data *td, const struct request *request)
{
	const struct meta_kind expected = metadata_expected(td, request->meta.op);
	char is[64], must_be[64];

	kind_text(&request->found, is, sizeof(is));
	kind_text(&expected, must_be, sizeof(must_be));
	job_log("%s: %s of entry %" PRIu64 " below \"%s\": it is %s and must be %s (meta_verify=1, "
		"meta_write=%s)",
		request->label, meta_name(request->meta.op), request->meta.entry,
		request->io_u->file->file_name, is, must_be, meta_name(options_of(td)->meta_write));
}

/* Names the entry by its number, or by its path where a mix has made it. */
void metadata_say_failed(const struct thread_data *td, const struct request *request)
{
	const struct entries entries = {
		.terms = meta_job_terms(job_of(td)->meta, request->io_u->file),
	};
	uint64_t number = request->meta.entry;
	const char *status = request->status;
	char path[ENTRY_PATH_MAX], entry[ENTRY_PATH_MAX + 2];

	if (request->error == EILSEQ && options_of(td)->meta_verify) {
		say_other_kind(td, request);
		return;
	}
	entries_path(&entries, number, false, path);
	if (number < entries.terms.count)
		snprintf(entry, sizeof(entry), "%" PRIu64, number);
	else
		snprintf(entry, sizeof(entry), "\"%s\"", path);
	job_log("%s: %s of entry %s below \"%s\": %s%s%s%s", request->label,
		meta_name(request->meta.op), entry, request->io_u->file->file_name,
		strerror(request->error), status ? ": " : "", status ?: "",
		remedy(td, request->meta.op, request->error));
}
