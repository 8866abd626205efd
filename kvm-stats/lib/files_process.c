// SPDX-License-Identifier: LGPL-2.1-or-later
/* Borrow the VM, vCPU and statistics files of one process. */
#include <errno.h>
#include <linux/kcmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi.h"
#include "files.h"
#include "privileges.h"

/* Files of KVM of a process that are read: those of a VM with 4096 vCPUs */
#define KVM_FDS_MAX	8194

void files_drop_taken(struct taken *t)
{
	reader_drop(&t->file);
	reader_drop(&t->vcpus);
	free(t);
}

void files_drop_process(struct files_state *s, struct process *p)
{
	struct taken *t, *next;

	for (t = p->taken; t; t = next) {
		next = t->next;
		files_drop_taken(t);
	}
	if (p->pidfd >= 0)
		close(p->pidfd);
	if (p->folder >= 0)
		close(p->folder);
	p->next = s->spare;
	s->spare = p;
}

static int list_fds(struct kvmstats *k, struct files_state *s, pid_t pid, long *all)
{
	int n;

	while ((n = proc_kvm_fds(core_proc(k), pid, s->list, s->room, all)) > s->room) {
		struct kvm_fd *list = realloc(s->list, 2 * n * sizeof(*list));
		pid_t *tid = realloc(s->tid, 2 * n * sizeof(*tid));
		bool *known = realloc(s->known, 2 * n * sizeof(*known));

		s->list = list ? list : s->list;
		s->tid = tid ? tid : s->tid;
		s->known = known ? known : s->known;
		if (!list || !tid || !known)
			return -ENOMEM;
		s->room = 2 * n;
	}
	return n;
}

static int compare_fds(const void *a, const void *b)
{
	const struct kvm_fd *x = a, *y = b;

	return x->num - y->num;
}

/* Return a file in the list, which is sorted by number, or NULL. */
static const struct kvm_fd *find_fd(const struct files_state *s, int n, const struct kvm_fd *fd)
{
	const struct kvm_fd *found = n ? bsearch(fd, s->list, n, sizeof(*fd), compare_fds) : NULL;

	return found && found->kind == fd->kind && found->id == fd->id ? found : NULL;
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

bool files_any_replaced(const struct files_state *s, const struct process *p)
{
	const struct taken *t;

	for (t = p->taken; t; t = t->next) {
		if (replaced(s, p, t))
			return true;
	}
	return false;
}

/* Return true if two of our descriptors are one open file. */
static bool is_same_file(const struct files_state *s, int a, int b)
{
	return !syscall(SYS_kcmp, s->self, s->self, KCMP_FILE, a, b);
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
 * Open the statistics of a borrowed VM or vCPU fd. Returns 1 on success or if they are open
 * already, 0 if this kernel does not support it, or a negative errno.
 */
static int take_kvm(struct kvmstats *k, struct files_state *s, struct process *p,
		    struct taken *t, const char **wrong)
{
	enum file_kind kind = t->from.kind == KVM_FD_VM ? FILE_VM : FILE_VCPU;
	int fd = proc_take_fd(p->pidfd, &t->from), stats, rows = -1;

	if (fd < 0)
		return fd;
	stats = privileges_getfd(s->getfd, fd, ABI_SCOPE_OWN);
	if (stats < 0) {
		int error = errno;

		close(fd);
		/* EIO: kernels that ask for the VMM's mm before anything else */
		return error == ENOTTY || error == EIO || error == EINVAL ? 0 : -error;
	}
	t->number = proc_fdinfo(stats, "kvm-stats-vm");
	t->shared = number_known(s, t->number, &t->from);
	if (t->shared) {
		close(stats);
		close(fd);
		return 1;
	}
	if (kind == FILE_VM)
		rows = privileges_getfd(s->getfd, fd, ABI_SCOPE_VCPUS);
	close(fd);
	*wrong = reader_add(k, &s->reader, stats, kind, &t->file, &t->gone, &t->tells);
	if (!*wrong && rows >= 0)
		*wrong = reader_add(k, &s->reader, rows, FILE_VCPUS, &t->vcpus,
				    &t->gone, NULL);
	else if (rows >= 0)
		close(rows);
	return 1;
}

/*
 * Return true if the file is open in another process, such as the VMM that this one is a child
 * of. Only the same VM has the same name: the kernel writes the PID of its creator there.
 */
static bool is_open_elsewhere(const struct files_state *s, const struct process *p,
			      const struct taken *t)
{
	const struct process *other;
	const struct taken *o;

	for (other = s->first; other; other = other->next) {
		if (other == p)
			continue;
		for (o = other->taken; o; o = o->next) {
			if (o->file.fd >= 0 && o->from.kind == t->from.kind &&
			    o->from.id == t->from.id && !strcmp(o->name, t->name) &&
			    is_same_file(s, o->file.fd, t->file.fd))
				return true;
		}
	}
	return false;
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
	if (*wrong || pread(fd, t->name, sizeof(t->name) - 1, sizeof(struct abi_header)) < 0)
		return 1;
	t->shared = is_open_elsewhere(s, p, t);
	if (t->shared)
		reader_drop(&t->file);
	return 1;
}

/* Return true if a file that another process was found to share is this one. */
static bool shares(const struct files_state *s, const struct process *other,
		   const struct taken *o, const struct taken *t)
{
	bool same;
	int fd;

	if (!o->shared || o->from.kind != t->from.kind || o->from.id != t->from.id)
		return false;
	if (t->number)
		return o->number == t->number;
	fd = proc_take_fd(other->pidfd, &o->from);
	same = fd >= 0 && is_same_file(s, fd, t->file.fd);
	if (fd >= 0)
		close(fd);
	return same;
}

/* Replace the shared file of another process with this one. Return false if none has it. */
static bool give_away(struct files_state *s, const struct process *p, struct taken *t)
{
	struct process *other;
	struct taken **at, *o;

	for (other = s->first; other; other = other->next) {
		if (other == p || other->gone.hup)
			continue;
		for (at = &other->taken; (o = *at); at = &o->next) {
			if (!shares(s, other, o, t))
				continue;
			t->next = o->next;
			t->from.num = o->from.num;
			t->tid = 0;
			t->missing = false;
			t->moved = true;
			*at = t;
			files_drop_taken(o);
			return true;
		}
	}
	return false;
}

void files_hand_over(struct files_state *s, struct process *p)
{
	struct taken **at = &p->taken, *t, *next;

	while ((t = *at)) {
		next = t->next;
		if (t->file.fd >= 0 && !t->gone.hup && (p->gone.hup || t->missing) &&
		    give_away(s, p, t))
			*at = next;
		else
			at = &t->next;
	}
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
 * Borrow the new files of one kind. Return whether the kernel supports this: for VM and
 * vCPU fds, it needs KVM_STATS_GETFD.
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

		if (s->list[i].kind != kind || s->known[i])
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
		files_drop_taken(t);
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
		any |= t->file.fd >= 0 || t->shared;
	p->unreadable = !any;
}

bool files_is_vm(const struct taken *t)
{
	return t->from.kind == KVM_FD_VM || t->from.kind == KVM_FD_VM_STATS;
}

/* Descriptors are far below; it goes down from here. */
#define KEY_MIXED	UINT32_MAX

/*
 * Return a permanent key of the VM that a file belongs to. The kernel does not report the
 * VM of a vCPU: if a process has several VMs, combine their vCPUs, except for those with
 * the same id.
 */
static uint64_t process_vm_key(const struct process *p, const struct taken *t)
{
	uint64_t key = (uint64_t)p->serial << 32;
	const struct taken *other;
	uint32_t same = 0;

	if (t->number)
		return t->number;
	if (t->moved)
		return t->key;
	if (p->vms <= 1)
		return key;
	if (files_is_vm(t))
		return key | t->from.num;
	for (other = p->taken; other; other = other->next)
		same += other->from.kind == t->from.kind && other->from.id == t->from.id &&
			other->from.num < t->from.num;
	return key | (KEY_MIXED - same);
}

bool files_is_ambiguous(const struct process *p, const struct taken *t)
{
	return !t->number && p->vms > 1 && !files_is_vm(t);
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

bool files_lacks_threads(const struct process *p)
{
	const struct taken *t;

	for (t = p->taken; t; t = t->next) {
		if ((t->from.kind == KVM_FD_VCPU || t->from.kind == KVM_FD_VCPU_STATS) &&
		    t->file.fd >= 0 && !t->tid)
			return true;
	}
	return false;
}

/* Note why the files of a process cannot be listed: it exited, or permission is denied. */
static void note_unlisted(struct kvmstats *k, struct process *p, int error)
{
	p->denied = (error == EACCES || error == EPERM) &&
		    proc_is_user(core_proc(k), p->pid);
	if (error != EACCES && error != EPERM && error != ENOENT && error != ESRCH) {
		core_unread(k, core_reason(error), "process %d: %s", p->pid, strerror(error));
		p->fds = -1;
	}
}

/* Count the files of KVM that were listed. Return whether the process is a VMM. */
static bool count_fds(struct files_state *s, struct process *p, int n)
{
	bool has_vcpu = false;
	int i;

	s->lost |= p->is_vmm && n < p->kvm_fds;
	p->kvm_fds = n;
	p->vms = 0;
	for (i = 0; i < n; i++) {
		p->vms += s->list[i].kind == KVM_FD_VM;
		has_vcpu |= s->list[i].kind == KVM_FD_VCPU;
	}
	return p->vms || has_vcpu;
}

/* Find out which files are missing in the list, and which ones of the list are known. */
static void compare_list(struct files_state *s, struct process *p, int n)
{
	const struct kvm_fd *found;
	struct taken *t;

	if (n)
		memset(s->known, 0, n * sizeof(*s->known));
	for (t = p->taken; t; t = t->next) {
		found = find_fd(s, n, &t->from);
		/* A file that reports the end of its VM is valid until then. */
		if (!t->tells && (!found || replaced(s, p, t)))
			t->missing = true;
		if (found && !t->missing && !t->gone.hup)
			s->known[found - s->list] = true;
	}
}

/* Return false if the process exited or cannot be opened. */
static bool open_process(struct kvmstats *k, struct files_state *s, struct process *p)
{
	int error;

	if (p->folder < 0)
		p->folder = proc_fd_folder(core_proc(k), p->pid);
	if (p->pidfd >= 0)
		return true;
	p->pidfd = proc_pidfd(p->pid);
	if (p->pidfd >= 0) {
		reader_watch(&s->reader, p->pidfd, &p->gone);
		return true;
	}
	error = -p->pidfd;
	p->pidfd = -1;
	if (error != ESRCH) {
		core_unread(k, core_reason(error), "process %d: %s", p->pid, strerror(error));
		p->fds = -1;
	}
	return false;
}

void files_scan_process(struct kvmstats *k, struct files_state *s, struct process *p)
{
	struct taken *t;
	long all = 0;
	int n = list_fds(k, s, p->pid, &all);

	p->last_look = s->now;
	p->last_compare = s->now;
	p->denied = false;
	if (n < 0) {
		note_unlisted(k, p, -n);
		return;
	}
	/* A file that was being opened when they were counted may belong to a VM by now. */
	if (p->fds > 0 && all <= PROC_FDS_MAX)
		p->fds = all;
	p->too_many = all > PROC_FDS_MAX || n > KVM_FDS_MAX;
	if (n > KVM_FDS_MAX)
		n = KVM_FDS_MAX;
	p->is_vmm = count_fds(s, p, n);
	compare_list(s, p, n);
	/* A process that has only files of other VMMs is an agent like us. */
	if (!p->is_vmm) {
		p->is_vmm = p->taken;
		return;
	}
	if (!open_process(k, s, p))
		return;
	take_all(k, s, p, n);
	for (t = p->taken; t; t = t->next)
		t->key = process_vm_key(p, t);
	if (files_lacks_threads(p))
		find_threads(k, s, p, n);
}
