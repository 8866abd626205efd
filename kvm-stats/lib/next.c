// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The source for kernels with KVM_STATS_NEXT: the kernel itself goes from VM to
 * VM. Two files for each, its own and that of all its vCPUs; neither holds it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi.h"
#include "privileges.h"
#include "reader.h"

struct next_vm {
	struct next_vm *next;
	struct gone gone;
	bool ended;
	uint64_t number;
	pid_t pid;
	struct stats_file vm, vcpus;
};

struct next_state {
	struct reader reader;
	int kvm;
	unsigned long request;	/* number of KVM_STATS_NEXT */
	uint64_t last;		/* number of the newest VM that was found */
	struct next_vm *first, **end;
};

static int find_next(const struct next_state *s, uint64_t after, uint32_t scope,
		     struct abi_stats_next *found)
{
	int fd;

	memset(found, 0, sizeof(*found));
	found->vm = after;
	found->scope = scope;
	fd = ioctl(s->kvm, s->request, found);
	return fd < 0 ? -errno : fd;
}

static int next_open(struct kvmstats *k, void **state, struct kvmstats_probe *p)
{
	struct next_state probe = { 0 }, *s;
	struct stats_ioctls ioctls;
	struct abi_stats_next found;
	int kvm, ret;

	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0) {
		ret = -errno;
		snprintf(p->why, sizeof(p->why), "/dev/kvm: %s", strerror(-ret));
		if (ret == -ENOENT)
			strcpy(p->help, "load the kernel module kvm_amd or kvm_intel");
		else if (ret == -EACCES)
			strcpy(p->help, "run it as root or in the group kvm");
		return ret;
	}
	ioctls = privileges_stats_ioctls();
	if (ioctls.flags <= 0 || !(ioctls.flags & ABI_CAP_STATS_NEXT)) {
		strcpy(p->why, "this kernel has no KVM_STATS_NEXT");
		ret = -ENODEV;
		goto fail;
	}
	/* After the largest number there is none: that says ENOENT. */
	probe.kvm = kvm;
	probe.request = ioctls.next;
	ret = find_next(&probe, UINT64_MAX, ABI_SCOPE_OWN, &found);
	if (ret != -ENOENT) {
		if (ret >= 0)
			close(ret);
		snprintf(p->why, sizeof(p->why), "KVM_STATS_NEXT: %s",
			 strerror(ret < 0 ? -ret : EIO));
		if (ret == -EPERM)
			strcpy(p->help, "run it as root or with CAP_PERFMON");
		ret = ret < 0 ? ret : -EIO;
		goto fail;
	}
	s = calloc(1, sizeof(*s));
	ret = s ? reader_open(&s->reader) : -ENOMEM;
	if (ret) {
		free(s);
		snprintf(p->why, sizeof(p->why), "%s", strerror(-ret));
		goto fail;
	}
	s->kvm = kvm;
	s->request = ioctls.next;
	s->end = &s->first;
	core_raise_files();
	privileges_names(k, p);
	*state = s;
	return 0;
fail:
	close(kvm);
	return ret;
}

static void next_vm_free(struct next_vm *vm)
{
	reader_drop(&vm->vm);
	reader_drop(&vm->vcpus);
	free(vm);
}

static void next_close(struct kvmstats *k, void *state)
{
	struct next_state *s = state;
	struct next_vm *vm, *next;

	for (vm = s->first; vm; vm = next) {
		next = vm->next;
		next_vm_free(vm);
	}
	close(s->kvm);
	reader_close(&s->reader);
	free(s);
}

/* Return 0 if it was added or cannot be read, or -errno if further calls are useless. */
static int add_vm(struct kvmstats *k, struct next_state *s, int fd,
		  const struct abi_stats_next *found)
{
	struct next_vm *vm = calloc(1, sizeof(*vm));
	struct abi_stats_next again;
	const char *wrong;
	int vcpus;

	if (!vm) {
		close(fd);
		return -ENOMEM;
	}
	vm->number = found->vm;
	vm->pid = found->pid;
	vm->vcpus.fd = -1;
	wrong = reader_add(k, &s->reader, fd, FILE_VM, &vm->vm, &vm->gone, NULL);
	if (!wrong) {
		vcpus = find_next(s, vm->number - 1, ABI_SCOPE_VCPUS, &again);
		if (vcpus >= 0 && again.vm != vm->number) {
			/* it ended just now, that is the one after it */
			close(vcpus);
			vcpus = -ENOENT;
		}
		if (vcpus == -ENOENT) {
			next_vm_free(vm);
			return 0;
		}
		if (vcpus < 0) {
			next_vm_free(vm);
			return vcpus;
		}
		wrong = reader_add(k, &s->reader, vcpus, FILE_VCPUS, &vm->vcpus,
				   &vm->gone, NULL);
	}
	if (wrong) {
		core_unread(k, KVMSTATS_FORMAT, "VM %llu of process %d: %s",
			    (unsigned long long)found->vm, vm->pid, wrong);
		next_vm_free(vm);
		return 0;
	}
	*s->end = vm;
	s->end = &vm->next;
	return 0;
}

static void find_new(struct kvmstats *k, struct next_state *s)
{
	struct abi_stats_next found;
	int fd, ret;

	for (;;) {
		fd = find_next(s, s->last, ABI_SCOPE_OWN, &found);
		if (fd == -ENOENT)
			return;
		ret = fd < 0 ? fd : add_vm(k, s, fd, &found);
		if (ret < 0) {
			/* to be tried again at the next sample */
			core_unread(k, core_reason(-ret), "the VMs after number %llu: %s",
				    (unsigned long long)s->last, strerror(-ret));
			return;
		}
		s->last = found.vm;
	}
}

static int next_source_sample(struct kvmstats *k, void *state)
{
	struct next_state *s = state;
	struct next_vm **at, *vm;
	struct core_vm *core;

	find_new(k, s);
	reader_poll(&s->reader);
	for (at = &s->first; (vm = *at);) {
		if (vm->ended) {
			*at = vm->next;
			next_vm_free(vm);
			continue;
		}
		at = &vm->next;
		core = reader_vm(k, &s->reader, &vm->vm, vm->number, vm->pid);
		if (!core)
			continue;
		core_vm_number(k, core, vm->number);
		reader_vcpus(k, &s->reader, &vm->vcpus, core);
		if (vm->gone.hup) {
			/* these were its last values: do not even keep its memory */
			reader_drop(&vm->vm);
			reader_drop(&vm->vcpus);
			core_vm_ended(core);
			vm->ended = true;
		}
	}
	s->end = at;
	return 0;
}

const struct source_ops source_next = {
	.name = "next",
	.what = "KVM_STATS_NEXT: the kernel's own list of all VMs",
	.open = next_open,
	.sample = next_source_sample,
	.close = next_close,
};
