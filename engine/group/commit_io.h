/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * commit_io.h - what an I/O that is a COMMIT has beside what struct conn_io has of all: its owner
 * keeps one for each such I/O, in io->commit.
 */
#pragma once

#include "client/io.h"
#include "group/ledger.h"

struct commit_io {
	/* The owner's, set before the I/O is submitted. */
	struct ledger *ledger;	/* of the writes that it is to make durable */
	struct io_list sharing; /* others that have its result */
	bool data_only;		/* fdatasync will do */

	struct ledger_commit covered; /* the connection's; its number is the owner's to clear */
};
