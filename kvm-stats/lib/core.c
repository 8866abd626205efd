// SPDX-License-Identifier: GPL-2.0-only
/* The VMs and vCPUs of a host, as a source reports them sample by sample. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core.h"
#include "who.h"

static uint64_t monotonic(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void free_vcpu(struct core_vcpu *vcpu)
{
	if (vcpu->sched_fd >= 0)
		close(vcpu->sched_fd);
	free(vcpu->now);
	free(vcpu->before);
	free(vcpu);
}

static void free_vm(struct core_vm *vm)
{
	unsigned int i;

	for (i = 0; i < vm->pub.vcpus; i++)
		free_vcpu(vm->vcpu[i]);
	free(vm->vcpu);
	free(vm->now);
	free(vm->before);
	free(vm->sum);
	free(vm->growth);
	free(vm);
}

static struct core_vm *next_vm(const struct core_vm *vm)
{
	return (struct core_vm *)vm->pub.next;
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
	if (a->pub.pid != b->pub.pid)
		return a->pub.pid < b->pub.pid;
	return a->pub.number < b->pub.number;
}

static void insert_vm(struct kvmstats *k, struct core_vm *vm)
{
	struct kvmstats_vm **at = (struct kvmstats_vm **)&k->first;

	while (*at && !comes_before(vm, (struct core_vm *)*at))
		at = &(*at)->next;
	vm->pub.next = *at;
	*at = &vm->pub;
}

static void remove_vm(struct kvmstats *k, struct core_vm *vm)
{
	struct kvmstats_vm **at = (struct kvmstats_vm **)&k->first;

	while (*at != &vm->pub)
		at = &(*at)->next;
	*at = vm->pub.next;
	k->cursor = NULL;
}

/* Mostly it is the one of the last time, for another vCPU, or the one after. */
static struct core_vm *find_vm(struct kvmstats *k, uint64_t key)
{
	struct core_vm *start = k->cursor, *vm;

	for (vm = start; vm; vm = next_vm(vm)) {
		if (vm->key == key)
			return k->cursor = vm;
	}
	for (vm = k->first; vm != start; vm = next_vm(vm)) {
		if (vm->key == key)
			return k->cursor = vm;
	}
	return NULL;
}

struct core_vm *core_vm(struct kvmstats *k, uint64_t key, pid_t pid)
{
	struct core_vm *vm = find_vm(k, key);
	uint64_t now;

	if (vm && vm->seen)
		return vm;
	if (!vm) {
		vm = calloc(1, sizeof(*vm));
		if (!vm)
			return NULL;
		vm->key = key;
		vm->pub.pid = pid;
		vm->pub.fresh = true;
		vm->now = make_values(k->table[KVMSTATS_VM]);
		vm->before = make_values(k->table[KVMSTATS_VM]);
		if (k->table[KVMSTATS_VM] && (!vm->now || !vm->before)) {
			free_vm(vm);
			return NULL;
		}
		who_is(k->proc, pid, &vm->pub.who);
		insert_vm(k, vm);
		k->cursor = vm;
	} else {
		vm->pub.fresh = false;
		swap_values(&vm->now, &vm->before);
	}
	now = k->time ? k->time : monotonic();
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

static struct core_vcpu *new_vcpu(struct kvmstats *k, struct core_vm *vm, uint32_t id)
{
	const struct kvmstats_table *table = k->table[KVMSTATS_VCPU];
	struct core_vcpu *vcpu;
	unsigned int i;

	if (!vm->sum) {
		vm->sum = make_values(table);
		vm->growth = make_values(table);
		vm->pub.vcpu_sum = vm->sum;
		vm->pub.vcpu_growth = vm->growth;
		if (!vm->sum || !vm->growth)
			return NULL;
	}
	if (vm->pub.vcpus == vm->room) {
		unsigned int room = vm->room ? 2 * vm->room : 4;
		struct core_vcpu **more = realloc(vm->vcpu, room * sizeof(*more));

		if (!more)
			return NULL;
		vm->vcpu = more;
		vm->room = room;
		vm->pub.vcpu = (struct kvmstats_vcpu *const *)more;
	}
	vcpu = calloc(1, sizeof(*vcpu));
	if (!vcpu)
		return NULL;
	vcpu->sched_fd = -1;
	vcpu->now = make_values(table);
	vcpu->before = make_values(table);
	if (!vcpu->now || !vcpu->before) {
		free_vcpu(vcpu);
		return NULL;
	}
	vcpu->pub.id = id;
	vcpu->pub.fresh = true;
	for (i = vm->pub.vcpus; i && vm->vcpu[i - 1]->pub.id > id; i--)
		vm->vcpu[i] = vm->vcpu[i - 1];
	vm->vcpu[i] = vcpu;
	vm->pub.vcpus++;
	return vcpu;
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
		swap_values(&vcpu->now, &vcpu->before);
	}
	vcpu->pub.tid = tid;
	vcpu->pub.values = vcpu->now;
	vcpu->pub.before = vcpu->before;
	vcpu->seen = true;
	vcpu->times_given = false;
	return vcpu;
}

void *core_vm_values(struct core_vm *vm)
{
	vm->pub.values = vm->now;
	return vm->now;
}

void *core_vcpu_values(struct core_vcpu *vcpu)
{
	return vcpu->now;
}

void core_vm_number(struct kvmstats *k, struct core_vm *vm, uint64_t number)
{
	if (vm->pub.number == number)
		return;
	remove_vm(k, vm);
	vm->pub.number = number;
	insert_vm(k, vm);
	k->cursor = vm;
}

void core_vm_mixed(struct core_vm *vm, bool mixed)
{
	vm->pub.mixed = mixed;
}

void core_vm_ended(struct core_vm *vm)
{
	vm->pub.ended = true;
}

void core_vcpu_times(struct core_vcpu *vcpu, uint64_t run, uint64_t ready)
{
	vcpu->run_before = vcpu->run;
	vcpu->ready_before = vcpu->ready;
	vcpu->had_times = vcpu->has_times;
	vcpu->run = run;
	vcpu->ready = ready;
	vcpu->has_times = true;
	vcpu->times_given = true;
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

void core_unread(struct kvmstats *k, const char *format, ...)
{
	va_list args;

	if (k->unread++)
		return;
	va_start(args, format);
	vsnprintf(k->why, sizeof(k->why), format, args);
	va_end(args);
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

/* A file per vCPU, kept open; it is gone when the thread is. */
static void read_times(struct kvmstats *k, const struct core_vm *vm,
		       struct core_vcpu *vcpu)
{
	unsigned long long run, ready;
	char text[64], *end;
	ssize_t n;

	if (vcpu->sched_tid != vcpu->pub.tid) {
		if (vcpu->sched_fd >= 0)
			close(vcpu->sched_fd);
		vcpu->sched_fd = -1;
		vcpu->has_times = false;
		vcpu->sched_tid = vcpu->pub.tid;
		if (!vcpu->pub.tid)
			return;
		snprintf(text, sizeof(text), "%d/task/%d/schedstat", vm->pub.pid,
			 vcpu->pub.tid);
		vcpu->sched_fd = openat(k->proc, text, O_RDONLY | O_CLOEXEC);
	}
	if (vcpu->sched_fd < 0)
		return;
	n = pread(vcpu->sched_fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	run = strtoull(text, &end, 10);
	ready = strtoull(end, NULL, 10);
	/* all 0: a kernel without CONFIG_SCHED_INFO */
	if (run + ready)
		core_vcpu_times(vcpu, run, ready);
	else
		vcpu->has_times = false;
}

static void drop_vcpus(struct core_vm *vm)
{
	unsigned int i, n = 0;

	for (i = 0; i < vm->pub.vcpus; i++) {
		if (vm->vcpu[i]->seen)
			vm->vcpu[n++] = vm->vcpu[i];
		else
			free_vcpu(vm->vcpu[i]);
	}
	vm->pub.vcpus = n;
}

/* A number that was given stays, so that names do not change under an observer. */
static void count_in_process(struct kvmstats *k)
{
	struct core_vm *vm, *first = NULL;
	unsigned int last = 0;

	for (vm = k->first; vm; vm = next_vm(vm)) {
		if (!first || first->pub.pid != vm->pub.pid) {
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

int kvmstats_sample(struct kvmstats *k)
{
	struct core_vm *vm, *next;
	unsigned int i;
	int ret;

	k->problem[0] = '\0';
	k->why[0] = '\0';
	k->unread = 0;
	for (vm = k->first; vm; vm = next) {
		next = next_vm(vm);
		vm->seen = false;
		for (i = 0; i < vm->pub.vcpus; i++)
			vm->vcpu[i]->seen = false;
		if (vm->pub.ended) {
			remove_vm(k, vm);
			free_vm(vm);
		}
	}
	k->cursor = NULL;

	ret = k->source->sample(k, k->state);
	for (vm = k->first; vm; vm = next_vm(vm)) {
		/* Without the source's word the values are those we had. */
		if (!vm->seen) {
			vm->pub.fresh = true;
			vm->pub.elapsed = 0;
			vm->pub.ended = !ret;
			memset(&vm->pub.sum, 0, sizeof(vm->pub.sum));
			for (i = 0; i < vm->pub.vcpus; i++) {
				vm->vcpu[i]->pub.fresh = true;
				memset(&vm->vcpu[i]->pub.last, 0,
				       sizeof(vm->vcpu[i]->pub.last));
			}
			continue;
		}
		drop_vcpus(vm);
		for (i = 0; i < vm->pub.vcpus; i++) {
			if (!vm->vcpu[i]->times_given)
				read_times(k, vm, vm->vcpu[i]);
		}
		activity_update(k, vm);
	}
	count_in_process(k);
	return ret;
}

void kvmstats_let_go(struct kvmstats *k)
{
	if (k->source->let_go)
		k->source->let_go(k->state);
}

static const struct source_ops *find_source(unsigned int i)
{
	unsigned int n;

	for (n = 0; source_list[n]; n++) {
		if (n == i)
			return source_list[n];
	}
	return NULL;
}

static int open_proc(const struct kvmstats_options *options)
{
	const char *proc = options && options->proc ? options->proc : "/proc";
	int fd = open(proc, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_source(struct kvmstats *k, struct kvmstats_probe *probe)
{
	int ret;

	memset(probe, 0, sizeof(*probe));
	probe->name = k->source->name;
	probe->what = k->source->what;
	ret = k->source->open(k, &k->state, probe);
	probe->works = !ret;
	return ret;
}

int kvmstats_open(struct kvmstats **opened, const struct kvmstats_options *options)
{
	const char *name = options ? options->source : NULL;
	struct kvmstats_probe probe;
	struct kvmstats *k;
	unsigned int i;
	int ret;

	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->proc = open_proc(options);
	ret = k->proc < 0 ? k->proc : name ? -EINVAL : -ENODEV;
	for (i = 0; k->proc >= 0 && (k->source = find_source(i)); i++) {
		if (name && strcmp(name, k->source->name))
			continue;
		if (!open_source(k, &probe)) {
			*opened = k;
			return 0;
		}
		ret = -ENODEV;
	}
	k->source = NULL;
	kvmstats_close(k);
	return ret;
}

void kvmstats_close(struct kvmstats *k)
{
	struct core_vm *vm, *next;
	unsigned int i;

	if (!k)
		return;
	if (k->source)
		k->source->close(k, k->state);
	for (vm = k->first; vm; vm = next) {
		next = next_vm(vm);
		free_vm(vm);
	}
	for (i = 0; i < KVMSTATS_SCOPES; i++)
		kvmstats_free_table(k->table[i]);
	if (k->proc >= 0)
		close(k->proc);
	free(k);
}

int kvmstats_probe(unsigned int i, const struct kvmstats_options *options,
		   struct kvmstats_probe *probe)
{
	struct kvmstats *k = calloc(1, sizeof(*k));
	int ret = 0;

	if (!k)
		return -ENOMEM;
	k->source = find_source(i);
	k->proc = open_proc(options);
	if (!k->source)
		ret = -ENOENT;
	else if (k->proc < 0)
		ret = k->proc;
	/* What does not work is an answer, not an error. */
	if (ret || open_source(k, probe))
		k->source = NULL;
	kvmstats_close(k);
	return ret;
}

const char *kvmstats_source(const struct kvmstats *k)
{
	return k->source->name;
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

struct kvmstats_vm *kvmstats_first(const struct kvmstats *k)
{
	return (struct kvmstats_vm *)k->first;
}

const struct kvmstats_table *kvmstats_table(const struct kvmstats *k,
					    enum kvmstats_scope scope)
{
	return k->table[scope];
}

/* a * b / c without overflow in between; the largest number if the result has one */
static uint64_t scale(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t result = 0, rest = 0;
	int bit;

	if (!c)
		return 0;
	if (!a || b <= UINT64_MAX / a)
		return a * b / c;
	/* long multiplication and division at once, b bit by bit */
	for (bit = 63; bit >= 0; bit--) {
		uint64_t add = b >> bit & 1 ? a : 0;

		if (result > UINT64_MAX / 2)
			return UINT64_MAX;
		/* rest < c and add / c fit, c being far below 2^63 here */
		result = 2 * result + add / c;
		rest = 2 * rest + add % c;
		result += rest / c;
		rest %= c;
	}
	return result;
}

uint64_t kvmstats_rate(uint64_t growth, uint64_t elapsed)
{
	return scale(growth, 1000000000000ULL, elapsed);
}

unsigned int kvmstats_permille(uint64_t part, uint64_t elapsed)
{
	return scale(part, 1000, elapsed);
}
