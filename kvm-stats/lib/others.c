// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * CPU time of a VMM's threads that are not vCPUs: the process's CPU clock, without the time
 * of its vCPUs' threads. A read of the clock needs no file and no permission. Names of
 * threads, and how long they waited for a CPU, are read at intervals only.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core.h"
#include "proc.h"

#define ROLES_INTERVAL_NS	5000000000ULL

/* Threads of a process whose names are read */
#define ROLE_THREADS_MAX	1024

/* The kernel's clock of a process: all threads, including those that have exited */
#define PROCESS_CLOCK(pid)	((clockid_t)(~(unsigned int)(pid) << 3 | 2))

struct other_thread {
	pid_t tid;
	uint64_t run, waited;
	bool seen;
};

DEFINE_NAMES(role, KVMSTATS_ROLES,
	[KVMSTATS_EMULATOR] = "emulator",
	[KVMSTATS_IO_THREADS] = "io",
	[KVMSTATS_VHOST] = "vhost")

uint64_t kvmstats_vm_other_threads(const struct kvmstats_vm *vm, enum kvmstats_role role)
{
	const struct core_vm *of = (const void *)vm;

	return (unsigned int)role < KVMSTATS_ROLES ? of->others.role[role] : 0;
}

uint64_t vm_other_waits(const struct kvmstats_vm *vm)
{
	return ((const struct core_vm *)vm)->others.waited;
}

/* Return true if PIDs in the host's procfs are PIDs of this process's namespace. */
static bool is_own_namespace(const struct kvmstats *k)
{
	char text[16] = "";

	return readlinkat(k->proc, "self", text, sizeof(text) - 1) > 0 &&
	       atoi(text) == getpid();
}

static enum kvmstats_role role_of(const char *comm)
{
	/* of QEMU, cloud-hypervisor, crosvm, and of the kernel for io_uring */
	static const char *const io[] = { "IO ", "worker", "_disk", "_net", "v_", "iou-" };
	size_t i;

	if (!strncmp(comm, "vhost-", 6))
		return KVMSTATS_VHOST;
	for (i = 0; i < sizeof(io) / sizeof(*io); i++) {
		if (!strncmp(comm, io[i], strlen(io[i])))
			return KVMSTATS_IO_THREADS;
	}
	return KVMSTATS_EMULATOR;
}

/* A process and its VMs, which are k->vm[from] to k->vm[to - 1] */
struct vmm_process {
	struct kvmstats *k;
	unsigned int from, to;
	struct other_threads *others;	/* of its first VM */
	unsigned int threads;	/* those whose names were read */
	uint64_t waited;	/* of these, since they were read before */
};

static bool is_vcpu(const struct vmm_process *p, pid_t tid)
{
	unsigned int i, j;

	for (i = p->from; i < p->to; i++) {
		for (j = 0; j < p->k->vm[i]->pub.vcpus; j++) {
			if (p->k->vm[i]->vcpu[j]->pub.tid == tid)
				return true;
		}
	}
	return false;
}

static struct other_thread *find_thread(struct other_threads *others, pid_t tid)
{
	struct other_thread *more;
	unsigned int i;

	for (i = 0; i < others->count; i++) {
		if (others->thread[i].tid == tid)
			return &others->thread[i];
	}
	more = realloc(others->thread, (others->count + 1) * sizeof(*more));
	if (!more)
		return NULL;
	others->thread = more;
	more += others->count++;
	/* A thread that was created since the previous time has all of its time to add. */
	*more = (struct other_thread){ .tid = tid };
	return more;
}

static int read_thread(void *arg, int dirfd, int tid)
{
	struct vmm_process *p = arg;
	struct other_thread *thread;
	enum kvmstats_role role;
	uint64_t run, waited = 0;
	char text[64], *end;

	if (is_vcpu(p, tid))
		return 0;
	p->others->partial = p->threads++ == ROLE_THREADS_MAX;
	if (p->others->partial)
		return 1;
	if (!proc_read(dirfd, tid, "comm", text, sizeof(text)))
		return 0;
	role = role_of(text);
	/* Time on a CPU, time waiting for one, turns */
	if (!proc_read(dirfd, tid, "schedstat", text, sizeof(text)))
		return 0;
	run = strtoull(text, &end, 10);
	waited = strtoull(end, NULL, 10);
	thread = find_thread(p->others, tid);
	if (!thread)
		return 0;
	if (p->others->split && role != KVMSTATS_EMULATOR)
		p->others->role[role] += growth_of(run, thread->run);
	if (p->others->split)
		p->waited += growth_of(waited, thread->waited);
	thread->run = run;
	thread->waited = waited;
	thread->seen = true;
	return 0;
}

/* The rest of the time was used by the emulator. */
static void split_rest(struct other_threads *others)
{
	uint64_t split = others->role[KVMSTATS_IO_THREADS] + others->role[KVMSTATS_VHOST];

	if (others->total > split + others->role[KVMSTATS_EMULATOR])
		others->role[KVMSTATS_EMULATOR] = others->total - split;
}

static void split_by_role(struct vmm_process *p, pid_t pid, uint64_t now)
{
	struct other_threads *others = p->others;
	unsigned int i, n = 0;
	char path[32];
	int fd;

	if (others->split && now - others->split < ROLES_INTERVAL_NS)
		return;
	snprintf(path, sizeof(path), "%d/task", pid);
	fd = openat(p->k->proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	for (i = 0; i < others->count; i++)
		others->thread[i].seen = false;
	p->threads = 0;
	p->waited = 0;
	others->partial = false;
	proc_numbers(fd, read_thread, p);
	close(fd);
	others->has_waited = others->split;
	if (others->split)
		others->wait_rate = (double)p->waited / (now - others->split);
	for (i = 0; i < others->count; i++) {
		if (others->thread[i].seen)
			others->thread[n++] = others->thread[i];
	}
	others->count = n;
	others->split = now;
	split_rest(others);
}

/*
 * A thread can have several vCPUs, and was one that runs vCPUs at the previous sample if any of
 * them says so.
 */
static void note_before(const struct kvmstats *k, const struct core_vcpu *vcpu)
{
	struct vcpu_thread *thread = vcpu_thread_find(k, vcpu->pub.tid);

	if (!thread || vcpu->other_tid != vcpu->pub.tid)
		return;
	thread->has_before = true;
	thread->before = vcpu->other_run;
}

/*
 * CPU time of a vCPU's thread since the previous sample; 0 if it was counted for another vCPU.
 * If the thread ran no vCPU then, its time was reported as that of other threads: return all
 * of it, but at most the interval, because it may have done other work first.
 */
static int64_t vcpu_growth(const struct kvmstats *k, struct core_vcpu *vcpu, uint64_t now,
			   uint64_t interval, bool *known)
{
	struct vcpu_thread *thread = vcpu_thread_find(k, vcpu->pub.tid);
	const struct thread_times *t = &vcpu->thread;
	uint64_t run = t->run;

	/* The clock of the process is read after the source. */
	if (t->up_to_date && t->state == THREAD_RUNS && now > t->time)
		run += now - t->time;
	*known &= t->has_run;
	vcpu->other_tid = vcpu->pub.tid;
	vcpu->other_run = run;
	if (!thread || thread->counted)
		return 0;
	thread->counted = true;
	if (thread->has_before)
		return run - thread->before;
	return run < interval ? run : interval;
}

static void add_others_waits(struct core_vm *first, uint64_t interval)
{
	struct other_threads *others = &first->others;

	if (!others->has_waited || first->pub.first_sample)
		return;
	others->wait_growth = others->wait_rate * interval;
	others->waited += others->wait_growth;
	first->pub.sum.other_waits = others->wait_growth;
	first->pub.sum.known |= KVMSTATS_OTHER_WAITS_KNOWN;
}

static void update_process(struct vmm_process *p, struct core_vm *first)
{
	const pid_t pid = first->pub.identity.pid;
	struct other_threads *others = &first->others;
	uint64_t clock, before = others->clock, interval = p->k->sampled - p->k->sampled_before, now;
	struct timespec t;
	unsigned int i, j;
	int64_t run = 0;
	bool known = true;

	if (clock_gettime(PROCESS_CLOCK(pid), &t))
		return;
	now = core_now(p->k);
	clock = t.tv_sec * 1000000000ULL + t.tv_nsec;
	for (i = p->from; i < p->to; i++) {
		for (j = 0; j < p->k->vm[i]->pub.vcpus; j++)
			note_before(p->k, p->k->vm[i]->vcpu[j]);
	}
	for (i = p->from; i < p->to; i++) {
		for (j = 0; j < p->k->vm[i]->pub.vcpus; j++)
			run += vcpu_growth(p->k, p->k->vm[i]->vcpu[j], now, interval, &known);
	}
	others->clock = clock;
	if (!known)
		return;
	if (before && !first->pub.first_sample) {
		others->pending += clock - before - run;
		if (others->pending > 0) {
			first->pub.sum.other_threads = others->pending;
			others->total += others->pending;
			others->pending = 0;
		}
		first->pub.sum.known |= KVMSTATS_OTHER_THREADS_KNOWN;
	}
	p->others = others;
	split_by_role(p, pid, now);
	add_others_waits(first, interval);
	if (others->partial)
		core_unread(p->k, KVMSTATS_TOO_MANY, "process %d has more than %d threads: the time of the last ones counts as that of the emulator",
			    pid, ROLE_THREADS_MAX);
}

/* A VM whose process has more threads than are known was reported without them. */
static void take_recorded(struct kvmstats *k)
{
	unsigned int i;

	for (i = 0; i < k->vms; i++) {
		struct core_vm *vm = k->vm[i];

		if (!vm->seen || vm->others.clock != vm->pub.time || vm->pub.first_sample)
			continue;
		vm->pub.sum.other_threads = vm->others.growth;
		vm->pub.sum.known |= KVMSTATS_OTHER_THREADS_KNOWN;
		if (!vm->others.has_waited)
			continue;
		vm->pub.sum.other_waits = vm->others.wait_growth;
		vm->pub.sum.known |= KVMSTATS_OTHER_WAITS_KNOWN;
	}
}

void others_update(struct kvmstats *k)
{
	struct core_vm *first;
	struct vmm_process p = { .k = k };
	unsigned int i;

	if (k->recorded) {
		take_recorded(k);
		return;
	}
	if (!k->vms || !is_own_namespace(k))
		return;
	for (p.from = 0; p.from < k->vms; p.from = p.to) {
		first = NULL;
		for (i = p.from; i < k->vms && k->vm[i]->pub.identity.pid ==
		     k->vm[p.from]->pub.identity.pid; i++) {
			if (!first && k->vm[i]->seen && !k->vm[i]->pub.ended)
				first = k->vm[i];
			if (k->vm[i]->pub.ended)
				split_rest(&k->vm[i]->others);
		}
		p.to = i;
		if (first)
			update_process(&p, first);
	}
}
