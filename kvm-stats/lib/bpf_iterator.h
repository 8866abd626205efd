/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The statistics of all VMs and vCPUs of the caller's PID namespace, by a BPF
 * iterator over the open files of all processes: no VMM has to help, and no
 * descriptor of a VM is taken, so none is kept alive. Needs CAP_BPF and
 * CAP_PERFMON.
 */
#ifndef KVMSTATS_BPF_ITERATOR_H
#define KVMSTATS_BPF_ITERATOR_H

#include <stdbool.h>
#include <stddef.h>

#include "bpf/record.h"

struct bpf_iterator;

/*
 * From now on libbpf's first complaint in this thread goes to text, which has room for
 * COMPLAINT_SIZE bytes; NULL: as before.
 */
#define COMPLAINT_SIZE 128
void bpf_complaints(char *text);

/*
 * Load the program for this layout. Returns 0, or a negative errno and the
 * reason, in words, in why.
 */
int bpf_iterator_open(struct bpf_iterator **iterator,
		      const struct bpf_layout *layout, char *why, size_t size);
void bpf_iterator_close(struct bpf_iterator *iterator);

/*
 * Read each VM and vCPU once, whichever processes have its file: sorted by process, then by
 * descriptor (of the process that created the VM, if it has one). With threads, also those
 * without a file that a thread runs, or ran when bpf_iterator_note() was called. Returns the number of records or a negative
 * errno. The iterator owns the records until the next read.
 */
int bpf_iterator_read(struct bpf_iterator *iterator, bool threads,
		      const struct bpf_record ***records);

/*
 * Remember which vCPUs threads run at this moment, for later reads with threads. Return true if the
 * last read did not find one of them.
 */
bool bpf_iterator_note(struct bpf_iterator *iterator);

/* Return true if the last read that asked for threads found a VM or vCPU without a file. */
bool bpf_iterator_hides(const struct bpf_iterator *iterator);

/* Read only the processes that had VMs or vCPUs at the last read of their files. */
int bpf_iterator_read_known(struct bpf_iterator *iterator,
			    const struct bpf_record ***records);

/* Read only this process, whatever the others do. */
int bpf_iterator_read_own(struct bpf_iterator *iterator, const struct bpf_record ***records);

/*
 * Keep the last values of vCPUs from now on: a record for each thread of a vCPU that exits.
 * Returns 0 or a negative errno.
 */
int bpf_iterator_keep_finals(struct bpf_iterator *iterator);

/*
 * Call take for each record since the previous call; it returns a negative errno to stop.
 * lost is set to the number of records that were lost since the program was loaded.
 */
int bpf_iterator_take_finals(struct bpf_iterator *iterator,
			     int (*take)(void *arg, const struct bpf_record *record), void *arg,
			     __u64 *lost);

/*
 * Return whether the last read left out files, because a user had used up the share of one user:
 * the next one reads them. *user is the first such user.
 */
bool bpf_iterator_is_partial(const struct bpf_iterator *iterator, unsigned int *user);

/* The values of a record. */
static inline const __u64 *bpf_values(const struct bpf_record *record)
{
	return (const __u64 *)(record + 1);
}

#endif /* KVMSTATS_BPF_ITERATOR_H */
