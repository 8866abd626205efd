/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef KVMSTATS_CONTAINER_OF_H
#define KVMSTATS_CONTAINER_OF_H

#include <stddef.h>

/* Return the structure of which *pointer is this member; the compiler checks the member's type. */
#define container_of(pointer, type, member) ({				\
	const typeof(((type *)0)->member) *member_ = (pointer);		\
									\
	(type *)((const char *)member_ - offsetof(type, member));	\
})

#endif /* KVMSTATS_CONTAINER_OF_H */
