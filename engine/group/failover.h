/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * failover.h - which connections of a group are dead, and who stands in for them. It decides by
 * what connections say of their health, and moves I/O, never calls. The last connection that is
 * alive never dies.
 */
#pragma once

#include "group/group.h"

/* Connections that are silent die, those that answer again take I/O again. The I/O of the dead
 * stands in job.requeued then. */
void failover_look(struct group *group);

/* The connection that takes an I/O in place of the dead one that it was meant for: each in turn. */
struct conn *failover_choose(struct group *group, uint32_t dead, const struct conn_io *io);

/* What cannot be used is dead. False where it is all that is left, or failover is not wanted. */
bool failover_do_without(struct group *group, struct conn *conn);

/* The same for all connections of a path, which is then unusable for good. */
bool failover_give_path_up(struct group *group, uint32_t path);
