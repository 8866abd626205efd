/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The program of "stalls" charges the right time to the right reason. */
#ifndef KVMSTATS_STALLS_CHECK_H
#define KVMSTATS_STALLS_CHECK_H

#include "stalls.h"

/*
 * Let the thread of a vCPU of this process sleep, and compare the charge with its length. Returns
 * 0, or a negative errno with p->why and p->help filled in: -EPROTO if the charge is wrong.
 */
int stalls_check(struct stalls *stalls, struct kvmstats_probe *p);

#endif /* KVMSTATS_STALLS_CHECK_H */
