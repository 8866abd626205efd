/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The program of "blame" charges the right time to the right thread. */
#ifndef KVMSTATS_BLAME_CHECK_H
#define KVMSTATS_BLAME_CHECK_H

#include "blame.h"

/*
 * Let a vCPU of this process wait for another thread on the same CPU, and compare the
 * charges with the kernel's own account of both threads. Returns 0, or a negative errno
 * with p->why and p->help filled in: -EPROTO if a charge is wrong.
 */
int blame_check(struct blame *blame, struct kvmstats_probe *p);

#endif /* KVMSTATS_BLAME_CHECK_H */
