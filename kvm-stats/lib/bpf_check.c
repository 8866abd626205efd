// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bpf_check.h"
#include "file.h"

/* How often to try until nothing changes between two reads of a file. */
#define MAX_RETRIES 10

#define fail(error, ...) (snprintf(why, why_size, __VA_ARGS__), -(error))

int bpf_check_types(const char *kind, const struct kvmstats_table *described,
		    const struct kvmstats_table *members, __u32 size,
		    char *why, size_t why_size)
{
	unsigned int i;

	for (i = 0; i < described->count; i++) {
		const struct kvmstats_desc *desc = &described->desc[i];
		const struct kvmstats_desc *member = kvmstats_find(members, desc->name);

		if (!member)
			return fail(EPROTO, "the kernel's type information has no statistic %s of a %s",
				    desc->name, kind);
		if (member->offset != desc->offset || member->size != desc->size)
			return fail(EPROTO, "%s of a %s: %u values at byte %u by the kernel's descriptor, %u at %u by its type information",
				    desc->name, kind, desc->size, desc->offset,
				    member->size, member->offset);
	}
	if (described->data_size != size)
		return fail(EPROTO, "the statistics of a %s have %zu bytes by the kernel's descriptors, %u by its type information",
			    kind, described->data_size, size);
	return 0;
}

static const struct bpf_record *find_record(const struct bpf_record **records,
					    int n, int fd)
{
	int i;

	for (i = 0; i < n; i++)
		if (records[i]->pid == getpid() && records[i]->fd == fd)
			return records[i];
	return NULL;
}

static int check_identity(const struct bpf_record *vm, const struct bpf_record *vcpu,
			  const struct probe_vm *own, char *why, size_t why_size)
{
	pid_t tid = syscall(SYS_gettid);

	if (!vm || !vcpu)
		return fail(EPROTO, "the BPF program does not see the %s of a VM of this process",
			    vm ? "vCPU" : "file");
	if (vcpu->vm != vm->object)
		return fail(EPROTO, "the BPF program does not see which VM a vCPU is of");
	if (vcpu->vcpu_id != PROBE_VCPU_ID)
		return fail(EPROTO, "the BPF program sees vCPU %d, not %d",
			    vcpu->vcpu_id, PROBE_VCPU_ID);
	if (!vm->owner || !vcpu->owner)
		return fail(EPROTO, "the BPF program reads a wrong owner of a VM");
	if (own->halts && vcpu->tid != tid)
		return fail(EPROTO, "the BPF program sees thread %d of a vCPU, not %d",
			    vcpu->tid, tid);
	return 0;
}

/* The values in the statistics files of the own VM and its vCPU */
static const char *read_files(const struct probe_vm *own, const struct bpf_layout *layout,
			      __u64 *vm, __u64 *vcpu)
{
	struct file_layout of_vm, of_vcpu;

	return	file_read_layout(own->vm_stats, &of_vm) ?:
		file_read_layout(own->vcpu_stats, &of_vcpu) ?:
		file_read_values(own->vm_stats, &of_vm, vm, layout->vm_stat_size) ?:
		file_read_values(own->vcpu_stats, &of_vcpu, vcpu, layout->vcpu_stat_size);
}

/* Return 1 if the values equal those of the file, 0 if the file changed while being read. */
static int compare_with_file(const char *kind, const __u64 *before, const __u64 *seen,
			     const __u64 *after, const struct kvmstats_table *members, __u32 size,
			     char *why, size_t why_size)
{
	unsigned int i, j;

	if (memcmp(before, after, size))
		return 0;
	for (i = 0; i < members->count; i++) {
		const struct kvmstats_desc *member = &members->desc[i];

		for (j = 0; j < member->size; j++) {
			__u32 at = member->offset / sizeof(__u64) + j;

			if (seen[at] != before[at])
				return fail(EPROTO, "the BPF program sees %llu as %s of a %s, its file says %llu",
					    seen[at], member->name, kind, before[at]);
		}
	}
	return 1;
}

static bool all_zero(const __u64 *values, __u32 size)
{
	__u32 i;

	for (i = 0; i < size / sizeof(*values); i++)
		if (values[i])
			return false;
	return true;
}

/*
 * There is no file to compare with: the vCPU left the guest for each halt, and at least
 * once for its memory. The values of the VM are only known not to be 0.
 */
static int check_halts(const __u64 *seen, const struct kvmstats_table *members,
		       unsigned int halts, char *why, size_t why_size)
{
	const struct kvmstats_desc *halt = kvmstats_find(members, "halt_exits");
	const struct kvmstats_desc *exits = kvmstats_find(members, "exits");

	if (!halts || !halt || !exits)
		return 0;
	if (kvmstats_value(halt, seen, 0) == halts && kvmstats_value(exits, seen, 0) > halts)
		return 0;
	return fail(EPROTO, "the BPF program sees %llu exits and %llu halt_exits of a vCPU that halted %u times",
		    (unsigned long long)kvmstats_value(exits, seen, 0),
		    (unsigned long long)kvmstats_value(halt, seen, 0), halts);
}

static int check_once(struct bpf_iterator *iterator, const struct bpf_kvm_types *types,
		      const struct probe_vm *own, __u64 *buffer, char *why, size_t why_size)
{
	const struct bpf_layout *layout = &types->layout;
	__u64 *vm_before = buffer, *vm_after = vm_before + BPF_VALUES_MAX / 8;
	__u64 *vcpu_before = vm_after + BPF_VALUES_MAX / 8;
	__u64 *vcpu_after = vcpu_before + BPF_VALUES_MAX / 8;
	const struct bpf_record **records, *vm, *vcpu;
	bool files = own->vm_stats >= 0 && own->vcpu_stats >= 0;
	const char *wrong = NULL;
	int n, error;

	if (files)
		wrong = read_files(own, layout, vm_before, vcpu_before);
	n = bpf_iterator_read_own(iterator, &records);
	if (n < 0)
		return fail(-n, "reading what the BPF program sees: %s", strerror(-n));
	if (files && !wrong)
		wrong = read_files(own, layout, vm_after, vcpu_after);
	if (wrong)
		return fail(EIO, "the statistics file of a VM of this process: %s", wrong);

	vm = find_record(records, n, own->vm);
	vcpu = find_record(records, n, own->vcpu);
	error = check_identity(vm, vcpu, own, why, why_size);
	if (error)
		return error;
	if (own->halts && all_zero(bpf_values(vcpu), vcpu->size))
		return fail(EPROTO, "the BPF program sees only zeros of a vCPU that ran");
	if (!files)
		return check_halts(bpf_values(vcpu), types->vcpu, own->halts, why, why_size) ?: 1;
	error = compare_with_file("VM", vm_before, bpf_values(vm), vm_after, types->vm,
				  layout->vm_stat_size, why, why_size);
	if (error <= 0)
		return error;
	return compare_with_file("vCPU", vcpu_before, bpf_values(vcpu), vcpu_after, types->vcpu,
				 layout->vcpu_stat_size, why, why_size);
}

static int check_values(struct bpf_iterator *iterator, const struct bpf_kvm_types *types,
			const struct probe_vm *own, char *why, size_t why_size)
{
	__u64 *buffer = calloc(4, BPF_VALUES_MAX);
	int i, same = 0;

	if (!buffer)
		return fail(ENOMEM, "%s", strerror(ENOMEM));
	for (i = 0; i < MAX_RETRIES && !same; i++)
		same = check_once(iterator, types, own, buffer, why, why_size);
	free(buffer);
	if (!same)
		return fail(EAGAIN, "the statistics of a temporary VM keep changing");
	return same < 0 ? same : 0;
}

int bpf_iterator_open_checked(struct bpf_iterator **opened,
			      const struct bpf_kvm_types *types,
			      const struct probe_vm *own, char *why, size_t why_size)
{
	struct bpf_iterator *iterator = NULL;
	int error;

	error = bpf_iterator_open(&iterator, &types->layout, why, why_size);
	if (error)
		return error;
	error = check_values(iterator, types, own, why, why_size);
	if (error)
		bpf_iterator_close(iterator);
	else
		*opened = iterator;
	return error;
}
