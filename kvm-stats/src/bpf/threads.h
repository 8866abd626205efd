/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Threads of vCPUs that a BPF program lists, and its map "vcpus" of them by TID */
#ifndef KVMSTATS_BPF_THREADS_H
#define KVMSTATS_BPF_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <bpf/libbpf.h>

#include "blame.bpf.h"
#include "source.h"

struct threads {
	struct blame_thread *list;	/* sorted by TID */
	size_t count, room;
};

/* Run a program that visits all tasks, and list the threads that it writes. */
int read_threads(struct threads *threads, const struct bpf_link *iterator);

bool has_thread(const struct threads *threads, uint32_t tid);

/*
 * Announce the vCPUs that are not listed: add entries to the map, until half of it is used. The rest is
 * for threads that the program enters. entry begins with a struct blame_vm; the rest is 0. Return true
 * if one was added.
 */
bool announce_threads(const struct threads *threads, const struct bpf_map *vcpus, void *entry,
		      const struct kvmstats_vm *first);

/* Share max entries, before the program is loaded. Return a negative errno without random bytes. */
int begin_shares(struct shares *shares, uint32_t max);

/* Make space in a map for twice the vCPUs of a host, before the program is loaded. */
int set_thread_room(struct bpf_map *map, struct shares *shares, const struct kvmstats_vm *first);

#endif /* KVMSTATS_BPF_THREADS_H */
