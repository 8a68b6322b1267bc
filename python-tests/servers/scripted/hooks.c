/* SPDX-License-Identifier: GPL-2.0-only */
#include "scripted/hooks.h"

#include <stdlib.h>

#include "nfs/nfs3.h"

enum { SESSIONS = 256, SLOTS = 64 };

struct hooked_server {
	struct clients clients;
	struct clients_terms terms;
	char name[64];
};

struct front {
	struct asked *asked;
	struct xdr_in *in;
	struct slot *taken; /* by this call, or NULL */
	struct slot before; /* what it was then */
	bool begun;	    /* the operation under way is Python's, too */
	bool unheard;
	bool failed; /* what has ended */
};

int32_t (*hooks_begin)(uint32_t operation);
uint32_t (*hooks_end)(void);
uint32_t (*hooks_tell)(uint64_t file, uint8_t *handle);
uint32_t (*hooks_write)(uint64_t file, struct transfer *write, const uint8_t *data);

/* --- a server --- */

struct hooked_server *hooks_new(const char *name, uint32_t instance, bool delegates, uint32_t slots)
{
	struct hooked_server *server = calloc(1, sizeof(*server));
	struct clients *clients = &server->clients;

	if (!server || !clients_init(clients, SESSIONS, SLOTS))
		abort();
	strncpy(server->name, name, sizeof(server->name) - 1);
	server->terms =
		(struct clients_terms){.thrifty = true, .delegates = delegates, .slots = slots};
	clients->terms = &server->terms;
	clients->name = server->name;
	clients->instance = instance;
	clients->keeps = clients->joins = true;
	clients->grace = 1; /* of a clock that stands still: for as long as a client likes */
	return server;
}

void hooks_free(struct hooked_server *server)
{
	struct session *sessions = server->clients.sessions;

	for (uint32_t i = 0; i < SESSIONS * SLOTS; i++)
		free(sessions->slot[i].results);
	free(sessions->slot);
	free(sessions);
	free(server);
}

/* --- operations --- */

uint32_t front_begin(struct nfs_call *call)
{
	struct front *front = call->front;
	struct asked *asked = front->asked;
	const uint32_t number = asked->operation.number;
	int32_t status;

	asked->written = (uint32_t)(call->out->at - asked->results);
	asked->begun = asked->written - (number ? sizeof(uint32_t) : 0); /* NULL has none */
	front->begun = true;
	status = hooks_begin(number);
	if (status == HOOKS_UNHEARD) { /* nor has SEQUENCE come */
		if (front->taken)
			*front->taken = front->before;
		call->slot = NULL;
		front->unheard = true;
		return STATUS_DELAY; /* which is not sent */
	}
	/* A CREATE_SESSION that fails uses up its sequence number, with two exceptions. */
	if (number == NFS4_CREATE_SESSION && status && status != NFS4ERR_DELAY &&
	    status != NFS4ERR_STALE_CLIENTID)
		clients_refuse_session(call, asked->operation.client);
	return (uint32_t)status;
}

uint32_t front_end(struct nfs_call *call, uint32_t status)
{
	struct front *front = call->front;
	struct asked *asked = front->asked;

	front->failed = status;
	asked->written = (uint32_t)(call->out->at - asked->results);
	if (!front->begun || front->unheard) /* it could not be where it is, or was not heard */
		return status;
	asked->replaced = front->begun = false;
	status = hooks_end();
	if (asked->replaced)
		call->data = NULL;
	call->out->at = asked->results + asked->written;
	return status;
}

/* Slots beyond the target are dropped once a client that knows it uses none of them. */
static void retarget(struct session *session, struct slot *slot, uint32_t target, uint32_t highest)
{
	const uint32_t slots = session->slots;

	if (target > slots || (slot->told == target && highest < slot->told))
		session->slots = target;
	for (uint32_t i = session->slots; i < slots; i++)
		session->slot[i] = (struct slot){.results = session->slot[i].results};
	session->target = slot->told = target;
}

uint32_t front_take_slot(struct nfs_call *call, struct session *session, struct slot *slot)
{
	call->front->taken = slot;
	call->front->before = *slot;
	retarget(session, slot, call->limits->target ?: session->granted, call->asked->highest);
	return NFS4_OK;
}

void front_uses(struct nfs_call *call, struct client *client)
{
}

bool hooks_answer(struct hooked_server *server, const struct limits *limits, struct asked *asked)
{
	struct xdr_in in = {asked->arguments, asked->arguments + asked->length, false};
	struct front front = {.asked = asked, .in = &in};
	struct xdr_out out = {asked->results, asked->results + asked->room, false};
	struct nfs_call call = {.front = &front,
				.limits = limits,
				.asked = &asked->operation,
				.in = &in,
				.out = &out,
				.clients = &server->clients,
				.call_header = asked->header,
				.reply_header = RPC_ACCEPTED,
				.connection = asked->connection,
				.address = asked->address};
	bool whole = true; /* all of the arguments are read */

	asked->operation = (struct arguments){0};
	if (asked->version == NFS_V4)
		serve_nfs4(&call, true);
	else
		whole = !serve_nfs3(&call, asked->procedure) || front.failed || in.at == in.end;
	if (call.data)
		xdr_put_fixed(&out, call.data, call.data_length);
	asked->written = (uint32_t)(out.at - asked->results);
	if (call.slot)
		clients_end_reply(call.slot,
				  clients_begin_reply(call.clients, call.slot, asked->results,
						      asked->written),
				  true);
	return front.unheard || (!in.bad && whole);
}

/* --- files (core/files.h) --- */

__typeof__(files_find) files_find;
__typeof__(files_attributes) files_attributes;
__typeof__(files_set_size) files_set_size;
__typeof__(files_lookup) files_lookup;
__typeof__(files_make) files_make;
__typeof__(files_remove) files_remove;
__typeof__(files_rename) files_rename;
__typeof__(files_link) files_link;
__typeof__(files_list) files_list;
__typeof__(files_read) files_read;
__typeof__(files_commit) files_commit;

void files_put_handle(struct xdr_out *out, uint64_t file)
{
	uint8_t handle[NFS4_FHSIZE];
	uint32_t length = hooks_tell(file, handle);

	xdr_put_opaque(out, handle, length);
}

uint32_t files_write(struct front *front, uint64_t file, struct transfer *write)
{
	const uint8_t *data = xdr_skip(front->in, write->length);

	return data ? hooks_write(file, write, data) : 0;
}
