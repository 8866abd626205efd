/* SPDX-License-Identifier: GPL-2.0-only */
/* A chunk of a recording: see recording.h. */
#ifndef CHUNK_H
#define CHUNK_H

#include "bytes.h"

#define CHUNK_HEAD	24
#define FILE_HEAD	16
#define CHUNK_MAX	(64 << 20)	/* bytes that a reader believes in */

struct chunk {
	char what;
	bool key;
	uint64_t time;
	const unsigned char *data;
	size_t size;
};

/* Make a head for what is in b from offset at + CHUNK_HEAD on. */
void chunk_seal(struct bytes *b, size_t at, char what, bool key, uint64_t time);

/* Bytes of the chunk at the start, with its head; 0: there is none, or not all of it */
size_t chunk_read(const unsigned char *at, size_t left, struct chunk *chunk);

/* Why it is no recording, NULL if it is one */
const char *chunk_bad_file(const unsigned char *data, size_t size);

#endif /* CHUNK_H */
