#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# namespaces.sh COMMAND... - run a command as root of its own user, network and mount namespaces, with
# an empty /run. Any user may do so, unless the kernel's settings, seccomp or AppArmor refuse it; the
# status is not 0 then, and nothing has run.
set -eu
# shellcheck disable=SC2016 # expanded by that shell
exec unshare --user --map-root-user --net --mount -- \
	sh -ec 'mount -t tmpfs -o mode=755 tmpfs /run; exec "$@"' sh "$@"
