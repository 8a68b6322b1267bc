#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# pid 1 of the guest. As /init of the initramfs, in busybox's sh, it loads what the root needs, mounts
# it, and goes on there: it brings up an RDMA device and the kernel's NFS server,
# runs the command, and turns the machine off. The root is the host's, read-only, beneath a file system
# in memory that takes all changes. A folder is shared with the host (guest.py), which holds
#
#   settings    RELEASE, MODULES, PROGRAMS, NETWORK, ADDRESSES, ADDRESS6, EXPORT, EXPORT_OPTIONS,
#               RESULTS, SECURED; mount_SHARE, which mounts what is the host's on a folder; mount_wanted,
#               the mounts the user asked for, which `command` makes itself where there is SECURED
#   command     what is run, with its environment and folder
#   begun, ready             made here: the seconds since the kernel started, by the guest's clock
#   go                       made there, once that clock is found to be right: the command may start
#   stdout, stderr, status   made here
#
# Whatever fails says so on the console and ends the guest: that nothing is left in `status` tells.
# Each command is named there, by which the host sees that the boot goes on.
set -eux

if [ "$0" = /init ]; then
	busybox mkdir -p /proc /sys /dev /host /changes /root
	for module in /modules/*.ko; do
		[ -e "$module" ] || continue
		busybox insmod "$module"
	done
	busybox mount -t proc proc /proc
	busybox mount -t sysfs sysfs /sys
	busybox mount -t devtmpfs devtmpfs /dev

	# shellcheck disable=SC1091
	. /settings
	mount_host /host
	busybox mount -t tmpfs -o mode=755 changes /changes
	busybox mkdir /changes/upper /changes/work
	layers=lowerdir=/host,upperdir=/changes/upper,workdir=/changes/work
	busybox mount -t overlay -o "$layers" root /root
	for pseudo in proc sys dev; do
		busybox mount -o move "/$pseudo" "/root/$pseudo"
	done
	busybox mount -t tmpfs -o mode=755 run /root/run
	busybox mkdir /root/run/nfsmulti
	mount_share /root/run/nfsmulti
	exec busybox switch_root /root /bin/sh /run/nfsmulti/init
fi

trap 'busybox poweroff -f' EXIT
share=/run/nfsmulti
# shellcheck disable=SC1091
. $share/settings
PATH=$PROGRAMS:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
cat /proc/uptime >$share/begun

# What a distribution's boot would have done.
mkdir -p /dev/pts /dev/shm /run/lock /run/rpc_pipefs
mount -t devpts -o mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
ln -sfn /proc/self/fd /dev/fd
for number in 0:stdin 1:stdout 2:stderr; do
	ln -sf "/proc/self/fd/${number%:*}" "/dev/${number#*:}"
done
echo localhost >/proc/sys/kernel/hostname
prlimit --pid=$$ --memlock=unlimited --nofile=65536
if [ -n "$RESULTS" ]; then
	mkdir -p "$RESULTS"
	mount_results "$RESULTS"
fi
if ! [ -e "/lib/modules/$RELEASE" ]; then
	mkdir -p /lib/modules
	ln -s "$MODULES" "/lib/modules/$RELEASE"
fi
modprobe -a ipv6 dummy nfsd nfsv3 nfsv4
modprobe -a rdma_rxe rdma_ucm ib_uverbs rpcrdma

# rdma_rxe finds no route on lo, so addresses of their own device stand for a server's.
ip link set lo up
ip link add dummy0 type dummy
ip link set dummy0 mtu 9000 up
for address in $ADDRESSES; do
	ip address add "$address/24" dev dummy0
done
ip address add "$ADDRESS6/64" dev dummy0 nodad
echo 1 >/proc/sys/net/ipv6/conf/dummy0/keep_addr_on_down # as IPv4 addresses are kept
if [ -n "$NETWORK" ]; then
	modprobe virtio_net
	ip link set eth0 up
	ip address add 10.0.3.15/24 dev eth0
	ip route add default via 10.0.3.2
fi
rdma link add rxe0 type rxe netdev dummy0

# Threads before RDMA's port, or RDMA mounts hang.
mkdir -p "$EXPORT"
mount -t tmpfs -o mode=1777 export "$EXPORT"
mount -t tmpfs -o mode=755 nfs /var/lib/nfs
mkdir -p /var/lib/nfs/sm /var/lib/nfs/sm.bak /var/lib/nfs/v4recovery
touch /var/lib/nfs/etab /var/lib/nfs/rmtab /var/lib/nfs/state /var/lib/nfs/xtab
mount -t nfsd nfsd /proc/fs/nfsd
# The kernel itself notes NFSv4's clients, in v4recovery: a program for each would cost seconds.
printf '\0' >/sys/module/nfsd/parameters/cltrack_prog
mount -t rpc_pipefs sunrpc /run/rpc_pipefs
rpcbind -w
exportfs -o "$EXPORT_OPTIONS" "*:$EXPORT"
rpc.nfsd 8
echo 'rdma 20049' >/proc/fs/nfsd/portlist
echo Y >/proc/fs/nfsd/v4_end_grace
rpc.mountd

[ -n "$SECURED" ] || mount_wanted

cat /proc/uptime >$share/ready.new
mv $share/ready.new $share/ready
until [ -e $share/go ]; do
	sleep 0.05
done
status=0
setsid /bin/sh $share/command </dev/null >>$share/stdout 2>>$share/stderr || status=$?
echo "$status" >$share/status.new
mv $share/status.new $share/status
