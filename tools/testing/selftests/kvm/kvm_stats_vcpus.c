// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the file of all vCPUs of a VM: KVM_STATS_GETFD with KVM_STATS_SCOPE_VCPUS
 *
 * It has the descriptors of a vCPU's own file, and a row of values for each vCPU, in
 * the order in which they were created. On Linux 5.10, a row ends with the id and the
 * thread of its vCPU; on later kernels, these are in fdinfo. What all statistics files
 * have in common is in kvm_bin_form_stats.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/compiler.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest_exits.h"
#include "kselftest.h"
#include "kvm_stats.h"
#include "kvm_util.h"
#include "stats_test.h"
#include "test_util.h"

/* Where the values are */
struct rows {
	struct kvm_stats stats;
	size_t size;		/* bytes in a row */
};

static size_t offset_of(const struct kvm_stats *stats, const char *name)
{
	const struct kvm_stats_desc *desc = kvm_stats_find(stats, name);

	TEST_ASSERT(desc, "No statistic %s", name);
	return desc->offset;
}

static void rows_open(struct rows *rows, int vm_fd)
{
	kvm_stats_open_getfd(&rows->stats, vm_fd, KVM_STATS_SCOPE_VCPUS);
	rows->size = kvm_stats_row_size(&rows->stats);
}

static off_t row_start(const struct rows *rows, unsigned int row)
{
	return rows->stats.data_offset + (off_t)row * rows->size;
}

/* All-ones if there is no such row */
static uint64_t row_value(const struct rows *rows, unsigned int row,
			  size_t offset)
{
	uint64_t value = UINT64_MAX;

	if (pread(rows->stats.fd, &value, sizeof(value),
		  row_start(rows, row) + offset) != sizeof(value))
		return UINT64_MAX;
	return value;
}

/* The id and the thread of a row, all-ones if there is no such row */
static struct kvm_stats_row row_vcpu(const struct rows *rows, unsigned int row)
{
	const struct kvm_stats_row none = { UINT64_MAX, UINT64_MAX };
	struct kvm_stats_row found[row + 1];

	return kvm_stats_read_rows(&rows->stats, found, row + 1) == row + 1 ? found[row] : none;
}

static uint64_t row_id(const struct rows *rows, unsigned int row)
{
	return row_vcpu(rows, row).id;
}

static uint64_t row_tid(const struct rows *rows, unsigned int row)
{
	return row_vcpu(rows, row).tid;
}

static unsigned int rows_now(const struct rows *rows)
{
	off_t end = lseek(rows->stats.fd, 0, SEEK_END);

	TEST_ASSERT(end >= rows->stats.data_offset &&
		    !((end - rows->stats.data_offset) % rows->size),
		    "the file has %lld bytes, no whole number of rows",
		    (long long)end);
	return (end - rows->stats.data_offset) / rows->size;
}

/* Whether a row begins with the values that the vCPU's own file has */
static bool row_is_of(const struct rows *rows, unsigned int row,
		      const struct kvm_stats *vcpu)
{
	size_t size = kvm_stats_data_size(vcpu);
	char *theirs = malloc(size), *ours = malloc(rows->size);
	bool same;

	TEST_ASSERT(theirs && ours, "No memory");
	same = pread(vcpu->fd, theirs, size, vcpu->data_offset) == (ssize_t)size &&
	       pread(rows->stats.fd, ours, rows->size, row_start(rows, row)) ==
	       (ssize_t)rows->size && !memcmp(theirs, ours, size);
	free(theirs);
	free(ours);
	return same;
}

static void test_empty(void)
{
	int vm_fd = create_bare_vm();
	struct rows rows;
	char byte;

	rows_open(&rows, vm_fd);
	ok(!rows_now(&rows), "a VM without a vCPU has no rows");
	ok(pread(rows.stats.fd, &byte, 1, row_start(&rows, 0)) == 0,
	   "a read of no rows returns 0");
	kvm_stats_close(&rows.stats);
	close(vm_fd);
}

/* A vCPU that could not be created to the end has no row. */
static void test_refused(void)
{
	int vm_fd = create_bare_vm(), vcpu_fd;
	struct rlimit old, none;
	const bool is_hv = kvm_check_cap(KVM_CAP_PPC_MMU_RADIX);
	struct rows rows;
	bool refused;

	rows_open(&rows, vm_fd);
	must_succeed(getrlimit(RLIMIT_NOFILE, &old));
	none = old;
	none.rlim_cur = 0;
	must_succeed(setrlimit(RLIMIT_NOFILE, &none));
	/* kvm-hv accepts an id only once, even if the vCPU could not be created. */
	refused = ioctl(vm_fd, KVM_CREATE_VCPU, is_hv ? 1ul : 0ul) == -1 && errno == EMFILE;
	must_succeed(setrlimit(RLIMIT_NOFILE, &old));
	ok(refused && !rows_now(&rows), "a vCPU for which there is no fd has no row");
	vcpu_fd = create_bare_vcpu(vm_fd, 0);
	ok(ioctl(vm_fd, KVM_CREATE_VCPU, 0ul) == -1 && errno == EEXIST &&
	   rows_now(&rows) == 1 && row_id(&rows, 0) == 0,
	   "a second vCPU with the same id has no row");
	kvm_stats_close(&rows.stats);
	close(vcpu_fd);
	close(vm_fd);
}

static bool instant(const struct kvm_stats_desc *desc, size_t offset)
{
	return desc->flags == (KVM_STATS_TYPE_INSTANT | KVM_STATS_UNIT_NONE) &&
	       desc->size == 1 && !desc->exponent && desc->offset == offset;
}

/* A reader of vCPUs' own files needs nothing new for this one. */
static void test_descriptors(void)
{
	int vm_fd = create_bare_vm(), vcpu_fd = create_bare_vcpu(vm_fd, 0);
	const unsigned int more = stats_rows_in_fdinfo ? 0 : 2;
	struct kvm_stats vcpu;
	struct rows rows;
	size_t size;

	kvm_stats_open_getfd(&vcpu, vcpu_fd, 0);
	rows_open(&rows, vm_fd);
	size = kvm_stats_data_size(&vcpu);
	ok(rows.stats.count == vcpu.count + more &&
	   rows.stats.name_size == vcpu.name_size &&
	   !memcmp(rows.stats.descs, vcpu.descs, vcpu.count * vcpu.desc_size),
	   "%u descriptors match those of a single-vCPU file", vcpu.count);
	if (!stats_rows_in_fdinfo) {
		ok(!strcmp(kvm_stats_desc(&rows.stats, vcpu.count)->name, "vcpu_id") &&
		   instant(kvm_stats_find(&rows.stats, "vcpu_id"), size),
		   "vcpu_id follows the statistics of a vCPU");
		ok(!strcmp(kvm_stats_desc(&rows.stats, vcpu.count + 1)->name, "vcpu_tid") &&
		   instant(kvm_stats_find(&rows.stats, "vcpu_tid"), size + 8),
		   "vcpu_tid follows vcpu_id");
	}
	ok(rows_now(&rows) == 1 && rows.size == size + more * sizeof(uint64_t),
	   "a vCPU has a row of %zu bytes", rows.size);
	kvm_stats_close(&vcpu);
	kvm_stats_close(&rows.stats);
	close(vcpu_fd);
	close(vm_fd);
}

/* Whether the link of a vCPU's file ends in the id of the vCPU */
static bool link_has(int stats_fd, unsigned long id)
{
	char path[64], link[64] = "", want[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", stats_fd);
	snprintf(want, sizeof(want), "anon_inode:kvm-vcpu-stats:%lu", id);
	return readlink(path, link, sizeof(link) - 1) > 0 && !strcmp(link, want);
}

/* vCPUs with ids that leave room between them come while the file is open. */
static void test_growth(void)
{
	/*
	 * Without that capability, ids are limited like the number of vCPUs. The
	 * same limit applies on kvm-hv if the cores of a VM have one thread.
	 */
	const int max_id = kvm_check_cap(KVM_CAP_PPC_MMU_RADIX) ? 0 :
			   kvm_check_cap(KVM_CAP_MAX_VCPU_ID);
	const unsigned long last_id = (max_id ?: kvm_check_cap(KVM_CAP_MAX_VCPUS)) - 1;
	const unsigned long ids[] = { 2, 0, last_id, 1 };
	int vm_fd = create_bare_vm(), vcpu_fd[ARRAY_SIZE(ids)], i, row;
	struct kvm_stats vcpu;
	struct rows rows;
	char *before, *after, *buf;
	bool good;

	if (last_id < 3) {
		ksft_test_result_skip("vCPU ids go to %lu only\n", last_id);
		close(vm_fd);
		return;
	}
	rows_open(&rows, vm_fd);
	buf = malloc(rows.size + 1);
	before = malloc(rows.stats.data_offset);
	after = malloc(rows.stats.data_offset);
	TEST_ASSERT(buf && before && after, "No memory");
	pread(rows.stats.fd, before, rows.stats.data_offset, 0);
	lseek(rows.stats.fd, 0, SEEK_END);

	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		good = read(rows.stats.fd, buf, 1) == 0;
		vcpu_fd[i] = create_bare_vcpu(vm_fd, ids[i]);
		good &= read(rows.stats.fd, buf, rows.size + 1) ==
			(ssize_t)rows.size && row_id(&rows, i) == ids[i];
		ok(good && rows_now(&rows) == i + 1,
		   "reading continues with a row for the new vCPU %lu", ids[i]);

		kvm_stats_open_getfd(&vcpu, vcpu_fd[i], 0);
		for (row = 0, good = true; row <= i; row++)
			good &= row_id(&rows, row) == ids[row];
		ok(good && row_is_of(&rows, i, &vcpu),
		   "%d rows in the order of creation, the last one as its own file",
		   i + 1);
		ok(link_has(vcpu.fd, ids[i]), "the link of a vCPU's file has the id %lu", ids[i]);
		kvm_stats_close(&vcpu);
	}
	ok(pread(rows.stats.fd, after, rows.stats.data_offset, 0) ==
	   rows.stats.data_offset &&
	   !memcmp(before, after, rows.stats.data_offset),
	   "a new vCPU changes neither header nor descriptors");

	/* Closing a vCPU fd does not destroy the vCPU: it exists while the VM exists. */
	for (i = 0; i < ARRAY_SIZE(ids); i++)
		close(vcpu_fd[i]);
	ok(rows_now(&rows) == ARRAY_SIZE(ids), "closing vCPU fds removes no row");
	kvm_stats_close(&rows.stats);
	close(vm_fd);
	free(buf);
	free(before);
	free(after);
}

/* Each vCPU counts in its own row, and in no other. */
static void test_rows(void)
{
	const struct guest_exit_stat *stat = guest_exit_stats();
	const uint32_t ids[] = { 1, 0, 2 };
	struct kvm_stats vcpu;
	struct rows rows;
	struct kvm_vm *vm;
	bool good;
	int i, j;

	vm = vm_create_guest(ids[0], guest_exits);
	vm_vcpu_add_default(vm, ids[1], guest_exits);
	vm_vcpu_add_default(vm, ids[2], guest_exits);
	rows_open(&rows, vm_get_fd(vm));
	for (i = 0; i < ARRAY_SIZE(ids); i++)
		vcpu_run_exits(vm, ids[i], 10 * (i + 1));
	for (; stat->name; stat++) {
		size_t offset = offset_of(&rows.stats, stat->name);

		if (!stat->exact)
			continue;
		for (i = 0, good = true; i < ARRAY_SIZE(ids); i++)
			good &= row_value(&rows, i, offset) ==
				10 * (i + 1) * stat->per_run;
		ok(good, "10, 20 and 30 exits are %llu, %llu and %llu %s",
		   (unsigned long long)row_value(&rows, 0, offset),
		   (unsigned long long)row_value(&rows, 1, offset),
		   (unsigned long long)row_value(&rows, 2, offset), stat->name);
	}
	for (i = 0, good = true; i < ARRAY_SIZE(ids); i++) {
		kvm_stats_open_getfd(&vcpu, vcpu_get_fd(vm, ids[i]), 0);
		for (j = 0; j < ARRAY_SIZE(ids); j++)
			good &= row_is_of(&rows, j, &vcpu) == (i == j);
		kvm_stats_close(&vcpu);
	}
	ok(good, "each row equals the file of its vCPU only");
	kvm_stats_close(&rows.stats);
	kvm_vm_free(vm);
}

static pid_t current_tid(void)
{
	return syscall(SYS_gettid);
}

/* Enter KVM_RUN and come back at once, which no guest is needed for. */
static pid_t run_at_once(int vcpu_fd)
{
	int kvm_fd = open("/dev/kvm", O_RDWR);
	int size = ioctl(kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0);
	struct kvm_run *run;

	close(kvm_fd);
	run = must_succeed(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu_fd, 0));
	run->immediate_exit = 1;
	TEST_ASSERT(ioctl(vcpu_fd, KVM_RUN, NULL) == -1 && errno == EINTR,
		    "KVM_RUN, errno: %i", errno);
	munmap(run, size);
	return current_tid();
}

struct run {
	const struct rows *rows;
	int vcpu_fd;
	pid_t tid;
	uint64_t seen;		/* in the row after KVM_RUN */
};

static void *run_in_thread(void *arg)
{
	struct run *run = arg;

	run->tid = run_at_once(run->vcpu_fd);
	run->seen = row_tid(run->rows, 0);
	return NULL;
}

/* Whether the row has the TID within 10 s: threads exit after they can be joined. */
static bool row_tid_becomes(const struct rows *rows, unsigned int row, uint64_t tid)
{
	const uint64_t start = now_ns();

	while (row_tid(rows, row) != tid && now_ns() - start < 10000000000ULL)
		usleep(1000);
	return row_tid(rows, row) == tid;
}

static void call_in_thread(void *(*function)(void *), void *arg)
{
	pthread_t thread;

	TEST_ASSERT(!pthread_create(&thread, NULL, function, arg), "pthread_create");
	pthread_join(thread, NULL);
}

struct creation {
	int vm_fd, vcpu_fd;
	pid_t tid;
};

static void *create_in_thread(void *arg)
{
	struct creation *creation = arg;

	creation->vcpu_fd = create_bare_vcpu(creation->vm_fd, 0);
	creation->tid = current_tid();
	return NULL;
}

/* The id contains the TGID, or the TID of the thread that creates the vCPU. */
static void test_id(void)
{
	struct creation creation = { .vm_fd = create_bare_vm() };
	struct kvm_stats vcpu;
	char want[64];

	call_in_thread(create_in_thread, &creation);
	kvm_stats_open_getfd(&vcpu, creation.vcpu_fd, 0);
	snprintf(want, sizeof(want), "kvm-%d/vcpu-0",
		 stats_id_has_tid ? creation.tid : getpid());
	ok(!strcmp(vcpu.id, want), "the id of a vCPU that a thread created is %s", vcpu.id);
	kvm_stats_close(&vcpu);
	close(creation.vcpu_fd);
	close(creation.vm_fd);
}

/* Call an ioctl of the vCPU other than KVM_RUN. */
static void *set_no_signal_mask(void *vcpu_fd)
{
	must_succeed(ioctl(*(int *)vcpu_fd, KVM_SET_SIGNAL_MASK, NULL));
	return NULL;
}

#ifdef __x86_64__
/* With an interrupt controller, vCPU 1 waits in KVM_RUN for an interrupt. */
static void test_tid_of_first_run(void)
{
	int vm_fd = create_bare_vm(), vcpu_fd;
	struct vcpu_thread thread;
	struct rows rows;

	must_succeed(ioctl(vm_fd, KVM_CREATE_IRQCHIP, NULL));
	close(create_bare_vcpu(vm_fd, 0));
	vcpu_fd = create_bare_vcpu(vm_fd, 1);
	rows_open(&rows, vm_fd);
	vcpu_thread_start(&thread, vcpu_fd);
	ok(row_tid_becomes(&rows, 1, thread.tid) && !READ_ONCE(thread.left),
	   "a row has the TID of the thread during its first KVM_RUN");
	vcpu_thread_stop(&thread);
	kvm_stats_close(&rows.stats);
	close(vcpu_fd);
	close(vm_fd);
}
#else
static void test_tid_of_first_run(void)
{
}
#endif

static void test_tid(void)
{
	int vm_fd = create_bare_vm(), vcpu_fd = create_bare_vcpu(vm_fd, 0);
	int other_fd = create_bare_vcpu(vm_fd, 1);
	struct run run = { .vcpu_fd = vcpu_fd };
	struct rows rows;

	rows_open(&rows, vm_fd);
	run.rows = &rows;
	ok(row_tid(&rows, 0) == 0, "the TID of a row is 0 before the vCPU ran");
	call_in_thread(set_no_signal_mask, &vcpu_fd);
	ok(row_tid(&rows, 0) == 0, "the TID of a row is 0 after an ioctl other than KVM_RUN");
	run_at_once(vcpu_fd);
	call_in_thread(set_no_signal_mask, &vcpu_fd);
	ok(row_tid(&rows, 0) == current_tid(), "the row has the thread that ran the vCPU, %d",
	   current_tid());
	call_in_thread(run_in_thread, &run);
	ok(run.seen == run.tid, "the row has another thread that ran the vCPU, %d", run.tid);
	ok(row_tid_becomes(&rows, 0, stats_rows_in_fdinfo ? 0 : run.tid),
	   "the TID of a row is %llu after the thread has exited",
	   (unsigned long long)row_tid(&rows, 0));
	run_at_once(vcpu_fd);
	ok(row_tid(&rows, 0) == current_tid(), "the row has the first thread again");
	ok(row_tid(&rows, 1) == 0, "the TID of another vCPU stays 0");
	kvm_stats_close(&rows.stats);
	close(other_fd);
	close(vcpu_fd);
	close(vm_fd);
}

/* Mount this process's procfs in a new mount namespace. */
static bool mount_proc(void)
{
	return !unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("proc", "/proc", "proc", 0, NULL);
}

/* TIDs of two rows, whose threads are inside and outside the namespace */
struct tids {
	uint64_t in_outer_proc, in_inner_proc, of_outer_thread;
};

static bool run_in_pid_namespace(struct tids *tids, const struct rows *outer)
{
	int vm_fd = create_bare_vm(), vcpu_fd = create_bare_vcpu(vm_fd, 0);
	struct rows rows;

	rows_open(&rows, vm_fd);
	if (run_at_once(vcpu_fd) != 1)
		return false;
	tids->in_outer_proc = row_tid(&rows, 0);
	if (!mount_proc())
		return false;
	tids->in_inner_proc = row_tid(&rows, 0);
	tids->of_outer_thread = row_tid(outer, 0);
	return true;
}

static bool child_in_pid_namespace(void *arg)
{
	int vm_fd = create_bare_vm(), vcpu_fd = create_bare_vcpu(vm_fd, 0);
	struct tids tids;
	struct rows rows;
	pid_t pid, own;
	int status, fds[2];
	bool fdinfo = stats_rows_in_fdinfo;

	rows_open(&rows, vm_fd);
	own = run_at_once(vcpu_fd);
	if (unshare(CLONE_NEWPID) || pipe(fds))
		return false;
	pid = fork();
	if (!pid)
		_exit(!run_in_pid_namespace(&tids, &rows) ||
		      write(fds[1], &tids, sizeof(tids)) != sizeof(tids));
	return waitpid(pid, &status, 0) == pid && !status &&
	       read(fds[0], &tids, sizeof(tids)) == sizeof(tids) &&
	       tids.in_outer_proc == pid && tids.in_inner_proc == (fdinfo ? 1 : pid) &&
	       tids.of_outer_thread == (fdinfo ? 0 : own);
}

static void test_pid_namespace(void)
{
	if (access("/proc/self/ns/pid", F_OK) || geteuid())
		ksft_test_result_skip("no PID namespace\n");
	else
		ok(child_says(child_in_pid_namespace, NULL), "TIDs belong to the %s",
		   stats_rows_in_fdinfo ? "PID namespace of the procfs" :
		   "initial PID namespace");
}

/* Any part of the table, in one read */
static void test_every_offset(void)
{
	int vm_fd = create_bare_vm(), i;
	size_t size, offset, want, reads = 0;
	char *reference, *buf;
	struct rows rows;
	bool good = true;
	ssize_t r = 0;

	for (i = 0; i < 3; i++)
		close(create_bare_vcpu(vm_fd, i));
	rows_open(&rows, vm_fd);
	size = row_start(&rows, 3);
	reference = malloc(size);
	buf = malloc(size + 16);
	TEST_ASSERT(reference && buf, "No memory");
	TEST_ASSERT(pread(rows.stats.fd, reference, size, 0) == (ssize_t)size,
		    "Reading the table failed");

	for (offset = row_start(&rows, 0) - 16; good && offset <= size + 8; offset++) {
		const size_t lengths[] = {
			1, 8, 17, rows.size - 1, rows.size, rows.size + 1,
			2 * rows.size - 8, size,
		};

		for (i = 0; good && i < ARRAY_SIZE(lengths); i++) {
			want = offset > size ? 0 : size - offset;
			if (want > lengths[i])
				want = lengths[i];
			memset(buf, POISON, want + 16);
			r = pread(rows.stats.fd, buf, lengths[i], offset);
			good = r == (ssize_t)want &&
			       !memcmp(buf, reference + offset, want) &&
			       poisoned(buf + want, 16);
			if (!good)
				ksft_print_msg("%zu bytes at %zu: %zd\n",
					       lengths[i], offset, r);
			reads++;
		}
	}
	ok(good, "%zu preads of every part of the table match", reads);
	kvm_stats_close(&rows.stats);
	close(vm_fd);
	free(reference);
	free(buf);
}

#ifdef __riscv
#define COPY_BLOCK	(8 * sizeof(long))
#else
#define COPY_BLOCK	1
#endif

/* The memory to read into ends in the middle of a row, or between two. */
static void test_faults(void)
{
	const long page = sysconf(_SC_PAGESIZE);
	int vm_fd = create_bare_vm(), i;
	size_t start, size, room, len;
	char *reference, *map, *end;
	struct rows rows;
	bool good = true;
	ssize_t r = 0;

	for (i = 0; i < 3; i++)
		close(create_bare_vcpu(vm_fd, i));
	rows_open(&rows, vm_fd);
	start = row_start(&rows, 0);
	size = 3 * rows.size;
	len = (size + page - 1) / page * page;
	reference = malloc(size);
	TEST_ASSERT(reference, "No memory");
	pread(rows.stats.fd, reference, size, start);
	map = must_succeed(mmap(NULL, len + page, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	end = map + len;
	must_succeed(mprotect(end, page, PROT_NONE));

	for (room = 1; good && room < size; room++) {
		memset(end - room, POISON, room);
		r = pread(rows.stats.fd, end - room, size, start);
		good = r > 0 && r <= (ssize_t)room &&
		       !memcmp(end - room, reference, r);
		/* A whole row before the fault is returned. */
		good &= r >= (ssize_t)(room / rows.size * rows.size);
		/* An aligned copy on riscv reports no byte of a block that faults. */
		good |= r == -1 && errno == EFAULT && room < COPY_BLOCK;
	}
	ok(good, "a fault after %zu bytes returns the bytes before it (%zd)",
	   room - 1, r);
	ok(pread(rows.stats.fd, end, size, start) == -1 && errno == EFAULT &&
	   pread(rows.stats.fd, end, size, start + rows.size + 8) == -1 &&
	   errno == EFAULT, "a fault at the first byte fails with EFAULT");
	munmap(map, len + page);
	kvm_stats_close(&rows.stats);
	close(vm_fd);
	free(reference);
}

/* A VM with as many vCPUs as it can have, and a reader that is killed */
static unsigned int alarms;

static void count_alarm(int sig)
{
	WRITE_ONCE(alarms, alarms + 1);
}

/* Only a signal that ends the process ends a read. */
static void test_signals(const struct rows *rows, char *buf, size_t size)
{
	const struct itimerval often = { { .tv_usec = 1000 }, { .tv_usec = 1000 } };
	const struct itimerval never = { };
	struct sigaction action = { .sa_handler = count_alarm }, old;
	unsigned int whole = 0, cut = 0;

	must_succeed(sigaction(SIGALRM, &action, &old));
	must_succeed(setitimer(ITIMER_REAL, &often, NULL));
	while (READ_ONCE(alarms) < 200) {
		if (pread(rows->stats.fd, buf, size, 0) == (ssize_t)size)
			whole++;
		else
			cut++;
	}
	must_succeed(setitimer(ITIMER_REAL, &never, NULL));
	must_succeed(sigaction(SIGALRM, &old, NULL));
	ok(whole && !cut, "signals cut no read: %u of %u", cut, cut + whole);
}

static void test_maximum(void)
{
	unsigned int max = kvm_check_cap(KVM_CAP_MAX_VCPUS), i;
	int vm_fd = create_bare_vm(), status, vcpu_fd;
	struct kvm_stats_row *vcpus;
	struct rows rows;
	bool good = true;
	size_t size;
	char *buf;
	pid_t pid;

	rows_open(&rows, vm_fd);
	for (i = 0; i < max; i++) {
		vcpu_fd = ioctl(vm_fd, KVM_CREATE_VCPU, (long)i);
		if (vcpu_fd < 0) {
			TEST_ASSERT(errno == ENOMEM, "KVM_CREATE_VCPU, errno: %i",
				    errno);
			ksft_print_msg("no memory for %u vCPUs\n", max);
			max = i;
		}
		close(vcpu_fd);
	}
	ok(rows_now(&rows) == max, "%u vCPUs, the most there can be, have %u rows",
	   max, rows_now(&rows));
	size = row_start(&rows, max);
	buf = malloc(size + 1);
	TEST_ASSERT(buf, "No memory");
	ok(pread(rows.stats.fd, buf, size + 1, 0) == (ssize_t)size,
	   "one pread takes all %zu bytes", size);
	vcpus = calloc(max + 1, sizeof(*vcpus));
	TEST_ASSERT(vcpus, "No memory");
	good = kvm_stats_read_rows(&rows.stats, vcpus, max + 1) == max;
	for (i = 0; i < max; i++)
		good &= vcpus[i].id == i;
	free(vcpus);
	ok(good, "each row has its vCPU's id");
	test_signals(&rows, buf, size);

	fflush(stdout);
	pid = must_succeed(fork());
	while (!pid) {
		if (pread(rows.stats.fd, buf, size, 0) != (ssize_t)size)
			_exit(1);
	}
	usleep(20000);
	kill(pid, SIGKILL);
	ok(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status),
	   "a process that is killed while it reads ends");
	kvm_stats_close(&rows.stats);
	close(vm_fd);
	free(buf);
}

int main(int argc, char *argv[])
{
	setbuf(stdout, NULL);
	ksft_print_header();
	if (!(kvm_check_cap(abi_getfd.cap) & KVM_STATS_CAP_VCPUS)) {
		print_skip("KVM_STATS_SCOPE_VCPUS is not available");
		exit(KSFT_SKIP);
	}

	test_empty();
	test_refused();
	test_descriptors();
	test_growth();
	if (guest_exit_stats())
		test_rows();
	else
		ksft_test_result_skip("no guest can run here\n");
	test_id();
	test_tid();
	test_tid_of_first_run();
	test_pid_namespace();
	test_every_offset();
	test_faults();
	test_maximum();

	ksft_set_plan(ksft_test_num());
	ksft_exit(!ksft_get_fail_cnt());
}
