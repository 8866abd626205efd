// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the hypercalls of paravirtual perf events
 *
 * Permissions, results and counts, as guaranteed by
 * Documentation/virt/kvm/pv-perf.rst. pv_perf_sampling tests the clocks,
 * pv_perf_ends how events end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "x86_64/pv_perf.h"

/* Memory that the guest can only read */
#define READONLY_SLOT	11
#define READONLY_GPA	0x50000000ull

#define PARAMETER	"/sys/module/kvm/parameters/pv_perf"

static char desc[sizeof(struct kvm_stats_desc) + KVM_PV_PERF_NAME_SIZE];

static void test_parameter(void)
{
	ok(!write_file(PARAMETER, "2") && !write_file(PARAMETER, "-1"),
	   "the parameter takes neither 2 nor -1");
}

static void test_permission(void)
{
	struct kvm_vm *vm, *old;

	pv_set_parameter(PV_OFF);
	ok(!(pv_features() & FEATURE), "parameter 0: KVM does not report the CPUID bit");
	old = pv_create_vm();
	ok(pv_query(old) == -KVM_ENOSYS, "parameter 0: QUERY returns ENOSYS with the CPUID bit");
	ok(pv_event_op(old, KVM_PV_PERF_RESET, 0) == -KVM_ENOSYS,
	   "parameter 0: RESET returns ENOSYS with the CPUID bit");

	pv_set_parameter(PV_ON);
	ok(pv_features() & FEATURE, "parameter 1: KVM reports the CPUID bit");
	ok(pv_query(old) == -KVM_ENOSYS, "parameter 1: older VMs have no events");
	kvm_vm_free(old);
	vm = pv_create_vm_without_feature();
	ok(pv_query(vm) == -KVM_ENOSYS, "parameter 1: QUERY returns ENOSYS without the CPUID bit");
	kvm_vm_free(vm);
	vm = pv_create_vm();
	pv_set_features(vm, 0, pv_features() & ~(BIT(KVM_FEATURE_CLOCKSOURCE) |
						 BIT(KVM_FEATURE_CLOCKSOURCE2)));
	ok(pv_query(vm) == -KVM_ENOSYS, "parameter 1: QUERY returns ENOSYS without kvmclock");
	kvm_vm_free(vm);
	vm = pv_create_vm();
	pv_remove_features(vm, 0);
	ok(pv_query(vm) == -KVM_ENOSYS, "parameter 1: QUERY returns ENOSYS without the CPUID leaf");
	kvm_vm_free(vm);
	vm = pv_create_vm();
	ok(!pv_query(vm), "parameter 1: QUERY returns 0 with the CPUID bit");
	pv_set_parameter(PV_OFF);
	ok(!pv_query(vm), "a VM keeps its events when the parameter becomes 0");
	pv_set_parameter(PV_ON);
	kvm_vm_free(vm);
}

static void test_query(struct kvm_vm *vm)
{
	struct kvm_pv_perf_info *got = in_guest(vm, pv_info);
	struct kvm_stats stats;
	uint32_t i, equal = 0;

	kvm_stats_open_stats_fd(&stats, vcpu_get_fd(vm, 0));
	memset(got, 0xff, sizeof(*got));
	ok(!pv_query(vm) && got->version == KVM_PV_PERF_VERSION &&
	   got->max_events == NR_EVENTS && got->min_period == PERIOD &&
	   got->types == (1 << KVM_PV_PERF_TYPE_SOFTWARE |
			  1 << KVM_PV_PERF_TYPE_STAT) && !got->pad,
	   "QUERY returns version, events, types and period");
	ok(got->stats == stats.count && stats.count,
	   "QUERY returns %u statistics, as the file has", got->stats);

	for (i = 0; i < stats.count; i++) {
		equal += !pv_call(vm, 0, KVM_PV_PERF_STAT_DESC, i, gpa_of(vm, desc)) &&
			 !memcmp(in_guest(vm, desc), kvm_stats_desc(&stats, i),
				 sizeof(desc));
	}
	ok(equal == stats.count && stats.desc_size == sizeof(desc),
	   "STAT_DESC returns each descriptor of the file");
	ok(pv_call(vm, 0, KVM_PV_PERF_STAT_DESC, stats.count, gpa_of(vm, desc)) ==
	   -KVM_EINVAL, "STAT_DESC returns EINVAL for an index beyond the end");
	ok(pv_call(vm, 0, KVM_PV_PERF_STAT_DESC, 1ull << 32, gpa_of(vm, desc)) ==
	   -KVM_EINVAL, "STAT_DESC returns EINVAL for an index of more than 32 bits");
	ok(pv_call(vm, 0, KVM_PV_PERF_STAT_DESC, -1ull, gpa_of(vm, desc)) ==
	   -KVM_EINVAL, "STAT_DESC returns EINVAL for the largest index");
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
	ok(pv_open_event(vm, 0) == -(error), "OPEN fails for " what);		\
} while (0)
#define bad_stat(error, what, change) \
	bad(error, what, pv_stat_attr(vm, 0, "exits"), change)
#define bad_clock(error, what, change) \
	bad(error, what, pv_clock_attr(vm, 0, PERF_COUNT_SW_CPU_CLOCK, PERIOD), change)

	bad_stat(KVM_EINVAL, "size 0", a->size = 0);
	bad_stat(KVM_EINVAL, "a size that is too small", a->size--);
	bad_stat(KVM_EINVAL, "a size that is too large", a->size++);
	bad_stat(KVM_EINVAL, "an unknown flag", a->flags |= 2);
	bad_stat(KVM_EINVAL, "the highest flag", a->flags |= 1u << 31);
	bad_stat(KVM_EINVAL, "padding", a->pad = 1);
	bad_stat(KVM_EINVAL, "a slot that is not aligned", a->slot += 16);
	bad_stat(KVM_E2BIG, "id 16", a->id = NR_EVENTS);
	bad_stat(KVM_E2BIG, "the largest id", a->id = -1);
	bad_stat(KVM_EOPNOTSUPP, "type 0", a->type = 0);
	bad_stat(KVM_EOPNOTSUPP, "type 2", a->type = 2);
	bad_stat(KVM_EOPNOTSUPP, "type 17", a->type = 17);
	bad_stat(KVM_EOPNOTSUPP, "the largest type", a->type = -1);

	bad_stat(KVM_EINVAL, "a statistic with a config", a->config = 1);
	bad_stat(KVM_EOPNOTSUPP, "a statistic with a period", a->period = PERIOD);
	bad_stat(KVM_EINVAL, "a name without an end",
		 memset(a->name, 'a', sizeof(a->name)));
	bad_stat(KVM_ENOENT, "an empty name", a->name[0] = 0);
	bad_stat(KVM_ENOENT, "an unknown name", a->name[0]++);
	bad_stat(KVM_ENOENT, "the longest unknown name",
		 memset(a->name, 'a', sizeof(a->name) - 1));
	kvm_stats_open_stats_fd(&stats, vcpu_get_fd(vm, 0));
	bad(KVM_EOPNOTSUPP, "a histogram",
	    pv_stat_attr(vm, 0, not_countable(&stats, true)), a->flags = 0);
	bad(KVM_EOPNOTSUPP, "an instant statistic",
	    pv_stat_attr(vm, 0, not_countable(&stats, false)), a->flags = 0);
	kvm_stats_close(&stats);

	bad_clock(KVM_EINVAL, "a clock with a name", strcpy(a->name, "exits"));
	bad_clock(KVM_EINVAL, "a clock with a byte after its name",
		  a->name[sizeof(a->name) - 1] = 1);
	bad_clock(KVM_EOPNOTSUPP, "context switches",
		  a->config = PERF_COUNT_SW_CONTEXT_SWITCHES);
	bad_clock(KVM_EOPNOTSUPP, "the largest config", a->config = -1);
	bad_clock(KVM_EOPNOTSUPP, "a period that is too short", a->period--);
	bad_clock(KVM_EOPNOTSUPP, "period 1", a->period = 1);
	bad_clock(KVM_EOPNOTSUPP, "a negative period", a->period = 1ull << 63);
	bad_clock(KVM_EOPNOTSUPP, "the largest period", a->period = -1);

	bad_stat(KVM_EFAULT, "a slot without memory", a->slot = NOWHERE);
	bad_stat(KVM_EFAULT, "a slot at the end of the address space",
		 a->slot = -32ull);
	bad_stat(KVM_EFAULT, "a slot in read-only memory",
		 a->slot = READONLY_GPA);
	bad_clock(KVM_EFAULT, "a clock with a slot without memory", a->slot = NOWHERE);
	ok(pv_event_op(vm, KVM_PV_PERF_READ, 0) == -KVM_ENOENT,
	   "OPEN leaves nothing open after an error");
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
		ok(pv_event_op(vm, ops[i].op, 3) == -KVM_ENOENT,
		   "%s returns ENOENT for an event that was never opened", ops[i].name);
		ok(pv_event_op(vm, ops[i].op, NR_EVENTS) == -KVM_E2BIG,
		   "%s returns E2BIG for id 16", ops[i].name);
		ok(pv_event_op(vm, ops[i].op, -1) == -KVM_E2BIG,
		   "%s returns E2BIG for the largest id", ops[i].name);
		ok(pv_event_op(vm, ops[i].op, 1ull << 32) == -KVM_E2BIG,
		   "%s returns E2BIG for an id of more than 32 bits", ops[i].name);
	}
	ok(pv_event_op(vm, KVM_PV_PERF_READ_ALL + 1, 0) == -KVM_EINVAL,
	   "an unknown op returns EINVAL");
	ok(pv_event_op(vm, -1, 0) == -KVM_EINVAL, "the largest op returns EINVAL");

	ok(pv_call(vm, 0, KVM_PV_PERF_QUERY, NOWHERE, 0) == -KVM_EFAULT,
	   "QUERY returns EFAULT for an address without memory");
	ok(pv_call(vm, 0, KVM_PV_PERF_QUERY, -1, 0) == -KVM_EFAULT,
	   "QUERY returns EFAULT for the last byte of the address space");
	ok(pv_call(vm, 0, KVM_PV_PERF_QUERY, READONLY_GPA, 0) == -KVM_EFAULT,
	   "QUERY returns EFAULT for read-only memory");
	ok(pv_call(vm, 0, KVM_PV_PERF_STAT_DESC, 0, NOWHERE) == -KVM_EFAULT,
	   "STAT_DESC returns EFAULT for an address without memory");
	ok(pv_call(vm, 0, KVM_PV_PERF_STAT_DESC, 0, READONLY_GPA) == -KVM_EFAULT,
	   "STAT_DESC returns EFAULT for read-only memory");
	ok(pv_call(vm, 0, KVM_PV_PERF_OPEN, NOWHERE, 0) == -KVM_EFAULT,
	   "OPEN returns EFAULT for an address without memory");
	ok(pv_call(vm, 0, KVM_PV_PERF_OPEN, end - 95, 0) == -KVM_EFAULT,
	   "OPEN returns EFAULT across the end of memory");
}

static void test_life(struct kvm_vm *vm)
{
	uint64_t before;

	pv_open_stat(vm, 5, "hypercalls");
	ok(pv_slot(vm, 5)->state == KVM_PV_PERF_STATE_ON &&
	   pv_slot(vm, 5)->count == PV_HYPERCALL_COUNTED_AT_END &&
	   !pv_slot(vm, 5)->overflows && !(pv_slot(vm, 5)->seq & 1),
	   "OPEN writes a slot that is on and has counted nothing");
	ok(pv_open_event(vm, 0) == -KVM_EEXIST, "OPEN returns EEXIST for an event that is open");
	before = pv_slot(vm, 5)->seq;
	ok(!pv_event_op(vm, KVM_PV_PERF_CLOSE, 5) &&
	   pv_slot(vm, 5)->state == KVM_PV_PERF_STATE_OFF &&
	   pv_slot(vm, 5)->seq != before && !(pv_slot(vm, 5)->seq & 1),
	   "CLOSE writes a slot that is off and has a new even seq");
	ok(pv_event_op(vm, KVM_PV_PERF_READ, 5) == -KVM_ENOENT,
	   "READ returns ENOENT for a closed event");
	ok(pv_event_op(vm, KVM_PV_PERF_CLOSE, 5) == -KVM_ENOENT,
	   "CLOSE returns ENOENT for a closed event");

	pv_stat_attr(vm, 5, "hypercalls")->flags = 0;
	ok(!pv_open_event(vm, 0) && pv_slot(vm, 5)->state == KVM_PV_PERF_STATE_OFF &&
	   !pv_count(vm, 5), "OPEN without ENABLED counts nothing");
	ok(!pv_event_op(vm, KVM_PV_PERF_ENABLE, 5) &&
	   pv_slot(vm, 5)->state == KVM_PV_PERF_STATE_ON &&
	   pv_count(vm, 5) == 1 + PV_HYPERCALL_COUNTED_AT_END,
	   "ENABLE starts the event");
	pv_reset(vm);
	ok(pv_event_op(vm, KVM_PV_PERF_READ, 5) == -KVM_ENOENT, "RESET closes the event");
}

static void test_stat(struct kvm_vm *vm)
{
	struct kvm_stats stats;
	uint64_t before, after, value;

	pv_open_stat(vm, 0, "hypercalls");
	before = pv_count(vm, 0);
	after = pv_count(vm, 0);
	ok(after - before == 1, "READ moves hypercalls by exactly 1");

	pv_event_op(vm, KVM_PV_PERF_DISABLE, 0);
	before = pv_slot(vm, 0)->count;
	ok(before - after == 1 - PV_HYPERCALL_COUNTED_AT_END,
	   "DISABLE adds 1 if a hypercall is counted when it begins");
	pv_count(vm, 0);
	ok(pv_count(vm, 0) == before, "READ after DISABLE adds nothing");
	pv_event_op(vm, KVM_PV_PERF_ENABLE, 0);
	before += PV_HYPERCALL_COUNTED_AT_END;
	ok(pv_slot(vm, 0)->count == before, "ENABLE continues from the count at DISABLE");
	ok(pv_count(vm, 0) == before + 1, "READ after ENABLE adds 1");
	pv_event_op(vm, KVM_PV_PERF_ENABLE, 0);
	ok(pv_slot(vm, 0)->count == before + 2, "ENABLE when on changes nothing");

	kvm_stats_open_stats_fd(&stats, vcpu_get_fd(vm, 0));
	pv_open_stat(vm, 1, "exits");
	before = pv_count(vm, 1);
	value = kvm_stats_value(&stats, "exits");
	pv_run_until(vm, 0, pv_guest_cpuid, 5000);
	after = pv_count(vm, 1);
	value = kvm_stats_value(&stats, "exits") - value;
	ok(after - before >= 5000, "5000 CPUIDs cause %lu exits", after - before);
	ok(after - before <= value + 2, "the host counted %lu exits for 5000 CPUIDs", value);
	kvm_stats_close(&stats);
	pv_reset(vm);
}

static void test_ids(struct kvm_vm *vm)
{
	uint32_t id, good = 0;

	for (id = 0; id < NR_EVENTS; id++)
		pv_open_stat(vm, id, "hypercalls");
	for (id = 0; id < NR_EVENTS; id++)
		good += pv_count(vm, id) == NR_EVENTS + PV_HYPERCALL_COUNTED_AT_END;
	ok(good == NR_EVENTS, "%u events at a time count, each in its slot", good);

	pv_attr(vm, 1, 0, KVM_PV_PERF_TYPE_SOFTWARE);
	ok(pv_call(vm, 1, KVM_PV_PERF_READ, 0, 0) == -KVM_ENOENT &&
	   !pv_open_event(vm, 1) && !pv_call(vm, 1, KVM_PV_PERF_READ, 0, 0),
	   "another vCPU has separate ids");
	ok(!pv_call(vm, 1, KVM_PV_PERF_RESET, 0, 0) && pv_count(vm, 0),
	   "RESET of another vCPU closes no event of the first");

	pv_reset(vm);
	for (id = good = 0; id < NR_EVENTS; id++)
		good += pv_event_op(vm, KVM_PV_PERF_READ, id) == -KVM_ENOENT;
	ok(good == NR_EVENTS, "RESET closes all events");
}

static void test_read_all(struct kvm_vm *vm)
{
	uint64_t all = (1ull << NR_EVENTS) - 1, before;
	uint32_t id, good = 0, seq;

	ok(!pv_event_op(vm, KVM_PV_PERF_READ_ALL, 0), "READ_ALL of no event succeeds");
	ok(pv_event_op(vm, KVM_PV_PERF_READ_ALL, 1) == -KVM_ENOENT,
	   "READ_ALL returns ENOENT for an event that was never opened");
	ok(pv_event_op(vm, KVM_PV_PERF_READ_ALL, 1ull << NR_EVENTS) == -KVM_E2BIG &&
	   pv_event_op(vm, KVM_PV_PERF_READ_ALL, 1ull << 32) == -KVM_E2BIG &&
	   pv_event_op(vm, KVM_PV_PERF_READ_ALL, -1) == -KVM_E2BIG,
	   "READ_ALL returns E2BIG for ids that are too large");
	for (id = 0; id < NR_EVENTS; id++)
		pv_open_stat(vm, id, "hypercalls");
	ok(!pv_event_op(vm, KVM_PV_PERF_READ_ALL, all), "READ_ALL of all events succeeds");
	for (id = 0; id < NR_EVENTS; id++)
		good += pv_slot(vm, id)->count ==
			NR_EVENTS - id + PV_HYPERCALL_COUNTED_AT_END;
	ok(good == NR_EVENTS, "READ_ALL of all events writes each slot");
	/* The end of KVM_RUN writes the slot of exits once; each write adds 2 to seq. */
	pv_event_op(vm, KVM_PV_PERF_CLOSE, 2);
	pv_open_stat(vm, 2, "exits");
	before = pv_slot(vm, 0)->count;
	seq = pv_slot(vm, 2)->seq;
	ok(!pv_event_op(vm, KVM_PV_PERF_READ_ALL, 2) && pv_slot(vm, 1)->count == before &&
	   pv_slot(vm, 2)->seq == seq + 2,
	   "READ_ALL of one event writes no other slot");
	pv_event_op(vm, KVM_PV_PERF_CLOSE, 1);
	ok(pv_event_op(vm, KVM_PV_PERF_READ_ALL, all) == -KVM_ENOENT &&
	   pv_slot(vm, 0)->count == before + 3,
	   "READ_ALL writes the other slots if one event is closed");
	pv_reset(vm);
	ok(pv_event_op(vm, KVM_PV_PERF_READ_ALL, 1) == -KVM_ENOENT,
	   "READ_ALL returns ENOENT for an event that was closed");
}

/* The host's owner sees how many are open. */
static void test_seen(struct kvm_vm *vm)
{
	struct kvm_stats stats;

	kvm_stats_open_stats_fd(&stats, vcpu_get_fd(vm, 0));
	ok(!kvm_stats_value(&stats, "pv_perf_events"), "pv_perf_events is 0 without an event");
	pv_open_stat(vm, 3, "exits");
	pv_open_clock(vm, 9, 0);
	ok(kvm_stats_value(&stats, "pv_perf_events") == 2, "pv_perf_events counts two open events");
	pv_event_op(vm, KVM_PV_PERF_CLOSE, 3);
	ok(kvm_stats_value(&stats, "pv_perf_events") == 1,
	   "pv_perf_events does not count a closed event");
	pv_stat_attr(vm, 3, "exits")->slot = NOWHERE;
	pv_open_event(vm, 0);
	ok(kvm_stats_value(&stats, "pv_perf_events") == 1,
	   "pv_perf_events does not count an event that failed to open");
	pv_reset(vm);
	ok(!kvm_stats_value(&stats, "pv_perf_events"), "pv_perf_events is 0 after RESET");
	kvm_stats_close(&stats);
}

/*
 * What the guest counted is what the host counted, for each statistic, to the last
 * one: while the vCPU does not run, slots and file can be read of one moment.
 */
static void test_equal(struct kvm_vm *vm)
{
	uint64_t before[NR_EVENTS], counts[NR_EVENTS];
	uint32_t i, first = 0, n, id, all = 0, equal = 0, moved = 0;
	const char *names[NR_EVENTS];
	struct kvm_stats stats;

	kvm_stats_open_stats_fd(&stats, vcpu_get_fd(vm, 0));
	while (first < stats.count) {
		for (i = first, n = 0; i < stats.count && n < NR_EVENTS - 1; i++) {
			names[n] = kvm_stats_desc(&stats, i)->name;
			pv_stat_attr(vm, n, names[n]);
			n += !pv_open_event(vm, 0);
		}
		first = i;
		pv_interrupt(vm);
		for (id = 0; id < n; id++) {
			before[id] = kvm_stats_value(&stats, names[id]);
			counts[id] = pv_slot(vm, id)->count;
		}
		pv_run_until(vm, 0, pv_guest_cpuid, 1000);
		pv_run_for(vm, 5 * PERIOD);
		pv_interrupt(vm);
		for (id = 0; id < n; id++) {
			uint64_t host = kvm_stats_value(&stats, names[id]) - before[id];
			uint64_t guest = pv_slot(vm, id)->count - counts[id];

			equal += guest == host;
			moved += host > 0;
			if (guest != host)
				printf("# %s: %lu, the host counted %lu\n", names[id],
				       guest, host);
		}
		all += n;
		pv_reset(vm);
	}
	ok(all > 30 && equal == all && moved > 5,
	   "%u statistics, %u of which moved: the guest counted what the host did", all,
	   moved);
	kvm_stats_close(&stats);
}

/* The owner of the host may clear statistics while a guest counts them. */
static void test_cleared(struct kvm_vm *vm)
{
	char path[256];
	uint64_t before;

	if (!debugfs_dir(getpid(), vm_get_fd(vm), path, sizeof(path))) {
		ksft_test_result_skip("no debugfs in which statistics could be cleared\n");
		return;
	}
	strcat(path, "/exits");
	pv_run_until(vm, 0, pv_guest_cpuid, 2000);
	pv_open_stat(vm, 0, "exits");
	pv_run_until(vm, 0, pv_guest_cpuid, 1000);
	before = pv_count(vm, 0);
	ok(write_file(path, "0"), "cleared: a 0 can be written to debugfs");
	ok(pv_count(vm, 0) > before && pv_slot(vm, 0)->count < before + 1000,
	   "cleared: the count is %lu, it continues from %lu",
	   (uint64_t)pv_slot(vm, 0)->count, before);
	before = pv_count(vm, 0);
	pv_run_until(vm, 0, pv_guest_cpuid, 100);
	ok(write_file(path, "0") && !pv_event_op(vm, KVM_PV_PERF_DISABLE, 0) &&
	   pv_slot(vm, 0)->count >= before && pv_slot(vm, 0)->count < before + 1000,
	   "cleared: DISABLE does not decrease the count");
	before = pv_slot(vm, 0)->count;
	ok(write_file(path, "0") && !pv_event_op(vm, KVM_PV_PERF_READ, 0) &&
	   pv_slot(vm, 0)->count == before,
	   "cleared: the count of a disabled event does not change");
	pv_reset(vm);
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
	struct kvm_vm *vm = pv_create_vm();
	struct kvm_sregs sregs;
	struct kvm_regs regs;

	ok(!pv_query(vm), "ring 0: QUERY returns 0");
	vcpu_sregs_get(vm, 0, &sregs);
	/* CR4.LA57: five levels of page tables */
	map_for_user(vm, sregs.cr3, sregs.cr4 & 1 << 12 ? 5 : 4);
	sregs.cs.selector |= 3;
	sregs.cs.dpl = 3;
	sregs.ss.selector |= 3;
	sregs.ss.dpl = 3;
	vcpu_sregs_set(vm, 0, &sregs);
	vcpu_regs_get(vm, 0, &regs);
	/* The guest does port I/O to talk to the host: let it. */
	regs.rflags |= 3 << 12;
	vcpu_regs_set(vm, 0, &regs);
	ok(pv_query(vm) == -KVM_EPERM, "ring 3: QUERY returns EPERM");
	ok(pv_event_op(vm, KVM_PV_PERF_RESET, 0) == -KVM_EPERM,
	   "ring 3: RESET returns EPERM");
	kvm_vm_free(vm);
}

int main(void)
{
	struct kvm_vm *vm;

	pv_begin();
	test_parameter();
	test_permission();
	test_ring3();
	vm = pv_create_vm();
	vm_userspace_mem_region_add(vm, VM_MEM_SRC_ANONYMOUS, READONLY_GPA,
				    READONLY_SLOT, 1, KVM_MEM_READONLY);
	test_query(vm);
	test_bad_attr(vm);
	test_bad_call(vm);
	test_life(vm);
	test_stat(vm);
	test_ids(vm);
	test_read_all(vm);
	test_seen(vm);
	test_equal(vm);
	test_cleared(vm);

	/* Every test must pass if the VM is destroyed with open events. */
	pv_open_clock(vm, 0, PERIOD);
	kvm_vm_free(vm);
	pv_end();
}
