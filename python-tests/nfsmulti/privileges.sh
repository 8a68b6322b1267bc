#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# privileges.sh - what a lab needs and this process is not permitted, in a few words; nothing where
# all is permitted. A lab makes network namespaces, mounts, links and their limits.
#
# privileges.sh COMMAND... - run a command where more is permitted: as root of its own user, network
# and mount namespaces, with an empty /run. Any user may do so, unless the kernel's settings, seccomp
# or AppArmor refuse it; the status is not 0 then, and nothing has run.
#
# In sh, because the front end asks before there is a Python (see machine.py too).
if [ $# -gt 0 ]; then
	# shellcheck disable=SC2016 # expanded by that shell
	exec unshare --user --map-root-user --net --mount -- \
		sh -ec 'mount -t tmpfs -o mode=755 tmpfs /run; exec "$@"' sh "$@"
fi

# The numbers are those of capability.h.
lacks() {
	[ $((0x$capabilities >> $1 & 1)) -eq 0 ]
}

if [ "$(id -u)" -ne 0 ]; then
	echo 'not root'
	exit 0
fi
capabilities=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
missing=
! lacks 21 || missing=' and CAP_SYS_ADMIN'
! lacks 12 || missing="$missing and CAP_NET_ADMIN"
if [ -n "$missing" ]; then
	echo "no${missing# and}"
elif ! said=$(unshare --net --mount true 2>&1); then
	# seccomp and AppArmor refuse what the capabilities allow.
	echo "no namespaces (${said##*: })"
else
	# Its capabilities do not reach what belongs to the machine, such as nfs-ganesha's file handles.
	read -r inside outside count </proc/self/uid_map
	[ "$inside $outside $count" = '0 0 4294967295' ] || echo 'root of a user namespace alone'
fi
