// SPDX-License-Identifier: GPL-2.0-only
/*
 * The source of statistics for the tests of "serve": a simulated host. The directory
 * KVM_STATS_HOST contains "vms", which lists the VMs and can be replaced at any time, and
 * "proc", a procfs with their processes. Lines of "vms":
 *
 *	vm NUMBER PID VCPUS [NAME=VALUE]...	run, ready, throttled, halt, poll:
 *						permille of the time of each vCPU;
 *						exits, emulated, failed, io: events
 *						per second and vCPU; age: seconds
 *						for which the VM has done so
 *	wait NUMBER PERMILLE vm NUMBER		part of the time for which the VM waits
 *	wait NUMBER PERMILLE process COMM	for a CPU, while another VM or a process
 *	wait NUMBER PERMILLE steal		runs, or the hypervisor of this host
 *	ended NUMBER COUNT NANOSECONDS		so many waits of this length end at each sample
 *	exit NUMBER REASON COUNT KERNEL USER	exits of the VM per second, and permille of time
 *						that they take
 *	cpus NUMBER				online CPUs of the host
 *	unreadable TEXT				a process that cannot be read
 *	partial TEXT				a bound of the sample was reached
 *	hold FILE				a sample lasts until FILE is removed;
 *						FILE.waiting exists during it
 *	broken					samples fail
 *
 * So tests know in advance what a scraper has to see. If KVM_STATS_HOST is "none", no source
 * works. Linked instead of lib/sources.c, lib/describe.c, src/bpf/blame.c, src/bpf/exits.c and
 * src/stat_description.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "bpf/blame.h"
#include "bpf/exits.h"
#include "clock.h"
#include "core.h"
#include "host.h"

#define HALT	5000000		/* how long each halt is, nanoseconds */

#define VM_STATS	4
static const struct kvmstats_desc vm_desc[VM_STATS] = {
	{ .name = "remote_tlb_flush", .size = 1 },
	{ .name = "pages_4k", .type = KVMSTATS_INSTANT, .size = 1 },
	{ .name = "pages_2m", .type = KVMSTATS_INSTANT, .size = 1 },
	{ .name = "max_mmu_rmap_size", .type = KVMSTATS_PEAK, .size = 1 },
};

enum {
	EXITS, IO_EXITS, MMIO_EXITS, HALT_EXITS, SIGNAL_EXITS, IRQ_EXITS, IRQ_INJECTIONS, TLB_FLUSH,
	PF_TAKEN, INSN_EMULATION, INSN_EMULATION_FAIL, HYPERCALLS, PREEMPTION_REPORTED,
	HALT_WAKEUP, HALT_SUCCESSFUL_POLL, HALT_ATTEMPTED_POLL, HALT_POLL_SUCCESS_NS,
	HALT_WAIT_NS, BLOCKING, HALT_WAIT_HIST, VCPU_STATS,
};

static const struct kvmstats_desc vcpu_desc[VCPU_STATS] = {
	[EXITS] = { .name = "exits", .size = 1 },
	[IO_EXITS] = { .name = "io_exits", .size = 1 },
	[MMIO_EXITS] = { .name = "mmio_exits", .size = 1 },
	[HALT_EXITS] = { .name = "halt_exits", .size = 1 },
	[SIGNAL_EXITS] = { .name = "signal_exits", .size = 1 },
	[IRQ_EXITS] = { .name = "irq_exits", .size = 1 },
	[IRQ_INJECTIONS] = { .name = "irq_injections", .size = 1 },
	[TLB_FLUSH] = { .name = "tlb_flush", .size = 1 },
	[PF_TAKEN] = { .name = "pf_taken", .size = 1 },
	[INSN_EMULATION] = { .name = "insn_emulation", .size = 1 },
	[INSN_EMULATION_FAIL] = { .name = "insn_emulation_fail", .size = 1 },
	[HYPERCALLS] = { .name = "hypercalls", .size = 1 },
	[PREEMPTION_REPORTED] = { .name = "preemption_reported", .size = 1 },
	[HALT_WAKEUP] = { .name = "halt_wakeup", .size = 1 },
	[HALT_SUCCESSFUL_POLL] = { .name = "halt_successful_poll", .size = 1 },
	[HALT_ATTEMPTED_POLL] = { .name = "halt_attempted_poll", .size = 1 },
	[HALT_POLL_SUCCESS_NS] = { .name = "halt_poll_success_ns",
				   .unit = KVMSTATS_SECONDS, .exponent = -9, .size = 1 },
	[HALT_WAIT_NS] = { .name = "halt_wait_ns", .unit = KVMSTATS_SECONDS,
			   .exponent = -9, .size = 1 },
	[BLOCKING] = { .name = "blocking", .type = KVMSTATS_INSTANT,
		       .unit = KVMSTATS_BOOLEAN, .size = 1 },
	[HALT_WAIT_HIST] = { .name = "halt_wait_hist", .type = KVMSTATS_LOG_HIST,
			     .unit = KVMSTATS_SECONDS, .exponent = -9, .size = 32 },
};

/* Totals of each vCPU of a VM; all vCPUs are alike. */
struct totals {
	uint64_t number, seen;
	uint64_t run, ready, throttled, halt, poll;	/* permille of nanoseconds */
	uint64_t exits, emulated, failed, io;	/* of events, times a second in ns */
};

struct simulated {
	struct totals *vm;
	unsigned int vms;
};

/*
 * Replaces app_now(): nanoseconds in the file "clock" if it exists, so that tests can stop
 * the clock of timeouts.
 */
uint64_t __wrap_app_now(void);
uint64_t __wrap_app_now(void)
{
	const char *dir = getenv("KVM_STATS_HOST");
	unsigned long long stopped = 0;
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/clock", dir ? dir : "none");
	f = fopen(path, "re");
	if (!f)
		return read_clock(CLOCK_MONOTONIC);
	if (fscanf(f, "%llu", &stopped) != 1)
		stopped = read_clock(CLOCK_MONOTONIC);
	fclose(f);
	return stopped;
}

static unsigned int online_cpus = 16;

/* Replaces host_now(): the host of doc/top.png. */
struct host __wrap_host_now(void);
struct host __wrap_host_now(void)
{
	return (struct host){ .cpus = online_cpus, .load = 1840, .cpu_pressure = 1234 };
}

static struct kvmstats_table *make_table(const struct kvmstats_desc *desc, unsigned int n)
{
	struct kvmstats_desc copy[VCPU_STATS];
	uint32_t offset = 0;
	unsigned int i;

	for (i = 0; i < n; i++) {
		copy[i] = desc[i];
		copy[i].offset = offset;
		offset += desc[i].size * sizeof(uint64_t);
	}
	return table_make(copy, n);
}

static int host_open(struct kvmstats *k, void **state, struct kvmstats_probe *p)
{
	const char *dir = getenv("KVM_STATS_HOST");
	struct simulated *host = calloc(1, sizeof(*host));
	char path[4096];
	int proc;

	snprintf(path, sizeof(path), "%s/proc", dir ? dir : "none");
	proc = host ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	if (proc < 0 || dup2(proc, k->proc) < 0) {
		snprintf(p->why, sizeof(p->why), "there is no host");
		snprintf(p->help, sizeof(p->help), "make one");
		free(host);
		return -ENODEV;
	}
	close(proc);
	core_set_table(k, KVMSTATS_VM, make_table(vm_desc, VM_STATS));
	core_set_table(k, KVMSTATS_VCPU, make_table(vcpu_desc, VCPU_STATS));
	*state = host;
	return 0;
}

static uint64_t option(const char *line, const char *name)
{
	char find[32];
	const char *at;

	snprintf(find, sizeof(find), " %s=", name);
	at = strstr(line, find);
	return at ? strtoull(at + strlen(find), NULL, 10) : 0;
}

static struct totals *find(struct simulated *host, uint64_t number, uint64_t since)
{
	struct totals *more;
	unsigned int i;

	for (i = 0; i < host->vms; i++) {
		if (host->vm[i].number == number)
			return &host->vm[i];
	}
	more = realloc(host->vm, (host->vms + 1) * sizeof(*more));
	if (!more)
		return NULL;
	host->vm = more;
	more += host->vms++;
	memset(more, 0, sizeof(*more));
	more->number = number;
	more->seen = since;
	return more;
}

static void put_vcpu(struct kvmstats *k, struct core_vm *vm, uint32_t id, pid_t pid,
		     const struct totals *t, bool blocking)
{
	const struct kvmstats_table *table = kvmstats_table(k, KVMSTATS_VCPU);
	struct core_vcpu *vcpu = core_vcpu(k, vm, id, pid);
	uint64_t *values = core_vcpu_values(vcpu);
	uint64_t halt = t->halt / 1000, halts = halt / HALT, second = 1000000000;

	memset(values, 0, table->data_size);
#define PUT(stat)	values[table->desc[stat].offset / 8]
	PUT(EXITS) = t->exits / second;
	PUT(IO_EXITS) = PUT(MMIO_EXITS) = t->io / second;
	PUT(INSN_EMULATION) = t->emulated / second;
	PUT(INSN_EMULATION_FAIL) = t->failed / second;
	PUT(HALT_EXITS) = PUT(HALT_WAKEUP) = PUT(HALT_ATTEMPTED_POLL) = halts;
	PUT(IRQ_EXITS) = PUT(IRQ_INJECTIONS) = halts;
	PUT(HALT_SUCCESSFUL_POLL) = halts / 2;
	PUT(TLB_FLUSH) = PUT(PF_TAKEN) = PUT(SIGNAL_EXITS) = PUT(EXITS) / 10;
	PUT(HYPERCALLS) = PUT(PREEMPTION_REPORTED) = PUT(EXITS) / 20;
	PUT(HALT_WAIT_NS) = halt;
	PUT(HALT_POLL_SUCCESS_NS) = t->poll / 1000;
	PUT(BLOCKING) = blocking;
	/* a bucket for [2^22, 2^23) ns, which 5 ms are in */
	(&PUT(HALT_WAIT_HIST))[23] = halts;
	core_vcpu_times(vcpu, &(struct thread_times){
		.time = t->seen, .has_run = true, .has_ready = true, .has_throttled = true,
		.run = (t->run + t->poll) / 1000,
		.ready = (t->ready + t->throttled) / 1000,
		.throttled = t->throttled / 1000,
		.up_to_date = true, .state = THREAD_SLEEPS });
}

static void put_vm(struct kvmstats *k, struct simulated *host, const char *line)
{
	unsigned long long number;
	unsigned int vcpus, i;
	uint64_t time = read_clock(CLOCK_MONOTONIC), dt;
	uint64_t *values;
	struct core_vm *vm;
	struct totals *t;
	int pid;

	if (sscanf(line, "vm %llu %d %u", &number, &pid, &vcpus) != 3)
		return;
	t = find(host, number, time - option(line, "age") * 1000000000ULL);
	vm = t ? core_vm(k, number, pid) : NULL;
	if (!vm)
		return;
	core_vm_number(k, vm, number);
	dt = time - t->seen;
	t->seen = time;
	t->run += dt * option(line, "run");
	t->ready += dt * option(line, "ready");
	t->throttled += dt * option(line, "throttled");
	t->halt += dt * option(line, "halt");
	t->poll += dt * option(line, "poll");
	t->exits += dt * option(line, "exits");
	t->emulated += dt * option(line, "emulated");
	t->failed += dt * option(line, "failed");
	t->io += dt * option(line, "io");
	values = core_vm_values(vm);
	values[0] = t->exits / 1000000000 / 10;
	values[1] = 1000 + number;
	values[2] = 512;
	values[3] = 3;
	for (i = 0; i < vcpus; i++)
		put_vcpu(k, vm, i, pid * 100 + i, t, false);
}

static void hold(const char *file)
{
	char waiting[4096];

	snprintf(waiting, sizeof(waiting), "%s.waiting", file);
	close(creat(waiting, 0600));
	while (!access(file, F_OK))
		usleep(10000);
	unlink(waiting);
}

static int host_sample(struct kvmstats *k, void *state)
{
	struct simulated *host = state;
	char path[4096], line[1024];
	FILE *f;
	int ret = 0;

	snprintf(path, sizeof(path), "%s/vms", getenv("KVM_STATS_HOST"));
	f = fopen(path, "re");
	if (!f)
		return core_problem(k, -errno, "%s: %s", path, strerror(errno));
	while (!ret && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "vm ", 3))
			put_vm(k, host, line);
		else if (!strncmp(line, "cpus ", 5))
			online_cpus = atoi(line + 5);
		else if (!strncmp(line, "unreadable ", 11))
			core_unread(k, KVMSTATS_PERMISSION, "%s", line + 11);
		else if (!strncmp(line, "partial ", 8))
			core_unread(k, KVMSTATS_TOO_MANY, "%s", line + 8);
		else if (!strncmp(line, "hold ", 5))
			hold(line + 5);
		else if (!strcmp(line, "broken"))
			ret = core_problem(k, -EIO, "the host is broken");
	}
	fclose(f);
	return ret;
}

static void host_close(struct kvmstats *k, void *state)
{
	struct simulated *host = state;

	free(host->vm);
	free(host);
}

/* Charges, instead of src/bpf/blame.c */

#define MAX_WAITS	1024

struct blame {
	struct blame_row rows[MAX_WAITS];
	struct blame_thread threads[MAX_WAITS];
	struct blame_vm ended_vm[MAX_WAITS];
	struct blame_waits ended[MAX_WAITS];
	size_t count, thread_count, ended_count;
	uint64_t time;
};

int blame_open(struct blame **blame, struct threads *shared, const struct kvmstats_vm *first,
	       struct kvmstats_probe *p)
{
	*blame = calloc(1, sizeof(**blame));
	if (!*blame)
		return -ENOMEM;
	(*blame)->time = read_clock(CLOCK_MONOTONIC);
	return blame_sample(*blame);
}

void blame_close(struct blame *blame)
{
	free(blame);
}

void blame_enter(struct blame *blame, const struct kvmstats_vm *first)
{
}

bool blame_lists(const struct blame *blame, uint32_t tid)
{
	return true;
}

uint64_t blame_take_exited(struct blame *blame, uint32_t tgid, uint64_t most)
{
	uint64_t charged = 0;
	size_t i;

	for (i = 0; i < blame->count; i++)
		if (blame->rows[i].pair.vm.tgid == tgid)
			charged += blame->rows[i].ns;
	return charged < most ? charged : most;
}

static struct blame_vm find_blame_vm(const struct blame *blame, uint64_t number)
{
	size_t i;

	for (i = 0; i < blame->thread_count; i++) {
		if (blame->threads[i].vm.kvm == number)
			return blame->threads[i].vm;
	}
	return (struct blame_vm){ .kvm = number };
}

static void charge(struct blame *blame, const char *line, uint64_t elapsed)
{
	unsigned long long waiting, permille, other;
	struct blame_pair pair = { 0 };
	int at = 0;
	size_t i;

	if (sscanf(line, "wait %llu %llu vm %llu", &waiting, &permille, &other) == 3) {
		pair.owner.kind = BLAME_VCPU;
		pair.owner.id = other;
		pair.owner.tgid = find_blame_vm(blame, other).tgid;
	} else if (sscanf(line, "wait %llu %llu process %n", &waiting, &permille, &at) == 2 && at) {
		pair.owner.kind = BLAME_PROCESS;
		strncpy(pair.owner.comm, line + at, sizeof(pair.owner.comm) - 1);
	} else if (sscanf(line, "wait %llu %llu stea%n", &waiting, &permille, &at) == 2 && at) {
		pair.owner.kind = BLAME_STEAL;
	} else {
		return;
	}
	pair.vm = find_blame_vm(blame, waiting);
	for (i = 0; i < blame->count && memcmp(&blame->rows[i].pair, &pair, sizeof(pair)); i++)
		;
	if (i == MAX_WAITS)
		return;
	if (i == blame->count)
		blame->rows[blame->count++] = (struct blame_row){ .pair = pair };
	blame->rows[i].growth = elapsed * permille / 1000;
	blame->rows[i].ns += blame->rows[i].growth;
}

static void end_waits(struct blame *blame, const char *line)
{
	struct blame_waits *ended = &blame->ended[blame->ended_count];
	unsigned long long number, count, ns;
	unsigned int bucket = 0;

	if (blame->ended_count == MAX_WAITS ||
	    sscanf(line, "ended %llu %llu %llu", &number, &count, &ns) != 3)
		return;
	while (bucket < BLAME_BUCKETS - 1 && ns >> (BLAME_SHIFT + 1 + bucket))
		bucket++;
	*ended = (struct blame_waits){ .ns = count * ns, .longest = ns };
	ended->bucket[bucket] = count;
	blame->ended_vm[blame->ended_count++] = find_blame_vm(blame, number);
}

size_t blame_ended_waits(const struct blame *blame, const struct blame_vm **vms,
			 const struct blame_waits **waits)
{
	*vms = blame->ended_vm;
	*waits = blame->ended;
	return blame->ended_count;
}

int blame_sample(struct blame *blame)
{
	const uint64_t elapsed = read_clock(CLOCK_MONOTONIC) - blame->time;
	struct blame_thread *thread;
	unsigned long long number;
	char path[4096], line[1024];
	size_t i;
	FILE *f;
	int pid;

	blame->time += elapsed;
	blame->thread_count = blame->ended_count = 0;
	for (i = 0; i < blame->count; i++)
		blame->rows[i].growth = 0;
	snprintf(path, sizeof(path), "%s/vms", getenv("KVM_STATS_HOST"));
	f = fopen(path, "re");
	if (!f)
		return -errno;
	/* VMs come before waits. */
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (blame->thread_count < MAX_WAITS &&
		    sscanf(line, "vm %llu %d", &number, &pid) == 2) {
			thread = &blame->threads[blame->thread_count++];
			*thread = (struct blame_thread){ .vm.kvm = number, .vm.tgid = pid,
							 .tid = pid * 100 };
		}
		charge(blame, line, elapsed);
		end_waits(blame, line);
	}
	fclose(f);
	return 0;
}

const struct blame_row *blame_rows(const struct blame *blame, size_t *n)
{
	*n = blame->count;
	return blame->rows;
}

const struct blame_thread *blame_threads(const struct blame *blame, size_t *n)
{
	*n = blame->thread_count;
	return blame->threads;
}

struct blame_counts blame_counts(const struct blame *b)
{
	return (struct blame_counts){ 0 };
}

bool blame_cgroup(const struct blame *blame, uint64_t id, struct blame_cgroup *cgroup)
{
	return false;
}

/* Exits, instead of src/bpf/exits.c */

#define MAX_EXITS	16

struct exits {
	struct exits_row rows[MAX_EXITS];
	struct blame_thread threads[MAX_EXITS];	/* one for each row */
	size_t count;
	uint64_t time;
};

int exits_open(struct exits **exits, bool addresses, struct kvmstats_probe *p)
{
	*exits = calloc(1, sizeof(**exits));
	if (*exits)
		(*exits)->time = read_clock(CLOCK_MONOTONIC);
	return *exits ? 0 : -ENOMEM;
}

void exits_close(struct exits *exits)
{
	free(exits);
}

int exits_sample(struct exits *exits)
{
	const uint64_t elapsed = read_clock(CLOCK_MONOTONIC) - exits->time;
	unsigned long long number, count, kernel, user;
	char path[4096], line[1024];
	unsigned int reason;
	struct exits_row *row;
	FILE *f;

	exits->time += elapsed;
	exits->count = 0;
	snprintf(path, sizeof(path), "%s/vms", getenv("KVM_STATS_HOST"));
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f) && exits->count < MAX_EXITS) {
		if (sscanf(line, "exit %llu %u %llu %llu %llu", &number, &reason, &count, &kernel,
			   &user) != 5)
			continue;
		row = &exits->rows[exits->count];
		row->key.reason = reason;
		row->cell.kvm = number;
		row->cell.tgid = 1000 + number;
		row->growth = row->cell;
		row->growth.count = elapsed * count / 1000000000;
		row->growth.kernel = elapsed * kernel / 1000;
		row->growth.user = elapsed * user / 1000;
		exits_add(&row->cell, &row->growth);
		exits->threads[exits->count++] = (struct blame_thread){
			.vm = { .kvm = number, .tgid = 1000 + number }, .tid = (1000 + number) * 100 };
	}
	fclose(f);
	return 0;
}

const struct exits_row *exits_rows(const struct exits *exits, size_t *n)
{
	*n = exits->count;
	return exits->rows;
}

const struct blame_thread *exits_threads(const struct exits *exits, size_t *n)
{
	*n = exits->count;
	return exits->threads;
}

struct exits_counts exits_counts(const struct exits *exits)
{
	return (struct exits_counts){ 0 };
}

static const struct source_ops source_host = {
	.name = "host",
	.what = "a simulated host, for the tests",
	.open = host_open,
	.sample = host_sample,
	.close = host_close,
};

const struct source_ops *const source_list[] = { &source_host, NULL };

int kvmstats_describe(struct kvmstats_table **vm, struct kvmstats_table **vcpu,
		      char *why, size_t size)
{
	*vm = make_table(vm_desc, VM_STATS);
	*vcpu = make_table(vcpu_desc, VCPU_STATS);
	return *vm && *vcpu ? 0 : -ENOMEM;
}

const char *app_stat_description(enum kvmstats_scope scope, const char *name)
{
	return "";
}
