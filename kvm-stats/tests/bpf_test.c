// SPDX-License-Identifier: GPL-2.0-only
/*
 * The BPF source sees every VM once, whoever has its files; and it refuses to copy
 * what the kernel's descriptors do not describe: each number that it has from the
 * kernel's type information is made wrong in turn. Needs /dev/kvm and CAP_BPF,
 * CAP_PERFMON; prints TAP.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bpf_check.h"
#include "file.h"
#include "tap.h"

static char why[256];

/* A result; reason is what the refusal has to say, NULL: nothing is refused. */
static void expect(const char *what, int error, const char *reason)
{
	tap_result(reason ? error < 0 && strstr(why, reason) : !error, "%s: %s", what,
		   error ? why : "no refusal");
}

static int check_layout(const struct bpf_kvm_types *types,
			const struct bpf_layout *layout, const struct own_vm *own)
{
	struct bpf_kvm_types changed = *types;
	struct bpf_iterator *iterator;
	int error;

	changed.layout = *layout;
	error = bpf_iterator_open_checked(&iterator, &changed, own, why, sizeof(why));
	if (!error)
		bpf_iterator_close(iterator);
	return error;
}

static void test_offsets(const struct bpf_kvm_types *types, const struct own_vm *own)
{
	static const struct {
		const char *what;
		size_t at;
		const char *reason;	/* where there are statistics files, */
		const char *otherwise;	/* and where not, if that is another */
	} fields[] = {
#define FIELD(name) .what = "offset of " #name, .at = offsetof(struct bpf_layout, name)
		{ FIELD(vm_mm), .reason = "whose a VM is" },
		/* Nothing tells other than by a file. */
		{ FIELD(vm_stat), .reason = " of a VM, its file says",
		  .otherwise = "" },
		{ FIELD(vcpu_kvm), .reason = "which VM" },
		{ FIELD(vcpu_id), .reason = "sees vCPU" },
		{ FIELD(vcpu_pid), .reason = "sees thread" },
		{ FIELD(vcpu_stat), .reason = " of a vCPU, its file says",
		  .otherwise = "vCPU that halted" },
	};
	const bool files = own->vm_stats >= 0;
	static const int shifts[] = { -8, 8 };
	struct bpf_layout layout;
	char what[64];
	size_t i, j;

	for (i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		const char *reason = fields[i].reason;

		if (!files && fields[i].otherwise)
			reason = fields[i].otherwise;
		for (j = 0; *reason && j < sizeof(shifts) / sizeof(*shifts); j++) {
			layout = types->layout;
			*(__u32 *)((char *)&layout + fields[i].at) += shifts[j];
			snprintf(what, sizeof(what), "%s %+d", fields[i].what, shifts[j]);
			expect(what, check_layout(types, &layout, own), reason);
		}
	}
}

static void test_table(const char *kind, int fd, const struct kvmstats_table *members,
		       __u32 size)
{
	struct kvmstats_table *table = NULL;
	struct file_layout layout;
	struct kvmstats_desc *last;
	struct kvmstats_desc right;

	if (file_read_layout(fd, &layout) || file_read_table(fd, &layout, &table)) {
		tap_result(false, "the descriptors of a %s", kind);
		return;
	}
#define CHECK(what, size, reason) expect(what, bpf_check_types(kind, table, members, \
	size, why, sizeof(why)), reason)
	CHECK("descriptors as they are", size, NULL);
	CHECK("type information of a smaller structure", size - 8, "bytes by");
	CHECK("type information of a larger structure", size + 8, "bytes by");

	last = (struct kvmstats_desc *)&table->desc[table->count - 1];
	right = *last;
	last->offset -= 8;
	CHECK("another offset", size, "by its type information");
	*last = right;
	last->size++;
	CHECK("another number of values", size, "by its type information");
	*last = right;
	last->name = "nosuch";
	CHECK("an unknown statistic", size, "no statistic nosuch");
	*last = right;
	kvmstats_free_table(table);
}

/* How many records there are of this process, or -1; a vCPU's, if any, in *vcpu. */
static int count_records(struct bpf_iterator *iterator, pid_t pid,
			 const struct bpf_record **vcpu)
{
	const struct bpf_record **records;
	int i, n = bpf_iterator_read(iterator, &records), count = 0;

	*vcpu = NULL;
	if (n < 0)
		return n;
	for (i = 0; i < n; i++) {
		if (records[i]->pid != pid)
			continue;
		if (records[i]->vcpu_id >= 0)
			*vcpu = records[i];
		count++;
	}
	return count;
}

/* Until it is killed. */
static void *make_vm(void *pipe)
{
	struct own_vm own;
	char ready = !own_vm_open(&own, OWN_VCPU_ID, why, sizeof(why));

	own_vm_run(&own);
	if (write(*(int *)pipe, &ready, 1) == 1)
		pause();
	return NULL;
}

/* A process that has a VM, but in another thread than the first one, which ends. */
static pid_t fork_headless(void)
{
	char ready = 0;
	pthread_t thread;
	int pipes[2];
	pid_t pid;

	if (pipe(pipes))
		return -1;
	pid = fork();
	if (!pid) {
		pthread_create(&thread, NULL, make_vm, &pipes[1]);
		pthread_exit(NULL);
	}
	if (read(pipes[0], &ready, 1) != 1 || !ready)
		return -1;
	close(pipes[0]);
	close(pipes[1]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_who(const struct bpf_layout *layout, const struct own_vm *own)
{
	const struct bpf_record *vcpu = NULL;
	struct bpf_iterator *iterator;
	int copy, count;
	pid_t pid;

	if (bpf_iterator_open(&iterator, layout, why, sizeof(why))) {
		tap_result(false, "%s", why);
		return;
	}
	copy = dup(own->vcpu);
	pid = fork();
	if (!pid) {
		pause();
		_exit(0);
	}
	count = count_records(iterator, getpid(), &vcpu);
	tap_result(count == 2, "a VM and its vCPU, each once: %d", count);
	count = count_records(iterator, pid, &vcpu);
	tap_result(!count, "a process that inherited them has none: %d", count);
	end(pid);
	close(copy);

	pid = fork_headless();
	tap_result(pid > 0, "a process whose first thread has ended");
	if (pid > 0) {
		/* The thread may be there a little longer. */
		usleep(100000);
		count = count_records(iterator, pid, &vcpu);
		tap_result(count == 2, "its VM and vCPU, each once: %d", count);
		tap_result(count == 2 && vcpu && vcpu->tid != pid &&
			   (vcpu->tid || !own->halts),
			   "and the vCPU's thread");
		end(pid);
		count = count_records(iterator, pid, &vcpu);
		tap_result(!count, "nothing of it when it has ended: %d", count);
	}
	bpf_iterator_close(iterator);
}

/* The VM's own file is closed, the vCPU's is not. */
static void test_without_file(void)
{
	const struct kvmstats_options options = { .source = "bpf" };
	const struct kvmstats_vm *vm = NULL;
	struct kvmstats *k;
	struct own_vm vm_of;

	/* not with the id by which a program like this one knows such VMs */
	if (own_vm_open(&vm_of, 1, why, sizeof(why))) {
		tap_result(false, "another VM: %s", why);
		return;
	}
	close(vm_of.vm_stats);
	close(vm_of.vm);
	vm_of.vm = vm_of.vm_stats = -1;
	if (!kvmstats_open(&k, &options) && !kvmstats_sample(k)) {
		for (vm = kvmstats_first(k); vm && vm->pid != getpid(); vm = vm->next)
			;
		tap_result(vm && !vm->values && vm->vcpus == 1 &&
			   vm->vcpu[0]->id == 1,
			   "a VM without a file is there, with its vCPU");
		kvmstats_close(k);
	} else {
		tap_result(false, "the source bpf");
	}
	own_vm_close(&vm_of);
}

int main(void)
{
	struct bpf_kvm_types types;
	struct own_vm own;

	if (bpf_types_find(&types, why, sizeof(why)) ||
	    own_vm_open(&own, OWN_VCPU_ID, why, sizeof(why))) {
		printf("Bail out! %s\n", why);
		return 1;
	}
	own_vm_run(&own);
	expect("all as the kernel says", check_layout(&types, &types.layout, &own), NULL);
	test_offsets(&types, &own);
	if (own.vm_stats >= 0) {
		test_table("VM", own.vm_stats, types.vm, types.layout.vm_stat_size);
		test_table("vCPU", own.vcpu_stats, types.vcpu,
			   types.layout.vcpu_stat_size);
	}
	test_who(&types.layout, &own);
	test_without_file();
	own_vm_close(&own);
	bpf_types_free(&types);
	return tap_end();
}
