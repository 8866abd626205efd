// SPDX-License-Identifier: GPL-2.0-only
/*
 * A VMM for the tests: vmm [-k] [-b] [-p] [-t THREADS] [-i THREADS] [-u USEC]
 * [-w lock|timeout|poll|child] VMS VCPUS. On x86 each vCPU writes to a port
 * ten times, halts, and is woken a hundred times a second; on arm64 it writes to where no
 * memory is, all the time. With -b it is busy instead; with -p no vCPU is entered before
 * SIGUSR2. -k keeps a statistics file for each VM and vCPU open, as
 * QEMU does from 8.1 on for vCPUs. -t adds busy threads that are not vCPUs, -i such with
 * the names of I/O threads; with -u the VMM works for USEC microseconds after each exit, with -w
 * it waits for 100 ms, for a lock, for a condition with a timeout or in poll(), or in state D for a child that does not exit.
 * Prints "ready" and ends when its standard input does;
 * each line there takes a VM away, the last one first; but the line "fail" makes the guests
 * of x86 run an instruction that KVM cannot emulate, after which their vCPUs stop, and the line
 * "leave" makes the first thread exit; the others continue until a signal kills them.
 */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "guest.h"

#if defined(__x86_64__) || defined(__i386__)
/* At 0x1000: ten times "out %al, $0x42", "hlt", again; at 0x1100: "iret" */
static const unsigned char guest[] = {
	0xb9, 10, 0,			/* mov $10, %cx */
	0xe6, 0x42,			/* out %al, $0x42 */
	0xe2, 0xfc,			/* loop to out */
	0xf4,				/* hlt */
	0xeb, 0xf6,			/* jmp to the start */
};
static const unsigned char busy_guest[] = { 0xeb, 0xfe };	/* jmp to itself */
/* At 0x1040: fnsave to an address without memory */
static const unsigned char failing_guest[] = {
	0xb8, 0x00, 0x20,		/* mov $0x2000, %ax */
	0x8e, 0xd8,			/* mov %ax, %ds */
	0xdd, 0x36, 0x00, 0x00,		/* fnsave 0 */
};
#define CODE
#define FAILING_CODE	0x1040
/* At 0x1000, in one store, as the vCPU may be anywhere in the loop: jmp to 0x1040 */
#define JMP_TO_FAILING	0x3eeb
#elif defined(__aarch64__)
static const unsigned int guest[] = {
	0xb9000000,			/* str w0, [x0], which is 0 */
	0x17ffffff,			/* b to the start */
};
static const unsigned int busy_guest[] = { 0x14000000 };	/* b to itself */
#define CODE
#endif

#define STACK		0x2000		/* stack of the first vCPU; an NMI takes 6 bytes */
#define STACK_SIZE	8

struct vm {
	volatile bool stop;
	int fd, stats;
	int vcpus;
	int *vcpu, *vcpu_stats;
	pthread_t *thread;
	unsigned char *memory;
};

static int vcpus, all_vcpus, run_size, work_us;
static bool busy;
static volatile sig_atomic_t paused;
static sem_t resumed, never, tick;
static enum { WAIT_NOT, WAIT_LOCK, WAIT_TIMEOUT, WAIT_POLL, WAIT_CHILD } wait_in;

#define WAIT_MS		100

static void *spin(void *arg)
{
	prctl(PR_SET_NAME, arg);
	for (;;)
		;
	return NULL;
}

/* Use CPU time in user mode. */
static void work(void)
{
	struct timespec now;
	long long end = 0;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
		if (!end)
			end = now.tv_sec * 1000000000LL + now.tv_nsec + work_us * 1000LL;
	} while (now.tv_sec * 1000000000LL + now.tv_nsec < end);
}

static void wait_in_vmm(void)
{
	struct timespec until;

	if (wait_in == WAIT_POLL) {
		poll(NULL, 0, WAIT_MS);
		return;
	}
	if (wait_in == WAIT_LOCK) {
		sem_wait(&tick);
		return;
	}
	if (wait_in == WAIT_CHILD && !vfork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += WAIT_MS * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	sem_timedwait(&never, &until);
}

/* Let go of the lock for which vCPUs wait. */
static void *release(void *arg)
{
	int i;

	prctl(PR_SET_NAME, "holder");
	for (;; usleep(WAIT_MS * 1000)) {
		for (i = 0; i < all_vcpus; i++)
			sem_post(&tick);
	}
	return NULL;
}

static void enter_vcpus(int signal)
{
	int i;

	paused = false;
	for (i = 0; i < all_vcpus; i++)
		sem_post(&resumed);
}

#ifdef CODE
static void nothing(int signal)
{
}

struct run {
	struct vm *vm;
	int fd;
};

static void *run(void *arg)
{
	struct run *run = arg;
	int fd = run->fd;
	struct kvm_run *state = mmap(NULL, run_size, PROT_READ | PROT_WRITE, MAP_SHARED,
				     fd, 0);

	if (state == MAP_FAILED)
		err(1, "mmap");
	while (!run->vm->stop) {
		if (paused)
			sem_wait(&resumed);
		else if (!ioctl(fd, KVM_RUN, 0) &&
			 state->exit_reason == KVM_EXIT_INTERNAL_ERROR)
			pause();
		else if (work_us)
			work();
		else if (wait_in)
			wait_in_vmm();
	}
	munmap(state, run_size);
	free(run);
	return NULL;
}

#ifdef FAILING_CODE
static void *wake(void *arg)
{
	struct vm *vm = arg;
	struct kvm_msi msi = { .data = MSI_NMI };
	int i;

	prctl(PR_SET_NAME, "waker");
	for (;; usleep(10000)) {
		for (i = 0; i < vm->vcpus; i++) {
			msi.address_lo = MSI_ADDRESS | i << 12;
			/* the VM may have been taken away */
			if (ioctl(vm->fd, KVM_SIGNAL_MSI, &msi) < 0)
				return NULL;
		}
	}
}
#endif

static void start_vcpu(struct vm *vm, int i)
{
	struct run *arg = malloc(sizeof(*arg));
	char name[16];

	arg->vm = vm;
	arg->fd = vm->vcpu[i];
	/* A separate stack: the vCPUs share the memory, and return from NMIs at the same time. */
	guest_registers(vm->fd, vm->vcpu[i], STACK + (i + 1) * STACK_SIZE);
#ifdef FAILING_CODE
	guest_msi(vm->vcpu[i]);
#endif
	if (pthread_create(&vm->thread[i], NULL, run, arg))
		errx(1, "pthread_create");
	snprintf(name, sizeof(name), "CPU %d/KVM", i % 1000);
	pthread_setname_np(vm->thread[i], name);
}
#endif

static void make_vm(struct vm *vm, int kvm, bool keep)
{
	pthread_t thread;
	int i;

	vm->vcpus = vcpus;
	vm->vcpu = calloc(vcpus, sizeof(int));
	vm->vcpu_stats = calloc(vcpus, sizeof(int));
	vm->thread = calloc(vcpus, sizeof(pthread_t));
	vm->stats = -1;
	vm->fd = need(ioctl(kvm, KVM_CREATE_VM, 0), "KVM_CREATE_VM");
#ifdef CODE
	vm->memory = busy ? guest_memory(vm->fd, busy_guest, sizeof(busy_guest)) :
			    guest_memory(vm->fd, guest, sizeof(guest));
#ifdef FAILING_CODE
	memcpy(vm->memory + FAILING_CODE, failing_guest, sizeof(failing_guest));
	need(ioctl(vm->fd, KVM_CREATE_IRQCHIP), "irqchip");
#endif
#endif
	for (i = 0; i < vcpus; i++) {
		vm->vcpu[i] = need(ioctl(vm->fd, KVM_CREATE_VCPU, i), "KVM_CREATE_VCPU");
		vm->vcpu_stats[i] = -1;
		if (keep)
			vm->vcpu_stats[i] = need(ioctl(vm->vcpu[i], ABI_GET_STATS_FD),
						  "KVM_GET_STATS_FD");
	}
	if (keep)
		vm->stats = need(ioctl(vm->fd, ABI_GET_STATS_FD), "KVM_GET_STATS_FD");
#ifdef CODE
	for (i = 0; i < vcpus; i++)
		start_vcpu(vm, i);
#endif
#ifdef FAILING_CODE
	if (!busy && pthread_create(&thread, NULL, wake, vm))
		errx(1, "pthread_create");
#else
	(void)thread;
#endif
}

/* As a VMM of many VMs does: everything closed, but the numbers are in use. */
static void take_away(struct vm *vm)
{
	int i, null = need(open("/dev/null", O_RDWR), "/dev/null");

	for (i = 0; i < vm->vcpus; i++) {
#ifdef CODE
		vm->stop = true;
		/* A signal just before KVM_RUN is lost: send another one. */
		do {
			pthread_kill(vm->thread[i], SIGUSR1);
			usleep(1000);
		} while (pthread_tryjoin_np(vm->thread[i], NULL));
#endif
		close(vm->vcpu_stats[i]);
		dup2(null, vm->vcpu[i]);
	}
	close(vm->stats);
	dup2(null, vm->fd);
	close(null);
}

static void add_busy_threads(int n, char *name)
{
	pthread_t thread;

	while (n-- > 0) {
		if (pthread_create(&thread, NULL, spin, name))
			errx(1, "pthread_create");
	}
}

int main(int argc, char **argv)
{
	int kvm, vms, i, c, busy_threads = 0, io_threads = 0;
	bool keep = false;
	pthread_t thread;
	struct vm *vm;
	char line[16];

	while ((c = getopt(argc, argv, "+kbpt:i:u:w:")) != -1) {
		keep |= c == 'k';
		busy |= c == 'b';
		paused |= c == 'p';
		if (c == 't')
			busy_threads = atoi(optarg);
		if (c == 'i')
			io_threads = atoi(optarg);
		if (c == 'u')
			work_us = atoi(optarg);
		if (c == 'w')
			wait_in = *optarg == 'l' ? WAIT_LOCK : *optarg == 't' ? WAIT_TIMEOUT :
				  *optarg == 'p' ? WAIT_POLL : WAIT_CHILD;
		if (c == '?')
			return 2;
	}
	/* more may follow, as on the command line of a VMM that it stands for */
	if (argc - optind < 2)
		errx(2, "usage: vmm [-k] [-b] [-p] [-t THREADS] [-i THREADS] [-u USEC]"
		     " [-w lock|timeout|poll|child] VMS VCPUS");
	sigaction(SIGUSR2, &(struct sigaction){ .sa_handler = enter_vcpus,
						.sa_flags = SA_RESTART }, NULL);
	vms = atoi(argv[optind]);
	vcpus = atoi(argv[optind + 1]);
	all_vcpus = vms * vcpus;
	vm = calloc(vms, sizeof(*vm));
#ifdef CODE
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = nothing }, NULL);
#endif
	if (wait_in == WAIT_LOCK && pthread_create(&thread, NULL, release, NULL))
		errx(1, "pthread_create");
	kvm = need(open("/dev/kvm", O_RDWR | O_CLOEXEC), "/dev/kvm");
	run_size = need(ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), "KVM_GET_VCPU_MMAP_SIZE");
	for (i = 0; i < vms; i++)
		make_vm(&vm[i], kvm, keep);
	add_busy_threads(busy_threads, "busy");
	add_busy_threads(io_threads, "IO busy");
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && vms > 0) {
		if (!strcmp(line, "leave\n"))
			pthread_exit(NULL);
#ifdef FAILING_CODE
		if (!strcmp(line, "fail\n")) {
			for (i = 0; i < vms; i++)
				*(volatile uint16_t *)(vm[i].memory + GUEST_CODE) = JMP_TO_FAILING;
			continue;
		}
#endif
		take_away(&vm[--vms]);
		puts("gone");
		fflush(stdout);
	}
	return 0;
}
