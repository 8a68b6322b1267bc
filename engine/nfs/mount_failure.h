/* SPDX-License-Identifier: GPL-2.0-only */
/* mount_failure.h - what people are told when MOUNT (RFC 1813, 5) fails. */
#pragma once

#include <stdint.h>

#include "nfs/status.h"

struct path;

/*
 * Logs why `path` cannot be mounted, and what to do: `error` is a negative errno, `answer` who says
 * so, `why` in which words, `peer` the port that libnfs was connected to, 0: to none, or it did not
 * answer. Connects to the ports that MOUNT needs, to find out what libnfs does not tell, and waits
 * for them up to three seconds each. Returns the negative errno that says it best.
 */
int mount_failure_explain(const struct path *path, int error, enum answer answer, const char *why,
			  uint16_t peer);

/* The same where NFS answers, or does not, what comes after MOUNT: `why` are the server's words, or
 * empty. Returns `error`. */
int mount_failure_explain_nfs(const struct path *path, int error, enum answer answer,
			      const char *why);
