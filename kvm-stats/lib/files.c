// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The source that needs no more than the right to look into a process: borrows
 * VM and vCPU fds from VMMs and opens their statistics (KVM_STATS_GETFD), or,
 * on kernels that allow this to the VMM alone, borrows the statistics files that
 * the VMM has open itself.
 *
 * Files of the latter hold their VM, and do not tell when it ends. They are
 * given back when the VMM has closed its own, or has ended.
 */
#include <errno.h>
#include <linux/kcmp.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "abi.h"
#include "facts.h"
#include "own_vm.h"
#include "proc.h"
#include "reader.h"
#include "uevent.h"

/* Seconds after which a process is looked at again that seems the same, those for
 * which a new process is looked at every time, those after which the files of a VMM
 * are compared with ours, and those after which all processes are gone through,
 * whatever KVM tells. */
#define LOOK_AGAIN	60
#define IS_YOUNG	60
#define COMPARE_AGAIN	10
#define WALK_AGAIN	10

/* A VM's or vCPU's file that was opened or borrowed through one of theirs. */
struct taken {
	struct taken *next;
	struct kvm_fd from;	/* in the VMM */
	struct gone gone;
	bool tells;		/* gone.hup is set by the kernel, not by us */
	bool missing;		/* the VMM has closed its own */
	uint64_t number;	/* of the VM, 0: the kernel does not say */
	uint64_t key;		/* of the VM, for the core */
	struct stats_file file;	/* fd -1: nothing to read here */
	struct stats_file vcpus;	/* for a VM: all its vCPUs */
	pid_t tid;		/* for a vCPU: its thread, 0: not known yet */
};

struct process {
	struct process *next;
	pid_t pid;
	bool seen;
	bool denied;		/* it has a VM maybe, we cannot know */
	bool is_vmm;
	bool unreadable;	/* it has VMs, the kernel shows nothing of them */
	long fds;		/* that it has, 0: not known; -1: look in any case */
	time_t first_look, last_look, last_compare;
	unsigned int vms;	/* VM fds */
	int kvm_fds;		/* of all kinds */
	int pidfd, folder;	/* of a VMM; -1 */
	struct gone gone;
	struct taken *taken;	/* in the order of descriptors, of each kind and look */
	unsigned int thread_looks;
};

struct files_state {
	struct kvmstats *k;
	struct reader reader;
	pid_t self;
	struct process *first;
	struct process *cursor;		/* the last one seen by this walk */
	struct process *spare;		/* of processes that have ended */
	struct uevents events;
	bool lost;			/* a VMM has less files, or has ended */
	time_t walked;			/* when all processes were gone through; 0: never */
	bool no_getfd;			/* this kernel opens them for the VMM alone */
	int kvm;			/* /dev/kvm, while files hold VMs; -1 */
	struct kvm_fd *list;		/* of one process */
	pid_t *tid;			/* their threads */
	int room;
	time_t now;
	int error;
};

/* KVM tells when VMs come and go, but not in network namespaces of other users. */
static void listen(struct uevents *events)
{
	struct own_vm own;
	char why[64];

	uevents_open(events);
	if (own_vm_open(&own, OWN_VCPU_ID, why, sizeof(why))) {
		uevents_close(events);
		return;
	}
	uevents_check(events);
	own_vm_close(&own);
}

static int files_open(struct kvmstats *k, void **state, struct kvmstats_probe *p)
{
	struct files_state *s;
	int fd, ret;

	ret = facts_borrow(k, p);
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
	/* Number 0xf0 may be anything to a kernel that does not have it. */
	s->no_getfd = facts_no_getfd();
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

static void drop_taken(struct taken *t)
{
	reader_drop(&t->file);
	reader_drop(&t->vcpus);
	free(t);
}

static void drop_process(struct files_state *s, struct process *p)
{
	struct taken *t, *next;

	for (t = p->taken; t; t = next) {
		next = t->next;
		drop_taken(t);
	}
	if (p->pidfd >= 0)
		close(p->pidfd);
	if (p->folder >= 0)
		close(p->folder);
	p->next = s->spare;
	s->spare = p;
}

/* Processes come all the time: without an allocation, once some have gone. */
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
		drop_process(s, p);
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
	free(s);
}

static int list_fds(struct kvmstats *k, struct files_state *s, pid_t pid, long *all)
{
	int n;

	while ((n = proc_kvm_fds(core_proc(k), pid, s->list, s->room, all)) > s->room) {
		struct kvm_fd *list = realloc(s->list, 2 * n * sizeof(*list));
		pid_t *tid = realloc(s->tid, 2 * n * sizeof(*tid));

		s->list = list ? list : s->list;
		s->tid = tid ? tid : s->tid;
		if (!list || !tid)
			return -ENOMEM;
		s->room = 2 * n;
	}
	return n;
}

static bool same_fd(const struct kvm_fd *a, const struct kvm_fd *b)
{
	return a->kind == b->kind && a->id == b->id && a->num == b->num;
}

/* Has the VMM closed the file (EBADF), or got another with the same number? */
static bool replaced(const struct files_state *s, const struct process *p,
		     const struct taken *t)
{
	long ret;

	if (t->tells || t->file.fd < 0)
		return false;
	ret = syscall(SYS_kcmp, s->self, p->pid, KCMP_FILE, t->file.fd, t->from.num);
	return ret > 0 || (ret < 0 && errno == EBADF);
}

static bool any_replaced(const struct files_state *s, const struct process *p)
{
	const struct taken *t;

	for (t = p->taken; t; t = t->next) {
		if (replaced(s, p, t))
			return true;
	}
	return false;
}

static bool number_known(const struct files_state *s, uint64_t number,
			 const struct kvm_fd *from)
{
	const struct process *p;
	const struct taken *t;

	for (p = s->first; number && p; p = p->next) {
		for (t = p->taken; t; t = t->next) {
			if (t->number == number && t->from.kind == from->kind &&
			    t->from.id == from->id && t->file.fd >= 0 && !t->gone.hup)
				return true;
		}
	}
	return false;
}

/*
 * Open the statistics behind a borrowed VM or vCPU fd. 1: done, or we have it
 * already; 0: this kernel has no such way; -errno.
 */
static int take_kvm(struct kvmstats *k, struct files_state *s, struct process *p,
		    struct taken *t, const char **wrong)
{
	enum file_kind kind = t->from.kind == KVM_FD_VM ? FILE_VM : FILE_VCPU;
	int fd = proc_take_fd(p->pidfd, &t->from), stats, rows = -1;

	if (fd < 0)
		return fd;
	stats = ioctl(fd, ABI_STATS_GETFD, ABI_SCOPE_OWN);
	if (stats < 0) {
		int error = errno;

		close(fd);
		/* EIO: kernels that ask for the VMM's mm before anything else */
		return error == ENOTTY || error == EIO || error == EINVAL ? 0 : -error;
	}
	t->number = proc_fdinfo(stats, "kvm-stats-vm");
	if (number_known(s, t->number, &t->from)) {
		close(stats);
		close(fd);
		return 1;
	}
	if (kind == FILE_VM)
		rows = ioctl(fd, ABI_STATS_GETFD, ABI_SCOPE_VCPUS);
	close(fd);
	*wrong = reader_add(k, &s->reader, stats, kind, &t->file, &t->gone, &t->tells);
	if (!*wrong && rows >= 0)
		*wrong = reader_add(k, &s->reader, rows, FILE_VCPUS, &t->vcpus,
				    &t->gone, NULL);
	else if (rows >= 0)
		close(rows);
	return 1;
}

static int take_stats(struct kvmstats *k, struct files_state *s, struct process *p,
		      struct taken *t, const char **wrong)
{
	int fd = proc_take_fd(p->pidfd, &t->from);

	if (fd < 0)
		return fd;
	t->number = proc_fdinfo(fd, "kvm-stats-vm");
	*wrong = reader_add(k, &s->reader, fd,
			    t->from.kind == KVM_FD_VM_STATS ? FILE_VM : FILE_VCPU,
			    &t->file, &t->gone, &t->tells);
	return 1;
}

static const struct taken *find_taken(const struct process *p, const struct kvm_fd *fd)
{
	const struct taken *t;

	for (t = p->taken; t; t = t->next) {
		if (!t->missing && !t->gone.hup && same_fd(&t->from, fd))
			return t;
	}
	return NULL;
}

static bool has_rows(const struct process *p)
{
	const struct taken *t;

	for (t = p->taken; t; t = t->next) {
		if (t->vcpus.fd >= 0)
			return true;
	}
	return false;
}

/*
 * Take what is new of one kind. Returns whether the kernel lets us: with
 * KVM_STATS_GETFD, for VM and vCPU fds.
 */
static bool take_kind(struct kvmstats *k, struct files_state *s, struct process *p,
		      int n, enum kvm_fd_kind kind)
{
	bool own = kind == KVM_FD_VM || kind == KVM_FD_VCPU, lets = true;
	struct taken **end = &p->taken;
	int i, ret;

	while (*end)
		end = &(*end)->next;
	for (i = 0; i < n; i++) {
		const char *wrong = NULL;
		struct taken *t;

		if (s->list[i].kind != kind || find_taken(p, &s->list[i]))
			continue;
		t = calloc(1, sizeof(*t));
		if (!t) {
			core_unread(k, KVMSTATS_TOO_MANY, "process %d: %s", p->pid,
				    strerror(ENOMEM));
			return lets;
		}
		t->from = s->list[i];
		t->file.fd = -1;
		t->vcpus.fd = -1;
		ret = own ? take_kvm(k, s, p, t, &wrong) : take_stats(k, s, p, t, &wrong);
		if (ret < 0)
			wrong = strerror(-ret);
		if (ret > 0 && !wrong) {
			*end = t;
			end = &t->next;
			continue;
		}
		drop_taken(t);
		if (!ret)
			return false;
		/* EBADF: closed since we looked; ESRCH: ended */
		if (ret == -EBADF || ret == -ESRCH)
			continue;
		core_unread(k, ret < 0 ? core_reason(-ret) : KVMSTATS_FORMAT,
			    "process %d: %s", p->pid, wrong);
		/* to be tried again */
		p->fds = -1;
	}
	return lets;
}

static void take_all(struct kvmstats *k, struct files_state *s, struct process *p, int n)
{
	bool any = false;
	struct taken *t;

	if (!s->no_getfd && !take_kind(k, s, p, n, KVM_FD_VM))
		s->no_getfd = true;
	if (!s->no_getfd) {
		if (!has_rows(p))
			take_kind(k, s, p, n, KVM_FD_VCPU);
	} else {
		take_kind(k, s, p, n, KVM_FD_VM_STATS);
		take_kind(k, s, p, n, KVM_FD_VCPU_STATS);
	}
	for (t = p->taken; t; t = t->next)
		any |= t->file.fd >= 0 || t->number;
	p->unreadable = !any;
}

static bool is_vm(const struct taken *t)
{
	return t->from.kind == KVM_FD_VM || t->from.kind == KVM_FD_VM_STATS;
}

/* Descriptors are far below; it goes down from here. */
#define KEY_MIXED	UINT32_MAX

/*
 * The VM that a file belongs to, for all time. Of vCPUs of several VMs the kernel
 * does not say whose they are: they are put together as well as may be, those of
 * one id apart.
 */
static uint64_t vm_key(const struct process *p, const struct taken *t)
{
	uint64_t key = (uint64_t)p->pid << 32;
	const struct taken *other;
	uint32_t same = 0;

	if (t->number)
		return t->number;
	if (p->vms <= 1)
		return key;
	if (is_vm(t))
		return key | t->from.num;
	for (other = p->taken; other; other = other->next)
		same += other->from.kind == t->from.kind && other->from.id == t->from.id &&
			other->from.num < t->from.num;
	return key | (KEY_MIXED - same);
}

static bool is_mixed(const struct process *p, const struct taken *t)
{
	return !t->number && p->vms > 1 && !is_vm(t);
}

/* Which vCPU of ours runs in which thread; list has the VMM's fds of now. */
static void find_threads(struct kvmstats *k, struct files_state *s, struct process *p,
			 int n)
{
	pid_t *tid = s->tid;
	struct taken *t;
	int i;

	memset(tid, 0, n * sizeof(*tid));
	if (proc_vcpu_threads(core_proc(k), p->pid, s->list, n, p->vms == 1, tid) > 0) {
		for (t = p->taken; t; t = t->next) {
			for (i = 0; i < n && !t->tid; i++) {
				if (!tid[i] || s->list[i].id != t->from.id)
					continue;
				/* with several VMs, by the vCPU fd itself alone */
				if ((t->from.kind == KVM_FD_VCPU &&
				     t->from.num == s->list[i].num) ||
				    (t->from.kind == KVM_FD_VCPU_STATS && p->vms == 1))
					t->tid = tid[i];
			}
		}
	}
}

static bool lacks_threads(const struct process *p)
{
	const struct taken *t;

	for (t = p->taken; t; t = t->next) {
		if ((t->from.kind == KVM_FD_VCPU || t->from.kind == KVM_FD_VCPU_STATS) &&
		    t->file.fd >= 0 && !t->tid)
			return true;
	}
	return false;
}

static void look_at(struct kvmstats *k, struct files_state *s, struct process *p)
{
	bool has_vcpu = false;
	struct taken *t;
	long all;
	int i, n = list_fds(k, s, p->pid, &all);

	p->last_look = s->now;
	p->last_compare = s->now;
	p->denied = false;
	if (n < 0) {
		p->denied = (n == -EACCES || n == -EPERM) &&
			    proc_has_cmdline(core_proc(k), p->pid);
		/* ENOENT: it has ended */
		if (n != -EACCES && n != -EPERM && n != -ENOENT && n != -ESRCH) {
			core_unread(k, core_reason(-n), "process %d: %s", p->pid,
				    strerror(-n));
			p->fds = -1;
		}
		return;
	}
	/* What was being opened when they were counted may be a VM by now. */
	if (p->fds > 0)
		p->fds = all;
	s->lost |= p->is_vmm && n < p->kvm_fds;
	p->kvm_fds = n;
	p->vms = 0;
	for (i = 0; i < n; i++) {
		p->vms += s->list[i].kind == KVM_FD_VM;
		has_vcpu |= s->list[i].kind == KVM_FD_VCPU;
	}
	for (t = p->taken; t; t = t->next) {
		for (i = 0; i < n && !same_fd(&t->from, &s->list[i]); i++)
			;
		/* A file that tells is good until it says so: the VM may live on. */
		if (!t->tells && (i == n || replaced(s, p, t)))
			t->missing = true;
	}
	/* Who has no VM but files of others' is an agent like us. */
	p->is_vmm = p->vms || has_vcpu;
	if (!p->is_vmm) {
		p->is_vmm = p->taken;
		return;
	}
	if (p->folder < 0)
		p->folder = proc_fd_folder(core_proc(k), p->pid);
	if (p->pidfd < 0) {
		p->pidfd = proc_pidfd(p->pid);
		if (p->pidfd < 0) {
			if (p->pidfd != -ESRCH) {
				core_unread(k, core_reason(-p->pidfd), "process %d: %s", p->pid,
					    strerror(-p->pidfd));
				p->fds = -1;
			}
			p->pidfd = -1;
			return;
		}
		reader_watch(&s->reader, p->pidfd, &p->gone);
	}
	take_all(k, s, p, n);
	for (t = p->taken; t; t = t->next)
		t->key = vm_key(p, t);
	if (lacks_threads(p))
		find_threads(k, s, p, n);
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
	if (!fds && (p->is_vmm || s->now - p->first_look < IS_YOUNG))
		look = true;
	if (s->now - p->last_look >= LOOK_AGAIN)
		look = true;
	if (!look && p->is_vmm && s->now - p->last_compare >= COMPARE_AGAIN) {
		look = any_replaced(s, p);
		p->last_compare = s->now;
	}
	/* A vCPU's thread shows itself when it sleeps; look ever more seldom. */
	if (lacks_threads(p) && (++p->thread_looks < 8 ||
				 !(p->thread_looks & (p->thread_looks - 1))))
		look = true;
	return look;
}

/* false: it has ended, or is hidden */
static bool look_if_due(struct kvmstats *k, struct files_state *s, struct process *p)
{
	long fds = proc_count_fds(core_proc(k), p->pid, p->folder);

	if (fds >= 0 && should_look(s, p, fds))
		look_at(k, s, p);
	return fds >= 0;
}

static int on_process(void *arg, int dirfd, int pid)
{
	struct files_state *s = arg;
	struct kvmstats *k = s->k;
	struct process **at, *p;

	if (pid == s->self)
		return 0;
	/* /proc is in ascending order, and so is our list */
	at = s->cursor ? &s->cursor->next : &s->first;
	while (*at && (*at)->pid < pid)
		at = &(*at)->next;
	p = *at;
	if (!p || p->pid != pid) {
		p = new_process(s);
		if (!p)
			return -ENOMEM;
		p->pid = pid;
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

static int walk(struct kvmstats *k, struct files_state *s)
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
 * To go through all processes costs as much as to read the statistics of a hundred
 * vCPUs. KVM tells when VMs come and go, not when one changes hands: its file is missing
 * where it was. Processes that share one, or the memory of who made it, are found later.
 */
static int find_vms(struct kvmstats *k, struct files_state *s)
{
	bool news = uevents_news(&s->events) || !s->walked ||
		    s->now - s->walked >= WALK_AGAIN;
	int ret = 0;

	s->lost = false;
	if (!news)
		look_at_known(k, s);
	if (news || s->lost)
		ret = walk(k, s);
	if (s->lost)
		uevents_expect(&s->events);
	return ret;
}

static void read_process(struct kvmstats *k, struct files_state *s, struct process *p)
{
	struct taken **at, *t;
	struct core_vm *vm;

	for (t = p->taken; t; t = t->next) {
		if (!is_vm(t) || t->file.fd < 0)
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
		if (is_vm(t) || t->file.fd < 0)
			continue;
		vm = core_vm(k, t->key, p->pid);
		if (!vm)
			continue;
		core_vm_number(k, vm, t->number);
		core_vm_mixed(vm, is_mixed(p, t));
		reader_vcpu(k, &s->reader, &t->file, vm, t->from.id, t->tid);
		if (t->gone.hup || p->gone.hup)
			core_vm_ended(vm);
	}
	/* These were the last values. */
	for (at = &p->taken; (t = *at);) {
		if (t->gone.hup || t->missing || p->gone.hup) {
			*at = t->next;
			drop_taken(t);
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

	s->now = core_clock(CLOCK_MONOTONIC) / 1000000000 + 1;	/* never 0 */
	reader_poll(&s->reader);
	ret = find_vms(k, s);
	if (ret)
		return core_problem(k, ret, "/proc: %s", strerror(-ret));

	for (at = &s->first; (p = *at);) {
		p->gone.hup |= !p->seen;
		if (p->taken)
			read_process(k, s, p);
		if (p->gone.hup) {
			*at = p->next;
			drop_process(s, p);
			continue;
		}
		denied += p->denied;
		if (p->unreadable && p->is_vmm)
			core_unread(k, KVMSTATS_VMM_ONLY, "process %d has a VM, and this kernel shows its "
				    "statistics to the VMM alone", p->pid);
		at = &p->next;
	}
	hold_module(s);
	while (denied--)
		core_unread(k, KVMSTATS_PERMISSION, "processes of others cannot be looked into: it needs "
			    "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH");
	return 0;
}

/* Files that do not tell of the end of their VM are those that hold it. */
static void files_let_go(void *state)
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
			drop_taken(t);
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
	.let_go = files_let_go,
	.close = files_close,
};
