/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/nfs4_template.h"

/* Where a call's own values lie: behind the compound's head, and before its end. */
enum {
	SESSION_AT = 4 * sizeof(uint32_t), /* tag, minor version, operations, SEQUENCE */
	NUMBERS_AT = SESSION_AT + NFS4_SESSIONID,
	READ_TAIL = sizeof(uint64_t) + sizeof(uint32_t),      /* offset, count */
	WRITE_TAIL = sizeof(uint64_t) + 2 * sizeof(uint32_t), /* offset, stable, length */
};

void nfs4_template_make(struct nfs4_template *template, enum nfs4_operation operation,
			uint32_t minor, const struct nfs_handle *handle,
			const struct nfs4_stateid *stateid)
{
	static const struct nfs4_sequence none = {.cache = false};
	struct xdr_out out = {template->bytes, template->bytes + sizeof(template->bytes), false};
	struct nfs4_compound compound;

	nfs4_begin(&compound, &out, minor);
	nfs4_put_sequence(&compound, &none);
	nfs4_put_handle(&compound, handle);
	switch (operation) {
	case NFS4_READ: nfs4_put_read(&compound, stateid, 0, 0); break;
	case NFS4_WRITE: nfs4_put_write(&compound, stateid, 0, 0, 0); break;
	default: nfs4_put_commit(&compound); break;
	}
	template->operation = operation;
	template->length = out.at - template->bytes;
}

static void store_sequence(uint8_t *call, const struct nfs4_sequence *sequence)
{
	const uint32_t numbers[] = {htobe32(sequence->sequence), htobe32(sequence->slot),
				    htobe32(sequence->highest_slot)};

	memcpy(call + SESSION_AT, sequence->session, sizeof(sequence->session));
	memcpy(call + NUMBERS_AT, numbers, sizeof(numbers));
}

/* It lies before the `tail` bytes at the end. */
static void store_stateid(uint8_t *end, size_t tail, const uint8_t *stateid)
{
	if (stateid)
		memcpy(end - tail - NFS4_STATEID, stateid, NFS4_STATEID);
}

void nfs4_template_put(const struct nfs4_template *template, struct xdr_out *out,
		       const struct nfs4_sequence *sequence, const struct nfs4_range *range)
{
	const uint32_t high = htobe32(range->offset >> 32);
	const uint32_t low = htobe32((uint32_t)range->offset);
	const uint32_t length = htobe32(range->length);
	uint8_t *call = xdr_room(out, template->length), *end = out->at;

	if (!call)
		return;
	memcpy(call, template->bytes, template->length);
	store_sequence(call, sequence);
	if (template->operation == NFS4_READ) {
		const uint32_t tail[] = {high, low, length};

		memcpy(end - READ_TAIL, tail, READ_TAIL);
		store_stateid(end, READ_TAIL, range->stateid);
	} else if (template->operation == NFS4_WRITE) {
		const uint32_t tail[] = {high, low, htobe32(range->stable), length};

		memcpy(end - WRITE_TAIL, tail, WRITE_TAIL);
		store_stateid(end, WRITE_TAIL, range->stateid);
	}
}
