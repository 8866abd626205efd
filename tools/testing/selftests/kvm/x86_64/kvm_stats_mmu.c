// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the statistics of page faults, mappings, TLB flushes, directed yields and
 * exits for MSRs
 *
 * A guest causes each of them a known number of times, and the counters have to
 * move by just that.
 */
#define _GNU_SOURCE
#include <linux/bitmap.h>
#include <linux/compiler.h>
#include <linux/kvm_para.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kselftest.h"
#include "kvm_stats.h"
#include "kvm_util.h"
#include "processor.h"
#include "stats_test.h"
#include "test_util.h"

#define VCPU_ID		0
#define SPINNING_VCPU_ID 1
#define RACING_VCPU_ID	2
#define NO_VCPU_ID	77

#define PAGE		4096ull
#define SLOT		10
#define MEMORY		0x40000000ull	/* guest physical and virtual address */
#define PAGES		64
/* The last one is touched first, so that the guest's own page tables are mapped. */
#define WARM		(PAGES - 1)
#define MMIO		0x60000000ull
/* Mapped after the memory for the guest, a page of each large page */
#define LARGE		(MEMORY + PAGES * PAGE)
#define LARGE_SLOT	11
#define LARGE_MEMORY	0x100000000ull	/* guest physical address */
#define SIZE_2M		0x200000ull
#define SIZE_1G		0x40000000ull
#define EFER_NXE	0x800ull

#ifndef KVM_HC_SCHED_YIELD
#define KVM_HC_SCHED_YIELD	11
#endif

enum operation { WRITE, RACE, SWITCH_WP, SWITCH_NX, YIELD };

/* What the guest does next; both are synchronized with the guest before it runs. */
static enum operation operation;
static uint64_t address, count;
/* Written by the vCPU that spins */
static uint64_t spins;
/* How many pages each of two vCPUs has come to that touch the same ones at once */
static uint64_t came_to[2];

static void touch_together(unsigned int self, uint64_t from, uint64_t to)
{
	uint64_t i;

	for (i = from; i < to; i++) {
		WRITE_ONCE(came_to[self], i + 1);
		while (READ_ONCE(came_to[!self]) <= i)
			continue;
		WRITE_ONCE(*(uint64_t *)(MEMORY + i % PAGES * PAGE), i);
	}
}

static void guest_operates(void)
{
	uint64_t i;

	for (;;) {
		switch (READ_ONCE(operation)) {
		case WRITE:
			for (i = 0; i < READ_ONCE(count); i++)
				WRITE_ONCE(*(uint64_t *)(READ_ONCE(address) + i * PAGE), i);
			break;
		case RACE:
			i = READ_ONCE(came_to[0]);
			touch_together(0, i, i + PAGES);
			/* The other one has touched the last page when it comes to the next. */
			while (READ_ONCE(came_to[1]) <= i + PAGES)
				continue;
			break;
		case SWITCH_WP:
			asm volatile("mov %0, %%cr0" : : "r" (get_cr0() ^ X86_CR0_WP));
			break;
		case SWITCH_NX:
			wrmsr(MSR_EFER, rdmsr(MSR_EFER) ^ EFER_NXE);
			break;
		case YIELD:
			for (i = 0; i < READ_ONCE(count); i++) {
				long nr = KVM_HC_SCHED_YIELD;

				/* KVM replaces it by VMMCALL on AMD, the first time. */
				asm volatile("vmcall"
					     : "+a" (nr)
					     : "b" (READ_ONCE(address))
					     : "memory");
			}
			break;
		}
		GUEST_SYNC(0);
	}
}

static void guest_counts(void)
{
	for (;;)
		WRITE_ONCE(spins, spins + 1);
}

static void guest_races(void)
{
	touch_together(1, 0, UINT64_MAX);
}

static const char * const names[] = {
	"pf_taken", "pf_fixed", "pf_fast", "pf_emulate", "pf_spurious",
	"pf_mmio_spte_created", "mmio_exits", "directed_yield_attempted",
	"directed_yield_successful",
	/* Statistics of the VM */
	"pages_4k", "pages_2m", "pages_1g", "lpages", "max_mmu_rmap_size",
	"remote_tlb_flush_requests", "remote_tlb_flush",
};

#define FIRST_OF_VM	9

static struct kvm_vm *vm;
static struct kvm_stats of_vm, of_vcpu;

struct moves {
	uint64_t value[ARRAY_SIZE(names)];
};

static struct moves read_all(void)
{
	struct moves now;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		now.value[i] = kvm_stats_value(i < FIRST_OF_VM ? &of_vcpu : &of_vm,
					       names[i]);
	return now;
}

/*
 * Whether since @before exactly the statistics in @want, "name amount ...", have
 * grown by these amounts, and no others.
 */
static void expect(const struct moves *before, const char *want, const char *when)
{
	const struct moves now = read_all();
	bool right = true;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		const char *at = want;
		long long by = 0;
		long long moved = now.value[i] - before->value[i];
		size_t len = strlen(names[i]);

		while ((at = strstr(at, names[i])) &&
		       (at[len] != ' ' || (at > want && at[-1] != ' ')))
			at++;
		if (at)
			by = atoll(at + len);
		if (moved == by)
			continue;
		ksft_print_msg("%s moved by %lld instead of %lld\n", names[i], moved, by);
		right = false;
	}
	ok(right, "%s: %s", when, *want ? want : "nothing moves");
}

/* Have the guest do something once; @mmio is how many exits it makes on the way. */
static void guest_does(enum operation what, uint64_t where, uint64_t times,
		       unsigned int mmio)
{
	struct kvm_run *run = vcpu_state(vm, VCPU_ID);

	operation = what;
	address = where;
	count = times;
	sync_global_to_guest(vm, operation);
	sync_global_to_guest(vm, address);
	sync_global_to_guest(vm, count);
	for (;;) {
		vcpu_run(vm, VCPU_ID);
		if (run->exit_reason == KVM_EXIT_IO)
			break;
		TEST_ASSERT(run->exit_reason == KVM_EXIT_MMIO && mmio--,
			    "Unexpected exit: %s", exit_reason_str(run->exit_reason));
	}
	TEST_ASSERT(!mmio, "%u exits for MMIO were not made", mmio);
}

static void add_memory(void)
{
	vm_userspace_mem_region_add(vm, VM_MEM_SRC_ANONYMOUS, MEMORY, SLOT, PAGES, 0);
	/* What the host has to fault in itself is faulted in now. */
	memset(addr_gpa2hva(vm, MEMORY), 1, PAGES * PAGE);
}

static void test_faults(void)
{
	struct moves before;

	guest_does(WRITE, MEMORY + WARM * PAGE, 1, 0);
	before = read_all();
	guest_does(WRITE, MEMORY, 32, 0);
	expect(&before, "pf_taken 32 pf_fixed 32 pages_4k 32", "32 pages are touched");

	before = read_all();
	guest_does(WRITE, MEMORY, 32, 0);
	expect(&before, "", "the pages are touched again");

	guest_does(WRITE, MMIO + WARM * PAGE, 1, 1);
	before = read_all();
	guest_does(WRITE, MMIO, 5, 5);
	expect(&before,
	       "pf_taken 5 pf_fixed 5 pf_emulate 5 pf_mmio_spte_created 5 mmio_exits 5",
	       "MMIO in 5 pages");
	before = read_all();
	guest_does(WRITE, MMIO, 5, 5);
	expect(&before, "mmio_exits 5", "MMIO in the same pages");
}

static void test_dirty_log(void)
{
	unsigned long *bitmap = bitmap_alloc(PAGES);
	struct moves before = read_all();
	int i;

	vm_mem_region_set_flags(vm, SLOT, KVM_MEM_LOG_DIRTY_PAGES);
	expect(&before, "remote_tlb_flush_requests 1", "dirty logging begins");

	before = read_all();
	guest_does(WRITE, MEMORY, 32, 0);
	expect(&before, "pf_taken 32 pf_fast 32", "32 pages become dirty");

	for (i = 0; i < 5; i++) {
		before = read_all();
		kvm_vm_get_dirty_log(vm, SLOT, bitmap);
		expect(&before, "remote_tlb_flush_requests 1", "the log of the pages is read");
		guest_does(WRITE, MEMORY, 1 + i, 0);
	}
	kvm_vm_get_dirty_log(vm, SLOT, bitmap);
	before = read_all();
	kvm_vm_get_dirty_log(vm, SLOT, bitmap);
	expect(&before, "", "an empty log is read");

	vm_mem_region_set_flags(vm, SLOT, 0);
	free(bitmap);
}

/* Each state of the CPU has separate page tables, and a root for them. */
static void test_aliases(void)
{
	struct moves before;

	ok(!kvm_stats_value(&of_vm, "max_mmu_rmap_size"),
	   "max_mmu_rmap_size is 0 while pages have one mapping");

	guest_does(SWITCH_WP, 0, 0, 0);
	guest_does(WRITE, MEMORY + WARM * PAGE, 1, 0);
	ok(kvm_stats_value(&of_vm, "max_mmu_rmap_size") == 1,
	   "max_mmu_rmap_size is %llu after pages got a second mapping",
	   (unsigned long long)kvm_stats_value(&of_vm, "max_mmu_rmap_size"));
	before = read_all();
	guest_does(WRITE, MEMORY, 32, 0);
	expect(&before, "pf_taken 32 pf_fixed 32 pages_4k 32",
	       "32 pages get a second mapping");

	guest_does(SWITCH_NX, 0, 0, 0);
	ok(kvm_stats_value(&of_vm, "max_mmu_rmap_size") == 2,
	   "max_mmu_rmap_size is %llu after pages got a third mapping",
	   (unsigned long long)kvm_stats_value(&of_vm, "max_mmu_rmap_size"));

	guest_does(SWITCH_NX, 0, 0, 0);
	guest_does(SWITCH_WP, 0, 0, 0);
	guest_does(WRITE, MEMORY, 32, 0);
	before = read_all();
	guest_does(WRITE, MEMORY, 32, 0);
	expect(&before, "", "the first mappings are used again");
}

static void test_2m(void)
{
	struct moves before;

	vm_userspace_mem_region_add(vm, VM_MEM_SRC_ANONYMOUS_THP, LARGE_MEMORY, LARGE_SLOT,
				    2 * SIZE_2M / PAGE, 0);
	memset(addr_gpa2hva(vm, LARGE_MEMORY), 1, 2 * SIZE_2M);
	virt_map(vm, LARGE, LARGE_MEMORY, 1, 0);
	virt_map(vm, LARGE + PAGE, LARGE_MEMORY + SIZE_2M, 1, 0);

	before = read_all();
	guest_does(WRITE, LARGE, 2, 0);
	expect(&before, "pf_taken 2 pf_fixed 2 pages_2m 2 lpages 2",
	       "2 pages of 2 MB are touched");

	before = read_all();
	must_succeed(madvise(addr_gpa2hva(vm, LARGE_MEMORY), SIZE_2M, MADV_DONTNEED));
	expect(&before, "pages_2m -1 lpages -1 remote_tlb_flush_requests 1",
	       "the host takes one away");
	before = read_all();
	guest_does(WRITE, LARGE, 2, 0);
	expect(&before, "pf_taken 1 pf_fixed 1 pages_2m 1 lpages 1",
	       "the pages are touched again");

	before = read_all();
	vm_mem_region_set_flags(vm, LARGE_SLOT, KVM_MEM_LOG_DIRTY_PAGES);
	expect(&before, "remote_tlb_flush_requests 1", "dirty logging of them begins");
	before = read_all();
	guest_does(WRITE, LARGE, 2, 0);
	expect(&before,
	       "pf_taken 2 pf_fixed 2 pages_4k 2 pages_2m -2 lpages -2 remote_tlb_flush_requests 2",
	       "4 kB of each become dirty");
	vm_mem_region_delete(vm, LARGE_SLOT);
}

/* The library has no memory of such pages. */
static void test_1g(void)
{
	struct kvm_userspace_memory_region region = {
		.slot = LARGE_SLOT,
		.guest_phys_addr = LARGE_MEMORY,
		.memory_size = SIZE_1G,
	};
	void *memory = mmap(NULL, SIZE_1G, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 30 << MAP_HUGE_SHIFT,
			    -1, 0);
	struct moves before;

	if (memory == MAP_FAILED) {
		ksft_test_result_skip("the host has no page of 1 GB\n");
		return;
	}
	region.userspace_addr = (uintptr_t)memory;
	must_succeed(ioctl(vm_get_fd(vm), KVM_SET_USER_MEMORY_REGION, &region));

	/* Removing a slot removes all its mappings. */
	guest_does(WRITE, MEMORY + WARM * PAGE, 1, 0);
	before = read_all();
	guest_does(WRITE, LARGE, 1, 0);
	expect(&before, "pf_taken 1 pf_fixed 1 pages_1g 1 lpages 1",
	       "a page of 1 GB is touched");
	before = read_all();
	must_succeed(munmap(memory, SIZE_1G));
	expect(&before, "pages_1g -1 lpages -1 remote_tlb_flush_requests 1",
	       "the host takes it away");
	region.memory_size = 0;
	must_succeed(ioctl(vm_get_fd(vm), KVM_SET_USER_MEMORY_REGION, &region));
}

static void test_removal(void)
{
	vm_mem_region_delete(vm, SLOT);
	ok(!kvm_stats_value(&of_vm, "pages_4k") && !kvm_stats_value(&of_vm, "lpages"),
	   "pages_4k is %llu after a slot was removed",
	   (unsigned long long)kvm_stats_value(&of_vm, "pages_4k"));
	ok(kvm_stats_value(&of_vm, "max_mmu_rmap_size") == 2,
	   "max_mmu_rmap_size does not change when a slot is removed");
}

/* Bind this thread, and those that it creates, to one of the CPUs. */
static void run_on(const cpu_set_t *cpus, int nth)
{
	cpu_set_t one;
	int i;

	for (i = 0; nth || !CPU_ISSET(i, cpus); i++)
		nth -= CPU_ISSET(i, cpus);
	CPU_ZERO(&one);
	CPU_SET(i, &one);
	must_succeed(sched_setaffinity(0, sizeof(one), &one));
}

/*
 * If two vCPUs touch a page before either has mapped it, the second one finds it
 * mapped. This cannot be forced, but they can be synchronized page by page.
 */
static void test_spurious(void)
{
	static const char * const faults[] = { "pf_taken", "pf_fixed", "pf_spurious" };
	uint64_t moved[ARRAY_SIZE(faults)] = { }, pages = 0;
	const time_t end = time(NULL) + 60;
	struct kvm_stats of_racing;
	struct vcpu_thread thread;
	unsigned int i;
	cpu_set_t all;

	must_succeed(sched_getaffinity(0, sizeof(all), &all));
	if (CPU_COUNT(&all) == 1) {
		ksft_test_result_skip("one CPU: no two vCPUs touch a page at once\n");
		return;
	}
	add_memory();
	kvm_stats_open_getfd(&of_racing, vcpu_get_fd(vm, RACING_VCPU_ID), 0);
	run_on(&all, 1);
	vcpu_thread_start(&thread, vcpu_get_fd(vm, RACING_VCPU_ID));
	run_on(&all, 0);
	/* All other pages are mapped by now, except for those of the first round. */
	guest_does(RACE, 0, 0, 0);
	do {
		must_succeed(madvise(addr_gpa2hva(vm, MEMORY), PAGES * PAGE,
				     MADV_DONTNEED));
		memset(addr_gpa2hva(vm, MEMORY), 1, PAGES * PAGE);
		for (i = 0; i < ARRAY_SIZE(faults); i++)
			moved[i] -= kvm_stats_value(&of_vcpu, faults[i]) +
				    kvm_stats_value(&of_racing, faults[i]);
		guest_does(RACE, 0, 0, 0);
		pages += PAGES;
		for (i = 0; i < ARRAY_SIZE(faults); i++)
			moved[i] += kvm_stats_value(&of_vcpu, faults[i]) +
				    kvm_stats_value(&of_racing, faults[i]);
	} while (!moved[2] && time(NULL) < end);
	vcpu_thread_stop(&thread);
	must_succeed(sched_setaffinity(0, sizeof(all), &all));
	ok(moved[2] && moved[2] <= pages && moved[1] == pages && moved[0] == pages + moved[2],
	   "2 vCPUs touch %llu pages at once: pf_taken %llu pf_fixed %llu pf_spurious %llu",
	   (unsigned long long)pages, (unsigned long long)moved[0],
	   (unsigned long long)moved[1], (unsigned long long)moved[2]);
	kvm_stats_close(&of_racing);
	vm_mem_region_delete(vm, SLOT);
}

/* Two vCPUs share a CPU: one of them is ready while the other one runs. */
static void test_yields(void)
{
	const struct sched_param fifo = { .sched_priority = 1 }, other = { };
	struct kvm_run *run = vcpu_state(vm, SPINNING_VCPU_ID);
	int vcpu_fd = vcpu_get_fd(vm, SPINNING_VCPU_ID), i;
	struct kvm_lapic_state lapic;
	struct vcpu_thread thread;
	struct moves before;
	cpu_set_t all;

	/* Have the hypercall patched, and pages mapped. */
	guest_does(YIELD, NO_VCPU_ID, 1, 0);
	before = read_all();
	guest_does(YIELD, NO_VCPU_ID, 20, 0);
	expect(&before, "directed_yield_attempted 20", "yields to a vCPU that is not there");

	/* KVM looks for vCPUs by their APIC ids when something of an APIC is set. */
	must_succeed(ioctl(vcpu_fd, KVM_GET_LAPIC, &lapic));
	must_succeed(ioctl(vcpu_fd, KVM_SET_LAPIC, &lapic));

	must_succeed(sched_getaffinity(0, sizeof(all), &all));
	run_on(&all, 0);
	vcpu_thread_start(&thread, vcpu_fd);
	for (i = 0; i < 1000 && !spins; i++) {
		usleep(10000);
		sync_global_from_guest(vm, spins);
	}
	ok(spins && run->exit_reason == KVM_EXIT_UNKNOWN, "the other vCPU runs");

	before = read_all();
	guest_does(YIELD, SPINNING_VCPU_ID, 20, 0);
	expect(&before, "directed_yield_attempted 20 directed_yield_successful 20",
	       "yields to a vCPU that waits for the CPU");

	/* The scheduler does not yield to a thread of another scheduling class. */
	must_succeed(sched_setscheduler(0, SCHED_FIFO, &fifo));
	before = read_all();
	guest_does(YIELD, SPINNING_VCPU_ID, 20, 0);
	must_succeed(sched_setscheduler(0, SCHED_OTHER, &other));
	expect(&before, "directed_yield_attempted 20",
	       "yields to a waiting vCPU of another scheduling class");
	vcpu_thread_stop(&thread);
	must_succeed(sched_setaffinity(0, sizeof(all), &all));
}

/* Return the number of exits of the same MSR accesses, including host interrupts. */
static uint64_t exits_for_msrs(void)
{
	uint64_t least = UINT64_MAX, exits;
	int i;

	for (i = 0; i < 20; i++) {
		exits = kvm_stats_value(&of_vcpu, "exits");
		guest_does(SWITCH_NX, 0, 0, 0);
		guest_does(SWITCH_NX, 0, 0, 0);
		exits = kvm_stats_value(&of_vcpu, "exits") - exits;
		if (exits < least)
			least = exits;
	}
	return least;
}

/* An exit is one, through however many ranges of a filter KVM looks for its MSR. */
static void test_msr_filter(void)
{
	static uint8_t bitmap[8];
	struct kvm_msr_filter filter = { .flags = KVM_MSR_FILTER_DEFAULT_ALLOW };
	uint64_t without = exits_for_msrs(), with;
	int i;

	for (i = 0; i < 5; i++)
		filter.ranges[i] = (struct kvm_msr_filter_range) {
			.flags = KVM_MSR_FILTER_READ | KVM_MSR_FILTER_WRITE,
			.nmsrs = 8,
			.base = 0x40000000 + 8 * i,
			.bitmap = bitmap,
		};
	must_succeed(ioctl(vm_get_fd(vm), KVM_X86_SET_MSR_FILTER, &filter));
	with = exits_for_msrs();
	ok(with == without, "%llu exits for MSRs, %llu with a filter of 5 ranges",
	   (unsigned long long)without, (unsigned long long)with);
}

/* Shadow paging faults more often, and VMX logs dirty pages without faults. */
static bool has_nested_paging_of_amd(void)
{
	FILE *f = fopen("/sys/module/kvm_amd/parameters/npt", "r");
	int npt = f ? fgetc(f) : 0;

	if (f)
		fclose(f);
	return npt == '1' || npt == 'Y';
}

int main(int argc, char *argv[])
{
	setbuf(stdout, NULL);
	ksft_print_header();
	if (kvm_check_cap(KVM_CAP_STATS_BINARY_FD) == 0) {
		print_skip("KVM_CAP_STATS_BINARY_FD is not available");
		exit(KSFT_SKIP);
	}
	if (!has_nested_paging_of_amd()) {
		print_skip("this is not nested paging of AMD");
		exit(KSFT_SKIP);
	}

	vm = vm_create_default(VCPU_ID, 0, guest_operates);
	vcpu_set_cpuid(vm, VCPU_ID, kvm_get_supported_cpuid());
	vm_vcpu_add_default(vm, SPINNING_VCPU_ID, guest_counts);
	vm_vcpu_add_default(vm, RACING_VCPU_ID, guest_races);
	kvm_stats_open_getfd(&of_vm, vm_get_fd(vm), 0);
	kvm_stats_open_getfd(&of_vcpu, vcpu_get_fd(vm, VCPU_ID), 0);

	add_memory();
	virt_map(vm, MEMORY, MEMORY, PAGES, 0);
	virt_map(vm, MMIO, MMIO, PAGES, 0);
	test_faults();
	test_dirty_log();
	test_aliases();
	test_2m();
	test_1g();
	test_removal();
	test_spurious();
	test_yields();
	test_msr_filter();

	kvm_stats_close(&of_vm);
	kvm_stats_close(&of_vcpu);
	kvm_vm_free(vm);
	ksft_set_plan(ksft_test_num());
	ksft_exit(!ksft_get_fail_cnt());
}
