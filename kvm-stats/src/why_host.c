// SPDX-License-Identifier: GPL-2.0-only
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proc.h"
#include "why.h"
#include "xalloc.h"

/* Columns of a CPU's line in /proc/stat, see proc(5) */
enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, CPU_TIMES };

struct cpu_times {
	uint64_t all, idle, steal;	/* USER_HZ */
};

struct why_cpus {
	int proc;
	struct cpu_times cpu[MAX_CPUS];	/* all 0: offline */
};

static void read_cpu_times(struct cpu_times *cpu)
{
	unsigned long long t[CPU_TIMES];
	unsigned int number, i;
	char line[512];
	FILE *f = fopen("/proc/stat", "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "cpu%u %llu %llu %llu %llu %llu %llu %llu %llu", &number, &t[USER],
			   &t[NICE], &t[SYSTEM], &t[IDLE], &t[IOWAIT], &t[IRQ], &t[SOFTIRQ],
			   &t[STEAL]) != 1 + CPU_TIMES || number >= MAX_CPUS)
			continue;
		cpu[number] = (struct cpu_times){ 0, t[IDLE] + t[IOWAIT], t[STEAL] };
		for (i = 0; i < CPU_TIMES; i++)
			cpu[number].all += t[i];
	}
	if (f)
		fclose(f);
}

struct why_cpus *begin_examination(int proc)
{
	struct why_cpus *cpus = check_alloc(calloc(1, sizeof(*cpus)));

	cpus->proc = proc;
	read_cpu_times(cpus->cpu);
	return cpus;
}

void examine_host(struct why_cpus *cpus, struct why_host *host)
{
	struct cpu_times *now = check_alloc(calloc(MAX_CPUS, sizeof(*now)));
	struct cpu_times sum = { 0 };
	unsigned int i;

	read_cpu_times(now);
	for (i = 0; i < MAX_CPUS; i++) {
		struct cpu_times *cpu = &cpus->cpu[i];

		/* A CPU that was or is offline has no time. The kernel lets idle decrease. */
		if (!cpu->all || now[i].all <= cpu->all) {
			*cpu = (struct cpu_times){ 0 };
			continue;
		}
		cpu->all = now[i].all - cpu->all;
		cpu->idle = now[i].idle > cpu->idle ? now[i].idle - cpu->idle : 0;
		cpu->steal = now[i].steal > cpu->steal ? now[i].steal - cpu->steal : 0;
		sum.all += cpu->all;
		sum.idle += cpu->idle;
		sum.steal += cpu->steal;
	}
	free(now);
	host->idle = kvmstats_permille(sum.idle, sum.all);
	host->steal = kvmstats_permille(sum.steal, sum.all);
}

void end_examination(struct why_cpus *cpus)
{
	free(cpus);
}

/* Append a CPU or a range, as taskset(1) has it. */
static void put_range(char list[CPU_LIST_SIZE], unsigned int first, unsigned int last)
{
	const size_t n = strlen(list);
	char range[32];

	if (first == last)
		snprintf(range, sizeof(range), "%s%u", n ? "," : "", first);
	else
		snprintf(range, sizeof(range), "%s%u-%u", n ? "," : "", first, last);
	if (n + strlen(range) + 4 < CPU_LIST_SIZE)
		strcpy(list + n, range);
	else if (n && list[n - 1] != '.')
		strcpy(list + n, "...");
}

/* The online CPUs that a set has, and how idle the others are */
static void describe_cpus(const struct why_cpus *cpus, const cpu_set_t *allowed, size_t size,
			  struct why_vm *why)
{
	struct cpu_times others = { 0 };
	unsigned int i, first = MAX_CPUS;

	for (i = 0; i < MAX_CPUS; i++) {
		const bool online = cpus->cpu[i].all, has = online && CPU_ISSET_S(i, size, allowed);

		if (has && first == MAX_CPUS)
			first = i;
		if (!has && first < MAX_CPUS) {
			put_range(why->cpu_list, first, i - 1);
			first = MAX_CPUS;
		}
		why->cpus += has;
		if (online && !has) {
			others.all += cpus->cpu[i].all;
			others.idle += cpus->cpu[i].idle;
		}
	}
	why->idle_elsewhere = kvmstats_permille(others.idle, others.all);
}

/* The CPUs on which at least one vCPU of the VM may run */
static void examine_affinity(const struct why_cpus *cpus, const struct kvmstats_vm *vm,
			     struct why_vm *why)
{
	const size_t size = CPU_ALLOC_SIZE(MAX_CPUS);
	cpu_set_t *all = check_alloc(CPU_ALLOC(MAX_CPUS)), *one = check_alloc(CPU_ALLOC(MAX_CPUS));
	unsigned int i;

	CPU_ZERO_S(size, all);
	for (i = 0; i < vm->vcpus; i++) {
		if (vm->vcpu[i]->tid && !sched_getaffinity(vm->vcpu[i]->tid, size, one))
			CPU_OR_S(size, all, all, one);
	}
	describe_cpus(cpus, all, size, why);
	CPU_FREE(all);
	CPU_FREE(one);
}

static uint64_t examine_swap(int proc, pid_t pid)
{
	unsigned long long kilobytes;
	const char *line;
	char text[8192];

	if (!proc_read(proc, pid, "status", text, sizeof(text)))
		return 0;
	line = strstr(text, "\nVmSwap:");
	return line && sscanf(line, "\nVmSwap: %llu kB", &kilobytes) == 1 ? kilobytes << 10 : 0;
}

/* Read the quota of one cgroup. Without a quota, v1 has -1 in the file, and v2 "max". */
static bool read_quota(struct why_quota *quota)
{
	const struct vm_cgroup *cgroup = &quota->cgroup;

	if (cgroup->v2)
		return read_cgroup_numbers(cgroup, "", "cpu.max", &quota->quota_us, &quota->period_us);
	return read_cgroup_numbers(cgroup, "cpu", "cpu.cfs_quota_us", &quota->quota_us, NULL) &&
	       quota->quota_us <= INT64_MAX &&
	       read_cgroup_numbers(cgroup, "cpu", "cpu.cfs_period_us", &quota->period_us, NULL);
}

const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The name of the cgroup whose quota was used up, as blame has it */
static const char *used_quota(const struct why_vm *why)
{
	const struct blame_share *quota = find_owner(why->waits, "quota");

	return quota ? quota->key.name : "";
}

/* Count the quotas of the cgroup and those above. Take the one that was used up, else the nearest. */
static void examine_quotas(int proc, pid_t tid, struct why_vm *why)
{
	struct why_quota quota = { 0 };

	if (!find_cgroup(proc, tid, "cpu", &quota.cgroup))
		return;
	do {
		if (read_quota(&quota) &&
		    (!why->quotas++ || !strcmp(base_name(quota.cgroup.path), used_quota(why))))
			why->quota = quota;
	} while (leave_cgroup(&quota.cgroup));
}

void examine_vm(const struct why_cpus *cpus, const struct kvmstats_vm *vm, struct why_vm *why)
{
	if (vm->ended)
		return;
	examine_affinity(cpus, vm, why);
	why->state = find_state(cpus->proc, vm);
	why->swap = examine_swap(cpus->proc, vm->identity.pid);
	if (vm->vcpus) {
		examine_quotas(cpus->proc, vm->vcpu[0]->tid, why);
		find_freezer(cpus->proc, vm->vcpu[0]->tid, &why->freezer);
	}
}
