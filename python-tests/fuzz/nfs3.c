/* SPDX-License-Identifier: GPL-2.0-only */
/* nfs3.c - the input's first byte chooses a procedure; the rest are its results. */
#include "fuzz.h"
#include "nfs/nfs3.h"
#include "nfs/status.h"
#include "page.h"
#include "util.h"

static const enum nfs3_procedure PROCEDURES[] = {NFS3_READ, NFS3_WRITE, NFS3_COMMIT};

static void data(struct xdr_in *in, enum nfs3_procedure procedure)
{
	struct io_result result;
	uint32_t status;

	if (!nfs3_decode(in, procedure, &status, &result) || in->bad)
		return;
	expect(!status == !nfs3_errno(status));
	expect(result.committed <= IO_FILE_SYNC);
	expect(*nfs3_status_name(status));
}

static void metadata(struct xdr_in *in, enum meta_op op)
{
	struct meta_result result;
	uint32_t status;

	if (!nfs3_decode_meta(in, op, &status, &result) || in->bad)
		return;
	expect(result.found.length <= NFS3_FHSIZE);
	if (result.page.entries)
		expect_page(&result.page);
	expect(!result.found.length || op == META_LOOKUP || meta_makes(op));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	struct xdr_in in;
	size_t choice;

	if (!size)
		return 0;
	in = (struct xdr_in){input + 1, input + size, false};
	choice = *input % (ARRAY_SIZE(PROCEDURES) + META_FSSTAT + 1);
	if (choice < ARRAY_SIZE(PROCEDURES))
		data(&in, PROCEDURES[choice]);
	else
		metadata(&in, choice - ARRAY_SIZE(PROCEDURES));
	return 0;
}
