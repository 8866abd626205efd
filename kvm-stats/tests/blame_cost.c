// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure the cost of the BPF program of blame, alone and with stalls: blame_cost VMM, where VMM is the
 * program of vmm.c. The kernel measures each run (BPF_STATS_RUN_TIME) while two threads wake each other through
 * pipes on one CPU, and the run of an empty program at the same events. Prints the cost
 * above the empty one of a switch on a CPU for which no vCPU waits, for which one waits and
 * for which more wait than the program has entries for, of a wait with many switches, while 40 VMs
 * wait for one CPU, of the exit of a thread, and the memory of the maps. Other load takes caches
 * away, so the fastest of many rounds counts. Needs root and /dev/kvm; prints TAP.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* with their programs and maps */
#include "../src/bpf/blame.c"
#include "../lib/bpf_iterator.c"
#include "bpf_cost.h"
#include "tap.h"
#include "vm.h"

#define THREADS		2000
#define SEGMENT_MAX_NS	200	/* of a switch on a CPU for which a vCPU waits */
#define WAIT_MAX_NS	20000	/* switches around the end of a wait */
#define CROWD		"40"	/* VMs that wait for one CPU */
#define CROWD_MAX_NS	3000	/* a switch on that CPU */
#define SWITCH_MAX_NS	25
#define CPU_MEMORY_MAX	(32 << 10)
#define MEMORY_MAX	(5 << 20)
#define STALLS_MEMORY	(1 << 20)	/* more with stalls */

static int cpu;

static bool pin(const void *arg)
{
	return move_thread(0, cpu);
}

/* The processes that this one starts inherit the priority. */
static void set_fifo(bool fifo)
{
	const struct sched_param priority = { .sched_priority = fifo };

	sched_setscheduler(0, fifo ? SCHED_FIFO : SCHED_OTHER, &priority);
}

static void sleep_a_second(void)
{
	sleep(1);
}

static void *return_at_once(void *arg)
{
	return NULL;
}

static void exit_threads(void)
{
	pthread_t thread;
	int i;

	for (i = 0; i < THREADS && !pthread_create(&thread, NULL, return_at_once, NULL); i++)
		pthread_join(thread, NULL);
}

/*
 * Nanoseconds of the program when a wait ends in which threads were switched many times, with some
 * other switches; in the best round
 */
static double measure_wait_end(int program)
{
	double best = 1e9;
	int i;

	for (i = 0; i < COST_ROUNDS; i++) {
		struct runs before;
		double ns;

		set_fifo(true);
		switch_threads();
		before = read_runs(program);
		set_fifo(false);
		usleep(2000);
		ns = read_runs(program).ns - before.ns;
		if (ns < best)
			best = ns;
	}
	return best;
}

/* name: of what the program counts */
static void measure_blame(char *vmm, unsigned int counts, const char *name)
{
	char *arguments[] = { vmm, "-b", "1", "1", NULL };
	char *crowd[] = { vmm, "-b", CROWD, "1", NULL };
	struct kvmstats_probe probe = { 0 };
	struct threads *threads;
	struct blame *blame;
	int empty, link, program;
	const int memory_max = MEMORY_MAX + (counts & THREADS_STALLS ? STALLS_MEMORY : 0);
	double ns, memory;
	pid_t vm;

	if (threads_open(&threads, counts, NULL, &probe) || blame_open(&blame, threads, NULL, &probe)) {
		tap_result(false, "%s works: %s", name, probe.why);
		return;
	}
	program = bpf_program__fd(blame->program->progs.threads_switch);
	empty = load_empty("sched_switch", &link);
	tap_result(empty >= 0 && link >= 0, "an empty program is attached to sched_switch");
	ns = measure_events(program, empty, switch_threads);
	tap_result(ns <= SWITCH_MAX_NS, "%s: a switch, no vCPU waits: %.0f ns, at most %d", name,
		   ns, SWITCH_MAX_NS);
	/* Threads with real-time priority keep the vCPU waiting. */
	vm = vm_start(arguments, pin, NULL);
	sleep(1);
	set_fifo(true);
	ns = measure_events(program, empty, switch_threads);
	set_fifo(false);
	tap_result(ns > SWITCH_MAX_NS && ns <= SEGMENT_MAX_NS,
		   "%s: a switch, a vCPU waits: %.0f ns, at most %d", name, ns, SEGMENT_MAX_NS);
	ns = measure_wait_end(program);
	tap_result(ns > SEGMENT_MAX_NS && ns <= WAIT_MAX_NS,
		   "%s: the end of a wait with %d switches: %.1f us, at most %d", name, COST_SWITCHES,
		   ns / 1e3, WAIT_MAX_NS / 1000);
	end_process(vm);
	vm = vm_start(crowd, pin, NULL);
	ns = measure_events(program, empty, sleep_a_second);
	tap_result(ns > SWITCH_MAX_NS && ns <= CROWD_MAX_NS,
		   "%s: a switch, " CROWD " VMs wait: %.0f ns, at most %d", name, ns, CROWD_MAX_NS);
	end_process(vm);
	memory = map_memory(bpf_map__fd(blame->program->maps.vcpus)) +
		 map_memory(bpf_map__fd(blame->program->maps.charges)) +
		 map_memory(bpf_map__fd(blame->program->maps.cgroups));
	tap_result(memory && memory <= memory_max, "%s: maps have %.2f MB, at most %.2f", name,
		   memory / 1e6, memory_max / 1e6);
	tap_result(sizeof(struct blame_cpu) <= CPU_MEMORY_MAX, "%s: %.1f KB for each CPU, at most %.1f", name,
		   sizeof(struct blame_cpu) / 1e3, CPU_MEMORY_MAX / 1e3);
	close(link);
	close(empty);
	blame_close(blame);
	threads_close(threads);
}

static void measure_exit(void)
{
	__u32 id = 0, size;
	int empty, link, program = -1;
	struct kvmstats *k;
	double ns;

	if (kvmstats_open(&k, "bpf", NULL, 0))
		return;
	kvmstats_sample(k);
	empty = load_empty("sched_process_exit", &link);
	/* the last one of this name */
	while (!bpf_prog_get_next_id(id, &id)) {
		struct bpf_prog_info info = { 0 };
		int fd = bpf_prog_get_fd_by_id(id);

		size = sizeof(info);
		if (fd < 0)
			continue;
		if (bpf_obj_get_info_by_fd(fd, &info, &size) || strcmp(info.name, "kvm_exit")) {
			close(fd);
			continue;
		}
		if (program >= 0)
			close(program);
		program = fd;
	}
	ns = measure_events(program, empty, exit_threads);
	tap_result(program >= 0 && ns <= SEGMENT_MAX_NS,
		   "bpf: the exit of a thread that is not a vCPU: %.0f ns, at most %d", ns, SEGMENT_MAX_NS);
	kvmstats_close(k);
}

int main(int argc, char **argv)
{
	int stats;

	if (argc != 2)
		errx(2, "usage: blame_cost VMM");
	/* the last one */
	cpu = nth_cpu(CPU_SETSIZE);
	pin(NULL);
	stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	tap_result(stats >= 0, "the kernel measures BPF programs");
	if (stats < 0)
		return tap_end();
	measure_blame(argv[1], THREADS_WAITS, "blame");
	measure_blame(argv[1], THREADS_WAITS | THREADS_STALLS, "blame with stalls");
	measure_exit();
	close(stats);
	return tap_end();
}
