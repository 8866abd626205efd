// SPDX-License-Identifier: GPL-2.0-only
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroups.h"
#include "proc.h"
#include "proc_vm.h"
#include "xalloc.h"

/* The state and the last CPU of a thread. Return '\0' if it does not exist. */
static char read_thread_state(int proc, pid_t tid, int *cpu)
{
	char text[1024], state;
	const char *end;

	if (!proc_read(proc, tid, "stat", text, sizeof(text)))
		return '\0';
	/* PID (NAME) STATE: the name may have anything in it. The CPU is column 39, see proc(5). */
	end = strrchr(text, ')');
	if (!end || sscanf(end, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
			   "%*u %*u %*d %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*d %d", &state, cpu) != 2)
		return '\0';
	return state;
}

char find_state(int proc, const struct kvmstats_vm *vm)
{
	char state = '\0', one;
	unsigned int i;
	int cpu;

	for (i = 0; i < vm->vcpus; i++) {
		one = read_thread_state(proc, vm->vcpu[i]->tid, &cpu);
		if (!one || (state && one != state))
			return '\0';
		state = one;
	}
	return state && strchr("TtD", state) ? state : '\0';
}

/* The node of a CPU; -1 if all CPUs are in one. This does not change. */
static int find_node(int cpu)
{
	static int node_of[MAX_CPUS], last = -1;
	glob_t found = { 0 };
	size_t i;

	if (last < 0) {
		last = 0;
		glob("/sys/devices/system/node/node[0-9]*/cpu[0-9]*", 0, NULL, &found);
		for (i = 0; i < found.gl_pathc; i++) {
			int node, of;

			if (sscanf(found.gl_pathv[i], "/sys/devices/system/node/node%d/cpu%d", &node, &of) != 2 ||
			    of >= MAX_CPUS)
				continue;
			node_of[of] = node;
			last = node > last ? node : last;
		}
		globfree(&found);
	}
	return last && cpu < MAX_CPUS ? node_of[cpu] : -1;
}

/* The CPUs on which a thread may run; "" if these are all that the host had at first, or can have */
static void read_affinity(int proc, pid_t tid, char list[AFFINITY_SIZE])
{
	static const char *const files[] = { "/sys/devices/system/cpu/online", "/sys/devices/system/cpu/possible" };
	static char all[2][AFFINITY_SIZE];
	const char *line;
	char text[8192];
	unsigned int i;
	FILE *f;

	*list = '\0';
	line = proc_read(proc, tid, "status", text, sizeof(text)) ? strstr(text, "\nCpus_allowed_list:") : NULL;
	if (!line || sscanf(line, "\nCpus_allowed_list: %255s", list) != 1)
		return;
	for (i = 0; i < 2; i++) {
		f = *all[i] ? NULL : fopen(files[i], "re");
		if (f) {
			if (fscanf(f, "%255s", all[i]) != 1)
				*all[i] = '\0';
			fclose(f);
		}
		if (!strcmp(all[i], list))
			*list = '\0';
	}
}

void read_place(int proc, pid_t tid, struct vcpu_place *place)
{
	place->state = read_thread_state(proc, tid, &place->cpu);
	if (!place->state)
		return;
	place->node = find_node(place->cpu);
	read_affinity(proc, tid, place->affinity);
}

/* Return true if a cgroup of the thread, or one above it, is frozen. */
static bool is_thread_frozen(int proc, pid_t tid)
{
	struct cgroup *cgroup = check_alloc(malloc(sizeof(*cgroup)));
	struct cgroups *cgroups = find_cgroups(proc);
	bool frozen = false;

	if (find_thread_cgroup(cgroups, tid, HIERARCHY_FREEZER, cgroup)) {
		do {
			frozen = is_cgroup_frozen(cgroups, cgroup);
		} while (!frozen && leave_cgroup(cgroup));
	}
	free_cgroups(cgroups);
	free(cgroup);
	return frozen;
}

char find_stuck_state(int proc, const struct kvmstats_vm *vm)
{
	if (!vm->vcpus)
		return '\0';
	return is_thread_frozen(proc, vm->vcpu[0]->tid) ? 'F' : find_state(proc, vm);
}
