/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * endings.h - what a job meets after all has healed, and all was made durable: a server or a
 * network that never comes back, one that is silent for long, one that asks to wait for long. Its
 * kind is of world_apart(): the job before it is what it was without.
 */
#pragma once

/* One job in some ends so. All is healed afterwards. */
void ending_run(void);
