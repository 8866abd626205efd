// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The source "files" requires only the permission to inspect a process: it borrows VM and
 * vCPU fds from VMMs and opens their statistics (KVM_STATS_GETFD), or, on kernels that allow
 * this only to the VMM, it borrows the statistics files that the VMM keeps open.
 *
 * The latter pin their VM and do not report its end. They are closed when the VMM has
 * closed its own file or has exited.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "privileges.h"
#include "probe_vm.h"

/*
 * Seconds after which an unchanged process is scanned again; for which a new process is
 * scanned at each sample; after which the files of a VMM are compared with ours; and after
 * which all processes are scanned, regardless of uevents
 */
#define PROCESS_RESCAN_S	60
#define NEW_PROCESS_S	60
#define FD_COMPARE_INTERVAL_S	10
#define WALK_INTERVAL_S	10

/* Uevents report VM creation, except in network namespaces of other users. */
static void listen(struct uevents *events)
{
	struct probe_vm own;
	char why[64];

	uevents_open(events);
	if (probe_vm_open(&own, PROBE_VCPU_ID, why, sizeof(why))) {
		uevents_close(events);
		return;
	}
	uevents_check(events);
	probe_vm_close(&own);
}

static int files_open(struct kvmstats *k, void **state, struct kvmstats_probe *p)
{
	struct files_state *s;
	struct stats_ioctls ioctls;
	int fd, ret;

	ret = privileges_borrow(k, p);
	if (ret)
		return ret;
	s = calloc(1, sizeof(*s));
	ret = s ? reader_open(&s->reader) : -ENOMEM;
	if (ret) {
		free(s);
		snprintf(p->why, sizeof(p->why), "%s", strerror(-ret));
		return ret;
	}
	s->k = k;
	s->self = getpid();
	s->kvm = -1;
	ioctls = privileges_stats_ioctls();
	s->getfd = ioctls.getfd;
	s->no_getfd = !ioctls.flags;
	fd = proc_pidfd(s->self);
	if (fd < 0) {
		snprintf(p->why, sizeof(p->why), "pidfd_open: %s", strerror(-fd));
		strcpy(p->help, "it needs Linux 5.6 or later");
		reader_close(&s->reader);
		free(s);
		return fd;
	}
	close(fd);
	listen(&s->events);
	core_raise_files();
	*state = s;
	return 0;
}

/* Reuse memory: processes are created all the time. */
static struct process *new_process(struct files_state *s)
{
	struct process *p = s->spare;

	if (!p)
		return calloc(1, sizeof(*p));
	s->spare = p->next;
	memset(p, 0, sizeof(*p));
	return p;
}

static void files_close(struct kvmstats *k, void *state)
{
	struct files_state *s = state;
	struct process *p, *next;

	for (p = s->first; p; p = next) {
		next = p->next;
		files_drop_process(s, p);
	}
	for (p = s->spare; p; p = next) {
		next = p->next;
		free(p);
	}
	if (s->kvm >= 0)
		close(s->kvm);
	uevents_close(&s->events);
	reader_close(&s->reader);
	free(s->list);
	free(s->tid);
	free(s->known);
	free(s);
}

/*
 * Looking at the files of each process at each sample would cost more than all
 * the rest. Later kernels say how many files a process has; the others are
 * looked at while they are young, and every minute.
 */
static bool should_look(struct files_state *s, struct process *p, long fds)
{
	bool look = fds != p->fds || !p->last_look;

	p->fds = fds;
	if (!fds && (p->is_vmm || s->now - p->first_look < NEW_PROCESS_S))
		look = true;
	if (s->now - p->last_look >= PROCESS_RESCAN_S)
		look = true;
	if (!look && p->is_vmm && s->now - p->last_compare >= FD_COMPARE_INTERVAL_S) {
		look = files_any_replaced(s, p);
		p->last_compare = s->now;
	}
	/* A vCPU's thread shows itself when it sleeps; look ever more seldom. */
	if (files_lacks_threads(p) && (++p->thread_looks < 8 ||
				 !(p->thread_looks & (p->thread_looks - 1))))
		look = true;
	return look;
}

/* false: it has ended, or is hidden */
static bool look_if_due(struct kvmstats *k, struct files_state *s, struct process *p)
{
	long fds = proc_count_fds(core_proc(k), p->pid, p->folder);

	if (fds >= 0 && should_look(s, p, fds))
		files_scan_process(k, s, p);
	return fds >= 0;
}

static int on_process(void *arg, int dirfd, int pid)
{
	struct files_state *s = arg;
	struct kvmstats *k = s->k;
	struct process **at, *p;

	if (pid == s->self)
		return 0;
	/* Both /proc and the list are in ascending order. */
	at = s->cursor ? &s->cursor->next : &s->first;
	while (*at && (*at)->pid < pid)
		at = &(*at)->next;
	p = *at;
	if (!p || p->pid != pid) {
		p = new_process(s);
		if (!p)
			return -ENOMEM;
		p->pid = pid;
		p->serial = ++s->serial;
		p->pidfd = -1;
		p->folder = -1;
		p->fds = -1;
		p->first_look = s->now;
		p->next = *at;
		*at = p;
	}
	p->seen = true;
	s->cursor = p;
	if (!p->gone.hup)
		look_if_due(k, s, p);
	return 0;
}

static int scan_processes(struct kvmstats *k, struct files_state *s)
{
	int ret, proc = openat(core_proc(k), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct process *p;

	if (proc < 0)
		return -errno;
	for (p = s->first; p; p = p->next)
		p->seen = false;
	s->cursor = NULL;
	ret = proc_numbers(proc, on_process, s);
	close(proc);
	s->walked = s->now;
	return ret;
}

static void look_at_known(struct kvmstats *k, struct files_state *s)
{
	struct process *p;

	for (p = s->first; p; p = p->next) {
		if (p->is_vmm || p->fds < 0)
			s->lost |= p->gone.hup || !look_if_due(k, s, p);
	}
}

/*
 * Scanning all processes costs as much as reading the statistics of a hundred vCPUs. Uevents
 * report VM creation and destruction; a file that moved to another process is missing in
 * the old one. Files that several processes share are found by later scans.
 */
static int find_vms(struct kvmstats *k, struct files_state *s)
{
	bool news = uevents_news(&s->events) || !s->walked ||
		    s->now - s->walked >= WALK_INTERVAL_S;
	int ret = 0;

	s->lost = false;
	if (!news)
		look_at_known(k, s);
	if (news || s->lost)
		ret = scan_processes(k, s);
	if (s->lost)
		uevents_expect(&s->events);
	return ret;
}

static void read_process(struct kvmstats *k, struct files_state *s, struct process *p)
{
	struct taken **at, *t;
	struct core_vcpu *vcpu;
	struct core_vm *vm;

	for (t = p->taken; t; t = t->next) {
		if (!files_is_vm(t) || t->file.fd < 0)
			continue;
		vm = reader_vm(k, &s->reader, &t->file, t->key, p->pid);
		if (!vm)
			continue;
		core_vm_number(k, vm, t->number);
		if (t->vcpus.fd >= 0)
			reader_vcpus(k, &s->reader, &t->vcpus, vm);
		if (t->gone.hup || t->missing || p->gone.hup)
			core_vm_ended(vm);
	}
	for (t = p->taken; t; t = t->next) {
		if (files_is_vm(t) || t->file.fd < 0)
			continue;
		vm = core_vm(k, t->key, p->pid);
		if (!vm)
			continue;
		core_vm_number(k, vm, t->number);
		core_vm_set_ambiguous(vm, files_is_ambiguous(p, t));
		vcpu = reader_vcpu(k, &s->reader, &t->file, vm, t->from.id, t->tid);
		if (vcpu && core_vcpu_lacks_thread(vcpu)) {
			t->tid = 0;
			p->thread_looks = 0;
		}
		if (t->gone.hup || p->gone.hup)
			core_vm_ended(vm);
	}
	/* The last values were read. */
	for (at = &p->taken; (t = *at);) {
		if (t->gone.hup || t->missing || p->gone.hup) {
			*at = t->next;
			files_drop_taken(t);
			p->fds = -1;
		} else {
			at = &t->next;
		}
	}
}

/*
 * On kernels whose statistics files hold their VM they do not hold KVM's module: rmmod
 * would take away the code that they run. An open /dev/kvm holds it.
 */
static void hold_module(struct files_state *s)
{
	const struct process *p;
	const struct taken *t = NULL;

	for (p = s->first; p && !t; p = p->next) {
		for (t = p->taken; t && (t->tells || t->file.fd < 0); t = t->next)
			;
	}
	if (t && s->kvm < 0) {
		s->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	} else if (!t && s->kvm >= 0) {
		close(s->kvm);
		s->kvm = -1;
	}
}

static int files_sample(struct kvmstats *k, void *state)
{
	struct files_state *s = state;
	struct process **at, *p;
	unsigned int denied = 0;
	int ret;

	s->now = read_clock(CLOCK_MONOTONIC) / 1000000000 + 1;	/* never 0 */
	reader_poll(&s->reader);
	ret = find_vms(k, s);
	if (ret)
		return core_problem(k, ret, "/proc: %s", strerror(-ret));

	for (p = s->first; p; p = p->next) {
		p->gone.hup |= !p->seen;
		files_hand_over(s, p);
	}
	for (at = &s->first; (p = *at);) {
		if (p->taken)
			read_process(k, s, p);
		if (p->gone.hup) {
			*at = p->next;
			files_drop_process(s, p);
			continue;
		}
		denied += p->denied;
		if (p->too_many && p->is_vmm)
			core_unread(k, KVMSTATS_TOO_MANY, "process %d has too many open files: the last ones are not read",
				    p->pid);
		if (p->unreadable && p->is_vmm)
			core_unread(k, KVMSTATS_VMM_ONLY, "process %d has a VM, and this kernel shows its "
				    "statistics to the VMM only", p->pid);
		at = &p->next;
	}
	hold_module(s);
	while (denied--)
		core_unread(k, KVMSTATS_PERMISSION, "processes of other users cannot be inspected: it needs "
			    "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH");
	return 0;
}

/* Only files that pin their VM do not report its end. */
static void files_release(void *state)
{
	struct files_state *s = state;
	struct taken **at, *t;
	struct process *p;

	for (p = s->first; p; p = p->next) {
		for (at = &p->taken; (t = *at);) {
			if (t->tells) {
				at = &t->next;
				continue;
			}
			*at = t->next;
			files_drop_taken(t);
			p->fds = -1;
		}
	}
	hold_module(s);
}

const struct source_ops source_files = {
	.name = "files",
	.what = "statistics files of VMMs, borrowed with pidfd_getfd()",
	.open = files_open,
	.sample = files_sample,
	.release_files = files_release,
	.close = files_close,
};
