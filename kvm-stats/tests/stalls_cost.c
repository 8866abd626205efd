// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure the cost of the BPF program of "stalls" for each switch, above that of an empty program,
 * while two processes wake each other through pipes on one CPU: if neither is a vCPU, and if one of
 * them is. Then half of the switches are sleeps of a vCPU, and half are their ends. Other load takes
 * caches away, so the fastest of many rounds counts. Needs root; prints TAP.
 */
/* with its program and map */
#include "../src/bpf/stalls.c"
#include "bpf_cost.h"
#include "tap.h"
#include "vm.h"

#define SWITCH_MAX_NS	60
#define SLEEP_MAX_NS	1500
#define MEMORY_MAX	(2 << 20)

int main(void)
{
	struct kvmstats_vcpu vcpu = { .tid = gettid() }, *vcpus[] = { &vcpu };
	const struct kvmstats_vm own = { .identity.pid = getpid(), .vcpus = 1, .vcpu = vcpus };
	const int stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	struct kvmstats_probe probe = { 0 };
	int program, map, empty, link = -1;
	struct stalls *stalls;
	uint64_t charged = 0;
	double plain, both;
	size_t i;
	__u32 tid;

	move_thread(0, sched_getcpu());
	tap_result(stats >= 0, "the kernel measures BPF programs");
	if (stalls_open(&stalls, NULL, NULL, &probe)) {
		tap_result(false, "stalls works: %s", probe.why);
		return tap_end();
	}
	program = bpf_program__fd(stalls->threads->program->progs.threads_switch);
	map = bpf_map__fd(stalls->threads->program->maps.vcpus);
	/* The check has entered this thread. */
	tid = gettid();
	bpf_map_delete_elem(map, &tid);
	empty = load_empty("sched_switch", &link);
	tap_result(empty >= 0 && link >= 0, "an empty program is attached to sched_switch");
	plain = measure_events(program, empty, switch_threads);
	tap_result(plain <= SWITCH_MAX_NS, "stalls: a switch of other threads: %.0f ns, at most %d", plain,
		   SWITCH_MAX_NS);
	stalls_sample(stalls);
	stalls_enter(stalls, &own);
	both = 2 * measure_events(program, empty, switch_threads);
	stalls_sample(stalls);
	for (i = 0; i < stalls->count; i++)
		if (stalls->rows[i].tid == tid)
			charged = stalls->rows[i].growth[STALL_WAIT];
	tap_result(charged && both <= SLEEP_MAX_NS,
		   "stalls: the begin and end of a vCPU's sleep: %.0f ns, at most %d", both, SLEEP_MAX_NS);
	tap_result(map_memory(map) && map_memory(map) <= MEMORY_MAX, "stalls: the map has %.2f MB, at most %.2f",
		   map_memory(map) / 1e6, MEMORY_MAX / 1e6);
	close(link);
	close(empty);
	stalls_close(stalls);
	close(stats);
	return tap_end();
}
