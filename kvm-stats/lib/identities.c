// SPDX-License-Identifier: LGPL-2.1-or-later
/* When the identities of VMs are read, and what VMs are called until then */
#include <stdio.h>
#include <string.h>

#include "core.h"
#include "identity.h"
#include "proc.h"

/* After a process has blocked its readers for the first time, and at most */
#define RETRY_NS	1000000000ULL
#define RETRY_MAX_NS	(512 * RETRY_NS)

/*
 * Time after which a process is read again, and at most: it may move to another cgroup. Kata and
 * cgclassify do that after the VM has started.
 */
#define REREAD_NS	1000000000ULL
#define REREAD_MAX_NS	(64 * REREAD_NS)

/* The processes that are read with the longest interval are read at the same times. */
static void schedule_reread(struct core_vm *vm)
{
	const uint64_t now = read_clock(CLOCK_MONOTONIC);
	const uint64_t interval = vm->rereads < 6 ? REREAD_NS << vm->rereads++ : REREAD_MAX_NS;

	vm->read_due = (now / interval + 1) * interval;
}

static void set_identity(struct core_vm *vm, const struct kvmstats_identity *read, bool complete)
{
	const struct kvmstats_identity *before = &vm->pub.identity;
	struct kvmstats_identity identity = *read;

	strcpy(identity.label, before->label);
	identity.pid = before->pid;
	identity.vm_id = before->vm_id;
	identity.started = before->started;
	/* The source may know what the process calls itself. */
	if (!*identity.name)
		identity_set_name(&identity, before->name);
	identity_copy(&vm->pub.identity, &identity);
	if (!complete)
		return;
	/* A process that has exited hides nothing. */
	vm->hidden = !*read->name && !vm->pub.ended;
	vm->has_identity = true;
	vm->is_reading = false;
	schedule_reread(vm);
}

/*
 * Take what was read again if the process has another cgroup. One that exits has no command line,
 * and is in the root of cgroup v1, while its VM is being destroyed.
 */
static void update_identity(struct core_vm *vm, const struct kvmstats_identity *read,
			    bool has_cmdline)
{
	const struct kvmstats_identity *before = &vm->pub.identity;

	vm->is_reading = false;
	schedule_reread(vm);
	if (!has_cmdline || !*read->name ||
	    (!strcmp(identity_cgroup(read), identity_cgroup(before)) &&
	     !strcmp(read->pod_uid, before->pod_uid) &&
	     !strcmp(read->container_id, before->container_id)))
		return;
	set_identity(vm, read, true);
}

/*
 * Return true if the process is still in the cgroups that were read. Their file needs no lock of
 * the process, so that it can be read without a child.
 */
static bool has_same_cgroups(const struct kvmstats *k, const struct core_vm *vm)
{
	uint64_t hash;

	return proc_hash(k->proc, vm->pub.identity.pid, "cgroup", &hash) && hash == vm->cgroups;
}

static void delay(void *arg, pid_t pid)
{
	struct kvmstats *k = arg;
	struct core_vm *vm;
	unsigned int i, end;

	for (i = core_find_process(k, pid, &end); i < end; i++) {
		vm = k->vm[i];
		if (!vm->is_reading)
			continue;
		vm->is_reading = false;
		vm->read_due = read_clock(CLOCK_MONOTONIC) +
			       (vm->blocked < 9 ? RETRY_NS << vm->blocked : RETRY_MAX_NS);
		vm->blocked++;
	}
}

static void put_back(void *arg, pid_t pid)
{
	const struct kvmstats *k = arg;
	unsigned int i, end;

	for (i = core_find_process(k, pid, &end); i < end; i++)
		k->vm[i]->is_reading = false;
}

static void take_texts(void *arg, const struct proc_texts *texts)
{
	struct kvmstats_identity identity;
	struct kvmstats *k = arg;
	unsigned int i, end;

	if (!identity_from_proc(texts->comm, texts->cmdline, texts->size, texts->cgroups, texts->pid,
				&identity)) {
		delay(k, texts->pid);
		return;
	}
	for (i = core_find_process(k, texts->pid, &end); i < end; i++) {
		if (!k->vm[i]->has_identity)
			set_identity(k->vm[i], &identity, texts->complete);
		else if (k->vm[i]->is_reading && texts->complete)
			update_identity(k->vm[i], &identity, texts->size);
		/* Without a command line, they are not taken. */
		if (texts->complete && texts->size)
			k->vm[i]->cgroups = texts->cgroups_hash;
	}
	identity_clear(&identity);
}

static bool is_due(const struct core_vm *vm, uint64_t now)
{
	return !vm->is_reading && vm->read_due <= now && !(vm->has_identity && vm->pub.ended);
}

/* The VMs of a process are next to each other. */
static void copy_identities(struct kvmstats *k)
{
	const struct core_vm *before;
	struct core_vm *vm;
	unsigned int i;

	for (i = 1; i < k->vms; i++) {
		vm = k->vm[i];
		before = k->vm[i - 1];
		if (!vm->has_identity && before->has_identity && !before->hidden &&
		    before->pub.identity.pid == vm->pub.identity.pid &&
		    before->process_started == vm->process_started && vm->process_started) {
			set_identity(vm, &before->pub.identity, true);
			vm->cgroups = before->cgroups;
		}
	}
}

/* A process with many VMs is read once. */
static void skip_unmoved(struct kvmstats *k)
{
	const uint64_t now = read_clock(CLOCK_MONOTONIC);
	bool same = false;
	pid_t read = 0;
	unsigned int i;

	for (i = 0; i < k->vms; i++) {
		struct core_vm *vm = k->vm[i];

		if (!vm->has_identity || !is_due(vm, now))
			continue;
		if (vm->pub.identity.pid != read)
			same = has_same_cgroups(k, vm);
		read = vm->pub.identity.pid;
		if (same)
			schedule_reread(vm);
	}
}

/* Read those that are due in one child, which does not allocate memory. */
static void start_reader(struct kvmstats *k)
{
	const uint64_t now = read_clock(CLOCK_MONOTONIC);
	pid_t pids[READER_PIDS], pid;
	unsigned int i, count = 0, end;

	for (end = 0; end < k->vms; end++) {
		pid = k->vm[end]->pub.identity.pid;
		if (!is_due(k->vm[end], now) || (count && pids[count - 1] == pid))
			continue;
		if (count == READER_PIDS)
			break;
		pids[count++] = pid;
	}
	if (!count || !readers_start(&k->readers, pids, count))
		return;
	for (i = 0; i < end; i++)
		k->vm[i]->is_reading |= is_due(k->vm[i], now);
}

static void name_by_process(struct kvmstats *k, struct core_vm *vm)
{
	char comm[32];

	vm->hidden = !vm->pub.ended;
	if (!*vm->pub.identity.name && proc_comm(k->proc, vm->pub.identity.pid, comm, sizeof(comm)))
		identity_set_name(&vm->pub.identity, comm);
}

void identities_update(struct kvmstats *k)
{
	const struct reader_results results = { k, take_texts, delay, put_back };
	unsigned int i;

	copy_identities(k);
	skip_unmoved(k);
	do {
		readers_take(&k->readers, &results);
		start_reader(k);
	} while (readers_wait(&k->readers));
	for (i = 0; i < k->vms; i++) {
		if (!k->vm[i]->has_identity)
			name_by_process(k, k->vm[i]);
	}
}
