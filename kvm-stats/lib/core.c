// SPDX-License-Identifier: LGPL-2.1-or-later
/* The VMs and vCPUs of a host, as a source reports them sample by sample. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core.h"
#include "proc.h"
#include "identity.h"

uint64_t core_now(const struct kvmstats *k)
{
	return k->time ? k->time : read_clock(CLOCK_MONOTONIC);
}

void core_vcpu_close(struct core_vcpu *vcpu)
{
	if (vcpu->schedstat >= 0)
		close(vcpu->schedstat);
	if (vcpu->stat >= 0)
		close(vcpu->stat);
	vcpu->schedstat = -1;
	vcpu->stat = -1;
}

static void free_vcpu(struct core_vcpu *vcpu)
{
	core_vcpu_close(vcpu);
	free(vcpu);
}

static void free_vm(struct core_vm *vm)
{
	unsigned int i;

	for (i = 0; i < vm->vcpus; i++)
		free_vcpu(vm->vcpu[i]);
	free(vm->vcpu);
	free(vm->pub_vcpu);
	free(vm->now);
	free(vm->before);
	free(vm->total);
	free(vm->sum);
	free(vm->growth);
	free(vm->vcpu_total);
	free(vm->others.thread);
	identity_clear(&vm->pub.identity);
	free(vm);
}

static uint64_t *make_values(const struct kvmstats_table *table)
{
	/* one more: malloc(0) may be NULL */
	return table ? calloc(1, table->data_size + sizeof(uint64_t)) : NULL;
}

static void swap_values(uint64_t **a, uint64_t **b)
{
	uint64_t *other = *a;

	*a = *b;
	*b = other;
}

bool core_vm_precedes(const struct core_vm *a, const struct core_vm *b)
{
	if (a->pub.identity.pid != b->pub.identity.pid)
		return a->pub.identity.pid < b->pub.identity.pid;
	if (a->pub.identity.vm_id != b->pub.identity.vm_id)
		return a->pub.identity.vm_id < b->pub.identity.vm_id;
	/* A VM that has ended keeps its place. */
	return a->seen && b->seen && a->reported < b->reported;
}

unsigned int core_find_process(const struct kvmstats *k, pid_t pid, unsigned int *end)
{
	unsigned int first = 0, after = k->vms, middle;

	while (first < after) {
		middle = first + (after - first) / 2;
		if (k->vm[middle]->pub.identity.pid < pid)
			first = middle + 1;
		else
			after = middle;
	}
	while (after < k->vms && k->vm[after]->pub.identity.pid == pid)
		after++;
	*end = after;
	return first;
}

/* There is room for it. */
static void insert_vm(struct kvmstats *k, struct core_vm *vm)
{
	unsigned int i;

	for (i = k->vms; i && core_vm_precedes(vm, k->vm[i - 1]); i--)
		k->vm[i] = k->vm[i - 1];
	k->vm[i] = vm;
	k->vms++;
	k->cursor = i;
}

static void remove_vm(struct kvmstats *k, unsigned int i)
{
	k->vms--;
	memmove(&k->vm[i], &k->vm[i + 1], (k->vms - i) * sizeof(*k->vm));
	k->cursor = 0;
}

void core_forget(struct kvmstats *k, unsigned int i)
{
	free_vm(k->vm[i]);
	remove_vm(k, i);
}

/* Another source has other tables. */
void core_forget_all(struct kvmstats *k)
{
	unsigned int i;

	while (k->vms)
		core_forget(k, k->vms - 1);
	k->first = NULL;
	for (i = 0; i < KVMSTATS_SCOPES; i++) {
		kvmstats_free_table(k->table[i]);
		k->table[i] = NULL;
		memset(k->group[i], 0, sizeof(k->group[i]));
	}
}

/* Start with the last VM: calls for its other vCPUs and for the next VM follow. */
static struct core_vm *find_vm(struct kvmstats *k, uint64_t key)
{
	unsigned int i, at;

	for (i = 0; i < k->vms; i++) {
		at = (k->cursor + i) % k->vms;
		if (k->vm[at]->pub.key == key && !k->vm[at]->pub.ended_at) {
			k->cursor = at;
			return k->vm[at];
		}
	}
	return NULL;
}

static struct core_vm *new_vm(struct kvmstats *k, uint64_t key, pid_t pid)
{
	const struct kvmstats_table *table = k->table[KVMSTATS_VM];
	struct core_vm *vm;

	if (k->vms == k->room) {
		unsigned int room = 2 * k->room + 16;
		struct core_vm **more = realloc(k->vm, room * sizeof(*more));

		if (!more)
			return NULL;
		k->vm = more;
		k->room = room;
	}
	vm = calloc(1, sizeof(*vm));
	if (!vm)
		return NULL;
	vm->pub.key = key;
	vm->pub.first_sample = true;
	vm->now = make_values(table);
	vm->before = make_values(table);
	vm->total = make_values(table);
	if (table && (!vm->now || !vm->before || !vm->total)) {
		free_vm(vm);
		return NULL;
	}
	vm->process_started = proc_started(k->proc, pid);
	vm->pub.identity.pid = pid;
	vm->first_seen = core_now(k);
	vm->reported = k->reports + 1;
	insert_vm(k, vm);
	return vm;
}

/* Another process holds the VM: the previous one has exited, or has closed the files. */
static void move_vm(struct kvmstats *k, struct core_vm *vm, pid_t pid)
{
	unsigned int i;

	for (i = 0; k->vm[i] != vm; i++)
		;
	remove_vm(k, i);
	vm->pub.identity.pid = pid;
	vm->process_started = proc_started(k->proc, pid);
	vm->others.clock = 0;
	vm->others.split = 0;
	vm->others.has_waited = false;
	vm->others.count = 0;
	insert_vm(k, vm);
}

struct core_vm *core_vm(struct kvmstats *k, uint64_t key, pid_t pid)
{
	struct core_vm *vm = find_vm(k, key);
	uint64_t now;

	if (vm && vm->seen)
		return vm;
	now = core_now(k);
	if (vm) {
		vm->pub.first_sample = false;
		if (pid > 0 && pid != vm->pub.identity.pid)
			move_vm(k, vm, pid);
	} else {
		vm = new_vm(k, key, pid);
	}
	if (!vm)
		return NULL;
	vm->pub.elapsed = vm->pub.first_sample ? 0 : now - vm->pub.time;
	vm->pub.time = now;
	/* without values until the source asks where they go */
	vm->had_values = vm->pub.values;
	vm->pub.values = NULL;
	vm->pub.before = vm->before;
	vm->seen = true;
	vm->reported = ++k->reports;
	vm->cursor = 0;
	return vm;
}

static bool make_sums(struct core_vm *vm, const struct kvmstats_table *table)
{
	if (vm->sum)
		return true;
	vm->sum = make_values(table);
	vm->growth = make_values(table);
	vm->vcpu_total = make_values(table);
	if (!vm->sum || !vm->growth || !vm->vcpu_total)
		return false;
	vm->pub.vcpu_sum = vm->sum;
	vm->pub.vcpu_growth = vm->growth;
	vm->pub.vcpu_total = vm->vcpu_total;
	return true;
}

static bool make_vcpu_room(struct core_vm *vm)
{
	unsigned int room = 2 * vm->room + 4;
	struct core_vcpu **more;
	struct kvmstats_vcpu **pub;

	if (vm->vcpus < vm->room)
		return true;
	more = realloc(vm->vcpu, room * sizeof(*more));
	if (more)
		vm->vcpu = more;
	pub = realloc(vm->pub_vcpu, room * sizeof(*pub));
	if (pub)
		vm->pub_vcpu = pub;
	if (more && pub)
		vm->room = room;
	return more && pub;
}

/* Insert among the present vCPUs, which are sorted by id. */
static void insert_vcpu(struct core_vm *vm, struct core_vcpu *vcpu)
{
	unsigned int i;

	for (i = vm->pub.vcpus; i && vm->vcpu[i - 1]->pub.id > vcpu->pub.id; i--)
		vm->vcpu[i] = vm->vcpu[i - 1];
	vm->vcpu[i] = vcpu;
	vm->pub.vcpus++;
}

/* Find a vCPU that was present before: its totals continue. */
static struct core_vcpu *find_gone(struct core_vm *vm, uint32_t id)
{
	struct core_vcpu *vcpu;
	unsigned int i;

	for (i = vm->pub.vcpus; i < vm->vcpus; i++) {
		vcpu = vm->vcpu[i];
		if (vcpu->pub.id != id)
			continue;
		vm->vcpu[i] = vm->vcpu[vm->pub.vcpus];
		return vcpu;
	}
	return NULL;
}

static struct core_vcpu *new_vcpu(struct kvmstats *k, struct core_vm *vm, uint32_t id)
{
	const struct kvmstats_table *table = k->table[KVMSTATS_VCPU];
	const size_t words = table->data_size / sizeof(uint64_t);
	struct core_vcpu *vcpu;

	if (!make_sums(vm, table))
		return NULL;
	vcpu = find_gone(vm, id);
	if (!vcpu) {
		if (!make_vcpu_room(vm))
			return NULL;
		vcpu = calloc(1, sizeof(*vcpu) + 3 * words * sizeof(uint64_t));
		if (!vcpu)
			return NULL;
		vcpu->schedstat = -1;
		vcpu->stat = -1;
		vcpu->now = vcpu->room;
		vcpu->other = vcpu->room + words;
		vcpu->total = vcpu->room + 2 * words;
		vcpu->pub.id = id;
		/* the place of the first that is not there */
		vm->vcpu[vm->vcpus++] = vm->vcpu[vm->pub.vcpus];
	}
	insert_vcpu(vm, vcpu);
	vcpu->pub.first_sample = true;
	vcpu->pub.total = vcpu->total;
	return vcpu;
}

/* Prefetch the next vCPU: it was last used a sample ago. */
static void fetch_vcpu(const struct core_vcpu *vcpu)
{
	const char *at = (const char *)vcpu;

	for (; at < (const char *)(vcpu + 1); at += 64)
		__builtin_prefetch(at, 1);
}

struct core_vcpu *core_vcpu(struct kvmstats *k, struct core_vm *vm, uint32_t id,
			    pid_t tid)
{
	struct core_vcpu *vcpu = NULL;
	unsigned int i, at;

	if (!k->table[KVMSTATS_VCPU])
		return NULL;
	for (i = 0; i < vm->pub.vcpus; i++) {
		at = (vm->cursor + i) % vm->pub.vcpus;
		if (vm->vcpu[at]->pub.id == id) {
			vcpu = vm->vcpu[at];
			vm->cursor = at + 1;
			if (vm->cursor < vm->pub.vcpus)
				fetch_vcpu(vm->vcpu[vm->cursor]);
			break;
		}
	}
	if (vcpu && vcpu->seen)
		return vcpu;
	if (!vcpu) {
		vcpu = new_vcpu(k, vm, id);
		if (!vcpu)
			return NULL;
	} else {
		vcpu->pub.first_sample = false;
	}
	vcpu->before = vcpu->now;
	vcpu->pub.tid = tid;
	vcpu->pub.values = vcpu->now;
	vcpu->pub.before = vcpu->before;
	vcpu->seen = true;
	vcpu->thread_given = false;
	vcpu->thread_had_exited = vcpu->thread_exited;
	vcpu->thread_exited = false;
	return vcpu;
}

void *core_vm_values(struct core_vm *vm)
{
	if (!vm->pub.values) {
		swap_values(&vm->now, &vm->before);
		vm->pub.values = vm->now;
		vm->pub.before = vm->before;
		vm->pub.total = vm->total;
	}
	return vm->now;
}

void *core_vcpu_values(struct core_vcpu *vcpu)
{
	if (vcpu->now == vcpu->before) {
		swap_values(&vcpu->now, &vcpu->other);
		vcpu->pub.values = vcpu->now;
	}
	return vcpu->now;
}

void core_vcpu_set(struct core_vcpu *vcpu, const void *values, size_t size)
{
	if (memcmp(vcpu->now, values, size))
		memcpy(core_vcpu_values(vcpu), values, size);
}

void core_vm_number(struct kvmstats *k, struct core_vm *vm, uint64_t number)
{
	unsigned int i;

	if (vm->pub.identity.vm_id == number)
		return;
	for (i = 0; k->vm[i] != vm; i++)
		;
	remove_vm(k, i);
	vm->pub.identity.vm_id = number;
	insert_vm(k, vm);
}

void core_vm_set_ambiguous(struct core_vm *vm, bool mixed)
{
	vm->pub.vcpus_ambiguous = mixed;
}

void core_vm_ended(struct core_vm *vm)
{
	vm->pub.ended = true;
}

pid_t core_vm_pid(const struct core_vm *vm)
{
	return vm->pub.identity.pid;
}

void core_vm_process(struct core_vm *vm, uint64_t started, const char *comm)
{
	if (!vm->process_started)
		vm->process_started = started;
	if (!*vm->pub.identity.name && !vm->labelled)
		identity_set_name(&vm->pub.identity, comm);
}

void core_vcpu_times(struct core_vcpu *vcpu, const struct thread_times *times)
{
	vcpu->thread = *times;
	vcpu->thread_given = true;
}

void core_vcpu_thread_exited(struct core_vcpu *vcpu, uint64_t time)
{
	core_vcpu_idle(vcpu, time);
	vcpu->thread_exited = true;
}

bool core_vcpu_lacks_thread(const struct core_vcpu *vcpu)
{
	return vcpu->thread_had_exited && !unchanged(vcpu);
}

void core_vcpu_idle(struct core_vcpu *vcpu, uint64_t time)
{
	const struct thread_times idle = {
		.time = time, .has_run = true, .has_ready = true, .has_throttled = true,
		.up_to_date = true, .state = THREAD_SLEEPS,
	};

	core_vcpu_times(vcpu, &idle);
}

void core_set_time(struct kvmstats *k, uint64_t nanoseconds)
{
	k->time = nanoseconds;
}

int core_set_table(struct kvmstats *k, enum kvmstats_scope scope,
		   struct kvmstats_table *table)
{
	if (k->table[scope]) {
		kvmstats_free_table(table);
		return -EEXIST;
	}
	k->table[scope] = table;
	stat_groups_find(table, k->group[scope]);
	return 0;
}

int core_problem(struct kvmstats *k, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(k->problem, sizeof(k->problem), format, args);
	va_end(args);
	return error;
}

enum kvmstats_reason core_reason(int error)
{
	switch (error) {
	case EPERM:
	case EACCES:
		return KVMSTATS_PERMISSION;
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOSPC:
		return KVMSTATS_TOO_MANY;
	default:
		return KVMSTATS_FAILED;
	}
}

void core_unread(struct kvmstats *k, enum kvmstats_reason reason, const char *format, ...)
{
	struct unread *unread = &k->reason[reason];
	va_list args;

	if (!unread->count++) {
		va_start(args, format);
		vsnprintf(unread->why, sizeof(unread->why), format, args);
		va_end(args);
	}
	if (!k->unread++)
		k->why = unread->why;
}

void core_set_partial(struct kvmstats *k)
{
	k->partial = true;
}

int core_proc(const struct kvmstats *k)
{
	return k->proc;
}

void core_raise_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

void kvmstats_set_keep(struct kvmstats *k, uint64_t nanoseconds)
{
	k->keep = nanoseconds;
}

void kvmstats_release_files(struct kvmstats *k)
{
	if (k->source && k->source->release_files)
		k->source->release_files(k->state);
}

unsigned int kvmstats_failed_reads(const struct kvmstats *k, const char **why)
{
	if (why)
		*why = k->why;
	return k->unread;
}

unsigned int kvmstats_failed_reads_by_reason(const struct kvmstats *k, enum kvmstats_reason reason,
				 const char **why)
{
	bool known = (unsigned int)reason < KVMSTATS_REASONS;

	if (why)
		*why = known ? k->reason[reason].why : "";
	return known ? k->reason[reason].count : 0;
}

DEFINE_NAMES(reason, KVMSTATS_REASONS,
	[KVMSTATS_PERMISSION] = "permission",
	[KVMSTATS_VMM_ONLY] = "vmm-only",
	[KVMSTATS_TOO_MANY] = "too-many",
	[KVMSTATS_FORMAT] = "format",
	[KVMSTATS_HIDDEN] = "hidden",
	[KVMSTATS_FAILED] = "failed")

const struct kvmstats_table *kvmstats_table(const struct kvmstats *k,
					    enum kvmstats_scope scope)
{
	return k->table[scope];
}

/* Rounding errors of values beyond 64 bits are acceptable. */
static uint64_t scale(uint64_t a, uint64_t b, uint64_t c)
{
	double result;

	if (!c)
		return 0;
	if (!a || b <= UINT64_MAX / a)
		return a * b / c;
	result = (double)a * b / c;
	return result < (double)UINT64_MAX ? (uint64_t)result : UINT64_MAX;
}

uint64_t kvmstats_rate(uint64_t growth, uint64_t elapsed)
{
	return scale(growth, 1000000000000ULL, elapsed);
}

unsigned int kvmstats_permille(uint64_t part, uint64_t elapsed)
{
	return scale(part, 1000, elapsed);
}
