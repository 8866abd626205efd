/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Instead of lib/identity_reader.c: read identities at once and without child processes, which cost
 * a millisecond each and whose coverage would be lost. Every 16th process blocks.
 */
#ifndef FUZZERS_READERS_H
#define FUZZERS_READERS_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "identity_reader.h"

static size_t read_text(int proc, pid_t pid, const char *name, char *text, size_t size)
{
	char path[48];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%d/%s", pid, name);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, text, size - 1);
	if (fd >= 0)
		close(fd);
	n = n < 0 ? 0 : n;
	text[n] = '\0';
	return n;
}

bool reader_read_one(int proc, pid_t pid, struct proc_texts *texts)
{
	texts->pid = pid;
	texts->complete = true;
	texts->cgroups_hash = 0;	/* of no file: identities are read again */
	read_text(proc, pid, "comm", texts->comm, sizeof(texts->comm));
	read_text(proc, pid, "cgroup", texts->cgroups, sizeof(texts->cgroups));
	texts->size = read_text(proc, pid, "cmdline", texts->cmdline, sizeof(texts->cmdline));
	return true;
}

void readers_open(struct identity_readers *r, int proc)
{
	memset(r, 0, sizeof(*r));
	r->proc = proc;
}

void readers_close(struct identity_readers *r)
{
	r->reader->count = 0;
}

bool readers_start(struct identity_readers *r, const pid_t *pids, unsigned int count)
{
	if (r->reader->count)
		return false;
	memcpy(r->reader->pids, pids, count * sizeof(*pids));
	r->reader->count = count;
	return true;
}

void readers_take(struct identity_readers *r, const struct reader_results *results)
{
	static struct proc_texts texts;
	static unsigned int reads;
	unsigned int i, count = r->reader->count;

	r->reader->count = 0;
	for (i = 0; i < count; i++) {
		if (!(++reads % 16)) {
			results->blocked(results->arg, r->reader->pids[i]);
			continue;
		}
		reader_read_one(r->proc, r->reader->pids[i], &texts);
		results->read(results->arg, &texts);
	}
}

bool readers_wait(struct identity_readers *r)
{
	return false;
}

#endif /* FUZZERS_READERS_H */
