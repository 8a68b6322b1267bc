/* SPDX-License-Identifier: GPL-2.0-only */
#include "sink.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/clients.h"
#include "core/files.h"
#include "nfs/nfs3.h"
#include "nfs/nfs4.h"
#include "util.h"

/*
 * --- files (core/files.h), which exist in name only: a name, a kind and a size. Their
 * data is nowhere ---
 *
 * Any name that is looked up exists, so that read jobs need no layout; a handle that was not made
 * here stands for a file that is there from the start, so that clients without MOUNT and LOOKUP are
 * served too. The export is the root, and "export" in the root. Safe for use by several threads.
 */

enum { SINK_MAGIC = 0x73696e6b }; /* in handles */
enum { FILES_MAX = 4096, ROOT = 0, ANY = 1 };
enum { HANDLE_BYTES = 32, HANDLE_WORDS = HANDLE_BYTES / 4 };

static const uint64_t WRITE_VERIFIER = 0x6e66732d73696e6b;
#define LOOKED_UP_SIZE (1ull << 40) /* of a file that was not created */

struct file {
	_Atomic uint64_t size;
	uint32_t parent;
	bool is_directory;
	bool removed; /* its number is not given out again */
	uint8_t length;
	char name[FILE_NAME_MAX];
};

static struct file files[FILES_MAX] = {
	[ROOT] = {.is_directory = true},
	[ANY] = {.size = LOOKED_UP_SIZE},
};
static _Atomic uint32_t file_count = ANY + 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* --- handles and attributes --- */

uint32_t files_find(const uint8_t *handle, uint32_t length, uint64_t *file)
{
	uint32_t words[2];

	*file = ANY;
	if (length != HANDLE_BYTES)
		return 0;
	memcpy(words, handle, sizeof(words));
	if (words[0] == htobe32(SINK_MAGIC))
		*file = be32toh(words[1]);
	return *file < file_count ? 0 : STATUS_STALE;
}

void files_put_handle(struct xdr_out *out, uint64_t file)
{
	const uint32_t words[HANDLE_WORDS] = {htobe32(SINK_MAGIC), htobe32((uint32_t)file)};

	xdr_put_opaque(out, words, sizeof(words));
}

struct file_attributes files_attributes(uint64_t file)
{
	enum { DIRECTORY_SIZE = 4096 };

	if (files[file].is_directory)
		return (struct file_attributes){.type = FILE_DIRECTORY, .size = DIRECTORY_SIZE};
	return (struct file_attributes){
		.type = FILE_REGULAR,
		.size = atomic_load_explicit(&files[file].size, memory_order_relaxed)};
}

void files_set_size(uint64_t file, uint64_t size)
{
	atomic_store_explicit(&files[file].size, size, memory_order_relaxed);
}

/* --- names --- */

static uint64_t find(uint64_t directory, struct name name)
{
	for (uint32_t i = ANY + 1; i < file_count; i++)
		if (!files[i].removed && files[i].parent == directory &&
		    files[i].length == name.length &&
		    !memcmp(files[i].name, name.bytes, name.length))
			return i;
	return ROOT;
}

static uint32_t add(uint64_t directory, struct name name, bool is_directory, uint64_t size,
		    uint64_t *file)
{
	uint32_t number = file_count;

	if (number == FILES_MAX)
		return STATUS_NOSPC;
	files[number].parent = (uint32_t)directory;
	files[number].is_directory = is_directory;
	files[number].length = (uint8_t)name.length;
	memcpy(files[number].name, name.bytes, name.length);
	files[number].size = size;
	file_count = number + 1;
	*file = number;
	return 0;
}

static bool is(struct name name, const char *text)
{
	return name.length == strlen(text) && !memcmp(name.bytes, text, name.length);
}

uint32_t files_lookup(uint64_t directory, struct name name, uint64_t *file)
{
	uint32_t status = 0;

	*file = directory;
	if (is(name, ".") || (directory == ROOT && is(name, "export")))
		return 0;
	pthread_mutex_lock(&lock);
	*file = find(directory, name);
	if (!*file)
		status = add(directory, name, false, LOOKED_UP_SIZE, file);
	pthread_mutex_unlock(&lock);
	return status;
}

uint32_t files_make(uint64_t directory, struct name name, enum file_type type, bool guarded,
		    uint64_t *file)
{
	uint32_t status;

	if (type == FILE_SYMLINK)
		return STATUS_NOTSUPP;
	pthread_mutex_lock(&lock);
	*file = find(directory, name);
	if (*file)
		status = guarded ? STATUS_EXIST : 0;
	else
		status = add(directory, name, type == FILE_DIRECTORY, 0, file);
	pthread_mutex_unlock(&lock);
	return status;
}

uint32_t files_remove(uint64_t directory, struct name name)
{
	uint64_t file;

	pthread_mutex_lock(&lock);
	file = find(directory, name);
	if (file)
		files[file].removed = true;
	pthread_mutex_unlock(&lock);
	return 0;
}

uint32_t files_rename(uint64_t from, struct name name, uint64_t to, struct name other)
{
	return STATUS_NOTSUPP;
}

uint32_t files_link(uint64_t file, uint64_t directory, struct name name)
{
	return STATUS_NOTSUPP;
}

uint32_t files_list(uint64_t directory, uint64_t first, struct name_page *page)
{
	return STATUS_NOTSUPP;
}

/* --- data --- */

uint32_t files_read(struct front *front, uint64_t file, struct transfer *read)
{
	uint64_t size = files_attributes(file).size;
	uint64_t rest = read->offset < size ? size - read->offset : 0;
	uint32_t most = min_of(read->length, front->limits.read_max);

	read->length = (uint32_t)min_of(rest, (uint64_t)most);
	read->end = read->length == rest;
	front->counts.read_bytes += read->length;
	return 0;
}

/* The stability asked for is the one promised. */
uint32_t files_write(struct front *front, uint64_t file, struct transfer *write)
{
	uint64_t end = write->offset + write->length, size = files[file].size;

	while (size < end && !atomic_compare_exchange_weak(&files[file].size, &size, end))
		;
	front->counts.write_bytes += write->length;
	write->verifier = WRITE_VERIFIER;
	return 0;
}

uint32_t files_commit(struct front *front, uint64_t file, struct transfer *commit)
{
	commit->verifier = WRITE_VERIFIER;
	return 0;
}

/* --- calls --- */

enum { PROGRAM_MOUNT = 100005 };

static struct clients clients;

/* Replies are not kept: a call that comes again is told so. No open is kept. */
bool service_init(const char *name)
{
	enum { SESSIONS = 32768, SLOTS = 1024 };
	static const struct clients_terms terms = {.spans = true, .slots = SLOTS};
	struct timespec now;

	if (!clients_init(&clients, SESSIONS, SLOTS))
		return false;
	clock_gettime(CLOCK_REALTIME, &now);
	clients.instance = (uint32_t)(now.tv_sec * SEC + now.tv_nsec) ^ (uint32_t)getpid() << 16;
	clients.terms = &terms;
	clients.name = name;
	return true;
}

uint32_t front_begin(struct nfs_call *call, enum nfs4_operation operation, uint64_t file)
{
	return NFS4_OK;
}

uint32_t front_end(struct nfs_call *call, enum nfs4_operation operation, uint32_t status)
{
	if (!status)
		call->front->counts.nfs4[operation]++;
	return status;
}

uint32_t front_take_slot(struct nfs_call *call, struct session *session, struct slot *slot)
{
	return NFS4_OK;
}

void front_uses(struct nfs_call *call, struct client *client)
{
}

enum mount_procedure { MOUNT_NULL = 0, MOUNT_MNT = 1, MOUNT_UMNT = 3, MOUNT_EXPORT = 5 };

static void do_mount(struct xdr_in *in, struct xdr_out *out)
{
	enum { AUTH_SYS = 1 };

	xdr_skip(in, xdr_get_u32(in)); /* any path is exported */
	xdr_put_u32(out, 0);
	files_put_handle(out, 0);
	xdr_put_u32(out, 1); /* flavors */
	xdr_put_u32(out, AUTH_SYS);
}

static enum accept_stat answer_mount(const struct nfs_call *call, uint32_t procedure)
{
	switch ((enum mount_procedure)procedure) {
	case MOUNT_NULL: break;
	case MOUNT_MNT: do_mount(call->in, call->out); break;
	case MOUNT_UMNT: xdr_skip(call->in, xdr_get_u32(call->in)); break;
	case MOUNT_EXPORT: xdr_put_u32(call->out, false); break; /* the list ends */
	default: return ACCEPT_PROC_UNAVAIL;
	}
	if (!call->in->bad)
		call->front->counts.mount[procedure]++;
	return ACCEPT_SUCCESS;
}

static enum accept_stat answer_nfs3(struct nfs_call *call, uint32_t procedure)
{
	if (!serve_nfs3(call, procedure))
		return ACCEPT_PROC_UNAVAIL;
	if (!call->in->bad)
		call->front->counts.nfs[procedure]++;
	return ACCEPT_SUCCESS;
}

static enum accept_stat answer_nfs4(struct nfs_call *call, uint32_t procedure, bool whole)
{
	call->clients = &clients;
	if (procedure == NFS4_COMPOUND)
		serve_nfs4(call, whole);
	return procedure <= NFS4_COMPOUND ? ACCEPT_SUCCESS : ACCEPT_PROC_UNAVAIL;
}

/* Other than ACCEPT_SUCCESS only where nothing was written. */
static enum accept_stat serve(struct nfs_call *call, const struct rpc_call *rpc, bool whole)
{
	if (rpc->program != NFS_PROGRAM && rpc->program != PROGRAM_MOUNT)
		return ACCEPT_PROG_UNAVAIL;
	if (rpc->program == NFS_PROGRAM && rpc->version == NFS_V4)
		return answer_nfs4(call, rpc->procedure, whole);
	if (rpc->version != NFS_V3)
		return ACCEPT_PROG_MISMATCH;
	if (rpc->program == NFS_PROGRAM)
		return answer_nfs3(call, rpc->procedure);
	return answer_mount(call, rpc->procedure);
}

bool service_answer(struct front *front, struct xdr_in *in, bool whole, struct xdr_out *head,
		    uint32_t *data)
{
	struct nfs_call call = {.front = front, .limits = &front->limits, .in = in, .out = head};
	const struct xdr_out start = *head;
	struct rpc_call rpc;
	enum accept_stat status;

	if (!rpc_get_call(in, &rpc))
		return false;
	rpc_skip_credentials(in);
	rpc_put_accepted(head, rpc.xid, ACCEPT_SUCCESS);
	status = serve(&call, &rpc, whole);
	*data = call.data_length;
	if (status == ACCEPT_SUCCESS)
		return true;
	*head = start;
	rpc_put_accepted(head, rpc.xid, status);
	if (status == ACCEPT_PROG_MISMATCH) {
		xdr_put_u32(head, NFS_V3);
		xdr_put_u32(head, rpc.program == NFS_PROGRAM ? NFS_V4 : NFS_V3);
	}
	return true;
}
