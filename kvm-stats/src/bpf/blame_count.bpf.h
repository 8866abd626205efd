/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Charges the time for which a vCPU waits for a CPU to the threads that ran on that CPU. While a
 * vCPU waits, its CPU counts the time of each owner of threads. A wait copies the counters at its
 * start, and charges their growth at its end: its cost does not depend on the number of switches.
 *
 * Only sched_switch on a CPU writes that CPU's counters. They are read there, by
 * sched_migrate_task, and by the sampler. Events can be lost, so no pair of events is trusted:
 * run_delay of the thread is. All times are read from the run queue's clock, like run_delay.
 */
#ifndef KVMSTATS_BPF_BLAME_COUNT_H
#define KVMSTATS_BPF_BLAME_COUNT_H

#include "log2.bpf.h"
#include "vcpu_thread.bpf.h"

/* quota and steal of a wait are not known */
#define NO_CLOCK	(~0ULL)
/* "since" of a vCPU while blame_sample() works on its wait */
#define RESERVED	1
/* run_delay exceeds the charges, or a thread's time begins later, by so much: events were lost */
#define MISSED_NS	1000000
/* Idle time after which a slot gets another owner: few waits last longer */
#define IDLE_NS		1000000000ULL
/* Age of a process that starts others, and ancestors that are tried */
#define STARTER_NS	3000000000ULL
#define ANCESTORS	8

/* CLOCK_MONOTONIC when this program was loaded: younger threads have not waited before. */
const volatile __u64 opened;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);		/* the loader sets the number of CPUs */
	__type(key, __u32);
	__type(value, struct blame_cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BLAME_CHARGES);
	__type(key, struct blame_pair);
	__type(value, struct blame_charge);
} charges SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BLAME_CGROUPS);
	__type(key, __u64);
	__type(value, struct blame_cgroup);
} cgroups SEC(".maps");

/* Nanoseconds that were charged to vCPUs' threads which have exited, by TGID */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BLAME_EXITED);
	__type(key, __u32);
	__type(value, __u64);
} exited SEC(".maps");

/* Waits that ended since the last sample: userspace removes them */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BLAME_VMS);
	__type(key, struct blame_vm);
	__type(value, struct blame_waits);
} ended_waits SEC(".maps");

/* Entries of ended_waits */
struct shares wait_shares;

/*
 * Whether a process may be a VMM; userspace, which knows the VMMs, adds them, and corrects a wrong hit.
 * This program adds those of the vCPUs that it enters.
 */
__u64 tgids[FILTER_BITS / 64];

/* Cgroups whose names are in the map, by the low bits of the id; userspace removes those that are not */
__u64 named[BLAME_CGROUPS];

/* Entries of charges, and those with names by group; userspace corrects the numbers at each sample */
__u32 pairs;
__u32 named_pairs[BLAME_GROUPS];

static __always_inline struct blame_cpu *find_cpu(__u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

/*
 * A member of a kernel structure. A pointer that the verifier knows is read directly; a
 * raw one, which is a number to the verifier, through a helper that is 30 times slower.
 */
#define GET(from, member) ({						\
	typeof(from) from_ = (from);					\
	typeof(from_->member) value_;					\
									\
	if (raw)							\
		bpf_core_read(&value_, sizeof(value_), &from_->member);	\
	else								\
		value_ = from_->member;					\
	value_;								\
})

static __always_inline __u64 read_steal(struct rq *rq, const bool raw)
{
	return bpf_core_field_exists(rq->prev_steal_time_rq) ? GET(rq, prev_steal_time_rq) : 0;
}

/* How long the quota of the group, or of one above it, has stopped this CPU's threads */
static __always_inline __u64 read_quota(struct cfs_rq *queue, const bool raw)
{
	__u64 clock, since, now;

	if (bpf_core_field_exists(queue->throttled_clock_self_time)) {
		clock = GET(queue, throttled_clock_self_time);
		since = GET(queue, throttled_clock_self);
		if (since) {
			now = GET(GET(queue, rq), clock);
			if (now > since)
				clock += now - since;
		}
		return clock;
	}
	if (bpf_core_field_exists(queue->throttled_clock_pelt_time))
		return GET(queue, throttled_clock_pelt_time);
	if (bpf_core_field_exists(queue->throttled_clock_task_time))
		return GET(queue, throttled_clock_task_time);
	return 0;
}

/*
 * The group's queue on a CPU to which a thread is about to be moved; NULL if it is not
 * known. The queues are an array or, since 7.3, a variable of each CPU, like struct rq:
 * then both are equally far from those of the thread's CPU.
 */
static __always_inline struct cfs_rq *queue_on(struct task_struct *task, __u32 to)
{
	struct task_group *group = task->sched_task_group;
	struct cfs_rq **queues, *queue = NULL;
	struct blame_cpu *cpu;

	if (bpf_core_field_exists(group->se)) {
		queues = group->cfs_rq;
		bpf_probe_read_kernel(&queue, sizeof(queue), &queues[to]);
		return queue;
	}
	cpu = find_cpu(to);
	if (!cpu || !cpu->rq)
		return NULL;
	/* numbers, not pointers, to the verifier */
	queue = BPF_CORE_READ(task, se.cfs_rq);
	return (void *)((__u64)queue + cpu->rq - (__u64)BPF_CORE_READ(queue, rq));
}

static __always_inline void read_name(char *to, __u32 size, const struct kernfs_node *node)
{
	bpf_probe_read_kernel_str(to, size, BPF_CORE_READ(node, name));
}

/*
 * Keep the name of a cgroup: it may not exist when it is needed. Global, as are some other
 * functions, so that the verifier checks it once instead of once per caller.
 */
__noinline int name_cgroup(__u64 address, __u64 id)
{
	const struct kernfs_node *node = (const void *)address;
	const struct kernfs_node___rcu *later = (const void *)address;
	const struct kernfs_node *parent;
	static const struct blame_cgroup none;
	struct blame_cgroup *cgroup;

	named[id % BLAME_CGROUPS] = id;
	bpf_map_update_elem(&cgroups, &id, &none, BPF_NOEXIST);
	cgroup = bpf_map_lookup_elem(&cgroups, &id);
	if (!cgroup)
		return 0;
	read_name(cgroup->name, sizeof(cgroup->name), node);
	if (bpf_core_field_exists(later->__parent))
		parent = BPF_CORE_READ(later, __parent);
	else
		parent = BPF_CORE_READ(node, parent);
	if (parent)
		read_name(cgroup->parent, sizeof(cgroup->parent), parent);
	return 0;
}

static __always_inline __u64 identify_cgroup(struct cgroup *group, const bool raw)
{
	__u64 id = GET(GET(group, kn), id);

	if (id && named[id % BLAME_CGROUPS] != id)
		name_cgroup((__u64)BPF_CORE_READ(group, kn), id);
	return id;
}

static __always_inline __u64 cgroup_of(struct task_struct *task, const bool raw)
{
	struct cgroup *group = GET(GET(task, cgroups), dfl_cgrp);

	/* On hosts with cgroup v1, all processes are in the root of v2. */
	if (!GET(group, level))
		group = GET(GET(task, sched_task_group), css.cgroup);
	return group ? identify_cgroup(group, raw) : 0;
}

/* "kworker/0:1" is called "kworker"; those of a VM, "kvm-pit/PID", keep the PID. */
static __always_inline void strip_cpu(char comm[16])
{
	bool end = false;
	int i;

	if (comm[0] == 'k' && comm[1] == 'v' && comm[2] == 'm')
		return;
#pragma unroll
	for (i = 0; i < 16; i++) {
		end |= comm[i] == '/';
		if (end)
			comm[i] = '\0';
	}
}

/* Return a real-time thread's priority, more than 0 and the higher the sooner it runs; else 0. */
static __always_inline __u32 rank_priority(int prio)
{
	return prio < MAX_RT_PRIO ? MAX_RT_PRIO - prio : 0;
}

/* vcpu: the thread's own, or NULL */
static __always_inline void make_owner(struct blame_owner *owner, struct task_struct *task,
				       const struct threads_vcpu *vcpu, const bool raw)
{
	const __u32 real_time = rank_priority(GET(task, prio)) * BLAME_PRIORITY;
	__u32 flags = GET(task, flags), tgid;

	__builtin_memset(owner, 0, sizeof(*owner));
	if (vcpu) {
		owner->kind = BLAME_VCPU | real_time;
		owner->id = vcpu->vm.kvm;
		owner->tgid = vcpu->vm.tgid;
		return;
	}
	if (!GET(task, pid)) {
		owner->kind = BLAME_IDLE;
		return;
	}
	bpf_probe_read_kernel(owner->comm, sizeof(owner->comm), &task->comm);
	if (flags & PF_KTHREAD) {
		owner->kind = BLAME_KERNEL | real_time;
		strip_cpu(owner->comm);
		return;
	}
	tgid = GET(task, tgid);
	if (in_filter(tgids, tgid)) {
		owner->kind = BLAME_VMM | real_time;
		owner->tgid = tgid;
	} else {
		owner->kind = BLAME_PROCESS | real_time;
	}
	owner->id = cgroup_of(task, raw);
}

static __always_inline bool same_owner(const struct blame_owner *a,
				       const struct blame_owner *b)
{
	const __u64 *x = (const void *)a, *y = (const void *)b;

	return x[0] == y[0] && x[1] == y[1] && x[2] == y[2] && x[3] == y[3];
}

static __always_inline bool same_group(const struct blame_owner *a, const struct blame_owner *b)
{
	return a->id == b->id && a->tgid == b->tgid && a->kind == b->kind;
}

static __always_inline bool has_name(const struct blame_owner *owner)
{
	return owner->comm[0];
}

/* Whether a slot counts the time of an owner: under its name, or that of all other names of its group */
static __always_inline bool is_counted(const struct blame_owner *slot, const struct blame_owner *owner)
{
	return same_owner(slot, owner) || (!has_name(slot) && same_group(slot, owner));
}

static __always_inline bool add(const struct blame_pair *pair, __u64 ns, __u64 process)
{
	struct blame_charge *charge = bpf_map_lookup_elem(&charges, pair);

	if (!charge)
		return false;
	__sync_fetch_and_add(&charge->ns, ns);
	charge->process = process;
	return true;
}

static __noinline void charge_new(struct blame_pair *pair, __u64 ns, __u64 process)
{
	__u32 *names = &named_pairs[hash_group(&pair->owner, thread_counts.seed) % BLAME_GROUPS];
	struct blame_charge charge = { .ns = ns, .process = process };

	if (has_name(&pair->owner) && (__s32)*names >= (__s32)(BLAME_NAMED - pairs)) {
		__builtin_memset(pair->owner.comm, 0, sizeof(pair->owner.comm));
		if (add(pair, ns, process))
			return;
	}
	if (!bpf_map_update_elem(&charges, pair, &charge, BPF_NOEXIST)) {
		__sync_fetch_and_add(&pairs, 1);
		if (has_name(&pair->owner))
			__sync_fetch_and_add(names, 1);
		return;
	}
	if (add(pair, ns, process))
		return;
	/* The map is full: each VM has an entry for this, all VMs have another one. */
	__sync_fetch_and_add(&counts.no_pair, 1);
	__builtin_memset(&pair->owner, 0, sizeof(pair->owner));
	pair->owner.kind = BLAME_UNKNOWN;
	if (add(pair, ns, process))
		return;
	__builtin_memset(&pair->vm, 0, sizeof(pair->vm));
	add(pair, ns, process);
}

static __always_inline void charge(struct blame_pair *pair, __u64 ns, __u64 process)
{
	pair->owner.kind %= BLAME_PRIORITY;
	if (!add(pair, ns, process))
		charge_new(pair, ns, process);
}

static __always_inline void charge_kind(const struct blame_vm *vm, __u32 kind, __u64 id,
					__u64 ns)
{
	struct blame_pair pair = { .vm = *vm, .owner = { .kind = kind, .id = id } };

	charge(&pair, ns, 0);
}

static __always_inline __u32 hash_owner(const struct blame_owner *owner)
{
	const __u64 *x = (const void *)owner;

	return (x[0] ^ x[1] * 3 ^ x[2] * 5 ^ x[3] * 7) * 0x9e3779b97f4a7c15ULL >> 56;
}

/* A search through the slots of a CPU */
struct search {
	struct blame_owner owner;
	__u64 oldest;
	__u32 cpu;
	__u32 slot;		/* BLAME_SLOTS if the owner has none */
	/* Slots of its group: how many have names, the one without, and the name that ran last before all others */
	__u32 names, nameless, idle;
	__u32 reserved;
};

static long compare_slot(__u32 i, struct search *search)
{
	struct blame_cpu *cpu = find_cpu(search->cpu);
	struct blame_slot *slot;

	if (!cpu)
		return 1;
	slot = &cpu->slot[i % BLAME_SLOTS];
	if (!same_group(&slot->owner, &search->owner))
		return 0;
	if (same_owner(&slot->owner, &search->owner)) {
		search->slot = i;
		return 1;
	}
	if (!has_name(&slot->owner)) {
		search->nameless = i;
		return 0;
	}
	search->names++;
	if (slot->last < search->oldest) {
		search->oldest = slot->last;
		search->idle = i;
	}
	return 0;
}

static long compare_age(__u32 i, struct search *search)
{
	struct blame_cpu *cpu = find_cpu(search->cpu);

	if (!cpu || cpu->slot[i % BLAME_SLOTS].last >= search->oldest)
		return 0;
	search->oldest = cpu->slot[i % BLAME_SLOTS].last;
	search->slot = i;
	return 0;
}

/*
 * Find the slot of an owner, or give it one. A group gets half of the slots that others leave. Then a
 * name takes the slot of one that is idle, or all further names have one slot together. If all slots
 * are in use, the owner that has not run for the longest time loses its slot.
 */
__noinline int find_slot(__u32 on, const struct blame_owner *owner, __u64 now)
{
	struct search search = {
		.cpu = on, .slot = BLAME_SLOTS, .nameless = BLAME_SLOTS, .oldest = ~0ULL,
	};
	struct blame_cpu *cpu = find_cpu(on);
	__u32 slot, left;

	if (!counts_waits || !cpu || !owner)
		return 0;
	search.owner = *owner;
	bpf_loop(cpu->used, compare_slot, &search, 0);
	if (search.slot < BLAME_SLOTS)
		return search.slot;
	left = cpu->used < BLAME_SLOTS ? BLAME_SLOTS - cpu->used : 0;
	if (has_name(owner) && search.names && search.names >= left) {
		slot = search.idle;
		if (now - search.oldest >= IDLE_NS)
			goto take;
		if (search.nameless < BLAME_SLOTS)
			return search.nameless;
		__builtin_memset(search.owner.comm, 0, sizeof(search.owner.comm));
	}
	slot = cpu->used;
	if (left) {
		cpu->used++;
	} else {
		search.oldest = ~0ULL;
		bpf_loop(BLAME_SLOTS, compare_age, &search, 0);
		slot = search.slot;
	}
take:
	slot %= BLAME_SLOTS;
	cpu->slot[slot].owner = search.owner;
	cpu->slot[slot].base = cpu->total[slot];
	return slot;
}

/*
 * Return the process of a thread, and the one from which it comes: the nearest ancestor that has run for
 * some time. Those in between, such as the shells of a build, end with the process.
 */
static __noinline __u64 find_process(struct task_struct *task)
{
	const __u64 now = bpf_ktime_get_ns(), pid = (__u32)task->tgid;
	__u32 i;

	for (i = 0; i < ANCESTORS && task; i++) {
		task = task->real_parent;
		if (task && now - task->start_time >= STARTER_NS)
			return (__u64)task->tgid << BLAME_STARTER_SHIFT | pid;
	}
	return pid;
}

/* Add time to an owner. task: its thread that ran, or NULL */
static __always_inline void count_owner(struct blame_cpu *cpu, const struct blame_owner *owner,
					struct task_struct *task, __u64 ns, __u64 now)
{
	__u32 hash = hash_owner(owner), slot = cpu->index[hash & (BLAME_INDEX - 1)] - 1;

	if (slot >= cpu->used || slot >= BLAME_SLOTS ||
	    !same_owner(&cpu->slot[slot].owner, owner)) {
		slot = find_slot(bpf_get_smp_processor_id(), owner, now) & (BLAME_SLOTS - 1);
		cpu->index[hash & (BLAME_INDEX - 1)] = slot + 1;
	}
	cpu->total[slot] += ns;
	cpu->slot[slot].last = now;
	if (!task)
		cpu->slot[slot].process = 0;
	else if ((__u32)cpu->slot[slot].process != (__u32)task->tgid)
		cpu->slot[slot].process = find_process(task);
}

/* When the thread that has the CPU got it, or up to when its time is counted */
static __always_inline __u64 running_since(const struct blame_cpu *cpu, __u64 arrival)
{
	__u64 at = cpu->at > cpu->began ? cpu->at : cpu->began;

	return arrival > at ? arrival : at;
}

/*
 * A thread loses the CPU: count its time. If it got the CPU later than the time ended that is
 * counted, events were lost.
 */
static __always_inline void count_thread(struct blame_cpu *cpu, struct task_struct *task,
					 const struct blame_owner *owner, __u64 now)
{
	__u64 at = running_since(cpu, 0), start = running_since(cpu, task->sched_info.last_arrival);
	const struct blame_owner unknown = { .kind = BLAME_UNKNOWN };

	if (start > at + MISSED_NS)
		count_owner(cpu, &unknown, NULL, start - at, now);
	else
		start = at;
	if (now > start)
		count_owner(cpu, owner, task, now - start, now);
	cpu->at = now;
}

/* Levels of cgroups that are searched for quotas */
#define MAX_DEPTH	16

/*
 * Read the throttled clocks of the cgroups above a thread that have a quota: at the start of a
 * wait, or at its end, where the growth tells which one was used up.
 */
static __noinline void read_levels(struct task_struct *task, struct threads_vcpu *vcpu, bool end)
{
	struct sched_entity *entity = &task->se;
	/* In memory, because the verifier would follow each value of a local variable. */
	volatile __u32 *found = &vcpu->blame.found;
	__u64 clock;
	__u32 i, n;

	if (!bpf_core_field_exists(entity->parent) ||
	    !bpf_core_field_exists(entity->cfs_rq->tg->cfs_bandwidth.quota))
		return;
	if (end)
		vcpu->blame.level_id[0] = 0;
	*found = 0;
	for (i = 0; i < MAX_DEPTH && entity; i++, entity = entity->parent) {
		struct cfs_rq *queue = entity->cfs_rq;

		n = *found;
		if (n >= BLAME_LEVELS)
			break;
		if (queue->tg->cfs_bandwidth.quota == NO_QUOTA)
			continue;
		clock = read_quota(queue, false);
		if (end) {
			vcpu->blame.level_ns[n] = n < vcpu->blame.levels ? clock - vcpu->blame.level[n] : 0;
			vcpu->blame.level_id[n] = identify_cgroup(queue->tg->css.cgroup, false);
		} else {
			vcpu->blame.level[n] = clock;
		}
		*found = n + 1;
	}
	vcpu->blame.further = entity != NULL;
	if (!end || *found < vcpu->blame.levels)
		vcpu->blame.levels = *found;
}

/* Note at the start of a wait whether a quota of real-time threads is used up. */
static __always_inline void read_rt_quota(struct task_struct *task, struct threads_vcpu *vcpu)
{
	struct task_group *group = NULL;

	vcpu->blame.rt_quota = vcpu->blame.rt_priority = 0;
	/* SCHED_DEADLINE has a quota of the thread, and no other class runs while it waits. */
	if (task->prio < 0)
		vcpu->blame.rt_priority = rank_priority(task->prio);
	if (!bpf_core_field_exists(task->rt.rt_rq) ||
	    !bpf_core_field_exists(group->rt_bandwidth) ||
	    task->prio < 0 || task->prio >= MAX_RT_PRIO)
		return;
	/* The queue of a thread in an autogroup is the root's, which has no group above. */
	group = task->rt.rt_rq->tg;
	if (!group->parent || group->rt_bandwidth.rt_runtime >= group->rt_bandwidth.rt_period)
		return;
	vcpu->blame.rt_priority = rank_priority(task->prio);
	if (task->rt.rt_rq->rt_throttled)
		vcpu->blame.rt_quota = identify_cgroup(group->css.cgroup, false);
}

/* A wait that is claimed, or a part of it */
struct wait {
	struct blame_vm vm;
	__u64 since, until;
	__u64 quota;		/* time for which the quota was used up */
	__u64 stolen;
	__u64 left;		/* not charged yet */
	__u32 cpu;
	__u32 steal;		/* in 1/1024 of the wait */
	struct blame_owner last;	/* had the CPU at the end; kind 0 if it is counted */
	__u64 last_ns;
	__u64 last_process;
};

/* Read the clocks of the CPU that the vCPU waits for. */
static __always_inline void measure_wait(struct wait *wait, struct threads_vcpu *vcpu,
					 struct task_struct *task, __u64 since, __u64 until)
{
	struct cfs_rq *queue = task->se.cfs_rq;

	wait->vm = vcpu->vm;
	wait->cpu = vcpu->blame.cpu;
	wait->since = since;
	wait->until = until;
	wait->quota = wait->stolen = 0;
	wait->last.kind = 0;
	if (vcpu->blame.quota == NO_CLOCK)
		return;
	/* Other quotas do not stop a real-time thread. */
	if (task->prio >= MAX_RT_PRIO)
		wait->quota = read_quota(queue, false) - vcpu->blame.quota;
	wait->stolen = read_steal(queue->rq, false) - vcpu->blame.steal;
	if ((__s64)wait->quota > 0)
		read_levels(task, vcpu, true);
}

/* The thread that has the CPU is not counted yet. */
static __always_inline void add_running(struct wait *wait, struct task_struct *running)
{
	const struct blame_cpu *cpu = find_cpu(wait->cpu);
	__u64 start;

	if (!cpu)
		return;
	start = running_since(cpu, running->sched_info.last_arrival);
	if (start >= wait->until)
		return;
	make_owner(&wait->last, running, find_vcpu(running), false);
	wait->last_ns = wait->until - start;
	wait->last_process = find_process(running);
}

static __always_inline __u64 at_most(__u64 ns, __u64 limit)
{
	return (__s64)ns < 0 ? 0 : ns < limit ? ns : limit;
}

/*
 * A real-time thread waits for normal threads, and for those of a lower priority, only while its
 * quota is used up. It is not known if that happened after the wait began.
 */
static __always_inline bool is_by_quota(const struct blame_vcpu *vcpu,
					 const struct blame_owner *owner)
{
	const __u32 kind = owner->kind % BLAME_PRIORITY;

	return owner->kind / BLAME_PRIORITY < vcpu->rt_priority &&
	       (kind <= BLAME_KERNEL || kind == BLAME_IDLE);
}

/*
 * Charge a part of the wait. Time that was stolen is charged to the hypervisor, but not while a
 * quota was used up, which kept the vCPU from running all the same.
 */
static __always_inline void charge_part(struct wait *wait, const struct blame_vcpu *vcpu,
					const struct blame_owner *owner, __u64 ns,
					__u64 process)
{
	struct blame_pair pair = { .vm = wait->vm, .owner = *owner };
	__u64 stolen = 0;

	if (ns > wait->left)
		ns = wait->left;
	if (!ns)
		return;
	wait->left -= ns;
	if (is_by_quota(vcpu, owner)) {
		__builtin_memset(&pair.owner, 0, sizeof(pair.owner));
		pair.owner.kind = vcpu->rt_quota ? BLAME_QUOTA : BLAME_UNKNOWN;
		pair.owner.id = vcpu->rt_quota;
	} else {
		stolen = ns * wait->steal >> 10;
		wait->stolen += stolen;
	}
	charge(&pair, ns - stolen, process);
}

/* A walk through the slots of the CPU that a vCPU waited for */
struct walk {
	struct wait *wait;
	const struct blame_vcpu *vcpu;
	struct blame_cpu *cpu;
	__u64 skip;		/* as in the vCPU, while it was not found */
	__u64 lost;		/* time of owners that have lost their slots */
};

static long charge_slot(__u32 i, struct walk *walk)
{
	struct blame_cpu *cpu = walk->cpu;
	__u64 before, ns, skipped;

	if (i >= BLAME_SLOTS)
		return 1;
	before = cpu->slot[i].base;
	if (i < walk->vcpu->used) {
		if (before > walk->vcpu->before[i])
			walk->lost += before - walk->vcpu->before[i];
		else
			before = walk->vcpu->before[i];
	}
	ns = cpu->total[i] - before;
	if (!ns)
		return 0;
	if (walk->skip && is_counted(&cpu->slot[i].owner, &walk->vcpu->first)) {
		skipped = at_most(walk->skip, ns);
		walk->skip -= skipped;
		ns -= skipped;
	}
	charge_part(walk->wait, walk->vcpu, &cpu->slot[i].owner, ns, cpu->slot[i].process);
	return 0;
}

/*
 * Charge the time that a quota was used up to the highest level first: a cgroup is throttled with
 * all those below it. The highest one that is known has the time of further ones, whose name is
 * unknown.
 */
static __noinline void charge_quota(const struct blame_vm *vm, const struct blame_vcpu *vcpu,
				    __u64 quota)
{
	__u64 charged = 0, ns;
	int i;

	for (i = BLAME_LEVELS - 1; i >= 0; i--) {
		if (i >= vcpu->levels)
			continue;
		ns = at_most(vcpu->level_ns[i] - charged, quota - charged);
		if (ns)
			charge_kind(vm, BLAME_QUOTA, vcpu->further && i == (int)vcpu->levels - 1 ?
				    0 : vcpu->level_id[i], ns);
		charged += ns;
	}
	/* A wait on a CPU to which it was moved has no clocks: the nearest quota */
	if (quota > charged)
		charge_kind(vm, BLAME_QUOTA, vcpu->further ? 0 : vcpu->level_id[0], quota - charged);
}

/* Charge a wait. */
__noinline int charge_wait(struct wait *wait, const struct blame_vcpu *vcpu)
{
	const struct blame_owner overflow = { .kind = BLAME_OVERFLOW };
	const struct blame_owner unknown = { .kind = BLAME_UNKNOWN };
	struct walk walk = { 0 };
	struct blame_cpu *cpu;
	__u64 quota, ns;

	if (!counts_waits || !wait || !vcpu || wait->until <= wait->since)
		return 0;
	cpu = find_cpu(wait->cpu);
	if (!cpu)
		return 0;
	wait->left = wait->until - wait->since;
	quota = at_most(wait->quota, wait->left);
	if (quota) {
		charge_quota(&wait->vm, vcpu, quota);
		wait->left -= quota;
	}
	wait->steal = 0;
	if (wait->left)
		wait->steal = (at_most(wait->stolen, wait->left) << 10) / wait->left;
	wait->stolen = 0;

	walk.wait = wait;
	walk.vcpu = vcpu;
	walk.cpu = cpu;
	walk.skip = vcpu->skip;
	bpf_loop(cpu->used, charge_slot, &walk, 0);
	if (wait->last.kind) {
		ns = wait->last_ns;
		if (walk.skip && same_owner(&wait->last, &vcpu->first))
			ns -= at_most(walk.skip, ns);
		charge_part(wait, vcpu, &wait->last, ns, wait->last_process);
	}
	charge_part(wait, vcpu, &overflow, walk.lost, 0);
	charge_part(wait, vcpu, &unknown, wait->left, 0);
	if (wait->stolen)
		charge_kind(&wait->vm, BLAME_STEAL, 0, wait->stolen);
	return 0;
}

static __always_inline void charge_vcpu(struct threads_vcpu *vcpu, struct wait *wait)
{
	if (wait->until <= wait->since)
		return;
	charge_wait(wait, &vcpu->blame);
	__sync_fetch_and_add(&vcpu->blame.charged, wait->until - wait->since);
}

/*
 * Claim the open wait, which ends now: returns its start, or 0 if none is open. The
 * program that claims a wait charges it.
 */
static __always_inline __u64 claim_wait(struct threads_vcpu *vcpu)
{
	__u64 since = vcpu->blame.since;
	struct blame_cpu *cpu;

	if (since <= RESERVED ||
	    __sync_val_compare_and_swap(&vcpu->blame.since, since, 0) != since)
		return 0;
	cpu = find_cpu(vcpu->blame.cpu);
	if (cpu)
		__sync_fetch_and_add(&cpu->waiting, -1);
	return since;
}

/* Count a wait that has ended. */
static __noinline void count_wait(const struct threads_vcpu *vcpu, __u64 ns)
{
	static const struct blame_waits none;
	/* on the stack, as Linux 6.1 requires of keys */
	const struct blame_vm vm = vcpu->vm;
	struct blame_waits *waits = bpf_map_lookup_elem(&ended_waits, &vm);
	__u64 longest;
	int i;

	if (!waits && take_entry(&wait_shares, vcpu->uid)) {
		bpf_map_update_elem(&ended_waits, &vm, &none, BPF_NOEXIST);
		waits = bpf_map_lookup_elem(&ended_waits, &vm);
	}
	if (!waits) {
		__sync_fetch_and_add(&counts.no_vm, 1);
		return;
	}
	__sync_fetch_and_add(&waits->ns, ns);
	__sync_fetch_and_add(&waits->bucket[find_bucket(ns, BLAME_SHIFT, BLAME_BUCKETS)], 1);
	/* Other vCPUs of the VM can be faster, but hardly four times. */
	for (i = 0; i < 4; i++) {
		longest = waits->longest;
		if (ns <= longest ||
		    __sync_val_compare_and_swap(&waits->longest, longest, ns) == longest)
			break;
	}
}

/* Return the length of the wait that ends at this time. */
static __always_inline __u64 length_of(const struct threads_vcpu *vcpu, __u64 end)
{
	return vcpu->blame.moved + at_most(end - vcpu->blame.start, ~0ULL);
}

static __always_inline void copy_counters(struct threads_vcpu *vcpu, const struct blame_cpu *cpu)
{
	vcpu->blame.used = cpu->used;
	bpf_probe_read_kernel(vcpu->blame.before, sizeof(vcpu->blame.before), cpu->total);
}

/* Note the counters of a CPU, and its thread, whose time up to now is not in them. */
static __always_inline void mark_counters(struct threads_vcpu *vcpu, struct blame_cpu *cpu,
					  struct task_struct *running, __u64 now, const bool raw)
{
	__u64 at = cpu->at, start = running_since(cpu, GET(running, sched_info.last_arrival));
	__u32 tid = GET(running, pid);

	copy_counters(vcpu, cpu);
	vcpu->blame.skip = now > start ? now - start : 0;
	if (vcpu->blame.skip)
		make_owner(&vcpu->blame.first, running, bpf_map_lookup_elem(&vcpus, &tid), raw);
	if (cpu->at == at)
		return;
	/* The other CPU has switched, and counted its thread. */
	copy_counters(vcpu, cpu);
	vcpu->blame.skip = 0;
}

/*
 * Note the clocks and the counters at the start of a wait. queue: on the CPU that the thread
 * waits for; NULL if it is not known
 */
static __always_inline void mark_start(struct threads_vcpu *vcpu, struct blame_cpu *cpu,
				       struct cfs_rq *queue, __u64 delay, __u64 now,
				       const bool raw)
{
	vcpu->blame.quota = NO_CLOCK;
	vcpu->blame.run_delay = delay;
	vcpu->blame.start = now;
	if (queue) {
		struct rq *rq = GET(queue, rq);

		cpu->rq = (__u64)rq;
		vcpu->blame.quota = read_quota(queue, raw);
		vcpu->blame.steal = read_steal(rq, raw);
		if (cpu->waiting && cpu->at != now) {
			mark_counters(vcpu, cpu, GET(rq, curr), now, raw);
			return;
		}
	}
	copy_counters(vcpu, cpu);
	vcpu->blame.skip = 0;
}

/* The wait begins with a quota that is used up: its owners count from the end of that on. */
static __always_inline void note_throttled(struct blame_cpu *cpu, struct cfs_rq *queue, __u32 tid)
{
	__u32 i = cpu->nr_throttled;

	if (!bpf_core_field_exists(queue->throttle_count) || !queue->throttle_count ||
	    i >= BLAME_THROTTLED)
		return;
	cpu->throttled[i].queue = (__u64)queue;
	cpu->throttled[i].tid = tid;
	cpu->nr_throttled = i + 1;
}

/*
 * Before the time of an owner is counted, which has the CPU since start: let the waits begin again
 * whose quota has been renewed in this time.
 */
__noinline int check_throttled(struct blame_cpu *cpu, const struct blame_owner *owner,
			       __u64 start, __u64 now)
{
	__u32 i, left = 0;
	__u64 end;

	if (!counts_waits || !cpu || !owner)
		return 0;
	for (i = 0; i < BLAME_THROTTLED && i < cpu->nr_throttled; i++) {
		struct blame_throttled *throttled = &cpu->throttled[i];
		struct cfs_rq *queue = (void *)throttled->queue;
		/* on the stack, as Linux 6.1 requires of keys */
		__u32 tid = throttled->tid;
		struct threads_vcpu *vcpu;
		int count = 0;

		bpf_core_read(&count, sizeof(count), &queue->throttle_count);
		if (count) {
			cpu->throttled[left++ & (BLAME_THROTTLED - 1)] = *throttled;
			continue;
		}
		vcpu = bpf_map_lookup_elem(&vcpus, &tid);
		if (!vcpu || vcpu->blame.since <= RESERVED || vcpu->blame.quota == NO_CLOCK)
			continue;
		end = vcpu->blame.since + (read_quota(queue, true) - vcpu->blame.quota);
		copy_counters(vcpu, cpu);
		vcpu->blame.first = *owner;
		vcpu->blame.skip = end > start ? at_most(end - start, now - start) : 0;
	}
	cpu->nr_throttled = left;
	return 0;
}

static __always_inline void begin_wait(struct threads_vcpu *vcpu, __u32 on, struct cfs_rq *queue,
				       __u64 delay, __u64 now, const bool raw)
{
	struct blame_cpu *cpu = find_cpu(on);

	/* If it is reserved, the sampler enters this wait. */
	if (!cpu || vcpu->blame.since)
		return;
	vcpu->blame.cpu = on;
	vcpu->blame.levels = 0;
	mark_start(vcpu, cpu, queue, delay, now, raw);
	if (!cpu->waiting) {
		cpu->began = now;
		cpu->nr_throttled = 0;
	}
	__sync_fetch_and_add(&cpu->waiting, 1);
	__sync_lock_test_and_set(&vcpu->blame.since, now);
}

/* Samples so far */
__u32 turn;

/* Each VM has an entry for time that is not named. */
static __always_inline void add_pair(const struct blame_vm *vm)
{
	struct blame_pair pair = { .vm = *vm, .owner.kind = BLAME_UNKNOWN };
	struct blame_charge none = { 0 };

	bpf_map_update_elem(&charges, &pair, &none, BPF_NOEXIST);
}

/*
 * Charge the time by which delay exceeds the charges, if that is more than most: it passed before
 * the vCPU was entered, or events were lost.
 */
static __always_inline void charge_missed(struct threads_vcpu *vcpu, __u64 delay, __u64 most)
{
	const __u32 kind = vcpu->blame.seen ? BLAME_UNKNOWN : BLAME_UNSEEN;
	__u64 missed = delay - vcpu->blame.first_delay - vcpu->blame.charged;

	if ((__s64)missed <= (__s64)most || vcpu->blame.since == RESERVED)
		return;
	charge_kind(&vcpu->vm, kind, 0, missed);
	__sync_fetch_and_add(&vcpu->blame.charged, missed);
	if (vcpu->blame.seen && missed > MISSED_NS)
		count_wait(vcpu, missed);
}

/*
 * A vCPU's thread is switched out, and its run_delay complete. If its wait is open, the
 * event that ended it was lost: run_delay has its length. If run_delay grew by more than
 * the charges, a wait was lost as a whole. wait: space of the caller, whose stack is small
 */
static __noinline void heal(struct threads_vcpu *vcpu, struct task_struct *task,
			    struct wait *wait)
{
	__u64 delay = task->sched_info.run_delay, since = claim_wait(vcpu);

	if (since) {
		__sync_fetch_and_add(&counts.healed, 1);
		measure_wait(wait, vcpu, task, since,
			     vcpu->blame.start + (delay - vcpu->blame.run_delay));
		charge_vcpu(vcpu, wait);
		count_wait(vcpu, length_of(vcpu, wait->until));
	}
	charge_missed(vcpu, delay, task->__state & TASK_DEAD || !vcpu->blame.seen ? 0 : MISSED_NS);
	vcpu->blame.seen = 1;
}

/*
 * A vCPU gets this CPU. If the run queue has it for a shorter time than the wait is open, it
 * was moved here, and the move does not count. If the difference is large, the events that
 * ended this wait and began another one were lost.
 */
static __noinline __u64 heal_start(struct threads_vcpu *vcpu, struct task_struct *task,
				   __u64 since, struct wait *wait)
{
	__u64 start = task->sched_info.last_queued;

	if (!start || (__s64)(start - since) <= 0)
		return since;
	if (start - since > MISSED_NS) {
		__sync_fetch_and_add(&counts.healed, 1);
		measure_wait(wait, vcpu, task, since,
			     vcpu->blame.start + task->sched_info.run_delay - vcpu->blame.run_delay);
		charge_vcpu(vcpu, wait);
		count_wait(vcpu, length_of(vcpu, wait->until));
		vcpu->blame.moved = 0;
	}
	vcpu->blame.start = start;
	return start;
}

/*
 * Count the time from the last switch that reached this program to the one by which a thread got
 * the CPU, if that one did not, and if a vCPU waited then.
 */
static __always_inline void count_unreported(const struct blame_cpu *cpu,
					     struct task_struct *thread)
{
	__u64 start = thread->sched_info.last_arrival, since = running_since(cpu, 0);

	if (cpu->next && cpu->next != thread->pid + 1 && start > since)
		__sync_fetch_and_add(&counts.unreported, start - since);
}

/* The entry of a vCPU's thread is removed: keep how much was charged to it. */
static __always_inline void keep_charged(const struct threads_vcpu *vcpu)
{
	/* on the stack, as Linux 6.1 requires of keys */
	const __u32 tgid = vcpu->vm.tgid;
	const __u64 charged = vcpu->blame.charged;
	__u64 *sum = bpf_map_lookup_elem(&exited, &tgid);

	if (sum)
		__sync_fetch_and_add(sum, charged);
	else
		bpf_map_update_elem(&exited, &tgid, &charged, BPF_ANY);
}

/* A thread loses this CPU to another one. Return the CPU's counters. */
static __always_inline struct blame_cpu *begin_switch(struct task_struct *prev, struct task_struct *next)
{
	struct blame_cpu *cpu = find_cpu(bpf_get_smp_processor_id());

	if (!cpu)
		return NULL;
	if (cpu->waiting)
		count_unreported(cpu, prev);
	cpu->next = next->pid + 1;
	return cpu;
}

/* A thread gets this CPU. */
static __always_inline void end_wait(struct task_struct *task, __u64 now, struct wait *wait)
{
	struct threads_vcpu *vcpu = find_vcpu(task);
	__u64 since = vcpu ? claim_wait(vcpu) : 0;

	if (!since)
		return;
	since = heal_start(vcpu, task, since, wait);
	count_wait(vcpu, length_of(vcpu, now));
	measure_wait(wait, vcpu, task, since, now);
	charge_vcpu(vcpu, wait);
}

/* The rest of begin_switch(). from: entry of prev, or NULL */
static __always_inline void switch_waits(struct blame_cpu *cpu, struct threads_vcpu *from,
					 struct task_struct *prev, struct task_struct *next,
					 struct wait *wait)
{
	__u64 now;

	if (!cpu->waiting && !from)
		return;
	now = prev->se.cfs_rq->rq->clock;
	if (cpu->waiting) {
		make_owner(&wait->last, prev, from, false);
		if (cpu->nr_throttled)
			check_throttled(cpu, &wait->last,
					running_since(cpu, prev->sched_info.last_arrival), now);
		count_thread(cpu, prev, &wait->last, now);
		end_wait(next, now, wait);
		if (!cpu->waiting)
			cpu->used = 0;
	}
	/* As run_delay: a thread that is preempted while it goes to sleep does not wait. */
	if (from && !prev->__state) {
		from->blame.moved = 0;
		begin_wait(from, bpf_get_smp_processor_id(), prev->se.cfs_rq,
			   prev->sched_info.run_delay, now, false);
		read_levels(prev, from, false);
		read_rt_quota(prev, from);
		if (prev->prio >= MAX_RT_PRIO)
			note_throttled(cpu, prev->se.cfs_rq, prev->pid);
	}
}

static __always_inline void begin_woken_wait(struct threads_vcpu *vcpu, struct task_struct *task)
{
	/* Without last_queued, the thread was preempted while it went to sleep. */
	if (vcpu->blame.since || is_on_cpu(task) || !task->sched_info.last_queued)
		return;
	vcpu->blame.moved = 0;
	begin_wait(vcpu, task->se.cfs_rq->rq->cpu, task->se.cfs_rq,
		   task->sched_info.run_delay, task->se.cfs_rq->rq->clock, false);
	read_levels(task, vcpu, false);
	read_rt_quota(task, vcpu);
}

/* A thread that waits is about to be moved to a CPU. */
static __always_inline void move_wait(struct threads_vcpu *vcpu, struct task_struct *task, int to)
{
	__u64 now, start, since = claim_wait(vcpu);
	struct task_struct *running;
	struct blame_cpu *cpu;
	struct wait wait;

	if (!since)
		return;
	now = task->se.cfs_rq->rq->clock;
	/* run_delay is complete, and excludes the time of an earlier move. */
	start = now - (task->sched_info.run_delay - vcpu->blame.run_delay);
	if ((__s64)(start - since) > 0)
		since = start;
	running = task->se.cfs_rq->rq->curr;
	cpu = find_cpu(vcpu->blame.cpu);
	if (cpu)
		count_unreported(cpu, running);
	measure_wait(&wait, vcpu, task, since, now);
	add_running(&wait, running);
	charge_vcpu(vcpu, &wait);
	vcpu->blame.moved += task->sched_info.run_delay - vcpu->blame.run_delay;
	begin_wait(vcpu, to, queue_on(task, to), task->sched_info.run_delay, now, true);
}

/*
 * Reserve the wait of a thread: no other program begins or ends it until publish_wait(). Returns
 * its start; 0 if the thread does not wait, or another program is faster.
 */
static __always_inline __u64 reserve_wait(struct threads_vcpu *vcpu, struct task_struct *task,
					  __u64 queued)
{
	struct blame_cpu *cpu = find_cpu(task->se.cfs_rq->rq->cpu);
	__u64 since = vcpu->blame.since;

	if (!cpu || !queued || since == RESERVED || is_on_cpu(task) ||
	    __sync_val_compare_and_swap(&vcpu->blame.since, since, RESERVED) != since)
		return 0;
	if (since)
		return since;
	/* A wait that began before the vCPU was entered */
	vcpu->blame.cpu = task->se.cfs_rq->rq->cpu;
	if (!cpu->waiting)
		cpu->began = task->se.cfs_rq->rq->clock;
	__sync_fetch_and_add(&cpu->waiting, 1);
	return queued;
}

/* Open the wait again from now on, unless it has ended: its switch found it reserved. */
static __always_inline void publish_wait(struct threads_vcpu *vcpu, struct task_struct *task,
					 __u64 queued, __u64 now)
{
	__sync_val_compare_and_swap(&vcpu->blame.since, RESERVED, now);
	if ((is_on_cpu(task) || task->sched_info.last_queued != queued) && claim_wait(vcpu))
		count_wait(vcpu, length_of(vcpu, now));
}

/* Charge the open wait up to now. Return the length of the wait that run_delay does not have. */
static __always_inline __u64 sample_wait(struct threads_vcpu *vcpu, struct task_struct *task,
					 struct wait *wait)
{
	__u64 queued = task->sched_info.last_queued, delay = task->sched_info.run_delay;
	struct blame_cpu *cpu;
	__u64 since, now;
	bool entered;

	entered = !vcpu->blame.since;
	since = reserve_wait(vcpu, task, queued);
	if (!since)
		return 0;
	now = task->se.cfs_rq->rq->clock;
	cpu = find_cpu(vcpu->blame.cpu);
	if (entered) {
		if (now > since) {
			charge_kind(&vcpu->vm, vcpu->blame.seen ? BLAME_UNKNOWN : BLAME_UNSEEN, 0,
				    now - since);
			__sync_fetch_and_add(&vcpu->blame.charged, now - since);
		}
	} else if (now > since) {
		measure_wait(wait, vcpu, task, since, now);
		add_running(wait, task->se.cfs_rq->rq->curr);
		charge_vcpu(vcpu, wait);
	} else {
		now = since;
	}
	if (cpu) {
		mark_start(vcpu, cpu, task->se.cfs_rq, delay, now, false);
		read_levels(task, vcpu, false);
		read_rt_quota(task, vcpu);
		/* run_delay will grow by all of the wait. */
		vcpu->blame.start = queued;
	}
	publish_wait(vcpu, task, queued, now);
	return now > queued ? now - queued : 0;
}

/* At each sample: charge the open wait up to now, and fill in the waits of a row. */
static __always_inline void list_waits(struct blame_thread *thread, struct threads_vcpu *vcpu,
				       struct task_struct *task)
{
	struct wait wait = { 0 };
	__u64 open;

	/* before the charges, which may grow at any time */
	thread->waited = task->sched_info.run_delay - vcpu->blame.first_delay;
	open = sample_wait(vcpu, task, &wait);
	thread->waited += open;
	thread->open = open && vcpu->blame.since > RESERVED ? vcpu->blame.moved + open : 0;
	charge_missed(vcpu, thread->waited + vcpu->blame.first_delay, vcpu->blame.seen ? MISSED_NS : 0);
	vcpu->blame.seen = 1;
	thread->charged = vcpu->blame.charged;
}

#endif /* KVMSTATS_BPF_BLAME_COUNT_H */
