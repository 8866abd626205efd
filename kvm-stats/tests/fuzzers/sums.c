// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzz the sums over rows of the BPF programs of blame, exits and stalls, with libFuzzer: names
 * of owners, from commands, cgroups and files of procfs; sums of VMs that exit and return; what is
 * recorded of them. The items of a sum have its cost, and a recording of a sum has the cost again.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exits_sum.h"
#include "identity_reader.h"
#include "printable.h"
#include "programs.h"
#include "rec_encode.h"
#include "../recorder.h"

#define VMS_MAX		4
#define VCPUS_MAX	2
#define ROWS_MAX	16
#define PIDS		8
#define KVMS		6
#define TID		100	/* that of the first vCPU */

static const uint8_t *at, *end;

static unsigned int take_byte(void)
{
	return at < end ? *at++ : 0;
}

static uint64_t take_time_ns(void)
{
	return (uint64_t)take_byte() << (take_byte() % 36);
}

/* A text that the kernel could have, or bytes of the input */
static void choose_text(char *to, size_t size)
{
	static const char *const texts[] = {
		"", "web", "db", "vhost-3", "kvm-pit/2", "vhost-4294967295", "cron.service", "session-1.scope", "user.slice",
		"docker-0123456789.scope", "user@1.service", "\x1b]0;x\x07", "\xe2\x80\xae", ".service", "qemu-system-x86", "a) R 1",
		"/system.slice/cron.service", "0::/user.slice/user-1.slice/user@1.service/app.slice/cron.service\n",
		"0::/system.slice/cron.service\n5:cpu:/x/session-1.scope\n", "isa-serial,iobase=0x3f8",
		"0060-0060 : keyboard\n  0cf8-0cff : PCI conf1\n", "ivshmem,ioport=18446744073709551615",
	};
	const unsigned int which = take_byte() % (sizeof(texts) / sizeof(*texts) + 1);
	size_t len;

	if (which < sizeof(texts) / sizeof(*texts)) {
		snprintf(to, size, "%s", texts[which]);
		return;
	}
	len = take_byte() % size;
	if (len > (size_t)(end - at))
		len = end - at;
	memset(to, 0, size);
	memcpy(to, at, len);
	at += len;
}

/* The input has the contents of files of procfs. */
static char cgroup_file[256], ioports_file[256], command_line[256];

FILE *__wrap_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode)
{
	char *text = strstr(path, "/cgroup") ? cgroup_file : ioports_file;

	return *text ? fmemopen(text, strlen(text), "r") : NULL;
}

bool __wrap_reader_read_one(int proc, pid_t pid, struct proc_texts *texts);
bool __wrap_reader_read_one(int proc, pid_t pid, struct proc_texts *texts)
{
	texts->size = strlen(command_line);
	strcpy(texts->cmdline, command_line);
	return pid % 2;
}

/* The VMs of a sample */
static struct kvmstats_vcpu vcpu[VMS_MAX][VCPUS_MAX];
static struct kvmstats_vcpu *vcpu_list[VMS_MAX][VCPUS_MAX];
static struct kvmstats_vm vms[VMS_MAX];
static unsigned int nr_vms;

static void choose_vm(struct kvmstats_vm *vm, unsigned int i)
{
	const unsigned int flags = take_byte();
	unsigned int j;

	memset(vm, 0, sizeof(*vm));
	vm->identity.pid = 1 + take_byte() % PIDS;
	vm->nth = flags >> 4 & 3;
	vm->ended = flags & 1;
	vm->vcpus = flags >> 1 & 1 ? VCPUS_MAX : 1;
	vm->elapsed = SECOND;
	vm->sum.times.elapsed = vm->vcpus * SECOND;
	vm->sum.times.known = vm->times.known = -1;
	vm->sum.times.mode[KVMSTATS_OTHER] = take_time_ns();
	vm->times.mode[KVMSTATS_READY] = take_time_ns();
	choose_text(vm->identity.name, sizeof(vm->identity.name));
	snprintf(vm->identity.label, sizeof(vm->identity.label), "%s", vm->identity.name);
	for (j = 0; j < vm->vcpus; j++) {
		memset(&vcpu[i][j], 0, sizeof(vcpu[i][j]));
		vcpu[i][j].id = j;
		vcpu[i][j].tid = flags & 8 ? 0 : TID + VCPUS_MAX * i + j;
		vcpu[i][j].last.known = 1 << KVMSTATS_EXITS;
		vcpu[i][j].last.event[KVMSTATS_EXITS] = flags >> 6 & 1;
		vcpu[i][j].last.times.mode[KVMSTATS_READY] = vcpu[i][j].last.times.mode[KVMSTATS_OTHER] = take_time_ns();
		vcpu_list[i][j] = &vcpu[i][j];
	}
	vm->vcpu = vcpu_list[i];
	if (i)
		vms[i - 1].next = vm;
}

/* Instead of the BPF programs: rows of the input */
static struct blame_row blame_row[ROWS_MAX];
static struct exits_row exits_row[ROWS_MAX];
static struct stalls_row stalls_row[ROWS_MAX];
static struct blame_thread threads[VMS_MAX * VCPUS_MAX];
static struct blame_vm waiting[VMS_MAX];
static struct blame_waits waits[VMS_MAX];
static unsigned int nr_rows, nr_threads, nr_waiting;

static struct blame_vm choose_kernel_vm(void)
{
	return (struct blame_vm){ .kvm = take_byte() % KVMS, .tgid = take_byte() % PIDS };
}

static void choose_rows(void)
{
	unsigned int i, j;

	nr_rows = take_byte() % ROWS_MAX;
	memset(blame_row, 0, sizeof(blame_row));
	memset(exits_row, 0, sizeof(exits_row));
	memset(stalls_row, 0, sizeof(stalls_row));
	for (i = 0; i < nr_rows; i++) {
		struct blame_row *b = &blame_row[i];
		struct exits_row *e = &exits_row[i];
		struct stalls_row *s = &stalls_row[i];

		b->pair.vm = s->vm = choose_kernel_vm();
		b->pair.owner.kind = take_byte() % (BLAME_UNKNOWN + 3);
		b->pair.owner.id = take_byte() % KVMS;
		b->pair.owner.tgid = take_byte() % PIDS;
		choose_text(b->pair.owner.comm, sizeof(b->pair.owner.comm));
		b->pid = take_byte() % PIDS;
		b->growth = take_time_ns();
		e->key = (struct exits_key){ .address = take_byte() << take_byte() % 8, .serial = i, .reason = take_byte(),
					     .space = take_byte() % 3 };
		e->cell = (struct exits_cell){ .kvm = s->vm.kvm, .tgid = s->vm.tgid, .vcpu = take_byte() % 3,
					       .isa = take_byte() % 5 };
		e->growth = e->cell;
		for (j = 0; j < EXITS_SUMS; j++)
			e->growth.sum[j] = take_time_ns();
		s->tid = TID + take_byte() % (VMS_MAX * VCPUS_MAX);
		s->growth[take_byte() % STALLS] = take_time_ns();
	}
	nr_threads = take_byte() % (VMS_MAX * VCPUS_MAX + 1);
	for (i = 0; i < nr_threads; i++)
		threads[i] = (struct blame_thread){ .vm = choose_kernel_vm(), .tid = TID + i, .open = take_time_ns() };
	nr_waiting = take_byte() % (VMS_MAX + 1);
	for (i = 0; i < nr_waiting; i++) {
		waiting[i] = choose_kernel_vm();
		waits[i].ns = waits[i].longest = take_time_ns();
		waits[i].bucket[take_byte() % BLAME_BUCKETS] = 1;
	}
}

#define PROGRAM(name, rows)								\
void name##_close(struct name *program)							\
{											\
}											\
int name##_sample(struct name *program)							\
{											\
	return 0;									\
}											\
const struct name##_row *name##_rows(const struct name *program, size_t *n)		\
{											\
	*n = nr_rows;									\
	return rows;									\
}											\
const struct blame_thread *name##_threads(const struct name *program, size_t *n)	\
{											\
	*n = nr_threads;								\
	return threads;									\
}

PROGRAM(blame, blame_row)
PROGRAM(exits, exits_row)
PROGRAM(stalls, stalls_row)

int threads_open(struct threads **threads, unsigned int counts, const struct kvmstats_vm *first,
		 struct kvmstats_probe *p)
{
	return -EPERM;
}

void threads_close(struct threads *threads)
{
}

int blame_open(struct blame **blame, struct threads *shared, const struct kvmstats_vm *first,
	       struct kvmstats_probe *p)
{
	return 0;
}

int exits_open(struct exits **exits, bool addresses, struct kvmstats_probe *p)
{
	return 0;
}

int stalls_open(struct stalls **stalls, struct threads *shared, const struct kvmstats_vm *first,
		struct kvmstats_probe *p)
{
	return 0;
}

void blame_enter(struct blame *blame, const struct kvmstats_vm *first)
{
}

void stalls_enter(struct stalls *stalls, const struct kvmstats_vm *first)
{
}

uint64_t stalls_lost(const struct stalls *stalls)
{
	return 0;
}

struct blame_counts blame_counts(const struct blame *blame)
{
	return (struct blame_counts){ 0 };
}

struct exits_counts exits_counts(const struct exits *exits)
{
	return (struct exits_counts){ 0 };
}

bool blame_lists(const struct blame *blame, uint32_t tid)
{
	return tid % 2;
}

uint64_t blame_take_exited(struct blame *blame, uint32_t tgid, uint64_t most)
{
	return most / 2;
}

size_t blame_ended_waits(const struct blame *blame, const struct blame_vm **vm, const struct blame_waits **ended)
{
	*vm = waiting;
	*ended = waits;
	return nr_waiting;
}

static struct blame_cgroup cgroups[KVMS];

bool blame_cgroup(const struct blame *blame, uint64_t id, struct blame_cgroup *cgroup)
{
	*cgroup = cgroups[id % KVMS];
	return *cgroup->name;
}

uint64_t __wrap_recorder_unit(const struct recorder *r)
{
	return 1;
}

/* Return the sum of all costs. */
static uint64_t check_sums(const struct sums *sums)
{
	const struct sum_item *item;
	uint64_t all = 0, cost;
	size_t i, j;

	for (i = 0; i < sums->count; i++) {
		const struct sum *sum = sum_at(sums, i);

		for (j = 0, cost = 0; j < sum->count; j++) {
			item = item_at(sums, sum, j);
			cost += item->cost;
		}
		if (cost != sum->cost)
			abort();
		all += cost;
	}
	return all;
}

static void check_blame(struct blame_sum *blame)
{
	struct blame_victim total = { 0 };
	const struct blame_share *share;
	uint64_t all = check_sums(&blame->sums);
	size_t i, j;

	for (i = 0; i < blame->sums.count; i++) {
		const struct blame_victim *victim = sum_at(&blame->sums, i);
		const struct blame_waits lengths = all_waits(victim);

		if (mean_wait(&lengths) > lengths.ns)
			abort();
		share = find_owner(victim, "vm process quota");
		if (share && (!strcmp(share->key.kind, "self") || share->item.cost > victim->sum.cost))
			abort();
		for (j = 0; j < victim->sum.count; j++) {
			share = blame_share_at(victim, j);
			if (!*share->key.kind || !memchr(share->key.name, '\0', OWNER_NAME_SIZE))
				abort();
		}
	}
	blame_sum_total(&blame->sums, &total.sum);
	if (total.sum.cost != all)
		abort();
	free(total.sum.items);
}

static void check_devices(const struct sums *sums)
{
	char device[DEVICE_SIZE], shown[TEXT_SHOWN(DEVICE_SIZE)];
	size_t i, j;

	for (i = 0; i < sums->count; i++) {
		struct exits_vm *vm = sum_at(sums, i);

		for (j = 0; j < vm->sum.count; j++) {
			text_shown(exits_device(vm, &exits_total_at(vm, j)->key, device), shown, sizeof(shown));
			check_printable(shown);
		}
	}
}

/* Record the sums, and compare their cost with that of the recording. */
static void record(struct sums *sums, char kind, size_t items)
{
	union {
		struct blame_sum blame;
		struct exits_sum exits;
		struct stalls_sum stalls;
	} copy = { 0 };
	struct sums *from = (struct sums *)&copy;
	uint64_t cost = check_sums(sums);

	record_sums(sums, NULL, kind, items, 0);
	if (check_sums(sums))
		abort();
	read_recorded_sums(from, sums->type, (struct recording *)&recorded);
	take_recorded_sums(from, kind, vms, NULL, 0);
	/* Sums of VMs that are not in this sample are not read. */
	if (check_sums(from) > cost)
		abort();
	close_sums(from);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct programs p;
	struct kvmstats_probe probe[PROGRAMS];
	unsigned int i, rounds, choice;

	at = data;
	end = data + size;
	choice = take_byte();
	choose_text(cgroup_file, sizeof(cgroup_file));
	choose_text(ioports_file, sizeof(ioports_file));
	choose_text(command_line, sizeof(command_line));
	for (i = 0; i < KVMS; i++) {
		choose_text(cgroups[i].name, sizeof(cgroups[i].name));
		choose_text(cgroups[i].parent, sizeof(cgroups[i].parent));
	}
	memset(&p, 0, sizeof(p));
	open_programs(&p, (1 << PROGRAMS) - 1, choice >> 3 & 3, NULL, probe);
	p.blame.by = choice % 3;
	p.blame.clean = choice & 4;
	for (rounds = 0; rounds < 3 && (!rounds || at < end); rounds++) {
		nr_vms = 1 + take_byte() % VMS_MAX;
		for (i = 0; i < nr_vms; i++)
			choose_vm(&vms[i], i);
		choose_rows();
		if (!read_programs(&p))
			abort();
		add_programs(&p, vms, NULL, 0);
		check_blame(&p.blame);
		check_sums(&p.exits.sums);
		check_sums(&p.stalls.sums);
		check_devices(&p.exits.sums);
		for (i = 0; choice & 32 && i < PROGRAMS; i++)
			record(p.open[i], program_kinds[i], 1 + take_byte() % 4);
	}
	close_programs(&p);
	return 0;
}
