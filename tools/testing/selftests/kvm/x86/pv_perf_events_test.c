// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the hypercall KVM_HC_PV_PERF: permission, statistics, clocks, NMIs, invalid
 * arguments, and the end of events when userspace restores the vCPU, at INIT, and in
 * another thread.
 */
#include <asm/kvm_para.h>
#include <fcntl.h>
#include <linux/kvm_para.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kvm_test_harness.h"
#include "kvm_util.h"
#include "processor.h"
#include "test_util.h"

#define X86_FEATURE_KVM_PV_PERF	KVM_X86_CPU_FEATURE(0x40000001, 0, EAX, 18)
#define PARAMETER		"/sys/module/kvm/parameters/pv_perf"
#define MIN_PERIOD		KVM_PV_PERF_MIN_PERIOD
/* Longer than the time from an NMI to the next hypercall */
#define PERIOD			(50 * MIN_PERIOD)
/* An address without memory */
#define NOWHERE			0x800000000ull

/* Not operations: spin until an NMI, or for some seconds; write kvmclock's MSR. */
#define WAIT_FOR_NMI		(-1ull)
#define WRITE_CLOCK		(-2ull)
#define MAX_SPINS		300000000

static uint64_t op, arg1, arg2;
static int64_t ret;
static uint64_t nmis;
static struct kvm_pv_perf_info info;
static struct kvm_pv_perf_attr attr;
static struct kvm_pv_perf_slot slot __aligned(32);
/* The slot around the hypercall; KVM writes it again when the exit to userspace is completed. */
static struct kvm_pv_perf_slot before, seen;

static void count_nmi(struct ex_regs *regs)
{
	WRITE_ONCE(nmis, nmis + 1);
}

static void guest_code(void)
{
	uint64_t i;

	for (;;) {
		for (i = 0; op == WAIT_FOR_NMI && i < MAX_SPINS && !READ_ONCE(nmis); i++)
			;
		if (op == WRITE_CLOCK)
			wrmsr(MSR_KVM_SYSTEM_TIME_NEW, 0);
		before = slot;
		barrier();
		ret = kvm_hypercall(KVM_HC_PV_PERF, op, arg1, arg2, 0);
		barrier();
		seen = slot;
		GUEST_SYNC(0);
	}
}

static int64_t call(struct kvm_vcpu *vcpu, uint64_t new_op, uint64_t new_arg1)
{
	struct ucall uc;

	op = new_op;
	arg1 = new_arg1;
	sync_global_to_guest(vcpu->vm, op);
	sync_global_to_guest(vcpu->vm, arg1);
	vcpu_run(vcpu);
	TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);
	TEST_ASSERT_EQ(get_ucall(vcpu, &uc), UCALL_SYNC);
	sync_global_from_guest(vcpu->vm, ret);
	sync_global_from_guest(vcpu->vm, slot);
	sync_global_from_guest(vcpu->vm, before);
	sync_global_from_guest(vcpu->vm, seen);
	return ret;
}

static uint64_t gpa_of(struct kvm_vcpu *vcpu, void *address)
{
	return addr_gva2gpa(vcpu->vm, (unsigned long)address);
}

static int64_t query(struct kvm_vcpu *vcpu)
{
	return call(vcpu, KVM_PV_PERF_QUERY, gpa_of(vcpu, &info));
}

static int64_t open_event(struct kvm_vcpu *vcpu)
{
	sync_global_to_guest(vcpu->vm, attr);
	return call(vcpu, KVM_PV_PERF_OPEN, gpa_of(vcpu, &attr));
}

static void prepare_stat(struct kvm_vcpu *vcpu, const char *name)
{
	attr = (struct kvm_pv_perf_attr) {
		.size = sizeof(attr),
		.id = 3,
		.type = KVM_PV_PERF_TYPE_STAT,
		.flags = KVM_PV_PERF_ENABLED,
		.slot = gpa_of(vcpu, &slot),
	};
	snprintf(attr.name, sizeof(attr.name), "%s", name);
}

static void prepare_clock(struct kvm_vcpu *vcpu, uint64_t period)
{
	prepare_stat(vcpu, "");
	attr.type = KVM_PV_PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_TASK_CLOCK;
	attr.period = period;
}

static void set_parameter(char value)
{
	int fd = open(PARAMETER, O_WRONLY);

	TEST_ASSERT_EQ(pwrite(fd, &value, 1, 0), 1);
	close(fd);
}

/* The library keeps what KVM supported when it asked first. */
static bool is_supported(void)
{
	struct kvm_cpuid2 *cpuid = allocate_kvm_cpuid2(MAX_NR_CPUID_ENTRIES);
	int fd = open_kvm_dev_path_or_exit(), i;
	bool found = false;

	kvm_ioctl(fd, KVM_GET_SUPPORTED_CPUID, cpuid);
	for (i = 0; i < cpuid->nent; i++)
		found |= cpuid->entries[i].function == KVM_CPUID_FEATURES &&
			 cpuid->entries[i].eax & (1 << KVM_FEATURE_PV_PERF);
	free(cpuid);
	close(fd);
	return found;
}

static uint64_t read_stat(struct kvm_vcpu *vcpu, const char *name)
{
	int fd = vcpu_get_stats_fd(vcpu), i;
	struct kvm_stats_desc *descs, *desc;
	struct kvm_stats_header header;
	uint64_t value = -1;

	read_stats_header(fd, &header);
	descs = read_stats_descriptors(fd, &header);
	for (i = 0; i < header.num_desc; i++) {
		desc = get_stats_descriptor(descs, i, &header);
		if (!strcmp(desc->name, name))
			read_stat_data(fd, &header, desc, &value, 1);
	}
	free(descs);
	close(fd);
	return value;
}

static uint64_t get_thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Clocks also count in userspace, where KVM neither writes slots nor injects NMIs. */
static void spin(uint64_t ns)
{
	const uint64_t end = get_thread_ns() + ns;

	while (get_thread_ns() < end)
		;
}

KVM_ONE_VCPU_TEST_SUITE(pv_perf_events);

KVM_ONE_VCPU_TEST(pv_perf_events, needs_the_parameter, guest_code)
{
	bool supported = is_supported(), supported_without;
	struct kvm_vcpu *other;
	struct kvm_vm *vm;
	int64_t r;

	set_parameter('N');
	supported_without = is_supported();
	r = query(vcpu);
	vm = vm_create_with_one_vcpu(&other, guest_code);
	set_parameter('Y');
	TEST_ASSERT(supported, "The parameter doesn't enable the feature");
	TEST_ASSERT(!supported_without, "The parameter doesn't disable the feature");
	TEST_ASSERT_EQ(r, 0);
	vcpu_set_cpuid_feature(other, X86_FEATURE_KVM_PV_PERF);
	TEST_ASSERT_EQ(query(other), -KVM_ENOSYS);
	kvm_vm_free(vm);
}

KVM_ONE_VCPU_TEST(pv_perf_events, needs_the_cpuid_bit, guest_code)
{
	vcpu_clear_cpuid_feature(vcpu, X86_FEATURE_KVM_PV_PERF);
	TEST_ASSERT_EQ(query(vcpu), -KVM_ENOSYS);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_RESET, 0), -KVM_ENOSYS);
}

KVM_ONE_VCPU_TEST(pv_perf_events, needs_the_cpuid_leaf, guest_code)
{
	vcpu_get_cpuid_entry(vcpu, KVM_CPUID_FEATURES)->function = KVM_CPUID_FEATURES + 0x10;
	vcpu_set_cpuid(vcpu);
	TEST_ASSERT_EQ(query(vcpu), -KVM_ENOSYS);
}

KVM_ONE_VCPU_TEST(pv_perf_events, needs_kvmclock, guest_code)
{
	vcpu_clear_cpuid_feature(vcpu, X86_FEATURE_KVM_CLOCKSOURCE);
	vcpu_clear_cpuid_feature(vcpu, X86_FEATURE_KVM_CLOCKSOURCE2);
	TEST_ASSERT_EQ(query(vcpu), -KVM_ENOSYS);
}

KVM_ONE_VCPU_TEST(pv_perf_events, query_describes_the_events, guest_code)
{
	struct kvm_stats_header header;
	int fd = vcpu_get_stats_fd(vcpu);

	read_stats_header(fd, &header);
	close(fd);
	TEST_ASSERT_EQ(query(vcpu), 0);
	sync_global_from_guest(vcpu->vm, info);
	TEST_ASSERT_EQ(info.version, KVM_PV_PERF_VERSION);
	TEST_ASSERT_EQ(info.max_events, KVM_PV_PERF_MAX_EVENTS);
	TEST_ASSERT_EQ(info.stats, header.num_desc);
	TEST_ASSERT_EQ(info.min_period, MIN_PERIOD);
}

KVM_ONE_VCPU_TEST(pv_perf_events, counts_a_statistic, guest_code)
{
	uint64_t count;
	uint32_t seq;

	prepare_stat(vcpu, "hypercalls");
	TEST_ASSERT_EQ(open_event(vcpu), 0);
	TEST_ASSERT_EQ(seen.state, KVM_PV_PERF_STATE_ON);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ, 3), 0);
	count = seen.count;
	seq = seen.seq;
	TEST_ASSERT_EQ(seq & 1, 0);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ_ALL, 1 << 3), 0);
	TEST_ASSERT_EQ(seen.count, count + 1);
	TEST_ASSERT_EQ(seen.seq, seq + 2);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ_ALL, 0), 0);
	TEST_ASSERT_EQ(seen.seq, before.seq);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ_ALL, 3 << 3), -KVM_ENOENT);
	TEST_ASSERT_EQ(seen.count, count + 3);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_ENABLE, 3), 0);
	TEST_ASSERT_EQ(seen.count, count + 4);

	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_DISABLE, 3), 0);
	TEST_ASSERT_EQ(seen.state, KVM_PV_PERF_STATE_OFF);
	count = seen.count;
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ, 3), 0);
	TEST_ASSERT_EQ(seen.count, count);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_ENABLE, 3), 0);
	TEST_ASSERT_EQ(seen.state, KVM_PV_PERF_STATE_ON);

	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_CLOSE, 3), 0);
	TEST_ASSERT_EQ(seen.state, KVM_PV_PERF_STATE_OFF);
	TEST_ASSERT_EQ(seen.count, count + 1);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ, 3), -KVM_ENOENT);
	TEST_ASSERT_EQ(open_event(vcpu), 0);
	TEST_ASSERT_EQ(seen.count, 0);
}

/* The owner of the host sees how many events are open. */
KVM_ONE_VCPU_TEST(pv_perf_events, are_a_statistic, guest_code)
{
	prepare_stat(vcpu, "exits");
	TEST_ASSERT_EQ(open_event(vcpu), 0);
	TEST_ASSERT_EQ(read_stat(vcpu, "pv_perf_events"), 1);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_CLOSE, 3), 0);
	TEST_ASSERT_EQ(read_stat(vcpu, "pv_perf_events"), 0);
}

/* The events since the slot was last written are lost, those before are not. */
KVM_ONE_VCPU_TEST(pv_perf_events, count_on_after_a_statistic_is_cleared, guest_code)
{
	char path[128];
	uint64_t count;
	int fd, i;

	snprintf(path, sizeof(path), "/sys/kernel/debug/kvm/%d-%d/hypercalls", getpid(),
		 vcpu->vm->fd);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		exit(KSFT_SKIP);
	for (i = 0; i < 10; i++)
		TEST_ASSERT_EQ(query(vcpu), 0);
	prepare_stat(vcpu, "hypercalls");
	TEST_ASSERT_EQ(open_event(vcpu), 0);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ, 3), 0);
	count = seen.count;
	TEST_ASSERT_EQ(write(fd, "0", 1), 1);
	close(fd);
	TEST_ASSERT_EQ(query(vcpu), 0);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ, 3), 0);
	TEST_ASSERT(seen.count > count && seen.count <= count + 3,
		    "The count was %lu, and is %lu", count, (uint64_t)seen.count);
}

KVM_ONE_VCPU_TEST(pv_perf_events, opens_a_disabled_clock, guest_code)
{
	int i;

	prepare_clock(vcpu, 0);
	attr.flags = 0;
	TEST_ASSERT_EQ(open_event(vcpu), 0);
	for (i = 0; i < 1000; i++)
		TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ, 3), 0);
	TEST_ASSERT_EQ(slot.state, KVM_PV_PERF_STATE_OFF);
	TEST_ASSERT_EQ(slot.count, 0);
}

KVM_ONE_VCPU_TEST(pv_perf_events, counts_a_clock, guest_code)
{
	uint64_t count;

	prepare_clock(vcpu, 0);
	TEST_ASSERT_EQ(open_event(vcpu), 0);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ, 3), 0);
	/* The clock may stand until the next tick of the host. */
	for (count = slot.count; slot.count == count; )
		TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ, 3), 0);
	TEST_ASSERT_EQ(slot.overflows, 0);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_RESET, 0), 0);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ, 3), -KVM_ENOENT);
}

KVM_ONE_VCPU_TEST(pv_perf_events, opens_a_statistic_after_a_clock, guest_code)
{
	prepare_clock(vcpu, 0);
	TEST_ASSERT_EQ(open_event(vcpu), 0);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_CLOSE, 3), 0);
	prepare_stat(vcpu, "hypercalls");
	TEST_ASSERT_EQ(open_event(vcpu), 0);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ, 3), 0);
	TEST_ASSERT(seen.count < 10, "%lu hypercalls are counted", (uint64_t)seen.count);
}

KVM_ONE_VCPU_TEST(pv_perf_events, injects_an_nmi_after_a_period, guest_code)
{
	uint64_t count;
	int i;

	vm_install_exception_handler(vcpu->vm, NMI_VECTOR, count_nmi);
	prepare_clock(vcpu, PERIOD);
	/* Twice: the second event has the id of the first one, and none of its overflows. */
	for (i = 0; i < 2; i++) {
		nmis = 0;
		sync_global_to_guest(vcpu->vm, nmis);
		TEST_ASSERT_EQ(open_event(vcpu), 0);
		TEST_ASSERT_EQ(slot.overflows, 0);
		call(vcpu, WAIT_FOR_NMI, 0);
		TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_DISABLE, 3), 0);
		sync_global_from_guest(vcpu->vm, nmis);
		count = slot.count;
		TEST_ASSERT(nmis, "No NMI");
		TEST_ASSERT(slot.overflows >= nmis, "%lu NMIs for %lu overflows", nmis,
			    (uint64_t)slot.overflows);
		TEST_ASSERT(count >= slot.overflows * PERIOD &&
			    count < (slot.overflows + 1) * PERIOD,
			    "count is %lu for %lu overflows", count, (uint64_t)slot.overflows);
		TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_CLOSE, 3), 0);
	}
}

KVM_ONE_VCPU_TEST(pv_perf_events, reports_an_overflow_with_its_nmi, guest_code)
{
	vm_install_exception_handler(vcpu->vm, NMI_VECTOR, count_nmi);
	prepare_clock(vcpu, PERIOD);
	TEST_ASSERT_EQ(open_event(vcpu), 0);
	spin(2 * PERIOD);
	vcpu_run_complete_io(vcpu);
	sync_global_from_guest(vcpu->vm, slot);
	TEST_ASSERT(slot.count > PERIOD, "count is %lu", (uint64_t)slot.count);
	TEST_ASSERT_EQ(slot.overflows, 0);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_DISABLE, 3), 0);
	sync_global_from_guest(vcpu->vm, nmis);
	TEST_ASSERT(nmis && slot.overflows >= nmis, "%lu NMIs for %lu overflows", nmis,
		    (uint64_t)slot.overflows);
}

KVM_ONE_VCPU_TEST(pv_perf_events, end_a_halt_by_their_nmi, guest_code)
{
	struct kvm_mp_state halted = { .mp_state = KVM_MP_STATE_HALTED };

	vm_install_exception_handler(vcpu->vm, NMI_VECTOR, count_nmi);
	prepare_clock(vcpu, PERIOD);
	TEST_ASSERT_EQ(open_event(vcpu), 0);
	spin(2 * PERIOD);
	vcpu_mp_state_set(vcpu, &halted);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_DISABLE, 3), 0);
	sync_global_from_guest(vcpu->vm, nmis);
	TEST_ASSERT(nmis, "No NMI");
}

KVM_ONE_VCPU_TEST(pv_perf_events, rejects_invalid_arguments, guest_code)
{
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ, 3), -KVM_ENOENT);
	prepare_stat(vcpu, "exits");
	attr.size--;
	TEST_ASSERT_EQ(open_event(vcpu), -KVM_EINVAL);
	prepare_stat(vcpu, "exits");
	attr.pad = 1;
	TEST_ASSERT_EQ(open_event(vcpu), -KVM_EINVAL);
	prepare_stat(vcpu, "exits");
	attr.flags |= 2;
	TEST_ASSERT_EQ(open_event(vcpu), -KVM_EINVAL);
	prepare_stat(vcpu, "exits");
	attr.slot += 16;
	TEST_ASSERT_EQ(open_event(vcpu), -KVM_EINVAL);
	prepare_stat(vcpu, "exits");
	attr.slot = NOWHERE;
	TEST_ASSERT_EQ(open_event(vcpu), -KVM_EFAULT);
	prepare_stat(vcpu, "exits");
	attr.id = KVM_PV_PERF_MAX_EVENTS;
	TEST_ASSERT_EQ(open_event(vcpu), -KVM_E2BIG);
	prepare_stat(vcpu, "no such statistic");
	TEST_ASSERT_EQ(open_event(vcpu), -KVM_ENOENT);
	prepare_stat(vcpu, "exits");
	memset(attr.name, 'x', sizeof(attr.name));
	TEST_ASSERT_EQ(open_event(vcpu), -KVM_EINVAL);
	prepare_stat(vcpu, "exits");
	attr.config = 1;
	TEST_ASSERT_EQ(open_event(vcpu), -KVM_EINVAL);
	prepare_stat(vcpu, "exits");
	attr.period = MIN_PERIOD;
	TEST_ASSERT_EQ(open_event(vcpu), -KVM_EOPNOTSUPP);
	/* Its value may decrease. */
	prepare_stat(vcpu, "blocking");
	TEST_ASSERT_EQ(open_event(vcpu), -KVM_EOPNOTSUPP);
	prepare_clock(vcpu, MIN_PERIOD - 1);
	TEST_ASSERT_EQ(open_event(vcpu), -KVM_EOPNOTSUPP);
	prepare_clock(vcpu, 1ull << 63);
	TEST_ASSERT_EQ(open_event(vcpu), -KVM_EOPNOTSUPP);
	prepare_clock(vcpu, 0);
	attr.name[0] = 'x';
	TEST_ASSERT_EQ(open_event(vcpu), -KVM_EINVAL);
	prepare_clock(vcpu, 0);
	attr.config = PERF_COUNT_SW_CONTEXT_SWITCHES;
	TEST_ASSERT_EQ(open_event(vcpu), -KVM_EOPNOTSUPP);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ, 3), -KVM_ENOENT);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ, KVM_PV_PERF_MAX_EVENTS), -KVM_E2BIG);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ_ALL, 1 << KVM_PV_PERF_MAX_EVENTS), -KVM_E2BIG);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ_ALL + 1, 0), -KVM_EINVAL);

	prepare_stat(vcpu, "exits");
	TEST_ASSERT_EQ(open_event(vcpu), 0);
	TEST_ASSERT_EQ(open_event(vcpu), -KVM_EEXIST);
}

KVM_ONE_VCPU_TEST(pv_perf_events, end_when_kvmclock_is_restored, guest_code)
{
	struct kvm_pv_perf_slot before;
	struct kvm_mp_state mp_state;

	prepare_clock(vcpu, 0);
	TEST_ASSERT_EQ(open_event(vcpu), 0);
	before = slot;
	spin(MIN_PERIOD);
	vcpu_mp_state_get(vcpu, &mp_state);
	sync_global_from_guest(vcpu->vm, slot);
	TEST_ASSERT(!memcmp(&slot, &before, sizeof(slot)), "KVM_GET_MP_STATE writes the slot");
	vcpu_mp_state_set(vcpu, &mp_state);
	/* Nor do events end if the guest itself writes the MSR. */
	call(vcpu, WRITE_CLOCK, 0);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ, 3), 0);

	before = slot;
	spin(MIN_PERIOD);
	vcpu_set_msr(vcpu, MSR_KVM_SYSTEM_TIME_NEW, 0);
	sync_global_from_guest(vcpu->vm, slot);
	TEST_ASSERT(!memcmp(&slot, &before, sizeof(slot)), "KVM_SET_MSRS writes the slot");
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ, 3), -KVM_ENOENT);
}

static void *read_in_thread(void *vcpu)
{
	return (void *)(long)call(vcpu, KVM_PV_PERF_READ, 3);
}

KVM_ONE_VCPU_TEST(pv_perf_events, end_in_another_thread, guest_code)
{
	pthread_t thread;
	uint64_t count;
	void *result;

	prepare_clock(vcpu, 0);
	TEST_ASSERT_EQ(open_event(vcpu), 0);
	count = slot.count;
	spin(PERIOD);
	TEST_ASSERT(!pthread_create(&thread, NULL, read_in_thread, vcpu),
		    "pthread_create() failed");
	pthread_join(thread, &result);
	TEST_ASSERT_EQ((long)result, -KVM_ENOENT);
	TEST_ASSERT(slot.count >= count + PERIOD, "The slot is not written");
}

KVM_ONE_VCPU_TEST(pv_perf_events, end_at_init, guest_code)
{
	struct kvm_pv_perf_slot before;
	struct kvm_vcpu_events events;
	struct kvm_mp_state mp_state;
	struct kvm_sregs sregs;
	struct kvm_regs regs, reset_regs;

	prepare_clock(vcpu, 0);
	TEST_ASSERT_EQ(open_event(vcpu), 0);
	before = slot;
	spin(MIN_PERIOD);
	vcpu_sregs_get(vcpu, &sregs);
	vcpu_regs_get(vcpu, &regs);
	vcpu_events_get(vcpu, &events);
	events.flags |= KVM_VCPUEVENT_VALID_SMM;
	events.smi.latched_init = 1;
	vcpu_events_set(vcpu, &events);
	/* This handles the INIT. */
	vcpu_mp_state_get(vcpu, &mp_state);
	vcpu_regs_get(vcpu, &reset_regs);
	TEST_ASSERT_EQ(reset_regs.rip, 0xfff0);
	sync_global_from_guest(vcpu->vm, slot);
	TEST_ASSERT(!memcmp(&slot, &before, sizeof(slot)), "INIT writes the slot");
	vcpu_sregs_set(vcpu, &sregs);
	vcpu_regs_set(vcpu, &regs);
	TEST_ASSERT_EQ(call(vcpu, KVM_PV_PERF_READ, 3), -KVM_ENOENT);
}

int main(int argc, char *argv[])
{
	int fd = open(PARAMETER, O_RDONLY), r;
	char before;

	__TEST_REQUIRE(fd >= 0 && read(fd, &before, 1) == 1, "no module parameter pv_perf of kvm");
	set_parameter('Y');
	r = test_harness_run(argc, argv);
	set_parameter(before);
	return r;
}
