/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * metadata.c - metadata operations on the entries of one directory, one at a time on each: an
 * operation that succeeds was carried out once, one that fails not at all, and nothing is carried
 * out later. One that a server may have met twice succeeds also where all was as it was to become:
 * a client cannot tell (nfs/meta_call.h).
 */
#include <errno.h>
#include <string.h>

#include "fio/meta_job.h"
#include "job.h"
#include "world.h"

enum { FIRST, OTHER }; /* an entry's names */

/* What is known of an I/O: as of when it began. */
struct meta_one {
	enum meta_op op;
	uint32_t entry;
	struct namespace_entry before;
	uint64_t troubles; /* after which a call may have been sent twice */
};

static struct {
	struct meta_one ios[DEPTH_MAX];
	bool busy[NAMESPACE_ENTRIES];
	bool unknown[NAMESPACE_ENTRIES];     /* an operation was given up, or its reply */
	uint64_t changes[NAMESPACE_ENTRIES]; /* until its latest operation ended */
} metadata;

static void begin(void)
{
	memset(&metadata, 0, sizeof(metadata));
}

/* --- what is begun --- */

static uint64_t troubles(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < FAILURES; i++)
		sum += world.failures[i];
	for_each_conn (&sim_job.engine.group, conn)
		sum += conn->counters.retransmissions + conn->counters.reissues +
		       conn->counters.reconnects;
	return sum;
}

/* An entry is always of one type. */
static enum meta_op choose_making(uint32_t entry)
{
	static const enum meta_op makes[] = {META_CREATE, META_MKDIR, META_SYMLINK};

	return makes[entry % 3];
}

static enum meta_op choose_op(uint32_t entry)
{
	const object_t *names = namespace[entry].names;
	enum meta_op makes = choose_making(entry);

	switch (world_random(13)) {
	case 0: return META_GETATTR;
	case 1: return META_LOOKUP;
	case 2: return META_ACCESS;
	case 3: return META_SETATTR;
	case 4: return META_READDIR;
	case 5:
		if (makes == META_CREATE && sim_job.terms.version == 4)
			return META_OPEN;
		/* fall through */
	case 6:
		if (names[FIRST] && makes == META_CREATE)
			return META_LINK;
		/* fall through */
	case 7:
	case 8:
		if (!names[FIRST] || !names[OTHER]) /* with both it would mean something else */
			return META_RENAME;
		/* fall through */
	case 9:
	case 10: return makes == META_MKDIR ? META_RMDIR : META_REMOVE;
	default: return makes;
	}
}

static bool choose(uint32_t number, struct io_u *io_u)
{
	struct meta_one *one = &metadata.ios[number];
	uint32_t entry = (uint32_t)world_random(NAMESPACE_ENTRIES);

	if (metadata.busy[entry])
		return false;
	if (namespace[entry].changes != metadata.changes[entry] && !metadata.unknown[entry])
		world_violated("entry %u was changed when nothing was under way", entry);
	metadata.busy[entry] = true;
	*one = (struct meta_one){choose_op(entry), entry, namespace[entry], troubles()};
	io_u->ddir = world_random(2) ? DDIR_READ : DDIR_WRITE;
	job_set_file(io_u, 0);
	io_u->offset = entry;
	io_u->xfer_buflen = 1;
	return true;
}

/* --- what fio/meta_job.c and fio/meta_job.c are to a job --- */

void meta_job_begins(struct meta_job *meta, struct meta_choice *choice, const struct io_u *io_u)
{
	choice->op = choice->removes = metadata.ios[io_u->index].op;
	choice->entry = metadata.ios[io_u->index].entry;
}

void meta_job_issued(struct meta_job *meta, struct meta_choice *choice, uint64_t now, uint64_t lag)
{
}

bool meta_job_ends(struct meta_job *meta, struct meta_choice *choice, const struct io_u *io_u,
		   int error)
{
	return false;
}

struct meta_kind metadata_expected(const struct thread_data *td, enum meta_op op)
{
	return (struct meta_kind){0};
}

void metadata_say_failed(const struct thread_data *td, const struct request *request)
{
}

/* --- what has ended --- */

static bool changes_names(enum meta_op op)
{
	return meta_makes(op) || meta_takes_other(op) || op == META_LINK;
}

/* The entry was as the operation was to leave it. */
static bool was_so(enum meta_op op, const object_t *names)
{
	if (meta_makes(op))
		return names[FIRST];
	if (op == META_LINK)
		return names[OTHER];
	return !names[FIRST] && (op == META_RENAME || !names[OTHER]);
}

/* The error is the entry's state. */
static bool may_fail(enum meta_op op, const object_t *names, int error)
{
	if (error == EEXIST)
		return op == META_LINK ? names[OTHER] : meta_makes(op) && names[FIRST];
	if (error != ENOENT || op == META_READDIR || meta_makes(op))
		return false;
	return !names[FIRST] && !(meta_takes_other(op) && names[OTHER]);
}

/* By handle also what has its other name alone. */
static bool may_succeed(enum meta_op op, const object_t *names)
{
	return op == META_READDIR || names[FIRST] || (meta_by_handle(op) && names[OTHER]);
}

/* A removal that finds its first name gone, by itself or not, takes the other. */
static bool may_remove_both(const struct meta_one *one)
{
	return meta_removes(one->op) && one->before.names[FIRST] && one->before.names[OTHER];
}

static bool is_allowed(const struct meta_one *one, int error)
{
	const object_t *names = one->before.names;
	uint64_t changes = namespace[one->entry].changes - one->before.changes;
	bool twice = one->troubles != troubles();

	if (error)
		return !changes && may_fail(one->op, names, error);
	if (!changes_names(one->op))
		return !changes && may_succeed(one->op, names);
	return changes == 1 || (twice && !changes && was_so(one->op, names)) ||
	       (twice && changes == 2 && may_remove_both(one));
}

static void ended(uint32_t number, const struct io_u *io_u)
{
	const struct meta_one *one = &metadata.ios[number];
	int error = (int)io_u->error;

	world_tell("job: %s of entry %u: %s", meta_name(one->op), one->entry, strerror(error));
	metadata.busy[one->entry] = false;
	metadata.changes[one->entry] = namespace[one->entry].changes;
	if (sim_job.td.terminate || (error == ETIMEDOUT && sim_job.terms.soft) ||
	    (error == EIO && sim_job.changes))
		metadata.unknown[one->entry] = true;
	else if (!metadata.unknown[one->entry] && !is_allowed(one, error))
		world_violated("%s of entry %u, which had %s name and %s: %s, carried out %d times",
			       meta_name(one->op), one->entry,
			       one->before.names[FIRST] ? "its" : "no",
			       one->before.names[OTHER] ? "the other" : "no other", strerror(error),
			       (int)(namespace[one->entry].changes - one->before.changes));
	else if (error && error != EEXIST && error != ENOENT)
		world_violated("%s failed: %s", meta_name(one->op), strerror(error));
}

const struct workload metadata_workload = {begin, choose, ended, NULL};
