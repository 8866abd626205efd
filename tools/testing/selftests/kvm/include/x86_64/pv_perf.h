/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Helpers of the tests of paravirtual perf events: a guest that executes commands of
 * the host, mostly one hypercall.
 */
#ifndef SELFTEST_KVM_PV_PERF_H
#define SELFTEST_KVM_PV_PERF_H

#include <stdbool.h>
#include <stdint.h>

#include <asm/kvm_para.h>
#include <linux/bits.h>
#include <linux/kvm_para.h>
#include <linux/perf_event.h>

#include "kvm_util.h"
#include "processor.h"
#include "stats_test.h"
#ifdef vcpu_ioctl	/* a function in the library of Linux 5.10 */
#include "pv_perf_base_7_3.h"
#else
/* KVM_SET_CPUID2 works on a vCPU that has run. */
#define PV_CPUID_CAN_CHANGE		true
/* KVM counts a hypercall when it ends. */
#define PV_HYPERCALL_COUNTED_AT_END	1

static inline void cpu_relax(void)
{
	asm volatile("pause" : : : "memory");
}
#endif

#define NR_VCPUS	2
#define NR_EVENTS	KVM_PV_PERF_MAX_EVENTS
#define PERIOD		KVM_PV_PERF_MIN_PERIOD

/* The feature's bit in eax of KVM_CPUID_FEATURES */
#define FEATURE		BIT(KVM_FEATURE_PV_PERF)

/* An address without guest memory, also in the 4 GB around it */
#define NOWHERE		0x800000000ull

/* No test takes as long, in seconds, however slow the machine is */
#define LIMIT		60

/* The module parameter: whether VMs that are created may have events */
#define PV_OFF	'0'
#define PV_ON	'1'

/* What guest and host share; while the guest runs, only its NMIs change it. */
struct pv_guest {
	/* The host: what to do next */
	void (*func)(struct pv_guest *guest);
	uint64_t op, a1, a2;
	uint64_t until;
	/* The guest: how it went */
	int64_t ret;
	uint64_t nmis;		/* NMIs received */
	uint64_t hlt_nmis;	/* NMIs received in a halt, only from an overflow */
	uint64_t woken;		/* the host adds 1 before and after it injects an NMI */
	uint64_t woken_seen;	/* woken at the last NMI */
	uint64_t stray;		/* NMIs that no overflow explains */
	uint64_t nested;	/* NMIs received during another one */
	uint64_t seen;		/* overflows that NMIs saw */
	uint64_t slow;		/* how many NMIs are still to be slow */
	uint64_t in_nmi;
	uint64_t after_hlt;	/* where a halt returns to */
};

extern struct pv_guest pv_guests[NR_VCPUS];
extern struct kvm_pv_perf_slot pv_slots[NR_VCPUS][NR_EVENTS];
extern struct kvm_pv_perf_attr pv_attrs[NR_VCPUS];
extern struct kvm_pv_perf_info pv_info;

/* The guest's variables, as the host sees them */
#define in_guest(vm, var) \
	((typeof(var) *)addr_gva2hva(vm, (unsigned long)&(var)))

#define gpa_of(vm, var)	addr_gva2gpa(vm, (unsigned long)&(var))

/* Guest code, for pv_run(): one hypercall; CPUIDs, and NMIs, until there were enough */
void pv_guest_hypercall(struct pv_guest *guest);
void pv_guest_cpuid(struct pv_guest *guest);
void pv_guest_busy(struct pv_guest *guest);

/* Overflows of all events of vCPU 0, by their slots */
uint64_t pv_guest_overflows(void);

/*
 * Leave the test unless the module parameter can be set, as it has to be before
 * the first VM; pv_end() puts it back and says how the test went, which kselftest.h
 * counts in each file by itself.
 */
void pv_begin(void);
void pv_restore_parameter(void);
void pv_set_parameter(char value);

static inline void pv_end(void)
{
	pv_restore_parameter();
	ksft_set_plan(ksft_test_num());
	ksft_exit(!ksft_get_fail_cnt());
}

/* Create a VM with the feature in its CPUID, or one without */
struct kvm_vm *pv_create_vm(void);
struct kvm_vm *pv_create_vm_without_feature(void);

/* Not kvm_get_supported_cpuid(), which remembers what it once was; to be freed */
struct kvm_cpuid2 *pv_supported_cpuid(void);
uint32_t pv_features(void);

/* Set the features in the vCPU's CPUID. */
void pv_set_features(struct kvm_vm *vm, uint32_t vcpuid, uint32_t features);

/* Remove the leaf KVM_CPUID_FEATURES from the vCPU's CPUID. */
void pv_remove_features(struct kvm_vm *vm, uint32_t vcpuid);

/* Have the vCPU do something; it comes back to the host when it has done it. */
void pv_run(struct kvm_vm *vm, uint32_t vcpuid, void (*func)(struct pv_guest *guest));
void pv_run_until(struct kvm_vm *vm, uint32_t vcpuid,
		  void (*func)(struct pv_guest *guest), uint64_t until);

/* What the hypercall returns to the guest; pv_event_op() makes it on vCPU 0 */
int64_t pv_call(struct kvm_vm *vm, uint32_t vcpuid, uint64_t op, uint64_t a1,
		uint64_t a2);
int64_t pv_event_op(struct kvm_vm *vm, uint64_t op, uint64_t id);

/* Whether the guest finds it: 0, or the error it gets */
int64_t pv_query(struct kvm_vm *vm);

/* The slot of event @id of vCPU 0, and its count after a READ */
struct kvm_pv_perf_slot *pv_slot(struct kvm_vm *vm, uint32_t id);
uint64_t pv_count(struct kvm_vm *vm, uint32_t id);

/* An event as it should be: for tests to change and to open with pv_open_event() */
struct kvm_pv_perf_attr *pv_attr(struct kvm_vm *vm, uint32_t vcpuid, uint32_t id,
				 uint32_t type);
struct kvm_pv_perf_attr *pv_stat_attr(struct kvm_vm *vm, uint32_t id,
				      const char *name);
struct kvm_pv_perf_attr *pv_clock_attr(struct kvm_vm *vm, uint32_t id,
				       uint64_t config, uint64_t period);
int64_t pv_open_event(struct kvm_vm *vm, uint32_t vcpuid);

/* As above, but abort the test on failure */
void pv_open_stat(struct kvm_vm *vm, uint32_t id, const char *name);
void pv_open_clock(struct kvm_vm *vm, uint32_t id, uint64_t period);
void pv_reset(struct kvm_vm *vm);

void pv_forget_nmis(struct kvm_vm *vm);

/* Let the vCPU run for a while, by its own clock: the machine may be slow. */
void pv_run_for(struct kvm_vm *vm, uint64_t ns);

/* Interrupt KVM_RUN of vCPU 0, as a VMM does before it saves guest memory. */
void pv_interrupt(struct kvm_vm *vm);

/* Write kvmclock's MSR back, as a VMM does when it resets or restores a vCPU. */
void pv_restore_clock(int vcpu_fd);

/* Tell the local APIC of vCPU 0 to INIT, and let it happen */
void pv_init_vcpu(struct kvm_vm *vm);

#endif /* SELFTEST_KVM_PV_PERF_H */
