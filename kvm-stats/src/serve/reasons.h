/* SPDX-License-Identifier: GPL-2.0-only */
/* Exported reasons of exits: the most expensive ones of the last minutes of each VM (recent.h) */
#ifndef SERVE_REASONS_H
#define SERVE_REASONS_H

#include <stdint.h>

struct exits_vm;

/* After a sample, which covers the time elapsed: list at most max reasons. */
void reasons_update(struct exits_vm *vm, unsigned int max, uint64_t elapsed);

#endif /* SERVE_REASONS_H */
