/* SPDX-License-Identifier: GPL-2.0-only */
/* ledger.c - the functions of ledger.h, all of which are static inline, for tests to call. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#define static
#define inline
#include "group/ledger.h"
