// SPDX-License-Identifier: GPL-2.0-only
/* Write a recording: see recording.h. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app.h"
#include "rec_chunk.h"
#include "events.h"
#include "recording.h"
#include "xalloc.h"

/* To seek backwards, a reader decodes at most this many samples. */
#define KEY_EVERY	200

struct vcpu_state {
	uint32_t id;
	uint64_t *values;
};

/* State of a VM in the decoder of a reader */
struct vm_state {
	const struct kvmstats_vm *vm;
	pid_t pid;
	uint64_t number, id, started;
	bool seen, told;		/* who it is */
	unsigned int nth;
	char label[sizeof(((struct kvmstats_identity *)0)->label)];
	uint64_t *values;
	struct vcpu_state *vcpu;
	unsigned int vcpus;
};

struct recorder {
	const char *path;
	int fd;
	uint64_t max_size, size;	/* size of the file: complete chunks */
	struct bytes out;
	const struct kvmstats_table *table[KVMSTATS_SCOPES];	/* that were written */
	size_t words[KVMSTATS_SCOPES];
	struct vm_state *vm;
	unsigned int vms, since_key;
	uint64_t last_id;
	bool need_key, tell_tables, failing;
	struct recorder_totals totals;
};

static void encoder_free_vm(struct vm_state *vm)
{
	unsigned int i;

	for (i = 0; i < vm->vcpus; i++)
		free(vm->vcpu[i].values);
	free(vm->vcpu);
	free(vm->values);
}

/* A reader may know nothing: the next sample has all. */
static void begin_again(struct recorder *r)
{
	unsigned int i, j;

	for (i = 0; i < r->vms; i++) {
		struct vm_state *vm = &r->vm[i];

		vm->told = false;
		memset(vm->values, 0, r->words[KVMSTATS_VM] * 8);
		for (j = 0; j < vm->vcpus; j++)
			memset(vm->vcpu[j].values, 0, r->words[KVMSTATS_VCPU] * 8);
	}
	r->need_key = true;
}

/* Values have another layout, or there are none. */
static void reset_encoder(struct recorder *r)
{
	while (r->vms)
		encoder_free_vm(&r->vm[--r->vms]);
	memset(r->table, 0, sizeof(r->table));
	r->need_key = true;
}

/* How much of the file is whole, so that a new sample can come after it */
static uint64_t whole(const char *path, int fd, uint64_t size)
{
	struct chunk chunk;
	unsigned char *data;
	const char *wrong;
	size_t at, n;

	data = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (data == MAP_FAILED)
		err(STATUS_NOTHING, "cannot read %s", path);
	wrong = chunk_bad_file(data, size);
	if (wrong && size >= FILE_HEAD)
		errx(STATUS_USAGE, "%s: %s", path, wrong);
	if (wrong && memcmp(data, RECORDING_MAGIC, size < 12 ? size : 12))
		errx(STATUS_USAGE, "%s: %s", path, wrong);
	for (at = wrong ? 0 : FILE_HEAD; !wrong && at < size; at += n) {
		n = chunk_read(data + at, size - at, &chunk);
		if (!n)
			break;
	}
	munmap(data, size);
	return at;
}

static void open_recording(struct recorder *r)
{
	struct stat st;

	r->fd = app_create(r->path, O_RDWR, 0640);
	if (r->fd < 0 || fstat(r->fd, &st))
		err(STATUS_NOTHING, "cannot open %s", r->path);
	if (!S_ISREG(st.st_mode))
		errx(STATUS_USAGE, "%s: not a regular file", r->path);
	if (flock(r->fd, LOCK_EX | LOCK_NB))
		errx(STATUS_NOTHING, "%s: another kvm-stats records to it", r->path);
	r->size = st.st_size ? whole(r->path, r->fd, st.st_size) : 0;
	if (r->size < (uint64_t)st.st_size && ftruncate(r->fd, r->size))
		err(STATUS_NOTHING, "cannot write %s", r->path);
}

struct recorder *recorder_open(const char *path, uint64_t max_size)
{
	struct recorder *r = check_alloc(calloc(1, sizeof(*r)));

	r->path = path;
	r->max_size = max_size;
	open_recording(r);
	reset_encoder(r);
	return r;
}

static void encode_table(struct recorder *r, enum kvmstats_scope scope,
			 const struct kvmstats_table *table, uint64_t time)
{
	const size_t at = r->out.size;
	static const unsigned char head[CHUNK_HEAD];
	struct bytes *b = &r->out;
	unsigned int i;

	r->table[scope] = table;
	r->words[scope] = table->data_size / sizeof(uint64_t);
	bytes_put(b, head, sizeof(head));
	bytes_number(b, scope);
	bytes_number(b, table->data_size / 8);
	bytes_number(b, table->count);
	for (i = 0; i < table->count; i++) {
		const struct kvmstats_desc *d = &table->desc[i];

		bytes_text(b, d->name);
		bytes_number(b, d->type);
		bytes_number(b, d->unit);
		bytes_number(b, d->base);
		bytes_signed(b, d->exponent);
		bytes_number(b, d->size);
		bytes_number(b, d->offset);
		bytes_number(b, d->bucket_size);
	}
	chunk_seal(b, at, 'T', false, time);
}

/* Where values have changed: how many stay before, and by how much; ends with 0. */
static void encode_values(struct bytes *b, const uint64_t *values, uint64_t *before,
			  size_t words)
{
	size_t i, same = 0;

	for (i = 0; i < words; i++, same++) {
		if (values[i] == before[i])
			continue;
		bytes_number(b, same + 1);
		bytes_signed(b, values[i] - before[i]);
		before[i] = values[i];
		same = -1;
	}
	bytes_number(b, 0);
}

static void put_activity(struct bytes *b, const struct kvmstats_activity *a)
{
	unsigned int i;

	bytes_number(b, a->times.elapsed);
	bytes_number(b, a->times.known);
	for (i = 0; i < KVMSTATS_MODES; i++)
		bytes_number(b, a->times.mode[i]);
	bytes_number(b, a->known);
	for (i = 0; i < KVMSTATS_EVENTS; i++) {
		if (a->known >> i & 1)
			bytes_number(b, a->event[i]);
	}
	/* as the event of this bit */
	if (a->known & KVMSTATS_OTHER_THREADS_KNOWN)
		bytes_number(b, a->other_threads);
}

static void put_identity(struct bytes *b, const struct kvmstats_vm *vm)
{
	const struct kvmstats_identity *identity = &vm->identity;

	bytes_text(b, identity->label);
	bytes_text(b, identity->name);
	bytes_text(b, identity->domain);
	bytes_text(b, identity->uuid);
	bytes_text(b, identity->vmm);
	bytes_text(b, identity->machine);
	bytes_text(b, identity->pod_uid);
	bytes_text(b, identity->container_id);
	bytes_text(b, identity->cgroup);
	bytes_number(b, vm->identity.pid);
	bytes_number(b, vm->identity.vm_id);
	bytes_number(b, identity->started);
	bytes_number(b, vm->nth);
}

static struct vm_state *encoder_find_vm(struct recorder *r, const struct kvmstats_vm *vm)
{
	struct vm_state *state;
	unsigned int i;

	for (i = 0; i < r->vms; i++) {
		state = &r->vm[i];
		if (state->vm == vm && state->pid == vm->identity.pid && state->number == vm->identity.vm_id)
			return state;
	}
	r->vm = check_alloc(realloc(r->vm, (r->vms + 1) * sizeof(*r->vm)));
	state = &r->vm[r->vms++];
	*state = (struct vm_state){
		.vm = vm, .pid = vm->identity.pid, .number = vm->identity.vm_id, .id = ++r->last_id,
		.values = check_alloc(calloc(r->words[KVMSTATS_VM] + 1, sizeof(uint64_t))),
	};
	return state;
}

static uint64_t *encoder_find_vcpu(struct recorder *r, struct vm_state *state, uint32_t id)
{
	struct vcpu_state *vcpu;
	unsigned int i;

	for (i = 0; i < state->vcpus; i++) {
		if (state->vcpu[i].id == id)
			return state->vcpu[i].values;
	}
	state->vcpu = check_alloc(realloc(state->vcpu, (state->vcpus + 1) * sizeof(*vcpu)));
	vcpu = &state->vcpu[state->vcpus++];
	vcpu->id = id;
	vcpu->values = check_alloc(calloc(r->words[KVMSTATS_VCPU] + 1, sizeof(uint64_t)));
	return vcpu->values;
}

/* A reader forgets vCPUs that are not there. */
static void encoder_drop_vcpus(struct vm_state *state, const struct kvmstats_vm *vm)
{
	unsigned int i, j, n = 0;

	for (i = 0; i < state->vcpus; i++) {
		for (j = 0; j < vm->vcpus && vm->vcpu[j]->id != state->vcpu[i].id; j++)
			;
		if (j < vm->vcpus)
			state->vcpu[n++] = state->vcpu[i];
		else
			free(state->vcpu[i].values);
	}
	state->vcpus = n;
}

static void encode_vm(struct recorder *r, const struct kvmstats_vm *vm)
{
	struct vm_state *state = encoder_find_vm(r, vm);
	const bool tell = !state->told || state->nth != vm->nth ||
			  state->started != vm->identity.started ||
			  strcmp(state->label, vm->identity.label);
	struct bytes *b = &r->out;
	unsigned int i;

	state->seen = true;
	state->told = true;
	state->nth = vm->nth;
	state->started = vm->identity.started;
	snprintf(state->label, sizeof(state->label), "%s", vm->identity.label);
	encoder_drop_vcpus(state, vm);
	bytes_number(b, state->id);
	bytes_number(b, tell | vm->ended << 1 | vm->first_sample << 2 | vm->vcpus_ambiguous << 3 |
		     (vm->values != NULL) << 4);
	if (tell)
		put_identity(b, vm);
	bytes_number(b, vm->elapsed);
	put_activity(b, &vm->sum);
	if (vm->values)
		encode_values(b, vm->values, state->values, r->words[KVMSTATS_VM]);
	bytes_number(b, vm->vcpus);
	for (i = 0; i < vm->vcpus; i++) {
		const struct kvmstats_vcpu *vcpu = vm->vcpu[i];

		bytes_number(b, vcpu->id);
		bytes_number(b, vcpu->tid);
		bytes_number(b, vcpu->first_sample);
		put_activity(b, &vcpu->last);
		encode_values(b, vcpu->values, encoder_find_vcpu(r, state, vcpu->id),
			      r->words[KVMSTATS_VCPU]);
	}
}

static void put_sample(struct recorder *r, const struct kvmstats *k, struct host host,
		       uint64_t time)
{
	static const unsigned char head[CHUNK_HEAD];
	const struct kvmstats_vm *vm;
	struct bytes *b = &r->out;
	const size_t at = b->size;
	unsigned int i, n = 0;
	const char *why;

	bytes_put(b, head, sizeof(head));
	bytes_number(b, host.cpus);
	bytes_number(b, host.load);
	bytes_text(b, kvmstats_source(k));
	bytes_number(b, kvmstats_failed_reads(k, &why));
	bytes_text(b, why);
	for (vm = kvmstats_first(k); vm; vm = vm->next)
		n++;
	bytes_number(b, n);
	for (i = 0; i < r->vms; i++)
		r->vm[i].seen = false;
	for (vm = kvmstats_first(k); vm; vm = vm->next)
		encode_vm(r, vm);
	chunk_seal(b, at, 'S', r->need_key, time);
	for (i = n = 0; i < r->vms; i++) {
		if (r->vm[i].seen)
			r->vm[n++] = r->vm[i];
		else
			encoder_free_vm(&r->vm[i]);
	}
	r->totals.vms += r->vms = n;
}

/* FILE becomes FILE.1 */
static void rotate(struct recorder *r)
{
	char old[strlen(r->path) + 3];

	strcat(strcpy(old, r->path), ".1");
	if (rename(r->path, old))
		err(STATUS_NOTHING, "cannot rename %s", r->path);
	close(r->fd);
	open_recording(r);
	r->tell_tables = true;
	begin_again(r);
}

static void encode_sample(struct recorder *r, const struct kvmstats *k, struct host host,
		 uint64_t time)
{
	unsigned char head[FILE_HEAD] = RECORDING_MAGIC;
	unsigned int i;

	r->out.size = 0;
	if (!r->size) {
		put_le32(head + 12, RECORDING_FORMAT);
		bytes_put(&r->out, head, sizeof(head));
	}
	for (i = 0; i < KVMSTATS_SCOPES; i++) {
		/* the values that a reader has are of the table before */
		if (r->table[i] != kvmstats_table(k, i))
			reset_encoder(r);
	}
	if (r->since_key >= KEY_EVERY)
		begin_again(r);
	for (i = 0; i < KVMSTATS_SCOPES; i++) {
		const struct kvmstats_table *table = kvmstats_table(k, i);

		if (table && (r->tell_tables || r->table[i] != table))
			encode_table(r, i, table, time);
	}
	put_sample(r, k, host, time);
}

static bool fail(struct recorder *r)
{
	const int error = errno;

	/* the part of it that was written */
	if (ftruncate(r->fd, r->size))
		r->failing = true;
	if (!r->failing)
		warnx("cannot write %s: %s; will retry", r->path,
		      strerror(error));
	r->failing = true;
	r->totals.lost++;
	r->tell_tables = true;
	begin_again(r);
	return false;
}

bool recorder_sample(struct recorder *r, const struct kvmstats *k, struct host host,
		     uint64_t time)
{
	ssize_t n;

	encode_sample(r, k, host, time);
	if (r->size > FILE_HEAD && r->size + r->out.size > r->max_size / 2) {
		rotate(r);
		encode_sample(r, k, host, time);
	}
	n = pwrite(r->fd, r->out.data, r->out.size, r->size);
	if (n >= 0 && n < (ssize_t)r->out.size)
		errno = ENOSPC;
	if (n < (ssize_t)r->out.size)
		return fail(r);
	if (r->failing)
		warnx("resumed writing %s, %llu samples lost", r->path,
		      (unsigned long long)r->totals.lost);
	r->failing = false;
	r->since_key = r->need_key ? 1 : r->since_key + 1;
	r->need_key = r->tell_tables = false;
	r->size += n;
	r->totals.bytes += n;
	r->totals.samples++;
	return true;
}

struct recorder_totals recorder_close(struct recorder *r)
{
	const struct recorder_totals totals = r->totals;

	reset_encoder(r);
	close(r->fd);
	free(r->vm);
	free(r->out.data);
	free(r);
	return totals;
}
