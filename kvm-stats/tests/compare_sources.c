// SPDX-License-Identifier: GPL-2.0-only
/*
 * A source says the same as the statistics files of a VM that runs, in another process:
 * compare_sources SOURCE VMM, where VMM is the program of vmm.c. Each value that only grows is at
 * least what the file had before, and at most what it has afterwards. Needs root and
 * /dev/kvm; TAP.
 */
#include "tap.h"
#include "vm.h"

#define VCPUS	2

static pid_t vmm;

static struct kvmstats *open_source(const char *name)
{
	struct kvmstats *k;

	if (kvmstats_open(&k, name, NULL, 0))
		errx(1, "the source %s does not work", name);
	return k;
}

/* Return the VM after its guests have run for a while. */
static const struct kvmstats_vm *sample(struct kvmstats *k)
{
	const struct kvmstats_vm *vm;

	usleep(200000);
	if (kvmstats_sample(k))
		errx(1, "%s: %s", kvmstats_source(k), kvmstats_problem(k));
	vm = find_vm(k, vmm);
	if (!vm || vm->vcpus != VCPUS)
		errx(1, "%s does not see the VM and its vCPUs", kvmstats_source(k));
	return vm;
}

/* Compare with the current and the previous values of the file. */
static void compare(const char *what, enum kvmstats_scope scope, struct kvmstats *files,
		    const void *before, const void *now, struct kvmstats *other,
		    const void *between)
{
	const struct kvmstats_table *table = kvmstats_table(files, scope);
	unsigned int i, j, compared = 0, wrong = 0, grown = 0;

	for (i = 0; i < table->count; i++) {
		const struct kvmstats_desc *desc = &table->desc[i];
		const struct kvmstats_desc *same =
			kvmstats_find(kvmstats_table(other, scope), desc->name);

		if (desc->type == KVMSTATS_INSTANT || desc->type == KVMSTATS_PEAK)
			continue;
		for (j = 0; j < desc->size; j++) {
			uint64_t from = kvmstats_value(desc, before, j);
			uint64_t to = kvmstats_value(desc, now, j);
			uint64_t said = same ? kvmstats_value(same, between, j) : 0;

			compared++;
			grown += to > from;
			if (same && said >= from && said <= to)
				continue;
			wrong++;
			printf("# %s, %s: %llu, and the file from %llu to %llu\n", what,
			       desc->name, (unsigned long long)said,
			       (unsigned long long)from, (unsigned long long)to);
		}
	}
	tap_result(compared && !wrong, "%s of %s: of %u values %u are not the file's", what,
		   kvmstats_source(other), compared, wrong);
	if (scope == KVMSTATS_VCPU)
		tap_result(grown, "its guest runs: %u have grown", grown);
}

int main(int argc, char **argv)
{
	const struct kvmstats_vm *vm, *between;
	struct kvmstats *files, *other;
	unsigned int i;

	if (argc != 3)
		errx(2, "usage: compare_sources SOURCE VMM");
	/* the files are those that it keeps open */
	vmm = vm_start((char *[]){ argv[2], "-k", "1", "2", NULL }, NULL, NULL);
	if (vmm < 0)
		errx(1, "%s does not start", argv[2]);
	files = open_source("files");
	other = open_source(argv[1]);
	sample(files);
	between = sample(other);
	vm = sample(files);
	compare("the VM", KVMSTATS_VM, files, vm->before, vm->values, other, between->values);
	for (i = 0; i < VCPUS; i++)
		compare(i ? "vCPU 1" : "vCPU 0", KVMSTATS_VCPU, files, vm->vcpu[i]->before,
			vm->vcpu[i]->values, other, between->vcpu[i]->values);
	kvmstats_close(files);
	kvmstats_close(other);
	end_process(vmm);
	return tap_end();
}
