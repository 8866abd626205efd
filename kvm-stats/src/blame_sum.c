// SPDX-License-Identifier: GPL-2.0-only
#include <search.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blame_sum.h"
#include "bpf/log2.bpf.h"
#include "rec_encode.h"
#include "buf.h"
#include "xalloc.h"

static bool ends_with(const char *text, const char *end)
{
	const size_t len = strlen(text), n = strlen(end);

	return len > n && !strcmp(text + len - n, end);
}

static bool is_unit(const char *name)
{
	return ends_with(name, ".service") || ends_with(name, ".scope");
}

#define COMM_LEN 15	/* without the '\0' */
/* The longest name that has space in "COMM (NAME)" */
#define PATH_NAME_SIZE	(OWNER_NAME_SIZE - COMM_LEN - 3)

/* A cgroup whose path is known, by its id */
struct owner_path {
	uint64_t id;
	char unit[PATH_NAME_SIZE];	/* its unit; "" if it is not in a unit of the host */
	char path[PATH_NAME_SIZE];	/* its path, or the end of it */
};

/* The unit in which a path is: only slices are above a unit of the host. */
static void find_path_unit(const char *path, char unit[PATH_NAME_SIZE])
{
	size_t len;

	*unit = '\0';
	for (; *path == '/'; path += len) {
		path++;
		len = strcspn(path, "/");
		if (len >= PATH_NAME_SIZE)
			break;
		snprintf(unit, PATH_NAME_SIZE, "%.*s", (int)len, path);
		if (!ends_with(unit, ".slice"))
			break;
	}
	if (!is_unit(unit))
		*unit = '\0';
}

static bool is_path_of(const char *path, const struct blame_cgroup *cgroup)
{
	const char *name = strrchr(path, '/');

	return name && !strncmp(name + 1, cgroup->name, sizeof(cgroup->name) - 1);
}

/* Read the path of a process that is in the cgroup, in a hierarchy in which the cgroup is. */
static void read_owner_path(uint32_t pid, const struct blame_cgroup *cgroup, struct owner_path *owner)
{
	char file[32], *line = NULL, *path;
	size_t size = 0, len;
	FILE *f;

	snprintf(file, sizeof(file), "/proc/%u/cgroup", pid);
	f = fopen(file, "re");
	while (f && getline(&line, &size, f) > 0) {
		line[strcspn(line, "\n")] = '\0';
		path = strchr(line, '/');
		if (!path || !is_path_of(path, cgroup))
			continue;
		len = strlen(path);
		snprintf(owner->path, sizeof(owner->path), "%s",
			 path + (len < sizeof(owner->path) ? 1 : len - sizeof(owner->path) + 1));
		find_path_unit(path, owner->unit);
		break;
	}
	free(line);
	if (f)
		fclose(f);
}

static int compare_owner_paths(const void *a, const void *b)
{
	const struct owner_path *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* Return the path of a cgroup, NULL if none of its processes was seen while it ran. */
static const struct owner_path *find_owner_path(struct blame_sum *sum, uint64_t id,
						const struct blame_cgroup *cgroup, uint32_t pid)
{
	struct owner_path key = { .id = id }, *owner, **found = tfind(&key, &sum->paths, compare_owner_paths);

	if (found)
		return *found;
	if (!pid || !*cgroup->name)
		return NULL;
	owner = check_alloc(calloc(1, sizeof(*owner)));
	owner->id = id;
	read_owner_path(pid, cgroup, owner);
	if (!*owner->path) {
		free(owner);
		return NULL;
	}
	return *(struct owner_path **)check_alloc(tsearch(owner, &sum->paths, compare_owner_paths));
}

/*
 * The unit of systemd that a cgroup is, or is in; else the cgroup. "": the root. The names alone do not
 * tell apart a unit of the host and one of a container or a user.
 */
static const char *unit_of(const struct blame_cgroup *cgroup)
{
	return !is_unit(cgroup->name) && is_unit(cgroup->parent) ? cgroup->parent : cgroup->name;
}

static void name_process(struct blame_sum *sum, const struct blame_owner *owner, uint32_t pid,
			 struct blame_key *key)
{
	struct blame_cgroup cgroup = { 0 };
	const struct owner_path *path;
	const char *unit;

	strcpy(key->kind, "process");
	blame_cgroup(sum->blame, owner->id, &cgroup);
	unit = unit_of(&cgroup);
	if (sum->by == BLAME_BY_VM) {
		snprintf(key->name, sizeof(key->name), "all processes");
		return;
	}
	path = is_unit(unit) ? find_owner_path(sum, owner->id, &cgroup, pid) : NULL;
	if (path)
		unit = *path->unit ? path->unit : path->path;
	if (sum->by == BLAME_BY_UNIT && is_unit(unit) && (!path || *path->unit)) {
		snprintf(key->name, sizeof(key->name), "%s", unit);
		return;
	}
	/* The names of a cgroup that has too many are one owner. */
	snprintf(key->name, sizeof(key->name), "%.*s%s%s%s", COMM_LEN,
		 *owner->comm ? owner->comm : "other commands", *unit ? " (" : "", unit, *unit ? ")" : "");
}

/* A thread of the kernel that works for a VM has the process in its name. */
static uint32_t served_process(const char *comm)
{
	unsigned int tgid;

	if (sscanf(comm, "vhost-%u", &tgid) == 1 || sscanf(comm, "kvm-pit/%u", &tgid) == 1)
		return tgid;
	return 0;
}

static void name_vm(const struct blame_sum *sum, const struct blame_vm *waiting, uint64_t kvm,
		    uint32_t tgid, const char *thread, struct blame_key *key)
{
	const char *label = find_label(&sum->sums, kvm, tgid);
	const char *own = find_label(&sum->sums, waiting->kvm, waiting->tgid);

	if (tgid == waiting->tgid &&
	    (!kvm || kvm == waiting->kvm || (label && own && !strcmp(label, own)))) {
		strcpy(key->kind, "self");
		snprintf(key->name, sizeof(key->name), "%.*s", COMM_LEN,
			 sum->by == BLAME_BY_VM ? "all threads" : thread);
		return;
	}
	strcpy(key->kind, "vm");
	if (label)
		snprintf(key->name, sizeof(key->name), "%s", label);
	else
		snprintf(key->name, sizeof(key->name), "process %u", tgid);
}

static void name_owner(struct blame_sum *sum, const struct blame_pair *pair, uint32_t pid, struct blame_key *key)
{
	static const struct blame_key fixed[] = {
		[BLAME_STEAL] = { "steal", "hypervisor of this host" },
		[BLAME_IDLE] = { "idle", "CPU wakeup latency" },
		[BLAME_OVERFLOW] = { "unknown", "more owners than counted" },
		[BLAME_UNSEEN] = { "unknown", "not seen yet" },
		[BLAME_UNKNOWN] = { "unknown", "lost events" },
	};
	const struct blame_owner *owner = &pair->owner;
	struct blame_cgroup cgroup = { 0 };
	uint32_t served;

	memset(key, 0, sizeof(*key));
	switch (owner->kind) {
	case BLAME_VCPU:
		name_vm(sum, &pair->vm, owner->id, owner->tgid, "vCPUs", key);
		break;
	case BLAME_VMM:
		if (owner->tgid == pair->vm.tgid || find_label(&sum->sums, 0, owner->tgid))
			name_vm(sum, &pair->vm, 0, owner->tgid, owner->comm, key);
		else
			name_process(sum, owner, pid, key);
		break;
	case BLAME_PROCESS:
		name_process(sum, owner, pid, key);
		break;
	case BLAME_KERNEL:
		served = served_process(owner->comm);
		if (served && (served == pair->vm.tgid || find_label(&sum->sums, 0, served))) {
			name_vm(sum, &pair->vm, 0, served, owner->comm, key);
			break;
		}
		strcpy(key->kind, "kernel");
		snprintf(key->name, sizeof(key->name), "%.*s", COMM_LEN,
			 sum->by == BLAME_BY_VM ? "all threads" : owner->comm);
		break;
	case BLAME_QUOTA:
		strcpy(key->kind, "quota");
		blame_cgroup(sum->blame, owner->id, &cgroup);
		snprintf(key->name, sizeof(key->name), "%s",
			 owner->id ? unit_of(&cgroup) : "a cgroup further above");
		break;
	default:
		*key = fixed[owner->kind && owner->kind < BLAME_UNKNOWN ? owner->kind :
			     BLAME_UNKNOWN];
	}
}

/* A name as a label shows it */
static void clean_name(char name[OWNER_NAME_SIZE])
{
	size_t n;

	for (; *name; name += n ? n : 1) {
		n = utf8_length(name);
		if (!n || (unsigned char)*name < ' ' || *name == 0x7f)
			*name = '?';
	}
}

static void add_share(struct blame_sum *sum, struct blame_victim *victim,
		      const struct blame_pair *pair, uint32_t pid, uint32_t starter, uint64_t ns)
{
	struct blame_share *share;
	struct blame_key key;

	name_owner(sum, pair, pid, &key);
	if (sum->clean)
		clean_name(key.name);
	share = add_cost(&sum->sums, &victim->sum, &key, ns);
	if (pid) {
		share->pid = pid;
		share->starter = starter;
		share->cgroup = pair->owner.id;
	}
}

static uint64_t waits_of(const struct kvmstats_times *times)
{
	return times->mode[KVMSTATS_READY] + times->mode[KVMSTATS_THROTTLED];
}

/*
 * Waits since the last sample of vCPUs without an entry; of a VM that has exited, all waits that
 * the program did not charge: its vCPUs may have exited before they were entered.
 */
static uint64_t find_unseen(const struct blame_sum *sum, struct blame_victim *victim,
			    const struct kvmstats_vm *vm)
{
	const uint64_t waited = waits_of(&vm->times);
	uint64_t ns = 0, charged;
	unsigned int i;

	if (victim->counted != vm->identity.pid) {
		victim->counted = vm->identity.pid;
		victim->waited = sum->begun ? 0 : waited;
		victim->unseen = 0;
	}
	if (!vm->ended) {
		for (i = 0; sum->begun && i < vm->vcpus; i++)
			if (vm->vcpu[i]->tid && !blame_lists(sum->blame, vm->vcpu[i]->tid))
				ns += waits_of(&vm->vcpu[i]->last.times);
	} else if (waited > victim->waited + victim->unseen && kill(vm->identity.pid, 0)) {
		ns = waited - victim->waited - victim->unseen;
		charged = blame_take_exited(sum->blame, vm->identity.pid, ns);
		victim->waited += charged;
		ns -= charged;
	}
	victim->unseen += ns;
	return ns;
}

static void add_unseen(struct blame_sum *sum, const struct kvmstats_vm *first)
{
	const struct blame_pair pair = { .owner.kind = BLAME_UNSEEN };
	struct blame_victim *victim;
	const struct kvmstats_vm *vm;
	uint64_t ns;
	int ended;

	/* VMs that have exited come first: a successor may continue their sum. */
	for (ended = 1; ended >= 0; ended--) {
		for (vm = first; vm; vm = vm->next) {
			victim = vm->ended == ended ? find_sum(&sum->sums, vm) : NULL;
			ns = victim ? find_unseen(sum, victim, vm) : 0;
			if (ns)
				add_share(sum, victim, &pair, 0, 0, ns);
		}
	}
}

void add_waits(struct blame_waits *sum, const struct blame_waits *waits)
{
	unsigned int i;

	sum->ns += waits->ns;
	if (sum->longest < waits->longest)
		sum->longest = waits->longest;
	for (i = 0; i < BLAME_BUCKETS; i++)
		sum->bucket[i] += waits->bucket[i];
}

struct blame_waits all_waits(const struct blame_victim *victim)
{
	struct blame_waits all = victim->ended;

	add_waits(&all, &victim->open);
	return all;
}

uint64_t count_waits(const struct blame_waits *waits)
{
	uint64_t count = 0;
	unsigned int i;

	for (i = 0; i < BLAME_BUCKETS; i++)
		count += waits->bucket[i];
	return count;
}

uint64_t mean_wait(const struct blame_waits *waits)
{
	const uint64_t count = count_waits(waits);

	return count ? waits->ns / count : 0;
}

static void add_lengths(struct blame_sum *sum)
{
	const struct blame_thread *threads;
	const struct blame_waits *waits;
	struct blame_victim *victim;
	const struct blame_vm *vms;
	size_t i, count;

	count = blame_ended_waits(sum->blame, &vms, &waits);
	for (i = 0; i < count; i++) {
		victim = find_kernel_sum(&sum->sums, &vms[i]);
		if (victim)
			add_waits(&victim->ended, &waits[i]);
	}
	for (i = 0; i < sum->sums.count; i++) {
		victim = sum_at(&sum->sums, i);
		memset(&victim->open, 0, sizeof(victim->open));
	}
	threads = blame_threads(sum->blame, &count);
	for (i = 0; i < count; i++) {
		struct blame_waits open = { .ns = threads[i].open, .longest = threads[i].open };

		victim = open.ns ? find_kernel_sum(&sum->sums, &threads[i].vm) : NULL;
		open.bucket[find_bucket(open.ns, BLAME_SHIFT, BLAME_BUCKETS)] = 1;
		if (victim)
			add_waits(&victim->open, &open);
	}
}

static int open_blame_program(struct sums *sums, struct threads *shared, const struct kvmstats_vm *first,
			      struct kvmstats_probe *p)
{
	return blame_open(&container_of(sums, struct blame_sum, sums)->blame, shared, first, p);
}

static int read_blame_program(struct sums *sums)
{
	return blame_sample(container_of(sums, struct blame_sum, sums)->blame);
}

static void put_share(const void *item, struct bytes *b)
{
	const struct blame_share *share = item;

	bytes_text(b, share->key.kind);
	bytes_text(b, share->key.name);
	bytes_number(b, share->pid);
	bytes_time(b, share->item.cost);
}

static void take_share(struct sums *sums, struct sum *victim, struct rec_bytes *t)
{
	struct blame_key key = { 0 };
	struct blame_share *share;
	uint32_t pid;

	take_text(t, key.kind, sizeof(key.kind));
	take_text(t, key.name, sizeof(key.name));
	pid = take_most(t, INT32_MAX);
	share = add_cost(sums, victim, &key, take_time(t));
	if (pid)
		share->pid = pid;
}

static void put_ended_waits(const struct sum *sum, struct bytes *b)
{
	const struct blame_waits *waits = &container_of(sum, struct blame_victim, sum)->ended;
	unsigned int i;

	bytes_time(b, waits->ns);
	bytes_time(b, waits->longest);
	for (i = 0; i < BLAME_BUCKETS; i++)
		bytes_number(b, waits->bucket[i]);
}

static void take_ended_waits(struct sum *sum, struct rec_bytes *t)
{
	struct blame_waits waits;
	unsigned int i;

	waits.ns = take_time(t);
	waits.longest = take_time(t);
	for (i = 0; i < BLAME_BUCKETS; i++)
		waits.bucket[i] = take_number(t);
	if (!t->wrong)
		add_waits(&container_of(sum, struct blame_victim, sum)->ended, &waits);
}

static void clear_waits(struct sum *sum)
{
	memset(&container_of(sum, struct blame_victim, sum)->ended, 0, sizeof(struct blame_waits));
}

static void add_charges(struct sums *sums, const struct kvmstats_vm *first, char **args, int n)
{
	struct blame_sum *sum = container_of(sums, struct blame_sum, sums);
	const struct blame_thread *threads;
	const struct blame_row *rows;
	struct blame_victim *victim;
	size_t i, count;

	if (sums->rec) {
		take_recorded_sums(sums, RECORDED_BLAME, first, args, n);
		return;
	}
	blame_enter(sum->blame, first);
	threads = blame_threads(sum->blame, &count);
	begin_sums(sums, first, args, n, threads, count);
	rows = blame_rows(sum->blame, &count);
	for (i = 0; i < count; i++) {
		victim = rows[i].growth ? find_kernel_sum(sums, &rows[i].pair.vm) : NULL;
		if (victim)
			add_share(sum, victim, &rows[i].pair, rows[i].pid, rows[i].starter, rows[i].growth);
	}
	add_unseen(sum, first);
	add_lengths(sum);
	sum->begun = true;
	end_sums(sums);
}

static void close_blame_program(struct sums *sums)
{
	struct blame_sum *sum = container_of(sums, struct blame_sum, sums);

	blame_close(sum->blame);
	tdestroy(sum->paths, free);
	sum->paths = NULL;
}

static const struct blame_key other = { .kind = "other" };

const struct sums_type blame_sums = {
	.all_size = sizeof(struct blame_sum), .size = sizeof(struct blame_victim),
	.item_size = sizeof(struct blame_share), .key_size = sizeof(struct blame_key),
	.other = &other, .open = open_blame_program, .read = read_blame_program,
	.add = add_charges, .close = close_blame_program, .put = put_share, .take = take_share,
	.put_sum = put_ended_waits, .take_sum = take_ended_waits, .clear = clear_waits,
};

const struct blame_share *find_owner(const struct blame_victim *victim, const char *kinds)
{
	size_t i;

	for (i = 0; victim && i < victim->sum.count; i++) {
		if (strstr(kinds, blame_share_at(victim, i)->key.kind))
			return blame_share_at(victim, i);
	}
	return NULL;
}

void blame_sum_total(const struct sums *sums, struct sum *total)
{
	struct blame_victim *all = container_of(total, struct blame_victim, sum);
	struct blame_share *share;
	struct blame_key key;
	size_t i, j;

	for (i = 0; i < sums->count; i++) {
		const struct blame_victim *victim = sum_at(sums, i);

		add_waits(&all->ended, &victim->ended);
		add_waits(&all->open, &victim->open);
		for (j = 0; j < victim->sum.count; j++) {
			const struct blame_share *from = blame_share_at(victim, j);

			key = from->key;
			if (!strcmp(key.kind, "self")) {
				memset(&key, 0, sizeof(key));
				strcpy(key.kind, "vm");
				strcpy(key.name, victim->sum.label);
			}
			share = add_cost(sums, total, &key, from->item.cost);
			share->pid = from->pid ?: share->pid;
		}
	}
	sort_items(sums, total);
}
