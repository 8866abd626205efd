// SPDX-License-Identifier: GPL-2.0-only
/*
 * Let a guest do its worst with paravirtual perf events
 *
 * pv_perf_hostile [-t SECONDS] [-n HYPERCALLS] [-s SEED]
 *
 * vCPUs make random hypercalls with random arguments while their VMM resets them,
 * moves and removes memory, clears statistics, and exits. A hypercall may only return
 * documented results, memory outside of the slots may not change, and KVM may not log
 * anything.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "x86_64/pv_perf.h"
#include "test_util.h"

/* Memory that is added, removed and moved: one page, sometimes at the second address */
#define EXTRA_SLOT	10
#define EXTRA_GPA	0x40000000ull
#define MOVED_GPA	0x60000000ull

#define READONLY_SLOT	11
#define READONLY_GPA	0x50000000ull

/*
 * Where a vCPU lets the host write: of each 128 bytes the first 64. The others are
 * guarded.
 */
#define ARENA		(4 * 4096)
#define GROUP		128
#define GIVEN		64
#define GUARD		0x5a

/* Hypercalls between two looks of the VMM */
#define PORTION		64

static uint8_t arena[NR_VCPUS][ARENA] __aligned(4096);

static struct hostile {
	uint64_t random;
	uint64_t arena;		/* guest physical addresses */
	uint64_t attr;
	uint64_t calls;
	uint64_t bad;		/* that returned what they may not */
	uint64_t bad_op;	/* the last of them */
	int64_t bad_ret;
} hostile[NR_VCPUS];

/* Guest code: no function of libc, nor what the compiler takes for one */

static uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x;
	return x * 0x2545f4914f6cdd1dull >> 16;
}

/* Where the host may write, or cannot */
static uint64_t random_gpa(struct hostile *me)
{
	uint64_t r = next_random(&me->random);
	uint64_t given = me->arena + r % (ARENA / GROUP) * GROUP;

	switch ((r >> 16) % 16) {
	case 0:
		return NOWHERE + (r & 0xffffe0);
	case 1:
		return READONLY_GPA + (r & 0xfe0);
	case 2:
		return -(r & 0xff);
	case 3:
		return given + 8;
	case 4:
	case 5:
		return EXTRA_GPA + (r & 0xfc0);
	case 6:
		return MOVED_GPA + (r & 0xfc0);
	case 7:
		return EXTRA_GPA + 4096 - 32;
	default:
		return given;
	}
}

static uint64_t random_id(struct hostile *me)
{
	uint64_t r = next_random(&me->random);

	return (r >> 8) % 16 ? r % NR_EVENTS : (r >> 16) % 2 ? NR_EVENTS : r << 20;
}

static uint64_t random_open(struct hostile *me, struct kvm_pv_perf_attr *attr)
{
	static const char names[4][8] = { "exits", "invlpg", "xxxxx", "" };
	uint64_t r = next_random(&me->random);
	const char *name = names[r % 4];
	bool clock = (r >> 4) % 2;
	int i;

	attr->size = (r >> 8) % 32 ? sizeof(*attr) : r >> 32;
	attr->id = random_id(me);
	attr->type = (r >> 16) % 16 ? clock ? KVM_PV_PERF_TYPE_SOFTWARE :
					      KVM_PV_PERF_TYPE_STAT : r % 32;
	attr->flags = (r >> 20) % 16 ? (r >> 24) % 2 : r >> 32;
	attr->config = clock ? (r >> 25) % 3 : (r >> 25) % 16 == 0;
	attr->period = !clock || (r >> 28) % 2 ? 0 :
		       (r >> 29) % 8 ? PERIOD + (r & 0xfffff) : r;
	attr->slot = random_gpa(me);
	attr->pad = (r >> 34) % 32 == 0;
	/* WRITE_ONCE(): or it could become a memset() */
	for (i = 0; i < sizeof(attr->name); i++)
		WRITE_ONCE(attr->name[i], clock && (r >> 36) % 8 ? 0 : i < 8 ? name[i] :
			   (r >> 40) % 16 ? 0 : 'x');
	return (r >> 44) % 16 ? me->attr : random_gpa(me);
}

static bool documented(uint64_t op, int64_t ret)
{
	switch (op) {
	case KVM_PV_PERF_QUERY:
		return !ret || ret == -KVM_EFAULT;
	case KVM_PV_PERF_OPEN:
		return !ret || ret == -KVM_EFAULT || ret == -KVM_EINVAL ||
		       ret == -KVM_E2BIG || ret == -KVM_EEXIST || ret == -KVM_ENOENT ||
		       ret == -KVM_EOPNOTSUPP || ret == -KVM_EBUSY;
	case KVM_PV_PERF_CLOSE:
	case KVM_PV_PERF_ENABLE:
	case KVM_PV_PERF_DISABLE:
	case KVM_PV_PERF_READ:
	case KVM_PV_PERF_READ_ALL:
		return !ret || ret == -KVM_EFAULT || ret == -KVM_E2BIG ||
		       ret == -KVM_ENOENT;
	case KVM_PV_PERF_STAT_DESC:
		return !ret || ret == -KVM_EFAULT || ret == -KVM_EINVAL;
	case KVM_PV_PERF_RESET:
		return !ret;
	default:
		return ret == -KVM_EINVAL;
	}
}

static void hostile_call(struct hostile *me, struct kvm_pv_perf_attr *attr)
{
	uint64_t r = next_random(&me->random), op = r % 32, a1, a2;
	int64_t ret;

	/* Half of them open something. */
	op = op < 16 ? KVM_PV_PERF_OPEN : op < 25 ? op - 16 : op < 31 ?
	     KVM_PV_PERF_READ_ALL - op % 2 * 4 : r;
	/* RESET is to come seldom. */
	if (op == KVM_PV_PERF_RESET && (r >> 8) % 8)
		op = KVM_PV_PERF_READ;
	a2 = random_gpa(me);
	switch (op) {
	case KVM_PV_PERF_QUERY:
		a1 = random_gpa(me);
		break;
	case KVM_PV_PERF_OPEN:
		a1 = random_open(me, attr);
		break;
	case KVM_PV_PERF_STAT_DESC:
		a1 = (r >> 16) % 16 ? (r >> 20) % 64 : r;
		/* 64 bytes: not where only 56 of them are given */
		a2 &= ~63ull;
		break;
	case KVM_PV_PERF_READ_ALL:
		a1 = (r >> 16) % 8 ? r >> 48 : r;
		break;
	default:
		a1 = random_id(me);
	}
	ret = kvm_hypercall(KVM_HC_PV_PERF, op, a1, a2, 0);
	if (!documented(op, ret)) {
		me->bad++;
		me->bad_op = op;
		me->bad_ret = ret;
	}
	me->calls++;
}

static void guest_hostile(struct pv_guest *guest)
{
	long i, n = guest - pv_guests;

	for (i = 0; i < PORTION; i++)
		hostile_call(&hostile[n], &pv_attrs[n]);
}

/* The VMM */

/* What the processes that are killed have in common with the one that is not */
static struct shared {
	uint64_t calls, bad, bad_op, resets, inits, changes, cleared, vms, killed;
	int64_t bad_ret;
	uint64_t guarded;	/* bytes that were written though they were not given */
	uint64_t failed;	/* that the VMM's own calls failed, which no test is */
} *shared;

static struct {
	struct kvm_vm *vm;
	int vm_fd, fd[NR_VCPUS];
	struct kvm_run *run[NR_VCPUS];
	struct hostile *hostile[NR_VCPUS];
	char cleared[256];
	uint64_t seed;
	bool stop;
} vmm;

static void count(uint64_t *what, uint64_t n)
{
	__atomic_add_fetch(what, n, __ATOMIC_RELAXED);
}

static void must(int fd, unsigned long request, void *arg)
{
	if (ioctl(fd, request, arg) < 0) {
		printf("# ioctl %#lx failed, errno: %i\n", request, errno);
		count(&shared->failed, 1);
	}
}

/* INIT, and back to where it was */
static void init_and_restore(int i)
{
	struct kvm_msi msi = { .address_lo = 0xfee00000 | i << 12, .data = 5 << 8 };
	struct kvm_mp_state mp_state, runnable = { KVM_MP_STATE_RUNNABLE };
	struct kvm_vcpu_events events;
	struct kvm_sregs sregs;
	struct kvm_regs regs;

	must(vmm.fd[i], KVM_GET_REGS, &regs);
	must(vmm.fd[i], KVM_GET_SREGS, &sregs);
	must(vmm.vm_fd, KVM_SIGNAL_MSI, &msi);
	must(vmm.fd[i], KVM_GET_MP_STATE, &mp_state);
	must(vmm.fd[i], KVM_SET_MP_STATE, &runnable);
	must(vmm.fd[i], KVM_SET_SREGS, &sregs);
	must(vmm.fd[i], KVM_SET_REGS, &regs);
	/* INIT also unmasks NMIs. */
	must(vmm.fd[i], KVM_GET_VCPU_EVENTS, &events);
	events.nmi.masked = i > 0;
	must(vmm.fd[i], KVM_SET_VCPU_EVENTS, &events);
}

static void *run_vcpu(void *arg)
{
	struct kvm_regs regs;
	long i = (long)arg;
	uint64_t random = vmm.seed + i * 7919, r, calls = 0;

	while (!READ_ONCE(vmm.stop)) {
		/* An unhandled exception is also reported as I/O. */
		if (ioctl(vmm.fd[i], KVM_RUN, NULL) ||
		    get_ucall(vmm.vm, i, NULL) != UCALL_SYNC) {
			printf("# vCPU %ld stops, errno: %i, exit reason %u, rip %#llx\n", i,
			       errno, vmm.run[i]->exit_reason,
			       ioctl(vmm.fd[i], KVM_GET_REGS, &regs) ? 0 : regs.rip);
			count(&shared->failed, 1);
			break;
		}
		count(&shared->calls, vmm.hostile[i]->calls - calls);
		calls = vmm.hostile[i]->calls;
		r = next_random(&random);
		if (r % 16 == 0) {
			pv_restore_clock(vmm.fd[i]);
			count(&shared->resets, 1);
		} else if (r % 16 == 1) {
			init_and_restore(i);
			count(&shared->inits, 1);
		}
	}
	return NULL;
}

static void *meddle(void *arg)
{
	struct kvm_userspace_memory_region region = {
		.slot = EXTRA_SLOT,
		.guest_phys_addr = EXTRA_GPA,
		.memory_size = 4096,
		.userspace_addr = (uint64_t)mmap(NULL, 4096, PROT_READ | PROT_WRITE,
						 MAP_ANONYMOUS | MAP_PRIVATE, -1, 0),
	};
	uint64_t random = vmm.seed + 1, r;
	struct kvm_mp_state mp_state;
	bool there = false;

	while (!READ_ONCE(vmm.stop)) {
		r = next_random(&random);
		switch (r % 8) {
		case 0:
		case 1:
			/* Removed, or there again, perhaps elsewhere */
			region.memory_size = there ? 0 : 4096;
			if (!there)
				region.guest_phys_addr = r >> 8 & 1 ? EXTRA_GPA : MOVED_GPA;
			must(vmm.vm_fd, KVM_SET_USER_MEMORY_REGION, &region);
			there = !there;
			count(&shared->changes, 1);
			break;
		case 2:
			if (there) {
				region.guest_phys_addr ^= EXTRA_GPA ^ MOVED_GPA;
				must(vmm.vm_fd, KVM_SET_USER_MEMORY_REGION, &region);
				count(&shared->changes, 1);
			}
			break;
		case 3:
			must(vmm.fd[r >> 8 & 1], KVM_GET_MP_STATE, &mp_state);
			break;
		case 4:
			if (*vmm.cleared && write_file(vmm.cleared, "0"))
				count(&shared->cleared, 1);
			break;
		default:
			usleep(r >> 8 & 0xfff);
		}
	}
	return NULL;
}

static uint64_t written_though_guarded(const uint8_t *bytes)
{
	uint64_t found = 0;
	unsigned int i;

	for (i = 0; i < ARENA; i++)
		found += i % GROUP >= GIVEN && bytes[i] != GUARD;
	return found;
}

/* A VM for a while; @killed: until it is */
static void one_vm(uint64_t seed, unsigned int usec, bool killed)
{
	pthread_t vcpus[NR_VCPUS], meddler;
	uint8_t *memory[NR_VCPUS];
	long i;

	vmm.vm = pv_create_vm();
	vmm.seed = seed;
	vmm.vm_fd = vm_get_fd(vmm.vm);
	vm_userspace_mem_region_add(vmm.vm, VM_MEM_SRC_ANONYMOUS, READONLY_GPA,
				    READONLY_SLOT, 1, KVM_MEM_READONLY);
	if (debugfs_dir(getpid(), vmm.vm_fd, vmm.cleared, sizeof(vmm.cleared)))
		strcat(vmm.cleared, "/exits");
	for (i = 0; i < NR_VCPUS; i++) {
		struct kvm_vcpu_events events;

		vmm.fd[i] = vcpu_get_fd(vmm.vm, i);
		vmm.run[i] = vcpu_state(vmm.vm, i);
		vmm.hostile[i] = in_guest(vmm.vm, hostile[i]);
		vmm.hostile[i]->random = seed * NR_VCPUS + i + 1;
		vmm.hostile[i]->arena = gpa_of(vmm.vm, arena[i]);
		vmm.hostile[i]->attr = gpa_of(vmm.vm, pv_attrs[i]);
		memory[i] = in_guest(vmm.vm, arena[i][0]);
		memset(memory[i], GUARD, ARENA);
		in_guest(vmm.vm, pv_guests[i])->func = guest_hostile;
		/* One stack for NMIs is too few for two vCPUs: the second gets none. */
		if (i) {
			vcpu_events_get(vmm.vm, i, &events);
			events.nmi.masked = 1;
			vcpu_events_set(vmm.vm, i, &events);
		}
	}
	for (i = 0; i < NR_VCPUS; i++)
		pthread_create(&vcpus[i], NULL, run_vcpu, (void *)i);
	pthread_create(&meddler, NULL, meddle, NULL);
	usleep(usec);
	while (killed)
		pause();
	WRITE_ONCE(vmm.stop, true);
	pthread_join(meddler, NULL);
	for (i = 0; i < NR_VCPUS; i++) {
		pthread_join(vcpus[i], NULL);
		shared->guarded += written_though_guarded(memory[i]);
		shared->bad += vmm.hostile[i]->bad;
		if (vmm.hostile[i]->bad) {
			shared->bad_op = vmm.hostile[i]->bad_op;
			shared->bad_ret = vmm.hostile[i]->bad_ret;
		}
	}
	/* With all that is open */
	kvm_vm_free(vmm.vm);
}

/* Run in a separate process, which is killed every other time */
static void one_process(uint64_t *random)
{
	uint64_t r = next_random(random);
	unsigned int usec = 100000 + r % 1000000;
	bool killed = r >> 32 & 1;
	int status;
	pid_t pid = fork();

	if (!pid) {
		one_vm(r, usec, killed);
		_exit(0);
	}
	if (killed) {
		usleep(usec);
		kill(pid, SIGKILL);
		shared->killed++;
	}
	TEST_ASSERT(waitpid(pid, &status, 0) == pid, "waitpid, errno: %i", errno);
	shared->failed += killed ? !WIFSIGNALED(status) : status;
	shared->vms++;
}

/* What KVM logged since @log was opened */
static unsigned int logged(int log)
{
	unsigned int lines = 0;
	char record[8192];
	ssize_t len;

	while ((len = read(log, record, sizeof(record) - 1)) > 0 || errno == EPIPE) {
		record[len > 0 ? len : 0] = '\0';
		errno = 0;
		if (strstr(record, "kvm") || strstr(record, "KVM")) {
			printf("# %s", record);
			lines++;
		}
	}
	return lines;
}

static bool enough(void)
{
	return shared->calls > 1000 && shared->vms > 1 && shared->resets &&
	       shared->inits && shared->changes;
}

int main(int argc, char **argv)
{
	unsigned long seconds = 10, calls = -1ul;
	uint64_t random = time(NULL), seed;
	int opt, log;
	time_t end;

	while ((opt = getopt(argc, argv, "t:n:s:")) != -1) {
		if (opt == 't')
			seconds = strtoul(optarg, NULL, 0);
		else if (opt == 'n')
			calls = strtoul(optarg, NULL, 0);
		else if (opt == 's')
			random = strtoul(optarg, NULL, 0);
		else
			return 2;
	}
	seed = random;
	/* The generator never leaves 0. */
	random = random ?: 1;

	pv_begin();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_ANONYMOUS | MAP_SHARED, -1, 0);
	/* KVM may have something to say about this machine, once. */
	kvm_vm_free(pv_create_vm());
	log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	TEST_ASSERT(shared != MAP_FAILED && log >= 0 && !lseek(log, 0, SEEK_END),
		    "No memory or no /dev/kmsg");
	/* However slow the machine is, until something happened */
	end = time(NULL) + seconds;
	while ((time(NULL) < end && shared->calls < calls) || !enough())
		one_process(&random);

	printf("# seed %lu: %lu hypercalls, %lu resets, %lu INITs\n", seed, shared->calls,
	       shared->resets, shared->inits);
	printf("# %lu VMs, %lu of them killed\n", shared->vms, shared->killed);
	printf("# %lu changes of memory, %lu clearings\n", shared->changes, shared->cleared);
	ok(!shared->bad, "hypercalls return documented values (%lu did not, op %lu: %ld)",
	   shared->bad, shared->bad_op, shared->bad_ret);
	ok(!shared->guarded, "hypercalls write only memory that the guest passed (%lu others)",
	   shared->guarded);
	ok(!shared->failed, "all calls of the VMM succeed (%lu failed)", shared->failed);
	ok(!logged(log), "KVM has logged nothing");
	pv_end();
}
