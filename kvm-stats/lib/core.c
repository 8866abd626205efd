// SPDX-License-Identifier: LGPL-2.1-or-later
/* The VMs and vCPUs of a host, as a source reports them sample by sample. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core.h"
#include "own_vm.h"
#include "proc.h"
#include "who.h"

uint64_t core_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

uint64_t core_now(const struct kvmstats *k)
{
	return k->time ? k->time : core_clock(CLOCK_MONOTONIC);
}

static void free_vcpu(struct core_vcpu *vcpu)
{
	thread_close(vcpu);
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

/* By process, then number; those without one as they came. */
static bool comes_before(const struct core_vm *a, const struct core_vm *b)
{
	if (a->pub.who.pid != b->pub.who.pid)
		return a->pub.who.pid < b->pub.who.pid;
	return a->pub.who.number < b->pub.who.number;
}

/* There is room for it. */
static void insert_vm(struct kvmstats *k, struct core_vm *vm)
{
	unsigned int i;

	for (i = k->vms; i && comes_before(vm, k->vm[i - 1]); i--)
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

/* What another source says is described by tables of its own. */
void core_forget_all(struct kvmstats *k)
{
	unsigned int i;

	while (k->vms)
		core_forget(k, k->vms - 1);
	for (i = 0; i < KVMSTATS_SCOPES; i++) {
		kvmstats_free_table(k->table[i]);
		k->table[i] = NULL;
		memset(k->role[i], 0, sizeof(k->role[i]));
	}
}

/* Mostly it is the one of the last time, for another vCPU, or the one after. */
static struct core_vm *find_vm(struct kvmstats *k, uint64_t key)
{
	unsigned int i, at;

	for (i = 0; i < k->vms; i++) {
		at = (k->cursor + i) % k->vms;
		if (k->vm[at]->key == key && !k->vm[at]->pub.ended_at) {
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
	vm->key = key;
	vm->pub.fresh = true;
	vm->now = make_values(table);
	vm->before = make_values(table);
	vm->total = make_values(table);
	if (table && (!vm->now || !vm->before || !vm->total)) {
		free_vm(vm);
		return NULL;
	}
	who_is(k->proc, pid, &vm->pub.who);
	vm->hidden = !*vm->pub.who.name;
	vm->process_started = proc_started(k->proc, pid);
	vm->pub.who.pid = pid;
	insert_vm(k, vm);
	return vm;
}

struct core_vm *core_vm(struct kvmstats *k, uint64_t key, pid_t pid)
{
	struct core_vm *vm = find_vm(k, key);
	uint64_t now;

	if (vm && vm->seen)
		return vm;
	now = core_now(k);
	if (vm)
		vm->pub.fresh = false;
	else
		vm = new_vm(k, key, pid);
	if (!vm)
		return NULL;
	vm->pub.elapsed = vm->pub.fresh ? 0 : now - vm->pub.time;
	vm->pub.time = now;
	/* without values until the source asks where they go */
	vm->had_values = vm->pub.values;
	vm->pub.values = NULL;
	vm->pub.before = vm->before;
	vm->seen = true;
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

static bool make_room(struct core_vm *vm)
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

/* Among those that are there, which are in order of id */
static void insert_vcpu(struct core_vm *vm, struct core_vcpu *vcpu)
{
	unsigned int i;

	for (i = vm->pub.vcpus; i && vm->vcpu[i - 1]->pub.id > vcpu->pub.id; i--)
		vm->vcpu[i] = vm->vcpu[i - 1];
	vm->vcpu[i] = vcpu;
	vm->pub.vcpus++;
}

/* One that was there before, and goes on counting where it was */
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
		if (!make_room(vm))
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
	vcpu->pub.fresh = true;
	vcpu->pub.total = vcpu->total;
	return vcpu;
}

/* It was not used for a second, so the memory of the next one is far away: fetch it. */
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
		vcpu->pub.fresh = false;
	}
	vcpu->before = vcpu->now;
	vcpu->pub.tid = tid;
	vcpu->pub.values = vcpu->now;
	vcpu->pub.before = vcpu->before;
	vcpu->seen = true;
	vcpu->thread_given = false;
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

	if (vm->pub.who.number == number)
		return;
	for (i = 0; k->vm[i] != vm; i++)
		;
	remove_vm(k, i);
	vm->pub.who.number = number;
	insert_vm(k, vm);
}

void core_vm_mixed(struct core_vm *vm, bool mixed)
{
	vm->pub.mixed = mixed;
}

void core_vm_ended(struct core_vm *vm)
{
	vm->pub.ended = true;
}

pid_t core_vm_pid(const struct core_vm *vm)
{
	return vm->pub.who.pid;
}

void core_vm_process(struct core_vm *vm, uint64_t started, const char *comm)
{
	if (!vm->process_started)
		vm->process_started = started;
	if (!*vm->pub.who.name && !vm->labelled)
		who_call(&vm->pub.who, comm);
}

void core_vcpu_times(struct core_vcpu *vcpu, const struct thread_times *times)
{
	vcpu->thread = *times;
	vcpu->thread_given = true;
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
	activity_roles(table, k->role[scope]);
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

/* Those that were not reported are put behind the others; they may come again. */
static void drop_vcpus(struct kvmstats *k, struct core_vm *vm)
{
	unsigned int i, n = 0;

	for (i = 0; i < vm->pub.vcpus; i++) {
		struct core_vcpu *vcpu = vm->vcpu[i];

		if (!vcpu->seen) {
			activity_drop(k, vm, vcpu);
			thread_close(vcpu);
			vcpu->files_tid = 0;
			continue;
		}
		/* an exchange of those that go keeps the order of those that stay */
		vm->vcpu[i] = vm->vcpu[n];
		vm->vcpu[n++] = vcpu;
	}
	vm->pub.vcpus = n;
	for (i = 0; i < n; i++)
		vm->pub_vcpu[i] = &vm->vcpu[i]->pub;
	vm->pub.vcpu = vm->pub_vcpu;
}

/* A number that was given stays, so that names do not change under an observer. */
static void count_in_process(struct kvmstats *k)
{
	struct core_vm *vm, *first = NULL;
	unsigned int i, last = 0;

	for (i = 0; i < k->vms; i++) {
		vm = k->vm[i];
		if (!first || first->pub.who.pid != vm->pub.who.pid) {
			first = vm;
			last = 0;
		}
		if (last < vm->pub.nth)
			last = vm->pub.nth;
		if (vm == first)
			continue;
		if (!first->pub.nth)
			first->pub.nth = ++last;
		if (!vm->pub.nth)
			vm->pub.nth = ++last;
	}
}

/* When it began, as far as can be known */
static void date(struct kvmstats *k, struct core_vm *vm)
{
	uint64_t age = core_clock(CLOCK_BOOTTIME) - vm->process_started;

	if (!vm->process_started)
		return;
	/* Its process was there at the sample before, without it. */
	if (k->sampled_before && age > k->sampled - k->sampled_before)
		age = 0;
	vm->pub.who.started = core_clock(CLOCK_REALTIME) - age;
}

/* It has no news: ended, or the source could not say anything. */
static void stand_still(struct kvmstats *k, struct core_vm *vm, bool ended)
{
	unsigned int i;

	vm->pub.fresh = true;
	vm->pub.elapsed = 0;
	vm->pub.ended = ended;
	memset(&vm->pub.sum, 0, sizeof(vm->pub.sum));
	if (vm->growth)
		memset(vm->growth, 0, k->table[KVMSTATS_VCPU]->data_size);
	for (i = 0; i < vm->pub.vcpus; i++) {
		vm->vcpu[i]->pub.fresh = true;
		memset(&vm->vcpu[i]->pub.last, 0, sizeof(vm->vcpu[i]->pub.last));
	}
}

static void begin_sample(struct kvmstats *k)
{
	unsigned int i, j;

	k->problem[0] = '\0';
	k->why = "";
	k->unread = 0;
	for (i = 0; i < KVMSTATS_REASONS; i++) {
		k->reason[i].count = 0;
		k->reason[i].why[0] = '\0';
	}
	k->sampled_before = k->sampled;
	k->sampled = core_now(k);
	for (i = 0; i < k->vms;) {
		struct core_vm *vm = k->vm[i];

		if (vm->pub.ended && k->sampled - vm->pub.ended_at >= k->keep) {
			core_forget(k, i);
			continue;
		}
		vm->seen = false;
		for (j = 0; j < vm->pub.vcpus; j++)
			vm->vcpu[j]->seen = false;
		i++;
	}
	k->cursor = 0;
}

static void update_vm(struct kvmstats *k, struct core_vm *vm)
{
	unsigned int i;

	if (vm->hidden && !vm->pub.ended)
		core_unread(k, KVMSTATS_HIDDEN, "process %d: /proc hides whose VM it is",
			    vm->pub.who.pid);
	drop_vcpus(k, vm);
	for (i = 0; i < vm->pub.vcpus; i++) {
		if (!vm->vcpu[i]->thread_given)
			thread_read(k, vm, vm->vcpu[i]);
	}
	activity_update(k, vm);
}

/* The VM that a program like this one makes for itself, for a moment: nobody's */
static bool is_probe(const struct core_vm *vm)
{
	return vm->vcpus == 1 && vm->vcpu[0]->pub.id == OWN_VCPU_ID;
}

static int read_source(struct kvmstats *k)
{
	if (k->source)
		return k->source->sample(k, k->state);
	return k->wait ? 0 : core_problem(k, -ENODEV, "no source works: %s", k->source_why);
}

int kvmstats_sample(struct kvmstats *k)
{
	struct core_vm *vm;
	unsigned int i;
	int ret;

	begin_sample(k);
	source_look(k, false);
	ret = read_source(k);
	/* It does not work any more: what does has nothing in common with what was read. */
	if (ret && ret != -ENOMEM && k->source) {
		source_look(k, true);
		ret = read_source(k);
	}
	/* a source of recordings has its own clock */
	if (k->time)
		k->sampled = k->time;
	if (!k->looked)
		k->looked = k->sampled;
	for (i = 0; i < k->vms; i++) {
		vm = k->vm[i];
		if (vm->seen)
			update_vm(k, vm);
		else
			stand_still(k, vm, vm->pub.ended || !ret);
		if (vm->pub.ended && !vm->pub.ended_at)
			vm->pub.ended_at = k->sampled;
	}
	for (i = k->vms; i--;) {
		if (is_probe(k->vm[i]))
			core_forget(k, i);
		else if (!k->vm[i]->labelled)
			date(k, k->vm[i]);
	}
	count_in_process(k);
	label_vms(k);
	for (i = 0; i < k->vms; i++)
		k->vm[i]->pub.next = i + 1 < k->vms ? &k->vm[i + 1]->pub : NULL;
	return ret;
}

void kvmstats_set_keep(struct kvmstats *k, uint64_t nanoseconds)
{
	k->keep = nanoseconds;
}

void kvmstats_let_go(struct kvmstats *k)
{
	if (k->source && k->source->let_go)
		k->source->let_go(k->state);
}

const char *kvmstats_problem(const struct kvmstats *k)
{
	return k->problem;
}

unsigned int kvmstats_unread(const struct kvmstats *k, const char **why)
{
	if (why)
		*why = k->why;
	return k->unread;
}

unsigned int kvmstats_unreadable(const struct kvmstats *k, enum kvmstats_reason reason,
				 const char **why)
{
	bool known = (unsigned int)reason < KVMSTATS_REASONS;

	if (why)
		*why = known ? k->reason[reason].why : "";
	return known ? k->reason[reason].count : 0;
}

const char *kvmstats_reason_name(enum kvmstats_reason reason)
{
	static const char *const names[KVMSTATS_REASONS] = {
		[KVMSTATS_PERMISSION] = "permission",
		[KVMSTATS_VMM_ONLY] = "vmm-only",
		[KVMSTATS_TOO_MANY] = "too-many",
		[KVMSTATS_FORMAT] = "format",
		[KVMSTATS_HIDDEN] = "hidden",
		[KVMSTATS_FAILED] = "failed",
	};

	return (unsigned int)reason < KVMSTATS_REASONS ? names[reason] : NULL;
}

struct kvmstats_vm *kvmstats_first(const struct kvmstats *k)
{
	return k->vms ? &k->vm[0]->pub : NULL;
}

const struct kvmstats_table *kvmstats_table(const struct kvmstats *k,
					    enum kvmstats_scope scope)
{
	return k->table[scope];
}

/* Nobody sees the last digits of what does not fit into 64 bits. */
static uint64_t scale(uint64_t a, uint64_t b, uint64_t c)
{
	double result;

	if (!c)
		return 0;
	if (!a || b <= UINT64_MAX / a)
		return a * b / c;
	result = (double)a * b / c;
	return result < (double)UINT64_MAX ? result : UINT64_MAX;
}

uint64_t kvmstats_rate(uint64_t growth, uint64_t elapsed)
{
	return scale(growth, 1000000000000ULL, elapsed);
}

unsigned int kvmstats_permille(uint64_t part, uint64_t elapsed)
{
	return scale(part, 1000, elapsed);
}
