/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The program of "exits" counts the right exits. */
#ifndef KVMSTATS_EXITS_CHECK_H
#define KVMSTATS_EXITS_CHECK_H

#include "exits.h"

/*
 * Let a vCPU of this thread exit a known number of times, and compare with the program's
 * count. Returns 0, or a negative errno with p->why and p->help filled in: -EOPNOTSUPP if
 * KVM reports no exits, -EPROTO if a count is wrong.
 */
int exits_check(struct exits *exits, struct kvmstats_probe *p);

#endif /* KVMSTATS_EXITS_CHECK_H */
