// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzz the reader of the BPF iterator's records, and of the last values in its ring, with libFuzzer:
 * any objects, owners, threads and quotas, in any order, with values of the size that the layout says.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bpf_check.h"
#include "bpf_iterator.h"
#include "core.h"
#include "probe_vm.h"
#include "readers.h"

#define RECORDS	24

extern const struct source_ops source_bpf;
const struct source_ops *const source_list[] = { &source_bpf, NULL };

static const uint8_t *at, *end;
static struct {
	struct bpf_record record;
	__u64 values[4];
} records[RECORDS];
static const struct bpf_record *list[RECORDS];

static uint8_t byte(void)
{
	return at < end ? *at++ : 0;
}

static void make_record(struct bpf_record *record, __u64 *values)
{
	const uint8_t flags = byte();
	unsigned int i;
	__u64 value;

	memset(record, 0, sizeof(*record));
	record->vm = 1 + byte() % 3;
	record->vcpu_id = byte() % 5 - 1;
	record->object = record->vm * 16 + record->vcpu_id;
	record->pid = byte() % 3;
	record->tid = byte() % 4;
	record->owner = flags & 1;
	record->started = byte();
	record->size = record->vcpu_id < 0 ? 8 : 16;
	record->thread.flags = byte();
	for (i = 0; i < sizeof(record->thread) / 8 - 1 && flags & 2; i++) {
		/* at most some weeks */
		value = (__u64)byte() << byte() % 44;
		memcpy((char *)&record->thread + 8 * i, &value, 8);
	}
	if (flags & 4)
		record->thread.time = read_clock(CLOCK_MONOTONIC);
	for (i = 0; i < record->size / 8; i++)
		values[i] = byte();
	memcpy(record->comm, "vmm", 4);
}

static int make_records(const struct bpf_record ***found)
{
	int i, n = byte() % RECORDS;

	for (i = 0; i < n; i++) {
		make_record(&records[i].record, records[i].values);
		list[i] = &records[i].record;
	}
	*found = list;
	return byte() == 255 ? -EIO : n;
}

int bpf_iterator_read(struct bpf_iterator *iterator, bool threads,
		      const struct bpf_record ***found)
{
	return make_records(found);
}

int bpf_iterator_read_known(struct bpf_iterator *iterator, const struct bpf_record ***found)
{
	return make_records(found);
}

int bpf_iterator_take_finals(struct bpf_iterator *iterator,
			     int (*take)(void *arg, const struct bpf_record *record), void *arg,
			     __u64 *lost)
{
	struct {
		struct bpf_record record;
		__u64 values[4];
	} final;
	int i, ret = 0, n = byte() % 8;

	for (i = 0; i < n && !ret; i++) {
		make_record(&final.record, final.values);
		if (final.record.vcpu_id >= 0)
			ret = take(arg, &final.record);
	}
	*lost = byte();
	return ret;
}

bool bpf_iterator_is_partial(const struct bpf_iterator *iterator, unsigned int *user)
{
	*user = byte();
	return *user == 255;
}

bool bpf_iterator_hides(const struct bpf_iterator *iterator) { return byte() == 255; }
int bpf_iterator_keep_finals(struct bpf_iterator *iterator) { return 0; }
bool bpf_iterator_note(struct bpf_iterator *iterator) { return byte() == 255; }
void bpf_iterator_close(struct bpf_iterator *iterator) {}
int probe_vm_open(struct probe_vm *own, int vcpu_id, char *why, size_t size)
{
	own->vm_stats = own->vcpu_stats = -1;
	return 0;
}
void probe_vm_run(struct probe_vm *own) {}
void probe_vm_close(struct probe_vm *own) {}
void bpf_types_free(struct bpf_kvm_types *types) {}

int bpf_types_find(struct bpf_kvm_types *types, char *why, size_t size)
{
	static const struct kvmstats_desc vm[] = { { .name = "remote_tlb_flush", .size = 1 } };
	static const struct kvmstats_desc vcpu[] = {
		{ .name = "exits", .size = 1 }, { .name = "halt_wait_ns", .size = 1, .offset = 8 },
	};

	types->vm = table_make(vm, 1);
	types->vcpu = table_make(vcpu, 2);
	types->layout = (struct bpf_layout){ .vm_stat_size = 8, .vcpu_stat_size = 16 };
	return 0;
}

int bpf_iterator_open_checked(struct bpf_iterator **iterator, const struct bpf_kvm_types *types,
			      const struct probe_vm *own, char *why, size_t size)
{
	*iterator = (void *)1;
	return 0;
}

int bpf_check_types(const char *kind, const struct kvmstats_table *described,
		    const struct kvmstats_table *members, __u32 size, char *why, size_t why_size)
{
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kvmstats *k;
	struct kvmstats_vm *vm;
	unsigned int i;

	at = data;
	end = data + size;
	if (kvmstats_open(&k, NULL, NULL, 0))
		abort();
	while (at < end) {
		kvmstats_sample(k);
		for (vm = kvmstats_first(k); vm; vm = vm->next) {
			for (i = 0; kvmstats_vm_vcpu(vm, i); i++)
				;
			if (i != vm->vcpus)
				abort();
		}
	}
	kvmstats_close(k);
	return 0;
}
