/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Statistics files, however they were come by: what their sources share. */
#ifndef KVMSTATS_READER_H
#define KVMSTATS_READER_H

#include "file.h"
#include "proc.h"
#include "source.h"
#include "stat_group.h"

enum file_kind {
	FILE_VM,
	FILE_VCPU,
	FILE_VCPUS,	/* all vCPUs of a VM, one row each */
	FILE_KINDS,
};

struct stats_file {
	int fd;			/* -1 if closed */
	struct file_layout layout;
	/* Of FILE_VCPUS, if fdinfo has the ids and threads: as read at a time */
	struct proc_row *row;
	int rows;
	uint64_t rows_read;	/* core_now() */
	unsigned int reads;	/* since no thread was missing */
};

struct reader {
	/* The first file of each kind: the others have to be the same. */
	struct {
		bool known;
		struct file_layout layout;
		size_t size;		/* bytes of all values, or of one row */
	} kind[FILE_KINDS];
	size_t id_word, tid_word;	/* in a row, unless fdinfo has them */
	struct stat_group exits;	/* 0 for a vCPU that has never run */
	uint64_t *values;		/* as many as were ever needed */
	size_t room;			/* bytes */
	int epoll;			/* reports files whose VM was destroyed */
	bool detached;			/* the kernel announces that it does */
};

int reader_open(struct reader *r);
void reader_close(struct reader *r);

/*
 * Take over fd, a statistics file: read its header, and the descriptors if it is the first
 * of its kind. Return NULL, or what is wrong with the file after closing it. gone->hup
 * becomes true once its VM was destroyed; *tells, if not NULL, is set to whether the kernel
 * reports this. gone must outlive the file.
 */
struct gone {
	bool hup;
};
const char *reader_add(struct kvmstats *k, struct reader *r, int fd,
		       enum file_kind kind, struct stats_file *file,
		       struct gone *gone, bool *tells);
/* Watch another descriptor, which becomes readable on destruction. */
int reader_watch(struct reader *r, int fd, struct gone *gone);
void reader_drop(struct stats_file *file);

/* Note destroyed VMs. Call before reading values, which are the last ones then. */
void reader_poll(struct reader *r);

/* Read and report. NULL or false: not reported, and core_unread() said why. */
struct core_vm *reader_vm(struct kvmstats *k, struct reader *r,
			  const struct stats_file *file, uint64_t key, pid_t pid);
struct core_vcpu *reader_vcpu(struct kvmstats *k, struct reader *r, const struct stats_file *file,
			      struct core_vm *vm, uint32_t id, pid_t tid);
bool reader_vcpus(struct kvmstats *k, struct reader *r, struct stats_file *file,
		  struct core_vm *vm);

#endif /* KVMSTATS_READER_H */
