/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mips processor specific defines
 */
#ifndef SELFTEST_KVM_PROCESSOR_H
#define SELFTEST_KVM_PROCESSOR_H

/* KSeg0 of a trap and emulate guest, which starts in kernel mode */
#define FLAT_GUEST_VADDR	0x40000000

#include "flat_guest.h"

#endif /* SELFTEST_KVM_PROCESSOR_H */
