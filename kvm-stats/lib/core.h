/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is behind struct kvmstats: the core's own, sources use source.h. */
#ifndef KVMSTATS_CORE_H
#define KVMSTATS_CORE_H

#include "events.h"
#include "source.h"

/*
 * What the kernels call one and the same thing, as positions in the values:
 * s390 has no number of exits but a dozen kinds of them.
 */
#define ROLE_PARTS	48
struct role {
	unsigned int count;	/* 0: there is no such statistic */
	uint16_t word[ROLE_PARTS];
};

enum role_name {
	/* after the events: EVENT_exits and so on */
	ROLE_HALT = EVENT_COUNT,
	ROLE_POLL,
	ROLE_BLOCKING,
	ROLES,
};

/* What of a vCPU's time was told already, against what the kernel has booked */
struct account {
	struct thread_times thread;	/* of the sample before */
	/* what was told of the thread's run and ready */
	uint64_t run, ready;
	uint64_t wait_max;		/* so long can a wait last that is not booked */
	uint64_t guessed;		/* was told as run, and may be booked as ready */
	uint64_t assumed;		/* so long its state was assumed, since it was known */
	uint64_t throttled, poll, ended;	/* booked, and not told yet */
	uint64_t halt;			/* told of a halt that has not ended */
};

struct core_vcpu {
	struct kvmstats_vcpu pub;
	bool seen;
	/* now and before are in the same place if nothing has changed, then other is free */
	uint64_t *now, *before, *other, *total;
	struct thread_times thread;	/* of this sample */
	bool thread_given;
	pid_t thread_tid;		/* whose account.thread is */
	pid_t files_tid;		/* whose these files are */
	unsigned int rested;		/* samples in which it has not run */
	struct account account;
	int schedstat, stat;		/* -1: not open */
	uint64_t room[];		/* for the values */
};

struct core_vm {
	struct kvmstats_vm pub;
	uint64_t key;
	bool seen, had_values, labelled, hidden;
	uint64_t process_started;	/* CLOCK_BOOTTIME, ns; 0: not known */
	char process_label[128];	/* the label of its process' first VM */
	unsigned int nth;		/* of its process, from 1; 0: mixed */
	uint64_t *now, *before, *total;
	uint64_t *sum, *growth, *vcpu_total;	/* over vCPUs */
	struct core_vcpu **vcpu;	/* those that are there, then the others */
	struct kvmstats_vcpu **pub_vcpu;
	unsigned int vcpus;		/* all; pub.vcpus are there */
	unsigned int room, cursor;
};

struct unread {
	unsigned int count;
	char why[256];
};

struct kvmstats {
	const struct source_ops *source;	/* NULL: none works */
	void *state;
	char only[32];			/* the name of the one to use; "": the best */
	bool wait;
	unsigned int changes;
	char source_why[600];
	char proc_path[256];
	uint64_t kvm, looked;		/* which one is there; when a source was chosen */
	int proc;
	struct kvmstats_table *table[KVMSTATS_SCOPES];
	struct role role[KVMSTATS_SCOPES][ROLES];
	struct core_vm **vm;		/* by process, then number */
	unsigned int vms, room, cursor;
	uint64_t time;			/* not 0: given by the source */
	uint64_t sampled, sampled_before;	/* when the last samples began */
	uint64_t keep;
	char problem[256];
	unsigned int unread;
	const char *why;		/* of the first */
	struct unread reason[KVMSTATS_REASONS];
};

/* Find the roles of a table's statistics. */
void activity_roles(const struct kvmstats_table *table, struct role *role);

/* Fill in sum, growth, totals and activity of a VM that was just read. */
void activity_update(struct kvmstats *k, struct core_vm *vm);

/* Before that: this vCPU has gone. */
void activity_drop(const struct kvmstats *k, struct core_vm *vm, const struct core_vcpu *vcpu);

/* It has the values of the sample before: mostly those of one that is idle. */
static inline bool unchanged(const struct core_vcpu *vcpu)
{
	return vcpu->now == vcpu->before;
}

/* A counter that was set to 0 through debugfs has not grown. */
static inline uint64_t grown(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

/* Of roles whose statistics are in values: the sum, and how much they grew */
uint64_t role_sum(const struct role *role, const uint64_t *values);
uint64_t role_growth(const struct role *role, const uint64_t *now, const uint64_t *before);

/* Read what /proc knows of the vCPU's thread, into vcpu->thread. */
void thread_read(struct kvmstats *k, const struct core_vm *vm, struct core_vcpu *vcpu);
void thread_close(struct core_vcpu *vcpu);

/*
 * How the vCPU spent the time since the sample before: pub.last.times, which is added
 * to pub.times. ended: its VM has, meanwhile.
 */
void times_update(struct kvmstats *k, struct core_vcpu *vcpu, bool ended);

void times_add(struct kvmstats_times *sum, const struct kvmstats_times *times);

/* Forget the VM k->vm[i]. */
void core_forget(struct kvmstats *k, unsigned int i);

/* Forget all VMs and tables. */
void core_forget_all(struct kvmstats *k);

/* Open the best source that works. -EINVAL: there is none of this name; -ENODEV */
int source_choose(struct kvmstats *k);

/*
 * At a sample: choose again if the one in use failed, if KVM is another one (its module
 * was replaced, or came), and every minute if it is not the best.
 */
void source_look(struct kvmstats *k, bool failed);

/* Labels of VMs that came with this sample */
void label_vms(struct kvmstats *k);

#endif /* KVMSTATS_CORE_H */
