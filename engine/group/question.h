/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * question.h - a question to a server about a name, asked again by another client where the one
 * that it went by was given up. (A client connects again by itself.)
 *
 * Once a file or directory of the path is open, `hard` asks until path_job's stop(), and `soft` for
 * as long as an I/O may take (nfs(5)); with failover a path that others can stand in for is given
 * up sooner. Before that it is asked once more, and no server that does not answer.
 */
#pragma once

#include "group/path.h"

struct question {
	/*
	 * Asks the server over path->names: 0, or a negative errno and names->error says why.
	 * Where `asked` is more than 1, an earlier copy may have been carried out, and nobody
	 * knows.
	 */
	int (*ask)(struct path *path, struct question *question);
	const char *what; /* as it follows "cannot": "open" */
	const char *name;
	uint32_t asked; /* times, this one as well */

	/* What ask() needs beside, and where what it finds goes. */
	uint32_t number;
	bool writes, make;
	uint64_t *size;
	bool *created;
	void **file;
	struct nfs_handle *handle;
	struct meta_limits *limits;
};

/* Returns ask()'s last result, or that of connecting. What is asked again and for long is told. */
int question_ask(struct path *path, struct question *question);

/* failover, hard: the path was given up, though it had opened files. Another may answer: where none
 * does, it is asked again. */
bool question_is_left(const struct path *path, int error);
