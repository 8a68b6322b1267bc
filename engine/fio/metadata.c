/* SPDX-License-Identifier: GPL-2.0-only */
#include "meta_job.h"

#include <inttypes.h>
#include <string.h>

#include "job_terms.h"
#include "job.h"
#include "job_log.h"
#include "nfs/entries.h"
#include "nfs/meta_io.h"

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
		return job_refuse("metadata=1: ", refusals, ARRAY_SIZE(refusals))
			       ?: meta_mix_check(td);
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
	if (!eo->metadata || meta_mix_of(td, &mix) || !mix.weights[META_OPEN])
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
	if (meta_mix_of(td, &mix))
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
