/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs.c - the input is results of NFSv3, whose first byte chooses the procedure; or of a compound
 * of NFSv4.1: the first byte says how many operations it has, and a byte for each which ones.
 */
#include <string.h>

#include "fuzz.h"
#include "nfs/nfs3.h"
#include "nfs/nfs4_meta.h"
#include "nfs/readdir.h"
#include "nfs/status.h"

/* What is read again of a directory's page is what was counted. */
static void expect_page(const struct readdir_page *page)
{
	struct xdr_in in = {page->entries, page->end, false};
	struct readdir_entry entry = {0};
	uint32_t count = 0;

	while (readdir_next(&in, page, &entry)) {
		expect(entry.length && entry.length <= READDIR_NAME_MAX);
		count++;
	}
	expect(count == page->count && entry.cookie == page->cookie && !in.bad);
}

/* --- NFSv3 --- */

static void read_data(struct xdr_in *in, enum nfs3_procedure procedure)
{
	struct io_result result;
	uint32_t status = nfs3_decode(in, procedure, &result);

	if (in->bad)
		return;
	expect(!status == !nfs3_status(status)->error);
	expect(status || result.committed <= IO_FILE_SYNC);
	expect(*nfs3_status(status)->name);
}

static void read_metadata(struct xdr_in *in, enum meta_op op)
{
	struct meta_result result;

	nfs3_decode_meta(in, op, &result);
	if (in->bad)
		return;
	expect(result.found.length <= NFS3_FHSIZE);
	if (result.page.entries)
		expect_page(&result.page);
	expect(!result.found.length || op == META_LOOKUP || meta_makes(op));
}

void fuzz_nfs3(struct input *input)
{
	static const enum nfs3_procedure data[] = {NFS3_READ, NFS3_WRITE, NFS3_COMMIT};
	size_t choice = take_byte(input) % (ARRAY_SIZE(data) + META_FSSTAT + 1);
	struct xdr_in in = {input->at, input->end, false};

	if (choice < ARRAY_SIZE(data))
		read_data(&in, data[choice]);
	else
		read_metadata(&in, choice - ARRAY_SIZE(data));
}

/* --- NFSv4.1 --- */

static const enum nfs4_operation operations[] = {
	NFS4_SEQUENCE,	     NFS4_PUTFH,
	NFS4_READ,	     NFS4_WRITE,
	NFS4_COMMIT,	     NFS4_GETFH,
	NFS4_GETATTR,	     NFS4_OPEN,
	NFS4_CLOSE,	     NFS4_CREATE,
	NFS4_REMOVE,	     NFS4_EXCHANGE_ID,
	NFS4_CREATE_SESSION, NFS4_BIND_CONN_TO_SESSION,
	NFS4_LOOKUP,	     NFS4_ACCESS,
	NFS4_SAVEFH,	     NFS4_RENAME,
	NFS4_SETATTR,	     NFS4_READDIR,
	NFS4_LINK,	     NFS4_SECINFO,
};

union body {
	struct nfs4_sequence_result sequence;
	struct nfs_handle handle;
	struct meta_attributes attributes;
	struct io_result data;
	struct nfs4_open_result open;
	struct nfs4_exchange_result exchange_id;
	struct nfs4_session_result create_session;
	struct flavors secinfo;
	struct readdir_page readdir;
};

/* Reads what somebody wants of a result. */
static void get_body(struct xdr_in *in, enum nfs4_operation operation, union body *body)
{
	switch (operation) {
	case NFS4_SEQUENCE: nfs4_get_sequence(in, &body->sequence); break;
	case NFS4_GETFH: nfs_handle_get(in, NFS4_FHSIZE, &body->handle); break;
	case NFS4_GETATTR: nfs4_get_attributes(in, &body->attributes); break;
	case NFS4_READ: nfs4_get_read(in, &body->data); break;
	case NFS4_WRITE: io_result_get_write(in, &body->data); break;
	case NFS4_COMMIT: io_result_get_commit(in, &body->data); break;
	case NFS4_OPEN: nfs4_get_open(in, &body->open); break;
	case NFS4_EXCHANGE_ID: nfs4_get_exchange_id(in, &body->exchange_id); break;
	case NFS4_CREATE_SESSION: nfs4_get_create_session(in, &body->create_session); break;
	case NFS4_SECINFO: nfs4_get_secinfo(in, &body->secinfo); break;
	case NFS4_READDIR: readdir_decode(in, true, &body->readdir); break;
	case NFS4_ACCESS: nfs4_get_access(in); break;
	default: break;
	}
}

/* What callers rely on without a look of their own. */
static void check_body(enum nfs4_operation operation, const union body *body)
{
	switch (operation) {
	case NFS4_GETFH: expect(body->handle.length && body->handle.length <= NFS4_FHSIZE); break;
	case NFS4_GETATTR: expect(body->attributes.kind.type); break;
	case NFS4_WRITE: expect(body->data.committed <= IO_FILE_SYNC); break;
	case NFS4_EXCHANGE_ID:
		expect(body->exchange_id.server.major_length <= NFS4_OPAQUE_MAX);
		expect(body->exchange_id.server.scope_length <= NFS4_OPAQUE_MAX);
		break;
	case NFS4_READDIR: expect_page(&body->readdir); break;
	case NFS4_CREATE_SESSION: expect(body->create_session.fore.slots); break;
	default: break;
	}
}

/* False where nothing follows. Skipping reads the status alone of what has a body. */
static bool read_result(struct nfs4_results *results, enum nfs4_operation operation)
{
	uint32_t status = nfs4_skip_result(results, operation);
	union body body;

	if (status) {
		/* SETATTR has a body whatever its status is. */
		expect(operation == NFS4_SETATTR || (!results->left && !results->in->bad));
		expect(nfs4_status(status)->error > 0);
		expect(*nfs4_status(status)->name);
		return false;
	}
	get_body(results->in, operation, &body);
	if (!results->in->bad)
		check_body(operation, &body);
	return true;
}

void fuzz_nfs4(struct input *input)
{
	enum { OPERATIONS_MAX = 7 };
	struct iovec chosen = take(input, take_byte(input) % (OPERATIONS_MAX + 1));
	const uint8_t *choices = chosen.iov_base;
	struct xdr_in in = {input->at, input->end, false};
	struct nfs4_results results;

	nfs4_read_results(&results, &in);
	for (size_t i = 0; i < chosen.iov_len; i++)
		if (!read_result(&results, operations[choices[i] % ARRAY_SIZE(operations)]))
			break;
	expect(in.at <= in.end);
}
