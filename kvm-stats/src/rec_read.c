// SPDX-License-Identifier: GPL-2.0-only
/* Read a recording: see recording.h. Lengths in the file are not trusted. */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app.h"
#include "rec_chunk.h"
#include "events.h"
#include "recording.h"
#include "xalloc.h"

#define MAX_DATA	(1 << 16)	/* bytes of all values of a VM or vCPU */
#define MAX_COUNT	65536		/* statistics, VMs, vCPUs of a VM */

struct vcpu {
	struct kvmstats_vcpu pub;
	uint64_t *now, *before;
	bool seen;
};

struct vm {
	struct kvmstats_vm pub;
	uint64_t id;
	uint64_t *now, *before, *sum, *growth;
	struct vcpu **vcpu;
	struct kvmstats_vcpu **list;
	bool seen;
};

struct mapped_file {			/* a file */
	unsigned char *data;
	size_t size;
};

struct recording {
	struct mapped_file part[2];
	struct chunk *chunk;	/* tables and samples, in their order */
	unsigned long chunks, room;
	unsigned long *sample;	/* which chunks those are */
	unsigned long samples, current;	/* samples: none yet */
	char problem[256];
	/* current sample */
	struct kvmstats_table *table[KVMSTATS_SCOPES];
	struct vm **vm;
	unsigned int vms;
	struct host host;
	char source[32], why[256];
	unsigned int unread;
};

static void rec_free_vm(struct vm *vm)
{
	unsigned int i;

	for (i = 0; i < vm->pub.vcpus; i++) {
		free(vm->vcpu[i]->now);
		free(vm->vcpu[i]->before);
		free(vm->vcpu[i]);
	}
	free(vm->vcpu);
	free(vm->list);
	free(vm->now);
	free(vm->before);
	free(vm->sum);
	free(vm->growth);
	free(vm);
}

static void forget_vms(struct recording *rec)
{
	while (rec->vms)
		rec_free_vm(rec->vm[--rec->vms]);
}

static void free_table(struct kvmstats_table *table)
{
	unsigned int i;

	if (!table)
		return;
	for (i = 0; i < table->count; i++)
		free((char *)table->desc[i].name);
	free((void *)table->desc);
	free(table);
}

static bool same_table(const struct kvmstats_table *a, const struct kvmstats_table *b)
{
	unsigned int i;

	if (!b || a->count != b->count || a->data_size != b->data_size)
		return false;
	for (i = 0; i < a->count; i++) {
		if (strcmp(a->desc[i].name, b->desc[i].name) ||
		    a->desc[i].offset != b->desc[i].offset)
			return false;
	}
	return true;
}

static bool take_table(struct recording *rec, struct rec_bytes *t)
{
	const unsigned int scope = take_most(t, KVMSTATS_SCOPES - 1);
	struct kvmstats_table *table = check_alloc(calloc(1, sizeof(*table)));
	struct kvmstats_desc *desc;
	unsigned int i, count;
	char name[64], *c;

	table->data_size = take_most(t, MAX_DATA / 8) * 8;
	count = take_most(t, MAX_COUNT);
	desc = check_alloc(calloc(count + 1, sizeof(*desc)));
	table->desc = desc;
	for (i = 0; i < count && !t->wrong; i++) {
		take_text(t, name, sizeof(name));
		for (c = name; *c; c++)
			*c = *c > ' ' && *c < 127 ? *c : '?';
		desc[i].name = check_alloc(strdup(name));
		table->count++;
		desc[i].type = take_most(t, 15);
		desc[i].unit = take_most(t, 15);
		desc[i].base = take_most(t, 15);
		desc[i].exponent = take_signed(t);
		desc[i].size = take_most(t, UINT16_MAX);
		desc[i].offset = take_most(t, table->data_size);
		desc[i].bucket_size = take_most(t, UINT32_MAX);
		if (!desc[i].size || desc[i].offset % 8 ||
		    desc[i].offset + 8ULL * desc[i].size > table->data_size)
			t->wrong = true;
	}
	if (t->wrong) {
		free_table(table);
		return false;
	}
	/* a new file has it again; values of another one mean nothing now */
	if (!same_table(table, rec->table[scope]))
		forget_vms(rec);
	free_table(rec->table[scope]);
	rec->table[scope] = table;
	return true;
}

static size_t words(const struct recording *rec, enum kvmstats_scope scope)
{
	return rec->table[scope] ? rec->table[scope]->data_size / 8 : 0;
}

static uint64_t *rec_make_values(const struct recording *rec, enum kvmstats_scope scope)
{
	return check_alloc(calloc(words(rec, scope) + 1, sizeof(uint64_t)));
}

/* now becomes before, and has the changes */
static void take_values(struct rec_bytes *t, uint64_t **now, uint64_t **before, size_t count,
			bool key, bool known)
{
	uint64_t *other = *before, same;
	size_t at = 0;

	*before = *now;
	*now = other;
	if (key)
		memset(*now, 0, count * 8);
	else
		memcpy(*now, *before, count * 8);
	while ((same = take_number(t)) && !t->wrong) {
		if (same > count - at) {
			t->wrong = true;
			break;
		}
		at += same;
		(*now)[at - 1] += take_signed(t);
	}
	/* there was nothing before: it has not grown */
	if (!known)
		memcpy(*before, *now, count * 8);
}

static void take_activity(struct rec_bytes *t, struct kvmstats_activity *a)
{
	uint64_t known, number;
	unsigned int i;

	memset(a, 0, sizeof(*a));
	a->times.elapsed = take_number(t);
	a->times.known = take_number(t);
	for (i = 0; i < KVMSTATS_MODES; i++)
		a->times.mode[i] = take_number(t);
	/* A newer recorder knows more events: skip them. */
	for (known = take_number(t), i = 0; known >> i; i++) {
		number = known >> i & 1 ? take_number(t) : 0;
		if (i < KVMSTATS_EVENTS) {
			a->known |= known & 1ULL << i;
			a->event[i] = number;
		}
		if (i == 63) {
			a->known |= KVMSTATS_OTHER_THREADS_KNOWN;
			a->other_threads = number;
			break;
		}
	}
}

static void take_identity(struct rec_bytes *t, struct kvmstats_vm *vm)
{
	struct kvmstats_identity *identity = &vm->identity;

	take_text(t, identity->label, sizeof(identity->label));
	take_text(t, identity->name, sizeof(identity->name));
	take_text(t, identity->domain, sizeof(identity->domain));
	take_text(t, identity->uuid, sizeof(identity->uuid));
	take_text(t, identity->vmm, sizeof(identity->vmm));
	take_text(t, identity->machine, sizeof(identity->machine));
	take_text(t, identity->pod_uid, sizeof(identity->pod_uid));
	take_text(t, identity->container_id, sizeof(identity->container_id));
	take_text(t, identity->cgroup, sizeof(identity->cgroup));
	identity->pid = take_most(t, INT32_MAX);
	identity->vm_id = take_number(t);
	identity->started = take_number(t);
	vm->nth = take_most(t, UINT32_MAX);
}

static void add_up(const struct recording *rec, struct vm *vm)
{
	const struct kvmstats_table *table = rec->table[KVMSTATS_VCPU];
	const size_t count = words(rec, KVMSTATS_VCPU);
	unsigned int i, j, n;
	size_t w;

	memset(vm->sum, 0, count * 8);
	memset(vm->growth, 0, count * 8);
	for (i = 0; i < vm->pub.vcpus; i++) {
		const struct vcpu *vcpu = vm->vcpu[i];

		for (w = 0; w < count; w++) {
			vm->sum[w] += vcpu->now[w];
			if (!vcpu->pub.first_sample && vcpu->now[w] > vcpu->before[w])
				vm->growth[w] += vcpu->now[w] - vcpu->before[w];
		}
	}
	for (j = 0; table && j < table->count; j++) {
		if (table->desc[j].type != KVMSTATS_PEAK)
			continue;
		for (n = 0; n < table->desc[j].size; n++) {
			w = table->desc[j].offset / 8 + n;
			vm->sum[w] = 0;
			for (i = 0; i < vm->pub.vcpus; i++) {
				if (vm->sum[w] < vm->vcpu[i]->now[w])
					vm->sum[w] = vm->vcpu[i]->now[w];
			}
		}
	}
}

static void take_vcpu(struct recording *rec, struct rec_bytes *t, struct vm *vm, bool key)
{
	const uint32_t id = take_most(t, UINT32_MAX);
	struct vcpu *vcpu = NULL;
	bool known = true;
	unsigned int i;

	for (i = 0; i < vm->pub.vcpus && !vcpu; i++) {
		if (vm->vcpu[i]->pub.id == id)
			vcpu = vm->vcpu[i];
	}
	if (!vcpu) {
		known = false;
		vcpu = check_alloc(calloc(1, sizeof(*vcpu)));
		vcpu->now = rec_make_values(rec, KVMSTATS_VCPU);
		vcpu->before = rec_make_values(rec, KVMSTATS_VCPU);
		vcpu->pub.id = id;
		vm->vcpu = check_alloc(realloc(vm->vcpu, (vm->pub.vcpus + 1) * sizeof(vcpu)));
		vm->vcpu[vm->pub.vcpus++] = vcpu;
	}
	vcpu->seen = true;
	vcpu->pub.tid = take_most(t, INT32_MAX);
	vcpu->pub.first_sample = take_most(t, 1);
	take_activity(t, &vcpu->pub.last);
	take_values(t, &vcpu->now, &vcpu->before, words(rec, KVMSTATS_VCPU), key, known);
	vcpu->pub.values = vcpu->now;
	vcpu->pub.before = vcpu->before;
}

static void rec_drop_vcpus(struct vm *vm)
{
	unsigned int i, n = 0;

	for (i = 0; i < vm->pub.vcpus; i++) {
		if (vm->vcpu[i]->seen) {
			vm->vcpu[n++] = vm->vcpu[i];
			continue;
		}
		free(vm->vcpu[i]->now);
		free(vm->vcpu[i]->before);
		free(vm->vcpu[i]);
	}
	vm->pub.vcpus = n;
	vm->list = check_alloc(realloc(vm->list, (n + 1) * sizeof(*vm->list)));
	for (i = 0; i < n; i++)
		vm->list[i] = &vm->vcpu[i]->pub;
	vm->pub.vcpu = vm->list;
}

static struct vm *take_vm(struct recording *rec, struct rec_bytes *t, bool key, uint64_t time)
{
	const uint64_t id = take_number(t);
	struct vm *vm = NULL;
	bool known = true;
	unsigned int i, n, flags;

	for (i = 0; i < rec->vms && !vm; i++) {
		if (rec->vm[i]->id == id && !rec->vm[i]->seen)
			vm = rec->vm[i];
	}
	if (!vm) {
		known = false;
		vm = check_alloc(calloc(1, sizeof(*vm)));
		vm->id = id;
		vm->now = rec_make_values(rec, KVMSTATS_VM);
		vm->before = rec_make_values(rec, KVMSTATS_VM);
		vm->sum = rec_make_values(rec, KVMSTATS_VCPU);
		vm->growth = rec_make_values(rec, KVMSTATS_VCPU);
		rec->vm = check_alloc(realloc(rec->vm, (rec->vms + 1) * sizeof(vm)));
		rec->vm[rec->vms++] = vm;
	}
	vm->seen = true;
	flags = take_number(t);
	vm->pub.ended = flags & 2;
	vm->pub.first_sample = flags & 4;
	vm->pub.vcpus_ambiguous = flags & 8;
	if (flags & 1)
		take_identity(t, &vm->pub);
	vm->pub.time = time;
	vm->pub.elapsed = take_number(t);
	take_activity(t, &vm->pub.sum);
	vm->pub.values = NULL;
	if (flags & 16) {
		take_values(t, &vm->now, &vm->before, words(rec, KVMSTATS_VM), key, known);
		vm->pub.values = vm->now;
	}
	vm->pub.before = vm->before;
	for (i = 0; i < vm->pub.vcpus; i++)
		vm->vcpu[i]->seen = false;
	n = take_most(t, MAX_COUNT);
	for (i = 0; i < n && !t->wrong; i++)
		take_vcpu(rec, t, vm, key);
	rec_drop_vcpus(vm);
	add_up(rec, vm);
	if (vm->pub.vcpus) {
		vm->pub.vcpu_sum = vm->sum;
		vm->pub.vcpu_growth = vm->growth;
	}
	return vm;
}

static bool read_recorded_sample(struct recording *rec, struct rec_bytes *t, bool key, uint64_t time)
{
	unsigned int i, j, count;

	rec->host.cpus = take_most(t, UINT32_MAX / 1000);
	rec->host.load = take_most(t, UINT32_MAX);
	take_text(t, rec->source, sizeof(rec->source));
	rec->unread = take_most(t, UINT32_MAX);
	take_text(t, rec->why, sizeof(rec->why));
	for (i = 0; i < rec->vms; i++)
		rec->vm[i]->seen = false;
	count = take_most(t, MAX_COUNT);
	/* those that have been read come first, in their order */
	for (i = 0; i < count && !t->wrong; i++) {
		struct vm *vm = take_vm(rec, t, key, time);

		for (j = i; rec->vm[j] != vm; j++)
			;
		rec->vm[j] = rec->vm[i];
		rec->vm[i] = vm;
	}
	while (rec->vms > i)
		rec_free_vm(rec->vm[--rec->vms]);
	for (i = 0; i < rec->vms; i++)
		rec->vm[i]->pub.next = i + 1 < rec->vms ? &rec->vm[i + 1]->pub : NULL;
	if (t->wrong)
		forget_vms(rec);
	return !t->wrong;
}

static void add_chunk(struct recording *rec, const struct chunk *chunk)
{
	if (rec->chunks == rec->room) {
		rec->room = rec->room ? 2 * rec->room : 1024;
		rec->chunk = check_alloc(realloc(rec->chunk, rec->room * sizeof(*rec->chunk)));
		rec->sample = check_alloc(realloc(rec->sample, rec->room * sizeof(*rec->sample)));
	}
	if (chunk->what == 'S')
		rec->sample[rec->samples++] = rec->chunks;
	rec->chunk[rec->chunks++] = *chunk;
}

/* Skip invalid bytes up to a chunk that can be read independently. */
static size_t skip(const struct mapped_file *part, size_t at)
{
	const unsigned char *next;
	struct chunk chunk;

	while (++at < part->size) {
		next = memmem(part->data + at, part->size - at, "KVSC", 4);
		if (!next)
			break;
		at = next - part->data;
		if (chunk_read(next, part->size - at, &chunk) &&
		    (chunk.key || chunk.what == 'T'))
			return at;
	}
	return part->size;
}

static void read_part(struct recording *rec, const struct mapped_file *part, const char *path)
{
	struct chunk chunk;
	size_t at = FILE_HEAD, n, to;

	while (at < part->size) {
		n = chunk_read(part->data + at, part->size - at, &chunk);
		if (n) {
			if (chunk.what == 'S' || chunk.what == 'T')
				add_chunk(rec, &chunk);
			at += n;
			continue;
		}
		to = skip(part, at);
		snprintf(rec->problem, sizeof(rec->problem),
			 "%.150s: %zu invalid bytes at offset %zu: %s", path, to - at, at,
			 to == part->size ? "it is cut" : "left out");
		at = to;
	}
}

static const char *map(const char *path, struct mapped_file *part, bool must)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && !must)
		return NULL;
	if (fd < 0 || fstat(fd, &st))
		err(STATUS_USAGE, "%s", path);
	if (!S_ISREG(st.st_mode))
		errx(STATUS_USAGE, "%s: not a regular file", path);
	if (st.st_size) {
		part->size = st.st_size;
		part->data = mmap(NULL, part->size, PROT_READ, MAP_SHARED, fd, 0);
		if (part->data == MAP_FAILED)
			err(STATUS_USAGE, "%s", path);
	}
	close(fd);
	return chunk_bad_file(part->data, part->size);
}

struct recording *recording_open(const char *path)
{
	struct recording *rec = check_alloc(calloc(1, sizeof(*rec)));
	char old[strlen(path) + 3];
	const char *wrong;

	strcat(strcpy(old, path), ".1");
	wrong = map(path, &rec->part[1], true);
	if (wrong)
		errx(STATUS_USAGE, "%s: %s", path, wrong);
	/* what was before it may be anything else that is called so */
	if (!map(old, &rec->part[0], false) && rec->part[0].size)
		read_part(rec, &rec->part[0], old);
	read_part(rec, &rec->part[1], path);
	if (!rec->samples)
		errx(STATUS_USAGE, "%s: it is cut: there is no sample in it", path);
	rec->current = rec->samples;
	recording_seek(rec, 0);
	return rec;
}

void recording_close(struct recording *rec)
{
	unsigned int i;

	forget_vms(rec);
	for (i = 0; i < KVMSTATS_SCOPES; i++)
		free_table(rec->table[i]);
	for (i = 0; i < 2; i++) {
		if (rec->part[i].size)
			munmap(rec->part[i].data, rec->part[i].size);
	}
	free(rec->vm);
	free(rec->chunk);
	free(rec->sample);
	free(rec);
}

unsigned long recording_count(const struct recording *rec)
{
	return rec->samples;
}

uint64_t recording_time(const struct recording *rec, unsigned long sample)
{
	return rec->chunk[rec->sample[sample]].time;
}

static void read_chunk(struct recording *rec, const struct chunk *chunk)
{
	struct rec_bytes t = { chunk->data, chunk->data + chunk->size, false };

	if (chunk->what == 'T' ? take_table(rec, &t) :
				 read_recorded_sample(rec, &t, chunk->key, chunk->time))
		return;
	snprintf(rec->problem, sizeof(rec->problem), "a sample has impossible numbers in it");
}

/* From a sample with all values before this one, so that there is growth. */
void recording_seek(struct recording *rec, unsigned long sample)
{
	unsigned long from, to = rec->sample[sample], i;

	if (rec->current < rec->samples && rec->current <= sample) {
		from = rec->sample[rec->current] + 1;
	} else {
		for (i = sample ? sample - 1 : 0; i && !rec->chunk[rec->sample[i]].key; i--)
			;
		forget_vms(rec);
		from = rec->sample[i];
		/* tables that it has values of */
		for (i = 0; i < from; i++) {
			if (rec->chunk[i].what == 'T')
				read_chunk(rec, &rec->chunk[i]);
		}
	}
	for (i = from; i <= to; i++)
		read_chunk(rec, &rec->chunk[i]);
	rec->current = sample;
}

struct kvmstats_vm *recording_first(const struct recording *rec)
{
	return rec->vms ? &rec->vm[0]->pub : NULL;
}

const struct kvmstats_table *recording_table(const struct recording *rec,
					     enum kvmstats_scope scope)
{
	return rec->table[scope];
}

const char *recording_source(const struct recording *rec)
{
	return rec->source;
}

unsigned int recording_failed_reads(const struct recording *rec, const char **why)
{
	if (why)
		*why = rec->why;
	return rec->unread;
}

struct host recording_host(const struct recording *rec)
{
	return rec->host;
}

const char *recording_problem(const struct recording *rec)
{
	return rec->problem;
}

bool recording_try(const void *bytes, size_t size, char what)
{
	static struct recording rec;
	struct rec_bytes t = { bytes, (const unsigned char *)bytes + size, false };

	return what == 'T' ? take_table(&rec, &t) : read_recorded_sample(&rec, &t, what == 'k', 1);
}
