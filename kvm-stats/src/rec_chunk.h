/* SPDX-License-Identifier: GPL-2.0-only */
/* A chunk of a recording: see recording.h. */
#ifndef REC_CHUNK_H
#define REC_CHUNK_H

#include "rec_encode.h"

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

/* Write the head of a chunk whose contents start at offset at + CHUNK_HEAD of b. */
void chunk_seal(struct bytes *b, size_t at, char what, bool key, uint64_t time);

/* Return the size of the chunk at the start, with its head; 0 if it is not complete. */
size_t chunk_read(const unsigned char *at, size_t left, struct chunk *chunk);

/* Return why this is not a recording, NULL if it is one. */
const char *chunk_bad_file(const unsigned char *data, size_t size);

#endif /* REC_CHUNK_H */
