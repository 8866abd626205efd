/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * powerpc processor specific defines
 */
#ifndef SELFTEST_KVM_PROCESSOR_H
#define SELFTEST_KVM_PROCESSOR_H

#include "kvm_util.h"

#ifndef vcpu_ioctl	/* a function in the library of Linux 5.10 */
/*
 * A book3s guest starts in real mode, an e500v2 guest with a TLB entry that
 * maps its first 256M one to one.
 */
#define FLAT_GUEST_VADDR	0

#include "flat_guest.h"
#endif

#endif /* SELFTEST_KVM_PROCESSOR_H */
