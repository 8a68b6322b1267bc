#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The initramfs's /init: loads what the root needs, mounts it, and goes on with init.sh there. The
# root is the host's, read-only, beneath a file system in memory that takes all changes. /mounts has
# the functions that mount what is the host's (kernels.py).
set -eux
busybox mkdir -p /proc /sys /dev /host /changes /root
for module in /modules/*.ko; do
	[ -e "$module" ] || continue
	busybox insmod "$module"
done

busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs devtmpfs /dev

# shellcheck disable=SC1091
. /mounts
mount_host /host
busybox mount -t tmpfs -o mode=755 changes /changes
busybox mkdir /changes/upper /changes/work
busybox mount -t overlay -o lowerdir=/host,upperdir=/changes/upper,workdir=/changes/work root /root

for pseudo in proc sys dev; do
	busybox mount -o move "/$pseudo" "/root/$pseudo"
done
busybox mount -t tmpfs -o mode=755 run /root/run
busybox mkdir /root/run/nfsmulti
mount_share /root/run/nfsmulti
exec busybox switch_root /root /bin/sh /run/nfsmulti/init
