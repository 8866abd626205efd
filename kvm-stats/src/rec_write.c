// SPDX-License-Identifier: GPL-2.0-only
/* Write a recording: see recording.h. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app.h"
#include "rec_chunk.h"
#include "rec_key.h"
#include "rec_scan.h"
#include "recorded.h"
#include "xalloc.h"

/* A damaged key sample loses this many. */
#define KEY_EVERY	60

struct recorder {
	const char *path;
	int fd;
	bool is_file;
	uint64_t max_size, size;	/* size of the file: complete chunks */
	uint64_t run;			/* number of this recorder: VMs of another one differ */
	struct bytes out;
	struct bytes added;		/* chunks to write before the next sample */
	struct key_sample key;
	uint32_t key_number;
	uint64_t key_time;		/* CLOCK_MONOTONIC */
	size_t key_size;		/* bytes */
	size_t extra;			/* bytes since then for VMs that the key sample lacks */
	unsigned int since_key;
	const struct kvmstats_table *table[KVMSTATS_SCOPES];
	unsigned int source_changes;
	bool need_key, failing;
	uint64_t *words;		/* those of one VM or vCPU */
	struct recorder_totals totals;
};

uint64_t recorder_unit(const struct recorder *r)
{
	return r->is_file ? 1000 : 1;
}

static void open_file(struct recorder *r)
{
	const char *wrong;
	struct stat st;

	r->fd = app_create(r->path, O_RDWR, 0640);
	if (r->fd < 0 || fstat(r->fd, &st))
		err(STATUS_NOTHING, "cannot open %s", r->path);
	if (!S_ISREG(st.st_mode))
		errx(STATUS_USAGE, "%s: not a regular file", r->path);
	if (flock(r->fd, LOCK_EX | LOCK_NB))
		errx(STATUS_NOTHING, "%s: another kvm-stats records to it", r->path);
	wrong = scan_begins(r->fd);
	if (wrong && st.st_size >= FILE_HEAD)
		errx(STATUS_USAGE, "%s: %s", r->path, wrong);
	if (wrong && st.st_size && strstr(wrong, "not a recording"))
		errx(STATUS_USAGE, "%s: %s", r->path, wrong);
	/* Cut off a chunk that was not completed. */
	r->size = wrong ? 0 : scan_chunks(r->fd, FILE_HEAD, st.st_size, NULL, NULL);
	if (r->size < (uint64_t)st.st_size && ftruncate(r->fd, r->size))
		err(STATUS_NOTHING, "cannot write %s", r->path);
}

struct recorder *recorder_open(const char *path, uint64_t max_size)
{
	struct recorder *r = check_alloc(calloc(1, sizeof(*r)));

	r->path = path;
	r->max_size = max_size;
	r->is_file = strcmp(path, "-");
	if (getrandom(&r->run, sizeof(r->run), 0) != sizeof(r->run))
		err(STATUS_NOTHING, "getrandom");
	r->key_number = r->run;
	if (r->is_file)
		open_file(r);
	else
		r->fd = STDOUT_FILENO;
	return r;
}

static void put_table(struct bytes *b, const struct kvmstats_table *table)
{
	unsigned int i;

	bytes_number(b, table ? table->count : 0);
	for (i = 0; table && i < table->count; i++) {
		const struct kvmstats_desc *d = &table->desc[i];

		bytes_text(b, d->name);
		bytes_number(b, d->type);
		bytes_number(b, d->unit);
		bytes_number(b, d->base);
		bytes_signed(b, d->exponent);
		bytes_number(b, d->size);
		bytes_number(b, d->offset / sizeof(uint64_t));
		bytes_number(b, d->bucket_size);
	}
}

/* Where words differ: how many are equal before, and by how much; ends with 0. */
static void put_words(struct bytes *b, const uint64_t *words, const uint64_t *key, size_t count)
{
	size_t i, same = 0;

	for (i = 0; i < count; i++, same++) {
		const uint64_t before = key ? key[i] : 0;

		if (words[i] == before)
			continue;
		bytes_number(b, same + 1);
		bytes_signed(b, words[i] - before);
		same = -1;
	}
	bytes_number(b, 0);
}

static void put_identity(struct bytes *b, const struct kvmstats_vm *vm)
{
	const struct kvmstats_identity *identity = &vm->identity;

	bytes_number(b, vm->key);
	bytes_number(b, identity->pid);
	bytes_number(b, identity->vm_id);
	bytes_number(b, identity->started);
	bytes_number(b, vm->nth);
#define PUT(text, size) bytes_text(b, identity->text);
	IDENTITY_TEXTS(PUT)
	bytes_text(b, identity_cgroup(identity));
}

static void gather_vm(const struct kvmstats *k, const struct kvmstats_vm *vm, int64_t unit, uint64_t *words)
{
	const struct kvmstats_table *table = kvmstats_table(k, KVMSTATS_VM);
	const struct recorded_others others = core_recorded_others(vm);
	unsigned int i;

	words[VM_TIME] = (int64_t)(core_sampled(k) - vm->time) / unit;
	words[VM_FLAGS] = (vm->ended ? VM_ENDED : 0) | (vm->vcpus_ambiguous ? VM_AMBIGUOUS : 0) |
			  (vm->values ? VM_HAS_VALUES : 0) | (others.is_known ? VM_HAS_OTHERS : 0);
	if (others.is_known && others.has_waited)
		words[VM_FLAGS] |= VM_HAS_WAITS | others.waited / unit << VM_WAITS_SHIFT;
	words[VM_OTHERS] = others.total / unit;
	for (i = 0; i < KVMSTATS_ROLES; i++)
		words[VM_ROLE + i] = others.role[i] / unit;
	if (vm->values)
		memcpy(words + VM_WORDS, vm->values, table->data_size);
	else if (table)
		memset(words + VM_WORDS, 0, table->data_size);
}

static void gather_vcpu(const struct kvmstats *k, const struct kvmstats_vm *vm,
			const struct kvmstats_vcpu *vcpu, int64_t unit, uint64_t *words)
{
	const struct thread_times *t = core_recorded_thread(vcpu);

	words[VCPU_TID] = vcpu->tid;
	words[VCPU_FLAGS] = (t->has_run ? VCPU_HAS_RUN : 0) |
			    (t->has_ready ? VCPU_HAS_READY : 0) |
			    (t->has_throttled ? VCPU_HAS_THROTTLED : 0) |
			    (t->has_sleeps ? VCPU_HAS_SLEEPS : 0) |
			    (t->up_to_date ? VCPU_UP_TO_DATE : 0) |
			    (t->loaded ? VCPU_LOADED : 0) |
			    (t->assumed ? VCPU_ASSUMED : 0) |
			    (core_recorded_exit(vcpu) ? VCPU_THREAD_EXITED : 0) |
			    (uint64_t)t->state << VCPU_STATE_SHIFT;
	words[VCPU_TIME] = (int64_t)(vm->time - t->time) / unit;
	words[VCPU_BORN] = t->born;
	words[VCPU_RUN] = t->run / unit;
	words[VCPU_READY] = t->ready / unit;
	words[VCPU_TURNS] = t->turns;
	words[VCPU_THROTTLED] = t->throttled / unit;
	words[VCPU_CPU] = t->cpu;
	words[VCPU_LOST] = t->lost / unit;
	words[VCPU_SLEEPS] = t->sleeps;
	words[VCPU_ASLEEP] = t->asleep ? (t->time - t->asleep) / unit : 0;
	memcpy(words + VCPU_WORDS, vcpu->values, kvmstats_table(k, KVMSTATS_VCPU)->data_size);
}

static void record_vcpu(struct recorder *r, const struct kvmstats *k, const struct kvmstats_vm *vm,
		     const struct kvmstats_vcpu *vcpu, struct key_vm *key, bool is_key, uint32_t *last)
{
	struct key_vcpu *same = key && !is_key ? key_find_vcpu(key, vcpu->id) : NULL;
	const size_t at = r->out.size;

	gather_vcpu(k, vm, vcpu, recorder_unit(r), r->words);
	bytes_number(&r->out, vcpu->id - *last);
	*last = vcpu->id;
	put_words(&r->out, r->words, same ? same->words : NULL, r->key.vcpu_words);
	if (is_key)
		memcpy(key_add_vcpu(&r->key, key, vcpu->id)->words, r->words,
		       r->key.vcpu_words * sizeof(uint64_t));
	else if (!same)
		r->extra += r->out.size - at;
}

/* index: of the VM before, in the key sample */
static void record_vm(struct recorder *r, const struct kvmstats *k, const struct kvmstats_vm *vm,
		   bool is_key, long *index)
{
	struct key_vm *key = is_key ? NULL : key_find_vm(&r->key, vm->key);
	const size_t at = r->out.size;
	uint32_t last = -1;
	unsigned int i;

	if (key && (key->nth != vm->nth || !identity_equals(&key->identity, &vm->identity)))
		key = NULL;
	if (key) {
		bytes_signed(&r->out, key - r->key.vm - *index);
		*index = key - r->key.vm;
	} else {
		bytes_signed(&r->out, 0);
		put_identity(&r->out, vm);
	}
	gather_vm(k, vm, recorder_unit(r), r->words);
	put_words(&r->out, r->words, key ? key->words : NULL, r->key.vm_words);
	if (is_key) {
		key = key_add_vm(&r->key);
		key->key = vm->key;
		identity_copy(&key->identity, &vm->identity);
		key->nth = vm->nth;
		memcpy(key->words, r->words, r->key.vm_words * sizeof(uint64_t));
	}
	bytes_number(&r->out, vm->vcpus);
	for (i = 0; i < vm->vcpus; i++)
		record_vcpu(r, k, vm, vm->vcpu[i], key, is_key, &last);
	if (!key)
		r->extra += r->out.size - at;
}

static void put_problems(struct bytes *b, const struct kvmstats *k)
{
	unsigned int i, count, mask = 0;
	uint64_t unobserved;
	const char *why;
	bool known;

	for (i = 0; i < KVMSTATS_REASONS; i++)
		mask |= !!kvmstats_failed_reads_by_reason(k, i, NULL) << i;
	bytes_number(b, mask);
	for (i = 0; i < KVMSTATS_REASONS; i++) {
		count = kvmstats_failed_reads_by_reason(k, i, &why);
		if (!count)
			continue;
		bytes_number(b, count);
		bytes_text(b, why);
	}
	bytes_text(b, kvmstats_problem(k));
	known = kvmstats_unobserved(k, &unobserved);
	bytes_number(b, known ? unobserved + 1 : 0);
}

static void begin_key(struct recorder *r, const struct kvmstats *k)
{
	unsigned int i;
	size_t words[KVMSTATS_SCOPES];

	key_clear(&r->key);
	/* Another source gives the same keys to other VMs. */
	r->run += r->source_changes != kvmstats_source_changes(k);
	r->source_changes = kvmstats_source_changes(k);
	bytes_number(&r->out, r->run);
	bytes_text(&r->out, kvmstats_source(k));
	bytes_number(&r->out, recorder_unit(r));
	for (i = 0; i < KVMSTATS_SCOPES; i++) {
		r->table[i] = kvmstats_table(k, i);
		words[i] = r->table[i] ? r->table[i]->data_size / sizeof(uint64_t) : 0;
		put_table(&r->out, r->table[i]);
	}
	r->key.vm_words = VM_WORDS + words[KVMSTATS_VM];
	r->key.vcpu_words = VCPU_WORDS + words[KVMSTATS_VCPU];
	r->words = check_alloc(realloc(r->words, (r->key.vm_words + r->key.vcpu_words) *
				       sizeof(uint64_t)));
	r->key_number++;
	r->key_time = 0;
	r->extra = r->since_key = 0;
	r->need_key = false;
}

static bool wants_key(const struct recorder *r, const struct kvmstats *k)
{
	unsigned int i;

	for (i = 0; i < KVMSTATS_SCOPES; i++) {
		if (r->table[i] != kvmstats_table(k, i))
			return true;
	}
	return r->need_key || !r->key_size || r->since_key >= KEY_EVERY || r->extra > r->key_size ||
	       r->source_changes != kvmstats_source_changes(k);
}

/* Return the number of VMs in it. */
static unsigned int encode_sample(struct recorder *r, const struct kvmstats *k, struct host host,
				  uint64_t time)
{
	static const unsigned char empty[CHUNK_HEAD];
	unsigned char head[FILE_HEAD] = RECORDING_MAGIC;
	const bool is_key = wants_key(r, k);
	struct bytes *b = &r->out;
	const struct kvmstats_vm *vm;
	unsigned int n = 0;
	long index = -1;
	size_t at;

	b->size = 0;
	if (!r->size) {
		put_le32(head + 12, RECORDING_FORMAT);
		bytes_put(b, head, sizeof(head));
	}
	bytes_put(b, r->added.data, r->added.size);
	at = b->size;
	bytes_put(b, empty, sizeof(empty));
	if (is_key)
		begin_key(r, k);
	bytes_signed(b, core_sampled(k) - r->key_time);
	if (is_key)
		r->key_time = core_sampled(k);
	bytes_number(b, host.cpus);
	bytes_number(b, host.load);
	put_problems(b, k);
	for (vm = kvmstats_first(k); vm; vm = vm->next)
		n += core_has_sampled(vm);
	bytes_number(b, n);
	for (vm = kvmstats_first(k); vm; vm = vm->next) {
		if (core_has_sampled(vm))
			record_vm(r, k, vm, is_key, &index);
	}
	chunk_seal(b, at, is_key ? 'K' : 'S', r->key_number, time, r->is_file);
	if (is_key)
		r->key_size = b->size - at;
	r->since_key++;
	return n;
}

void recorder_add(struct recorder *r, char kind, const struct bytes *contents)
{
	static const unsigned char empty[CHUNK_HEAD];
	const size_t at = r->added.size;

	bytes_put(&r->added, empty, sizeof(empty));
	bytes_put(&r->added, contents->data, contents->size);
	chunk_seal(&r->added, at, kind, r->key_number, app_wall(app_now()), r->is_file);
}

/* FILE becomes FILE.1 */
static void rotate(struct recorder *r)
{
	char old[strlen(r->path) + 3];

	strcat(strcpy(old, r->path), ".1");
	if (rename(r->path, old))
		err(STATUS_NOTHING, "cannot rename %s", r->path);
	close(r->fd);
	open_file(r);
	r->need_key = true;
}

/*
 * Continue in a new file if another program has removed, renamed or emptied the file, as
 * logrotate does.
 */
static void check_file(struct recorder *r)
{
	struct stat open, named;
	const char *what;

	if (fstat(r->fd, &open))
		err(STATUS_NOTHING, "cannot read %s", r->path);
	if (stat(r->path, &named) || named.st_ino != open.st_ino || named.st_dev != open.st_dev)
		what = "removed or renamed";
	else if ((uint64_t)open.st_size != r->size)
		what = "changed by another program";
	else
		return;
	warnx("%s was %s; continuing", r->path, what);
	close(r->fd);
	open_file(r);
	r->need_key = true;
}

static bool fail(struct recorder *r)
{
	const int error = errno;

	if (!r->is_file)
		errx(STATUS_NOTHING, "cannot write: %s", strerror(error));
	/* the part of it that was written */
	if (ftruncate(r->fd, r->size))
		r->failing = true;
	if (!r->failing)
		warnx("cannot write %s: %s; will retry", r->path, strerror(error));
	r->failing = true;
	r->added.size = 0;
	r->totals.lost++;
	r->need_key = true;
	return false;
}

/* Return true if all of it was written, false with errno set if not. */
static bool write_all(struct recorder *r)
{
	size_t done;
	ssize_t n;

	/* On a full disk, readers do not see a part of the sample. */
	if (r->is_file && fallocate(r->fd, FALLOC_FL_KEEP_SIZE, r->size, r->out.size) &&
	    errno == ENOSPC)
		return false;
	for (done = 0; done < r->out.size; done += n) {
		if (r->is_file)
			n = pwrite(r->fd, r->out.data + done, r->out.size - done, r->size + done);
		else
			n = write(r->fd, r->out.data + done, r->out.size - done);
		if (n < 0)
			return false;
	}
	return true;
}

bool recorder_sample(struct recorder *r, const struct kvmstats *k, struct host host,
		     uint64_t time)
{
	unsigned int vms;

	if (r->is_file && !r->failing)
		check_file(r);
	vms = encode_sample(r, k, host, time);
	if (r->is_file && r->size > FILE_HEAD && r->size + r->out.size > r->max_size / 2) {
		rotate(r);
		vms = encode_sample(r, k, host, time);
	}
	if (!write_all(r))
		return fail(r);
	if (r->failing)
		warnx("resumed writing %s, %llu samples lost", r->path,
		      (unsigned long long)r->totals.lost);
	r->failing = false;
	r->added.size = 0;
	r->size += r->out.size;
	r->totals.vms += vms;
	r->totals.bytes += r->out.size;
	r->totals.samples++;
	return true;
}

void recorder_restart(struct recorder *r)
{
	r->need_key = true;
}

struct recorder_totals recorder_close(struct recorder *r)
{
	const struct recorder_totals totals = r->totals;

	if (r->is_file)
		close(r->fd);
	key_clear(&r->key);
	free(r->words);
	free(r->out.data);
	free(r->added.data);
	free(r);
	return totals;
}
