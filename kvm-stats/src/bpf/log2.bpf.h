/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Buckets of histograms in BPF programs */
#ifndef KVMSTATS_BPF_LOG2_H
#define KVMSTATS_BPF_LOG2_H

/* The number of the highest bit; 0 for 0 */
static __always_inline __u32 log2(__u64 n)
{
	__u32 bits = 0;

#pragma unroll
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
	__u32 bucket = log2(ns >> shift);

	return bucket < buckets ? bucket : buckets - 1;
}

#endif /* KVMSTATS_BPF_LOG2_H */
