// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rec_scan.h"
#include "xalloc.h"

/* Limit of bytes read per byte of the file: a false head costs a read. */
#define WORK_FACTOR	8

/* The smallest blocks of disks */
#define DISK_BLOCK	512

/* Less than so many bytes only at the end of the file */
static ssize_t read_at(int fd, uint64_t at, void *to, size_t size)
{
	size_t done = 0;
	ssize_t n;

	while (done < size && (n = pread(fd, (char *)to + done, size - done, at + done)) > 0)
		done += n;
	return done;
}

const char *scan_begins(int fd)
{
	unsigned char head[FILE_HEAD];

	return chunk_bad_file(head, read_at(fd, 0, head, sizeof(head)));
}

static void make_room(unsigned char **data, size_t *room, size_t size)
{
	if (size <= *room)
		return;
	*room = size;
	*data = check_alloc(realloc(*data, size));
}

bool scan_read(int fd, uint64_t at, struct chunk *chunk, unsigned char **data, size_t *room)
{
	unsigned char head[CHUNK_HEAD];

	if (read_at(fd, at, head, sizeof(head)) != sizeof(head) || !chunk_read_head(head, chunk))
		return false;
	make_room(data, room, chunk->size);
	return read_at(fd, at + CHUNK_HEAD, *data, chunk->size) == (ssize_t)chunk->size &&
	       chunk_is_whole(head, *data, chunk->size);
}

/* Return where the next head may be, size if there is none. *work: grows by the bytes that are read */
static uint64_t find_head(int fd, uint64_t at, uint64_t size, uint64_t *work)
{
	unsigned char block[4096], *found;
	ssize_t n;

	while (at < size) {
		n = read_at(fd, at, block, sizeof(block));
		*work += n;
		found = n > 3 ? memmem(block, n, "KVSC", 4) : NULL;
		if (found)
			return at + (found - block);
		/* Less is the end of the file, or a block that the disk cannot read. */
		at = n == sizeof(block) ? at + n - 3 : (at + n) / DISK_BLOCK * DISK_BLOCK + DISK_BLOCK;
	}
	return size;
}

uint64_t scan_chunks(int fd, uint64_t at, uint64_t size, scan_found *found, void *arg)
{
	uint64_t work = 0, next, end = at;
	unsigned char *data = NULL;
	struct chunk chunk;
	size_t room = 0;

	while (at < size) {
		unsigned char head[CHUNK_HEAD];
		bool whole = size - at >= CHUNK_HEAD &&
			     read_at(fd, at, head, sizeof(head)) == sizeof(head) &&
			     chunk_read_head(head, &chunk) && chunk.size <= size - at - CHUNK_HEAD;

		if (whole && (work += chunk.size) <= WORK_FACTOR * size) {
			whole = scan_read(fd, at, &chunk, &data, &room);
		} else if (whole) {
			next = size;
			whole = false;
		}
		if (whole) {
			next = at + CHUNK_HEAD + chunk.size;
			if (found)
				found(arg, &chunk, at, next - at);
			end = at = next;
			continue;
		}
		next = work <= WORK_FACTOR * size ? find_head(fd, at + 1, size, &work) : size;
		if (found)
			found(arg, NULL, at, next - at);
		at = next;
	}
	free(data);
	return end;
}

/* *lost: grows by the bytes that were read if there are fewer */
static bool read_exactly(int fd, void *to, size_t size, uint64_t *lost)
{
	size_t done = 0;
	ssize_t n;

	while (done < size && (n = read(fd, (char *)to + done, size - done)) > 0)
		done += n;
	*lost += done < size ? done : 0;
	return done == size;
}

bool scan_read_next(int fd, struct chunk *chunk, unsigned char **data, size_t *room,
		    uint64_t *skipped)
{
	unsigned char head[CHUNK_HEAD];

	*skipped = 0;
	if (!read_exactly(fd, head, sizeof(head), skipped))
		return false;
	for (;;) {
		if (chunk_read_head(head, chunk)) {
			make_room(data, room, chunk->size);
			if (!read_exactly(fd, *data, chunk->size, skipped)) {
				*skipped += sizeof(head);
				return false;
			}
			if (chunk_is_whole(head, *data, chunk->size))
				return true;
			*skipped += chunk->size + sizeof(head) - 1;
			memset(head, 0, sizeof(head));
		}
		memmove(head, head + 1, sizeof(head) - 1);
		if (!read_exactly(fd, head + sizeof(head) - 1, 1, skipped))
			return false;
		++*skipped;
	}
}
