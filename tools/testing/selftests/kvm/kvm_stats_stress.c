// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read statistics files of all kinds in all ways while VMs come and go
 *
 *	kvm_stats_stress [-s SEED] [-t SECONDS | -n OPERATIONS]
 *
 * Some threads make VMs and vCPUs, run them, each time on another thread, and
 * destroy them. A process makes VMMs that hand out their statistics files and
 * are killed. Other threads take the files of both, and those that
 * KVM_STATS_NEXT finds, and read, seek, poll, duplicate, pass and map them.
 *
 * Every byte before the values is compared with the expected one, cumulative
 * values may not decrease, a row must belong to its vCPU and stay, and a file
 * whose VM is destroyed must report that and keep its last values. The first
 * thing that is wrong ends the test, with the seed and the operation.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/compiler.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest_exits.h"
#include "kselftest.h"
#include "kvm_stats.h"
#include "kvm_util.h"
#include "stats_test.h"
#include "test_util.h"

#define READERS		4
#define VMMS		2
#define SLOTS		32
#define VMS		6
#define MAX_VCPUS	4

/* Larger than the metadata of any file here, and than any whole file */
#define MAX_PREFIX	32768
#define BUF_SIZE	65536

static uint64_t seed = 1;
static unsigned long max_operations;
static unsigned int max_seconds = 5;

static int kvm_fd;
static bool whole_words;	/* a CPU that does not tear aligned values */
static int nr_vcpus;		/* that a VM here can have, up to MAX_VCPUS */
static bool stop;
static pthread_mutex_t failure_lock = PTHREAD_MUTEX_INITIALIZER;
static char failure[256];

/* A kind of file, and its metadata, except for the id */
struct kind {
	const struct stats_abi *abi;
	bool of_vcpu;
	uint32_t scope;
	struct kvm_stats stats;
	char *prefix;
	size_t id_size;
	size_t row_size;
	const struct kvm_stats_desc *vcpu_id;	/* NULL if the file has none */
};

static struct kind vm_getfd = { .abi = &abi_getfd };
static struct kind vm_stats_fd = { .abi = &abi_stats_fd };
static struct kind vcpu_getfd = { .abi = &abi_getfd, .of_vcpu = true };
static struct kind vcpu_stats_fd = { .abi = &abi_stats_fd, .of_vcpu = true };
static struct kind vcpus = { .abi = &abi_getfd, .scope = KVM_STATS_SCOPE_VCPUS };

static struct kind * const kinds[] = {
	&vm_getfd, &vm_stats_fd, &vcpu_getfd, &vcpu_stats_fd, &vcpus,
};

/* A VM, of this process or of a VMM that will be killed */
struct vm_slot {
	pthread_mutex_t lock;
	struct kvm_vm *guest;	/* one that can run, or NULL */
	int vm_fd;		/* -1 if empty */
	int vcpu_fd[MAX_VCPUS];
	int vcpus;
	pid_t vm_creator, vcpu_creator[MAX_VCPUS];	/* in the ids of its files */
	unsigned long generation;	/* incremented when the VM is destroyed */
};

static struct vm_slot vms[VMS + 1];	/* the last one is the VMM's */
#define FOREIGN		(&vms[VMS])

/* A file that all threads may use while they hold the lock for reading */
struct file_slot {
	pthread_rwlock_t lock;
	pthread_mutex_t position_lock;
	int fd;			/* -1 if closed */
	const struct kind *kind;
	struct vm_slot *vm;
	unsigned long generation;	/* of its VM */
	int rows;		/* minimum: the number when it was opened */
	char prefix[MAX_PREFIX];
};

/* Not static: the guests are copies of this program and would have it too. */
static struct file_slot *files;

/* A thread, and its random numbers: the same ones from the same seed */
struct worker {
	pthread_t thread;
	unsigned int number;
	uint64_t random;
	unsigned long operations;
	const char *operation;
	int sock[2];
	int pipe[2];
	uint64_t *buf;		/* BUF_SIZE and some more; aligned */
	uint64_t *again;
};

static struct worker readers[READERS], vmms[VMMS + 1];

static uint64_t random_u64(struct worker *worker)
{
	worker->random ^= worker->random << 13;
	worker->random ^= worker->random >> 7;
	worker->random ^= worker->random << 17;
	return worker->random;
}

static unsigned long random_below(struct worker *worker, unsigned long bound)
{
	return (random_u64(worker) >> 16) % bound;
}

/* Report only the first failure; all others follow from it. */
static void fail(const struct worker *worker, const char *fmt, ...)
{
	char why[128];
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	pthread_mutex_lock(&failure_lock);
	if (!failure[0])
		snprintf(failure, sizeof(failure),
			 "seed %llu, thread %u, operation %lu, %s: %s",
			 (unsigned long long)seed, worker->number,
			 worker->operations, worker->operation, why);
	pthread_mutex_unlock(&failure_lock);
	WRITE_ONCE(stop, true);
}

/* vCPUs are created with their ids from the greatest one down. */
static unsigned int vcpu_id(int row)
{
	return nr_vcpus - 1 - row;
}

static int open_kind(const struct kind *kind, int vm_fd, int vcpu_fd)
{
	return stats_open(kind->of_vcpu ? vcpu_fd : vm_fd, kind->abi, kind->scope);
}

/* The metadata of one file: that of its kind, with its id */
static void make_prefix(const struct kind *kind, char *prefix, const char *id)
{
	memcpy(prefix, kind->prefix, kind->stats.data_offset);
	memset(prefix + kind->stats.id_offset, 0, kind->id_size);
	strcpy(prefix + kind->stats.id_offset, id);
}

/* Put a file where all threads find it, in place of another one. */
static void publish(struct worker *worker, int fd, const struct kind *kind,
		    struct vm_slot *vm, unsigned long generation, int rows,
		    pid_t creator, int row)
{
	struct file_slot *file = &files[random_below(worker, SLOTS)];
	char id[64];

	if (kind->of_vcpu)
		snprintf(id, sizeof(id), "kvm-%d/vcpu-%u", creator, vcpu_id(row));
	else
		snprintf(id, sizeof(id), "kvm-%d", creator);
	pthread_rwlock_wrlock(&file->lock);
	if (file->fd >= 0)
		close(file->fd);
	file->fd = fd;
	file->kind = kind;
	file->vm = vm;
	file->generation = generation;
	file->rows = kind->scope ? rows : 1;
	make_prefix(kind, file->prefix, id);
	pthread_rwlock_unlock(&file->lock);
}

/*
 * Whether the result of a read is right: every byte before the values; and it is
 * short only at the end of the file.
 */
static bool right(struct worker *worker, const struct file_slot *file,
		  const void *bytes, size_t offset, size_t len, ssize_t r)
{
	const size_t data_offset = file->kind->stats.data_offset;
	size_t end = offset + r, prefix;

	if (r < 0 || r > (ssize_t)len) {
		fail(worker, "%zu bytes at %zu: %zd, %s", len, offset, r,
		     r < 0 ? strerror(errno) : "too many");
		return false;
	}
	prefix = offset >= data_offset ? 0 : data_offset - offset;
	if (prefix > r)
		prefix = r;
	if (memcmp(bytes, file->prefix + offset, prefix)) {
		fail(worker, "%zu bytes at %zu: wrong metadata", len,
		     offset);
		return false;
	}
	if (!r || r == (ssize_t)len)
		return true;
	if (end < data_offset || (end - data_offset) % file->kind->row_size ||
	    (!file->kind->scope && end - data_offset != file->kind->row_size)) {
		fail(worker, "%zu bytes at %zu end at %zu", len, offset, end);
		return false;
	}
	return true;
}

static size_t random_offset(struct worker *worker, const struct file_slot *file)
{
	return random_below(worker, file->kind->stats.data_offset +
				    3 * file->kind->row_size);
}

static size_t random_length(struct worker *worker)
{
	return random_below(worker, 4) ? random_below(worker, 256) :
	       random_below(worker, BUF_SIZE);
}

static void check_pread(struct worker *worker, const struct file_slot *file, int fd)
{
	size_t offset = random_offset(worker, file), len = random_length(worker);
	char *buf = (char *)worker->buf + random_below(worker, 8);

	right(worker, file, buf, offset, len, pread(fd, buf, len, offset));
}

static void do_pread(struct worker *worker, struct file_slot *file)
{
	check_pread(worker, file, file->fd);
}

static void do_preadv(struct worker *worker, struct file_slot *file)
{
	char *buf = (char *)worker->buf;
	struct iovec iov[3];
	size_t pos = 0, offset = random_offset(worker, file);
	int i;

	for (i = 0; i < ARRAY_SIZE(iov); i++) {
		iov[i].iov_base = buf + pos;
		iov[i].iov_len = random_below(worker, BUF_SIZE / 4);
		pos += iov[i].iov_len;
	}
	right(worker, file, buf, offset, pos,
	      preadv(file->fd, iov, ARRAY_SIZE(iov), offset));
}

/* All threads share the position. */
static void do_lseek_read(struct worker *worker, struct file_slot *file)
{
	size_t offset = random_below(worker, file->kind->stats.data_offset);
	size_t len = random_length(worker);
	ssize_t r;

	pthread_mutex_lock(&file->position_lock);
	if (lseek(file->fd, offset, SEEK_SET) != (off_t)offset) {
		fail(worker, "lseek to %zu: %s", offset, strerror(errno));
	} else {
		r = read(file->fd, worker->buf, len);
		if (right(worker, file, worker->buf, offset, len, r) &&
		    lseek(file->fd, 0, SEEK_CUR) != (off_t)(offset + r))
			fail(worker, "read of %zd bytes at %zu leaves another position",
			     r, offset);
	}
	pthread_mutex_unlock(&file->position_lock);
}

static void do_poll(struct worker *worker, struct file_slot *file)
{
	/* Looked at first: the VM may go between this and poll(). */
	bool ended = __atomic_load_n(&file->vm->generation, __ATOMIC_ACQUIRE) !=
		     file->generation;
	struct pollfd poll_fd = { .fd = file->fd, .events = ended ? 0 : POLLIN };
	int r = poll(&poll_fd, 1, ended ? -1 : 0);

	if (r != 1 || (ended && poll_fd.revents != POLLHUP) ||
	    (!ended && (poll_fd.revents & ~POLLHUP) != POLLIN))
		fail(worker, "poll of a file whose VM %s: %d, events %#x",
		     ended ? "is destroyed" : "exists", r, poll_fd.revents);
}

static void do_dup(struct worker *worker, struct file_slot *file)
{
	int fd = dup(file->fd);

	if (fd < 0) {
		fail(worker, "%s", strerror(errno));
		return;
	}
	check_pread(worker, file, fd);
	close(fd);
}

static void do_pass(struct worker *worker, struct file_slot *file)
{
	int fd;

	send_fd(worker->sock[0], file->fd);
	fd = receive_fd(worker->sock[1]);
	check_pread(worker, file, fd);
	close(fd);
}

static void do_mmap(struct worker *worker, struct file_slot *file)
{
	void *map = mmap(NULL, 4096, PROT_READ,
			 random_below(worker, 2) ? MAP_SHARED : MAP_PRIVATE,
			 file->fd, 0);

	if (map != MAP_FAILED || errno != ENODEV)
		fail(worker, "mmap: %s", map == MAP_FAILED ? strerror(errno) : "maps");
}

static void do_splice(struct worker *worker, struct file_slot *file)
{
	loff_t offset = random_offset(worker, file);
	ssize_t r = splice(file->fd, &offset, worker->pipe[1], NULL, 512, 0);

	if (r != -1 || errno != EINVAL)
		fail(worker, "splice: %zd, %s", r, strerror(errno));
}

static void do_io_uring(struct worker *worker, struct file_slot *file)
{
	size_t offset = random_offset(worker, file), len = random_length(worker);
	ssize_t r = io_uring_pread(file->fd, worker->buf, len, offset, false);

	if (r < 0)
		errno = -r;
	right(worker, file, worker->buf, offset, len, r < 0 ? -1 : r);
}

static void do_wrong(struct worker *worker, struct file_slot *file)
{
	if (write(file->fd, "", 1) != -1 || errno != EBADF)
		fail(worker, "write: %s", strerror(errno));
	if (ioctl(file->fd, KVM_STATS_GETFD, 0) != -1 || errno != ENOTTY)
		fail(worker, "ioctl: %s", strerror(errno));
}

/* Whether the file reports that its VM is destroyed */
static bool has_ended(const struct file_slot *file)
{
	struct pollfd poll_fd = { .fd = file->fd };

	return poll(&poll_fd, 1, 0) == 1 && poll_fd.revents == POLLHUP;
}

static bool only_grows(const struct kvm_stats_desc *desc)
{
	uint32_t type = desc->flags & KVM_STATS_TYPE_MASK;

	return type != KVM_STATS_TYPE_INSTANT;
}

/* All the values twice, and whether each vCPU has its own row */
static void do_values(struct worker *worker, struct file_slot *file)
{
	const struct kvm_stats *stats = &file->kind->stats;
	const struct kvm_stats_desc *id = file->kind->vcpu_id;
	const size_t size = (MAX_VCPUS + 1) * file->kind->row_size;
	const bool ended = has_ended(file);
	ssize_t first, second;
	uint32_t i, k;
	size_t row;

	first = pread(file->fd, worker->buf, size, stats->data_offset);
	second = pread(file->fd, worker->again, size, stats->data_offset);
	if (!right(worker, file, worker->buf, stats->data_offset, size, first) ||
	    !right(worker, file, worker->again, stats->data_offset, size, second))
		return;
	if (second < first)
		fail(worker, "the file has become shorter: %zd, %zd", first, second);
	if (first < (ssize_t)(file->rows * file->kind->row_size))
		fail(worker, "%zd bytes instead of %d rows", first, file->rows);
	if (ended && (second != first ||
		      memcmp(worker->buf, worker->again, first)))
		fail(worker, "values change after VM destruction");

	for (row = 0; (row + 1) * file->kind->row_size <= (size_t)first; row++) {
		size_t start = row * file->kind->row_size;

		for (i = 0; i < stats->count; i++) {
			const struct kvm_stats_desc *desc = kvm_stats_desc(stats, i);
			size_t word = (start + desc->offset) / sizeof(uint64_t);

			for (k = 0; only_grows(desc) && k < desc->size; k++, word++) {
				if (worker->again[word] >= worker->buf[word])
					continue;
				/* An emulated CPU may have torn one of them. */
				if (!whole_words)
					continue;
				fail(worker, "%s of row %zu fell from %llu to %llu",
				     desc->name, row,
				     (unsigned long long)worker->buf[word],
				     (unsigned long long)worker->again[word]);
			}
		}
		if (!id)
			continue;
		if (worker->again[(start + id->offset) / 8] != vcpu_id(row))
			fail(worker, "row %zu is of vCPU %llu instead of %u", row,
			     (unsigned long long)worker->again[(start + id->offset) / 8],
			     vcpu_id(row));
	}
}

static const struct operation {
	const char *name;
	unsigned int weight;
	void (*call)(struct worker *worker, struct file_slot *file);
} operations[] = {
	{ "pread", 24, do_pread },
	{ "preadv", 12, do_preadv },
	{ "lseek and read", 12, do_lseek_read },
	{ "values", 24, do_values },
	{ "poll", 12, do_poll },
	{ "dup", 8, do_dup },
	{ "pass", 4, do_pass },
	{ "mmap", 4, do_mmap },
	{ "splice", 4, do_splice },
	{ "io_uring", 1, do_io_uring },
	{ "write and ioctl", 4, do_wrong },
};

static unsigned long done[ARRAY_SIZE(operations) + 2];
#define DONE_NEXT	ARRAY_SIZE(operations)
#define DONE_OPEN	(ARRAY_SIZE(operations) + 1)

/* Whether a file of whichever VM is one of this kind: all but the id */
static void check_unknown(struct worker *worker, const struct kind *kind, int fd)
{
	const size_t size = kind->stats.data_offset;
	char *bytes = (char *)worker->buf;
	ssize_t r = pread(fd, bytes, size, 0);

	if (r == (ssize_t)size)
		memcpy(bytes + kind->stats.id_offset,
		       kind->prefix + kind->stats.id_offset, kind->id_size);
	if (r != (ssize_t)size || memcmp(bytes, kind->prefix, size))
		fail(worker, "a file of another kind, or %zd of %zu bytes", r, size);
}

/* Walk along all VMs of the host. */
static void do_next(struct worker *worker)
{
	struct kvm_stats_next next = { .scope = random_below(worker, 2) };
	const struct kind *kind = next.scope ? &vcpus : &vm_getfd;
	uint64_t last = 0;
	int fd;

	while ((fd = ioctl(kvm_fd, KVM_STATS_NEXT, &next)) >= 0) {
		check_unknown(worker, kind, fd);
		close(fd);
		if (next.vm <= last) {
			fail(worker, "VM %llu after %llu", (unsigned long long)next.vm,
			     (unsigned long long)last);
			return;
		}
		last = next.vm;
	}
	if (errno != ENOENT)
		fail(worker, "%s instead of ENOENT", strerror(errno));
}

/* Open while the VM may go, or another one may get its fd. */
static void do_open(struct worker *worker)
{
	struct vm_slot *vm = &vms[random_below(worker, VMS)];
	const struct kind *kind = kinds[random_below(worker, ARRAY_SIZE(kinds))];
	int fd = open_kind(kind, READ_ONCE(vm->vm_fd), READ_ONCE(vm->vcpu_fd[0]));

	if (fd >= 0) {
		/* The number may by now belong to a VM instead of a vCPU. */
		close(fd);
	} else if (errno != EBADF && errno != ENOTTY && errno != EINVAL) {
		fail(worker, "%s", strerror(errno));
	}
}

static void one_operation(struct worker *worker)
{
	struct file_slot *file = &files[random_below(worker, SLOTS)];
	unsigned int weights = 0, i, pick;

	pick = random_below(worker, 128);
	if (pick < 4) {
		worker->operation = pick < 2 ? "KVM_STATS_NEXT" : "open";
		i = pick < 2 ? DONE_NEXT : DONE_OPEN;
		if (pick < 2)
			do_next(worker);
		else
			do_open(worker);
	} else {
		for (i = 0; i < ARRAY_SIZE(operations); i++)
			weights += operations[i].weight;
		pick = random_below(worker, weights);
		for (i = 0; pick >= operations[i].weight; i++)
			pick -= operations[i].weight;
		worker->operation = operations[i].name;
		pthread_rwlock_rdlock(&file->lock);
		if (file->fd >= 0)
			operations[i].call(worker, file);
		else
			i = ARRAY_SIZE(done);
		pthread_rwlock_unlock(&file->lock);
	}
	if (i < ARRAY_SIZE(done)) {
		__atomic_fetch_add(&done[i], 1, __ATOMIC_RELAXED);
		worker->operations++;
	}
}

static void *reader(void *arg)
{
	struct worker *worker = arg;
	unsigned long bound = max_operations / READERS + 1;

	while (!READ_ONCE(stop) && (!max_operations || worker->operations < bound))
		one_operation(worker);
	return NULL;
}

/* The library of the tests expects one thread. */
static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned long vms_made, vcpus_made, runs, killed;

/* The number that KVM writes into the id of what this thread creates */
static pid_t get_creator(void)
{
	return stats_id_has_tid ? syscall(SYS_gettid) : getpid();
}

static void add_vcpu(struct vm_slot *vm)
{
	int fd, row = vm->vcpus;

	if (vm->guest) {
		pthread_mutex_lock(&library_lock);
		vm_vcpu_add_default(vm->guest, vcpu_id(row), guest_exits);
		pthread_mutex_unlock(&library_lock);
		fd = vcpu_get_fd(vm->guest, vcpu_id(row));
	} else {
		fd = must_succeed(ioctl(vm->vm_fd, KVM_CREATE_VCPU, (long)vcpu_id(row)));
	}
	WRITE_ONCE(vm->vcpu_fd[row], fd);
	vm->vcpu_creator[row] = get_creator();
	vm->vcpus++;
	__atomic_fetch_add(&vcpus_made, 1, __ATOMIC_RELAXED);
}

static void make_vm(struct worker *worker, struct vm_slot *vm)
{
	vm->vcpus = 0;
	vm->vm_creator = get_creator();
	if (guest_exit_stats() && !random_below(worker, 8)) {
		/* The library creates it with a vCPU. */
		pthread_mutex_lock(&library_lock);
		vm->guest = vm_create_guest(vcpu_id(0), guest_exits);
		pthread_mutex_unlock(&library_lock);
		vm->vcpu_fd[0] = vcpu_get_fd(vm->guest, vcpu_id(0));
		vm->vcpu_creator[0] = vm->vm_creator;
		vm->vcpus = 1;
		WRITE_ONCE(vm->vm_fd, vm_get_fd(vm->guest));
	} else {
		vm->guest = NULL;
		WRITE_ONCE(vm->vm_fd, ioctl(kvm_fd, KVM_CREATE_VM, 0));
	}
	TEST_ASSERT(vm->vm_fd >= 0, "KVM_CREATE_VM, errno: %i", errno);
	__atomic_fetch_add(&vms_made, 1, __ATOMIC_RELAXED);
}

static void destroy_vm(struct vm_slot *vm)
{
	int row, vm_fd = vm->vm_fd;

	WRITE_ONCE(vm->vm_fd, -1);
	if (vm->guest) {
		kvm_vm_free(vm->guest);
	} else {
		for (row = 0; row < vm->vcpus; row++)
			close(vm->vcpu_fd[row]);
		close(vm_fd);
	}
	__atomic_fetch_add(&vm->generation, 1, __ATOMIC_RELEASE);
}

static void publish_one(struct worker *worker, struct vm_slot *vm)
{
	const struct kind *kind = kinds[random_below(worker, ARRAY_SIZE(kinds))];
	int row = vm->vcpus ? random_below(worker, vm->vcpus) : 0, fd;

	if (kind->of_vcpu && !vm->vcpus)
		return;
	fd = open_kind(kind, vm->vm_fd, vm->vcpu_fd[row]);
	if (fd < 0)
		fail(worker, "opening: %s", strerror(errno));
	else
		publish(worker, fd, kind, vm, vm->generation, vm->vcpus,
			kind->of_vcpu ? vm->vcpu_creator[row] : vm->vm_creator, row);
}

/* Something with one of the VMs, which so are run by all of these threads */
static void *vmm(void *arg)
{
	struct worker *worker = arg;
	struct vm_slot *vm;

	for (; !READ_ONCE(stop); worker->operations++) {
		vm = &vms[random_below(worker, VMS)];
		pthread_mutex_lock(&vm->lock);
		worker->operation = "VM";
		if (vm->vm_fd < 0) {
			make_vm(worker, vm);
		} else {
			switch (random_below(worker, 8)) {
			case 0:
				destroy_vm(vm);
				break;
			case 1:
			case 2:
				if (vm->vcpus < nr_vcpus)
					add_vcpu(vm);
				break;
			case 3:
			case 4:
				if (vm->guest) {
					vcpu_run_exits(vm->guest,
						       vcpu_id(random_below(worker,
									    vm->vcpus)),
						       20);
					__atomic_fetch_add(&runs, 1, __ATOMIC_RELAXED);
				}
				break;
			default:
				publish_one(worker, vm);
			}
		}
		pthread_mutex_unlock(&vm->lock);
	}
	return NULL;
}

/*
 * Processes that create a VM, pass its statistics files and wait to be killed.
 * Their parent holds no VM of this process, which it would pin.
 */
static void make_vmms(int sock)
{
	int vm_fd, vcpu_fd, row, i;
	pid_t pid;

	for (;;) {
		pid = fork();
		if (pid) {
			if (pid < 0 || waitpid(pid, NULL, 0) != pid)
				_exit(1);
			continue;
		}
		vm_fd = ioctl(kvm_fd, KVM_CREATE_VM, 0);
		for (row = 0, vcpu_fd = -1; row < nr_vcpus; row++)
			vcpu_fd = ioctl(vm_fd, KVM_CREATE_VCPU, (long)vcpu_id(row));
		pid = getpid();
		if (write(sock, &pid, sizeof(pid)) != sizeof(pid))
			_exit(1);
		for (i = 0; i < ARRAY_SIZE(kinds); i++)
			send_fd(sock, open_kind(kinds[i], vm_fd, vcpu_fd));
		for (;;)
			pause();
	}
}

/* Take the files of those processes, and kill them. */
static void *killer(void *arg)
{
	struct worker *worker = arg;
	int fd, i;
	pid_t pid;

	worker->operation = "VMM";
	for (; !READ_ONCE(stop); worker->operations++) {
		if (read(worker->sock[0], &pid, sizeof(pid)) != sizeof(pid)) {
			fail(worker, "no VMM");
			break;
		}
		for (i = 0; i < ARRAY_SIZE(kinds); i++) {
			fd = receive_fd(worker->sock[0]);
			publish(worker, fd, kinds[i], FOREIGN, FOREIGN->generation,
				nr_vcpus, pid, nr_vcpus - 1);
		}
		usleep(random_below(worker, 20000));
		kill(pid, SIGKILL);
		__atomic_fetch_add(&FOREIGN->generation, 1, __ATOMIC_RELEASE);
		killed++;
	}
	return NULL;
}

/* Read the metadata of each kind of file, from a VM created for it */
static void learn_kinds(void)
{
	int vm_fd = ioctl(kvm_fd, KVM_CREATE_VM, 0);
	int vcpu_fd = must_succeed(ioctl(vm_fd, KVM_CREATE_VCPU, (long)vcpu_id(0))), i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct kind *kind = kinds[i];
		struct stats_file file;

		stats_file_open(&file, kind->abi, kind->of_vcpu ? vcpu_fd : vm_fd,
				kind->scope, "a");
		kind->stats = file.stats;
		kind->id_size = kind->abi->id_size;
		kind->row_size = kvm_stats_data_size(&file.stats);
		kind->vcpu_id = kvm_stats_find(&file.stats, "vcpu_id");
		TEST_ASSERT(file.stats.data_offset <= MAX_PREFIX &&
			    (MAX_VCPUS + 1) * kind->row_size <= BUF_SIZE,
			    "The file is larger than expected");
		kind->prefix = file.reference;
		close(file.stats.fd);
	}
	close(vcpu_fd);
	close(vm_fd);
}

static void start(struct worker *worker, unsigned int number,
		  void *(*run)(void *worker))
{
	worker->number = number;
	worker->random = seed * 0x9e3779b97f4a7c15ULL + number + 1;
	worker->operation = "start";
	worker->buf = malloc(BUF_SIZE + 64);
	worker->again = malloc(BUF_SIZE);
	TEST_ASSERT(worker->buf && worker->again, "No memory");
	if (run != killer)
		TEST_ASSERT(!socketpair(AF_UNIX, SOCK_STREAM, 0, worker->sock) &&
			    !pipe2(worker->pipe, O_NONBLOCK),
			    "socketpair, errno: %i", errno);
	TEST_ASSERT(!pthread_create(&worker->thread, NULL, run, worker),
		    "pthread_create");
}

static void stop_all(pid_t maker)
{
	int i, row;

	WRITE_ONCE(stop, true);
	for (i = 0; i < ARRAY_SIZE(vmms); i++)
		pthread_join(vmms[i].thread, NULL);
	kill(-maker, SIGKILL);
	waitpid(maker, NULL, 0);
	for (i = 0; i < VMS; i++) {
		if (vms[i].vm_fd >= 0)
			destroy_vm(&vms[i]);
	}
	for (i = 0; i < SLOTS; i++) {
		if (files[i].fd >= 0)
			close(files[i].fd);
	}
	/* The VMM that was killed last may have sent files that were not received. */
	close(vmms[VMMS].sock[0]);
	for (row = 0; row < ARRAY_SIZE(done); row++)
		ksft_print_msg("%lu times %s\n", done[row],
			       row == DONE_NEXT ? "KVM_STATS_NEXT" :
			       row == DONE_OPEN ? "open" : operations[row].name);
}

static void parse(int argc, char *argv[])
{
	int opt;

	while ((opt = getopt(argc, argv, "s:t:n:")) != -1) {
		if (opt == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (opt == 't')
			max_seconds = strtoul(optarg, NULL, 0);
		else if (opt == 'n')
			max_operations = strtoul(optarg, NULL, 0);
		if (opt == '?' || !seed || !max_seconds ||
		    (opt == 'n' && !max_operations)) {
			fprintf(stderr,
				"usage: %s [-s SEED] [-t SECONDS | -n OPERATIONS], none 0\n",
				argv[0]);
			exit(2);
		}
	}
}

int main(int argc, char *argv[])
{
	long references = module_references();
	unsigned long total = 0;
	int i, sock[2];
	bool each = true;
	pid_t maker;

	parse(argc, argv);
	setbuf(stdout, NULL);
	ksft_print_header();
	require_stats_next();
	kvm_fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	nr_vcpus = kvm_check_cap(KVM_CAP_MAX_VCPUS);
	if (nr_vcpus > MAX_VCPUS)
		nr_vcpus = MAX_VCPUS;
	learn_kinds();
	whole_words = cpu_copies_whole_words();
	if (!whole_words)
		ksft_print_msg("this CPU does not copy words as a whole: values may fall\n");

	must_succeed(socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	maker = must_succeed(fork());
	if (!maker) {
		setpgid(0, 0);
		close(sock[0]);
		make_vmms(sock[1]);
	}
	setpgid(maker, maker);
	close(sock[1]);

	for (i = 0; i < ARRAY_SIZE(vms); i++) {
		pthread_mutex_init(&vms[i].lock, NULL);
		vms[i].vm_fd = -1;
	}
	files = calloc(SLOTS, sizeof(*files));
	TEST_ASSERT(files, "No memory");
	for (i = 0; i < SLOTS; i++) {
		pthread_rwlock_init(&files[i].lock, NULL);
		pthread_mutex_init(&files[i].position_lock, NULL);
		files[i].fd = -1;
	}
	for (i = 0; i < VMMS; i++)
		start(&vmms[i], READERS + i, vmm);
	vmms[VMMS].sock[0] = sock[0];
	start(&vmms[VMMS], READERS + VMMS, killer);
	for (i = 0; i < READERS; i++)
		start(&readers[i], i, reader);
	if (!max_operations) {
		for (i = 0; i < max_seconds * 10 && !READ_ONCE(stop); i++)
			usleep(100000);
		WRITE_ONCE(stop, true);
	}
	for (i = 0; i < READERS; i++) {
		pthread_join(readers[i].thread, NULL);
		total += readers[i].operations;
	}
	stop_all(maker);

	ok(!failure[0], "%lu operations, seed %llu: %s", total,
	   (unsigned long long)seed, failure[0] ? failure : "all right");
	for (i = 0; i < ARRAY_SIZE(done); i++)
		each &= !!done[i];
	ok(each && vms_made && vcpus_made && killed && (runs || !guest_exit_stats()),
	   "each kind of operation ran: %lu VMs, %lu vCPUs, %lu runs, %lu killed processes",
	   vms_made, vcpus_made, runs, killed);
	if (debugfs_has_kvm())
		ok(vm_goes_away(getpid(), -1), "all VMs are destroyed");
	close(kvm_fd);
	if (references >= 0)
		ok_alone(module_references_become(references), "nothing holds the modules");
	else
		ksft_print_msg("KVM is built in: module references are not tested\n");

	ksft_set_plan(ksft_test_num());
	ksft_exit(!ksft_get_fail_cnt());
}
