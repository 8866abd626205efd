// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzz a reader that follows a recording while it is written, renamed, emptied and replaced, with
 * libFuzzer. Each step is a byte; the chunks of a step follow its size, and their checksums are
 * corrected.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "chunks.h"
#include "errors.h"

#define FIRST_FREE_FD	40	/* more than libFuzzer has */

static char path[64], old[64];

static void write_head(int flags)
{
	unsigned char head[FILE_HEAD] = RECORDING_MAGIC;
	int fd = open(path, O_WRONLY | O_CREAT | flags, 0600);

	put_le32(head + 12, RECORDING_FORMAT);
	if (fd < 0 || write(fd, head, sizeof(head)) < 0)
		abort();
	close(fd);
}

/* Append the chunks, with the checksums that the contents have. */
static void append(const uint8_t *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_APPEND);
	unsigned char *bytes = copy_chunks(data, size);

	if (fd < 0 || write(fd, bytes, size) < 0)
		abort();
	close(fd);
	free(bytes);
}

/* As serve --from does */
static void read_new(struct recording *rec, struct kvmstats *k)
{
	unsigned int replaced = recording_replaced(rec);

	while (recording_fetch(rec)) {
		if (replaced != recording_replaced(rec)) {
			replaced = recording_replaced(rec);
			recording_seek_file(rec);
		} else {
			kvmstats_sample(k);
		}
	}
}

static void step(struct recording *rec, struct kvmstats *k, uint8_t what)
{
	switch (what % 8) {
	case 0:
	case 1:
		read_new(rec, k);
		break;
	case 2:
		rename(path, old);
		write_head(O_TRUNC);
		break;
	case 3:
		write_head(O_TRUNC);
		break;
	case 4:
		unlink(path);
		write_head(O_TRUNC);
		break;
	case 5:
		if (recording_count(rec))
			recording_seek(rec, what / 8 % recording_count(rec));
		break;
	case 6:
		recording_collect(rec, 60000000000);
		break;
	case 7:
		if (truncate(path, FILE_HEAD + what))
			abort();
		break;
	}
	if (recording_count(rec) && recording_position(rec) >= recording_count(rec))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct recording *rec;
	static struct kvmstats *k;
	const uint8_t *at = data, *end = data + size;
	size_t bytes;

	snprintf(path, sizeof(path), "/dev/shm/kvm-stats-fuzz-%d", getpid());
	snprintf(old, sizeof(old), "%s.1", path);
	unlink(old);
	write_head(O_TRUNC);
	k = NULL;
	if (!setjmp(exited)) {
		while (end - at >= 3) {
			const uint8_t what = *at++;

			bytes = at[0] | at[1] << 8;
			at += 2;
			if (bytes > (size_t)(end - at))
				bytes = end - at;
			append(at, bytes);
			at += bytes;
			if (!k)
				rec = recording_open(path, &k);
			else
				step(rec, k, what);
		}
	}
	if (k)
		kvmstats_close(k);
	/* A recording that cannot be opened leaves its file to the end of the process. */
	syscall(SYS_close_range, FIRST_FREE_FD, ~0U, 0);
	unlink(path);
	unlink(old);
	return 0;
}
