/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The statistics of all VMs and vCPUs of the caller's PID namespace, by a BPF
 * iterator over the open files of all processes: no VMM has to help, and no
 * descriptor of a VM is taken, so none is kept alive. Needs CAP_BPF and
 * CAP_PERFMON.
 */
#ifndef KVMSTATS_BPF_ITERATOR_H
#define KVMSTATS_BPF_ITERATOR_H

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
 * All VMs and vCPUs as they are now, each once, whoever else has its file:
 * by process, then descriptor (of the process that made the VM, if that has one).
 * Returns how many, or a negative errno. The records belong to the iterator, until
 * the next read.
 */
int bpf_iterator_read(struct bpf_iterator *iterator,
		      const struct bpf_record ***records);

/*
 * The same, of those processes alone that had any when all were looked at. Fails, too, where the
 * kernel cannot: before Linux 6.1.
 */
int bpf_iterator_read_known(struct bpf_iterator *iterator,
			    const struct bpf_record ***records);

/* The values of a record. */
static inline const __u64 *bpf_values(const struct bpf_record *record)
{
	return (const __u64 *)(record + 1);
}

#endif /* KVMSTATS_BPF_ITERATOR_H */
