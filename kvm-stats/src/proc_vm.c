// SPDX-License-Identifier: GPL-2.0-only
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "proc.h"
#include "proc_vm.h"

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

bool find_cgroup(int proc, pid_t tid, const char *controller, struct vm_cgroup *cgroup)
{
	char text[8192], *line, *end, *path, *controllers;
	const size_t len = strlen(controller);

	if (!proc_read(proc, tid, "cgroup", text, sizeof(text)))
		return false;
	for (line = text; *line; line = end) {
		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = '\0';
		/* NUMBER:CONTROLLERS:PATH; v2 has no controllers here. */
		controllers = strchr(line, ':');
		path = controllers ? strchr(++controllers, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		cgroup->v2 = !*controllers;
		if (!cgroup->v2 && (strncmp(controllers, controller, len) ||
				    (controllers[len] && controllers[len] != ',')))
			continue;
		if (strlen(path) >= sizeof(cgroup->path))
			return false;
		strcpy(cgroup->path, path);
		if (!cgroup->v2)
			return true;
	}
	return *cgroup->path;
}

bool leave_cgroup(struct vm_cgroup *cgroup)
{
	char *slash = strrchr(cgroup->path, '/');

	if (!slash || slash == cgroup->path)
		return false;
	*slash = '\0';
	return true;
}

bool read_cgroup_numbers(const struct vm_cgroup *cgroup, const char *controller, const char *file,
			 uint64_t *first, uint64_t *second)
{
	char path[sizeof(cgroup->path) + 64];
	unsigned long long n[2];
	int found = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/fs/cgroup%s%s%s/%s", cgroup->v2 ? "" : "/",
		 cgroup->v2 ? "" : controller, cgroup->path, file);
	f = fopen(path, "re");
	if (f) {
		found = fscanf(f, "%llu %llu", &n[0], &n[1]);
		fclose(f);
	}
	if (found < (second ? 2 : 1))
		return false;
	*first = n[0];
	if (second)
		*second = n[1];
	return true;
}

bool find_freezer(int proc, pid_t tid, struct vm_cgroup *freezer)
{
	struct vm_cgroup cgroup = { 0 };
	uint64_t frozen;

	if (!find_cgroup(proc, tid, "freezer", &cgroup))
		return false;
	do {
		if (read_cgroup_numbers(&cgroup, "freezer", cgroup.v2 ? "cgroup.freeze" : "freezer.self_freezing",
					&frozen, NULL) && frozen)
			*freezer = cgroup;
	} while (leave_cgroup(&cgroup));
	return *freezer->path;
}

char find_stuck_state(int proc, const struct kvmstats_vm *vm)
{
	struct vm_cgroup freezer = { 0 };

	if (!vm->vcpus)
		return '\0';
	return find_freezer(proc, vm->vcpu[0]->tid, &freezer) ? 'F' : find_state(proc, vm);
}
