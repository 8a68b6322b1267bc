#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# elsewhere.sh - what is missing on a system without dpkg, in that system's words.
#
#   usage: elsewhere.sh DEBIAN-PACKAGE...
#
# Prints the lines that install what is missing, and nothing where nothing is. Fedora, openSUSE and
# Arch are untried: their names are those of their package lists.
set -eu

# Debian's package; what it brings: a program, a library of pkg-config (.pc) or a file; and who brings
# that elsewhere, where "-" is not needed. Packages without a line come with others of these systems.
# The virtual machine's are without: it is made of Debian's packages.
table='
# Debian         brings                         dnf                 zypper            pacman
python3          python3                        python3             python3           python
gcc              gcc                            gcc                 gcc               gcc
libc6-dev        /usr/include/stdio.h           glibc-devel         glibc-devel       glibc
make             make                           make                make              make
cmake            cmake                          cmake               cmake             cmake
pkg-config       pkg-config                     pkgconf-pkg-config  pkg-config        pkgconf
fio              fio                            fio                 fio               fio
libnfs-dev       libnfs.pc                      libnfs-devel        libnfs-devel      libnfs
liburing-dev     liburing.pc                    liburing-devel      liburing-devel    liburing
libibverbs-dev   libibverbs.pc                  rdma-core-devel     rdma-core-devel   rdma-core
librdmacm-dev    librdmacm.pc                   rdma-core-devel     rdma-core-devel   rdma-core
libgnutls28-dev  gnutls.pc                      gnutls-devel        libgnutls-devel   gnutls
libkrb5-dev      krb5-gssapi.pc                 krb5-devel          krb5-devel        krb5
nfs-ganesha      ganesha.nfsd                   nfs-ganesha         nfs-ganesha       AUR/nfs-ganesha
nfs-ganesha-vfs  /usr/lib*/ganesha/libfsalvfs*  nfs-ganesha-vfs     nfs-ganesha-vfs   AUR/nfs-ganesha
nfs-ganesha-mem  /usr/lib*/ganesha/libfsalmem*  nfs-ganesha-mem     nfs-ganesha-mem   AUR/nfs-ganesha
rpcbind          rpcbind                        rpcbind             rpcbind           rpcbind
netbase          /etc/services                  setup               netcfg            iana-etc
iproute2         tc                             iproute-tc          iproute2          iproute2
krb5-kdc         krb5kdc                        krb5-server         krb5-server       krb5
krb5-admin-server kadmin.local                  krb5-server         krb5-server       krb5
krb5-user        kinit                          krb5-workstation    krb5-client       krb5
nftables         nft                            nftables            nftables          nftables
procps           sysctl                         procps-ng           procps            procps-ng
git              git                            git                 git               git
dpkg-dev         rpmbuild                       rpm-build           rpm-build         -
locales          /usr/share/i18n/locales/en_US  glibc-locale-source glibc-i18ndata    glibc
shellcheck       shellcheck                     ShellCheck          ShellCheck        shellcheck
openssh-client   ssh                            openssh-clients     openssh-clients   openssh
dropbear-bin     dropbear                       dropbear            dropbear          dropbear
clang            clang                          clang               clang             clang
valgrind         valgrind                       valgrind            valgrind          valgrind
'

# The package manager of this system; empty where it has none that we know.
manager() {
	for known in dnf zypper pacman; do
		if command -v "$known" >/dev/null; then
			echo "$known"
			break
		fi
	done
}

# shellcheck disable=SC2086 # a file may be a pattern
present() {
	case $1 in
	/*) ls $1 >/dev/null 2>&1 ;;
	*.pc) pkg-config --exists "${1%.pc}" 2>/dev/null ;;
	*) command -v "$1" >/dev/null ;;
	esac
}

# What is missing of the packages in $1, by the names of the manager $2, or else by Debian's.
missing() {
	echo "$table" | while read -r debian brings dnf zypper pacman; do
		case " $1 " in *" $debian "*) ;; *) continue ;; esac
		case $2 in
		dnf) name=$dnf ;;
		zypper) name=$zypper ;;
		pacman) name=$pacman ;;
		*) name=$debian ;;
		esac
		[ "$name" = - ] || present "$brings" || echo "$name"
	done | sort -u
}

manager=$(manager)
names=$(missing "$*" "$manager")
packaged=$(echo "$names" | grep -v ^AUR/ | tr '\n' ' ')
built=$(echo "$names" | sed -n 's,^AUR/,,p' | tr '\n' ' ')
case $manager in
pacman) install='sudo pacman -S' ;;
?*) install="sudo $manager install" ;;
*) install='what brings these packages of Debian:' ;;
esac
[ -z "${packaged% }" ] || echo "  $install ${packaged% }"
[ -z "$built" ] || echo "  and from the AUR, which pacman does not install: ${built% }"
