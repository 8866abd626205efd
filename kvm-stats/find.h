/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finding: which processes hold VMs, and as which file descriptors.
 *
 * KVM's files have no path, but /proc/PID/fd names them: "anon_inode:kvm-vm",
 * "anon_inode:kvm-vcpu:ID", and the statistics files themselves, where a
 * process keeps them open, "anon_inode:kvm-vm-stats" and
 * "anon_inode:kvm-vcpu-stats:ID". pidfd_getfd() then makes a copy of such a
 * descriptor; the kernel asks for the same permission as for ptrace.
 *
 * Nothing here opens or reads statistics, prints, or ends the program.
 */
#ifndef KVM_STATS_FIND_H
#define KVM_STATS_FIND_H

#include <stddef.h>
#include <sys/types.h>

enum kvm_fd_kind {
	KVM_FD_VM,
	KVM_FD_VCPU,
	KVM_FD_VM_STATS,
	KVM_FD_VCPU_STATS,
};

struct kvm_fd {
	enum kvm_fd_kind kind;
	int id;			/* of the vCPU */
	int num;		/* of the descriptor, in the process that has it */
};

/*
 * All KVM descriptors of a process, ordered by kind, id and number. Returns
 * how many, and the list, to be freed, in *list; or a negative errno.
 */
int find_fds(pid_t pid, struct kvm_fd **list);

int count_fds(const struct kvm_fd *list, int n, enum kvm_fd_kind kind);

/*
 * Call found() for each process of this host that has a VM. Returns the number
 * of processes that the caller may not look into, or a negative errno.
 */
int find_vmms(void (*found)(pid_t pid, const struct kvm_fd *list, int n));

/* The command name of a process, fit for a terminal; "?" if it has gone. */
void find_comm(pid_t pid, char *buf, size_t size);

int open_pidfd(pid_t pid);

/*
 * A copy of a descriptor of the process behind pidfd, or a negative errno:
 * -EBADF if it has been closed, or is another file by now.
 */
int take_fd(int pidfd, const struct kvm_fd *want);

#endif /* KVM_STATS_FIND_H */
