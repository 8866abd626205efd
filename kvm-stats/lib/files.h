/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The source "files": files.c finds processes and reads, files_process.c borrows files. */
#ifndef KVMSTATS_FILES_H
#define KVMSTATS_FILES_H

#include <time.h>

#include "proc.h"
#include "reader.h"
#include "uevent.h"

/* A VM's or vCPU's file that was opened or borrowed through one of theirs. */
struct taken {
	struct taken *next;
	struct kvm_fd from;	/* in the VMM */
	struct gone gone;
	bool tells;		/* gone.hup is set by the kernel, not by us */
	bool missing;		/* the VMM has closed its own */
	bool shared;		/* not open: it is the open file of another process */
	bool moved;		/* from a process that has closed it: it keeps its key */
	uint64_t number;	/* VM id, 0 if the kernel provides none */
	uint64_t key;		/* VM key for the core */
	char name[48];		/* id string in the header */
	struct stats_file file;	/* fd is -1 if it is not readable */
	struct stats_file vcpus;	/* for a VM: all its vCPUs */
	pid_t tid;		/* vCPU's thread, 0 if not known yet */
};

struct process {
	struct process *next;
	pid_t pid;
	uint32_t serial;	/* unlike the PID, it is not used again */
	bool seen;
	bool denied;		/* it has a VM maybe, we cannot know */
	bool is_vmm;
	bool unreadable;	/* it has VMs, the kernel shows nothing of them */
	bool too_many;		/* some of its files are not read */
	long fds;		/* open files, 0 if unknown; -1: scan in any case */
	time_t first_look, last_look, last_compare;
	unsigned int vms;	/* VM fds */
	int kvm_fds;		/* files of KVM, of all kinds */
	int pidfd, folder;	/* -1 unless a VMM */
	struct gone gone;
	struct taken *taken;	/* in the order of descriptors, of each kind and look */
	unsigned int thread_looks;
};

struct files_state {
	struct kvmstats *k;
	struct reader reader;
	pid_t self;
	uint32_t serial;		/* latest one of a process */
	struct process *first;
	struct process *cursor;		/* the last one seen by this walk */
	struct process *spare;		/* of processes that have ended */
	struct uevents events;
	bool lost;			/* a VMM has less files, or has ended */
	time_t walked;			/* when all processes were gone through; 0: never */
	unsigned long getfd;		/* number of KVM_STATS_GETFD */
	bool no_getfd;			/* only the VMM can open stats fds */
	int kvm;			/* /dev/kvm, while files hold VMs; -1 */
	struct kvm_fd *list;		/* files of one process */
	pid_t *tid;			/* their threads */
	bool *known;			/* whether they were borrowed */
	int room;
	time_t now;
	int error;
};

/* Close the files; drop_process keeps the memory for another process. */
void files_drop_taken(struct taken *t);
void files_drop_process(struct files_state *s, struct process *p);

/* List the files of a process and borrow the new ones, if it is a VMM. */
void files_scan_process(struct kvmstats *k, struct files_state *s, struct process *p);

/* Give files that a process has closed, or that has exited, to another one that shares them. */
void files_hand_over(struct files_state *s, struct process *p);

/* Return true if the VMM has another file under the number of one that we borrowed. */
bool files_any_replaced(const struct files_state *s, const struct process *p);

/* Return true if the thread of a vCPU is not known yet. */
bool files_lacks_threads(const struct process *p);

/* Return true if the file is one of a VM; of a vCPU whose VM is not known. */
bool files_is_vm(const struct taken *t);
bool files_is_ambiguous(const struct process *p, const struct taken *t);

#endif /* KVMSTATS_FILES_H */
