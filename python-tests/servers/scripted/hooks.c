/* SPDX-License-Identifier: GPL-2.0-only */
#include "scripted/hooks.h"

#include <stdlib.h>

#include "core/call.h"

enum { SESSIONS = 256, SLOTS = 64 };

struct hooked_server {
	struct clients clients;
	struct clients_terms terms;
	char name[64];
};

struct front {
	const struct hooks *hooks;
	struct asked *asked;
	struct xdr_in *in;
	struct slot *taken; /* by this call, or NULL */
	struct slot before; /* what it was then */
	bool unheard;
};

static _Thread_local struct front *now;

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

void hooks_restart(struct hooked_server *server)
{
	clients_restart(&server->clients);
}

void hooks_end_sessions(struct hooked_server *server)
{
	clients_forget_sessions(&server->clients);
}

void hooks_drop_session(struct hooked_server *server)
{
	struct clients *clients = &server->clients;

	for (uint32_t i = 0; i < SESSIONS; i++)
		if (clients->sessions[i].number == clients->sessions_made)
			clients->sessions[i].number = 0;
}

void hooks_kept(const struct hooked_server *server, uint32_t kept[4])
{
	const struct clients_kept all = clients_kept(&server->clients);

	memcpy(kept, &all, sizeof(all));
}

/* --- operations --- */

uint32_t front_begin(struct nfs_call *call, enum nfs4_operation operation, uint64_t file)
{
	struct front *front = call->front;
	struct asked *asked = front->asked;
	int32_t status;

	asked->read = (uint32_t)(call->in->at - asked->arguments);
	asked->written = (uint32_t)(call->out->at - asked->results);
	asked->begun = asked->written - sizeof(uint32_t);
	status = front->hooks->begin(operation, file);
	if (status == HOOKS_UNHEARD) { /* nor has SEQUENCE come */
		if (front->taken)
			*front->taken = front->before;
		call->slot = NULL;
		front->unheard = true;
		return NFS4ERR_DELAY; /* which is not sent */
	}
	if (status) /* the script may let the compound go on behind it */
		call->in->at = asked->arguments + asked->read;
	return (uint32_t)status;
}

uint32_t front_end(struct nfs_call *call, enum nfs4_operation operation, uint32_t status)
{
	struct asked *asked = call->front->asked;

	asked->written = (uint32_t)(call->out->at - asked->results);
	if (!asked->begun ||
	    call->front->unheard) /* it could not be where it is, or was not heard */
		return status;
	asked->replaced = false;
	status = call->front->hooks->end(operation, status);
	if (asked->replaced)
		call->data = NULL;
	call->out->at = asked->results + asked->written;
	asked->begun = 0;
	return status;
}

/* Slots beyond the target are dropped once a client that knows it uses none of them. */
static void retarget(struct session *session, struct slot *slot, const struct asked *asked)
{
	const uint32_t slots = session->slots;

	if (asked->target > slots || (slot->told == asked->target && asked->highest < slot->told))
		session->slots = asked->target;
	for (uint32_t i = session->slots; i < slots; i++)
		session->slot[i] = (struct slot){.results = session->slot[i].results};
	session->target = slot->told = asked->target;
}

uint32_t front_take_slot(struct nfs_call *call, struct session *session, struct slot *slot)
{
	call->front->taken = slot;
	call->front->before = *slot;
	retarget(session, slot, call->front->asked);
	return NFS4_OK;
}

void front_uses(struct nfs_call *call, struct client *client)
{
}

enum hooked hooks_answer(struct hooked_server *server, const struct hooks *hooks,
			 const struct limits *limits, struct asked *asked)
{
	struct xdr_in in = {asked->arguments, asked->arguments + asked->length, false};
	struct front front = {.hooks = hooks, .asked = asked, .in = &in};
	struct xdr_out out = {asked->results, asked->results + asked->room, false};
	struct nfs_call call = {.front = &front,
				.limits = limits,
				.in = &in,
				.out = &out,
				.clients = &server->clients,
				.connection = asked->connection,
				.address = asked->address};
	bool whole = true; /* all of the arguments are read */

	now = &front;
	if (asked->version == 4) {
		serve_nfs4(&call, true);
	} else if (asked->refusal) {
		refuse_nfs3(asked->procedure, &out, asked->refusal);
	} else {
		serve_nfs3(&call, asked->procedure);
		whole = in.at == in.end || *(uint32_t *)asked->results;
	}
	if (call.data)
		xdr_put_fixed(&out, call.data, call.data_length);
	asked->written = (uint32_t)(out.at - asked->results);
	if (call.slot)
		clients_end_reply(call.slot,
				  clients_begin_reply(call.clients, call.slot, asked->results,
						      asked->written),
				  true);
	if (front.unheard)
		return HOOKED_UNHEARD;
	return in.bad || !whole ? HOOKED_GARBAGE : HOOKED_ANSWERED;
}

/* --- files (core/files.h) --- */

uint32_t files_find(const uint8_t *handle, uint32_t length, uint64_t *file)
{
	return now->hooks->find(handle, length, file);
}

void files_put_handle(struct xdr_out *out, uint64_t file)
{
	uint8_t handle[NFS4_FHSIZE];
	uint32_t length = now->hooks->tell(file, handle);

	xdr_put_opaque(out, handle, length);
}

struct file_attributes files_attributes(uint64_t file)
{
	struct file_attributes attributes = {0};

	now->hooks->attributes(file, &attributes);
	return attributes;
}

void files_set_size(uint64_t file, uint64_t size)
{
	now->hooks->set_size(file, size);
}

uint32_t files_lookup(uint64_t directory, struct name name, uint64_t *file)
{
	return now->hooks->lookup(directory, &name, file);
}

uint32_t files_make(uint64_t directory, struct name name, enum file_type type, bool guarded,
		    uint64_t *file)
{
	return now->hooks->make(directory, &name, type, guarded, file);
}

uint32_t files_remove(uint64_t directory, struct name name)
{
	return now->hooks->remove(directory, &name);
}

uint32_t files_rename(uint64_t from, struct name name, uint64_t to, struct name other)
{
	return STATUS_NOTSUPP;
}

uint32_t files_link(uint64_t file, uint64_t directory, struct name name)
{
	return now->hooks->link(file, directory, &name);
}

uint32_t files_list(uint64_t directory, uint64_t first, struct name_page *page)
{
	return now->hooks->list(directory, first, page);
}

uint32_t files_read(struct front *front, uint64_t file, struct transfer *read)
{
	return front->hooks->read(file, read);
}

uint32_t files_write(struct front *front, uint64_t file, struct transfer *write)
{
	const uint8_t *data = xdr_skip(front->in, write->length);

	return data ? front->hooks->write(file, write, data) : 0;
}

uint32_t files_commit(struct front *front, uint64_t file, struct transfer *commit)
{
	return front->hooks->commit(file, commit);
}
