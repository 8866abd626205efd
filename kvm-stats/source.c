// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "source.h"

static const char own_only[] =
	"this kernel opens statistics only for the VM's own process";

double monotonic(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static void __attribute__((noreturn)) fail(const struct sources *s, int error)
{
	switch (-error) {
	case EACCES:
	case EPERM:
		errx(1, "%d (%s): permission denied: needs root, or the right to ptrace it",
		     s->pid, s->comm);
	case ENOENT:
	case ESRCH:
		errx(1, "%d: no such process", s->pid);
	default:
		errx(1, "%d (%s): %s", s->pid, s->comm, strerror(-error));
	}
}

static void *allocate(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		err(1, NULL);
	return p;
}

static void add_source(struct sources *s, const struct kvm_fd *kvm_fd,
		       bool unique, int fd, enum stats_abi abi)
{
	bool vcpu = kvm_fd->kind == KVM_FD_VCPU ||
		    kvm_fd->kind == KVM_FD_VCPU_STATS;
	struct stats_table *table = &s->table[vcpu];
	struct source *source = &s->source[s->count++];
	const char *wrong;
	int len;

	if (vcpu)
		len = sprintf(source->label, "vcpu%d", kvm_fd->id);
	else
		len = sprintf(source->label, "vm");
	if (!unique)
		sprintf(source->label + len, "@%d", kvm_fd->num);

	if (!table->count) {
		wrong = stats_read_table(fd, abi, table);
		if (wrong)
			errx(1, "%d (%s): statistics of %s: %s", s->pid,
			     s->comm, source->label, wrong);
	}
	source->fd = fd;
	source->table = table;
	source->data = allocate(table->data_size);
	source->before = allocate(table->data_size);
}

/* Of the same kind and id: those of another VM, or copies of one descriptor. */
static bool is_unique(const struct kvm_fd *fds, int n, int i)
{
	int j, same = 0;

	for (j = 0; j < n; j++)
		same += fds[j].kind == fds[i].kind && fds[j].id == fds[i].id;
	return same == 1;
}

/*
 * Open the statistics of all VMs and vCPUs. Returns 0, or the error with which
 * the kernel refuses to: then it would refuse all of them.
 */
static int open_own(struct sources *s, const struct kvm_fd *fds, int n)
{
	enum stats_abi abi;
	int i, kvm, fd;

	for (i = 0; i < n; i++) {
		if (fds[i].kind != KVM_FD_VM && fds[i].kind != KVM_FD_VCPU)
			continue;
		kvm = take_fd(s->pidfd, &fds[i]);
		if (kvm == -EBADF)
			continue;
		if (kvm < 0)
			fail(s, kvm);
		fd = stats_open(kvm, &abi);
		close(kvm);
		/* a VM has ENOTTY for an unknown ioctl, a vCPU has EINVAL */
		if (fd == -EIO || fd == -ENOTTY || fd == -EINVAL)
			return fd;
		if (fd < 0)
			fail(s, fd);
		add_source(s, &fds[i], is_unique(fds, n, i), fd, abi);
	}
	return 0;
}

/* Take the statistics files that the process has opened for itself. */
static void take_held(struct sources *s, const struct kvm_fd *fds, int n)
{
	int i, fd;

	for (i = 0; i < n; i++) {
		if (fds[i].kind != KVM_FD_VM_STATS &&
		    fds[i].kind != KVM_FD_VCPU_STATS)
			continue;
		fd = take_fd(s->pidfd, &fds[i]);
		if (fd == -EBADF)
			continue;
		if (fd < 0)
			fail(s, fd);
		add_source(s, &fds[i], is_unique(fds, n, i), fd, GET_STATS_FD);
	}
}

void sources_open(struct sources *s, pid_t pid)
{
	int n, vms, vcpus, refused, supported;
	struct kvm_fd *fds;

	memset(s, 0, sizeof(*s));
	s->pid = pid;
	find_comm(pid, s->comm, sizeof(s->comm));
	s->pidfd = open_pidfd(pid);
	if (s->pidfd == -EINVAL || s->pidfd == -ENOENT)
		errx(1, "%d: not a process, but a thread of one", pid);
	if (s->pidfd < 0)
		fail(s, s->pidfd);

	n = find_fds(pid, &fds);
	if (n < 0)
		fail(s, n);
	vms = count_fds(fds, n, KVM_FD_VM);
	vcpus = count_fds(fds, n, KVM_FD_VCPU);
	if (!vms && !vcpus)
		errx(1, "%d (%s): this process has no VM", pid, s->comm);

	s->source = allocate(n * sizeof(*s->source));
	refused = open_own(s, fds, n);
	if (refused) {
		supported = stats_supported();
		if (refused != -EIO || !supported)
			errx(1, "this kernel has no files of KVM statistics");
		take_held(s, fds, n);
		if (s->count)
			warnx("%s: of %d VMs and %d vCPUs, you see the %u it holds open",
			      own_only, vms, vcpus, s->count);
		else if (supported > 0)
			errx(1, "%d (%s): %s, which holds none open: nothing to see",
			     pid, s->comm, own_only);
		else
			errx(1, "%d (%s): the kernel refuses, and /dev/kvm does not say why: %s",
			     pid, s->comm, strerror(-supported));
	}
	free(fds);
	if (!s->count)
		errx(1, "%d (%s): the VM has gone", pid, s->comm);
}

void sources_read(struct sources *s)
{
	unsigned int i;

	for (i = 0; i < s->count; i++) {
		struct source *source = &s->source[i];
		void *data = source->before;
		const char *wrong;

		source->before = source->data;
		source->time_before = source->time;
		source->data = data;
		source->time = monotonic();
		wrong = stats_read_data(source->fd, source->table, data);
		if (wrong)
			errx(1, "%d (%s): values of %s: %s", s->pid, s->comm,
			     source->label, wrong);
	}
}
