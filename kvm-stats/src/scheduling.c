// SPDX-License-Identifier: GPL-2.0-only
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proc.h"
#include "scheduling.h"
#include "xalloc.h"

/* As in <linux/sched/types.h>, which older systems do not have */
struct thread_attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

bool read_thread_policy(pid_t tid, struct thread_policy *policy)
{
	struct thread_attributes a = { 0 };

	if (syscall(SYS_sched_getattr, tid, &a, sizeof(a), 0))
		return false;
	*policy = (struct thread_policy){ tid, a.policy, a.nice, a.priority, a.runtime, a.deadline, a.period };
	return true;
}

/* Processes of an owner, while they are searched */
struct owner_search {
	struct cgroups *cgroups;
	int proc;
	const char *name;
	struct cgroup *cgroup;	/* the first process's */
	pid_t pid;		/* it */
	uid_t user;		/* of it */
	bool found, has_reader;
	struct contest *contest;
};

/* Return true if an owner has the name of a cgroup in a text of /proc/PID/cgroup. */
static bool names_cgroup(const char *name, const char *text)
{
	const size_t len = strlen(name);
	const char *at;

	for (at = strstr(text, name); len && at; at = strstr(at + 1, name)) {
		if (at > text && at[-1] == '/' && (at[len] == '/' || at[len] == '\n'))
			return true;
	}
	return false;
}

/* Return true if an owner has the name of a process: "COMMAND", "COMMAND (CGROUP)", or its unit. */
static bool names_process(int proc, const char *name, pid_t pid, const char *comm)
{
	char *text = check_alloc(malloc(PROC_CGROUP_SIZE));
	const size_t len = strlen(comm);
	bool names;

	names = len && !strncmp(name, comm, len) && (!name[len] || !strncmp(name + len, " (", 2));
	if (!names && looks_like_unit(name) && proc_read(proc, pid, "cgroup", text, PROC_CGROUP_SIZE))
		names = names_cgroup(name, text);
	free(text);
	return names;
}

static int add_owner_thread(void *arg, int dirfd, int tid)
{
	struct contest *contest = arg;
	struct thread_policy policy;

	if (!read_thread_policy(tid, &policy))
		return 0;
	if (contest->nr_threads == THREADS_MAX)
		return -1;
	contest->threads[contest->nr_threads++] = policy;
	return 0;
}

/* Return the user of a process, -1 if it has exited. */
static uid_t find_user(int proc, pid_t pid)
{
	char path[16];
	struct stat st;

	snprintf(path, sizeof(path), "%d", pid);
	return fstatat(proc, path, &st, 0) ? (uid_t)-1 : st.st_uid;
}

static int add_owner_threads(int proc, pid_t pid, struct contest *contest)
{
	char path[32];
	int fd, failed;

	snprintf(path, sizeof(path), "%d/task", pid);
	fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	failed = proc_numbers(fd, add_owner_thread, contest);
	close(fd);
	return failed;
}

/*
 * Add a process if it belongs to the owner: it shares name, cgroup and user with the first one.
 * Users choose names: another user's process can have the same one.
 */
static int add_owner_process(void *arg, int dirfd, int pid)
{
	struct owner_search *s = arg;
	struct cgroup *cgroup = check_alloc(malloc(sizeof(*cgroup)));
	char comm[32];
	int failed = 0;

	if (proc_is_user(s->proc, pid) && proc_comm(s->proc, pid, comm, sizeof(comm)) &&
	    (!s->name || names_process(s->proc, s->name, pid, comm)) &&
	    find_thread_cgroup(s->cgroups, pid, HIERARCHY_CPU, cgroup) &&
	    (!s->found || (!strcmp(cgroup->path, s->cgroup->path) && find_user(s->proc, pid) == s->user))) {
		if (!s->found) {
			*s->cgroup = *cgroup;
			s->pid = pid;
			s->user = find_user(s->proc, pid);
			strcpy(s->contest->comm, comm);
		}
		s->found = true;
		s->has_reader |= pid == getpid();
		failed = add_owner_threads(s->proc, pid, s->contest);
	}
	free(cgroup);
	return failed;
}

/* Return true if a process started after the owner had taken time: it is one of several, each of which ends. */
static bool is_brief(int proc, pid_t pid, uint64_t took_ns)
{
	const uint64_t started = proc_started(proc, pid);
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return started && now.tv_sec * 1000000000ULL + now.tv_nsec < started + took_ns;
}

/* Return true if "blame" has this id for the cgroup of a process: its inode in v2, if it is not in the root there. */
static bool has_cgroup_id(const struct cgroups *cgroups, pid_t pid, uint64_t id)
{
	struct cgroup *cgroup = check_alloc(malloc(sizeof(*cgroup)));
	char path[PATH_MAX];
	struct stat st;
	bool has;

	has = ((find_thread_cgroup(cgroups, pid, HIERARCHY_V2, cgroup) && *cgroup->path) ||
	       find_thread_cgroup(cgroups, pid, HIERARCHY_CPU, cgroup)) &&
	      cgroup_file_path(cgroups, cgroup, "", path) && !stat(path, &st) && st.st_ino == id;
	free(cgroup);
	return has;
}

/* Find all processes of the owner; if they end, the one from which they come, if it is in their cgroup. */
static bool find_owner_processes(struct owner_search *s, const struct contest_owner *owner)
{
	int fd, failed = 0;

	s->contest->threads = check_alloc(calloc(THREADS_MAX, sizeof(*s->contest->threads)));
	if (owner->pid && (!s->name || !is_brief(s->proc, owner->pid, owner->took_ns)))
		failed = add_owner_process(s, -1, owner->pid);
	s->contest->ended = !s->found;
	if (!s->found && owner->starter && has_cgroup_id(s->cgroups, owner->starter, owner->cgroup)) {
		s->name = NULL;
		failed = add_owner_process(s, -1, owner->starter);
	}
	/* Add the others. Without a name, the owner is one process, such as the one that starts others. */
	if (s->found && s->name && !failed) {
		s->contest->nr_threads = 0;
		fd = openat(s->proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		failed = fd < 0 ? fd : proc_numbers(fd, add_owner_process, s);
		if (fd >= 0)
			close(fd);
	}
	if (failed)
		s->contest->nr_threads = 0;
	return s->found;
}

/* Find the cgroup that all vCPUs are in, or that is above all of them. */
static bool find_vm_cgroup(const struct cgroups *cgroups, const struct kvmstats_vm *vm, struct cgroup *cgroup)
{
	struct cgroup *other = check_alloc(malloc(sizeof(*other)));
	size_t common, ends[2];
	bool known = vm->vcpus;
	unsigned int i;

	for (i = 0; known && i < vm->vcpus; i++) {
		known = vm->vcpu[i]->tid && find_thread_cgroup(cgroups, vm->vcpu[i]->tid, HIERARCHY_CPU, other);
		if (!known)
			break;
		if (!i)
			*cgroup = *other;
		common = find_siblings(cgroup->path, other->path, &ends[0], &ends[1]);
		cgroup->path[common] = '\0';
	}
	free(other);
	return known;
}

/* A cgroup's directory has two links, and one more for each cgroup in it. */
static bool has_children(const struct cgroups *cgroups, const struct cgroup *cgroup)
{
	char path[PATH_MAX];
	struct stat st;

	return !cgroup_file_path(cgroups, cgroup, "", path) || stat(path, &st) || st.st_nlink > 2;
}

/* Fill in a side: the sibling is the part of the path with this length. */
static bool describe_competitor(struct cgroups *cgroups, const struct cgroup *cgroup, size_t common, size_t end,
				struct competitor *c)
{
	c->is_group = end > common;
	c->cgroup = *cgroup;
	c->cgroup.path[end] = '\0';
	if (!c->is_group)
		return true;
	c->manager = find_manager(cgroups, &c->cgroup, c->unit);
	/* The cgroups in a service or a scope are parts of it; those in a slice, or in another cgroup, are not. */
	c->is_shared = (c->manager != MANAGER_SYSTEMD || !looks_like_unit(c->unit)) &&
		       (cgroup->path[end] || has_children(cgroups, &c->cgroup));
	return read_cgroup_limits(cgroups, &c->cgroup, &c->limits);
}

/* Read the group of a process's session. Nice of threads counts within it only. */
static void read_autogroup(int proc, pid_t pid, struct competitor *c)
{
	int fd = open("/proc/sys/kernel/sched_autogroup_enabled", O_RDONLY | O_CLOEXEC);
	char text[64];

	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text)) > 0 && *text == '1' && proc_read(proc, pid, "autogroup", text, sizeof(text)) &&
	    sscanf(text, "/autogroup-%u nice %d", &c->autogroup, &c->autogroup_nice) != 2)
		c->autogroup = 0;
	close(fd);
}

/* A session of a user has all that the user starts, among them VMs. */
static bool is_session(const char *unit)
{
	return !strncmp(unit, "/session-", 9) || !strncmp(unit, "/user@", 6);
}

/* Return true if a service or scope is in both paths. */
static bool have_common_unit(const char *a, const char *b)
{
	size_t ends[2], common = find_siblings(a, b, &ends[0], &ends[1]);
	char path[PATH_MAX], *unit;

	snprintf(path, sizeof(path), "%.*s", (int)common, a);
	while ((unit = strrchr(path, '/'))) {
		if (looks_like_unit(unit))
			return !is_session(unit);
		*unit = '\0';
	}
	return false;
}

/* Return true if the process runs in the unit of the VM, as virtiofsd and swtpm of libvirt do. */
static bool is_in_unit_of_vm(const struct cgroups *cgroups, const struct kvmstats_vm *vm, pid_t pid)
{
	static const enum hierarchy hierarchies[] = { HIERARCHY_CPU, HIERARCHY_SYSTEMD, HIERARCHY_V2 };
	struct cgroup *cgroup = check_alloc(calloc(2, sizeof(*cgroup)));
	bool is_in = false;
	unsigned int i;

	for (i = 0; i < sizeof(hierarchies) / sizeof(*hierarchies); i++) {
		is_in |= find_thread_cgroup(cgroups, vm->identity.pid, hierarchies[i], &cgroup[0]) &&
			 find_thread_cgroup(cgroups, pid, hierarchies[i], &cgroup[1]) &&
			 have_common_unit(cgroup[0].path, cgroup[1].path);
	}
	free(cgroup);
	return is_in;
}

/* Count the vCPUs of the VMs whose first one is in a cgroup. */
static unsigned int count_vcpus(const struct cgroups *cgroups, const struct kvmstats_vm *first, const struct cgroup *group)
{
	struct cgroup *cgroup = check_alloc(malloc(sizeof(*cgroup)));
	unsigned int vcpus = 0;

	for (; first; first = first->next) {
		if (!first->ended && first->vcpus &&
		    find_thread_cgroup(cgroups, first->vcpu[0]->tid, HIERARCHY_CPU, cgroup) &&
		    is_in_cgroup(cgroup->path, group->path))
			vcpus += first->vcpus;
	}
	free(cgroup);
	return vcpus;
}

void find_contest(struct cgroups *cgroups, int proc, const struct kvmstats_vm *vm, const struct kvmstats_vm *first,
		  const struct contest_owner *from, struct contest *contest)
{
	struct cgroup *cgroup = check_alloc(calloc(3, sizeof(*cgroup)));
	struct cgroup *vms = &cgroup[0], *owner = &cgroup[1], *self = &cgroup[2];
	struct owner_search search = { cgroups, proc, from->name, owner, .contest = contest };
	size_t common, end[2];

	if (!from->starter || !proc_comm(proc, from->starter, contest->starter, sizeof(contest->starter)))
		*contest->starter = '\0';
	if (!find_vm_cgroup(cgroups, vm, vms) || !find_owner_processes(&search, from))
		goto out;
	common = find_siblings(vms->path, owner->path, &end[0], &end[1]);
	contest->own = is_in_unit_of_vm(cgroups, vm, search.pid);
	contest->known = describe_competitor(cgroups, vms, common, end[0], &contest->vm) &&
			 describe_competitor(cgroups, owner, common, end[1], &contest->owner);
	contest->vm.vcpus = contest->vm.is_shared ? count_vcpus(cgroups, first, &contest->vm.cgroup) : vm->vcpus;
	if (!*vms->path)
		read_autogroup(proc, vm->identity.pid, &contest->vm);
	if (!*owner->path)
		read_autogroup(proc, search.pid, &contest->owner);
	/* In the same session, nice of threads counts. */
	if (contest->vm.autogroup == contest->owner.autogroup)
		contest->vm.autogroup = contest->owner.autogroup = 0;
	contest->owner.has_reader = search.has_reader ||
		(contest->owner.is_group && find_thread_cgroup(cgroups, getpid(), HIERARCHY_CPU, self) &&
		 is_in_cgroup(self->path, contest->owner.cgroup.path));
out:
	free(cgroup);
}

const struct contest_owner *find_main_side(const struct cgroups *cgroups, const struct kvmstats_vm *vm,
					   const struct contest_owner *owners, unsigned int n, uint64_t *took_ns)
{
	struct side {
		char *path;		/* of the sibling, or of the VM's cgroup */
		const struct contest_owner *first;
		uint64_t ns;
	} *sides = check_alloc(calloc(n + 1, sizeof(*sides))), *side, *most = sides;
	struct cgroup *cgroup = check_alloc(calloc(2, sizeof(*cgroup)));
	const bool known = find_vm_cgroup(cgroups, vm, &cgroup[0]);
	size_t end[2];
	unsigned int i;

	for (i = 0; known && i < n; i++) {
		if (!find_thread_cgroup(cgroups, owners[i].pid, HIERARCHY_CPU, &cgroup[1]) &&
		    !find_thread_cgroup(cgroups, owners[i].starter, HIERARCHY_CPU, &cgroup[1]))
			continue;
		find_siblings(cgroup[0].path, cgroup[1].path, &end[0], &end[1]);
		cgroup[1].path[end[1]] = '\0';
		for (side = sides; side->path && strcmp(side->path, cgroup[1].path); side++)
			;
		if (!side->path) {
			side->path = check_alloc(strdup(cgroup[1].path));
			side->first = &owners[i];
		}
		side->ns += owners[i].took_ns;
		if (side->ns > most->ns)
			most = side;
	}
	owners = most->first;
	*took_ns = most->ns;
	for (side = sides; side->path; side++)
		free(side->path);
	free(sides);
	free(cgroup);
	return owners;
}

void free_contest(struct contest *contest)
{
	free(contest->threads);
	contest->threads = NULL;
}

static bool lists_cgroup(const struct cgroup *list, unsigned int n, size_t stride, const char *path)
{
	unsigned int i;

	for (i = 0; i < n; i++, list = (const void *)((const char *)list + stride)) {
		if (!strcmp(list->path, path))
			return true;
	}
	return false;
}

/* Return how many CPUs the threads of a VMM can use that are not vCPUs: those that they wanted, at least one. */
static unsigned int count_other_cpus(const struct other_use *use)
{
	const unsigned int permille = kvmstats_permille(use->ran + use->waited, use->elapsed);

	/* A tenth of another CPU does not count. */
	return permille > 1100 ? (permille + 899) / 1000 : 1;
}

/* Count the CPUs that the VMs in a cgroup can use. */
static unsigned int count_wanted_cpus(const struct cgroups *cgroups, const struct kvmstats_vm *first,
				      const struct other_waits *before, const struct other_waits *now,
				      const struct cgroup *level)
{
	struct cgroup *cgroup = check_alloc(malloc(sizeof(*cgroup)));
	unsigned int i, in, cpus = 0;
	struct other_use use;

	for (; first; first = first->next) {
		in = 0;
		for (i = 0; !first->ended && i < first->vcpus; i++) {
			in += find_thread_cgroup(cgroups, first->vcpu[i]->tid, HIERARCHY_CPU, cgroup) &&
			      is_in_cgroup(cgroup->path, level->path);
		}
		/* The cgroup of one vCPU has no other threads, see the VMM's own below. */
		cpus += in;
		if (in && find_thread_cgroup(cgroups, first->identity.pid, HIERARCHY_CPU, cgroup) &&
		    is_in_cgroup(cgroup->path, level->path)) {
			use = find_other_use(before, now, first->identity.pid);
			cpus += count_other_cpus(&use);
		}
	}
	free(cgroup);
	return cpus;
}

static int compare_quota_levels(const void *a, const void *b)
{
	const struct quota_level *x = a, *y = b;

	return strcmp(x->cgroup.path, y->cgroup.path);
}

unsigned int find_quotas(struct cgroups *cgroups, const struct kvmstats_vm *vm, const struct kvmstats_vm *first,
			 const struct other_waits *before, const struct other_waits *now, struct quota_level **levels,
			 bool *complete)
{
	struct cgroup *cgroup = check_alloc(malloc(sizeof(*cgroup)));
	struct quota_level *list = NULL, *level;
	struct cgroup_limits limits;
	unsigned int i, n = 0;

	*complete = true;
	for (i = 0; i < vm->vcpus; i++) {
		if (!find_thread_cgroup(cgroups, vm->vcpu[i]->tid, HIERARCHY_CPU, cgroup)) {
			*complete = false;
			continue;
		}
		do {
			if (list && lists_cgroup(&list->cgroup, n, sizeof(*list), cgroup->path))
				continue;
			if (!read_cgroup_limits(cgroups, cgroup, &limits))
				*complete = false;
			if (!limits.quota_us)
				continue;
			list = check_alloc(realloc(list, (n + 1) * sizeof(*list)));
			level = &list[n++];
			level->cgroup = *cgroup;
			level->limits = limits;
			level->manager = find_manager(cgroups, cgroup, level->unit);
			level->cpus = count_wanted_cpus(cgroups, first, before, now, cgroup);
		} while (leave_cgroup(cgroup));
	}
	free(cgroup);
	/* In the order of their paths, those above come first. */
	if (list)
		qsort(list, n, sizeof(*list), compare_quota_levels);
	*levels = list;
	return n;
}

/* Threads that ran for so much of their quota have used it up. */
#define USED_UP_PERMILLE	900

struct quota_level *find_other_quota(struct cgroups *cgroups, const struct kvmstats_vm *vm, const struct other_use *use)
{
	struct quota_level *level = check_alloc(calloc(1, sizeof(*level)));
	struct cgroup *vcpu = check_alloc(malloc(sizeof(*vcpu)));
	bool found = find_thread_cgroup(cgroups, use->tid, HIERARCHY_CPU, &level->cgroup);
	const struct cgroup_limits *limits = &level->limits;
	unsigned int i;

	/* Quotas above vCPUs stop these as well, which is another cause. */
	for (i = 0; found && i < vm->vcpus; i++)
		found = find_thread_cgroup(cgroups, vm->vcpu[i]->tid, HIERARCHY_CPU, vcpu) &&
			!is_in_cgroup(vcpu->path, level->cgroup.path);
	found = found && read_cgroup_limits(cgroups, &level->cgroup, &level->limits) && limits->quota_us &&
		kvmstats_permille(use->ran, use->elapsed) >= limits->quota_us * USED_UP_PERMILLE / limits->period_us;
	free(vcpu);
	if (!found) {
		free(level);
		return NULL;
	}
	level->manager = find_manager(cgroups, &level->cgroup, level->unit);
	level->cpus = count_other_cpus(use);
	return level;
}

static int compare_cgroups(const void *a, const void *b)
{
	return strcmp(((const struct cgroup *)a)->path, ((const struct cgroup *)b)->path);
}

unsigned int find_frozen(struct cgroups *cgroups, const struct kvmstats_vm *vm, struct cgroup **frozen)
{
	struct cgroup *cgroup = check_alloc(malloc(sizeof(*cgroup))), *list = NULL;
	unsigned int i, n = 0;

	for (i = 0; i < vm->vcpus; i++) {
		if (!find_thread_cgroup(cgroups, vm->vcpu[i]->tid, HIERARCHY_FREEZER, cgroup))
			continue;
		do {
			if ((list && lists_cgroup(list, n, sizeof(*list), cgroup->path)) ||
			    !is_cgroup_frozen(cgroups, cgroup))
				continue;
			list = check_alloc(realloc(list, (n + 1) * sizeof(*list)));
			list[n++] = *cgroup;
		} while (leave_cgroup(cgroup));
	}
	free(cgroup);
	if (list)
		qsort(list, n, sizeof(*list), compare_cgroups);
	*frozen = list;
	return n;
}
