// SPDX-License-Identifier: GPL-2.0-only
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blame_sum.h"

/* Owners of a VM, which can have any number of names */
#define MAX_OWNERS	256

int blame_sum_open(struct blame_sum *sum, bool continues, const struct kvmstats_vm *first,
		   struct kvmstats_probe *p)
{
	memset(sum, 0, sizeof(*sum));
	sum->follow.size = sizeof(*sum->victims);
	sum->follow.continues = continues;
	return blame_open(&sum->blame, first, p);
}

void blame_sum_close(struct blame_sum *sum)
{
	size_t i;

	for (i = 0; i < sum->count; i++)
		free(sum->victims[i].shares);
	follow_free(&sum->follow);
	blame_close(sum->blame);
}

int blame_sum_read(struct blame_sum *sum)
{
	return blame_sample(sum->blame);
}

static bool ends_with(const char *text, const char *end)
{
	const size_t len = strlen(text), n = strlen(end);

	return len > n && !strcmp(text + len - n, end);
}

static bool is_unit(const char *name)
{
	return ends_with(name, ".service") || ends_with(name, ".scope");
}

/* The unit of systemd that a cgroup is, or is in; else the cgroup. "": the root */
static const char *unit_of(const struct blame_cgroup *cgroup)
{
	return !is_unit(cgroup->name) && is_unit(cgroup->parent) ? cgroup->parent : cgroup->name;
}

#define COMM_LEN 15	/* without the '\0' */

static void name_process(const struct blame_sum *sum, const struct blame_owner *owner,
			 struct blame_share *share)
{
	struct blame_cgroup cgroup = { 0 };
	const char *unit;

	share->kind = "process";
	blame_cgroup(sum->blame, owner->id, &cgroup);
	unit = unit_of(&cgroup);
	if (sum->by == BLAME_BY_VM) {
		snprintf(share->name, sizeof(share->name), "all processes");
		return;
	}
	if (sum->by == BLAME_BY_UNIT && is_unit(unit)) {
		snprintf(share->name, sizeof(share->name), "%s", unit);
		return;
	}
	/* The names of a cgroup that has too many are one owner. */
	snprintf(share->name, sizeof(share->name), "%.*s%s%s%s", COMM_LEN,
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
		    uint32_t tgid, const char *thread, struct blame_share *share)
{
	const char *label = follow_label(&sum->follow, kvm, tgid);
	const char *own = follow_label(&sum->follow, waiting->kvm, waiting->tgid);

	if (tgid == waiting->tgid &&
	    (!kvm || kvm == waiting->kvm || (label && own && !strcmp(label, own)))) {
		share->kind = "self";
		snprintf(share->name, sizeof(share->name), "%.*s", COMM_LEN,
			 sum->by == BLAME_BY_VM ? "all threads" : thread);
		return;
	}
	share->kind = "vm";
	if (label)
		snprintf(share->name, sizeof(share->name), "%s", label);
	else
		snprintf(share->name, sizeof(share->name), "process %u", tgid);
}

static void name_owner(const struct blame_sum *sum, const struct blame_pair *pair,
		       struct blame_share *share)
{
	const struct blame_owner *owner = &pair->owner;
	struct blame_cgroup cgroup = { 0 };
	uint32_t served;

	*share->name = '\0';
	switch (owner->kind) {
	case BLAME_VCPU:
		name_vm(sum, &pair->vm, owner->id, owner->tgid, "vCPUs", share);
		break;
	case BLAME_VMM:
		if (owner->tgid == pair->vm.tgid || follow_label(&sum->follow, 0, owner->tgid))
			name_vm(sum, &pair->vm, 0, owner->tgid, owner->comm, share);
		else
			name_process(sum, owner, share);
		break;
	case BLAME_PROCESS:
		name_process(sum, owner, share);
		break;
	case BLAME_KERNEL:
		served = served_process(owner->comm);
		if (served && (served == pair->vm.tgid || follow_label(&sum->follow, 0, served))) {
			name_vm(sum, &pair->vm, 0, served, owner->comm, share);
			break;
		}
		share->kind = "kernel";
		snprintf(share->name, sizeof(share->name), "%.*s", COMM_LEN,
			 sum->by == BLAME_BY_VM ? "all threads" : owner->comm);
		break;
	case BLAME_QUOTA:
		share->kind = "quota";
		blame_cgroup(sum->blame, owner->id, &cgroup);
		snprintf(share->name, sizeof(share->name), "%s", unit_of(&cgroup));
		break;
	case BLAME_STEAL:
		share->kind = "steal";
		snprintf(share->name, sizeof(share->name), "hypervisor of this host");
		break;
	case BLAME_IDLE:
		share->kind = "idle";
		snprintf(share->name, sizeof(share->name), "CPU wakeup latency");
		break;
	case BLAME_OVERFLOW:
		share->kind = "unknown";
		snprintf(share->name, sizeof(share->name), "more owners than counted");
		break;
	case BLAME_UNSEEN:
		share->kind = "unknown";
		snprintf(share->name, sizeof(share->name), "not seen yet");
		break;
	default:
		share->kind = "unknown";
		snprintf(share->name, sizeof(share->name), "lost events");
	}
}

static struct blame_share *find_share(const struct blame_victim *victim, const char *kind,
				      const char *name)
{
	size_t i;

	for (i = 0; i < victim->count; i++)
		if (!strcmp(victim->shares[i].kind, kind) && !strcmp(victim->shares[i].name, name))
			return &victim->shares[i];
	return NULL;
}

/* Add the time of the smallest owner to those of kind "other". */
static void drop_smallest(struct blame_victim *victim)
{
	struct blame_share *smallest = NULL, *share, *other = find_share(victim, "other", "");
	size_t i;

	for (i = 0; i < victim->count; i++) {
		share = &victim->shares[i];
		if (share != other && (!smallest || share->recent < smallest->recent ||
				       (share->recent == smallest->recent &&
					share->ns < smallest->ns)))
			smallest = share;
	}
	if (other) {
		other->ns += smallest->ns;
		other->growth += smallest->growth;
		*smallest = victim->shares[--victim->count];
	} else {
		smallest->kind = "other";
		*smallest->name = '\0';
	}
}

static void add_share(struct blame_victim *victim, const struct blame_share *share, uint64_t ns)
{
	struct blame_share *found = find_share(victim, share->kind, share->name);

	victim->ns += ns;
	if (!found) {
		if (victim->count > MAX_OWNERS)
			drop_smallest(victim);
		victim->shares = follow_grow(victim->shares, victim->count, &victim->room,
					     sizeof(*share));
		found = &victim->shares[victim->count++];
		*found = *share;
		found->ns = found->growth = found->recent = 0;
	}
	found->ns += ns;
	found->growth += ns;
	if (share->pid)
		found->pid = share->pid;
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
	uint64_t ns = 0;
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
		ns -= blame_take_exited(sum->blame, vm->identity.pid, ns);
	}
	victim->unseen += ns;
	return ns;
}

static void add_unseen(struct blame_sum *sum, const struct kvmstats_vm *first)
{
	const struct blame_pair pair = { .owner.kind = BLAME_UNSEEN };
	struct blame_victim *victim;
	const struct kvmstats_vm *vm;
	struct blame_share share;
	uint64_t ns;
	int ended;

	name_owner(sum, &pair, &share);
	share.pid = 0;
	/* VMs that have exited come first: a successor may continue their sum. */
	for (ended = 1; ended >= 0; ended--) {
		for (vm = first; vm; vm = vm->next) {
			victim = vm->ended == ended ? follow_find(&sum->follow, vm) : NULL;
			ns = victim ? find_unseen(sum, victim, vm) : 0;
			if (ns)
				add_share(victim, &share, ns);
		}
	}
}

static int compare_shares(const void *x, const void *y)
{
	const struct blame_share *a = x, *b = y;

	return a->ns < b->ns ? 1 : a->ns > b->ns ? -1 : strcmp(a->name, b->name);
}

static int compare_victims(const void *x, const void *y)
{
	const struct blame_victim *a = x, *b = y;

	return a->ns < b->ns ? 1 : a->ns > b->ns ? -1 : strcmp(a->vm.label, b->vm.label);
}

static void release_victim(void *victim)
{
	free(((struct blame_victim *)victim)->shares);
}

void blame_sum_add(struct blame_sum *sum, const struct kvmstats_vm *first, char **words, int n)
{
	const struct blame_thread *threads;
	const struct blame_row *rows;
	struct blame_share share;
	size_t i, count;

	blame_enter(sum->blame, first);
	threads = blame_threads(sum->blame, &count);
	follow_sample(&sum->follow, first, words, n, threads, count);
	sum->victims = sum->follow.sums;
	sum->count = sum->follow.count;
	rows = blame_rows(sum->blame, &count);
	for (i = 0; i < count; i++) {
		struct blame_victim *victim = rows[i].growth ?
			follow_sum(&sum->follow, &rows[i].pair.vm) : NULL;

		if (!victim)
			continue;
		name_owner(sum, &rows[i].pair, &share);
		share.pid = rows[i].pid;
		add_share(victim, &share, rows[i].growth);
	}
	add_unseen(sum, first);
	sum->begun = true;
	for (i = 0; i < sum->count; i++)
		follow_sort(sum->victims[i].shares, sum->victims[i].count,
			    sizeof(struct blame_share), compare_shares);
	follow_sort(sum->victims, sum->count, sizeof(*sum->victims), compare_victims);
	follow_limit(&sum->follow, release_victim);
	sum->count = sum->follow.count;
}

struct blame_victim *blame_sum_find(const struct blame_sum *sum, const struct kvmstats_vm *vm)
{
	return follow_find(&sum->follow, vm);
}

void blame_sum_total(const struct blame_sum *sum, struct blame_victim *total)
{
	struct blame_share share;
	size_t i, j;

	memset(total, 0, sizeof(*total));
	for (i = 0; i < sum->count; i++) {
		const struct blame_victim *victim = &sum->victims[i];

		for (j = 0; j < victim->count; j++) {
			share = victim->shares[j];
			if (!strcmp(share.kind, "self")) {
				share.kind = "vm";
				snprintf(share.name, sizeof(share.name), "%s", victim->vm.label);
			}
			add_share(total, &share, victim->shares[j].ns);
		}
	}
	follow_sort(total->shares, total->count, sizeof(*total->shares), compare_shares);
}

void blame_sum_forget(struct blame_sum *sum)
{
	size_t i, kept = 0;

	for (i = 0; i < sum->count; i++) {
		if (sum->victims[i].vm.live)
			sum->victims[kept++] = sum->victims[i];
		else
			free(sum->victims[i].shares);
	}
	sum->count = sum->follow.count = kept;
}
