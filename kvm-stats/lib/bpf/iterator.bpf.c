// SPDX-License-Identifier: GPL-2.0-only
/*
 * Goes through the open files of all processes and writes out the statistics
 * of those that are VMs and vCPUs of KVM. Nothing is attached to anything: it
 * runs when it is read, in the reader's time.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "record.h"

/* <linux/magic.h> */
#define ANON_INODE_FS_MAGIC 0x09041934
/* enum pid_type */
#define PIDTYPE_TGID 1

/* What is used of the kernel's types; the loader finds the members by name. */
#pragma clang attribute push(__attribute__((preserve_access_index)), \
			     apply_to = record)
struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct signal_struct {
	struct pid *pids[4];
};

struct task_struct {
	struct mm_struct *mm;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct signal_struct *signal;
	__u64 start_boottime;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct super_block {
	unsigned long s_magic;
};

struct inode {
	struct super_block *i_sb;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
	void *private_data;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};
#pragma clang attribute pop

const volatile struct bpf_layout layout;

/* One reader, one buffer. */
struct {
	struct bpf_record record;
	char values[BPF_VALUES_MAX];
} out;

static __always_inline const void *read_pointer(const void *at)
{
	const void *pointer = NULL;

	bpf_probe_read_kernel(&pointer, sizeof(pointer), at);
	return pointer;
}

/* Whether the name is this, or begins with it where its 0 is not counted. */
static __always_inline bool is(const char *name, const char *this, int len)
{
	int i;

	for (i = 0; i < len; i++)
		if (name[i] != this[i])
			return false;
	return true;
}

/* The number of a process or thread where the reader is; 0: it has none. */
static __always_inline int number(const struct pid *pid)
{
	const struct task_struct *reader = (void *)bpf_get_current_task();
	const struct pid *own = BPF_CORE_READ(reader, thread_pid);
	unsigned int level = BPF_CORE_READ(own, level);
	unsigned long at = bpf_core_field_offset(struct pid, numbers) +
			   level * bpf_core_type_size(struct upid);
	const struct upid *mine = (const void *)own + at;
	const struct upid *theirs = (const void *)pid + at;

	if (!pid || BPF_CORE_READ(pid, level) < level ||
	    BPF_CORE_READ(theirs, ns) != BPF_CORE_READ(mine, ns))
		return 0;
	return BPF_CORE_READ(theirs, nr);
}

SEC("iter/task_file")
int kvm_files(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct bpf_record *record = &out.record;
	const void *object, *stat;
	char name[16] = "";
	__u32 size;

	if (!task || !file || file->f_inode->i_sb->s_magic != ANON_INODE_FS_MAGIC)
		return 0;
	bpf_probe_read_kernel_str(name, sizeof(name), file->f_path.dentry->d_name.name);
	object = file->private_data;
	record->vcpu_id = -1;
	record->tid = 0;
	if (is(name, "kvm-vm", sizeof("kvm-vm"))) {
		record->vm = (__u64)object;
		stat = object + layout.vm_stat;
		size = layout.vm_stat_size;
	} else if (is(name, "kvm-vcpu:", sizeof("kvm-vcpu:") - 1)) {
		record->vm = (__u64)read_pointer(object + layout.vcpu_kvm);
		record->tid = number(read_pointer(object + layout.vcpu_pid));
		bpf_probe_read_kernel(&record->vcpu_id, sizeof(record->vcpu_id),
				      object + layout.vcpu_id);
		stat = object + layout.vcpu_stat;
		size = layout.vcpu_stat_size;
	} else {
		return 0;
	}
	record->object = (__u64)object;
	record->started = task->group_leader->start_boottime;
	record->pid = number(task->signal->pids[PIDTYPE_TGID]);
	record->fd = ctx->fd;
	record->owner = task->mm &&
		task->mm == read_pointer((void *)record->vm + layout.vm_mm);
	record->size = size;
	if (size > sizeof(out.values) ||
	    bpf_probe_read_kernel(out.values, size, stat))
		return 0;
	bpf_seq_write(ctx->meta->seq, &out, sizeof(out.record) + size);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
