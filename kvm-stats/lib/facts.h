/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What of this process and its host decides what a source can see: read from
 * /proc and /sys, where every user may look. Nothing here is public.
 */
#ifndef KVMSTATS_FACTS_H
#define KVMSTATS_FACTS_H

#include <stdbool.h>

#include "source.h"

/* One of CAP_*, effective; those of another user namespace than the first count. */
bool facts_capable(int capability);

/* In the first user namespace, or PID namespace */
bool facts_first_user_namespace(void);
bool facts_first_pid_namespace(void);

/* Locked down so that BPF may not read the kernel's memory */
bool facts_confidential(void);

/* RLIMIT_MEMLOCK, which counts for BPF before Linux 5.11, in KiB */
unsigned long long facts_memlock(void);

/*
 * Add to p->why what keeps names and times of other users' VMs from being read
 * (hidepid of the host's /proc), and to p->help what would help.
 */
void facts_names(const struct kvmstats *k, struct kvmstats_probe *p);

/* This kernel does not open the statistics of a VM for whoever has its file. */
bool facts_no_getfd(void);

/*
 * Add what keeps files of other processes from being borrowed: capabilities,
 * Yama, the kernel's statistics files, RLIMIT_NOFILE. Returns 0, or a negative
 * errno if nothing at all can be, or there is no KVM.
 */
int facts_borrow(const struct kvmstats *k, struct kvmstats_probe *p);

#endif /* KVMSTATS_FACTS_H */
