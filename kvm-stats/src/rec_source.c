// SPDX-License-Identifier: GPL-2.0-only
/*
 * The source of statistics that reads a recording: see recording.h. Nothing in the file is
 * trusted; its chunks are read, not mapped, because another process can truncate it.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app.h"
#include "rec_key.h"
#include "rec_scan.h"
#include "recorded.h"
#include "xalloc.h"

#define VALUES_MAX	1024		/* values of a VM or vCPU, several times those of a kernel */
#define VMS_MAX		16384
/* Memory that the VMs of a sample may take: so many bytes per byte of the file, within limits */
#define MEMORY_FACTOR	16
#define MEMORY_MIN	(64ULL << 20)
#define MEMORY_MAX	(1ULL << 30)

struct rec_sample {
	uint64_t at, time;
	uint64_t from;			/* offset of the first chunk that belongs to it */
	unsigned long key;		/* the sample that it differs from: itself if a key sample */
	uint32_t key_number;
	uint8_t part;
};

/* A chunk of another kind */
struct rec_added {
	char kind;
	size_t size;
	unsigned char *data;
};

struct recording {
	const char *path;
	int fd[2];			/* FILE.1, -1 if there is none; FILE, or standard input */
	unsigned char first[CHUNK_HEAD];	/* head of the first chunk in FILE, with its checksum */
	unsigned int replaced;		/* how often another file has replaced FILE since it was opened */
	uint64_t end;			/* offset in FILE where find_more() continues */
	struct rec_sample *sample;	/* index; NULL for a pipe */
	unsigned long samples, room;
	unsigned long next;		/* sample to fetch next */
	uint64_t memory;		/* bytes that the VMs of a sample may take */
	char problem[256];
	struct kvmstats *k;

	unsigned char *data;		/* a chunk */
	size_t data_room;
	struct key_sample key;
	uint64_t run, key_time;
	uint64_t unit;			/* recorder_unit() */
	uint32_t key_number;
	bool has_key;
	struct chunk chunk;		/* that was fetched */
	bool fetched;
	uint32_t kinds;			/* of chunks with sums, as is_added() */
	struct rec_added *added;	/* before it */
	struct added_cursor *cursor;	/* the last one that recording_added() returned */
	size_t added_count, added_size;	/* chunks, bytes */
	uint64_t added_from;		/* offset of the first one that is not before a sample yet */
	uint64_t *words;		/* of one VM or vCPU */
	char source[32];
	struct kvmstats_table *table[KVMSTATS_SCOPES];	/* as of the key sample */
	struct host host;
	uint64_t time;			/* present sample: CLOCK_MONOTONIC of the recorded host */
	uint64_t wall;			/* the same since 1970 */
	uint64_t reported_run, reported_time;
	int problem_of_sample;
};

/* at: 0 in a pipe */
static void set_problem(struct recording *rec, const char *path, uint64_t at, uint64_t size,
			bool cut)
{
	char where[40] = "";

	if (*rec->problem)
		return;
	if (at)
		snprintf(where, sizeof(where), " at offset %llu", (unsigned long long)at);
	snprintf(rec->problem, sizeof(rec->problem), "%.150s: %llu invalid bytes%s: %s", path,
		 (unsigned long long)size, where, cut ? "it is cut" : "left out");
}

/* Tables are the same if their values are in the same places. */
static bool same_table(const struct kvmstats_table *a, const struct kvmstats_table *b)
{
	unsigned int i;

	if (!a || !b)
		return !a && !b;
	if (a->count != b->count || a->data_size != b->data_size)
		return false;
	for (i = 0; i < a->count; i++) {
		if (strcmp(a->desc[i].name, b->desc[i].name) ||
		    a->desc[i].offset != b->desc[i].offset || a->desc[i].type != b->desc[i].type)
			return false;
	}
	return true;
}

static void take_desc(struct rec_bytes *t, struct kvmstats_desc *desc, char name[64])
{
	char *c;

	take_text(t, name, 64);
	for (c = name; *c; c++)
		*c = *c > ' ' && *c < 127 ? *c : '?';
	desc->name = name;
	desc->type = take_most(t, 15);
	desc->unit = take_most(t, 15);
	desc->base = take_most(t, 15);
	desc->exponent = take_signed(t);
	desc->size = take_most(t, VALUES_MAX);
	desc->offset = take_most(t, VALUES_MAX) * sizeof(uint64_t);
	desc->bucket_size = take_most(t, UINT32_MAX);
	t->wrong |= !desc->size || desc->offset / sizeof(uint64_t) + desc->size > VALUES_MAX;
}

static struct kvmstats_table *take_table(struct rec_bytes *t)
{
	const unsigned int count = take_most(t, VALUES_MAX);
	struct kvmstats_table *table = NULL;
	struct kvmstats_desc *desc;
	unsigned int i;
	char (*names)[64];

	if (!count)
		return NULL;
	desc = check_alloc(calloc(count, sizeof(*desc)));
	names = check_alloc(calloc(count, sizeof(*names)));
	for (i = 0; i < count && !t->wrong; i++)
		take_desc(t, &desc[i], names[i]);
	if (!t->wrong)
		table = check_alloc(table_make(desc, count));
	free(names);
	free(desc);
	return table;
}

/* words: those of the key sample, or all 0 */
static void take_words(struct rec_bytes *t, uint64_t *words, size_t count)
{
	uint64_t same;
	size_t at = 0;

	while ((same = take_number(t)) && !t->wrong) {
		if (same > count - at) {
			t->wrong = true;
			break;
		}
		at += same;
		words[at - 1] += take_signed(t);
	}
}

static void take_identity(struct rec_bytes *t, struct key_vm *vm)
{
	struct kvmstats_identity *identity = &vm->identity;
	char *cgroup;

	vm->key = take_number(t);
	identity->pid = take_most(t, INT32_MAX);
	identity->vm_id = take_number(t);
	identity->started = take_number(t);
	vm->nth = take_most(t, UINT32_MAX);
#define TAKE(text, size) take_text(t, identity->text, size);
	IDENTITY_TEXTS(TAKE)
	cgroup = take_long_text(t);
	if (!identity_set_cgroup(identity, cgroup, strlen(cgroup)))
		err(1, NULL);
	free(cgroup);
}

static size_t values_size(const struct recording *rec, enum kvmstats_scope scope)
{
	return rec->table[scope] ? rec->table[scope]->data_size : 0;
}

/* The vCPU belongs to the VM that was reported last. */
static void report_times(struct recording *rec, struct core_vcpu *vcpu)
{
	const uint64_t *w = rec->words, flags = w[VCPU_FLAGS];
	const uint64_t time = core_now(rec->k) - w[VCPU_TIME] * rec->unit;
	const unsigned int state = flags >> VCPU_STATE_SHIFT;

	if (flags & VCPU_THREAD_EXITED)
		core_vcpu_thread_exited(vcpu, time);
	core_vcpu_times(vcpu, &(struct thread_times){
		.time = time,
		.has_run = flags & VCPU_HAS_RUN,
		.has_ready = flags & VCPU_HAS_READY,
		.has_throttled = flags & VCPU_HAS_THROTTLED,
		.has_sleeps = flags & VCPU_HAS_SLEEPS,
		.up_to_date = flags & VCPU_UP_TO_DATE,
		.loaded = flags & VCPU_LOADED,
		.assumed = flags & VCPU_ASSUMED,
		.state = state <= THREAD_WAITS ? state : THREAD_UNKNOWN,
		.born = w[VCPU_BORN], .run = w[VCPU_RUN] * rec->unit,
		.ready = w[VCPU_READY] * rec->unit, .turns = w[VCPU_TURNS],
		.throttled = w[VCPU_THROTTLED] * rec->unit, .cpu = w[VCPU_CPU],
		.lost = w[VCPU_LOST] * rec->unit, .sleeps = w[VCPU_SLEEPS],
		.asleep = w[VCPU_ASLEEP] ? time - w[VCPU_ASLEEP] * rec->unit : 0,
	});
}

/* *last: id of the vCPU before. key: the VM in the key sample, or NULL; is_key: this is it. */
static void take_vcpu(struct recording *rec, struct rec_bytes *t, struct core_vm *vm,
		      struct key_vm *key, bool is_key, uint32_t *last)
{
	const uint64_t step = take_most(t, UINT32_MAX);
	const uint32_t id = *last + step;
	const struct key_vcpu *same = key && !is_key ? key_find_vcpu(key, id) : NULL;
	struct core_vcpu *vcpu;

	/* In order of id, so that each is found at once; the first one can be 0. */
	t->wrong |= !step || (id <= *last && *last != (uint32_t)-1);
	*last = id;
	if (same)
		memcpy(rec->words, same->words, rec->key.vcpu_words * sizeof(uint64_t));
	else
		memset(rec->words, 0, rec->key.vcpu_words * sizeof(uint64_t));
	take_words(t, rec->words, rec->key.vcpu_words);
	if (t->wrong || rec->words[VCPU_TID] > INT32_MAX) {
		t->wrong = true;
		return;
	}
	if (is_key)
		memcpy(key_add_vcpu(&rec->key, key, id)->words, rec->words,
		       rec->key.vcpu_words * sizeof(uint64_t));
	vcpu = vm ? core_vcpu(rec->k, vm, id, rec->words[VCPU_TID]) : NULL;
	if (!vcpu)
		return;
	core_vcpu_set(vcpu, rec->words + VCPU_WORDS, values_size(rec, KVMSTATS_VCPU));
	report_times(rec, vcpu);
}

static struct core_vm *report_vm(struct recording *rec, const struct key_vm *who)
{
	const uint64_t *w = rec->words, flags = w[VM_FLAGS];
	uint64_t role[KVMSTATS_ROLES];
	struct core_vm *vm;
	unsigned int i;

	if (!rec->k)
		return NULL;
	core_set_time(rec->k, rec->time - w[VM_TIME] * rec->unit);
	vm = core_vm(rec->k, who->key, who->identity.pid);
	if (!vm)
		return NULL;
	core_vm_number(rec->k, vm, who->identity.vm_id);
	core_vm_identity(vm, &who->identity, who->nth);
	core_vm_set_ambiguous(vm, flags & VM_AMBIGUOUS);
	if (flags & VM_HAS_VALUES && rec->table[KVMSTATS_VM])
		memcpy(core_vm_values(vm), w + VM_WORDS, values_size(rec, KVMSTATS_VM));
	for (i = 0; i < KVMSTATS_ROLES; i++)
		role[i] = w[VM_ROLE + i] * rec->unit;
	if (flags & VM_HAS_OTHERS)
		core_vm_others(vm, w[VM_OTHERS] * rec->unit, role);
	if (flags & VM_HAS_OTHERS && flags & VM_HAS_WAITS)
		core_vm_other_waits(vm, (flags >> VM_WAITS_SHIFT) * rec->unit);
	if (flags & VM_ENDED)
		core_vm_ended(vm);
	return vm;
}

/* Return how many bytes the library takes for a VM, or for a vCPU. */
static uint64_t size_of_vm(const struct recording *rec, const struct key_vm *vm)
{
	return core_size(KVMSTATS_VM) + sizeof(struct key_vm) + strlen(identity_cgroup(&vm->identity)) +
	       4 * values_size(rec, KVMSTATS_VM) + 3 * values_size(rec, KVMSTATS_VCPU);
}

static uint64_t size_of_vcpu(const struct recording *rec)
{
	return core_size(KVMSTATS_VCPU) + sizeof(struct key_vcpu) +
	       4 * (values_size(rec, KVMSTATS_VCPU) + VCPU_WORDS * sizeof(uint64_t));
}

/* who: the VM; key: the same in the key sample, or NULL; *memory: what is left of the limit */
static void take_values_of_vm(struct recording *rec, struct rec_bytes *t, const struct key_vm *who,
			      struct key_vm *key, bool is_key, uint64_t *memory)
{
	struct core_vm *vm;
	uint32_t last = -1;
	uint64_t i, count;

	if (key && !is_key)
		memcpy(rec->words, key->words, rec->key.vm_words * sizeof(uint64_t));
	else
		memset(rec->words, 0, rec->key.vm_words * sizeof(uint64_t));
	take_words(t, rec->words, rec->key.vm_words);
	count = take_number(t);
	/* a vCPU is two bytes at least */
	t->wrong |= count > (uint64_t)(t->end - t->at) / 2 ||
		    size_of_vm(rec, who) + count * size_of_vcpu(rec) > *memory;
	if (t->wrong)
		return;
	*memory -= size_of_vm(rec, who) + count * size_of_vcpu(rec);
	if (is_key)
		memcpy(key->words, rec->words, rec->key.vm_words * sizeof(uint64_t));
	vm = report_vm(rec, who);
	for (i = 0; i < count && !t->wrong; i++)
		take_vcpu(rec, t, vm, key, is_key, &last);
}

/* *index: of the VM before, in the key sample */
static void take_vm(struct recording *rec, struct rec_bytes *t, bool is_key, long *index,
		    uint64_t *memory)
{
	const int64_t step = take_signed(t);
	struct key_vm other = { 0 }, *vm;

	if (step) {
		t->wrong |= is_key || step > VMS_MAX || step < -VMS_MAX || *index + step < 0 ||
			    *index + step >= rec->key.vms;
		if (t->wrong)
			return;
		*index += step;
		vm = &rec->key.vm[*index];
		take_values_of_vm(rec, t, vm, vm, false, memory);
		return;
	}
	vm = is_key ? key_add_vm(&rec->key) : &other;
	take_identity(t, vm);
	take_values_of_vm(rec, t, vm, is_key ? vm : NULL, is_key, memory);
	identity_clear(&other.identity);
}

static void take_problems(struct recording *rec, struct rec_bytes *t)
{
	const unsigned int mask = take_most(t, (1 << KVMSTATS_REASONS) - 1);
	struct kvmstats *k = rec->k;
	uint64_t count, unobserved;
	char text[256];
	unsigned int i;

	for (i = 0; i < KVMSTATS_REASONS; i++) {
		if (!(mask >> i & 1))
			continue;
		count = take_most(t, INT32_MAX / KVMSTATS_REASONS);
		take_message(t, text, sizeof(text));
		if (!k || !count)
			continue;
		core_set_failed_reads(k, i, count, text);
	}
	take_message(t, text, sizeof(text));
	rec->problem_of_sample = k && *text ? core_problem(k, -EIO, "%s", text) : 0;
	unobserved = take_number(t);
	if (!k)
		return;
	core_set_unobserved(k, unobserved, unobserved ? unobserved - 1 : 0);
}

static void take_key(struct recording *rec, struct rec_bytes *t)
{
	unsigned int i;

	key_clear(&rec->key);
	rec->run = take_number(t);
	take_message(t, rec->source, sizeof(rec->source));
	rec->unit = take_number(t);
	for (i = 0; i < KVMSTATS_SCOPES; i++) {
		kvmstats_free_table(rec->table[i]);
		rec->table[i] = take_table(t);
	}
	rec->key_time = 0;
	rec->key.vm_words = VM_WORDS + values_size(rec, KVMSTATS_VM) / sizeof(uint64_t);
	rec->key.vcpu_words = VCPU_WORDS + values_size(rec, KVMSTATS_VCPU) / sizeof(uint64_t);
	rec->words = check_alloc(realloc(rec->words, (rec->key.vm_words + rec->key.vcpu_words) *
					 sizeof(uint64_t)));
	rec->has_key = !t->wrong;
}

/*
 * Before a sample is reported: another recorder may give the same keys to other VMs, values of
 * other tables are in other places, and after a restart of the host its clock begins again.
 */
static void prepare_core(struct recording *rec)
{
	struct kvmstats *k = rec->k;
	bool restart = rec->run != rec->reported_run || rec->time < rec->reported_time;
	unsigned int i;

	for (i = 0; i < KVMSTATS_SCOPES; i++)
		restart |= !same_table(rec->table[i], kvmstats_table(k, i));
	core_set_recorded_source(k, rec->source);
	rec->reported_run = rec->run;
	rec->reported_time = rec->time;
	if (!restart)
		return;
	core_restart(k);
	for (i = 0; i < KVMSTATS_SCOPES; i++) {
		const struct kvmstats_table *table = rec->table[i];

		if (table)
			core_set_table(k, i, check_alloc(table_make(table->desc, table->count)));
	}
}

/* Report a sample to the core. Return false if it has impossible numbers. */
static bool take_sample_chunk(struct recording *rec, struct rec_bytes *t, bool is_key)
{
	uint64_t memory = rec->memory, count, i;
	long index = -1;

	if (is_key)
		take_key(rec, t);
	else if (!rec->has_key)
		return false;
	rec->time = rec->key_time + take_signed(t);
	if (is_key)
		rec->key_time = rec->time;
	if (rec->k)
		prepare_core(rec);
	rec->host.cpus = take_most(t, UINT32_MAX / 1000);
	rec->host.load = take_most(t, UINT32_MAX);
	take_problems(rec, t);
	count = take_most(t, VMS_MAX);
	for (i = 0; i < count && !t->wrong; i++)
		take_vm(rec, t, is_key, &index, &memory);
	if (t->wrong && is_key)
		rec->has_key = false;
	if (rec->k)
		core_set_time(rec->k, rec->time);
	return !t->wrong;
}

bool recording_try(const void *bytes, size_t size, char kind)
{
	static struct recording rec = { .memory = MEMORY_MIN };
	struct rec_bytes t = { .at = bytes, .end = (const unsigned char *)bytes + size };

	return take_sample_chunk(&rec, &t, kind == 'K');
}

/* Return a bit for a kind of chunks before a sample, 0 for others. */
static uint32_t is_added(char kind)
{
	return kind == RECORDED_BLAME || kind == RECORDED_EXITS || kind == RECORDED_STALLS ||
	       kind == RECORDED_REPORT ? 1U << (kind - 'A') : 0;
}

bool recording_has(const struct recording *rec, char kind)
{
	return rec->kinds & is_added(kind);
}

static void add_chunk(void *arg, const struct chunk *chunk, uint64_t at, uint64_t size)
{
	struct recording *rec = arg;
	const struct rec_sample *last = rec->samples ? &rec->sample[rec->samples - 1] : NULL;
	const bool is_key = chunk && chunk->kind == 'K';
	const uint8_t part = rec->end ? 1 : 0;
	struct stat st;
	bool cut;

	if (!chunk) {
		cut = !fstat(rec->fd[part], &st) && at + size >= (uint64_t)st.st_size;
		/* While the file is read, its last sample may be incomplete for a moment. */
		if (!cut || rec->end <= FILE_HEAD)
			set_problem(rec, rec->path, at, size, cut);
		return;
	}
	if (is_added(chunk->kind)) {
		rec->kinds |= is_added(chunk->kind);
		rec->added_from = rec->added_from ? rec->added_from : at;
		return;
	}
	if (!is_key && chunk->kind != 'S')
		return;
	/* Its key sample was damaged, or is in the file before, which may be closed. */
	if (!is_key && (!last || last->part != part || last->key_number != chunk->key)) {
		set_problem(rec, rec->path, at, size, false);
		return;
	}
	if (rec->samples == rec->room) {
		rec->room = rec->room ? 2 * rec->room : 1024;
		rec->sample = check_alloc(realloc(rec->sample, rec->room * sizeof(*rec->sample)));
		last = rec->samples ? &rec->sample[rec->samples - 1] : NULL;
	}
	rec->sample[rec->samples] = (struct rec_sample){
		.at = at, .from = rec->added_from ? rec->added_from : at, .time = chunk->time,
		.key = is_key ? rec->samples : last->key, .key_number = chunk->key, .part = part,
	};
	rec->samples++;
	rec->added_from = 0;
}

/* Return the number of the first sample in FILE. */
static unsigned long first_of_file(const struct recording *rec)
{
	unsigned long i = rec->samples;

	while (i && rec->sample[i - 1].part)
		i--;
	return i;
}

/* FILE has become FILE.1, and fd is the new FILE. */
static void replace_file(struct recording *rec, int fd)
{
	const unsigned long old = first_of_file(rec);
	unsigned long i;

	for (i = old; i < rec->samples; i++) {
		rec->sample[i - old] = rec->sample[i];
		rec->sample[i - old].key -= old;
		rec->sample[i - old].part = 0;
	}
	rec->samples -= old;
	rec->next = rec->next > old ? rec->next - old : 0;
	if (rec->fd[0] >= 0)
		close(rec->fd[0]);
	rec->fd[0] = rec->fd[1];
	rec->fd[1] = fd;
	rec->end = FILE_HEAD;
	rec->added_from = 0;
	rec->replaced++;
}

/* Return true if the file that is read has been emptied, and perhaps written again. */
static bool is_emptied(const struct recording *rec)
{
	unsigned char first[CHUNK_HEAD];
	ssize_t n;

	if (rec->end == FILE_HEAD)
		return false;
	n = pread(rec->fd[1], first, sizeof(first), FILE_HEAD);
	/* -1 is a disk that cannot read it */
	return n >= 0 && (n < (ssize_t)sizeof(first) || memcmp(first, rec->first, sizeof(first)));
}

static bool is_renamed(const struct recording *rec)
{
	struct stat opened, named;

	return fstat(rec->fd[1], &opened) || stat(rec->path, &named) ||
	       opened.st_dev != named.st_dev || opened.st_ino != named.st_ino;
}

/* Open FILE again, unless it is empty until the recorder writes the first sample. */
static void open_new_file(struct recording *rec)
{
	const int fd = open(rec->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 && errno != ENOENT && !*rec->problem)
		snprintf(rec->problem, sizeof(rec->problem), "%.150s: cannot open the file that replaced it: %s",
			 rec->path, strerror(errno));
	if (fd < 0)
		return;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && !scan_begins(fd))
		replace_file(rec, fd);
	else
		close(fd);
}

static void find_in_file(struct recording *rec)
{
	const bool starts = rec->end == FILE_HEAD;
	struct stat st;

	if (!fstat(rec->fd[1], &st) && (uint64_t)st.st_size > rec->end)
		rec->end = scan_chunks(rec->fd[1], rec->end, st.st_size, add_chunk, rec);
	if (starts && pread(rec->fd[1], rec->first, sizeof(rec->first), FILE_HEAD) < 0)
		memset(rec->first, 0, sizeof(rec->first));
}

/* Find what was written since the last time: first to the file that was renamed since then. */
static void find_more(struct recording *rec)
{
	const unsigned long before = rec->samples;
	const bool renamed = is_renamed(rec);

	if (is_emptied(rec))
		open_new_file(rec);
	find_in_file(rec);
	if (!renamed || rec->samples > before)
		return;
	open_new_file(rec);
	find_in_file(rec);
}

static int open_part(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		err(STATUS_USAGE, "%s", path);
	if (!S_ISREG(st.st_mode))
		errx(STATUS_USAGE, "%s: not a regular file", path);
	return fd;
}

static void open_files(struct recording *rec)
{
	char old[strlen(rec->path) + 3];
	const char *wrong;
	struct stat st;
	uint64_t size = 0;

	rec->fd[1] = open_part(rec->path);
	wrong = scan_begins(rec->fd[1]);
	if (wrong)
		errx(STATUS_USAGE, "%s: %s", rec->path, wrong);
	if (!fstat(rec->fd[1], &st))
		size = st.st_size;
	strcat(strcpy(old, rec->path), ".1");
	/* what was before it may be anything else that is called so */
	rec->fd[0] = open(old, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (rec->fd[0] >= 0 && !fstat(rec->fd[0], &st) && S_ISREG(st.st_mode) &&
	    !scan_begins(rec->fd[0])) {
		const char *path = rec->path;

		size += st.st_size;
		rec->path = old;
		scan_chunks(rec->fd[0], FILE_HEAD, st.st_size, add_chunk, rec);
		rec->path = path;
	}
	rec->end = FILE_HEAD;
	rec->added_from = 0;
	find_more(rec);
	if (!rec->samples)
		errx(STATUS_USAGE, "%s: it is cut: there is no sample in it", rec->path);
	rec->memory = size * MEMORY_FACTOR;
	if (rec->memory < MEMORY_MIN)
		rec->memory = MEMORY_MIN;
	if (rec->memory > MEMORY_MAX)
		rec->memory = MEMORY_MAX;
}

static void open_pipe(struct recording *rec)
{
	unsigned char head[FILE_HEAD];
	size_t done = 0;
	const char *wrong;
	ssize_t n;

	rec->fd[0] = -1;
	rec->fd[1] = STDIN_FILENO;
	while (done < sizeof(head) && (n = read(STDIN_FILENO, head + done, sizeof(head) - done)) > 0)
		done += n;
	wrong = chunk_bad_file(head, done);
	if (wrong)
		errx(STATUS_USAGE, "standard input: %s", wrong);
	/* for the VMs, and for chunks before a sample */
	rec->memory = MEMORY_MAX / 2;
}

static bool is_file(const struct recording *rec)
{
	return strcmp(rec->path, "-");
}

/* This process samples the host, and does not read the sample. */
static bool is_sampled_here(const struct recording *rec)
{
	return !core_is_recorded(rec->k);
}

/* Read the contents that were fetched; report them if there is a core. */
static bool take_chunk(struct recording *rec)
{
	const bool is_key = rec->chunk.kind == 'K';
	struct rec_bytes t = { .at = rec->data, .end = rec->data + rec->chunk.size };

	rec->wall = rec->chunk.time;
	if (is_key)
		rec->key_number = rec->chunk.key;
	return take_sample_chunk(rec, &t, is_key);
}

static bool read_chunk(struct recording *rec, unsigned long i)
{
	const struct rec_sample *s = &rec->sample[i];

	return scan_read(rec->fd[s->part], s->at, &rec->chunk, &rec->data, &rec->data_room) &&
	       rec->chunk.key == s->key_number &&
	       chunk_unpack(&rec->chunk, &rec->data, &rec->data_room);
}

/* Read the key sample of a sample, without reporting it. */
static bool read_key(struct recording *rec, unsigned long i)
{
	struct kvmstats *k = rec->k;
	bool ok;

	if (rec->sample[i].key == i ||
	    (rec->has_key && rec->key_number == rec->sample[i].key_number))
		return true;
	rec->k = NULL;
	ok = read_chunk(rec, rec->sample[i].key) && take_chunk(rec);
	rec->k = k;
	return ok;
}

/* Where recording_added() continues, and how many chunks of a kind are before it */
struct added_cursor {
	char kind;
	size_t passed, next;
};

static void forget_added(struct recording *rec)
{
	rec->cursor->kind = '\0';
	while (rec->added_count)
		free(rec->added[--rec->added_count].data);
	rec->added_size = 0;
}

/* Keep a chunk of sums for recording_added(). */
static void keep_added(struct recording *rec)
{
	struct rec_added *added;

	/* A pipe may never have a sample. */
	if (!is_added(rec->chunk.kind) || rec->added_size > rec->memory ||
	    !chunk_unpack(&rec->chunk, &rec->data, &rec->data_room))
		return;
	rec->kinds |= is_added(rec->chunk.kind);
	rec->added_size += sizeof(*added) + rec->chunk.size;
	rec->added = check_alloc(realloc(rec->added, (rec->added_count + 1) * sizeof(*added)));
	added = &rec->added[rec->added_count++];
	*added = (struct rec_added){ rec->chunk.kind, rec->chunk.size,
				     check_alloc(malloc(rec->chunk.size + 1)) };
	memcpy(added->data, rec->data, rec->chunk.size);
}

bool recording_added(const struct recording *rec, size_t i, char kind, struct rec_bytes *contents)
{
	struct added_cursor *cursor = rec->cursor;

	/* Callers ask for one after the other. */
	if (cursor->kind != kind || i < cursor->passed)
		*cursor = (struct added_cursor){ .kind = kind };
	while (cursor->next < rec->added_count) {
		const struct rec_added *added = &rec->added[cursor->next++];

		if (added->kind != kind || cursor->passed++ < i)
			continue;
		*contents = (struct rec_bytes){ .at = added->data, .end = added->data + added->size };
		return true;
	}
	return false;
}

static void read_added(struct recording *rec, const struct rec_sample *s)
{
	uint64_t at = s->from;

	while (at < s->at &&
	       scan_read(rec->fd[s->part], at, &rec->chunk, &rec->data, &rec->data_room)) {
		at += CHUNK_HEAD + rec->chunk.size;
		keep_added(rec);
	}
}

static bool fetch_from_file(struct recording *rec)
{
	if (rec->next >= rec->samples)
		find_more(rec);
	for (; rec->next < rec->samples; rec->next++) {
		forget_added(rec);
		read_added(rec, &rec->sample[rec->next]);
		if (read_key(rec, rec->next) && read_chunk(rec, rec->next)) {
			rec->next++;
			return true;
		}
		set_problem(rec, rec->path, rec->sample[rec->next].at, CHUNK_HEAD, false);
	}
	return false;
}

static bool fetch_from_pipe(struct recording *rec)
{
	uint64_t skipped;

	forget_added(rec);
	while (scan_read_next(rec->fd[1], &rec->chunk, &rec->data, &rec->data_room, &skipped)) {
		if (skipped)
			set_problem(rec, "standard input", 0, skipped, false);
		keep_added(rec);
		if ((rec->chunk.kind == 'K' || (rec->chunk.kind == 'S' && (is_sampled_here(rec) ||
		     (rec->has_key && rec->chunk.key == rec->key_number)))) &&
		    chunk_unpack(&rec->chunk, &rec->data, &rec->data_room))
			return true;
	}
	if (skipped)
		set_problem(rec, "standard input", 0, skipped, true);
	return false;
}

bool recording_fetch(struct recording *rec)
{
	if (!rec->fetched)
		rec->fetched = is_file(rec) ? fetch_from_file(rec) : fetch_from_pipe(rec);
	return rec->fetched;
}

static int sample_recording(struct kvmstats *k, void *state)
{
	struct recording *rec = state;

	if (!recording_fetch(rec))
		return core_problem(k, -ENODATA, "%s: no more samples", rec->path);
	rec->fetched = false;
	if (!take_chunk(rec)) {
		snprintf(rec->problem, sizeof(rec->problem),
			 "%.150s: a sample has impossible numbers in it", rec->path);
		return core_problem(k, -EIO, "%s", rec->problem);
	}
	return rec->problem_of_sample;
}

static void close_recording(struct kvmstats *k, void *state)
{
	struct recording *rec = state;
	unsigned int i;

	for (i = 0; i < KVMSTATS_SCOPES; i++)
		kvmstats_free_table(rec->table[i]);
	for (i = 0; i < 2; i++) {
		if (rec->fd[i] > STDIN_FILENO)
			close(rec->fd[i]);
	}
	forget_added(rec);
	free(rec->added);
	free(rec->cursor);
	key_clear(&rec->key);
	free(rec->words);
	free(rec->sample);
	free(rec->data);
	free(rec);
}

static const struct source_ops source_recording = {
	.name = "recording",
	.what = "what \"record\" has written",
	.sample = sample_recording,
	.close = close_recording,
};

static struct recording *new_recording(const char *path)
{
	struct recording *rec = check_alloc(calloc(1, sizeof(*rec)));

	rec->path = path;
	rec->cursor = check_alloc(calloc(1, sizeof(*rec->cursor)));
	/* not NULL, also before the first contents that have bytes */
	rec->data = check_alloc(malloc(1));
	rec->data_room = 1;
	return rec;
}

struct recording *recording_open(const char *path, struct kvmstats **k)
{
	struct recording *rec = new_recording(path);

	if (is_file(rec))
		open_files(rec);
	else
		open_pipe(rec);
	if (source_open(k, &source_recording, rec))
		err(STATUS_NOTHING, NULL);
	rec->k = *k;
	if (!recording_fetch(rec))
		errx(STATUS_USAGE, "%s: it is cut: there is no sample in it",
		     is_file(rec) ? path : "standard input");
	kvmstats_sample(*k);
	return rec;
}

struct recording *recording_of_own(struct kvmstats *k)
{
	struct recording *rec = new_recording("-");

	rec->k = k;
	open_pipe(rec);
	return rec;
}

void recording_skip(struct recording *rec, struct host host)
{
	struct rec_bytes t = { .at = rec->data, .end = rec->data + rec->chunk.size };

	if (rec->chunk.kind == 'K')
		rec->reported_run = take_number(&t);
	rec->fetched = false;
	rec->host = host;
}

void recording_continue(struct recording *rec)
{
	source_replace(rec->k, &source_recording, rec);
}

unsigned int recording_replaced(const struct recording *rec)
{
	return rec->replaced;
}

void recording_seek_file(struct recording *rec)
{
	const unsigned long first = first_of_file(rec);

	recording_seek(rec, first ? first - 1 : 0);
}

unsigned long recording_count(const struct recording *rec)
{
	return rec->samples;
}

uint64_t recording_time(const struct recording *rec, unsigned long sample)
{
	return rec->sample[sample].time;
}

unsigned long recording_position(const struct recording *rec)
{
	const unsigned long after = rec->fetched ? 2 : 1;	/* the next one may have been fetched */

	/* 0 also when another file has replaced the one with the sample */
	return rec->next >= after ? rec->next - after : 0;
}

uint64_t recording_fetched(const struct recording *rec)
{
	return rec->chunk.time;
}

uint64_t recording_now(const struct recording *rec)
{
	return rec->wall;
}

uint64_t recording_collect(struct recording *rec, uint64_t nanoseconds)
{
	unsigned long i;

	if (!rec->samples)
		return 0;
	forget_added(rec);
	for (i = rec->next; i && rec->sample[i - 1].time + nanoseconds > rec->wall &&
	     rec->sample[i - 1].time <= rec->wall; i--)
		read_added(rec, &rec->sample[i - 1]);
	/* The first of them has what was counted since the sample before it. */
	return rec->wall - rec->sample[i ? i - 1 : 0].time;
}

void recording_seek(struct recording *rec, unsigned long sample)
{
	core_restart(rec->k);
	rec->reported_run = 0;
	rec->next = sample ? sample - 1 : 0;
	rec->fetched = false;
	do {
		if (!recording_fetch(rec))
			return;
		kvmstats_sample(rec->k);
	} while (rec->next <= sample);
}

struct host recording_host(const struct recording *rec)
{
	return rec->host;
}

const char *recording_problem(const struct recording *rec)
{
	return rec->problem;
}
