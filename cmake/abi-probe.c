// SPDX-License-Identifier: GPL-2.0-only
/*
 * abi-probe.c - asks the real fio, at configure time, whether the headers found for it fit.
 *
 * fio loads this as an engine, calls get_ioengine() and gets none. The answer is the line on
 * stdout, which cmake/AbiProbe.cmake reads.
 */
#include <stdio.h>

#include "abi.h"

struct ioengine_ops;

__attribute__((visibility("default"))) void get_ioengine(struct ioengine_ops **ops);

void get_ioengine(struct ioengine_ops **ops)
{
	char why[ABI_WHY_MAX];
	struct abi_fio fio;

	abi_running(&fio);
	if (abi_compare(&fio, why, sizeof(why)))
		printf("nfsmulti-abi: refused: %s\n", why);
	else
		printf("nfsmulti-abi: fits\n");
	fflush(stdout);
	*ops = NULL;
}
