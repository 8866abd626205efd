/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types and constants of the kernel, for the BPF programs of the library and of kvm-stats */
#ifndef KVMSTATS_BPF_KERNEL_H
#define KVMSTATS_BPF_KERNEL_H

/* <linux/sched.h> */
#define TASK_DEAD	0x80
/* <linux/sched/prio.h>: real-time threads have a lower number */
#define MAX_RT_PRIO	100
/* Value of an unlimited quota, also of real-time threads: RUNTIME_INF */
#define NO_QUOTA	(~0ULL)

/* The members of the kernel's types that are read; the loader finds them by name. */
#pragma clang attribute push(__attribute__((preserve_access_index)), \
			     apply_to = record)
struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct refcount_struct {
	int counter;
};

struct pid {
	struct refcount_struct count;
	unsigned int level;
	struct hlist_head tasks[4];
	struct upid numbers[1];
};

struct signal_struct {
	struct pid *pids[4];
};

struct kernfs_node {
	struct kernfs_node *parent;
	const char *name;
	__u64 id;
};

/* 6.15 and later */
struct kernfs_node___rcu {
	struct kernfs_node *__parent;
};

struct cgroup {
	int level;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct rq {
	struct task_struct *curr;
	int cpu;
	__u64 clock;
	__u64 clock_task;
	/* 5.19 and later */
	__u64 clock_pelt;
	unsigned long lost_idle_time;
	__u64 prev_steal_time_rq;
};

struct cfs_rq {
	struct rq *rq;
	struct task_group *tg;
	/* 6.6 and later */
	__u64 throttled_clock_self;
	__u64 throttled_clock_self_time;
	/* 5.19 to 6.5 */
	__u64 throttled_clock_pelt;
	__u64 throttled_clock_pelt_time;
	/* up to 5.18 */
	__u64 throttled_clock_task;
	__u64 throttled_clock_task_time;
	int throttle_count;
};

struct sched_entity {
	struct sched_entity *parent;
	__u64 exec_start;
	__u64 sum_exec_runtime;
	__u64 nr_migrations;
	struct cfs_rq *cfs_rq;
};

/* With CONFIG_RT_GROUP_SCHED */
struct rt_rq {
	int rt_throttled;
	__u64 rt_time;
	__u64 rt_runtime;
	struct task_group *tg;
};

struct sched_rt_entity {
	struct rt_rq *rt_rq;
};

struct timerqueue_node {
	__s64 expires;
};

struct hrtimer {
	struct timerqueue_node node;
};

struct sched_dl_entity {
	__u64 dl_runtime;
	__u64 dl_period;
	__s64 runtime;
	unsigned int dl_throttled:1;
	struct hrtimer dl_timer;
};

struct rt_bandwidth {
	__s64 rt_period;
	__u64 rt_runtime;
	struct hrtimer rt_period_timer;
};

struct sched_info {
	unsigned long pcount;
	unsigned long long run_delay;
	unsigned long long last_arrival;
	unsigned long long last_queued;
};

struct cfs_bandwidth {
	__u64 quota;
};

struct task_group {
	struct cgroup_subsys_state css;
	struct sched_entity **se;	/* up to 7.2 */
	struct cfs_rq **cfs_rq;
	struct rt_bandwidth rt_bandwidth;
	struct task_group *parent;
	struct cfs_bandwidth cfs_bandwidth;
};

struct file;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
	unsigned long *open_fds;
};

struct files_struct {
	struct fdtable *fdt;
};

typedef struct {
	unsigned int val;
} kuid_t;

struct cred {
	kuid_t uid;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	struct mm_struct *mm;
	struct files_struct *files;
	const struct cred *cred;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	__u64 start_time;
	__u64 start_boottime;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct hlist_node pid_links[4];
	struct signal_struct *signal;
	struct css_set *cgroups;
	int on_cpu;
	int prio;
	unsigned int policy;
	unsigned int in_iowait:1;
	unsigned int frozen:1;
	unsigned int in_memstall:1;
	struct sched_entity se;
	struct sched_rt_entity rt;
	struct sched_dl_entity dl;
	struct sched_info sched_info;
	struct task_group *sched_task_group;
	struct hlist_head preempt_notifiers;
	unsigned long nvcsw;
	char comm[16];
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

struct file_operations;

struct file {
	struct path f_path;
	const struct file_operations *f_op;
	struct inode *f_inode;
	void *private_data;
};

/* x86 */
struct pt_regs {
	unsigned long r10;	/* fourth argument of a system call */
	long orig_ax;
};

struct pt_regs___arm64 {
	__u64 regs[4];		/* the first arguments of a system call */
	int syscallno;
};

struct xarray {
	void *xa_head;
};

struct xa_node {
	unsigned char shift;
	void *slots[1];
};

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};
#pragma clang attribute pop

static __always_inline const void *read_pointer(const void *at)
{
	const void *pointer = NULL;

	bpf_probe_read_kernel(&pointer, sizeof(pointer), at);
	return pointer;
}

#endif /* KVMSTATS_BPF_KERNEL_H */
