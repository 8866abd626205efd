/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Interface between the BPF program of "exits" and its loader */
#ifndef KVMSTATS_BPF_EXITS_H
#define KVMSTATS_BPF_EXITS_H

#include <linux/types.h>

#include "shares.bpf.h"

/* Slots for threads of vCPUs, a power of 2 */
#define EXITS_SLOTS	8192
/* Number of slots that a thread may have, beginning with EXITS_SLOT(TID) */
#define EXITS_PROBES	16
#define EXITS_SLOT(tid)	(((tid) * 2654435769U) >> 19)
/* Cells, a power of 2, and number of places that one may have */
#define EXITS_CELLS	32768
#define EXITS_PLACES	32
/* Cells with an address that a vCPU may have */
#define EXITS_ADDRESSES	256
/* Bucket 0 has the exits of less than 256 ns, bucket i those from 2^(i+7) ns on. */
#define EXITS_BUCKETS	28
#define EXITS_SHIFT	7

/* Argument of kvm_exit on x86, KVM_ISA_VMX and KVM_ISA_SVM; arm64 has none. */
enum exits_isa {
	EXITS_VMX = 1,
	EXITS_SVM,
	EXITS_ARM64,
};

/* Reasons that are not the processor's */
#define EXITS_UNTRACED	0xfffffffeU	/* KVM entered the guest again without kvm_exit */
/* arm64: exits that are not traps; the low bits are the return value of the entry */
#define EXITS_NO_TRAP	0x10000U

enum exits_space {
	EXITS_NO_ADDRESS,
	EXITS_PORT,
	EXITS_MMIO,
};

struct exits_key {
	__u64 address;
	__u32 serial;		/* number of the vCPU; 0: of none */
	__u32 reason;
	__u32 space;
	__u32 reserved;
};

/* Exits of one vCPU for one reason; times in nanoseconds */
struct exits_cell {
	union {
		struct {
			__u64 count;
			__u64 kernel, user, ready, halt;
		};
		__u64 sum[5];
	};
	__u64 max;		/* longest exit, kernel and user */
	__u64 kvm;		/* address of struct kvm */
	__u32 tgid, tid, vcpu;
	__u32 isa;
	__u32 bucket[EXITS_BUCKETS];
};

struct exits_place {
	struct exits_key key;	/* its serial is set last */
	struct exits_cell cell;
	__u64 taken;		/* UID of the vCPU's thread, plus 1; 0 if it is free */
};

/* A vCPU's thread and its open exit so far */
struct exits_vcpu {
	__u32 tid;		/* 0 if the slot is free */
	__u32 serial;
	__u32 reason;
	__u32 space;
	__u64 notifier;		/* address: another one is another vCPU */
	__u64 exit;		/* start of the open exit; 0 while the guest runs */
	__u64 user_since;	/* 0 while in the kernel */
	__u64 delay;		/* run_delay that is part of ready, or of earlier exits */
	__u64 ready;
	__u64 early;		/* ready before the open exit's start */
	__u64 user, halt;
	__u64 address;
	__u64 kvm;
	__u32 tgid, vcpu;
	__u32 isa;
	__u32 addresses;	/* cells with an address */
	__u32 uid;
	__u32 unused[3];
};

/* Exits that did not fit or were lost */
struct exits_counts {
	__u64 no_vcpu;		/* exits of vCPUs without a slot */
	__u64 no_cell;		/* exits without a cell */
	__u64 healed;		/* exits that had no end */
};

#endif /* KVMSTATS_BPF_EXITS_H */
