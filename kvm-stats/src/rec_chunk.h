/* SPDX-License-Identifier: GPL-2.0-only */
/* A chunk of a recording: see recording.h. */
#ifndef REC_CHUNK_H
#define REC_CHUNK_H

#include "rec_encode.h"

#define CHUNK_HEAD	24
#define FILE_HEAD	16
#define CHUNK_MAX	(64 << 20)	/* bytes that a reader believes in */

struct chunk {
	char kind;
	uint32_t key;			/* number of the key sample that it is or depends on */
	uint64_t time;
	size_t size;			/* bytes of its contents in the file */
	bool packed;
};

/* Pack the contents if wanted, which start at offset at + CHUNK_HEAD of b, and write the head. */
void chunk_seal(struct bytes *b, size_t at, char kind, uint32_t key, uint64_t time, bool wants_packed);

/* Read CHUNK_HEAD bytes. Return false if this is not the head of a chunk. */
bool chunk_read_head(const unsigned char *head, struct chunk *chunk);

/* Return true if head and contents are what was written. */
bool chunk_is_whole(const unsigned char *head, const void *data, size_t size);

/*
 * Unpack contents that are whole: *data, of *room bytes, becomes what was packed, and size its
 * bytes. Return false if this fails.
 */
bool chunk_unpack(struct chunk *chunk, unsigned char **data, size_t *room);

/* Return why a file that starts so is not a recording, NULL if it is one. size: up to FILE_HEAD */
const char *chunk_bad_file(const unsigned char *data, size_t size);

#endif /* REC_CHUNK_H */
