// SPDX-License-Identifier: GPL-2.0-only
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
	struct cgroups *cgroups;	/* NULL until a VM is examined */
	bool isolated[MAX_CPUS];
	struct other_waits *before, *now;
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

struct why_cpus *begin_examination(int proc, const struct kvmstats_vm *first)
{
	struct why_cpus *cpus = check_alloc(calloc(1, sizeof(*cpus)));

	cpus->proc = proc;
	cpus->before = read_other_waits(proc, first);
	read_cpu_times(cpus->cpu);
	return cpus;
}

/* Some kernels have it read-only. */
static void read_halt_poll(struct why_host *host)
{
	FILE *f = fopen("/sys/module/kvm/parameters/halt_poll_ns", "re");
	struct stat st;

	if (f && fscanf(f, "%u", &host->halt_poll_ns) != 1)
		host->halt_poll_ns = 0;
	host->halt_poll_writable = f && !fstat(fileno(f), &st) && st.st_mode & S_IWUSR;
	if (f)
		fclose(f);
}

void examine_host(struct why_cpus *cpus, const struct kvmstats_vm *first, struct why_host *host)
{
	struct cpu_times *now = check_alloc(calloc(MAX_CPUS, sizeof(*now)));
	struct cpu_times sum = { 0 };
	unsigned int i;

	read_cpu_times(now);
	cpus->now = read_other_waits(cpus->proc, first);
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
	read_halt_poll(host);
}

void end_examination(struct why_cpus *cpus)
{
	if (!cpus)
		return;
	free_cgroups(cpus->cgroups);
	free_other_waits(cpus->before);
	free_other_waits(cpus->now);
	free(cpus);
}

void examine_other_threads(const struct why_cpus *cpus, const struct kvmstats_vm *vm, struct why_vm *why)
{
	if (cpus->now)
		why->others = find_other_use(cpus->before, cpus->now, vm->identity.pid);
}

/* The kernel does not move threads between these CPUs; the file is empty if there are none. */
static void read_isolated(struct why_cpus *cpus)
{
	FILE *f = fopen("/sys/devices/system/cpu/isolated", "re");
	unsigned int first, last, i;
	int n;

	while (f && (n = fscanf(f, "%u-%u", &first, &last)) > 0) {
		for (i = first; i <= (n == 2 ? last : first) && i < MAX_CPUS; i++)
			cpus->isolated[i] = true;
		if (getc(f) != ',')
			break;
	}
	if (f)
		fclose(f);
}

/* Return a set of CPUs as a list for taskset(1) and the like, which the caller frees; and their number. */
static char *list_cpus(const cpu_set_t *set, unsigned int *count)
{
	const size_t size = CPU_ALLOC_SIZE(MAX_CPUS);
	unsigned int i, first;
	char *list = NULL;
	size_t len;
	FILE *f = check_alloc(open_memstream(&list, &len));

	*count = 0;
	for (i = 0; i < MAX_CPUS; i++) {
		if (!CPU_ISSET_S(i, size, set))
			continue;
		for (first = i; i + 1 < MAX_CPUS && CPU_ISSET_S(i + 1, size, set); i++)
			;
		fprintf(f, i > first ? "%s%u-%u" : "%s%u", *count ? "," : "", first, i);
		*count += i - first + 1;
	}
	if (fclose(f))
		check_alloc(NULL);
	return list;
}

/* Read a list of CPUs as the kernel writes it. */
static void read_cpu_list(const char *text, cpu_set_t *set)
{
	unsigned int first, last;
	int n, used;

	CPU_ZERO_S(CPU_ALLOC_SIZE(MAX_CPUS), set);
	while ((n = sscanf(text, "%u%n-%u%n", &first, &used, &last, &used)) > 0) {
		for (last = n == 2 ? last : first; first <= last && first < MAX_CPUS; first++)
			CPU_SET_S(first, CPU_ALLOC_SIZE(MAX_CPUS), set);
		text += used;
		if (*text++ != ',')
			break;
	}
}

/* The sets of CPUs of one vCPU */
struct vcpu_sets {
	cpu_set_t *may;		/* on which it may run */
	cpu_set_t *could;	/* that its cpuset lets it use, and that are not isolated */
	cpu_set_t *partition;	/* that larger cpusets could let it use */
	/* Unions over all vCPUs: CPUs of the partition on which a vCPU may not run; CPUs on which it could run, but may not */
	cpu_set_t *others, *gained;
	cpu_set_t *within;	/* union of the CPUs on which they may run */
	cpu_set_t *taken;	/* on which a vCPU ran last, or that it should use */
};

/*
 * A partition of v2 takes its CPUs away from all cgroups that are not in it. The kernel does not balance load
 * between the CPUs of an isolated one.
 */
static void read_partition(struct why_cpus *cpus, struct cgroup *cgroup, cpu_set_t *set, bool *isolated)
{
	const char *text;

	do {
		text = read_cgroup(cpus->cgroups, cgroup, "cpuset.cpus.partition");
		*isolated = text && !strcmp(text, "isolated\n");
	} while (!*isolated && (!text || strcmp(text, "root\n")) && leave_cgroup(cgroup));
	text = read_cgroup(cpus->cgroups, cgroup, "cpuset.cpus.effective");
	if (text)
		read_cpu_list(text, set);
}

/* Read the CPUs that the cpuset of a thread has, or that above the one that libvirt has for each vCPU, and changes. */
static void read_cpusets(struct why_cpus *cpus, pid_t tid, bool libvirt, const struct vcpu_sets *sets, bool *isolated)
{
	struct cgroup *cgroup = check_alloc(malloc(sizeof(*cgroup)));
	const char *text = NULL;

	memset(sets->could, 0xff, CPU_ALLOC_SIZE(MAX_CPUS));
	memset(sets->partition, 0xff, CPU_ALLOC_SIZE(MAX_CPUS));
	if (find_thread_cgroup(cpus->cgroups, tid, HIERARCHY_CPUSET, cgroup)) {
		if (libvirt && !strncmp(base_name(cgroup->path), "vcpu", 4))
			leave_cgroup(cgroup);
		text = read_cgroup(cpus->cgroups, cgroup, cgroup->v2 ? "cpuset.cpus.effective" : "cpuset.effective_cpus");
		if (text)
			read_cpu_list(text, sets->could);
		if (cgroup->v2)
			read_partition(cpus, cgroup, sets->partition, isolated);
	}
	free(cgroup);
}

static void fill_sets(struct why_cpus *cpus, pid_t tid, bool libvirt, const struct vcpu_sets *sets, struct vcpu_cpus *v)
{
	const size_t size = CPU_ALLOC_SIZE(MAX_CPUS);
	unsigned int i;
	bool usable;

	read_cpusets(cpus, tid, libvirt, sets, &v->isolated);
	for (i = 0; i < MAX_CPUS; i++) {
		usable = cpus->cpu[i].all && !cpus->isolated[i];
		if (!usable)
			CPU_CLR_S(i, size, sets->could);
		if (CPU_ISSET_S(i, size, sets->may)) {
			CPU_SET_S(i, size, sets->within);
			v->isolated |= cpus->isolated[i];
			/* A command takes no CPU away from the vCPU. */
			if (cpus->cpu[i].all)
				CPU_SET_S(i, size, sets->could);
			else
				CPU_CLR_S(i, size, sets->may);
			continue;
		}
		if (usable && CPU_ISSET_S(i, size, sets->partition))
			CPU_SET_S(i, size, sets->others);
		if (CPU_ISSET_S(i, size, sets->could))
			CPU_SET_S(i, size, sets->gained);
	}
}

/* Return the CPU on which a thread ran last, -1 if that is not known. It is field 39 of a file with spaces in field 2. */
static int read_last_cpu(int proc, pid_t tid)
{
	char text[1024], *field;
	unsigned int i;

	if (!proc_read(proc, tid, "stat", text, sizeof(text)))
		return -1;
	field = strrchr(text, ')');
	for (i = 2; field && i < 39; i++)
		field = strchr(field + 1, ' ');
	return field ? atoi(field + 1) : -1;
}

/* Return the CPU of a set that was idle for the longest time, apart from those taken; -1 if there is none. */
static int find_idle_cpu(const struct why_cpus *cpus, const cpu_set_t *set, const cpu_set_t *taken)
{
	const size_t size = CPU_ALLOC_SIZE(MAX_CPUS);
	unsigned int i, idle, most = 0;
	int found = -1;

	for (i = 0; i < MAX_CPUS; i++) {
		idle = kvmstats_permille(cpus->cpu[i].idle, cpus->cpu[i].all);
		if (idle > most && CPU_ISSET_S(i, size, set) && !CPU_ISSET_S(i, size, taken)) {
			most = idle;
			found = i;
		}
	}
	return found;
}

/*
 * The kernel leaves threads where they are on CPUs between which it does not balance load. Find an idle CPU for
 * each vCPU that is on the same one as another.
 */
static void find_spread(const struct why_cpus *cpus, const struct vcpu_sets *sets, struct why_vm *why)
{
	const size_t size = CPU_ALLOC_SIZE(MAX_CPUS);
	struct vcpu_cpus *v = why->facts->vcpus, *end = v + why->facts->nr_vcpus;
	int cpu;

	for (; v < end; v++) {
		cpu = read_last_cpu(cpus->proc, v->tid);
		if (!v->isolated || cpu < 0)
			goto none;
		if (CPU_ISSET_S(cpu, size, sets->taken))
			snprintf(v->idle, sizeof(v->idle), "%d", cpu);
		CPU_SET_S(cpu, size, sets->taken);
	}
	for (v = why->facts->vcpus; v < end; v++) {
		if (!*v->idle)
			continue;
		read_cpu_list(v->may, sets->may);
		cpu = find_idle_cpu(cpus, sets->may, sets->taken);
		if (cpu < 0)
			goto none;
		CPU_SET_S(cpu, size, sets->taken);
		snprintf(v->idle, sizeof(v->idle), "%d", cpu);
		why->spread_gain += kvmstats_permille(cpus->cpu[cpu].idle, cpus->cpu[cpu].all);
	}
	return;
none:
	why->spread_gain = 0;
}

/* Return the idle time of CPUs. */
static unsigned int find_idle_permille(const struct why_cpus *cpus, const cpu_set_t *set)
{
	const size_t size = CPU_ALLOC_SIZE(MAX_CPUS);
	struct cpu_times sum = { 0 };
	unsigned int i;

	for (i = 0; i < MAX_CPUS; i++) {
		if (CPU_ISSET_S(i, size, set)) {
			sum.all += cpus->cpu[i].all;
			sum.idle += cpus->cpu[i].idle;
		}
	}
	return kvmstats_permille(sum.idle, sum.all);
}

/* Describe the vCPU that may use the fewest CPUs. */
static void examine_affinity(struct why_cpus *cpus, const struct kvmstats_vm *vm, struct why_vm *why)
{
	const size_t size = CPU_ALLOC_SIZE(MAX_CPUS);
	struct why_facts *facts = why->facts;
	char *set = check_alloc(calloc(7, size));
	const struct vcpu_sets sets = { (void *)set, (void *)(set + size), (void *)(set + 2 * size),
					(void *)(set + 3 * size), (void *)(set + 4 * size), (void *)(set + 5 * size),
					(void *)(set + 6 * size) };
	unsigned int i, count;

	facts->vcpus = check_alloc(calloc(vm->vcpus + 1, sizeof(*facts->vcpus)));
	for (i = 0; i < vm->vcpus; i++) {
		struct vcpu_cpus *v = &facts->vcpus[facts->nr_vcpus];

		if (!vm->vcpu[i]->tid || sched_getaffinity(vm->vcpu[i]->tid, size, sets.may))
			continue;
		v->tid = vm->vcpu[i]->tid;
		v->id = vm->vcpu[i]->id;
		fill_sets(cpus, v->tid, *facts->uuid, &sets, v);
		v->could = list_cpus(sets.could, &count);
		v->may = list_cpus(sets.may, &count);
		why->cpus_differ |= facts->nr_vcpus++ && strcmp(v->may, facts->vcpus[0].may);
		if (!why->cpus || count < why->cpus) {
			why->cpus = count;
			snprintf(why->cpu_list, sizeof(why->cpu_list), "%s", v->may);
			if (strlen(v->may) >= sizeof(why->cpu_list))
				strcpy(why->cpu_list + sizeof(why->cpu_list) - 4, "...");
		}
	}
	for (i = 0; i < MAX_CPUS; i++) {
		if (CPU_ISSET_S(i, size, sets.gained))
			why->unpin_gain += kvmstats_permille(cpus->cpu[i].idle, cpus->cpu[i].all);
	}
	why->idle_elsewhere = find_idle_permille(cpus, sets.others);
	why->idle_within = find_idle_permille(cpus, sets.within);
	find_spread(cpus, &sets, why);
	free(set);
	count = why->vm->elapsed ? why->vm->activity.times.mode[KVMSTATS_READY] * 1000 / why->vm->elapsed : 0;
	why->unpin_gain = why->unpin_gain < count ? why->unpin_gain : count;
	why->spread_gain = why->spread_gain < count ? why->spread_gain : count;
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

/* The directory in which libvirt has the PID and the description of each domain that runs; only root writes there. */
#define LIBVIRT_QEMU	"/run/libvirt/qemu"

/* Open one of these files. Return NULL if it is not root's. */
static FILE *open_libvirt(const char *domain, const char *suffix)
{
	char path[256];
	struct stat st;
	FILE *f;

	snprintf(path, sizeof(path), LIBVIRT_QEMU "/%s.%s", domain, suffix);
	f = fopen(path, "re");
	if (f && (fstat(fileno(f), &st) || st.st_uid)) {
		fclose(f);
		f = NULL;
	}
	return f;
}

/* Users choose names and UUIDs of VMs: libvirt must list the process as this domain. */
static bool is_libvirt_domain(const struct kvmstats_identity *identity)
{
	FILE *f;
	int pid;

	if (!*identity->domain || strchr(identity->domain, '/'))
		return false;
	f = open_libvirt(identity->domain, "pid");
	if (!f)
		return false;
	if (fscanf(f, "%d", &pid) != 1)
		pid = 0;
	fclose(f);
	return pid == identity->pid;
}

/* The domain follows a list of all its vCPUs. */
static void read_libvirt_uuid(const char *domain, char uuid[37])
{
	FILE *f = open_libvirt(domain, "xml");
	bool in_domain = false;
	char *line = NULL, *at;
	size_t size = 0;

	while (f && !*uuid && getline(&line, &size, f) > 0) {
		in_domain |= !!strstr(line, "<domain ");
		at = in_domain ? strstr(line, "<uuid>") : NULL;
		if (at && strspn(at + 6, "0123456789abcdef-") == 36 && at[6] != '-')
			sprintf(uuid, "%.36s", at + 6);
	}
	free(line);
	if (f)
		fclose(f);
}

static void examine_libvirt(const struct why_cpus *cpus, const struct kvmstats_vm *vm, struct why_facts *facts)
{
	struct cgroup *cgroup;

	if (!is_libvirt_domain(&vm->identity))
		return;
	read_libvirt_uuid(vm->identity.domain, facts->uuid);
	cgroup = check_alloc(malloc(sizeof(*cgroup)));
	if (*facts->uuid && vm->vcpus && find_thread_cgroup(cpus->cgroups, vm->vcpu[0]->tid, HIERARCHY_CPU, cgroup) &&
	    !strncmp(base_name(cgroup->path), "vcpu", 4) && leave_cgroup(cgroup))
		facts->domain = check_alloc(strdup(cgroup->path));
	free(cgroup);
}

/* Migration, snapshots and their like fill in memory by such a file. */
static bool has_userfaultfd(int proc, pid_t pid)
{
	char path[32], link[64];
	struct dirent *entry;
	bool has = false;
	ssize_t len;
	DIR *dir;
	int fd;

	snprintf(path, sizeof(path), "%d/fd", pid);
	fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	while (!has && dir && (entry = readdir(dir))) {
		len = readlinkat(fd, entry->d_name, link, sizeof(link) - 1);
		link[len > 0 ? len : 0] = '\0';
		has = !strcmp(link, "anon_inode:[userfaultfd]");
	}
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
	return has;
}

static void examine_memory(const struct why_cpus *cpus, pid_t pid, struct why_facts *facts)
{
	struct cgroup *cgroup = check_alloc(malloc(sizeof(*cgroup)));
	struct memory_file *file = check_alloc(malloc(sizeof(*file)));

	if (find_memory_file(cpus->proc, pid, file))
		facts->memory_file = file;
	else
		free(file);

	facts->userfaultfd = has_userfaultfd(cpus->proc, pid);
	if (find_thread_cgroup(cpus->cgroups, pid, HIERARCHY_MEMORY, cgroup)) {
		do {
			if (!facts->memory_limit && is_at_memory_high(cpus->cgroups, cgroup))
				facts->memory_limit = check_alloc(strdup(base_name(cgroup->path)));
		} while (leave_cgroup(cgroup));
	}
	free(cgroup);
}

static double weigh_policy(const struct thread_policy *t)
{
	return t->policy == SCHED_IDLE ? NICE_MAX + 1 : t->nice;
}

static void examine_policies(const struct kvmstats_vm *vm, struct why_facts *facts)
{
	unsigned int i;

	facts->threads = check_alloc(calloc(vm->vcpus + 1, sizeof(*facts->threads)));
	for (i = 0; i < vm->vcpus; i++) {
		struct thread_policy *t = &facts->threads[facts->nr_threads];

		if (!vm->vcpu[i]->tid || !read_thread_policy(vm->vcpu[i]->tid, t))
			continue;
		if (!facts->nr_threads++ || weigh_policy(t) > weigh_policy(&facts->slowest))
			facts->slowest = *t;
	}
}

static struct contest_owner make_contest_owner(const struct blame_share *share, unsigned int cpus)
{
	return (struct contest_owner){ strcmp(share->key.kind, "vm") ? share->key.name : NULL, share->pid,
				       share->starter, share->cgroup, share->item.cost / (cpus ?: 1) };
}

/* Owners of which each is too small to be changed can be one side of the contest. */
#define SIDE_OWNERS_MAX	64

static void examine_small_owners(const struct why_cpus *cpus, const struct kvmstats_vm *vm, struct why_vm *why)
{
	const struct blame_share *share[SIDE_OWNERS_MAX];
	struct contest_owner owners[SIDE_OWNERS_MAX];
	const struct contest_owner *found;
	unsigned int n = 0;
	size_t i;

	for (i = 0; i < why->waits->sum.count && n < SIDE_OWNERS_MAX; i++) {
		share[n] = blame_share_at(why->waits, i);
		if (strcmp(share[n]->key.kind, "process") || !share[n]->pid)
			continue;
		owners[n] = make_contest_owner(share[n], 1);
		n++;
	}
	found = find_main_side(cpus->cgroups, vm, owners, n, &why->facts->side_ns);
	if (found && is_main_process(why, why->facts->side_ns))
		why->facts->owner = share[found - owners];
	else
		why->facts->side_ns = 0;
}

/* The owner that took the most: a process, or another VM, which is known by its PID only. */
static void examine_owner(const struct why_cpus *cpus, const struct kvmstats_vm *vm, const struct kvmstats_vm *first,
			  struct why_vm *why)
{
	struct why_facts *facts = why->facts;
	struct contest_owner from;

	facts->owner = find_owner(why->waits, "process vm");
	if (!facts->owner)
		return;
	if (!strcmp(facts->owner->key.kind, "process") && !has_main_process(why))
		examine_small_owners(cpus, vm, why);
	from = make_contest_owner(facts->owner, vm->vcpus);
	find_contest(cpus->cgroups, cpus->proc, vm, first, &from, &facts->contest);
}

void examine_vm(struct why_cpus *cpus, const struct kvmstats_vm *vm, const struct kvmstats_vm *first,
		struct why_vm *why)
{
	if (vm->ended)
		return;
	if (!cpus->cgroups) {
		cpus->cgroups = find_cgroups(cpus->proc);
		read_isolated(cpus);
	}
	why->facts = check_alloc(calloc(1, sizeof(*why->facts)));
	why->facts->cgroups = cpus->cgroups;
	examine_libvirt(cpus, vm, why->facts);
	examine_affinity(cpus, vm, why);
	examine_policies(vm, why->facts);
	examine_owner(cpus, vm, first, why);
	why->state = find_state(cpus->proc, vm);
	why->swap = examine_swap(cpus->proc, vm->identity.pid);
	if (why->vm->activity.times.mode[KVMSTATS_THROTTLED] || why->vm->activity.times.mode[KVMSTATS_READY])
		why->facts->nr_quotas = find_quotas(cpus->cgroups, vm, first, cpus->before, cpus->now,
						    &why->facts->quotas, &why->facts->quotas_complete);
	if (why->others.tid)
		why->facts->other_quota = find_other_quota(cpus->cgroups, vm, &why->others);
	if (find_stall_time(why->stalls, STALL_MEMORY))
		examine_memory(cpus, vm->identity.pid, why->facts);
	if (why->vm->activity.times.mode[KVMSTATS_OTHER])
		why->facts->nr_frozen = find_frozen(cpus->cgroups, vm, &why->facts->frozen);
}

void free_facts(struct why_facts *facts)
{
	unsigned int i;

	if (!facts)
		return;
	for (i = 0; i < facts->nr_vcpus; i++) {
		free(facts->vcpus[i].may);
		free(facts->vcpus[i].could);
	}
	free(facts->vcpus);
	free_contest(&facts->contest);
	free(facts->threads);
	free(facts->quotas);
	free(facts->other_quota);
	free(facts->frozen);
	free(facts->domain);
	free(facts->memory_limit);
	free(facts->memory_file);
	free(facts);
}
