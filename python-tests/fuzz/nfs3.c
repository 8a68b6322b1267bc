/* SPDX-License-Identifier: GPL-2.0-only */
/* nfs3.c - the input's first byte chooses a procedure; the rest are its results. */
#include "fuzz.h"
#include "nfs/nfs3.h"
#include "nfs/status.h"
#include "util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum nfs3_procedure procedures[] = {NFS3_READ, NFS3_WRITE, NFS3_COMMIT};
	struct xdr_in in = {data, data + size, false};
	struct nfs3_result result;
	size_t choice;

	if (!size)
		return 0;
	choice = *data % ARRAY_SIZE(procedures);
	in.at++;
	if (nfs3_decode(&in, procedures[choice], &result) && !in.bad) {
		expect(!result.status == !nfs3_errno(result.status));
		expect(result.committed <= NFS3_FILE_SYNC);
		expect(*nfs3_status_name(result.status));
	}
	return 0;
}
