// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Goes through the open files of all processes and stores the statistics of those that are VMs
 * and vCPUs of KVM for the reader: kvm_files runs when it is read, in the reader's time. kvm_exit
 * runs when a thread exits, and keeps the last values of a vCPU for the reader.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf/kernel.h"
#include "record.h"

/* <linux/magic.h> */
#define ANON_INODE_FS_MAGIC 0x09041934
/* enum pid_type */
#define PIDTYPE_PID 0
#define PIDTYPE_TGID 1
/* <linux/sched.h> */
#define SCHED_FIFO 1
#define SCHED_RR 2
#define SCHED_DEADLINE 6

/* Open files that are read with one call; they have a part of the bits in a long */
#define FILES_AT_ONCE	32

const volatile struct bpf_layout layout;
const volatile __u32 cpus;	/* that the kernel supports */

/* Records for the reader, which takes them when kvm_files or kvm_threads returns 1 */
struct bpf_output slots[BPF_SLOTS];
__u32 filled;

/* Set by the reader: number of this walk, and whether it begins */
__u64 walk;
bool begins;
__u32 mode;	/* enum bpf_mode */

/* Whether the name is this, or begins with it where its 0 is not counted. */
static __always_inline bool is(const char *name, const char *this, int len)
{
	int i;

	for (i = 0; i < len; i++)
		if (name[i] != this[i])
			return false;
	return true;
}

/* Where the reader is: its PID namespace */
static unsigned int reader_level;
static const void *reader_ns;

static __always_inline const struct upid *number_at(const struct pid *pid, unsigned int level)
{
	return (const void *)pid + bpf_core_field_offset(struct pid, numbers) +
	       level * bpf_core_type_size(struct upid);
}

static __always_inline void look_at_reader(void)
{
	const struct task_struct *reader = (void *)bpf_get_current_task();
	const struct pid *own = BPF_CORE_READ(reader, thread_pid);

	reader_level = BPF_CORE_READ(own, level);
	reader_ns = BPF_CORE_READ(number_at(own, reader_level), ns);
}

/* Return the PID or TID in that namespace, 0 if it has none. */
static __always_inline int number(const struct pid *pid)
{
	const struct upid *theirs = number_at(pid, reader_level);

	if (!pid || BPF_CORE_READ(pid, level) < reader_level ||
	    BPF_CORE_READ(theirs, ns) != reader_ns)
		return 0;
	return BPF_CORE_READ(theirs, nr);
}

/*
 * Return the offset from CLOCK_MONOTONIC to the scheduler's clock. The latter cannot be
 * read, but each CPU stores its value at each update: the reader has just made its own CPU
 * update it, so the largest difference is correct. If the reader was interrupted in
 * between, the previous offset is used: clocks drift by 500 ppm at most.
 */
static __s64 clock_offset;
static __u64 clock_time;

static __always_inline void look_at_clock(bool first)
{
	const struct task_struct *reader = (void *)bpf_get_current_task();
	__s64 offset;
	__u64 now;

	if (!bpf_core_field_exists(reader->se.cfs_rq))
		return;
	/* In this order: who is interrupted in between has a difference that is too small. */
	offset = BPF_CORE_READ(reader, se.cfs_rq, rq, clock);
	now = bpf_ktime_get_ns();
	offset -= now;
	if (first && clock_time)
		clock_offset -= (now - clock_time) / 2000;
	if (!clock_time || offset > clock_offset)
		clock_offset = offset;
	if (first)
		clock_time = now;
}

static __always_inline __u64 since(__u64 now, __u64 then)
{
	return now > then ? now - then : 0;
}

/* Read two u64s of a structure, with one call if they are close to each other. */
struct pair {
	__u64 first, second;
};

#define NEAR	128

static __always_inline struct pair read_pair(const void *from, __u32 first, __u32 second)
{
	char both[NEAR + sizeof(__u64)];
	struct pair pair = { 0 };
	__u64 far = second - first;

	/* one number, not a sum that begins with the stack */
	asm volatile("" : "+r"(far));
	if (far <= NEAR) {
		if (!bpf_probe_read_kernel(both, far + sizeof(__u64), from + first)) {
			pair.first = *(__u64 *)both;
			pair.second = *(__u64 *)(both + far);
		}
	} else {
		bpf_probe_read_kernel(&pair.first, sizeof(__u64), from + first);
		bpf_probe_read_kernel(&pair.second, sizeof(__u64), from + second);
	}
	return pair;
}

#define READ_PAIR(from, a, b)						\
	read_pair(from, bpf_core_field_offset((from)->a), bpf_core_field_offset((from)->b))

static __always_inline bool same(struct pair a, struct pair b)
{
	return a.first == b.first && a.second == b.second;
}

/* Read the booked times of a thread. Return false if they changed while being read. */
static __always_inline bool read_booked(const struct task_struct *task,
					const struct rq *rq, struct bpf_thread *thread)
{
	struct pair run, clocks, queue = { 0 };
	__u32 on_cpu = 0;

	run = READ_PAIR(task, se.exec_start, se.sum_exec_runtime);
	if (bpf_core_field_exists(task->sched_info)) {
		queue = READ_PAIR(task, sched_info.run_delay, sched_info.last_queued);
		thread->turns = BPF_CORE_READ(task, sched_info.pcount);
	}
	/* one byte since 7.3 */
	if (bpf_core_field_exists(task->on_cpu))
		bpf_core_read(&on_cpu, bpf_core_field_size(task->on_cpu), &task->on_cpu);
	clocks = READ_PAIR(rq, clock, clock_task);
	thread->sleeps = BPF_CORE_READ(task, nvcsw);
	thread->born = BPF_CORE_READ(task, start_time);
	thread->time = bpf_ktime_get_ns();
	thread->run = run.second;
	thread->ready = queue.first;
	thread->queued = queue.second;
	thread->flags = BPF_THREAD | (on_cpu ? BPF_ON_CPU : 0) |
			(bpf_core_field_exists(task->sched_info) ? BPF_READY : 0);
	if (rq) {
		__u64 now = thread->time + clock_offset;

		thread->rq = (__u64)rq;
		thread->flags |= BPF_CLOCKS;
		thread->queued_for = queue.second ? since(now, queue.second) : 0;
		/* clock_task excludes lost time, which is not charged to the thread. */
		thread->away_for = since(now, clocks.first) + since(clocks.second, run.first);
		thread->lost = clocks.first - clocks.second;
	}
	return same(READ_PAIR(task, se.exec_start, se.sum_exec_runtime), run) &&
	       (!bpf_core_field_exists(task->sched_info) ||
		same(READ_PAIR(task, sched_info.run_delay, sched_info.last_queued), queue)) &&
	       same(READ_PAIR(rq, clock, clock_task), clocks);
}

/* Read a consistent snapshot. Unrolled: verifiers before Linux 6.2 reject some loops. */
static __always_inline void read_account(const struct task_struct *task,
					 struct bpf_thread *thread)
{
	const struct rq *rq = NULL;

	if (bpf_core_field_exists(task->se.cfs_rq))
		rq = BPF_CORE_READ(task, se.cfs_rq, rq);
	if (!read_booked(task, rq, thread) && !read_booked(task, rq, thread))
		read_booked(task, rq, thread);
}

/*
 * How long the threads of a queue could not run because their own group, or one above it,
 * had used up its quota, until now: the kernel adds the time when the quota is renewed, and
 * an idle CPU does not update its clocks. Before 6.6, the time in which the queue was empty
 * counts as well. Global, like sum_throttled() and has_quota(), so that the verifier checks it
 * once instead of once per caller.
 */
__noinline __u64 read_throttled(__u64 address)
{
	const struct cfs_rq *queue = (const void *)address;
	const struct rq *rq = BPF_CORE_READ(queue, rq);
	__u64 now = bpf_ktime_get_ns() + clock_offset;
	__u64 booked, begin, again;
	bool lasts;

	/* The others exclude lost time, as of the last update. */
	if (bpf_core_field_exists(queue->throttled_clock_self_time)) {
		booked = BPF_CORE_READ(queue, throttled_clock_self_time);
		begin = BPF_CORE_READ(queue, throttled_clock_self);
		lasts = begin;
		again = BPF_CORE_READ(queue, throttled_clock_self_time);
	} else if (bpf_core_field_exists(queue->throttled_clock_pelt_time)) {
		booked = BPF_CORE_READ(queue, throttled_clock_pelt_time);
		lasts = BPF_CORE_READ(queue, throttle_count);
		begin = BPF_CORE_READ(queue, throttled_clock_pelt);
		again = BPF_CORE_READ(queue, throttled_clock_pelt_time);
		now += BPF_CORE_READ(rq, clock_pelt) - BPF_CORE_READ(rq, lost_idle_time) -
		       BPF_CORE_READ(rq, clock);
	} else if (bpf_core_field_exists(queue->throttled_clock_task_time)) {
		booked = BPF_CORE_READ(queue, throttled_clock_task_time);
		lasts = BPF_CORE_READ(queue, throttle_count);
		begin = BPF_CORE_READ(queue, throttled_clock_task);
		again = BPF_CORE_READ(queue, throttled_clock_task_time);
		now += BPF_CORE_READ(rq, clock_task) - BPF_CORE_READ(rq, clock);
	} else {
		return 0;
	}
	/* Otherwise, it was booked in between. */
	return lasts && again == booked ? again + since(now, begin) : again;
}

/* The run queues of CPUs, as far as a thread was seen there */
static __u64 queues[BPF_MAX_CPUS];

static __always_inline void note_cpu(const struct task_struct *task)
{
	const struct rq *rq = BPF_CORE_READ(task, se.cfs_rq, rq);
	__u32 cpu = BPF_CORE_READ(rq, cpu);

	if (cpu < BPF_MAX_CPUS)
		queues[cpu] = (__u64)rq;
}

/*
 * The queue of a group on a CPU. The queues are an array or, since 7.3, a variable of each CPU,
 * like struct rq: then both are equally far from those of the thread's CPU.
 */
static __always_inline const struct cfs_rq *queue_on(const struct task_group *group,
						     const struct cfs_rq *queue,
						     const struct rq *rq, __u32 cpu)
{
	if (bpf_core_field_exists(group->se))
		return read_pointer(&BPF_CORE_READ(group, cfs_rq)[cpu]);
	return queues[cpu] ? (void *)((__u64)queue + queues[cpu] - (__u64)rq) : NULL;
}

/*
 * The sum over all CPUs of a group's time; queue is one of the group's. Global, like has_quota(),
 * so that the verifier checks its loop once instead of once per caller.
 */
__noinline __u64 sum_throttled(__u64 group, __u64 queue)
{
	const struct rq *rq = BPF_CORE_READ((const struct cfs_rq *)queue, rq);
	const struct cfs_rq *other;
	__u64 sum = 0;
	__u32 cpu;

	for (cpu = 0; cpu < BPF_MAX_CPUS && cpu < cpus; cpu++) {
		other = queue_on((const void *)group, (const void *)queue, rq, cpu);
		if (other)
			sum += read_throttled((__u64)other);
	}
	return sum;
}

/* Return 1 if the group, or one above it, has a quota. */
__noinline int has_quota(__u64 address)
{
	const struct task_group *group = (const void *)address;
	int i;

	for (i = 0; i < BPF_MAX_LEVELS && group; i++) {
		if (BPF_CORE_READ(group, cfs_bandwidth.quota) != NO_QUOTA)
			return 1;
		group = BPF_CORE_READ(group, parent);
	}
	return 0;
}

/* Result for the last thread: the next one is usually in the same group. */
struct known_quota {
	const void *group;
	bool limited;
	__u64 throttled;
};
static struct known_quota quota;

static __always_inline void read_quota(const struct task_struct *task,
				       struct bpf_thread *thread, struct known_quota *known)
{
	const struct task_group *group = NULL;
	const struct cfs_rq *queue;

	if (!bpf_core_field_exists(task->sched_task_group) ||
	    !bpf_core_field_exists(group->cfs_bandwidth) ||
	    !bpf_core_field_exists(task->se.cfs_rq))
		return;
	group = BPF_CORE_READ(task, sched_task_group);
	queue = BPF_CORE_READ(task, se.cfs_rq);
	thread->flags |= BPF_QUOTA;
	thread->moves = BPF_CORE_READ(task, se.nr_migrations);
	if (group != known->group) {
		known->group = group;
		known->limited = has_quota((__u64)group);
		known->throttled = known->limited ?
				   sum_throttled((__u64)group, (__u64)queue) : 0;
	}
	/* cpu.max does not stop real-time threads. */
	if (!known->limited || BPF_CORE_READ(task, prio) < MAX_RT_PRIO)
		return;
	thread->throttled = read_throttled((__u64)queue);
	thread->group = (__u64)group;
	thread->group_throttled = known->throttled;
}

/* A real-time thread can only be in a group that has a quota itself. The root's is the host's. */
static __always_inline void read_rt_quota(const struct task_struct *task,
					  struct bpf_thread *thread)
{
	const struct task_group *group = NULL;
	const struct rt_rq *queue = NULL;
	const __u32 policy = BPF_CORE_READ(task, policy);
	__u64 period, runtime;

	if (!bpf_core_field_exists(task->rt.rt_rq) ||
	    !bpf_core_field_exists(queue->rt_time) ||
	    !bpf_core_field_exists(group->rt_bandwidth.rt_period_timer.node.expires) ||
	    (policy != SCHED_FIFO && policy != SCHED_RR))
		return;
	queue = BPF_CORE_READ(task, rt.rt_rq);
	/* Not the thread's: that of an autogroup has the root's queue. */
	group = BPF_CORE_READ(queue, tg);
	period = BPF_CORE_READ(group, rt_bandwidth.rt_period);
	/* A CPU can borrow from others until Linux 5.9. */
	runtime = BPF_CORE_READ(queue, rt_runtime);
	if (!BPF_CORE_READ(group, parent) || !runtime || runtime >= period)
		return;
	thread->rt_period = period;
	thread->rt_runtime = runtime;
	thread->rt_used = BPF_CORE_READ(queue, rt_time);
	thread->rt_next = BPF_CORE_READ(group, rt_bandwidth.rt_period_timer.node.expires);
	if (BPF_CORE_READ(queue, rt_throttled))
		thread->flags |= BPF_RT_THROTTLED;
}

/*
 * SCHED_DEADLINE gives a thread some run time in each period. The timer expired at the start of the
 * period after it was last used up.
 */
static __always_inline void read_deadline(const struct task_struct *task,
					  struct bpf_thread *thread)
{
	const struct sched_dl_entity *dl = &task->dl;
	__u64 period, runtime;

	if (!bpf_core_field_exists(task->dl.dl_timer.node.expires) ||
	    BPF_CORE_READ(task, policy) != SCHED_DEADLINE)
		return;
	period = BPF_CORE_READ(dl, dl_period);
	runtime = BPF_CORE_READ(dl, dl_runtime);
	if (!runtime || runtime >= period)
		return;
	thread->rt_period = period;
	thread->rt_runtime = runtime;
	thread->rt_used = runtime - BPF_CORE_READ(dl, runtime);
	thread->rt_next = BPF_CORE_READ(dl, dl_timer.node.expires);
	if (BPF_CORE_READ_BITFIELD_PROBED(dl, dl_throttled))
		thread->flags |= BPF_RT_THROTTLED;
	if (thread->rt_next <= thread->time)
		thread->rt_next += ((thread->time - thread->rt_next) / period + 1) * period;
}

/* Programs that can run at the same time pass different caches. */
static __always_inline void read_thread(const void *vcpu, const struct pid *pid,
					struct bpf_thread *thread, struct known_quota *known)
{
	const struct task_struct *task;
	const void *first;

	__builtin_memset(thread, 0, sizeof(*thread));
	thread->time = bpf_ktime_get_ns();
	if (!pid) {
		thread->flags = BPF_NEVER_RAN;
		return;
	}
	first = BPF_CORE_READ(pid, tasks[PIDTYPE_PID].first);
	if (!first)
		return;
	task = first - bpf_core_field_offset(struct task_struct, pid_links);
	read_account(task, thread);
	read_quota(task, thread, known);
	read_rt_quota(task, thread);
	read_deadline(task, thread);
	if (BPF_CORE_READ(task, preempt_notifiers.first) == vcpu + layout.vcpu_notifier)
		thread->flags |= BPF_LOADED;
}

/* File operations of VMs and vCPUs, as of the first that were found, and of another file */
static const struct file_operations *vm_operations, *vcpu_operations, *other_operations;

static __always_inline __s32 read_creator(__u64 vm)
{
	__s32 creator = 0;

	bpf_probe_read_kernel(&creator, sizeof(creator), (void *)vm + layout.vm_creator);
	return creator;
}

/* What all files of a process have in common */
static __always_inline void look_at_task(const struct task_struct *task,
					 struct bpf_record *record)
{
	const struct task_struct *leader = BPF_CORE_READ(task, group_leader);

	record->started = BPF_CORE_READ(leader, start_boottime);
	record->pid = number(BPF_CORE_READ(task, signal, pids[PIDTYPE_TGID]));
	bpf_core_read(record->comm, sizeof(record->comm), &leader->comm);
}

static __always_inline void look_at_name(const struct file *file)
{
	const struct file_operations *operations = BPF_CORE_READ(file, f_op);
	char name[16] = "";

	if (BPF_CORE_READ(file, f_inode, i_sb, s_magic) == ANON_INODE_FS_MAGIC)
		bpf_probe_read_kernel_str(name, sizeof(name),
					  BPF_CORE_READ(file, f_path.dentry, d_name.name));
	if (is(name, "kvm-vm", sizeof("kvm-vm")))
		vm_operations = operations;
	else if (is(name, "kvm-vcpu:", sizeof("kvm-vcpu:") - 1))
		vcpu_operations = operations;
	else
		other_operations = operations;
}

/*
 * The walk in which a VM or vCPU was written, shifted by one, and whether its owner's file was.
 * A duplicate of a descriptor costs its process 8 bytes, and the reader a record.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BPF_OBJECTS_MAX);
	__type(key, __u64);
	__type(value, __u64);
} written SEC(".maps");

/* The owner's file is written although another process has one, which was found before. */
static __always_inline bool is_repeated(__u64 object, bool owner)
{
	const __u64 *last = bpf_map_lookup_elem(&written, &object);

	return last && *last >> 1 == walk && *last >= (walk << 1 | owner);
}

static __always_inline void mark_written(__u64 object, bool owner)
{
	const __u64 now = walk << 1 | owner;
	__u64 *last = bpf_map_lookup_elem(&written, &object);

	if (last)
		*last = now;
	else
		bpf_map_update_elem(&written, &object, &now, BPF_ANY);
}

/*
 * What a walk costs, in slots of tables and bytes of records. A user's share is half of what
 * the others have left: each user can take that much, and none can take everything.
 */
enum {
	OTHER_TABLES,		/* no VM was found there before */
	VM_TABLES,
	TABLE_KINDS,
};

struct usage {
	__u32 files[TABLE_KINDS];
	__u32 bytes;
};

struct user {
	struct usage used;	/* in this walk */
	__u64 walk;
	/* The walk with which a round over all tables of a kind began; it lasts while the share does not suffice. */
	__u64 round[TABLE_KINDS];
	bool lacks[TABLE_KINDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BPF_USERS_MAX);
	__type(key, __u32);
	__type(value, struct user);
} users SEC(".maps");

/* Tables of open files, by the address: processes can share one. */
struct table {
	__u64 walk;		/* the last one that read it to its end */
	__u32 next;		/* where the next walk continues */
	__u32 kind;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BPF_TABLES_MAX);
	__type(key, __u64);
	__type(value, struct table);
} tables SEC(".maps");

/* By all users in this walk; and whether it left something out, for the reader */
struct {
	__u32 files[TABLE_KINDS];
	__u32 bytes;
} used;
bool partial;
__u32 partial_user;		/* the first user whose files were left out */

/* The table that is being read. Global: clang splits a static structure, which the kernel then refuses. */
struct {
	__u64 key;		/* 0 if none is read */
	__u64 task, mm;
	__u32 uid;
	__u32 kind, next;
	__u32 found;		/* whether it has a VM */
	/* The file whose record is written */
	const void *file, *operations;
} scan;

static __always_inline struct user *find_user(__u32 uid)
{
	struct user *user = bpf_map_lookup_elem(&users, &uid);
	static const struct user none;
	int i;

	if (!user) {
		bpf_map_update_elem(&users, &uid, &none, BPF_ANY);
		user = bpf_map_lookup_elem(&users, &uid);
	}
	if (!user || user->walk == walk)
		return user;
	for (i = 0; i < TABLE_KINDS; i++) {
		/* A walk of known processes does not affect the round of the others. */
		if (i == OTHER_TABLES && mode == BPF_KNOWN)
			continue;
		if (!user->lacks[i])
			user->round[i] = walk;
		user->lacks[i] = false;
	}
	__builtin_memset(&user->used, 0, sizeof(user->used));
	user->walk = walk;
	return user;
}

static __always_inline void leave_out(struct user *user, __u32 kind, __u32 uid)
{
	user->lacks[kind] = true;
	if (!partial)
		partial_user = uid;
	partial = true;
}

/* Return whether the user's share suffices for more files of tables of this kind. */
static __always_inline bool has_share(const struct user *user, __u32 kind)
{
	return user->used.files[kind] < BPF_FILES_MAX - used.files[kind] &&
	       user->used.bytes < BPF_DATA_MAX - used.bytes;
}

static __always_inline bool is_own(const struct task_struct *task)
{
	return (__u32)task->tgid == bpf_get_current_pid_tgid() >> 32;
}

/* Begin to read a table. Return false if it is not to be read in this walk. */
static __always_inline bool begin_table(const struct task_struct *task, __u64 key)
{
	struct table *table = bpf_map_lookup_elem(&tables, &key);
	static const struct table none;
	struct user *user;
	__u32 kind;

	if (mode == BPF_OWN && !is_own(task))
		return false;
	if (!table) {
		if (mode == BPF_KNOWN)
			return false;
		bpf_map_update_elem(&tables, &key, &none, BPF_ANY);
		table = bpf_map_lookup_elem(&tables, &key);
	}
	if (!table || table->walk == walk)
		return false;
	kind = table->kind % TABLE_KINDS;
	if (mode == BPF_KNOWN && kind != VM_TABLES)
		return false;
	scan.uid = BPF_CORE_READ(task, cred, uid.val);
	user = find_user(scan.uid);
	if (!user)
		return false;
	if (mode != BPF_OWN && (table->walk >= user->round[kind] || !has_share(user, kind))) {
		leave_out(user, kind, scan.uid);
		return false;
	}
	scan.key = key;
	scan.task = (__u64)task;
	scan.mm = (__u64)BPF_CORE_READ(task, mm);
	scan.kind = kind;
	scan.next = table->next;
	scan.found = 0;
	if (bpf_core_field_exists(task->se.cfs_rq))
		note_cpu(task);
	return true;
}

/* The table was read to its end, or the user's share was used up. */
static __always_inline void end_table(bool whole)
{
	struct table *table = bpf_map_lookup_elem(&tables, &scan.key);

	if (table) {
		if (whole)
			table->walk = walk;
		table->next = whole ? 0 : scan.next;
		if (whole || scan.found)
			table->kind = scan.found ? VM_TABLES : OTHER_TABLES;
	}
	scan.key = 0;
}

/* Count what the record costs. */
static __always_inline void count_record(__u32 uid, __u32 size)
{
	struct user *user = find_user(uid);

	size += sizeof(struct bpf_record);
	used.bytes += size;
	if (user)
		user->used.bytes += size;
	filled++;
}

static __always_inline __u64 vm_of(const struct file *file, const void *object)
{
	return BPF_CORE_READ(file, f_op) == vcpu_operations ?
	       (__u64)read_pointer(object + layout.vcpu_kvm) : (__u64)object;
}

static __always_inline bool is_owner(__u64 vm)
{
	return scan.mm && scan.mm == (__u64)read_pointer((void *)vm + layout.vm_mm);
}

static const struct file *files_at_once[FILES_AT_ONCE];

/*
 * Return whether a file is a VM or vCPU that has to be written. Global, like the next functions,
 * so that the verifier checks it once, and not for each file of a part of the table.
 */
__noinline int is_wanted(__u64 address)
{
	const struct file *file = (const void *)address;
	const struct file_operations *operations = BPF_CORE_READ(file, f_op);
	const void *object;

	if (!file || operations == other_operations)
		return false;
	if (operations != vm_operations && operations != vcpu_operations) {
		if (vm_operations && vcpu_operations)
			return false;
		look_at_name(file);
		if (operations == other_operations)
			return false;
	}
	scan.found = 1;
	object = BPF_CORE_READ(file, private_data);
	return !is_repeated((__u64)object, is_owner(vm_of(file, object)));
}

/*
 * Return the descriptor of the next VM or vCPU in a part of the table that has to be written, or
 * that of the next part.
 */
__noinline int find_file(__u64 address, __u32 first)
{
	const struct fdtable *table = (const void *)address;
	struct file *const *files = BPF_CORE_READ(table, fd);
	const unsigned long *open = BPF_CORE_READ(table, open_fds);
	const __u32 at = first % FILES_AT_ONCE;
	__u32 i, bits = 0;

	first -= at;
	bpf_probe_read_kernel(&bits, sizeof(bits), (const void *)open + first / 8);
	bits &= -1U << at;
	if (!bits || bpf_probe_read_kernel(files_at_once, sizeof(files_at_once), &files[first]))
		return first + FILES_AT_ONCE;
	for (i = 0; i < FILES_AT_ONCE; i++) {
		if (bits >> i & 1 && is_wanted((__u64)files_at_once[i]))
			return first + i;
	}
	return first + FILES_AT_ONCE;
}

/*
 * Begin the record of a VM or vCPU: which one it is, and the times of its thread. Return whether
 * there is one. Two functions write a record because the stacks of nested functions have 512 bytes.
 */
__noinline int begin_record(__u64 slot, __u32 fd)
{
	const struct file *file = read_pointer((const void *)slot);
	const void *object = BPF_CORE_READ(file, private_data), *pid;
	struct bpf_record *record;
	__u32 n = filled;

	scan.file = file;
	scan.operations = BPF_CORE_READ(file, f_op);
	if (n >= BPF_SLOTS || (scan.operations != vm_operations && scan.operations != vcpu_operations))
		return false;
	record = &slots[n].record;
	record->object = (__u64)object;
	record->vm = vm_of(file, object);
	record->owner = is_owner(record->vm);
	record->fd = fd;
	record->vcpu_id = -1;
	record->tid = 0;
	if (scan.operations == vcpu_operations) {
		pid = read_pointer(object + layout.vcpu_pid);
		record->tid = number(pid);
		read_thread(object, pid, &record->thread, &quota);
	}
	return true;
}

/*
 * Add the process and the values. The file is not referenced: its table must still have it when they
 * have been read.
 */
__noinline int finish_record(__u64 slot)
{
	const struct file *file = scan.file;
	struct bpf_record *record;
	struct bpf_output *out;
	const void *object, *stat;
	__u32 n = filled, size;

	if (n >= BPF_SLOTS)
		return 0;
	out = &slots[n];
	record = &out->record;
	object = (const void *)record->object;
	if (scan.operations == vcpu_operations) {
		bpf_probe_read_kernel(&record->vcpu_id, sizeof(record->vcpu_id),
				      object + layout.vcpu_id);
		stat = object + layout.vcpu_stat;
		size = layout.vcpu_stat_size;
	} else {
		look_at_clock(false);
		stat = object + layout.vm_stat;
		size = layout.vm_stat_size;
	}
	look_at_task((const void *)scan.task, record);
	record->creator = read_creator(record->vm);
	record->size = size;
	if (size > sizeof(out->values) || bpf_probe_read_kernel(out->values, size, stat))
		return 0;
	if (read_pointer((const void *)slot) != file || BPF_CORE_READ(file, f_op) != scan.operations ||
	    BPF_CORE_READ(file, private_data) != object)
		return 0;
	count_record(scan.uid, size);
	mark_written((__u64)object, record->owner);
	return 0;
}

static __always_inline void begin_walk(void)
{
	begins = false;
	look_at_reader();
	look_at_clock(true);
	quota.group = NULL;
}

#define SCANS_AT_ONCE	64

SEC("iter/task")
int kvm_files(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct files_struct *files;
	const struct fdtable *table;
	__u32 next, kind;
	struct user *user;
	__u64 slot;
	int i;

	if (begins) {
		begin_walk();
		__builtin_memset(&used, 0, sizeof(used));
		scan.key = 0;
		partial = false;
	}
	if (!task)
		return 0;
	files = task->files;
	if (!files || (task->pid != task->tgid && files == task->group_leader->files))
		return 0;
	/* After it returned 1, the kernel repeats the task, unless that has exited. */
	if (scan.key != (__u64)files || scan.task != (__u64)task)
		scan.key = 0;
	if (!scan.key && !begin_table(task, (__u64)files))
		return 0;
	user = find_user(scan.uid);
	if (!user)
		return 0;
	kind = scan.kind % TABLE_KINDS;
	for (i = 0; i < SCANS_AT_ONCE && filled < BPF_SLOTS; i++) {
		/* The table can have grown. */
		table = BPF_CORE_READ(files, fdt);
		if (scan.next >= BPF_CORE_READ(table, max_fds)) {
			end_table(true);
			return 0;
		}
		if (mode != BPF_OWN && !has_share(user, kind)) {
			leave_out(user, kind, scan.uid);
			end_table(false);
			return 0;
		}
		next = find_file((__u64)table, scan.next);
		if (next % FILES_AT_ONCE || next == scan.next) {
			slot = (__u64)&BPF_CORE_READ(table, fd)[next];
			if (begin_record(slot, next))
				finish_record(slot);
			next++;
		}
		if (!(next % FILES_AT_ONCE)) {
			user->used.files[kind] += FILES_AT_ONCE;
			used.files[kind] += FILES_AT_ONCE;
		}
		scan.next = next;
	}
	return 1;
}

/* Write the record of a vCPU that a thread has entered, or of its VM. */
static __always_inline void write_entered(const struct task_struct *task, __u64 object, __u64 vm,
					  const struct pid *pid, __u32 uid, const bool vcpu)
{
	const __u32 size = vcpu ? layout.vcpu_stat_size : layout.vm_stat_size;
	const void *stat = (void *)object + (vcpu ? layout.vcpu_stat : layout.vm_stat);
	struct bpf_output *out;
	struct bpf_record *record;
	__u32 n = filled;

	if (is_repeated(object, false) || n >= BPF_SLOTS)
		return;
	out = &slots[n];
	record = &out->record;
	record->vm = vm;
	record->object = object;
	record->creator = read_creator(vm);
	record->fd = BPF_NO_FILE;
	record->owner = 1;
	record->tid = 0;
	record->vcpu_id = -1;
	if (vcpu) {
		record->tid = number(pid);
		bpf_probe_read_kernel(&record->vcpu_id, sizeof(record->vcpu_id),
				      (void *)object + layout.vcpu_id);
		read_thread((void *)object, pid, &record->thread, &quota);
	}
	look_at_task(task, record);
	record->size = size;
	if (size > sizeof(out->values) || bpf_probe_read_kernel(out->values, size, stat))
		return;
	count_record(uid, size);
	mark_written(object, true);
}

/*
 * The vCPU that a thread has entered, by the address of its struct pid, to which the vCPU holds a
 * reference: its file can be anywhere, and the thread can rest during each sample.
 */
struct entered {
	__u64 vcpu, vm;
	__u64 mm;		/* struct mm_struct, to which the VM holds a reference */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BPF_ENTERED_MAX);
	__type(key, __u64);
	__type(value, struct entered);
} entered SEC(".maps");

/* A thread runs a vCPU that the last walk did not write */
bool news;

static __always_inline void note_entered(__u64 pid, __u64 vcpu)
{
	const struct entered *last = bpf_map_lookup_elem(&entered, &pid);
	struct entered now = { .vcpu = vcpu };

	now.vm = (__u64)read_pointer((void *)vcpu + layout.vcpu_kvm);
	now.mm = (__u64)read_pointer((void *)now.vm + layout.vm_mm);
	if (!last || last->vcpu != vcpu || last->vm != now.vm || last->mm != now.mm)
		bpf_map_update_elem(&entered, &pid, &now, BPF_ANY);
}

#define XA_CHUNK	64

/* Return the entry below a node of an xarray, or the entry itself if it is not a node. */
static __always_inline __u64 entry_below(__u64 entry, __u32 index)
{
	const struct xa_node *node = (const void *)(entry - 2);
	__u64 slot;

	if ((entry & 3) != 2)
		return entry;
	slot = index >> BPF_CORE_READ(node, shift) & (XA_CHUNK - 1);
	return (__u64)read_pointer((const void *)node + slot * sizeof(void *) +
				   bpf_core_field_offset(struct xa_node, slots));
}

/* Return the vCPU of a VM with this index; 4,096 of them are in two levels of nodes. */
static __always_inline __u64 vcpu_at(__u64 vm, __u32 index)
{
	const void *vcpus = (void *)vm + layout.vm_vcpus;

	if (layout.is_array)
		return (__u64)read_pointer(vcpus + index * sizeof(void *));
	return entry_below(entry_below((__u64)BPF_CORE_READ((const struct xarray *)vcpus, xa_head),
				       index), index);
}

static __always_inline __u32 read_int(__u64 from)
{
	__u32 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)from);
	return value;
}

/*
 * Return the vCPU that the thread has entered if that exists: the VM of this process has references,
 * and this vCPU, of which this thread was the last one. Their memory may have been freed, and used again.
 */
__noinline __u64 find_entered(__u64 pid)
{
	const struct entered *last = bpf_map_lookup_elem(&entered, &pid);

	if (!last || !read_int(last->vm + layout.vm_users) ||
	    (__u64)read_pointer((void *)last->vm + layout.vm_mm) != last->mm ||
	    (__u64)read_pointer((void *)last->vcpu + layout.vcpu_kvm) != last->vm ||
	    (__u64)read_pointer((void *)last->vcpu + layout.vcpu_pid) != pid ||
	    vcpu_at(last->vm, read_int(last->vcpu + layout.vcpu_index)) != last->vcpu)
		return 0;
	return last->vcpu;
}

/*
 * KVM holds a reference to the struct pid of a thread that has run a vCPU; few other threads
 * have a second reference.
 */
static __always_inline bool may_be_vcpu(const struct pid *pid)
{
	__u32 count = 0;

	bpf_probe_read_kernel(&count, sizeof(count),
			      (void *)pid + bpf_core_field_offset(pid->count));
	return count > 1;
}

/* Return the vCPU that a thread runs, or has entered, or 0. */
static __always_inline __u64 vcpu_of(const struct task_struct *task, const struct pid *pid)
{
	const void *notifier = task->preempt_notifiers.first;
	__u64 vcpu = (__u64)notifier - layout.vcpu_notifier;

	/* Other ioctls of a vCPU do not run it. */
	if (!notifier || read_pointer((void *)vcpu + layout.vcpu_pid) != pid)
		return may_be_vcpu(pid) ? find_entered((__u64)pid) : 0;
	note_entered((__u64)pid, vcpu);
	return vcpu;
}

/*
 * vCPUs that threads run or have entered, and their VMs, unless kvm_files found them: their files can be
 * closed.
 */
SEC("iter/task")
int kvm_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	const struct pid *pid;
	struct user *user;
	__u64 vcpu, vm;
	__u32 uid;

	if (begins)
		begin_walk();
	if (!task)
		return 0;
	/* a number, not a pointer, to the verifier */
	pid = BPF_CORE_READ(task, thread_pid);
	vcpu = vcpu_of(task, pid);
	if (!vcpu || is_repeated(vcpu, false))
		return 0;
	if (mode == BPF_NOTE) {
		news = true;
		return 0;
	}
	if (filled > BPF_SLOTS - 2)
		return 1;
	uid = BPF_CORE_READ(task, cred, uid.val);
	user = find_user(uid);
	if (!user || !has_share(user, VM_TABLES)) {
		if (user)
			leave_out(user, VM_TABLES, uid);
		return 0;
	}
	vm = (__u64)read_pointer((void *)vcpu + layout.vcpu_kvm);
	write_entered(task, vm, vm, pid, uid, false);
	write_entered(task, vcpu, vm, pid, uid, true);
	return 0;
}

/* One for each program: one can be preempted by the other. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct bpf_output);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, BPF_FINALS_SIZE);
} finals SEC(".maps");

/* Records that did not fit into finals */
__u64 finals_lost;

/*
 * Return which of some files is the vCPU that a thread has run, or FILES_AT_ONCE. Global, so that
 * the verifier checks it once, and not for each of BPF_MAX_FILES: that took 0.1 s.
 */
__noinline int find_vcpu_file(__u64 first, __u64 pid, __u32 count)
{
	struct file *const *files = (const void *)first;
	const struct file *file;
	__u32 i;

	for (i = 0; i < FILES_AT_ONCE && i < count; i++) {
		file = read_pointer(&files[i]);
		if (file && BPF_CORE_READ(file, f_op) == vcpu_operations &&
		    (__u64)read_pointer(BPF_CORE_READ(file, private_data) + layout.vcpu_pid) == pid)
			return i;
	}
	return FILES_AT_ONCE;
}

/* Find the vCPU that the thread has run, among the open files of its process. */
static __always_inline const void *find_vcpu(const struct task_struct *task,
					     const struct pid *pid, __u32 *fd)
{
	const struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file *const *files = BPF_CORE_READ(table, fd);
	__u32 first, i, max = BPF_CORE_READ(table, max_fds);
	const struct file *file;
	const void *object;

	for (first = 0; first < BPF_MAX_FILES && first < max; first += FILES_AT_ONCE) {
		i = find_vcpu_file((__u64)&files[first], (__u64)pid, max - first);
		if (i >= FILES_AT_ONCE)
			continue;
		*fd = first + i;
		file = read_pointer(&files[*fd]);
		object = BPF_CORE_READ(file, private_data);
		/* Another thread may have closed the file. */
		return read_pointer(object + layout.vcpu_pid) == pid ? object : NULL;
	}
	return NULL;
}

/* Records of a vCPU in finals, by the vCPU and its process: the reader's turn, and their number */
struct final_key {
	__u64 object, tgid;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BPF_OBJECTS_MAX);
	__type(key, struct final_key);
	__type(value, __u64);
} final_counts SEC(".maps");

/* How often the reader has taken the records */
__u64 finals_taken;

/*
 * Any number of threads can enter a vCPU and exit. Limit the records of one vCPU, so that those
 * of other VMs fit; the reader finds the values of a VM that still exists.
 */
static __always_inline bool has_many_finals(const void *object)
{
	const struct final_key key = { (__u64)object, bpf_get_current_pid_tgid() >> 32 };
	const __u64 first = finals_taken * (BPF_FINALS_PER_VCPU + 1);
	__u64 *count = bpf_map_lookup_elem(&final_counts, &key);

	if (!count || *count < first) {
		bpf_map_update_elem(&final_counts, &key, &first, BPF_ANY);
		return false;
	}
	return *count - first >= BPF_FINALS_PER_VCPU || !++*count;
}

/*
 * Bytes of records in finals since the reader's last turn, by user and in all: such a sum begins at the
 * number of the turn times more than it can have.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BPF_USERS_MAX);
	__type(key, __u32);
	__type(value, __u64);
} final_bytes SEC(".maps");

static __u64 all_final_bytes;

/* Return whether a user's share, three quarters of what the others have left, suffices for a record. */
static __always_inline bool take_final_share(__u32 uid, __u32 size)
{
	const __u64 first = finals_taken * 2 * BPF_FINALS_SIZE;
	__u64 *bytes = bpf_map_lookup_elem(&final_bytes, &uid);
	__u64 left;

	if (all_final_bytes < first)
		all_final_bytes = first;
	if (!bytes) {
		bpf_map_update_elem(&final_bytes, &uid, &first, BPF_NOEXIST);
		bytes = bpf_map_lookup_elem(&final_bytes, &uid);
		if (!bytes)
			return false;
	}
	if (*bytes < first)
		*bytes = first;
	left = BPF_FINALS_SIZE - (all_final_bytes - first);
	if ((__s64)left <= (__s64)size || *bytes - first >= 3 * left)
		return false;
	__sync_fetch_and_add(bytes, size);
	__sync_fetch_and_add(&all_final_bytes, size);
	return true;
}

/* The last threads whose values kvm_exit has kept, by the low bits of their TIDs */
static __u64 last_kept[1024];

static __always_inline int keep_values(struct bpf_raw_tracepoint_args *ctx, bool again)
{
	const struct task_struct *task = (void *)ctx->args[0], *leader;
	const struct pid *pid = BPF_CORE_READ(task, thread_pid);
	__u32 key = again, fd = 0, size = layout.vcpu_stat_size;
	struct known_quota known = { 0 };
	struct bpf_record *record;
	const void *object;
	struct bpf_output *to;
	__u64 *kept;

	if (!vcpu_operations || !may_be_vcpu(pid))
		return 0;
	kept = &last_kept[bpf_get_current_pid_tgid() % (sizeof(last_kept) / sizeof(*last_kept))];
	if (again && *kept == ctx->args[0]) {
		*kept = 0;
		return 0;
	}
	object = (const void *)find_entered((__u64)pid) ?: find_vcpu(task, pid, &fd);
	if (!object || has_many_finals(object))
		return 0;
	to = bpf_map_lookup_elem(&scratch, &key);
	if (!to || size > sizeof(to->values))
		return 0;
	record = &to->record;
	leader = BPF_CORE_READ(task, group_leader);
	record->vm = (__u64)read_pointer(object + layout.vcpu_kvm);
	record->object = (__u64)object;
	record->creator = read_creator(record->vm);
	record->started = BPF_CORE_READ(leader, start_boottime);
	record->pid = number(BPF_CORE_READ(task, signal, pids[PIDTYPE_TGID]));
	/* in another PID namespace than the reader */
	if (!record->pid)
		return 0;
	record->fd = fd;
	record->tid = number(pid);
	record->owner = 1;
	record->size = size;
	bpf_core_read(record->comm, sizeof(record->comm), &leader->comm);
	bpf_probe_read_kernel(&record->vcpu_id, sizeof(record->vcpu_id), object + layout.vcpu_id);
	read_thread(object, pid, &record->thread, &known);
	if (!take_final_share(BPF_CORE_READ(task, cred, uid.val), sizeof(*record) + size) ||
	    bpf_probe_read_kernel(to->values, size, object + layout.vcpu_stat) ||
	    bpf_ringbuf_output(&finals, to, sizeof(*record) + size, 0))
		__sync_fetch_and_add(&finals_lost, 1);
	*kept = ctx->args[0];
	return 0;
}

SEC("raw_tp/sched_process_exit")
int kvm_exit(struct bpf_raw_tracepoint_args *ctx)
{
	return keep_values(ctx, false);
}

/*
 * Since Linux 7.0, the kernel can preempt a program at this tracepoint, and skips it for the
 * other threads of that CPU. This one is then likely to run. bpf_preempt_disable() does not
 * help: the kernel switches threads in bpf_preempt_enable().
 */
SEC("raw_tp/sched_process_exit")
int kvm_exit_again(struct bpf_raw_tracepoint_args *ctx)
{
	return keep_values(ctx, true);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
