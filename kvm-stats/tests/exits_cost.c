// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures the cost of "exits" for each exit, and its memory. Also on a host whose KVM does
 * not report exits: kvm_pio, which every KVM on x86 reports, stands for kvm_exit and
 * kvm_entry, and a pointer and a number of struct kvm_vcpu for those of the VMCB. Other load
 * takes caches away, so the fastest of many rounds counts. Needs root and /dev/kvm; prints
 * TAP.
 *
 * usage: exits_cost
 */
#include <stdio.h>

#include "tap.h"

#ifdef __x86_64__
#include "../src/bpf/exits.c"
#include "bpf_cost.h"
#include "clock.h"
#include "guest.h"

#define ROUNDS		20
#define EXITS		10000		/* of a round */
#define EXIT_MAX_NS	300
#define MEMORY_MAX	(2 << 20)
#define SAMPLES		100
/* kvm_pio has the port where kvm_exit has the instruction set. */
#define PORT		EXITS_SVM

static struct exits e;

static int find_types(struct bpf_program_layout *layout)
{
	struct bpf_kvm_types types;
	char why[256];
	int error;

	error = bpf_program_layout_find(BPF_BLAME, layout, why, sizeof(why)) ?:
		bpf_types_find(&types, why, sizeof(why));
	if (error) {
		fprintf(stderr, "%s\n", why);
		return error;
	}
	layout->vcpu_id = types.layout.vcpu_id;
	layout->svm_vmcb = layout->vcpu_kvm;
	layout->ports = true;
	bpf_types_free(&types);
	return 0;
}

/* A vCPU whose guest writes to a port again and again */
static int create_vcpu(void)
{
	static const unsigned char guest[] = { 0xe6, PORT, 0xeb, 0xfc };
	int vm, vcpu, kvm = need(open("/dev/kvm", O_RDWR | O_CLOEXEC), "/dev/kvm");

	vm = need(ioctl(kvm, KVM_CREATE_VM, 0), "KVM_CREATE_VM");
	guest_memory(vm, guest, sizeof(guest));
	vcpu = need(ioctl(vm, KVM_CREATE_VCPU, 0), "KVM_CREATE_VCPU");
	guest_registers(vm, vcpu, 0x2000);
	return vcpu;
}

enum program { EXIT, ENTRY, USERSPACE, EMPTY, PROGRAMS };

static int programs[PROGRAMS];

static void attach(void)
{
	const struct bpf_program *const loaded[] = {
		e.program->progs.exits_exit, e.program->progs.exits_entry,
		e.program->progs.exits_userspace,
	};
	static const char * const events[EMPTY] = {
		"kvm_pio", "kvm_pio", "kvm_userspace_exit",
	};
	int i, link;

	for (i = 0; i < EMPTY; i++) {
		programs[i] = bpf_program__fd(loaded[i]);
		need(bpf_raw_tracepoint_open(events[i], programs[i]), events[i]);
	}
	programs[EMPTY] = load_empty("kvm_pio", &link);
	need(link, "empty program");
}

/* Let the guest exit; return the mean time of each program, and of all for an exit. */
static double run_round(int vcpu, double mean[PROGRAMS])
{
	struct runs before[PROGRAMS];
	int i;

	for (i = 0; i < PROGRAMS; i++)
		before[i] = read_runs(programs[i]);
	for (i = 0; i < EXITS; i++)
		need(ioctl(vcpu, KVM_RUN, 0), "KVM_RUN");
	for (i = 0; i < PROGRAMS; i++)
		mean[i] = mean_ns(before[i], read_runs(programs[i]));
	return mean[EXIT] + mean[ENTRY] + mean[USERSPACE] - 3 * mean[EMPTY];
}

static void measure_exit(int vcpu)
{
	double best = 1e9, mean[PROGRAMS], of_best[PROGRAMS] = { 0 }, ns;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		ns = run_round(vcpu, mean);
		if (ns >= best)
			continue;
		best = ns;
		memcpy(of_best, mean, sizeof(mean));
	}
	tap_result(best <= EXIT_MAX_NS,
		   "exits: an exit: %.0f ns, at most %d: kvm_exit %.0f, kvm_entry %.0f, kvm_userspace_exit %.0f, without %.0f each for an empty program",
		   best, EXIT_MAX_NS, of_best[EXIT] - of_best[EMPTY],
		   of_best[ENTRY] - of_best[EMPTY], of_best[USERSPACE] - of_best[EMPTY],
		   of_best[EMPTY]);
}

static void measure_memory(void)
{
	unsigned long memory = 0;
	struct bpf_map *map;

	bpf_object__for_each_map(map, e.program->obj)
		if (map != e.program->maps.cells)
			memory += map_memory(bpf_map__fd(map));
	tap_result(memory && memory <= MEMORY_MAX, "exits: maps have %.2f MB, at most %.2f, and %.2f MB for %d cells",
		   memory / 1e6, MEMORY_MAX / 1e6, map_memory(bpf_map__fd(e.program->maps.cells)) / 1e6,
		   EXITS_CELLS);
}

static void measure_sample(void)
{
	double best = 1e9, before, ms;
	unsigned long count = 0;
	int i, error = 0;
	size_t row;

	for (i = 0; i < SAMPLES && !error; i++) {
		before = read_clock(CLOCK_PROCESS_CPUTIME_ID) / 1e6;
		error = exits_sample(&e);
		ms = read_clock(CLOCK_PROCESS_CPUTIME_ID) / 1e6 - before;
		if (ms < best)
			best = ms;
	}
	tap_result(!error, "exits: a sample takes %.3f ms of CPU", best);
	for (row = 0; row < e.count; row++)
		count += e.rows[row].cell.tgid == (__u32)getpid() ? e.rows[row].cell.count : 0;
	tap_result(count == ROUNDS * EXITS, "exits: %lu of %d exits are counted", count,
		   ROUNDS * EXITS);
}

int main(void)
{
	struct bpf_program_layout layout;
	int vcpu;

	if (!allocate(&e) || find_types(&layout) || load_exits_program(&e, &layout))
		return 1;
	need(bpf_enable_stats(BPF_STATS_RUN_TIME), "the kernel does not measure BPF programs");
	attach();
	vcpu = create_vcpu();
	measure_exit(vcpu);
	measure_memory();
	measure_sample();
	return tap_end();
}
#else
int main(void)
{
	puts("# not run, the cost of exits: only x86 has kvm_pio");
	return tap_end();
}
#endif
