/* SPDX-License-Identifier: GPL-2.0-only */
#include "service.h"

#include <time.h>
#include <unistd.h>

#include "core/clients.h"
#include "core/files.h"
#include "core/call.h"
#include "nfs/nfs3.h"
#include "nfs/nfs4.h"
#include "util.h"

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
		call->front->counts->nfs4[operation]++;
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
		call->front->counts->mount[procedure]++;
	return ACCEPT_SUCCESS;
}

static enum accept_stat answer_nfs3(struct nfs_call *call, uint32_t procedure)
{
	if (!serve_nfs3(call, procedure))
		return ACCEPT_PROC_UNAVAIL;
	if (!call->in->bad)
		call->front->counts->nfs[procedure]++;
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
