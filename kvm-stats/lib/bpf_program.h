/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the commands that attach a BPF program have in common */
#ifndef KVMSTATS_BPF_PROGRAM_H
#define KVMSTATS_BPF_PROGRAM_H

#include <stddef.h>

#include "bpf_layout.h"

/*
 * Find the kernel's types, then load and attach: load returns 0 or a negative errno. Returns the
 * error, with p->why and p->help filled in.
 */
int bpf_program_open(enum bpf_program_kind kind,
		     int (*load)(void *arg, const struct bpf_program_layout *layout),
		     void *arg, struct kvmstats_probe *p);

/*
 * Read a whole map. keys and values have space for so many entries, which must exceed the
 * map's by a bucket; *count is set to the number read. Returns 0 or a negative errno.
 */
int bpf_program_read(int map, void *keys, size_t key_size, void *values, size_t value_size,
		     size_t space, size_t *count);

#endif /* KVMSTATS_BPF_PROGRAM_H */
