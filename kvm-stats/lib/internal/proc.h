/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Information in /proc on processes that hold KVM files. These files have no path, but
 * /proc/PID/fd names them; pidfd_getfd() copies such a descriptor and requires the same
 * permission as ptrace.
 */
#ifndef KVMSTATS_PROC_H
#define KVMSTATS_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum kvm_fd_kind {
	KVM_FD_VM,
	KVM_FD_VCPU,
	KVM_FD_VM_STATS,
	KVM_FD_VCPU_STATS,
	KVM_FD_VCPUS_STATS,
	KVM_FD_KINDS,
};

struct kvm_fd {
	enum kvm_fd_kind kind;
	int id;			/* vCPU id */
	int num;		/* descriptor number in its process */
};

/*
 * Entries of a directory that are numbers, in the order in which the kernel has
 * them (/proc: ascending); each call of number() may end it by returning
 * non-zero, which is then returned. A negative errno if it cannot be read.
 * Allocates nothing.
 */
int proc_numbers(int dirfd, int (*number)(void *arg, int dirfd, int n), void *arg);

/* Descriptors and threads of a process that are read, at most */
#define PROC_FDS_MAX	65536
#define PROC_THREADS_MAX	8192

/*
 * The KVM descriptors of a process, at most max of them: how many there are
 * (more than max: ask again with more room), or a negative errno. *all: how many
 * descriptors of any kind it has, PROC_FDS_MAX + 1 if there are more than PROC_FDS_MAX.
 */
int proc_kvm_fds(int proc, pid_t pid, struct kvm_fd *list, int max, long *all);

/* The folder of a process' descriptors for proc_count_fds(), or -1 */
int proc_fd_folder(int proc, pid_t pid);

/*
 * Return the number of open files of a process, 0 if the kernel does not report it (before
 * 6.2), or -1 if the process has exited. Uses the open directory if it is not -1, which is
 * faster. Files that are being opened count.
 */
long proc_count_fds(int proc, pid_t pid, int folder);

/*
 * Read a file of a process, or of a thread in its directory "task": at most size - 1 bytes, and a
 * '\0'. Return false if it is empty or cannot be read.
 */
bool proc_read(int proc, pid_t pid, const char *name, char *text, size_t size);

/* Open a file below /proc that is read line by line; NULL and errno if it cannot be opened. */
FILE *proc_open(int proc, const char *path);

/* Hash a file of a process, see hash.h. Return false if it cannot be read. */
bool proc_hash(int proc, pid_t pid, const char *name, uint64_t *hash);

int proc_pidfd(pid_t pid);

/*
 * Return a copy of a descriptor of the process, or a negative errno: -EBADF if it has been
 * closed or is another file by now.
 */
int proc_take_fd(int pidfd, const struct kvm_fd *want);

/* Return the number in line NAME: of our descriptor's fdinfo, 0 if absent. */
uint64_t proc_fdinfo(int fd, const char *name);

/* A row of a statistics file, as fdinfo shows it */
struct proc_row {
	uint32_t id;
	pid_t tid;	/* in proc's PID namespace, or 0 */
};

/*
 * Read the rows of our descriptor's fdinfo into *rows, which is reallocated. Return their
 * number, or a negative errno.
 */
int proc_rows(int proc, int fd, struct proc_row **rows);

/* Return true if it is neither a thread of the kernel nor a process that has exited. */
bool proc_is_user(int proc, pid_t pid);

/* Read what the process calls itself. Unlike other files, it never waits for the process. */
bool proc_comm(int proc, pid_t pid, char *comm, size_t size);

/* Return when a process started, ns of CLOCK_BOOTTIME; 0 if unknown. */
uint64_t proc_started(int proc, pid_t pid);

/*
 * The threads that run a process' vCPUs: fills in tid[i] for each vCPU fd
 * list[i], where it is not 0, and counts those it found. By the system call in
 * which the thread is, or by the name that the VMM gave it; the latter only if
 * names is true, as names have no VM in them.
 */
int proc_vcpu_threads(int proc, pid_t pid, const struct kvm_fd *list, int n,
		      bool names, pid_t *tid);

#endif /* KVMSTATS_PROC_H */
