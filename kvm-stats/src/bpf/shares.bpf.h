/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shares of the entries of a table, for BPF programs and their loaders. A user gets three quarters of
 * the entries that the others leave: it cannot fill the table.
 */
#ifndef KVMSTATS_BPF_SHARES_H
#define KVMSTATS_BPF_SHARES_H

#include <stdbool.h>
#include <linux/types.h>

/* Users whose entries are counted; a power of 2. Those with the same hash count as one. */
#define SHARE_USERS	1024

struct shares {
	__u32 user[SHARE_USERS];	/* entries by a hash of the UID */
	__u32 all;
	__u32 max;
	__u32 seed;		/* random: a user must not choose a UID that counts as another user's */
};

static inline __u32 *user_count(struct shares *shares, __u32 uid)
{
	return &shares->user[((uid ^ shares->seed) * 0x9e3779b97f4a7c15ULL >> 40) % SHARE_USERS];
}

/* Count an entry of a user. Return false if there is none left for this user. */
static inline bool take_entry(struct shares *shares, __u32 uid)
{
	const __s64 left = (__s32)(shares->max - shares->all);
	__u32 *count = user_count(shares, uid);

	if ((__s64)*count >= 3 * left)
		return false;
	__sync_fetch_and_add(count, 1);
	__sync_fetch_and_add(&shares->all, 1);
	return true;
}

static inline void return_entry(struct shares *shares, __u32 uid)
{
	__sync_fetch_and_add(user_count(shares, uid), -1);
	__sync_fetch_and_add(&shares->all, -1);
}

#endif /* KVMSTATS_BPF_SHARES_H */
