/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfs4.c - the input's first byte says how many operations a compound has, and a byte for each
 * which ones; the rest is its reply.
 */
#include "fuzz.h"
#include "nfs/nfs4_meta.h"
#include "nfs/status.h"
#include "page.h"
#include "util.h"

union body {
	uint8_t bytes[1];
	struct nfs4_sequence_result sequence;
	struct nfs_handle handle;
	struct nfs4_attributes attributes;
	struct io_result data;
	struct nfs4_open_result open;
	struct nfs4_exchange_result exchange;
	struct nfs4_session_result session;
	struct flavors flavors;
	struct readdir_page page;
	uint32_t access;
};

enum { OPERATIONS_MAX = 7 };

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

/* Whose results somebody wants. */
static bool has_body(enum nfs4_operation operation)
{
	switch (operation) {
	case NFS4_SEQUENCE:
	case NFS4_GETFH:
	case NFS4_GETATTR:
	case NFS4_READ:
	case NFS4_WRITE:
	case NFS4_COMMIT:
	case NFS4_OPEN:
	case NFS4_EXCHANGE_ID:
	case NFS4_CREATE_SESSION:
	case NFS4_SECINFO:
	case NFS4_ACCESS:
	case NFS4_READDIR: return true;
	default: return false;
	}
}

/* Reads a body; the bytes of its structure. */
static size_t get_body(struct nfs4_results *results, enum nfs4_operation operation,
		       union body *body)
{
	switch (operation) {
	case NFS4_SEQUENCE:
		nfs4_get_sequence(results, &body->sequence);
		return sizeof(body->sequence);
	case NFS4_GETFH: nfs4_get_handle(results, &body->handle); return sizeof(body->handle);
	case NFS4_GETATTR:
		nfs4_get_attributes(results, &body->attributes);
		return sizeof(body->attributes);
	case NFS4_READ: nfs4_get_read(results, &body->data); return sizeof(body->data);
	case NFS4_WRITE: nfs4_get_write(results, &body->data); return sizeof(body->data);
	case NFS4_COMMIT: nfs4_get_commit(results, &body->data); return sizeof(body->data);
	case NFS4_OPEN: nfs4_get_open(results, &body->open); return sizeof(body->open);
	case NFS4_EXCHANGE_ID:
		nfs4_get_exchange_id(results, &body->exchange);
		return sizeof(body->exchange);
	case NFS4_CREATE_SESSION:
		nfs4_get_create_session(results, &body->session);
		return sizeof(body->session);
	case NFS4_SECINFO: nfs4_get_secinfo(results, &body->flavors); return sizeof(body->flavors);
	case NFS4_READDIR: nfs4_get_readdir(results, &body->page); return sizeof(body->page);
	case NFS4_ACCESS: body->access = nfs4_get_access(results); return sizeof(body->access);
	default: return 0;
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
		expect(body->exchange.server.major_length <= NFS4_OPAQUE_MAX);
		expect(body->exchange.server.scope_length <= NFS4_OPAQUE_MAX);
		break;
	case NFS4_READDIR: expect_page(&body->page); break;
	case NFS4_CREATE_SESSION: expect(body->session.fore.slots); break;
	default: break;
	}
}

static void expect_zeros(const union body *body, size_t size)
{
	for (size_t i = 0; i < size; i++)
		expect(!body->bytes[i]);
}

/* False where nothing follows. */
static bool read_result(struct nfs4_results *results, enum nfs4_operation operation)
{
	union body body;
	uint32_t status = has_body(operation) ? nfs4_next_result(results, operation)
					      : nfs4_skip_result(results, operation);
	size_t size;

	if (status) {
		/* SETATTR has a body whatever its status is. */
		expect(operation == NFS4_SETATTR ||
		       (nfs4_results_sound(results) && !results->in->bad));
		expect(nfs4_errno(status) > 0);
		expect(*nfs4_status_name(status));
		return false;
	}
	memset(&body, 0xa5, sizeof(body));
	size = get_body(results, operation, &body);
	if (results->broken || results->in->bad)
		expect_zeros(&body, size);
	else
		check_body(operation, &body);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t count = size ? *data % (OPERATIONS_MAX + 1) : 0;
	struct xdr_in in = {data + 1 + count, data + size, false};
	struct nfs4_results results;

	if (size < 1 + count)
		return 0;
	nfs4_read_results(&results, &in);
	for (size_t i = 0; i < count; i++)
		if (!read_result(&results, operations[data[1 + i] % ARRAY_SIZE(operations)]))
			break;
	expect(in.at <= in.end);
	return 0;
}
