/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * failover.h - decides which connections of a group are dead, by their health, and which
 * connections stand in for them. Moves I/O, never calls. The last connection never dies.
 */
#pragma once

#include "group/group.h"

/* Silent connections die, and their I/O goes into job.requeued; those that answer again revive. */
void failover_look(struct group *group);

/* The connection that takes an I/O instead of a dead one: each in turn. */
struct conn *failover_choose(struct group *group, uint32_t dead, const struct conn_io *io);

/* Declares an unusable connection dead. False: it is the last one, or there is no failover. */
bool failover_do_without(struct group *group, struct conn *conn);

/* The same for all connections of a path, which is then unusable for good. */
bool failover_give_path_up(struct group *group, uint32_t path);
