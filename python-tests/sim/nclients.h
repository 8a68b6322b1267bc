/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nclients.h - the clients of a job that is many (nclients=). Whatever has failed, each is there
 * again once all has healed, and was served where it had I/O, or its errors are told of. Where
 * there are none, these do nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct rpc_client;

/* Client `own`, from 1: it begins, or (NULL) has ended. */
void nclients_note(uint32_t own, const struct rpc_client *rpc);

/* Each client opens the job's files. False: one does not. */
bool nclients_open(void);
/* Before the group is closed: each closes them. */
void nclients_close(void);

/* All is lost: a client whose connection is says so, and what to do. */
void nclients_check_causes(void);

/* All has healed, and no I/O is left: goes on until each client is there. */
void nclients_return(void);
