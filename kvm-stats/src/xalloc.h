/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef XALLOC_H
#define XALLOC_H

#include <err.h>

/* Return the memory; exit with status 1 if it is NULL. */
static inline void *check_alloc(void *memory)
{
	if (!memory)
		err(1, NULL);
	return memory;
}

#endif /* XALLOC_H */
