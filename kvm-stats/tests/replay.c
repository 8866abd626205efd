// SPDX-License-Identifier: GPL-2.0-only
/*
 * The source of the tests: reads the output of record.c as files of this host, in any byte
 * order. The environment variable KVM_STATS_REPLAY names a directory: "samples" is the
 * recording, "proc" a procfs with the processes. After the last sample, it is repeated. Linked
 * instead of lib/sources.c, lib/describe.c, src/host.c and src/stat_description.c, which
 * depend on the host they run on or are built for.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../src/app.h"
#include "../src/host.h"
#include "abi.h"
#include "core.h"
#include "reader.h"

#define MAX_FILE	65536

struct replay {
	FILE *samples;
	bool swapped;
	struct reader reader;
	struct gone gone;
	/* a file of each scope, which gets the values of one after the other */
	struct stats_file file[KVMSTATS_SCOPES];
	long sample;			/* where the next one begins */
};

static uint32_t swap32(uint32_t n, bool swap)
{
	return swap ? __builtin_bswap32(n) : n;
}

static size_t parse_hex(const char *text, unsigned char *bytes)
{
	unsigned int byte;
	size_t n = 0;

	while (n < MAX_FILE && sscanf(text + 2 * n, "%2x", &byte) == 1)
		bytes[n++] = byte;
	return n;
}

/* Header and descriptors into this machine's byte order */
static void swap_head(unsigned char *bytes, size_t size, bool swap)
{
	bool getfd = !memcmp(bytes, "kvm-", 4);
	uint32_t *words = (uint32_t *)(bytes + (getfd ? 64 : 0));
	unsigned int i, n = getfd ? 4 : 6;
	uint32_t name_size, count, desc_offset;

	for (i = 0; i < n; i++)
		words[i] = swap32(words[i], swap);
	name_size = words[getfd ? 0 : 1];
	count = words[getfd ? 1 : 2];
	desc_offset = words[getfd ? 2 : 4];
	for (i = 0; i < count && swap; i++) {
		struct abi_desc *d = (void *)(bytes + desc_offset +
					      i * (sizeof(*d) + name_size));

		if ((unsigned char *)(d + 1) > bytes + size)
			break;
		d->flags = __builtin_bswap32(d->flags);
		d->exponent = __builtin_bswap16(d->exponent);
		d->size = __builtin_bswap16(d->size);
		d->offset = __builtin_bswap32(d->offset);
		d->bucket_size = __builtin_bswap32(d->bucket_size);
	}
}

static const char *add_head(struct kvmstats *k, struct replay *r, const char *line)
{
	enum kvmstats_scope scope = strncmp(line, "vm ", 3) ? KVMSTATS_VCPU : KVMSTATS_VM;
	static uint64_t file[MAX_FILE / 8];
	size_t size = parse_hex(strchr(line, ' ') + 1, (void *)file);
	int fd = memfd_create("replay", MFD_CLOEXEC);

	swap_head((void *)file, size, r->swapped);
	if (fd < 0 || pwrite(fd, file, size, 0) != (ssize_t)size)
		return strerror(errno);
	return reader_add(k, &r->reader, fd, scope == KVMSTATS_VM ? FILE_VM : FILE_VCPU,
			  &r->file[scope], &r->gone, NULL);
}

static const char *put_values(struct replay *r, enum kvmstats_scope scope,
			      const char *hex)
{
	static uint64_t values[MAX_FILE / 8];
	size_t size = parse_hex(hex, (void *)values), i;

	for (i = 0; r->swapped && i < size / 8; i++)
		values[i] = __builtin_bswap64(values[i]);
	if (pwrite(r->file[scope].fd, values, size, r->file[scope].layout.data_offset) !=
	    (ssize_t)size)
		return strerror(errno);
	return NULL;
}

static int replay_open(struct kvmstats *k, void **state, struct kvmstats_probe *p)
{
	const char *dir = getenv("KVM_STATS_REPLAY");
	struct replay *r = calloc(1, sizeof(*r));
	const uint16_t one = 1;
	bool little = *(const char *)&one;
	const char *wrong = NULL;
	static char line[4 * MAX_FILE];
	char path[4096];
	int proc;

	if (!dir || !r || reader_open(&r->reader))
		return -ENODEV;
	snprintf(path, sizeof(path), "%s/proc", dir);
	proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0 || dup2(proc, k->proc) < 0) {
		snprintf(p->why, sizeof(p->why), "%.200s: %s", path, strerror(errno));
		return -ENODEV;
	}
	close(proc);
	snprintf(path, sizeof(path), "%s/samples", dir);
	r->samples = fopen(path, "re");
	if (!r->samples) {
		snprintf(p->why, sizeof(p->why), "%.200s: %s", path, strerror(errno));
		return -ENODEV;
	}
	while (!wrong && (r->sample = ftell(r->samples)) >= 0 &&
	       fgets(line, sizeof(line), r->samples)) {
		if (!strncmp(line, "order ", 6))
			r->swapped = little != !strncmp(line + 6, "little", 6);
		else if (!strncmp(line, "head ", 5))
			wrong = add_head(k, r, line + 5);
		else
			break;
	}
	if (wrong) {
		snprintf(p->why, sizeof(p->why), "%s", wrong);
		return -EIO;
	}
	*state = r;
	return 0;
}

static int replay_sample(struct kvmstats *k, void *state)
{
	static char line[4 * MAX_FILE];
	struct replay *r = state;
	const char *wrong = NULL;
	struct core_vm *vm = NULL;
	unsigned long long a, b, c;
	long start = r->sample, at;
	int n, pid;

	fseek(r->samples, start, SEEK_SET);
	while (at = ftell(r->samples), fgets(line, sizeof(line), r->samples)) {
		if (sscanf(line, "sample %llu", &a) == 1) {
			if (at != start)
				break;
			core_set_time(k, a);
		} else if (sscanf(line, "vm %llu %d %n", &a, &pid, &n) == 2) {
			wrong = put_values(r, KVMSTATS_VM, line + n);
			vm = wrong ? NULL : reader_vm(k, &r->reader, &r->file[KVMSTATS_VM],
						      ((uint64_t)pid << 32) + a, pid);
			if (vm)
				core_vm_number(k, vm, a);
		} else if (vm && sscanf(line, "vcpu %llu %d %llu %llu %n", &a, &pid, &b, &c,
					&n) == 4) {
			wrong = put_values(r, KVMSTATS_VCPU, line + n);
			struct thread_times times = {
				.time = k->time, .has_run = b + c, .has_ready = b + c,
				.run = b, .ready = c,
			};

			if (!wrong && reader_vcpu(k, &r->reader, &r->file[KVMSTATS_VCPU],
						  vm, a, pid))
				core_vcpu_times(core_vcpu(k, vm, a, pid), &times);
		} else if (vm && !strcmp(line, "ended\n")) {
			core_vm_ended(vm);
		}
		if (wrong)
			core_unread(k, KVMSTATS_FORMAT, "%s", wrong);
		wrong = NULL;
		r->sample = start;
	}
	if (!feof(r->samples))
		r->sample = at;
	clearerr(r->samples);
	return 0;
}

static void replay_close(struct kvmstats *k, void *state)
{
	struct replay *r = state;

	fclose(r->samples);
	reader_drop(&r->file[KVMSTATS_VM]);
	reader_drop(&r->file[KVMSTATS_VCPU]);
	reader_close(&r->reader);
	free(r);
}

static const struct source_ops source_replay = {
	.name = "replay",
	.what = "a recording, for the tests",
	.open = replay_open,
	.sample = replay_sample,
	.close = replay_close,
};

const struct source_ops *const source_list[] = { &source_replay, NULL };

int kvmstats_describe(struct kvmstats_table **vm, struct kvmstats_table **vcpu,
		      char *why, size_t size)
{
	struct kvmstats *k;
	int ret = kvmstats_open(&k, NULL, NULL, 0);

	*vm = *vcpu = NULL;
	if (!ret) {
		*vm = k->table[KVMSTATS_VM];
		*vcpu = k->table[KVMSTATS_VCPU];
		k->table[KVMSTATS_VM] = k->table[KVMSTATS_VCPU] = NULL;
		kvmstats_close(k);
		ret = *vm && *vcpu ? 0 : -ENOSYS;
	}
	if (ret)
		snprintf(why, size, "nothing to describe: %s", strerror(-ret));
	return ret;
}

struct host host_now(void)
{
	return (struct host){ .cpus = 4, .load = 125 };
}

void host_probe_blame(struct kvmstats_probe *probe)
{
	snprintf(probe->why, sizeof(probe->why), "this is a recording");
}

void host_probe_exits(struct kvmstats_probe *probe)
{
	host_probe_blame(probe);
}

void host_probe_stalls(struct kvmstats_probe *probe)
{
	host_probe_blame(probe);
}

/* Only some statistics have a description. */
const char *app_stat_description(enum kvmstats_scope scope, const char *name)
{
	return scope == KVMSTATS_VM ? "What \"it\" counts, in words" : "";
}
