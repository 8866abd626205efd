// SPDX-License-Identifier: GPL-2.0-only
/*
 * The BPF source reports each VM once, whichever processes have its files; and it refuses to
 * copy data that contradicts the kernel's descriptors: each number from the kernel's type
 * information is falsified in turn. Needs root and /dev/kvm; prints TAP.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf_check.h"
#include "bpf_quota.h"
#include "file.h"
#include "uevent_test.h"

/* Expect a refusal whose message contains reason, or success if reason is NULL. */
static void expect(const char *what, int error, const char *reason)
{
	tap_result(reason ? error < 0 && strstr(why, reason) : !error, "%s: %s", what,
		   error ? why : "no refusal");
}

static int check_layout(const struct bpf_kvm_types *types,
			const struct bpf_layout *layout, const struct probe_vm *own)
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

static void test_offsets(const struct bpf_kvm_types *types, const struct probe_vm *own)
{
	static const struct {
		const char *what;
		size_t at;
		const char *reason;	/* where there are statistics files, */
		const char *otherwise;	/* and where not, if that is another */
	} fields[] = {
#define FIELD(name) .what = "offset of " #name, .at = offsetof(struct bpf_layout, name)
		{ FIELD(vm_mm), .reason = "wrong owner of a VM" },
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
static int count_by(int (*reader)(struct bpf_iterator *, const struct bpf_record ***),
		    struct bpf_iterator *iterator, pid_t pid, const struct bpf_record **vcpu)
{
	const struct bpf_record **records;
	int i, n = reader(iterator, &records), count = 0;

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

static int read_all(struct bpf_iterator *iterator, const struct bpf_record ***records)
{
	return bpf_iterator_read(iterator, true, records);
}

static int count_records(struct bpf_iterator *iterator, pid_t pid,
			 const struct bpf_record **vcpu)
{
	return count_by(read_all, iterator, pid, vcpu);
}

static int count_known(struct bpf_iterator *iterator, pid_t pid)
{
	const struct bpf_record *vcpu;

	return count_by(bpf_iterator_read_known, iterator, pid, &vcpu);
}

static int to_test;

/* Until it is killed. */
static void *make_vm(void *arg)
{
	struct probe_vm own;
	char ready = !probe_vm_open(&own, 1, why, sizeof(why));

	probe_vm_run(&own);
	if (write(to_test, &ready, 1) == 1)
		pause();
	return NULL;
}

static void run_vm(int from, int to)
{
	to_test = to;
	make_vm(NULL);
}

/* The first thread ends, another one creates the VM. */
static void run_headless(int from, int to)
{
	pthread_t thread;

	to_test = to;
	pthread_create(&thread, NULL, make_vm, NULL);
	pthread_exit(NULL);
}

/*
 * A process that has a VM; headless: its first thread has ended, another one made it. That
 * may be there a little longer.
 */
static pid_t fork_vm(bool headless)
{
	const struct peer peer = start_peer(headless ? run_headless : run_vm);
	char ready = 0;

	if (read(peer.from, &ready, 1) != 1 || !ready)
		return -1;
	close_peer(&peer);
	if (headless)
		usleep(100000);
	return peer.pid;
}

static void test_who(const struct bpf_layout *layout, const struct probe_vm *own)
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
	end_process(pid);
	close(copy);

	pid = fork_vm(true);
	tap_result(pid > 0, "a process whose first thread has ended");
	if (pid > 0) {
		count = count_records(iterator, pid, &vcpu);
		tap_result(count == 2, "its VM and vCPU, each once: %d", count);
		tap_result(count == 2 && vcpu && vcpu->tid != pid &&
			   (vcpu->tid || !own->halts),
			   "and the vCPU's thread");
		end_process(pid);
		count = count_records(iterator, pid, &vcpu);
		tap_result(!count, "nothing of it when it has ended: %d", count);
	}
	bpf_iterator_close(iterator);
}

/* It reads the files of known processes only. */
static void test_known(const struct bpf_layout *layout)
{
	const struct bpf_record *vcpu;
	struct bpf_iterator *iterator;
	pid_t pid;
	int n;

	if (bpf_iterator_open(&iterator, layout, why, sizeof(why))) {
		tap_result(false, "what is known: %s", why);
		return;
	}
	count_records(iterator, getpid(), &vcpu);
	n = count_known(iterator, getpid());
	tap_result(n == 2, "a scan of known processes finds both VMs: %d", n);
	pid = fork_vm(false);
	n = count_known(iterator, pid);
	tap_result(!n, "another process is not looked at: %d", n);
	n = count_records(iterator, pid, &vcpu);
	tap_result(n == 2, "until all are: %d", n);
	n = count_known(iterator, pid);
	tap_result(n == 2, "a full scan makes a process known: %d", n);
	n = count_known(iterator, getpid());
	tap_result(n == 2, "and the first one still is: %d", n);
	end_process(pid);
	n = count_known(iterator, pid);
	tap_result(!n, "nothing of it when it has ended: %d", n);
	n = count_known(iterator, getpid());
	tap_result(n == 2, "but of the first one: %d", n);
	pid = fork_vm(true);
	n = count_records(iterator, pid, &vcpu);
	tap_result(n == 2, "a process whose first thread has ended: %d", n);
	n = count_known(iterator, pid);
	tap_result(n == 2, "known as well: %d", n);
	end_process(pid);
	bpf_iterator_close(iterator);
}

/* The VM is found in each sample, whichever processes it reads. */
static void test_headless(void)
{
	pid_t pid = fork_vm(true), neighbour = fork_neighbour();
	struct kvmstats *k;
	int i, seen = 0;

	if (!kvmstats_open(&k, "bpf", NULL, 0)) {
		for (i = 0; i < 5; i++) {
			const struct kvmstats_vm *vm;

			kvmstats_sample(k);
			vm = find_vm(k, pid);
			seen += vm && !vm->ended && vm->first_sample == !i;
		}
		kvmstats_close(k);
	}
	tap_result(seen == 5, "the VM of a process whose first thread has ended: in %d of 5 samples",
		   seen);
	end_process(pid);
	end_process(neighbour);
}

/* Let a vCPU wait; its group was throttled on its CPU, and on all CPUs. */
static void let_wait(struct bpf_record *r, unsigned int waited, unsigned int throttled,
		     unsigned int group_throttled)
{
	r->thread.time += 1000 * MS;
	r->thread.ready += waited * MS;
	r->thread.throttled += throttled * MS;
	r->thread.group_throttled += group_throttled * MS;
}

static bool was_throttled(const struct bpf_quota *quota, const struct bpf_record *r,
			  unsigned int ms)
{
	const __u64 throttled = bpf_quota_throttled(quota, r);

	if (throttled == ms * MS)
		return true;
	printf("# vCPU %llu: throttled for %llu ns\n", r->object, throttled);
	return false;
}

/* Far more vCPUs than a host has would take minutes if each were searched for one by one. */
static void test_quota(void)
{
	enum { KINDS = 3, VCPUS = 4000, ALL = KINDS * VCPUS };
	const struct bpf_record **list = calloc(ALL, sizeof(*list));
	struct bpf_record *records = calloc(ALL, sizeof(*records));
	struct bpf_quota quota = { 0 };
	unsigned int wrong[KINDS] = { 0 }, i;

	for (i = 0; i < ALL; i++) {
		records[i].object = 0x1000 + i;
		records[i].vcpu_id = i;
		/* none; a group each; all in one group */
		records[i].thread.group = i % KINDS == 1 ? 0x5000 + i : i % KINDS == 2 ? 0x50 : 0;
		list[i] = &records[i];
	}
	tap_result(!bpf_quota_update(&quota, list, ALL), "quotas of %d vCPUs", ALL);
	for (i = 0; i < ALL; i++) {
		records[i].thread.moves += i % KINDS == 2;
		let_wait(&records[i], i % 2 ? 40 : 80, 60, i % KINDS == 2 ? 30 * VCPUS : 60);
	}
	bpf_quota_update(&quota, list, ALL);
	for (i = 0; i < ALL; i++) {
		const unsigned int ms[KINDS] = { 0, i % 2 ? 40 : 60, i % 2 ? 20 : 40 };

		wrong[i % KINDS] += bpf_quota_throttled(&quota, list[i]) != ms[i % KINDS] * MS;
	}
	tap_result(!wrong[0], "vCPUs without a quota are not throttled: %u are", wrong[0]);
	tap_result(!wrong[1], "vCPUs that stayed on their CPUs have the time of their groups there, "
		   "but at most their waits: %u differ", wrong[1]);
	tap_result(!wrong[2], "vCPUs that moved share the time of their group in proportion to "
		   "their waits: %u differ", wrong[2]);
	bpf_quota_free(&quota);
	free(records);
	free(list);
}

static void test_quota_changes(void)
{
	struct bpf_record a = { .object = 1, .thread.group = 5, .thread.born = 7 };
	struct bpf_record b = { .object = 2, .thread.group = 5, .thread.born = 8 };
	const struct bpf_record *list[] = { &a, &b };
	struct bpf_quota quota = { 0 };

	a.thread.throttled = a.thread.group_throttled = b.thread.group_throttled = 900 * MS;
	bpf_quota_update(&quota, list, 2);
	tap_result(was_throttled(&quota, &a, 0), "time before the first sample does not count");
	b.thread.moves++;
	let_wait(&a, 100, 50, 80);
	let_wait(&b, 100, 10, 80);
	bpf_quota_update(&quota, list, 2);
	tap_result(was_throttled(&quota, &a, 50) && was_throttled(&quota, &b, 30),
		   "a vCPU that moved gets the remaining time of its group");
	a.thread.born++;
	let_wait(&a, 100, 50, 50);
	let_wait(&b, 100, 20, 50);
	bpf_quota_update(&quota, list, 2);
	tap_result(was_throttled(&quota, &a, 0) && was_throttled(&quota, &b, 50),
		   "a vCPU with a new thread, or at the address of another vCPU, begins again");
	bpf_quota_update(&quota, list, 1);
	bpf_quota_update(&quota, list, 1);
	let_wait(&a, 100, 50, 50);
	let_wait(&b, 100, 20, 50);
	bpf_quota_update(&quota, list, 2);
	tap_result(was_throttled(&quota, &a, 50) && was_throttled(&quota, &b, 0),
		   "a vCPU that was missing begins again");
	a.thread.group = b.thread.group = 0;
	let_wait(&a, 100, 50, 50);
	bpf_quota_update(&quota, list, 2);
	bpf_quota_update(&quota, list, 2);
	tap_result(was_throttled(&quota, &a, 0), "a vCPU that no longer has a quota is forgotten");
	bpf_quota_free(&quota);
}

/* Two vCPUs wait on one CPU for the quota of their cgroup, and a third one moves between the others. */
static void test_shared_quota(void)
{
	struct bpf_record a = { .object = 1, .thread = { .group = 5, .rq = 1 } };
	struct bpf_record b = { .object = 2, .thread = { .group = 5, .rq = 1 } };
	struct bpf_record c = { .object = 3, .thread = { .group = 5, .rq = 2 } };
	const struct bpf_record *list[] = { &a, &b, &c };
	struct bpf_quota quota = { 0 };

	bpf_quota_update(&quota, list, 3);
	c.thread.moves++;
	let_wait(&a, 60, 50, 100);
	let_wait(&b, 60, 50, 100);
	let_wait(&c, 60, 10, 100);
	bpf_quota_update(&quota, list, 3);
	tap_result(was_throttled(&quota, &a, 50) && was_throttled(&quota, &b, 50) &&
		   was_throttled(&quota, &c, 50),
		   "two vCPUs that wait on one CPU leave the time of the other CPUs to a third one");
	bpf_quota_free(&quota);
}

/* Let a real-time vCPU run and wait; set what it used of its quota in the period that lasts. */
static void let_run_and_wait(struct bpf_record *r, unsigned int ran, unsigned int waited,
			     unsigned int used)
{
	const __u64 period = r->thread.rt_period;

	r->thread.time += (ran + waited) * MS;
	r->thread.run += ran * MS;
	r->thread.ready += waited * MS;
	r->thread.rt_used = used * MS;
	r->thread.rt_next = (r->thread.time / period + 1) * period;
}

/* A real-time thread may run for 100 ms in each second. */
static void test_rt_quota(void)
{
	struct bpf_record a = {
		.object = 1, .thread.rt_period = 1000 * MS, .thread.rt_runtime = 100 * MS,
		.thread.rt_next = 1000 * MS,
	};
	const struct bpf_record *list[] = { &a };
	struct bpf_quota quota = { 0 };

	bpf_quota_update(&quota, list, 1);
	let_run_and_wait(&a, 50, 950, 0);
	bpf_quota_update(&quota, list, 1);
	tap_result(was_throttled(&quota, &a, 0),
		   "a real-time vCPU that did not use its quota up waited for something else");
	let_run_and_wait(&a, 100, 900, 0);
	bpf_quota_update(&quota, list, 1);
	tap_result(was_throttled(&quota, &a, 900),
		   "a real-time vCPU that used its quota up was throttled");
	let_run_and_wait(&a, 60, 0, 60);
	bpf_quota_update(&quota, list, 1);
	let_run_and_wait(&a, 50, 900, 10);
	bpf_quota_update(&quota, list, 1);
	tap_result(was_throttled(&quota, &a, 1800),
		   "a real-time vCPU that runs at both samples was throttled between them");
	let_run_and_wait(&a, 0, 50, 10);
	bpf_quota_update(&quota, list, 1);
	tap_result(was_throttled(&quota, &a, 1800),
		   "a real-time vCPU that waits in the period of the previous sample is not throttled");
	let_run_and_wait(&a, 90, 700, 100);
	a.thread.flags |= BPF_RT_THROTTLED;
	bpf_quota_update(&quota, list, 1);
	tap_result(was_throttled(&quota, &a, 2500),
		   "a real-time vCPU that has to wait for the next period is throttled");
	let_run_and_wait(&a, 0, 4200, 0);
	a.thread.flags &= ~BPF_RT_THROTTLED;
	bpf_quota_update(&quota, list, 1);
	tap_result(was_throttled(&quota, &a, 2700),
		   "a real-time vCPU that then waits for something else is throttled until the next period");
	bpf_quota_free(&quota);
}

/* The VM's own file is closed, the vCPU's is not. */
static void test_without_file(void)
{
	const struct kvmstats_vm *vm;
	struct kvmstats *k;
	struct probe_vm vm_of;

	/* not with the id by which a program like this one knows such VMs */
	if (probe_vm_open(&vm_of, 1, why, sizeof(why))) {
		tap_result(false, "another VM: %s", why);
		return;
	}
	close(vm_of.vm_stats);
	close(vm_of.vm);
	vm_of.vm = vm_of.vm_stats = -1;
	if (!kvmstats_open(&k, "bpf", NULL, 0) && !kvmstats_sample(k)) {
		vm = find_vm(k, getpid());
		tap_result(vm && !vm->values && vm->vcpus == 1 &&
			   vm->vcpu[0]->id == 1,
			   "a VM whose file was closed is reported with its vCPU");
		kvmstats_close(k);
	} else {
		tap_result(false, "the source bpf");
	}
	probe_vm_close(&vm_of);
}

/* Where no VMs of others come and go */
static int in_pid_namespace(void)
{
	struct bpf_kvm_types types;
	struct probe_vm own;

	if (bpf_types_find(&types, why, sizeof(why)) ||
	    probe_vm_open(&own, PROBE_VCPU_ID, why, sizeof(why))) {
		printf("Bail out! %s\n", why);
		return 1;
	}
	probe_vm_run(&own);
	expect("all as the kernel says", check_layout(&types, &types.layout, &own), NULL);
	test_offsets(&types, &own);
	if (own.vm_stats >= 0) {
		test_table("VM", own.vm_stats, types.vm, types.layout.vm_stat_size);
		test_table("vCPU", own.vcpu_stats, types.vcpu,
			   types.layout.vcpu_stat_size);
	}
	test_quota();
	test_quota_changes();
	test_shared_quota();
	test_rt_quota();
	test_who(&types.layout, &own);
	test_known(&types.layout);
	test_without_file();
	test_heir("bpf");
	test_headless();
	test_told("bpf");
	probe_vm_close(&own);
	bpf_types_free(&types);
	return tap_end();
}

int main(void)
{
	int status;
	pid_t pid;

	if (unshare(CLONE_NEWPID)) {
		perror("Bail out! a PID namespace");
		return 1;
	}
	pid = fork();
	if (!pid) {
		status = in_pid_namespace();
		fflush(stdout);
		_exit(status);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
