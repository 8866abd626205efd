/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Buckets of histograms, for BPF programs and those that read them */
#ifndef KVMSTATS_BPF_LOG2_H
#define KVMSTATS_BPF_LOG2_H

#include <linux/types.h>

/* The number of the highest bit; 0 for 0 */
static __always_inline __u32 find_highest_bit(__u64 n)
{
	__u32 bits = 0;

	for (int step = 32; step; step /= 2)
		if (n >> step) {
			n >>= step;
			bits += step;
		}
	return bits;
}

/* The bucket of a time: bucket 0 ends at 2^(shift + 1), and each other one is twice as long */
static __always_inline __u32 find_bucket(__u64 ns, __u32 shift, __u32 buckets)
{
	__u32 bucket = find_highest_bit(ns >> shift);

	return bucket < buckets ? bucket : buckets - 1;
}

#endif /* KVMSTATS_BPF_LOG2_H */
