// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the paravirtual perf events that a guest opens with KVM_HC_PV_PERF
 *
 * Everything that Documentation/virt/kvm/pv-perf.rst promises is tried here, by
 * a guest that does what the host tells it to: mostly, to make one hypercall.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <asm/kvm_para.h>
#include <linux/kvm_para.h>

#include "kvm_util.h"
#include "processor.h"
#include "stats_test.h"
#include "test_util.h"

#define NR_VCPUS	2
#define NR_EVENTS	KVM_PV_PERF_MAX_EVENTS
#define PERIOD		KVM_PV_PERF_MIN_PERIOD
#define NMI_VECTOR	2

/* No guest memory is there, nor in the 4 GB around it */
#define NOWHERE		0x800000000ull

/* Memory that comes and goes */
#define EXTRA_SLOT	10
#define EXTRA_GPA	0x40000000ull

/* Memory that the guest can only read */
#define READONLY_SLOT	11
#define READONLY_GPA	0x50000000ull

/* No test takes as long, in seconds, however slow the machine is */
#define LIMIT		60

#define PARAMETER	"/sys/module/kvm/parameters/pv_perf"

/* What guest and host share; while the guest runs, only its NMIs change it. */
static struct guest {
	/* The host: what to do next */
	void (*func)(struct guest *guest);
	uint64_t op, a1, a2;
	uint64_t until;
	/* The guest: how it went */
	int64_t ret;
	uint64_t nmis;		/* that came */
	uint64_t hlt_nmis;	/* that came in a halt, from an overflow alone */
	uint64_t woken;		/* the host adds 1 before and after an NMI of its own */
	uint64_t woken_seen;	/* what that was at the last NMI */
	uint64_t stray;		/* that no overflow explains */
	uint64_t nested;	/* that came during another one */
	uint64_t seen;		/* overflows of event 0 that NMIs saw */
	uint64_t slow;		/* how many NMIs are still to be slow */
	uint64_t in_nmi;
	uint64_t after_hlt;	/* where a halt returns to */
} guests[NR_VCPUS];

static struct kvm_pv_perf_slot slots[NR_VCPUS][NR_EVENTS] __aligned(32);
static struct kvm_pv_perf_attr attrs[NR_VCPUS];
static struct kvm_pv_perf_info info;
static char desc[sizeof(struct kvm_stats_desc) + KVM_PV_PERF_NAME_SIZE];
static char nmi_stack[4096] __aligned(16);

/* Guest code */

static void cpu_relax(void)
{
	asm volatile("pause" : : : "memory");
}

/* Of event 0 of vCPU 0 */
static uint64_t overflows(void)
{
	return READ_ONCE(slots[0][0].overflows);
}

/* Nothing saves SSE registers for a handler: no two of these may become one. */
static void add(uint64_t *var, uint64_t n)
{
	WRITE_ONCE(*var, READ_ONCE(*var) + n);
}

/* Only vCPU 0 has events with a period. */
static void guest_nmi(struct ex_regs *regs)
{
	struct guest *guest = &guests[0];
	uint64_t now, woken;

	add(&guest->nested, READ_ONCE(guest->in_nmi));
	WRITE_ONCE(guest->in_nmi, 1);
	add(&guest->nmis, 1);
	if (READ_ONCE(guest->slow)) {
		add(&guest->slow, -1);
		/* As slow as it takes for more overflows to come meanwhile */
		now = overflows() + 2;
		while (overflows() < now)
			cpu_relax();
	}
	now = overflows();
	woken = READ_ONCE(guest->woken);
	if (now > READ_ONCE(guest->seen) &&
	    regs->rip == READ_ONCE(guest->after_hlt) &&
	    woken == READ_ONCE(guest->woken_seen))
		add(&guest->hlt_nmis, 1);
	WRITE_ONCE(guest->woken_seen, woken);
	WRITE_ONCE(guest->seen, now);
	add(&guest->stray, READ_ONCE(guest->nmis) > now);
	WRITE_ONCE(guest->in_nmi, 0);
}

static void guest_hypercall(struct guest *guest)
{
	guest->ret = kvm_hypercall(KVM_HC_PV_PERF, guest->op, guest->a1,
				   guest->a2, 0);
}

static void guest_cpuid(struct guest *guest)
{
	uint32_t eax, ebx, ecx, edx;
	uint64_t i;

	for (i = 0; i < guest->until; i++)
		__cpuid(0, eax, ebx, ecx, edx);
}

static void guest_busy(struct guest *guest)
{
	while (READ_ONCE(guest->nmis) < guest->until)
		cpu_relax();
}

static void guest_halt(struct guest *guest)
{
	uint64_t rip;

	while (READ_ONCE(guest->hlt_nmis) < guest->until) {
		asm volatile("lea 1f(%%rip), %0\n\t"
			     "mov %0, %1\n\t"
			     "cli\n\t"
			     "hlt\n"
			     "1:"
			     : "=&r" (rip), "=m" (guest->after_hlt) : : "memory");
	}
}

/* Open and close an event again and again */
static void guest_reopen(struct guest *guest)
{
	uint64_t i;

	for (i = 0; i < guest->until && !guest->ret; i++) {
		guest->ret = kvm_hypercall(KVM_HC_PV_PERF, KVM_PV_PERF_CLOSE,
					   guest->a2, 0, 0);
		if (!guest->ret)
			guest->ret = kvm_hypercall(KVM_HC_PV_PERF,
						   KVM_PV_PERF_OPEN,
						   guest->a1, 0, 0);
	}
}

static void guest_main(struct guest *guest)
{
	for (;;) {
		guest->func(guest);
		GUEST_SYNC(0);
	}
}

/* The guest's variables, as the host sees them */
#define in_guest(vm, var) \
	((typeof(var) *)addr_gva2hva(vm, (vm_vaddr_t)&(var)))

#define gpa_of(vm, var)	addr_gva2gpa(vm, (vm_vaddr_t)&(var))

static void too_late(int sig)
{
	ksft_exit_fail_msg("the guest hangs\n");
}

static void run(struct kvm_vm *vm, uint32_t vcpuid,
		void (*func)(struct guest *guest))
{
	int r;

	in_guest(vm, guests[vcpuid])->func = func;
	alarm(LIMIT);
	r = ioctl(vcpu_get_fd(vm, vcpuid), KVM_RUN, NULL);
	TEST_ASSERT(!r, "KVM_RUN failed, errno: %i", errno);
	TEST_ASSERT(get_ucall(vm, vcpuid, NULL) == UCALL_SYNC,
		    "Exit reason %u (%s)", vcpu_state(vm, vcpuid)->exit_reason,
		    exit_reason_str(vcpu_state(vm, vcpuid)->exit_reason));
	alarm(0);
}

static void run_until(struct kvm_vm *vm, uint32_t vcpuid,
		      void (*func)(struct guest *guest), uint64_t until)
{
	in_guest(vm, guests[vcpuid])->until = until;
	run(vm, vcpuid, func);
}

/* What the hypercall returns to the guest */
static int64_t call(struct kvm_vm *vm, uint32_t vcpuid, uint64_t op, uint64_t a1,
		    uint64_t a2)
{
	struct guest *guest = in_guest(vm, guests[vcpuid]);

	guest->op = op;
	guest->a1 = a1;
	guest->a2 = a2;
	run(vm, vcpuid, guest_hypercall);
	return guest->ret;
}

static int64_t event_op(struct kvm_vm *vm, uint64_t op, uint64_t id)
{
	return call(vm, 0, op, id, 0);
}

static struct kvm_pv_perf_slot *slot(struct kvm_vm *vm, uint32_t id)
{
	return in_guest(vm, slots[0][id]);
}

/* The count of event @id of vCPU 0 after a READ */
static uint64_t count(struct kvm_vm *vm, uint32_t id)
{
	int64_t r = event_op(vm, KVM_PV_PERF_READ, id);

	TEST_ASSERT(!r, "READ of event %u returned %ld", id, r);
	return slot(vm, id)->count;
}

/* An event as it should be: for tests to change and to open */
static struct kvm_pv_perf_attr *attr(struct kvm_vm *vm, uint32_t vcpuid,
				     uint32_t id, uint32_t type)
{
	struct kvm_pv_perf_attr *attr = in_guest(vm, attrs[vcpuid]);

	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
	attr->id = id;
	attr->type = type;
	attr->flags = KVM_PV_PERF_ENABLED;
	attr->slot = gpa_of(vm, slots[vcpuid][id]);
	return attr;
}

static struct kvm_pv_perf_attr *stat_attr(struct kvm_vm *vm, uint32_t id,
					  const char *name)
{
	struct kvm_pv_perf_attr *stat = attr(vm, 0, id, KVM_PV_PERF_TYPE_STAT);

	strcpy(stat->name, name);
	return stat;
}

static struct kvm_pv_perf_attr *clock_attr(struct kvm_vm *vm, uint32_t id,
					   uint64_t config, uint64_t period)
{
	struct kvm_pv_perf_attr *clock = attr(vm, 0, id,
					      KVM_PV_PERF_TYPE_SOFTWARE);

	clock->config = config;
	clock->period = period;
	return clock;
}

/* Open what attr() prepared */
static int64_t open_event(struct kvm_vm *vm, uint32_t vcpuid)
{
	return call(vm, vcpuid, KVM_PV_PERF_OPEN, gpa_of(vm, attrs[vcpuid]), 0);
}

static void open_stat(struct kvm_vm *vm, uint32_t id, const char *name)
{
	int64_t r;

	stat_attr(vm, id, name);
	r = open_event(vm, 0);
	TEST_ASSERT(!r, "OPEN of %s returned %ld", name, r);
}

static void open_clock(struct kvm_vm *vm, uint32_t id, uint64_t period)
{
	int64_t r;

	clock_attr(vm, id, PERF_COUNT_SW_CPU_CLOCK, period);
	r = open_event(vm, 0);
	TEST_ASSERT(!r, "OPEN of a clock returned %ld", r);
}

static void reset(struct kvm_vm *vm)
{
	int64_t r = call(vm, 0, KVM_PV_PERF_RESET, 0, 0);

	TEST_ASSERT(!r, "RESET returned %ld", r);
}

/* The NMI's handler has a stack of its own: user space code has a red zone. */
static void give_nmi_a_stack(struct kvm_vm *vm)
{
	const size_t idt_entry_size = 16, ist_in_entry = 4, ist1_in_tss = 36;
	uint64_t top = (uint64_t)nmi_stack + sizeof(nmi_stack);
	struct kvm_sregs sregs;

	vcpu_sregs_get(vm, 0, &sregs);
	*((char *)addr_gva2hva(vm, sregs.idt.base + NMI_VECTOR * idt_entry_size) +
	  ist_in_entry) = 1;
	memcpy((char *)addr_gva2hva(vm, sregs.tr.base) + ist1_in_tss, &top,
	       sizeof(top));
}

static struct kvm_vm *create_vm(void)
{
	struct kvm_vm *vm = vm_create_default(0, 0, guest_main);
	uint32_t i;

	vm_vcpu_add_default(vm, 1, guest_main);
	vm_init_descriptor_tables(vm);
	for (i = 0; i < NR_VCPUS; i++) {
		vcpu_set_cpuid(vm, i, kvm_get_supported_cpuid());
		vcpu_init_descriptor_tables(vm, i);
		vcpu_args_set(vm, i, 1, &guests[i]);
	}
	vm_handle_exception(vm, NMI_VECTOR, guest_nmi);
	give_nmi_a_stack(vm);
	return vm;
}

static char set_parameter(char value)
{
	FILE *file = fopen(PARAMETER, "r+");
	char old;

	if (!file || fread(&old, 1, 1, file) != 1)
		return 0;
	rewind(file);
	fwrite(&value, 1, 1, file);
	return fclose(file) ? 0 : old;
}

/* Not kvm_get_supported_cpuid(), which remembers what it once was */
static struct kvm_cpuid2 *supported_cpuid(void)
{
	const int nent = 256;
	int fd = open("/dev/kvm", O_RDWR);
	struct kvm_cpuid2 *cpuid;

	cpuid = calloc(1, sizeof(*cpuid) + nent * sizeof(cpuid->entries[0]));
	TEST_ASSERT(cpuid, "No memory");
	cpuid->nent = nent;
	TEST_ASSERT(!ioctl(fd, KVM_GET_SUPPORTED_CPUID, cpuid),
		    "KVM_GET_SUPPORTED_CPUID, errno: %i", errno);
	close(fd);
	return cpuid;
}

static uint32_t kvm_features(void)
{
	struct kvm_cpuid2 *cpuid = supported_cpuid();
	uint32_t i, features = 0;

	for (i = 0; i < cpuid->nent; i++) {
		if (cpuid->entries[i].function == KVM_CPUID_FEATURES)
			features = cpuid->entries[i].eax;
	}
	free(cpuid);
	return features;
}

/* As kvm-pv-enforce-cpuid=on does it in QEMU */
static void enforce_cpuid(struct kvm_vm *vm, uint32_t features)
{
	struct kvm_enable_cap cap = {
		.cap = KVM_CAP_ENFORCE_PV_FEATURE_CPUID,
		.args[0] = 1,
	};
	struct kvm_cpuid2 *cpuid = supported_cpuid();
	struct kvm_cpuid_entry2 entry = {
		.function = KVM_CPUID_FEATURES,
		.eax = features,
	};

	TEST_ASSERT(set_cpuid(cpuid, &entry), "No KVM_CPUID_FEATURES");
	vcpu_enable_cap(vm, 0, &cap);
	vcpu_set_cpuid(vm, 0, cpuid);
	free(cpuid);
}

/* Whether the guest finds it: 0, or the error it gets */
static int64_t query(struct kvm_vm *vm)
{
	return call(vm, 0, KVM_PV_PERF_QUERY, gpa_of(vm, info), 0);
}

static void test_absent(void)
{
	const uint32_t bit = 1 << KVM_FEATURE_PV_PERF;
	struct kvm_vm *old, *vm;

	set_parameter('N');
	ok(!(kvm_features() & bit), "off: the CPUID bit is not there");
	old = create_vm();
	ok(query(old) == -KVM_ENOSYS, "off: QUERY returns ENOSYS");
	ok(event_op(old, KVM_PV_PERF_RESET, 0) == -KVM_ENOSYS,
	   "off: RESET returns ENOSYS");

	set_parameter('Y');
	ok(kvm_features() & bit, "on: the CPUID bit is there");
	ok(query(old) == -KVM_ENOSYS,
	   "on: a VM created before goes on without it");
	kvm_vm_free(old);

	vm = create_vm();
	ok(!query(vm), "on: QUERY returns 0");
	enforce_cpuid(vm, kvm_features() & ~bit);
	ok(query(vm) == -KVM_ENOSYS, "CPUID enforced without the bit: ENOSYS");
	enforce_cpuid(vm, kvm_features());
	ok(!query(vm), "CPUID enforced with the bit: 0");
	kvm_vm_free(vm);
}

static void test_query(struct kvm_vm *vm)
{
	struct kvm_pv_perf_info *got = in_guest(vm, info);
	struct kvm_stats stats;
	uint32_t i, equal = 0;

	kvm_stats_open_stats_fd(&stats, vcpu_get_fd(vm, 0));
	memset(got, 0xff, sizeof(*got));
	ok(!query(vm) && got->version == KVM_PV_PERF_VERSION &&
	   got->max_events == NR_EVENTS && got->min_period == PERIOD &&
	   got->types == (1 << KVM_PV_PERF_TYPE_SOFTWARE |
			  1 << KVM_PV_PERF_TYPE_STAT) && !got->pad,
	   "QUERY: version, events, types, period");
	ok(got->stats == stats.count && stats.count,
	   "QUERY: %u statistics, as in the file", got->stats);

	for (i = 0; i < stats.count; i++) {
		equal += !call(vm, 0, KVM_PV_PERF_STAT_DESC, i, gpa_of(vm, desc)) &&
			 !memcmp(in_guest(vm, desc), kvm_stats_desc(&stats, i),
				 sizeof(desc));
	}
	ok(equal == stats.count && stats.desc_size == sizeof(desc),
	   "STAT_DESC: each descriptor as in the file");
	ok(call(vm, 0, KVM_PV_PERF_STAT_DESC, stats.count, gpa_of(vm, desc)) ==
	   -KVM_EINVAL, "STAT_DESC: index beyond the end");
	ok(call(vm, 0, KVM_PV_PERF_STAT_DESC, 1ull << 32, gpa_of(vm, desc)) ==
	   -KVM_EINVAL, "STAT_DESC: index of more than 32 bits");
	ok(call(vm, 0, KVM_PV_PERF_STAT_DESC, -1ull, gpa_of(vm, desc)) ==
	   -KVM_EINVAL, "STAT_DESC: largest index");
	kvm_stats_close(&stats);
}

/* A statistic of the kind that cannot be counted: its name, "" if none */
static const char *not_countable(struct kvm_stats *stats, bool several)
{
	uint32_t i;

	for (i = 0; i < stats->count; i++) {
		const struct kvm_stats_desc *desc = kvm_stats_desc(stats, i);
		uint32_t type = desc->flags & KVM_STATS_TYPE_MASK;

		if (several ? desc->size > 1 : type == KVM_STATS_TYPE_INSTANT)
			return desc->name;
	}
	return "";
}

static void test_bad_attr(struct kvm_vm *vm)
{
	struct kvm_stats stats;

#define bad(error, what, attr, change) do {				\
	struct kvm_pv_perf_attr *a = attr;				\
									\
	change;								\
	ok(open_event(vm, 0) == -(error), "OPEN: " what);		\
} while (0)
#define bad_stat(error, what, change) \
	bad(error, what, stat_attr(vm, 0, "exits"), change)
#define bad_clock(error, what, change) \
	bad(error, what, clock_attr(vm, 0, PERF_COUNT_SW_CPU_CLOCK, PERIOD), change)

	bad_stat(KVM_EINVAL, "size 0", a->size = 0);
	bad_stat(KVM_EINVAL, "size too small", a->size--);
	bad_stat(KVM_EINVAL, "size too large", a->size++);
	bad_stat(KVM_EINVAL, "unknown flag", a->flags |= 2);
	bad_stat(KVM_EINVAL, "highest flag", a->flags |= 1u << 31);
	bad_stat(KVM_EINVAL, "padding", a->pad = 1);
	bad_stat(KVM_EINVAL, "slot not aligned", a->slot += 16);
	bad_stat(KVM_E2BIG, "id 16", a->id = NR_EVENTS);
	bad_stat(KVM_E2BIG, "largest id", a->id = -1);
	bad_stat(KVM_EOPNOTSUPP, "type 0", a->type = 0);
	bad_stat(KVM_EOPNOTSUPP, "type 2", a->type = 2);
	bad_stat(KVM_EOPNOTSUPP, "type 17", a->type = 17);
	bad_stat(KVM_EOPNOTSUPP, "largest type", a->type = -1);

	bad_stat(KVM_EINVAL, "statistic with a config", a->config = 1);
	bad_stat(KVM_EOPNOTSUPP, "statistic with a period", a->period = PERIOD);
	bad_stat(KVM_EINVAL, "name without an end",
		 memset(a->name, 'a', sizeof(a->name)));
	bad_stat(KVM_ENOENT, "no name", a->name[0] = 0);
	bad_stat(KVM_ENOENT, "unknown name", a->name[0]++);
	bad_stat(KVM_ENOENT, "longest unknown name",
		 memset(a->name, 'a', sizeof(a->name) - 1));
	kvm_stats_open_stats_fd(&stats, vcpu_get_fd(vm, 0));
	bad(KVM_EOPNOTSUPP, "histogram",
	    stat_attr(vm, 0, not_countable(&stats, true)), a->flags = 0);
	bad(KVM_EOPNOTSUPP, "instant statistic",
	    stat_attr(vm, 0, not_countable(&stats, false)), a->flags = 0);
	kvm_stats_close(&stats);

	bad_clock(KVM_EINVAL, "clock with a name", strcpy(a->name, "exits"));
	bad_clock(KVM_EINVAL, "clock with a byte behind its name",
		  a->name[sizeof(a->name) - 1] = 1);
	bad_clock(KVM_EOPNOTSUPP, "context switches",
		  a->config = PERF_COUNT_SW_CONTEXT_SWITCHES);
	bad_clock(KVM_EOPNOTSUPP, "largest config", a->config = -1);
	bad_clock(KVM_EOPNOTSUPP, "period too short", a->period--);
	bad_clock(KVM_EOPNOTSUPP, "period 1", a->period = 1);
	bad_clock(KVM_EOPNOTSUPP, "period negative", a->period = 1ull << 63);
	bad_clock(KVM_EOPNOTSUPP, "largest period", a->period = -1);

	bad_stat(KVM_EFAULT, "slot nowhere", a->slot = NOWHERE);
	bad_stat(KVM_EFAULT, "slot at the end of the address space",
		 a->slot = -32ull);
	bad_stat(KVM_EFAULT, "slot in memory that is read-only",
		 a->slot = READONLY_GPA);
	bad_clock(KVM_EFAULT, "clock with its slot nowhere", a->slot = NOWHERE);
	ok(event_op(vm, KVM_PV_PERF_READ, 0) == -KVM_ENOENT,
	   "OPEN: nothing is open after all these");
}

static void test_bad_call(struct kvm_vm *vm)
{
	static const struct {
		uint64_t op;
		const char *name;
	} ops[] = {
		{ KVM_PV_PERF_CLOSE, "CLOSE" },
		{ KVM_PV_PERF_ENABLE, "ENABLE" },
		{ KVM_PV_PERF_DISABLE, "DISABLE" },
		{ KVM_PV_PERF_READ, "READ" },
	};
	const uint64_t end = vm_get_page_size(vm) + READONLY_GPA;
	int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		ok(event_op(vm, ops[i].op, 3) == -KVM_ENOENT, "%s: never opened",
		   ops[i].name);
		ok(event_op(vm, ops[i].op, NR_EVENTS) == -KVM_E2BIG, "%s: id 16",
		   ops[i].name);
		ok(event_op(vm, ops[i].op, -1) == -KVM_E2BIG, "%s: largest id",
		   ops[i].name);
		ok(event_op(vm, ops[i].op, 1ull << 32) == -KVM_E2BIG,
		   "%s: id of more than 32 bits", ops[i].name);
	}
	ok(event_op(vm, KVM_PV_PERF_RESET + 1, 0) == -KVM_EINVAL, "unknown op");
	ok(event_op(vm, -1, 0) == -KVM_EINVAL, "largest op");

	ok(call(vm, 0, KVM_PV_PERF_QUERY, NOWHERE, 0) == -KVM_EFAULT,
	   "QUERY: to nowhere");
	ok(call(vm, 0, KVM_PV_PERF_QUERY, -1, 0) == -KVM_EFAULT,
	   "QUERY: to the last byte there can be");
	ok(call(vm, 0, KVM_PV_PERF_QUERY, READONLY_GPA, 0) == -KVM_EFAULT,
	   "QUERY: to memory that is read-only");
	ok(call(vm, 0, KVM_PV_PERF_STAT_DESC, 0, NOWHERE) == -KVM_EFAULT,
	   "STAT_DESC: to nowhere");
	ok(call(vm, 0, KVM_PV_PERF_STAT_DESC, 0, READONLY_GPA) == -KVM_EFAULT,
	   "STAT_DESC: to memory that is read-only");
	ok(call(vm, 0, KVM_PV_PERF_OPEN, NOWHERE, 0) == -KVM_EFAULT,
	   "OPEN: from nowhere");
	ok(call(vm, 0, KVM_PV_PERF_OPEN, end - 95, 0) == -KVM_EFAULT,
	   "OPEN: from across the end of memory");
}

static void test_life(struct kvm_vm *vm)
{
	uint64_t before;

	open_stat(vm, 5, "hypercalls");
	ok(slot(vm, 5)->state == KVM_PV_PERF_STATE_ON && !slot(vm, 5)->count &&
	   !slot(vm, 5)->overflows && !(slot(vm, 5)->seq & 1),
	   "OPEN writes the slot: on, nothing counted");
	ok(open_event(vm, 0) == -KVM_EEXIST, "OPEN: open already");
	before = slot(vm, 5)->seq;
	ok(!event_op(vm, KVM_PV_PERF_CLOSE, 5) &&
	   slot(vm, 5)->state == KVM_PV_PERF_STATE_OFF &&
	   slot(vm, 5)->seq != before && !(slot(vm, 5)->seq & 1),
	   "CLOSE writes the slot: off, with a new even seq");
	ok(event_op(vm, KVM_PV_PERF_READ, 5) == -KVM_ENOENT, "READ: closed");
	ok(event_op(vm, KVM_PV_PERF_CLOSE, 5) == -KVM_ENOENT, "CLOSE: closed");

	stat_attr(vm, 5, "hypercalls")->flags = 0;
	ok(!open_event(vm, 0) && slot(vm, 5)->state == KVM_PV_PERF_STATE_OFF &&
	   !count(vm, 5), "OPEN without ENABLED counts nothing");
	ok(!event_op(vm, KVM_PV_PERF_ENABLE, 5) &&
	   slot(vm, 5)->state == KVM_PV_PERF_STATE_ON && count(vm, 5) == 1,
	   "ENABLE lets it count");
	reset(vm);
	ok(event_op(vm, KVM_PV_PERF_READ, 5) == -KVM_ENOENT, "RESET closes it");
}

static void test_stat(struct kvm_vm *vm)
{
	struct kvm_stats stats;
	uint64_t before, after, value;

	open_stat(vm, 0, "hypercalls");
	before = count(vm, 0);
	after = count(vm, 0);
	ok(after - before == 1, "READ moves hypercalls by exactly 1");

	event_op(vm, KVM_PV_PERF_DISABLE, 0);
	before = slot(vm, 0)->count;
	ok(before - after == 1, "DISABLE moves them by 1, its own");
	count(vm, 0);
	ok(count(vm, 0) == before, "then READ moves nothing");
	event_op(vm, KVM_PV_PERF_ENABLE, 0);
	ok(slot(vm, 0)->count == before, "ENABLE goes on from there");
	ok(count(vm, 0) == before + 1, "and READ moves them by 1 again");
	event_op(vm, KVM_PV_PERF_ENABLE, 0);
	ok(slot(vm, 0)->count == before + 2, "ENABLE when on changes nothing");

	kvm_stats_open_stats_fd(&stats, vcpu_get_fd(vm, 0));
	open_stat(vm, 1, "exits");
	before = count(vm, 1);
	value = kvm_stats_value(&stats, "exits");
	run_until(vm, 0, guest_cpuid, 5000);
	after = count(vm, 1);
	value = kvm_stats_value(&stats, "exits") - value;
	ok(after - before >= 5000, "5000 CPUIDs: %lu exits", after - before);
	ok(after - before <= value + 2, "the host counted as many: %lu", value);
	kvm_stats_close(&stats);
	reset(vm);
}

static void test_ids(struct kvm_vm *vm)
{
	uint32_t id, good = 0;

	for (id = 0; id < NR_EVENTS; id++)
		open_stat(vm, id, "hypercalls");
	for (id = 0; id < NR_EVENTS; id++)
		good += count(vm, id) == NR_EVENTS;
	ok(good == NR_EVENTS, "%u events at a time, each with its slot", good);

	attr(vm, 1, 0, KVM_PV_PERF_TYPE_SOFTWARE);
	ok(call(vm, 1, KVM_PV_PERF_READ, 0, 0) == -KVM_ENOENT &&
	   !open_event(vm, 1) && !call(vm, 1, KVM_PV_PERF_READ, 0, 0),
	   "another vCPU has ids of its own");
	ok(!call(vm, 1, KVM_PV_PERF_RESET, 0, 0) && count(vm, 0),
	   "and its RESET closes no others");

	reset(vm);
	for (id = good = 0; id < NR_EVENTS; id++)
		good += event_op(vm, KVM_PV_PERF_READ, id) == -KVM_ENOENT;
	ok(good == NR_EVENTS, "RESET closes all of them");
}

static void forget_nmis(struct kvm_vm *vm)
{
	struct guest *guest = in_guest(vm, guests[0]);

	guest->nmis = 0;
	guest->hlt_nmis = 0;
	guest->stray = 0;
	guest->nested = 0;
	guest->seen = 0;
	guest->slow = 0;
}

/* Let the vCPU run for a while, by its own clock: the machine may be slow. */
static void run_for(struct kvm_vm *vm, uint64_t ns)
{
	uint32_t id = NR_EVENTS - 1;

	open_clock(vm, id, 0);
	while (count(vm, id) < ns)
		run_until(vm, 0, guest_cpuid, 1000);
	event_op(vm, KVM_PV_PERF_CLOSE, id);
}

static void test_sampling(struct kvm_vm *vm)
{
	static const char * const names[] = {
		[PERF_COUNT_SW_CPU_CLOCK] = "cpu-clock",
		[PERF_COUNT_SW_TASK_CLOCK] = "task-clock",
	};
	struct guest *guest = in_guest(vm, guests[0]);
	uint64_t nmis;
	int config[] = { PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK };
	int i;

	for (i = 0; i < ARRAY_SIZE(config); i++) {
		const char *name = names[config[i]];

		clock_attr(vm, 0, config[i], 0);
		ok(!open_event(vm, 0), "%s: opened to count", name);
		nmis = count(vm, 0);
		run_until(vm, 0, guest_cpuid, 1000);
		ok(count(vm, 0) > nmis, "%s: it goes on", name);
		event_op(vm, KVM_PV_PERF_DISABLE, 0);
		nmis = count(vm, 0);
		run_until(vm, 0, guest_cpuid, 1000);
		ok(count(vm, 0) == nmis, "%s: not when disabled", name);
		reset(vm);
		clock_attr(vm, 0, config[i], 0)->flags = 0;
		TEST_ASSERT(!open_event(vm, 0), "OPEN of %s failed", name);
		run_until(vm, 0, guest_cpuid, 1000);
		ok(!count(vm, 0), "%s: nor when opened without ENABLED", name);
		reset(vm);

		forget_nmis(vm);
		clock_attr(vm, 0, config[i], PERIOD);
		ok(!open_event(vm, 0), "%s: opened with a period", name);
		run_until(vm, 0, guest_busy, 20);
		ok(!event_op(vm, KVM_PV_PERF_DISABLE, 0), "%s: 20 NMIs came",
		   name);
		ok(slot(vm, 0)->overflows >= guest->nmis && !guest->stray,
		   "%s: the slot had each overflow before its NMI", name);
		ok(slot(vm, 0)->count >= 20 * PERIOD,
		   "%s: at least 20 periods were counted", name);
		ok(!guest->nested, "%s: no NMI came during another one", name);
		nmis = guest->nmis;
		run_for(vm, 5 * PERIOD);
		ok(guest->nmis == nmis, "%s: no NMI after DISABLE", name);
		ok(!event_op(vm, KVM_PV_PERF_ENABLE, 0), "%s: ENABLE", name);
		run_until(vm, 0, guest_busy, nmis + 3);
		ok(!event_op(vm, KVM_PV_PERF_CLOSE, 0), "%s: NMIs go on", name);
		nmis = guest->nmis;
		run_for(vm, 5 * PERIOD);
		ok(guest->nmis == nmis, "%s: no NMI after CLOSE", name);
	}
}

/* Not the id that all others sample with */
static void test_other_id(struct kvm_vm *vm)
{
	forget_nmis(vm);
	open_clock(vm, 1, PERIOD);
	run_until(vm, 0, guest_busy, 3);
	ok(slot(vm, 1)->overflows, "event 1: its NMI finds %lu overflows in its slot",
	   slot(vm, 1)->overflows);
	event_op(vm, KVM_PV_PERF_CLOSE, 1);
	open_stat(vm, 1, "exits");
	ok(!slot(vm, 1)->overflows, "event 1: opened again it has none");
	reset(vm);
}

/* A slot that is read while it is written */
static struct {
	struct kvm_pv_perf_slot *slot;
	bool stop;
	bool odd;
} watcher;

static void *watch_seq(void *arg)
{
	while (!READ_ONCE(watcher.odd) && !READ_ONCE(watcher.stop))
		WRITE_ONCE(watcher.odd, READ_ONCE(watcher.slot->seq) & 1);
	return NULL;
}

static void test_seq(struct kvm_vm *vm)
{
	const time_t end = time(NULL) + LIMIT;
	unsigned long reads = 0;
	pthread_t thread;

	if (sysconf(_SC_NPROCESSORS_ONLN) == 1) {
		ksft_test_result_skip("one CPU: nobody reads while a slot is written\n");
		return;
	}
	open_stat(vm, 0, "hypercalls");
	watcher.slot = slot(vm, 0);
	pthread_create(&thread, NULL, watch_seq, NULL);
	for (; !READ_ONCE(watcher.odd) && time(NULL) < end; reads++)
		count(vm, 0);
	WRITE_ONCE(watcher.stop, true);
	pthread_join(thread, NULL);
	ok(watcher.odd && !(slot(vm, 0)->seq & 1),
	   "seq was odd while the slot was written (%lu READs), now it is even", reads);
	reset(vm);
}

static void test_slow_handler(struct kvm_vm *vm)
{
	struct guest *guest = in_guest(vm, guests[0]);

	forget_nmis(vm);
	guest->slow = 10;
	open_clock(vm, 0, PERIOD);
	run_until(vm, 0, guest_busy, 20);
	event_op(vm, KVM_PV_PERF_CLOSE, 0);
	ok(!guest->slow && slot(vm, 0)->overflows >= 30,
	   "handler longer than the period: 10 times, the guest goes on");
	ok(!guest->nested && !guest->stray,
	   "handler longer than the period: no NMI nested, none without reason");
}

/* What wakes a halted vCPU now and then */
static struct {
	struct kvm_vm *vm;
	bool stop;
} waker;

static void *wake_now_and_then(void *arg)
{
	/* To local APIC 0, delivery mode NMI */
	struct kvm_msi msi = { .address_lo = 0xfee00000, .data = 4 << 8 };
	struct guest *guest = in_guest(waker.vm, guests[0]);

	while (!READ_ONCE(waker.stop)) {
		usleep(20000);
		__atomic_add_fetch(&guest->woken, 1, __ATOMIC_SEQ_CST);
		ioctl(vm_get_fd(waker.vm), KVM_SIGNAL_MSI, &msi);
		__atomic_add_fetch(&guest->woken, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void set_halt_poll(struct kvm_vm *vm, uint64_t ns)
{
	struct kvm_enable_cap cap = {
		.cap = KVM_CAP_HALT_POLL,
		.args[0] = ns,
	};

	vm_enable_cap(vm, &cap);
}

/*
 * A clock goes on while the host polls for the end of a halt, so that a period
 * can end in it. How long it polls grows with each halt that ends soon enough:
 * something has to end the first ones.
 */
static void test_halt(struct kvm_vm *vm)
{
	struct guest *guest = in_guest(vm, guests[0]);
	pthread_t thread;

	set_halt_poll(vm, 100 * PERIOD);
	forget_nmis(vm);
	open_clock(vm, 0, PERIOD);
	waker.vm = vm;
	waker.stop = false;
	pthread_create(&thread, NULL, wake_now_and_then, NULL);
	run_until(vm, 0, guest_halt, 20);
	WRITE_ONCE(waker.stop, true);
	pthread_join(thread, NULL);
	event_op(vm, KVM_PV_PERF_CLOSE, 0);
	ok(guest->hlt_nmis >= 20, "cli; hlt: %lu overflows ended it",
	   guest->hlt_nmis);
	ok(!guest->nested, "cli; hlt: no NMI came during another one");
	set_halt_poll(vm, 0);
}

/* Open and close a clock; what the last hypercall returned */
static int64_t reopen(struct kvm_vm *vm, int times)
{
	struct guest *guest = in_guest(vm, guests[0]);

	open_clock(vm, 1, PERIOD);
	guest->a1 = gpa_of(vm, attrs[0]);
	guest->a2 = 1;
	guest->ret = 0;
	/* In portions: a slow machine needs a minute for all of them. */
	for (; times > 0 && !guest->ret; times -= 100)
		run_until(vm, 0, guest_reopen, 100);
	return guest->ret;
}

static void test_reopen(struct kvm_vm *vm)
{
	forget_nmis(vm);
	open_clock(vm, 0, PERIOD);
	ok(!reopen(vm, 2000),
	   "open and close 2000 times beside an event that samples");
	reset(vm);
}

/* What happens in the host while a guest does its worst on CPU 0 */
struct cost {
	uint64_t vcpu;		/* CPU time of this thread, in ns */
	uint64_t others;	/* CPU time of the other CPUs, in ticks */
	uint64_t ipis;		/* calls of functions on other CPUs */
	time_t seconds;
};

/* The sum of what @file says of CPUs but 0, in lines that begin with @begin */
static uint64_t of_other_cpus(const char *file, const char *begin)
{
	char line[4096], *values;
	FILE *lines = fopen(file, "r");
	bool row = !strcmp(file, "/proc/interrupts");
	uint64_t sum = 0;
	int i;

	TEST_ASSERT(lines, "No %s", file);
	while (fgets(line, sizeof(line), lines)) {
		char *word, *next = line + strspn(line, " ");

		if (strncmp(next, begin, strlen(begin)))
			continue;
		next += strlen(begin);
		if (row) {
			/* CAL: a number for each CPU */
			values = next + 1;
			for (i = 0; (word = strtok(i ? NULL : values, " ")) &&
			     isdigit(*word); i++)
				sum += i ? strtoull(word, NULL, 10) : 0;
		} else if (isdigit(*next) && strtoul(next, &values, 10)) {
			/* cpuN user nice system idle iowait irq softirq */
			for (i = 0; i < 7; i++) {
				uint64_t ticks = strtoull(values, &values, 10);

				sum += i == 3 || i == 4 ? 0 : ticks;
			}
		}
	}
	fclose(lines);
	return sum;
}

static struct cost cost_now(void)
{
	struct timespec cpu, now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (struct cost){
		.vcpu = cpu.tv_sec * 1000000000ull + cpu.tv_nsec,
		.others = of_other_cpus("/proc/stat", "cpu"),
		.ipis = of_other_cpus("/proc/interrupts", "CAL"),
		.seconds = now.tv_sec,
	};
}

/*
 * What an attack cost since @before: no more interrupts to other CPUs than perf
 * makes at its host's first event and after its last, and no line in the log for
 * an event.
 */
static void judge_attack(const char *what, const struct cost *before, int log)
{
	struct cost now = cost_now();
	uint64_t ipis = now.ipis - before->ipis;
	uint64_t seconds = now.seconds - before->seconds + 1;
	unsigned int lines = 0;
	char record[8192];

	while (read(log, record, sizeof(record)) > 0)
		lines++;
	close(log);
	printf("# %s: vCPU %lu ms, other CPUs %lu ms, %lu calls on them, %u lines in the log\n",
	       what, (now.vcpu - before->vcpu) / 1000000,
	       (now.others - before->others) * 1000 / sysconf(_SC_CLK_TCK), ipis,
	       lines);
	/* When perf goes on and off it makes 60, about once a second. */
	ok(ipis <= 500 + 60 * seconds, "%s: no interrupt to others for each", what);
	ok(lines < 10, "%s: nothing is logged of each", what);
}

static int begin_attack(struct cost *before)
{
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);

	TEST_ASSERT(log >= 0 && !lseek(log, 0, SEEK_END), "No /dev/kmsg");
	*before = cost_now();
	return log;
}

static void test_attacks(struct kvm_vm *vm)
{
	const int turns = 2000;
	struct cost before;
	cpu_set_t all, first;
	uint32_t id, good = 0;
	int i, log;

	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	TEST_ASSERT(!sched_setaffinity(0, sizeof(first), &first),
		    "sched_setaffinity, errno: %i", errno);

	forget_nmis(vm);
	log = begin_attack(&before);
	ok(!reopen(vm, turns), "attack: %d times open and close", turns);
	reset(vm);
	judge_attack("attack: open and close", &before, log);

	forget_nmis(vm);
	log = begin_attack(&before);
	for (id = 0; id < NR_EVENTS; id++)
		open_clock(vm, id, PERIOD);
	for (i = 0; i < turns && slot(vm, NR_EVENTS - 1)->overflows < 100; i++)
		run_until(vm, 0, guest_cpuid, 1000);
	for (id = 0; id < NR_EVENTS; id++)
		good += !event_op(vm, KVM_PV_PERF_CLOSE, id) &&
			slot(vm, id)->overflows > 10;
	ok(good == NR_EVENTS, "attack: %u clocks with the shortest period", good);
	judge_attack("attack: all slots sample", &before, log);

	log = begin_attack(&before);
	for (good = i = 0; i < turns; i++) {
		clock_attr(vm, 0, PERF_COUNT_SW_CPU_CLOCK, PERIOD)->slot =
			NOWHERE + i * 0x10000003fe0ull;
		good += open_event(vm, 0) == -KVM_EFAULT;
	}
	ok(good == turns, "attack: slots at %d places that are no memory", good);
	judge_attack("attack: slots everywhere", &before, log);
	sched_setaffinity(0, sizeof(all), &all);
}

/* Tell the local APIC of vCPU 0 to INIT, and let it happen */
static void init_vcpu(struct kvm_vm *vm)
{
	struct kvm_msi msi = { .address_lo = 0xfee00000, .data = 5 << 8 };
	struct kvm_mp_state mp_state;

	TEST_ASSERT(ioctl(vm_get_fd(vm), KVM_SIGNAL_MSI, &msi) > 0,
		    "KVM_SIGNAL_MSI, errno: %i", errno);
	vcpu_ioctl(vm, 0, KVM_GET_MP_STATE, &mp_state);
	TEST_ASSERT(mp_state.mp_state == KVM_MP_STATE_RUNNABLE,
		    "The BSP is in state %u", mp_state.mp_state);
}

static void test_init(struct kvm_vm *vm)
{
	struct guest *guest = in_guest(vm, guests[0]);
	struct kvm_pv_perf_slot before;
	struct kvm_sregs sregs;
	struct kvm_regs regs, reset_regs;
	uint64_t nmis;

	forget_nmis(vm);
	open_clock(vm, 0, PERIOD);
	open_stat(vm, 1, "exits");
	run_until(vm, 0, guest_busy, 3);
	vcpu_regs_get(vm, 0, &regs);
	vcpu_sregs_get(vm, 0, &sregs);
	memcpy(&before, slot(vm, 1), sizeof(before));
	init_vcpu(vm);
	vcpu_regs_get(vm, 0, &reset_regs);
	ok(reset_regs.rip == 0xfff0, "INIT: the vCPU is reset");
	ok(!memcmp(slot(vm, 1), &before, sizeof(before)),
	   "INIT: no slot is written");
	vcpu_sregs_set(vm, 0, &sregs);
	vcpu_regs_set(vm, 0, &regs);
	run_until(vm, 0, guest_cpuid, 1000);
	ok(event_op(vm, KVM_PV_PERF_READ, 0) == -KVM_ENOENT &&
	   event_op(vm, KVM_PV_PERF_READ, 1) == -KVM_ENOENT,
	   "INIT: all events are closed");
	nmis = guest->nmis;
	run_for(vm, 5 * PERIOD);
	ok(guest->nmis == nmis, "INIT: NMIs end");
	reset(vm);
}

static void test_mp_state(struct kvm_vm *vm)
{
	struct guest *guest = in_guest(vm, guests[0]);
	struct kvm_mp_state mp_state;
	struct kvm_pv_perf_slot before;
	uint64_t nmis, total;

	forget_nmis(vm);
	open_clock(vm, 0, PERIOD);
	open_stat(vm, 1, "hypercalls");
	open_stat(vm, 2, "exits");
	run_until(vm, 0, guest_busy, 3);
	count(vm, 1);
	query(vm);
	query(vm);
	ok(slot(vm, 1)->count == 2, "save: the slot has what the last READ saw");
	vcpu_ioctl(vm, 0, KVM_GET_MP_STATE, &mp_state);
	total = slot(vm, 1)->count;
	ok(total == 5, "save: KVM_GET_MP_STATE writes what was counted since");
	ok(!event_op(vm, KVM_PV_PERF_READ, 1) && slot(vm, 1)->count == total,
	   "save: the event goes on");

	vcpu_ioctl(vm, 0, KVM_GET_MP_STATE, &mp_state);
	total = slot(vm, 1)->count;
	memcpy(&before, slot(vm, 1), sizeof(before));
	vcpu_set_mp_state(vm, 0, &mp_state);
	ok(!memcmp(slot(vm, 1), &before, sizeof(before)),
	   "restore: KVM_SET_MP_STATE writes no slot");
	ok(event_op(vm, KVM_PV_PERF_READ, 0) == -KVM_ENOENT &&
	   event_op(vm, KVM_PV_PERF_READ, 1) == -KVM_ENOENT &&
	   event_op(vm, KVM_PV_PERF_READ, 2) == -KVM_ENOENT,
	   "restore: KVM_SET_MP_STATE closes all events");
	/* Those that KVM had queued before came at once. */
	nmis = guest->nmis;
	run_for(vm, 5 * PERIOD);
	ok(guest->nmis == nmis, "restore: NMIs end");

	open_stat(vm, 1, "hypercalls");
	ok(!slot(vm, 1)->count && count(vm, 1) == 1,
	   "restore: opened again it counts from 0, the guest has %lu", total);
	reset(vm);
}

static void *run_elsewhere(void *vm)
{
	return (void *)(long)event_op(vm, KVM_PV_PERF_READ, 1);
}

static void test_thread(struct kvm_vm *vm)
{
	struct guest *guest = in_guest(vm, guests[0]);
	pthread_t thread;
	uint64_t nmis;
	void *r;

	forget_nmis(vm);
	open_clock(vm, 0, PERIOD);
	open_stat(vm, 1, "hypercalls");
	query(vm);
	pthread_create(&thread, NULL, run_elsewhere, vm);
	pthread_join(thread, &r);
	ok((long)r == -KVM_ENOENT, "another thread in KVM_RUN: events are closed");
	ok(slot(vm, 1)->count == 2,
	   "another thread in KVM_RUN: the slot has the last count");
	nmis = guest->nmis;
	run_for(vm, 5 * PERIOD);
	ok(guest->nmis == nmis, "another thread in KVM_RUN: NMIs end");
	reset(vm);
}

static void add_memory(struct kvm_vm *vm)
{
	vm_userspace_mem_region_add(vm, VM_MEM_SRC_ANONYMOUS, EXTRA_GPA,
				    EXTRA_SLOT, 1, 0);
}

static void test_memslot(struct kvm_vm *vm)
{
	struct guest *guest = in_guest(vm, guests[0]);
	struct kvm_pv_perf_slot *extra;
	uint64_t nmis;

	add_memory(vm);
	forget_nmis(vm);
	stat_attr(vm, 1, "exits")->slot = EXTRA_GPA + 32;
	ok(!open_event(vm, 0), "memory goes: a statistic is open");
	clock_attr(vm, 0, PERF_COUNT_SW_CPU_CLOCK, PERIOD)->slot = EXTRA_GPA;
	ok(!open_event(vm, 0), "memory goes: a clock samples");

	vm_mem_region_delete(vm, EXTRA_SLOT);
	ok(event_op(vm, KVM_PV_PERF_READ, 1) == -KVM_EFAULT,
	   "memory goes: READ returns EFAULT");
	ok(event_op(vm, KVM_PV_PERF_ENABLE, 1) == -KVM_EFAULT,
	   "memory goes: ENABLE too");
	run_for(vm, 3 * PERIOD);
	nmis = guest->nmis;
	run_for(vm, 10 * PERIOD);
	ok(guest->nmis == nmis, "memory goes: after an overflow no more come");
	ok(event_op(vm, KVM_PV_PERF_CLOSE, 1) == -KVM_EFAULT &&
	   event_op(vm, KVM_PV_PERF_READ, 1) == -KVM_ENOENT,
	   "memory goes: CLOSE closes, and returns EFAULT");

	add_memory(vm);
	extra = addr_gpa2hva(vm, EXTRA_GPA);
	ok(!event_op(vm, KVM_PV_PERF_READ, 0) &&
	   extra->state == KVM_PV_PERF_STATE_ERROR && extra->overflows,
	   "memory is back: READ says that the clock was stopped");
	ok(!event_op(vm, KVM_PV_PERF_ENABLE, 0) &&
	   extra->state == KVM_PV_PERF_STATE_ON,
	   "memory is back: ENABLE starts it again");
	nmis = guest->nmis;
	run_until(vm, 0, guest_busy, nmis + 3);
	ok(!event_op(vm, KVM_PV_PERF_CLOSE, 0), "memory is back: NMIs come");
	vm_mem_region_delete(vm, EXTRA_SLOT);
}

/* Let user mode have all that the page table at @gpa maps */
static void map_for_user(struct kvm_vm *vm, uint64_t gpa, int level)
{
	uint64_t *entry = addr_gpa2hva(vm, gpa);
	int i;

	for (i = 0; i < 512; i++) {
		if (!(entry[i] & 1))
			continue;
		entry[i] |= 4;
		if (level > 1)
			map_for_user(vm, entry[i] & 0xffffffffff000ull, level - 1);
	}
}

static void test_ring3(void)
{
	struct kvm_vm *vm = create_vm();
	struct kvm_sregs sregs;
	struct kvm_regs regs;

	ok(!query(vm), "ring 0: QUERY returns 0");
	vcpu_sregs_get(vm, 0, &sregs);
	map_for_user(vm, sregs.cr3, 4);
	sregs.cs.selector |= 3;
	sregs.cs.dpl = 3;
	sregs.ss.selector |= 3;
	sregs.ss.dpl = 3;
	vcpu_sregs_set(vm, 0, &sregs);
	vcpu_regs_get(vm, 0, &regs);
	/* The guest does port I/O to talk to the host: let it. */
	regs.rflags |= 3 << 12;
	vcpu_regs_set(vm, 0, &regs);
	ok(query(vm) == -KVM_EPERM, "ring 3: QUERY returns EPERM");
	ok(event_op(vm, KVM_PV_PERF_RESET, 0) == -KVM_EPERM,
	   "ring 3: RESET returns EPERM");
	kvm_vm_free(vm);
}

/* A VMM whose guest has every slot sample, until it is killed */
static void sample_forever(int started)
{
	struct kvm_vm *vm = create_vm();
	uint32_t id;

	for (id = 0; id < NR_EVENTS; id++)
		open_clock(vm, id, PERIOD);
	run_until(vm, 0, guest_busy, 3);
	if (write(started, "", 1) != 1)
		_exit(1);
	for (;;)
		run_until(vm, 0, guest_cpuid, 100000);
}

static void test_kill(void)
{
	int fds[2], status;
	struct pollfd end;
	pid_t pid;
	char byte;

	TEST_ASSERT(!pipe(fds), "pipe, errno: %i", errno);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		close(fds[0]);
		sample_forever(fds[1]);
	}
	close(fds[1]);
	ok(read(fds[0], &byte, 1) == 1 && debugfs_dir(pid, -1, NULL, 0),
	   "kill -9: %u events sample", NR_EVENTS);
	usleep(100000);
	kill(pid, SIGKILL);
	end = (struct pollfd){ .fd = fds[0] };
	ok(poll(&end, 1, LIMIT * 1000) == 1 && waitpid(pid, &status, 0) == pid &&
	   WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
	   "kill -9: the process ends");
	ok(vm_goes_away(pid, -1), "kill -9: its VM goes away");
	close(fds[0]);
}

int main(void)
{
	struct kvm_vm *vm;
	char parameter;

	setbuf(stdout, NULL);
	ksft_print_header();
	parameter = set_parameter('Y');
	if (!parameter)
		ksft_exit_skip("no " PARAMETER " that could be written\n");
	signal(SIGALRM, too_late);

	test_absent();
	vm = create_vm();
	vm_userspace_mem_region_add(vm, VM_MEM_SRC_ANONYMOUS, READONLY_GPA,
				    READONLY_SLOT, 1, KVM_MEM_READONLY);
	test_query(vm);
	test_bad_attr(vm);
	test_bad_call(vm);
	test_life(vm);
	test_stat(vm);
	test_ids(vm);
	test_sampling(vm);
	test_other_id(vm);
	test_seq(vm);
	test_slow_handler(vm);
	test_halt(vm);
	test_reopen(vm);
	test_attacks(vm);
	test_init(vm);
	test_mp_state(vm);
	test_thread(vm);
	test_memslot(vm);
	test_ring3();
	test_kill();

	/* A VM that ends with events open is none that a test could miss. */
	open_clock(vm, 0, PERIOD);
	kvm_vm_free(vm);
	set_parameter(parameter);
	ksft_set_plan(ksft_test_num());
	ksft_exit(!ksft_get_fail_cnt());
}
