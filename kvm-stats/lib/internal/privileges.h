/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What of this process and its host decides what a source can see: read from
 * /proc and /sys, where every user may look. Nothing here is public.
 */
#ifndef KVMSTATS_PRIVILEGES_H
#define KVMSTATS_PRIVILEGES_H

#include <stdbool.h>

#include "source.h"

/* One of CAP_*, effective; those of another user namespace than the first count. */
bool privileges_capable(int capability);

/* In the first user namespace, or PID namespace */
bool privileges_first_user_namespace(void);
bool privileges_first_pid_namespace(void);

/* Locked down so that BPF may not read the kernel's memory */
bool privileges_confidential(void);

/* RLIMIT_MEMLOCK, which counts for BPF before Linux 5.11, in KiB */
unsigned long long privileges_memlock(void);

/*
 * Add to p->why what keeps names and times of other users' VMs from being read
 * (hidepid of the host's /proc), and to p->help what would help.
 */
void privileges_names(const struct kvmstats *k, struct kvmstats_probe *p);

/*
 * The ioctls of the series on this kernel, and the flags of their capability: 0 if it
 * is not supported, -1 if /dev/kvm cannot be opened. Never issue the ioctls if it is
 * not supported: other kernels use the same numbers for other purposes. If the flags are
 * positive, a VM was created to check that the kernel has the series.
 */
struct stats_ioctls {
	unsigned long getfd, next;
	int flags;
};

struct stats_ioctls privileges_stats_ioctls(void);

/*
 * Return true if the kernel announces that statistics files do not pin their VM and report its
 * destruction by EPOLLHUP. Return false if /dev/kvm cannot be opened.
 */
bool privileges_stats_detached(void);

/* Open a statistics file with the ioctl getfd of privileges_stats_ioctls(), or return -1. */
int privileges_getfd(unsigned long getfd, int fd, uint32_t scope);

/*
 * Add what keeps files of other processes from being borrowed: capabilities,
 * Yama, the kernel's statistics files, RLIMIT_NOFILE. Returns 0, or a negative
 * errno if nothing at all can be, or there is no KVM.
 */
int privileges_borrow(const struct kvmstats *k, struct kvmstats_probe *p);

#endif /* KVMSTATS_PRIVILEGES_H */
