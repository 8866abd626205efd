/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* FNV-1a with 64 bits */
#ifndef KVMSTATS_HASH_H
#define KVMSTATS_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HASH_BASIS	0xcbf29ce484222325ULL
#define HASH_FACTOR	0x100000001b3ULL

/* Add data to a hash, which begins with HASH_BASIS. */
static inline uint64_t hash_data(uint64_t hash, const void *data, size_t size)
{
	const unsigned char *byte = data;

	while (size--)
		hash = (hash ^ *byte++) * HASH_FACTOR;
	return hash;
}

static inline uint64_t hash_text(uint64_t hash, const char *text)
{
	return hash_data(hash, text, strlen(text));
}

#endif /* KVMSTATS_HASH_H */
