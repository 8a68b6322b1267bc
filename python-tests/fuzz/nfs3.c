/* SPDX-License-Identifier: GPL-2.0-only */
/* nfs3.c - the input's first byte chooses a procedure, of data or names; the rest are its results.
 */
#include "fuzz.h"
#include "nfs/nfs3.h"
#include "nfs/nfs3_names.h"
#include "nfs/status.h"
#include "util.h"

static void read_names(struct xdr_in *in, enum nfs3_name_procedure procedure)
{
	struct nfs3_name_result result;

	if (!nfs3_decode_name(in, procedure, &result))
		return;
	expect(!in->bad);
	expect(result.handle.length <= NFS3_FHSIZE);
	expect(result.status || procedure != NFS3_LOOKUP || result.handle.length);
	expect(result.status || procedure != NFS3_GETATTR || result.attributed);
	expect(*nfs3_name_procedure_name(procedure));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum nfs3_procedure procedures[] = {NFS3_READ, NFS3_WRITE, NFS3_COMMIT};
	static const enum nfs3_name_procedure names[] = {NFS3_GETATTR, NFS3_LOOKUP, NFS3_CREATE,
							 NFS3_MKDIR,   NFS3_REMOVE, NFS3_FSINFO};
	struct xdr_in in = {data, data + size, false};
	struct nfs3_result result;
	size_t choice;

	if (!size)
		return 0;
	choice = *data % (ARRAY_SIZE(procedures) + ARRAY_SIZE(names));
	in.at++;
	if (choice >= ARRAY_SIZE(procedures)) {
		read_names(&in, names[choice - ARRAY_SIZE(procedures)]);
		return 0;
	}
	if (nfs3_decode(&in, procedures[choice], &result) && !in.bad) {
		expect(!result.status == !nfs3_errno(result.status));
		expect(result.committed <= NFS3_FILE_SYNC);
		expect(*nfs3_status_name(result.status));
	}
	return 0;
}
