// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The source "bpf": on every kernel from 5.8 on that has type information,
 * without the help of any VMM.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/capability.h>

#include "bpf_check.h"
#include "bpf_iterator.h"
#include "bpf_layout.h"
#include "bpf_quota.h"
#include "privileges.h"
#include "file.h"
#include "probe_vm.h"
#include "source.h"
#include "time_namespace.h"
#include "uevent.h"

/* Interval between full scans, regardless of uevents */
#define FULL_SCAN_INTERVAL_NS	(60 * 1000000000ULL)

/* The last values of a vCPU */
struct final {
	uint64_t key;		/* of its VM */
	struct bpf_record *record;
	bool kept;		/* since the previous sample */
	bool exists;		/* the VM was found in this sample */
	bool reported;		/* instead of the record of the vCPU in this sample */
};

struct bpf_state {
	struct bpf_iterator *iterator;
	struct bpf_quota quota;
	struct uevents events;
	uint64_t looked;	/* when all processes were, with this result */
	int found;
	bool partial;		/* the last scan left out files */
	bool noted;		/* threads run vCPUs that the last scan did not find */
	struct final *finals;	/* last values of vCPUs, not reported yet */
	size_t final_count, final_room;
	__u64 lost;
	uint64_t cost_all, cost_known;	/* CPU time of the last scan of that kind; 0 if unknown */
	int64_t monotonic_offset, boottime_offset;	/* of this process's time namespace */
};

#define say(text, ...) snprintf(text, sizeof(text), __VA_ARGS__)

static void explain_permission(struct kvmstats_probe *p)
{
	const bool admin = privileges_capable(CAP_SYS_ADMIN);
	const bool bpf = admin || privileges_capable(CAP_BPF);
	const bool perfmon = admin || privileges_capable(CAP_PERFMON);

	if (!bpf || !perfmon) {
		say(p->why, "permission denied: no %s%s%s", bpf ? "" : "CAP_BPF",
		    bpf || perfmon ? "" : ", no ", perfmon ? "" : "CAP_PERFMON");
		say(p->help, "run it as root, or with CAP_BPF and CAP_PERFMON");
		return;
	}
	say(p->why, "permission denied, with CAP_BPF and CAP_PERFMON");
	if (!privileges_first_user_namespace())
		say(p->help, "run it outside of this user namespace: its capabilities do not count");
	else
		say(p->help, "before Linux 5.11 RLIMIT_MEMLOCK counts, here %llu KiB: raise it",
		    privileges_memlock());
}

bool bpf_explain_shortage(int error, struct kvmstats_probe *p)
{
	switch (-error) {
	case EMFILE:
		say(p->help, "raise RLIMIT_NOFILE");
		return true;
	case ENFILE:
		say(p->help, "raise the host's limit of open files: sysctl fs.file-max");
		return true;
	case ENOMEM:
		say(p->help, "give this process more memory: ulimit -v, or memory.max of its cgroup");
		return true;
	default:
		return false;
	}
}

/* Why the kernel does not take the program. */
void bpf_explain_load(int error, struct kvmstats_probe *p)
{
	if (privileges_confidential()) {
		say(p->why, "the kernel is locked down: confidentiality keeps BPF from reading its memory");
		say(p->help, "boot with lockdown=integrity, which does not");
		return;
	}
	switch (-error) {
	case EPERM:
	case EACCES:
		explain_permission(p);
		break;
	case ENOSYS:
		say(p->why, "this kernel has no BPF");
		say(p->help, "use one with CONFIG_BPF_SYSCALL");
		break;
	case ESRCH:
		say(p->help, "use Linux 5.8 or later, with CONFIG_BPF_EVENTS");
		break;
	case EINVAL:
		if (access("/sys/kernel/security/lockdown", F_OK))
			say(p->help, "mount securityfs at /sys/kernel/security to see whether the kernel is locked down");
		break;
	default:
		bpf_explain_shortage(error, p);
	}
}

static void explain_probe_vm(int error, struct kvmstats_probe *p)
{
	char why[sizeof(p->why)];

	strcpy(why, p->why);
	say(p->why, "cannot check it with a temporary VM: %.200s", why);
	switch (-error) {
	case EACCES:
		say(p->help, "let the user open /dev/kvm, by the group kvm");
		break;
	case ENOENT:
	case ENODEV:
		say(p->help, "load kvm_amd, kvm_intel or what this machine has; VMs without it have no statistics");
		break;
	default:
		bpf_explain_shortage(error, p);
	}
}

/* The descriptors of a statistics file, which have to agree with the types. */
static struct kvmstats_table *read_file_table(const char *kind, int fd,
					      const struct kvmstats_table *members,
					      __u32 size, struct kvmstats_probe *p)
{
	struct kvmstats_table *table = NULL;
	struct file_layout layout;
	const char *wrong;

	wrong = file_read_layout(fd, &layout) ?: file_read_table(fd, &layout, &table);
	if (wrong) {
		say(p->why, "the statistics file of a temporary %s: %s", kind, wrong);
		return NULL;
	}
	if (!bpf_check_types(kind, table, members, size, p->why, sizeof(p->why)))
		return table;
	kvmstats_free_table(table);
	return NULL;
}

/* Use the kernel's descriptors, or its type information if it has none. */
static int set_tables(struct kvmstats *k, struct bpf_kvm_types *types,
		      const struct probe_vm *own, struct kvmstats_probe *p)
{
	struct kvmstats_table *vm, *vcpu;

	if (own->vm_stats < 0 || own->vcpu_stats < 0) {
		vm = types->vm;
		vcpu = types->vcpu;
		types->vm = types->vcpu = NULL;
	} else {
		vm = read_file_table("VM", own->vm_stats, types->vm,
				     types->layout.vm_stat_size, p);
		if (!vm)
			return -EPROTO;
		vcpu = read_file_table("vCPU", own->vcpu_stats, types->vcpu,
				       types->layout.vcpu_stat_size, p);
		if (!vcpu) {
			kvmstats_free_table(vm);
			return -EPROTO;
		}
	}
	return core_set_table(k, KVMSTATS_VM, vm) ?:
	       core_set_table(k, KVMSTATS_VCPU, vcpu);
}

/* Open the iterator, and set the tables if it reads what the files of a VM of this process say. */
static int open_iterator(struct kvmstats *k, struct bpf_state *s, struct bpf_kvm_types *types,
			 struct kvmstats_probe *p)
{
	struct probe_vm own;
	int error = probe_vm_open(&own, PROBE_VCPU_ID, p->why, sizeof(p->why));

	if (error) {
		explain_probe_vm(error, p);
		return error;
	}
	uevents_check(&s->events);
	probe_vm_run(&own);
	error = bpf_iterator_open_checked(&s->iterator, types, &own, p->why, sizeof(p->why));
	if (error) {
		bpf_explain_load(error, p);
	} else {
		error = set_tables(k, types, &own, p);
		if (error)
			bpf_iterator_close(s->iterator);
	}
	probe_vm_close(&own);
	return error;
}

static int bpf_open(struct kvmstats *k, void **state, struct kvmstats_probe *p)
{
	struct bpf_state *s = calloc(1, sizeof(*s));
	struct bpf_kvm_types types;
	int error;

	if (!s) {
		say(p->why, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	error = bpf_types_find(&types, p->why, sizeof(p->why));
	if (error) {
		if (!bpf_explain_shortage(error, p))
			say(p->help, "use a kernel with CONFIG_DEBUG_INFO_BTF, with KVM loaded");
		free(s);
		return error;
	}
	uevents_open(&s->events);
	error = open_iterator(k, s, &types, p);
	bpf_types_free(&types);
	if (error) {
		uevents_close(&s->events);
		free(s);
		return error;
	}
	if (!privileges_first_pid_namespace())
		say(p->why, "sees the VMs of its PID namespace only");
	privileges_names(k, p);
	core_raise_files();
	s->monotonic_offset = time_namespace_offset(CLOCK_MONOTONIC);
	s->boottime_offset = time_namespace_offset(CLOCK_BOOTTIME);
	if (bpf_iterator_keep_finals(s->iterator) && !*p->why)
		say(p->why, "does not see VMs that exist between two samples only");
	*state = s;
	return 0;
}

static uint64_t process_started(const struct bpf_state *s, const struct bpf_record *record)
{
	return record->started ? record->started + s->boottime_offset : 0;
}

static void report_thread(struct core_vcpu *vcpu, const struct bpf_state *s,
			  const struct bpf_record *record)
{
	const struct bpf_thread *thread = &record->thread;
	const uint64_t time = thread->time + s->monotonic_offset;
	struct thread_times t = {
		.time = time,
		.has_run = true,
		.has_ready = thread->flags & BPF_READY,
		.has_throttled = thread->flags & BPF_QUOTA,
		.born = thread->born ? thread->born + s->monotonic_offset : 0,
		.run = thread->run,
		.ready = thread->ready,
		.turns = thread->turns,
		.throttled = bpf_quota_throttled(&s->quota, record),
		.cpu = thread->rq,
		.lost = thread->lost,
		.has_sleeps = true,
		.sleeps = thread->sleeps,
		.up_to_date = thread->flags & BPF_CLOCKS,
		.loaded = thread->flags & BPF_LOADED,
		.state = THREAD_SLEEPS,
	};

	if (!(thread->flags & BPF_THREAD)) {
		if (thread->flags & BPF_NEVER_RAN)
			core_vcpu_idle(vcpu, time);
		else
			core_vcpu_thread_exited(vcpu, time);
		return;
	}
	if (thread->flags & BPF_ON_CPU) {
		t.state = THREAD_RUNS;
		t.run += thread->away_for;
	} else if (thread->queued) {
		t.state = THREAD_WAITS;
		t.ready += thread->queued_for;
	} else {
		t.asleep = thread->away_for;
	}
	core_vcpu_times(vcpu, &t);
}

static int read_all_records(struct bpf_state *s, bool threads, const struct bpf_record ***records)
{
	uint64_t start = read_clock(CLOCK_THREAD_CPUTIME_ID);
	int n = bpf_iterator_read(s->iterator, threads, records);

	/* A VMM may have closed files of a VM whose threads run. */
	if (!threads && n >= 0 && n < s->found)
		n = bpf_iterator_read(s->iterator, true, records);
	s->cost_all = read_clock(CLOCK_THREAD_CPUTIME_ID) - start;
	s->found = n;
	return n;
}

/*
 * Scanning the files of all processes dominates the cost on hosts with many files. Scan
 * only known VMMs while uevents report no VM creation or destruction; a missing file may
 * have moved to another process.
 */
static int read_records(struct bpf_state *s, const struct bpf_record ***records)
{
	bool news = uevents_news(&s->events) || s->noted;
	uint64_t start = read_clock(CLOCK_THREAD_CPUTIME_ID);
	uint64_t now = read_clock(CLOCK_MONOTONIC);
	int n;

	s->noted = false;
	if (news || s->partial || bpf_iterator_hides(s->iterator) || !s->looked ||
	    now - s->looked >= FULL_SCAN_INTERVAL_NS) {
		s->looked = now;
		s->cost_known = 0;
		return read_all_records(s, true, records);
	}
	if (s->cost_known >= s->cost_all)
		return read_all_records(s, false, records);
	n = bpf_iterator_read_known(s->iterator, records);
	s->cost_known = n < 0 ? UINT64_MAX : read_clock(CLOCK_THREAD_CPUTIME_ID) - start;
	return n >= 0 && n == s->found ? n : read_all_records(s, true, records);
}

/*
 * Addresses are reused: add the creator to the key. The process that holds the files can change
 * while the VM exists.
 */
static uint64_t record_key(const struct bpf_record *record)
{
	return record->vm + record->creator * 0x9e3779b97f4a7c15;
}

static int keep_final(void *arg, const struct bpf_record *record)
{
	const size_t size = sizeof(*record) + record->size;
	struct bpf_state *s = arg;
	struct final *more;

	if (s->final_count == s->final_room) {
		more = realloc(s->finals, (2 * s->final_room + 64) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		s->finals = more;
		s->final_room = 2 * s->final_room + 64;
	}
	more = &s->finals[s->final_count];
	*more = (struct final){ .key = record_key(record), .record = malloc(size) };
	if (!more->record)
		return -ENOMEM;
	memcpy(more->record, record, size);
	s->final_count++;
	return 0;
}

/*
 * Find the VMs whose files are still open: a VMM may exit long after the threads of its vCPUs. In a
 * partial sample, each process that exists may have them.
 */
static void find_existing(struct bpf_state *s, const struct bpf_record **records, int n)
{
	size_t i;
	int j;

	for (i = 0; i < s->final_count; i++) {
		s->finals[i].exists = s->partial && !kill(s->finals[i].record->pid, 0);
		for (j = 0; j < n && !s->finals[i].exists; j++)
			s->finals[i].exists = record_key(records[j]) == s->finals[i].key;
	}
}

/* Return the last values if the thread of the vCPU has exited, otherwise the record. */
static const struct bpf_record *prefer_final(struct bpf_state *s, const struct bpf_record *record)
{
	size_t i;

	for (i = 0; i < s->final_count; i++) {
		struct final *final = &s->finals[i];

		if (final->record->object == record->object && final->key == record_key(record)) {
			final->reported = true;
			return final->record;
		}
	}
	return record;
}

/*
 * Report the last values of the vCPUs of destroyed VMs. If the VM exists without the vCPU, the
 * iterator may have passed it while its process exited, or the vCPU was removed: keep the values
 * until the next sample.
 */
static int report_finals(struct kvmstats *k, struct bpf_state *s)
{
	struct core_vcpu *vcpu;
	struct core_vm *vm;
	size_t i, n = 0;

	for (i = 0; i < s->final_count; i++) {
		struct final *final = &s->finals[i];
		const struct bpf_record *record = final->record;

		if (final->exists && !final->kept && !final->reported) {
			final->kept = true;
			s->finals[n++] = *final;
			continue;
		}
		if (!final->exists) {
			vm = core_vm(k, final->key, record->pid);
			vcpu = vm ? core_vcpu(k, vm, record->vcpu_id, record->tid) : NULL;
			if (!vcpu)
				return core_problem(k, -ENOMEM, "%s", strerror(ENOMEM));
			core_vm_process(vm, process_started(s, record), record->comm);
			core_vcpu_set(vcpu, bpf_values(record), record->size);
			report_thread(vcpu, s, record);
			core_vm_ended(vm);
		}
		free(final->record);
	}
	s->final_count = n;
	return 0;
}

/* Update the times of quotas, with those of the vCPUs that have exited. */
static int update_quotas(struct bpf_state *s, const struct bpf_record **records, int n)
{
	const struct bpf_record **all;
	size_t i;
	int ret;

	/* the usual case, without allocations */
	if (!s->final_count)
		return bpf_quota_update(&s->quota, records, n);
	all = calloc(n + s->final_count, sizeof(*all));
	if (!all)
		return -ENOMEM;
	memcpy(all, records, n * sizeof(*all));
	for (i = 0; i < s->final_count; i++) {
		if (!s->finals[i].reported)
			all[n++] = s->finals[i].record;
	}
	ret = bpf_quota_update(&s->quota, all, n);
	free(all);
	return ret;
}

static int bpf_sample(struct kvmstats *k, void *state)
{
	const struct bpf_record **records;
	struct bpf_state *s = state;
	struct core_vm *vm = NULL;
	unsigned int user;
	__u64 of = 0, lost = s->lost;
	int i, n, error;

	n = read_records(s, &records);
	if (n < 0)
		return core_problem(k, n, "BPF iterator: %s", strerror(-n));
	s->partial = bpf_iterator_is_partial(s->iterator, &user);
	if (s->partial) {
		core_unread(k, KVMSTATS_TOO_MANY, "the processes of user %u have too many open files for one sample: some are read in later ones",
			    user);
		core_set_partial(k);
	}
	/* After the iterator: a thread that it did not find has left its last values. */
	error = bpf_iterator_take_finals(s->iterator, keep_final, s, &lost);
	if (error)
		return core_problem(k, error, "last values of VMs: %s", strerror(-error));
	if (lost != s->lost)
		core_unread(k, KVMSTATS_TOO_MANY, "the last values of %llu vCPUs: more have exited since the previous sample than fit",
			    lost - s->lost);
	s->lost = lost;
	find_existing(s, records, n);
	for (i = 0; i < n; i++)
		records[i] = prefer_final(s, records[i]);
	if (update_quotas(s, records, n))
		return core_problem(k, -ENOMEM, "%s", strerror(ENOMEM));
	for (i = 0; i < n; i++) {
		const struct bpf_record *record = records[i];
		struct core_vcpu *vcpu;

		if (of != record->vm)
			vm = core_vm(k, record_key(record), record->pid);
		if (!vm)
			return core_problem(k, -ENOMEM, "%s", strerror(ENOMEM));
		if (of != record->vm)
			core_vm_process(vm, process_started(s, record), record->comm);
		of = record->vm;
		if (record->vcpu_id < 0) {
			memcpy(core_vm_values(vm), bpf_values(record), record->size);
			continue;
		}
		/* There may be no file of the VM itself, and so no values. */
		vcpu = core_vcpu(k, vm, record->vcpu_id, record->tid);
		if (!vcpu)
			return core_problem(k, -ENOMEM, "%s", strerror(ENOMEM));
		core_vcpu_set(vcpu, bpf_values(record), record->size);
		report_thread(vcpu, s, record);
	}
	return report_finals(k, s);
}

static void bpf_note(void *state)
{
	struct bpf_state *s = state;

	s->noted = bpf_iterator_note(s->iterator) || s->noted;
}

static void bpf_close(struct kvmstats *k, void *state)
{
	struct bpf_state *s = state;

	bpf_iterator_close(s->iterator);
	while (s->final_count)
		free(s->finals[--s->final_count].record);
	free(s->finals);
	bpf_quota_free(&s->quota);
	uevents_close(&s->events);
	free(s);
}

const struct source_ops source_bpf = {
	.name = "bpf",
	.what = "a BPF program that looks at the open files of all processes",
	.open = bpf_open,
	.sample = bpf_sample,
	.note = bpf_note,
	.close = bpf_close,
};
