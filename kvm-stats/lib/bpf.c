// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The source "bpf": on every kernel from 5.8 on that has type information,
 * without the help of any VMM.
 */
#include <errno.h>
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
#include "facts.h"
#include "file.h"
#include "own_vm.h"
#include "source.h"
#include "uevent.h"

/* So often are all processes looked at, whatever KVM tells; nanoseconds */
#define LOOK_AGAIN	(60 * 1000000000ULL)

struct bpf_state {
	struct bpf_iterator *iterator;
	struct bpf_quota quota;
	struct uevents events;
	uint64_t looked;	/* when all processes were, with this result */
	int found;
	uint64_t cost_all, cost_known;	/* CPU time of the last time; 0: not known */
};

#define say(text, ...) snprintf(text, sizeof(text), __VA_ARGS__)

static void explain_permission(struct kvmstats_probe *p)
{
	const bool admin = facts_capable(CAP_SYS_ADMIN);
	const bool bpf = admin || facts_capable(CAP_BPF);
	const bool perfmon = admin || facts_capable(CAP_PERFMON);

	if (!bpf || !perfmon) {
		say(p->why, "permission denied: no %s%s%s", bpf ? "" : "CAP_BPF",
		    bpf || perfmon ? "" : ", no ", perfmon ? "" : "CAP_PERFMON");
		say(p->help, "run it as root, or with CAP_BPF and CAP_PERFMON");
		return;
	}
	say(p->why, "permission denied, with CAP_BPF and CAP_PERFMON");
	if (!facts_first_user_namespace())
		say(p->help, "run it outside of this user namespace: its capabilities do not count");
	else
		say(p->help, "before Linux 5.11 RLIMIT_MEMLOCK counts, here %llu KiB: raise it",
		    facts_memlock());
}

/* Why the kernel does not take the program. */
static void explain_load(int error, struct kvmstats_probe *p)
{
	if (facts_confidential()) {
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
	}
}

static void explain_own_vm(int error, struct kvmstats_probe *p)
{
	char why[sizeof(p->why)];

	strcpy(why, p->why);
	say(p->why, "cannot check it with a VM of its own: %.200s", why);
	switch (-error) {
	case EACCES:
		say(p->help, "let the user open /dev/kvm, by the group kvm");
		break;
	case ENOENT:
	case ENODEV:
		say(p->help, "load kvm_amd, kvm_intel or what this machine has; VMs without it have no statistics");
		break;
	}
}

/* The descriptors of a statistics file, which have to agree with the types. */
static struct kvmstats_table *describe(const char *kind, int fd,
				       const struct kvmstats_table *members,
				       __u32 size, struct kvmstats_probe *p)
{
	struct kvmstats_table *table = NULL;
	struct file_layout layout;
	const char *wrong;

	wrong = file_read_layout(fd, &layout) ?: file_read_table(fd, &layout, &table);
	if (wrong) {
		say(p->why, "the statistics file of a %s of its own: %s", kind, wrong);
		return NULL;
	}
	if (!bpf_check_types(kind, table, members, size, p->why, sizeof(p->why)))
		return table;
	kvmstats_free_table(table);
	return NULL;
}

/* The kernel's descriptors, or where it has none what its types say. */
static int set_tables(struct kvmstats *k, struct bpf_kvm_types *types,
		      const struct own_vm *own, struct kvmstats_probe *p)
{
	struct kvmstats_table *vm, *vcpu;

	if (own->vm_stats < 0 || own->vcpu_stats < 0) {
		vm = types->vm;
		vcpu = types->vcpu;
		types->vm = types->vcpu = NULL;
	} else {
		vm = describe("VM", own->vm_stats, types->vm,
			      types->layout.vm_stat_size, p);
		if (!vm)
			return -EPROTO;
		vcpu = describe("vCPU", own->vcpu_stats, types->vcpu,
				types->layout.vcpu_stat_size, p);
		if (!vcpu) {
			kvmstats_free_table(vm);
			return -EPROTO;
		}
	}
	return core_set_table(k, KVMSTATS_VM, vm) ?:
	       core_set_table(k, KVMSTATS_VCPU, vcpu);
}

static int bpf_open(struct kvmstats *k, void **state, struct kvmstats_probe *p)
{
	struct bpf_state *s = calloc(1, sizeof(*s));
	struct bpf_kvm_types types;
	struct own_vm own;
	int error;

	if (!s) {
		say(p->why, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	error = bpf_types_find(&types, p->why, sizeof(p->why));
	if (error) {
		say(p->help, "use a kernel with CONFIG_DEBUG_INFO_BTF, with KVM loaded");
		goto no_types;
	}
	uevents_open(&s->events);
	error = own_vm_open(&own, OWN_VCPU_ID, p->why, sizeof(p->why));
	if (error) {
		explain_own_vm(error, p);
		goto no_vm;
	}
	uevents_check(&s->events);
	own_vm_run(&own);
	error = bpf_iterator_open_checked(&s->iterator, &types, &own, p->why, sizeof(p->why));
	if (error) {
		explain_load(error, p);
		goto no_iterator;
	}
	error = set_tables(k, &types, &own, p);
	if (error) {
		bpf_iterator_close(s->iterator);
		goto no_iterator;
	}
	if (!facts_first_pid_namespace())
		say(p->why, "sees the VMs of its PID namespace only");
	facts_names(k, p);
	core_raise_files();
	*state = s;
no_iterator:
	own_vm_close(&own);
no_vm:
	if (error)
		uevents_close(&s->events);
	bpf_types_free(&types);
no_types:
	if (error)
		free(s);
	return error;
}

static void report_thread(struct core_vcpu *vcpu, const struct bpf_quota *quota,
			  const struct bpf_record *record)
{
	const struct bpf_thread *thread = &record->thread;
	struct thread_times t = {
		.time = thread->time,
		.has_run = true,
		.has_ready = thread->flags & BPF_READY,
		.has_throttled = thread->flags & BPF_QUOTA,
		.run = thread->run,
		.ready = thread->ready,
		.throttled = thread->throttled,
		.throttled_cpus = bpf_quota_cpus(quota, record),
		.cpu = thread->rq,
		.lost = thread->lost,
		.has_sleeps = true,
		.sleeps = thread->sleeps,
		.up_to_date = thread->flags & BPF_CLOCKS,
		.state = THREAD_SLEEPS,
	};

	if (!(thread->flags & BPF_THREAD)) {
		core_vcpu_idle(vcpu, thread->time);
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

static int read_all(struct bpf_state *s, const struct bpf_record ***records)
{
	uint64_t start = core_clock(CLOCK_THREAD_CPUTIME_ID);
	int n = bpf_iterator_read(s->iterator, records);

	s->cost_all = core_clock(CLOCK_THREAD_CPUTIME_ID) - start;
	s->found = n;
	return n;
}

/*
 * To go through the files of all processes costs more than all the rest where they have
 * many. KVM tells when VMs come and go. A file that is missing may be in another process
 * now.
 */
static int read_records(struct bpf_state *s, const struct bpf_record ***records)
{
	bool news = uevents_news(&s->events);
	uint64_t start = core_clock(CLOCK_THREAD_CPUTIME_ID);
	uint64_t now = core_clock(CLOCK_MONOTONIC);
	int n;

	if (news || !s->looked || now - s->looked >= LOOK_AGAIN) {
		s->looked = now;
		s->cost_known = 0;
		return read_all(s, records);
	}
	if (s->cost_known >= s->cost_all)
		return read_all(s, records);
	n = bpf_iterator_read_known(s->iterator, records);
	s->cost_known = n < 0 ? UINT64_MAX : core_clock(CLOCK_THREAD_CPUTIME_ID) - start;
	return n >= 0 && n == s->found ? n : read_all(s, records);
}

static int bpf_sample(struct kvmstats *k, void *state)
{
	const struct bpf_record **records;
	struct bpf_state *s = state;
	struct core_vm *vm = NULL;
	__u64 of = 0;
	int i, n;

	n = read_records(s, &records);
	if (n < 0)
		return core_problem(k, n, "BPF iterator: %s", strerror(-n));
	if (bpf_quota_count(&s->quota, records, n))
		return core_problem(k, -ENOMEM, "%s", strerror(ENOMEM));
	for (i = 0; i < n; i++) {
		const struct bpf_record *record = records[i];
		struct core_vcpu *vcpu;

		/* An address is used again, by other processes too. */
		if (of != record->vm)
			vm = core_vm(k, record->vm + record->started * 0x9e3779b97f4a7c15,
				     record->pid);
		if (!vm)
			return core_problem(k, -ENOMEM, "%s", strerror(ENOMEM));
		if (of != record->vm)
			core_vm_process(vm, record->started, record->comm);
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
		report_thread(vcpu, &s->quota, record);
	}
	return 0;
}

static void bpf_close(struct kvmstats *k, void *state)
{
	struct bpf_state *s = state;

	bpf_iterator_close(s->iterator);
	bpf_quota_free(&s->quota);
	uevents_close(&s->events);
	free(s);
}

const struct source_ops source_bpf = {
	.name = "bpf",
	.what = "a BPF program that looks at the open files of all processes",
	.open = bpf_open,
	.sample = bpf_sample,
	.close = bpf_close,
};
