/* SPDX-License-Identifier: GPL-2.0-only */
/* nfs_trouble.c - what is told once for a path, however many connections notice it. */
#include "conn/nfs_conn.h"

#include "nfs/status.h"

/* True where the path has stopped to answer just now. */
bool nfs_begin_trouble(struct nfs_conn *nfs)
{
	bool first = !nfs->troubled && !nfs->base.path->said_stopped;

	nfs->troubled = true;
	if (first)
		nfs->base.path->said_stopped = true;
	return first;
}

/* True where it has resumed: a connection that was in trouble is answered. */
bool nfs_end_trouble(struct nfs_conn *nfs)
{
	bool resumed = nfs->troubled && nfs->base.path->said_stopped;

	if (resumed)
		nfs->base.path->said_stopped = false;
	nfs->troubled = false;
	return resumed;
}

/* With failover a path that others can stand in for is told of when it is given up: die(). */
void nfs_say_silent(struct nfs_conn *nfs)
{
	if (!nfs_may_die(nfs) && nfs_begin_trouble(nfs))
		nfs_log(nfs, "server not responding, still trying");
}

void nfs_say_stale(struct nfs_conn *nfs, const struct conn_io *io)
{
	if (!nfs->base.path->said_stale)
		nfs_log(nfs,
			"%s: NFS3ERR_STALE: the server does not know the file any more: was "
			"it removed, or the export changed, during the run?",
			nfs3_procedure_name(procedure_of(io)));
	nfs->base.path->said_stale = true;
}

void nfs_say_patience(struct nfs_conn *nfs, const struct conn_io *io)
{
	if (!nfs->base.path->said_patience)
		nfs_log(nfs, "%s: the server asks for patience again and again (%s): still trying",
			nfs3_procedure_name(procedure_of(io)),
			nfs3_status_name(nfs->result.status));
	nfs->base.path->said_patience = true;
}
