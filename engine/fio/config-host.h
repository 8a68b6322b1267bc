/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * config-host.h - stands in for the file that fio's ./configure writes.
 *
 * fio's headers expect this file in front of every source (-include). An engine needs only the
 * macros below, which are the same on any Linux with glibc: it needs neither fio's ./configure nor
 * the packages the script looks for. abi.c detects a wrong macro that has moved members of struct
 * thread_options.
 */
#pragma once

#if __SIZEOF_POINTER__ == 8
#define CONFIG_64BIT
#else
#define CONFIG_32BIT
#endif

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define CONFIG_LITTLE_ENDIAN
#else
#define CONFIG_BIG_ENDIAN
#endif

#define CONFIG_3ARG_AFFINITY
#define CONFIG_CLOCKID_T
#define CONFIG_HAVE_ASPRINTF
#define CONFIG_HAVE_BOOL
#define CONFIG_HAVE_GETTID
#define CONFIG_HAVE_STRNDUP
#define CONFIG_HAVE_VASPRINTF
#define CONFIG_POSIXAIO
#define CONFIG_PWRITEV2
#define CONFIG_SOCKLEN_T
#define CONFIG_STATIC_ASSERT
#define CONFIG_STRCASESTR
#define CONFIG_STRSEP
#define CONFIG_SYNCFS
#define CONFIG_SYNC_FILE_RANGE
#define CONFIG_TLS_THREAD
