# SPDX-License-Identifier: GPL-2.0-only
#
# Summary.cmake - what this build is made of, in a few lines.

include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_INCLUDES ${LIBNFS_INCLUDE_DIRS})
check_c_source_compiles("
	#include <stddef.h>
	#include <stdint.h>
	#include <sys/time.h>
	#include <nfsc/libnfs.h>
	#ifndef LIBNFS_API_V2
	#error the first API
	#endif
	int main(void) { return 0; }" NFSMULTI_LIBNFS_V2)

set(libnfs_api 1)
if(NFSMULTI_LIBNFS_V2)
	set(libnfs_api 2)
endif()
set(rdma "no (apt-get install libibverbs-dev librdmacm-dev, then configure again)")
if(RDMA_FOUND)
	set(rdma "yes (libibverbs ${RDMA_libibverbs_VERSION}, librdmacm ${RDMA_librdmacm_VERSION})")
endif()
set(tls "no (apt-get install libgnutls28-dev, then configure again)")
if(TLS_FOUND)
	set(tls "yes (gnutls ${TLS_VERSION})")
endif()
set(gss "no (apt-get install libkrb5-dev libgnutls28-dev, then configure again)")
if(GSS_FOUND)
	set(gss "yes (krb5-gssapi ${GSS_krb5-gssapi_VERSION})")
endif()

message(STATUS "nfsmulti for ${FIO_VERSION} (${FIO_EXECUTABLE}):")
message(STATUS "  headers   from ${FIO_HEADERS_FROM}; they fit")
message(STATUS "  libnfs    ${LIBNFS_VERSION}, API ${libnfs_api}")
message(STATUS "  liburing  ${LIBURING_VERSION}")
message(STATUS "  RDMA      ${rdma}")
message(STATUS "  TLS       ${tls}")
message(STATUS "  Kerberos  ${gss}")
message(STATUS "  build     ${CMAKE_BUILD_TYPE}, ${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}")
if(NFSMULTI_SANITIZE)
	message(STATUS "  sanitize  ${sanitizers}: load the engine with the sanitizer's runtime preloaded into fio")
endif()
