# SPDX-License-Identifier: GPL-2.0-only
#
# Packages.cmake - what must be installed, checked together: one line names all that is missing.
#
# Sets the imported targets PkgConfig::LIBNFS and PkgConfig::LIBURING, PkgConfig::RDMA with RDMA_FOUND
# PkgConfig::TLS with TLS_FOUND, PkgConfig::GSS with GSS_FOUND when they are present; or
# nfsmulti_error.

set(missing "")
set(packages "")

macro(nfsmulti_missing what package)
	list(APPEND missing "${what}")
	list(APPEND packages ${package})
endmacro()

if(NOT FIO_EXECUTABLE)
	nfsmulti_missing("fio (or point -DFIO_EXECUTABLE= at one)" fio)
elseif(NOT EXISTS "${FIO_EXECUTABLE}")
	nfsmulti_missing("${FIO_EXECUTABLE} (FIO_EXECUTABLE)" fio)
endif()

find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
	pkg_check_modules(LIBNFS QUIET IMPORTED_TARGET "libnfs>=4.0")
	pkg_check_modules(LIBURING QUIET IMPORTED_TARGET "liburing>=2.2")
	pkg_check_modules(RDMA QUIET IMPORTED_TARGET libibverbs librdmacm)
	pkg_check_modules(TLS QUIET IMPORTED_TARGET "gnutls>=3.7")
	pkg_check_modules(GSS QUIET IMPORTED_TARGET "krb5-gssapi>=1.18" krb5)
else()
	nfsmulti_missing("pkg-config" pkg-config)
endif()
if(NOT LIBNFS_FOUND)
	nfsmulti_missing("libnfs >= 4.0" libnfs-dev)
endif()
if(NOT LIBURING_FOUND)
	nfsmulti_missing("liburing >= 2.2" liburing-dev)
endif()

# Kerberos' messages are encrypted by GnuTLS.
if(NOT TLS_FOUND)
	set(GSS_FOUND FALSE)
endif()
# Debian's krb5 names its headers by "-isystem DIR", which CMake puts elsewhere each further time that
# it configures: all would be built anew then.
if(GSS_FOUND)
	set(gss_includes ${GSS_CFLAGS})
	list(FILTER gss_includes INCLUDE REGEX "^(-isystem|-I)?/")
	list(TRANSFORM gss_includes REPLACE "^(-isystem|-I)" "")
	set_target_properties(PkgConfig::GSS PROPERTIES
		INTERFACE_COMPILE_OPTIONS "" INTERFACE_INCLUDE_DIRECTORIES "${gss_includes}")
endif()

if(missing)
	list(JOIN missing ", " missing)
	list(JOIN packages " " packages)
	set(nfsmulti_error "missing: ${missing}. Install: apt-get install ${packages}")
endif()
