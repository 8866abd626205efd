// SPDX-License-Identifier: GPL-2.0-only
/*
 * The counts and times of "exits" equal those of VMMs with known exits, and KVM's own exit
 * counters. Each VMM measures its time in userspace itself. Needs root and /dev/kvm; prints
 * TAP. Where KVM reports no exits, the test is that "exits" refuses with the reason.
 *
 * With a program PERF, its "kvm stat" must count the same exits by reason.
 *
 * usage: exits_test [PERF]
 */
#include <pthread.h>
#include <sys/mount.h>

/* with its maps, for those that are full */
#include "../src/bpf/exits.c"
#include "account.h"
#include "guest.h"
#include "tap.h"

static struct exits *exits;

#define OUTS		1000
#define CALLS		500
#define SLEEPS		200
#define WRITES		100
#define PORTS		400
/* The first sleep of a round, milliseconds; the others are 1 ms long. */
#define LONG_SLEEP	20

#ifdef __x86_64__
/* Ports, and an address without memory */
#define UNUSED		0x42
#define SLEEP		0x43
#define DONE		0xf4
#define WRITE		0xd0000
#define IO_EXITS	(OUTS + SLEEPS + 1)
#define CALL_NAME	(exits->rows[0].cell.isa == EXITS_SVM ? "hlt" : "HLT")

/*
 * Counts in %cx; each block is followed by the next one:
 * OUTS times "out %al, $0x42", CALLS times "hlt", SLEEPS times "out %al, $0x43",
 * WRITES times "mov %al, 0xd0000", "out %al, $0xf4", again
 */
static const unsigned char guest[] = {
	0xb9, OUTS & 0xff, OUTS >> 8, 0xe6, UNUSED, 0xe2, 0xfc,
	0xb9, CALLS & 0xff, CALLS >> 8, 0xf4, 0xe2, 0xfd,
	0xb9, SLEEPS & 0xff, SLEEPS >> 8, 0xe6, SLEEP, 0xe2, 0xfc,
	0xb8, 0x00, 0xd0, 0x8e, 0xd8,			/* ds = 0xd000 */
	0xb9, WRITES & 0xff, WRITES >> 8, 0xa2, 0x00, 0x00, 0xe2, 0xfb,
	0xe6, DONE,
	0xeb, 0xdb,
};
/* PORTS ports from 0x1000 on: "out %al, %dx", "inc %dx", again, then "out %al, $0xf4" */
static const unsigned char port_guest[] = {
	0xba, 0x00, 0x10, 0xb9, PORTS & 0xff, PORTS >> 8, 0xee, 0x42, 0xe2, 0xfc,
	0xe6, DONE,
};
/* "hlt", again, with an APIC: it is woken by NMIs, whose handler is at 0x1100. */
static const unsigned char halting_guest[] = { 0xf4, 0xeb, 0xfd };
#elif defined(__aarch64__)
/* Addresses without memory */
#define UNUSED		0x1000
#define SLEEP		0x2000
#define DONE		0x3000
#define WRITE		0x4000
#define IO_EXITS	(OUTS + SLEEPS + WRITES + 1)
#define CALL_NAME	"HVC64"

#define MOV_W(to, value)	(0x52800000 | (value) << 5 | (to))
#define STR_W0(to)		(0xb9000000 | (to) << 5)
#define HVC			0xd4000002
#define SUBS_W4			0x71000484	/* subs w4, w4, #1 */
#define B_NE(words)		(0x54000001 | ((words) & 0x7ffff) << 5)
#define B(words)		(0x14000000 | ((words) & 0x3ffffff))
#define ADD_W5			(0x11400000 | 1 << 10 | 5 << 5 | 5)	/* add w5, w5, #0x1000 */

/* Store so often to an address, which is in x5; w0 to w3 change in a call. */
#define STORE(count, address) \
	MOV_W(4, count), MOV_W(5, address), STR_W0(5), SUBS_W4, B_NE(-2)

static const unsigned int guest[] = {
	STORE(OUTS, UNUSED),
	MOV_W(4, CALLS), HVC, SUBS_W4, B_NE(-2),
	STORE(SLEEPS, SLEEP),
	STORE(WRITES, WRITE),
	STORE(1, DONE),
	B(-24),
};
/* PORTS addresses from 0x8000 on */
static const unsigned int port_guest[] = {
	MOV_W(4, PORTS), MOV_W(5, 0x8000), STR_W0(5), ADD_W5, SUBS_W4, B_NE(-3),
	STORE(1, DONE),
};
#endif

/* What a VMM reports after each round */
struct report {
	uint64_t exits;		/* KVM's counter */
	uint64_t halted;	/* KVM's halt_wait_ns */
	uint64_t user;		/* nanoseconds from the return of KVM_RUN to the next call */
	uint64_t inside;	/* nanoseconds in KVM_RUN */
	uint64_t slept;		/* part of user for SLEEP */
	uint64_t between;	/* nanoseconds from the end of a round to the next call */
	uint64_t longest;	/* from a call of KVM_RUN to the return of the next one */
	uint64_t entered, left;	/* times of the last call of KVM_RUN and of its return */
};

static void check(bool ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static uid_t user;		/* of the next VMM */

struct vm {
	int fd, vcpu, stats;
	struct kvm_run *run;
};

/* The address that the guest has accessed, or 0 */
static uint64_t accessed(const struct kvm_run *run)
{
#ifdef __x86_64__
	return run->exit_reason == KVM_EXIT_IO ? run->io.port : 0;
#else
	return run->exit_reason == KVM_EXIT_MMIO ? run->mmio.phys_addr : 0;
#endif
}

static void open_vm(struct vm *vm, const void *code, size_t size, bool apic)
{
	int kvm = need(open("/dev/kvm", O_RDWR | O_CLOEXEC), "/dev/kvm"), run_size;

	vm->fd = need(ioctl(kvm, KVM_CREATE_VM, 0), "KVM_CREATE_VM");
	guest_memory(vm->fd, code, size);
	if (apic)
		need(ioctl(vm->fd, KVM_CREATE_IRQCHIP), "irqchip");
	vm->vcpu = need(ioctl(vm->fd, KVM_CREATE_VCPU, 0), "KVM_CREATE_VCPU");
	vm->stats = ioctl(vm->vcpu, ABI_GET_STATS_FD, 0);
	run_size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	vm->run = mmap(NULL, run_size, PROT_READ | PROT_WRITE, MAP_SHARED, vm->vcpu, 0);
	check(vm->run != MAP_FAILED, "mmap");
	guest_registers(vm->fd, vm->vcpu, 0x2000);
	need(setuid(user), "setuid");
}

/* Run the guest until it writes to DONE. */
static void run_round(struct vm *vm, struct report *report)
{
	bool done = false, slept = false, first = true;

	while (!done) {
		const uint64_t back = read_clock(CLOCK_MONOTONIC);
		uint64_t address;

		if (report->left)
			*(first ? &report->between : &report->user) += back - report->left;
		first = false;
		check(!ioctl(vm->vcpu, KVM_RUN, 0), "KVM_RUN");
		report->left = read_clock(CLOCK_MONOTONIC);
		report->inside += report->left - back;
		if (report->entered && report->left - report->entered > report->longest)
			report->longest = report->left - report->entered;
		report->entered = back;
		address = accessed(vm->run);
		if (address == SLEEP) {
			usleep(slept ? 1000 : LONG_SLEEP * 1000);
			slept = true;
			report->slept += read_clock(CLOCK_MONOTONIC) - report->left;
		}
		done = address == DONE;
	}
}

static void fill_report(const struct vm *vm, struct report *report)
{
	/* First: the thread may be preempted while it reads the others. */
	report->exits = read_stat(vm->stats, "exits");
	report->halted = read_stat(vm->stats, "halt_wait_ns");
}

/* Return false at the end of the commands. Spins if the pipe is non-blocking. */
static bool read_command(int from)
{
	ssize_t got;
	char c;

	do
		got = read(from, &c, 1);
	while (got < 0 && errno == EAGAIN);
	return got == 1;
}

/* A VMM that runs a round for each byte that it reads */
static void serve_rounds(int from, int to)
{
	struct report report = { 0 };
	struct vm vm;

	open_vm(&vm, guest, sizeof(guest), false);
	while (read_command(from)) {
		run_round(&vm, &report);
		fill_report(&vm, &report);
		check(write(to, &report, sizeof(report)) == sizeof(report), "pipe");
	}
}

static struct report run(struct peer *vmm)
{
	struct report report = { 0 };

	if (write(vmm->to, "r", 1) != 1 ||
	    read(vmm->from, &report, sizeof(report)) != sizeof(report))
		printf("# the VMM has failed\n");
	return report;
}

static void end_vmm(struct peer *vmm)
{
	close_peer(vmm);
	waitpid(vmm->pid, NULL, 0);
}

/* Sum over the rows of a process: of one reason, address or all */
static struct exits_cell sum(const struct peer *vmm, const char *name, int64_t address)
{
	struct exits_cell sum = { 0 };
	char buf[EXIT_NAME_SIZE];
	size_t i, j;

	for (i = 0; i < exits->count; i++) {
		const struct exits_row *row = &exits->rows[i];

		if (row->cell.tgid != (uint32_t)vmm->pid ||
		    (name && strcmp(name, exit_name(row->cell.isa, row->key.reason, buf))) ||
		    (address >= 0 && (!row->key.space || row->key.address != (uint64_t)address)))
			continue;
		exits_add(&sum, &row->cell);
		for (j = 0; j < EXITS_BUCKETS; j++)
			sum.bucket[j] += row->cell.bucket[j];
	}
	return sum;
}

static const char *io_name(void)
{
	switch (exits->rows[0].cell.isa) {
	case EXITS_SVM:
		return "io";
	case EXITS_VMX:
		return "IO_INSTRUCTION";
	default:
		return "DABT_LOW";
	}
}

/*
 * At most the time in userspace. KVM_RUN until the guest runs also counts, equally for each
 * exit. On x86, exits for halts have no other time there.
 */
static uint64_t user_limit(const struct report *report, const struct exits_cell *io,
			   const struct exits_cell *calls)
{
#ifdef __x86_64__
	return report->slept + report->between + 4 * (calls->user / calls->count * io->count);
#else
	return report->user + report->between + report->inside;
#endif
}

static void test_counts(void)
{
	struct peer vmm = start_peer(serve_rounds);
	struct exits_cell all, io, calls;
	struct report report;
	uint64_t bucket = 0, start = read_clock(CLOCK_MONOTONIC), end;
	int i;

	run(&vmm);
	report = run(&vmm);
	exits_sample(exits);
	/* The last exit is still open. */
	end = read_clock(CLOCK_MONOTONIC);
	report.between += end - report.left;
	if (end - report.entered > report.longest)
		report.longest = end - report.entered;
	all = sum(&vmm, NULL, -1);
	tap_result(all.count == report.exits, "the sum of all reasons equals KVM's exits: %llu, %lu",
		   all.count, report.exits);
	io = sum(&vmm, io_name(), -1);
	tap_result(io.count == 2 * IO_EXITS, "exits for I/O, %s: %llu of %d", io_name(), io.count,
		   2 * IO_EXITS);
	calls = sum(&vmm, CALL_NAME, -1);
	tap_result(calls.count == 2 * CALLS, "exits for %s: %llu of %d", CALL_NAME, calls.count,
		   2 * CALLS);
	tap_result(io.user + io.ready >= report.slept &&
		   io.user <= user_limit(&report, &io, &calls),
		   "time in userspace: %.1f ms, the VMM slept %.1f ms, limit %.1f ms",
		   io.user / 1e6, report.slept / 1e6, user_limit(&report, &io, &calls) / 1e6);
	tap_result(all.user + all.ready >= report.user && all.user + all.kernel + all.ready + all.halt <=
		   read_clock(CLOCK_MONOTONIC) - start,
		   "%.1f ms in userspace and %.1f ms in the kernel are not more than the VMM ran",
		   all.user / 1e6, all.kernel / 1e6);
	tap_result(io.max >= LONG_SLEEP * MS && all.max >= io.max && all.max <= report.longest,
		   "the longest exits: %.2f and %.2f ms, the VMM slept %d ms and saw at most %.2f ms",
		   io.max / 1e6, all.max / 1e6, LONG_SLEEP, report.longest / 1e6);
	for (i = 0; i < EXITS_BUCKETS; i++)
		bucket += all.bucket[i];
	/* The last exit is open. */
	tap_result(bucket + 1 == all.count, "the histogram has all exits that have ended: %lu of %llu",
		   bucket, all.count);
	for (bucket = 0, i = 19 - EXITS_SHIFT; i < EXITS_BUCKETS; i++)
		bucket += io.bucket[i];
	tap_result(bucket >= 2 * SLEEPS, "exits with a sleep are above 2^19 ns: %lu of %d", bucket,
		   2 * SLEEPS);
	kill(vmm.pid, SIGKILL);
	end_vmm(&vmm);
	exits_sample(exits);
	all = sum(&vmm, NULL, -1);
	tap_result(all.count == report.exits, "the VM has exited: %llu exits, %lu by KVM", all.count,
		   report.exits);
	exits_sample(exits);
	all = sum(&vmm, NULL, -1);
	tap_result(!all.count, "its cells are removed after the sample");
}

#ifdef __x86_64__
/* A VMM that runs its vCPU until a thread, which wakes it, sends a signal */
struct waker {
	struct vm *vm;
	pthread_t vcpu;
};

#define WAKEUPS		50

static void *wake(void *arg)
{
	struct waker *waker = arg;
	struct kvm_msi msi = { .address_lo = MSI_ADDRESS, .data = MSI_NMI };
	int i;

	for (i = 0; i < WAKEUPS; i++) {
		usleep(5000);
		ioctl(waker->vm->fd, KVM_SIGNAL_MSI, &msi);
	}
	usleep(5000);
	waker->vm->run->immediate_exit = 1;
	pthread_kill(waker->vcpu, SIGUSR1);
	return NULL;
}

static void nothing(int signal)
{
}

static void serve_halts(int from, int to)
{
	struct report report = { 0 };
	struct waker waker;
	pthread_t thread;
	struct vm vm;
	char c;

	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = nothing }, NULL);
	open_vm(&vm, halting_guest, sizeof(halting_guest), true);
	guest_msi(vm.vcpu);
	waker = (struct waker){ &vm, pthread_self() };
	while (read(from, &c, 1) == 1) {
		vm.run->immediate_exit = 0;
		check(!pthread_create(&thread, NULL, wake, &waker), "thread");
		while (!vm.run->immediate_exit)
			ioctl(vm.vcpu, KVM_RUN, 0);
		pthread_join(thread, NULL);
		fill_report(&vm, &report);
		check(write(to, &report, sizeof(report)) == sizeof(report), "pipe");
	}
}

static void test_halts(void)
{
	struct peer vmm = start_peer(serve_halts);
	struct report report = run(&vmm);
	struct exits_cell all;

	exits_sample(exits);
	all = sum(&vmm, NULL, -1);
	tap_result(all.count == report.exits, "halts in the kernel: %llu exits, %lu by KVM", all.count,
		   report.exits);
	/* KVM's time has the waits for a CPU after halts, but not those at other times. */
	tap_result(report.halted > 50 * MS && all.halt <= report.halted + 10 * MS &&
		   report.halted <= all.halt + all.ready + 10 * MS,
		   "halts in the kernel: %.1f ms and %.1f ms ready, %.1f ms by KVM", all.halt / 1e6,
		   all.ready / 1e6, report.halted / 1e6);
	end_vmm(&vmm);
}

#else
static void test_halts(void)
{
}
#endif

/* Take a sample; read run_delay before and after it, because the VMM can wait in the meantime. */
static void sample_waited(pid_t pid, uint64_t *least, uint64_t *most)
{
	*least = read_account(pid, pid).waited;
	exits_sample(exits);
	*most = read_account(pid, pid).waited;
}

/* A VMM that spins between rounds: it runs or waits for its CPU. */
static void serve_spinning(int from, int to)
{
	check(!fcntl(from, F_SETFL, O_NONBLOCK), "pipe");
	serve_rounds(from, to);
}

/* A VMM on a CPU that another process uses all the time */
static void test_ready(bool spins)
{
	const int cpu = sched_getcpu();
	cpu_set_t cpus;
	struct peer vmm;
	uint64_t first_least, first_most, least, most;
	struct exits_cell before, after;
	pid_t hog;
	int i;

	sched_getaffinity(0, sizeof(cpus), &cpus);
	move_thread(0, cpu);
	vmm = start_peer(spins ? serve_spinning : serve_rounds);
	hog = start_hog(cpu, NULL);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	run(&vmm);
	/* Its last exit is open: it has waited in userspace, and has not entered the guest again. */
	most = read_account(vmm.pid, vmm.pid).waited + 50 * MS;
	while (spins && read_account(vmm.pid, vmm.pid).waited < most)
		usleep(1000);
	sample_waited(vmm.pid, &first_least, &first_most);
	before = sum(&vmm, NULL, -1);
	for (i = 0; i < 3; i++)
		run(&vmm);
	end_process(hog);
	sample_waited(vmm.pid, &least, &most);
	after = sum(&vmm, NULL, -1);
	least -= first_most;
	most -= first_least;
	after.ready -= before.ready;
	tap_result(least > 20 * MS && (after.ready >= least || same(after.ready, least)) &&
		   (after.ready <= most || same(after.ready, most)),
		   "a VMM that %s between rounds: waits for a CPU are apart: %.1f ms, run_delay %.1f to %.1f ms",
		   spins ? "spins" : "sleeps", after.ready / 1e6, least / 1e6, most / 1e6);
	end_vmm(&vmm);
}

/* A thread that runs two vCPUs in turn */
static void serve_two(int from, int to)
{
	struct report report = { 0 };
	struct vm vm[2];
	char c;
	int i;

	for (i = 0; i < 2; i++)
		open_vm(&vm[i], guest, sizeof(guest), false);
	while (read(from, &c, 1) == 1) {
		for (i = 0; i < 1000; i++) {
			check(!ioctl(vm[i % 2].vcpu, KVM_RUN, 0), "KVM_RUN");
		}
		report.exits = read_stat(vm[0].stats, "exits") + read_stat(vm[1].stats, "exits");
		check(write(to, &report, sizeof(report)) == sizeof(report), "pipe");
	}
}

static void test_two(void)
{
	struct peer vmm = start_peer(serve_two);
	struct report report = run(&vmm);
	struct exits_cell all;

	exits_sample(exits);
	all = sum(&vmm, NULL, -1);
	tap_result(all.count == report.exits, "a thread that runs two vCPUs: %llu exits, %lu by KVM",
		   all.count, report.exits);
	end_vmm(&vmm);
}

/* For a part of the test the program misses all entries. */
static void test_lost(void)
{
	struct bpf_link **link = &exits->program->links.exits_entry;
	struct peer vmm = start_peer(serve_rounds);
	struct report report;
	struct exits_cell all;

	run(&vmm);
	bpf_link__destroy(*link);
	run(&vmm);
	*link = bpf_program__attach(exits->program->progs.exits_entry);
	report = run(&vmm);
	exits_sample(exits);
	all = sum(&vmm, NULL, -1);
	tap_result(all.count == report.exits && exits_counts(exits).healed,
		   "entries that are lost: %llu exits, %lu by KVM", all.count, report.exits);
	end_vmm(&vmm);
}

#define SHORT_VMS	20

static void test_short(void)
{
	uint64_t expected = 0, count = 0;
	struct report report;
	struct peer vmm[SHORT_VMS];
	size_t i, j, known = 0;

	for (i = 0; i < SHORT_VMS; i++) {
		vmm[i] = start_peer(serve_two);
		report = run(&vmm[i]);
		expected += report.exits;
		end_vmm(&vmm[i]);
	}
	exits_sample(exits);
	for (i = 0; i < SHORT_VMS; i++) {
		count += sum(&vmm[i], NULL, -1).count;
		for (j = 0; j < exits->second.count; j++)
			known += exits->second.list[j].tgid == (uint32_t)vmm[i].pid;
	}
	tap_result(count == expected && !known, "%d VMs that have exited: %lu exits, %lu by KVM, %zu threads remain",
		   SHORT_VMS, count, expected, known);
}

/* Take all places, for a vCPU that has exited. */
static void fill_cells(void)
{
	const uint32_t serial = ++exits->program->bss->serials;
	size_t i;

	for (i = 0; i < EXITS_CELLS; i++) {
		if (exits->places[i].taken)
			continue;
		exits->places[i].taken = 1;
		exits->places[i].key.address = i;
		exits->places[i].key.serial = serial;
	}
}

static void set_slots(int map, bool used)
{
	struct exits_vcpu vcpu = { 0 };
	uint32_t i;

	for (i = 0; i < EXITS_SLOTS; i++) {
		vcpu.tid = used ? 0x40000000 + i : 0;
		bpf_map_update_elem(map, &i, &vcpu, BPF_ANY);
	}
}

static void test_full(void)
{
	const int vcpus = bpf_map__fd(exits->program->maps.vcpus);
	struct peer vmm = start_peer(serve_rounds);
	struct report first, second;
	struct exits_cell all;

	fill_cells();
	first = run(&vmm);
	/* The exit that is open has no cell yet. */
	tap_result(exits_counts(exits).no_cell >= first.exits - 1, "no space for cells: %llu of %lu exits are reported",
		   exits_counts(exits).no_cell, first.exits);
	exits_sample(exits);
	second = run(&vmm);
	exits_sample(exits);
	all = sum(&vmm, NULL, -1);
	tap_result(all.count == second.exits - first.exits + 1, "space again: %llu exits, %lu by KVM",
		   all.count, second.exits - first.exits + 1);
	end_vmm(&vmm);

	set_slots(vcpus, true);
	vmm = start_peer(serve_rounds);
	first = run(&vmm);
	tap_result(exits_counts(exits).no_vcpu >= first.exits, "no slot for a vCPU: %llu of %lu exits are reported",
		   exits_counts(exits).no_vcpu, first.exits);
	set_slots(vcpus, false);
	end_vmm(&vmm);
}

#define USER		65534
/* Entries; a user gets three quarters */
#define SLOTS_MAX	4
#define CELLS_MAX	32

/* Threads of one user do not take the slots of others. */
static void test_slot_shares(void)
{
	struct shares *shares = &exits->program->bss->slot_shares;
	const uint64_t missed = exits_counts(exits).no_vcpu;
	struct peer users[SLOTS_MAX], vmm;
	const __u32 max = shares->max;
	struct exits_cell own, all;
	struct report report;
	size_t i, counted = 0;

	exits_sample(exits);
	shares->max = shares->all + SLOTS_MAX;
	user = USER;
	for (i = 0; i < SLOTS_MAX; i++) {
		users[i] = start_peer(serve_rounds);
		run(&users[i]);
	}
	user = 0;
	vmm = start_peer(serve_rounds);
	report = run(&vmm);
	exits_sample(exits);
	for (i = 0; i < SLOTS_MAX; i++) {
		own = sum(&users[i], NULL, -1);
		counted += own.count > 0;
		end_vmm(&users[i]);
	}
	all = sum(&vmm, NULL, -1);
	tap_result(all.count == report.exits && counted == SLOTS_MAX - 1 &&
		   exits_counts(exits).no_vcpu > missed,
		   "%d vCPUs of a user have %zu of %d slots, and another VM has %llu of %lu exits",
		   SLOTS_MAX, counted, SLOTS_MAX, all.count, report.exits);
	end_vmm(&vmm);
	exits_sample(exits);
	exits_sample(exits);
	shares->max = max;
}

static void test_addresses(void)
{
	struct peer vmm = start_peer(serve_rounds);
	struct report report = run(&vmm);
	struct exits_cell all, sleep;

	exits_sample(exits);
	all = sum(&vmm, NULL, -1);
	sleep = sum(&vmm, NULL, SLEEP);
	tap_result(all.count == report.exits, "addresses: %llu exits, %lu by KVM", all.count,
		   report.exits);
	tap_result(sum(&vmm, NULL, UNUSED).count == OUTS && sleep.count == SLEEPS &&
		   sum(&vmm, NULL, DONE).count == 1,
		   "addresses: each port has its exits");
	tap_result(sum(&vmm, NULL, WRITE).count == WRITES, "addresses: %llu of %d writes to memory",
		   sum(&vmm, NULL, WRITE).count, WRITES);
	tap_result(sleep.user + sleep.ready >= report.slept && sum(&vmm, NULL, UNUSED).user < sleep.user,
		   "addresses: the slow port has %.1f ms in userspace, the VMM slept %.1f ms",
		   sleep.user / 1e6, report.slept / 1e6);
	end_vmm(&vmm);
}

static void serve_ports(int from, int to)
{
	struct report report = { 0 };
	struct vm vm;
	char c;

	open_vm(&vm, port_guest, sizeof(port_guest), false);
	if (read(from, &c, 1) != 1)
		return;
	run_round(&vm, &report);
	fill_report(&vm, &report);
	check(write(to, &report, sizeof(report)) == sizeof(report), "pipe");
	check(read(from, &c, 1) == 0, "pipe");
}

static void test_many_addresses(void)
{
	struct peer vmm = start_peer(serve_ports);
	struct report report = run(&vmm);
	size_t i, addresses = 0;

	exits_sample(exits);
	for (i = 0; i < exits->count; i++)
		addresses += exits->rows[i].cell.tgid == (uint32_t)vmm.pid &&
			     exits->rows[i].key.space;
	/* The open exit may have another one. */
	tap_result(sum(&vmm, NULL, -1).count == report.exits && addresses >= EXITS_ADDRESSES &&
		   addresses <= EXITS_ADDRESSES + 1,
		   "%d ports: %zu of them are apart, %llu exits, %lu by KVM", PORTS + 1, addresses,
		   sum(&vmm, NULL, -1).count, report.exits);
	end_vmm(&vmm);
}

/* The cells of one user's VM do not take those of others. */
static void test_cell_shares(void)
{
	struct shares *shares = &exits->program->bss->cell_shares;
	const __u32 max = shares->max;
	struct peer users, vmm;
	struct report report;
	size_t i, cells = 0;
	uint64_t counted;

	exits_sample(exits);
	exits_sample(exits);
	shares->max = CELLS_MAX;
	user = USER;
	users = start_peer(serve_ports);
	user = 0;
	run(&users);
	vmm = start_peer(serve_rounds);
	report = run(&vmm);
	exits_sample(exits);
	for (i = 0; i < exits->count; i++)
		cells += exits->rows[i].cell.tgid == (uint32_t)users.pid;
	counted = sum(&vmm, NULL, -1).count;
	/* The open exit can have another row. */
	tap_result(counted == report.exits && cells >= CELLS_MAX / 2 && cells <= CELLS_MAX / 4 * 3 + 1,
		   "%d ports of a user have %zu of %d cells, and another VM has %lu of %lu exits",
		   PORTS + 1, cells, CELLS_MAX, counted, report.exits);
	shares->max = max;
	end_vmm(&users);
	end_vmm(&vmm);
}

/* A command of perf's option --control; returns true if it was acknowledged. */
static bool control(const struct peer *perf, const char *command)
{
	char ack[8];

	return write(perf->to, command, strlen(command)) == (ssize_t)strlen(command) &&
	       read(perf->from, ack, sizeof(ack)) > 0;
}

#define PERF_FILE	"/tmp/exits-test-perf.data"

static char *perf_program, perf_vmm[16];

static void run_perf(int from, int to)
{
	char *arguments[] = {
		perf_program, "kvm", "stat", "record", "-p", perf_vmm, "-o", PERF_FILE, "-D", "-1",
		"--control", "fd:100,101", NULL
	};

	dup2(STDERR_FILENO, STDOUT_FILENO);
	execv(perf_program, arguments);
	_exit(127);
}

/* Exits since the sample before, of one reason or all */
static uint64_t growth(const struct peer *vmm, const char *name)
{
	char buf[EXIT_NAME_SIZE];
	uint64_t count = 0;
	size_t i;

	for (i = 0; i < exits->count; i++) {
		const struct exits_row *row = &exits->rows[i];

		if (row->cell.tgid == (uint32_t)vmm->pid &&
		    (!name || !strcmp(name, exit_name(row->cell.isa, row->key.reason, buf))))
			count += row->growth.count;
	}
	return count;
}

/* Compare the exits since the last sample with perf's report, which has none that are open. */
static void compare_report(const struct peer *vmm, const char *perf)
{
	char command[300], line[200], name[100];
	unsigned long long count;
	uint64_t sum = 0, own;
	unsigned int equal = 0, reasons = 0;
	FILE *report;

	snprintf(command, sizeof(command), "%s kvm -i %s stat report --event=vmexit 2>&1", perf,
		 PERF_FILE);
	report = popen(command, "re");
	while (report && fgets(line, sizeof(line), report)) {
		if (sscanf(line, " %99s %llu %*f%%", name, &count) != 2)
			continue;
		own = growth(vmm, name) - !strcmp(name, io_name());
		printf("# %s: %lu exits, %llu by perf\n", name, own, count);
		equal += own == count;
		reasons++;
		sum += count;
	}
	if (report)
		pclose(report);
	tap_result(reasons > 2 && equal == reasons && growth(vmm, NULL) == sum + 1,
		   "perf kvm stat: %u of %u reasons have the same count, %lu exits, %lu by perf", equal,
		   reasons, growth(vmm, NULL) - 1, sum);
}

static void test_perf(char *perf)
{
	struct peer vmm, child;

	/* The lab mounts no tracefs. */
	if (access("/sys/kernel/tracing/events", F_OK))
		mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL);
	vmm = start_peer(serve_rounds);
	run(&vmm);
	perf_program = perf;
	snprintf(perf_vmm, sizeof(perf_vmm), "%d", vmm.pid);
	child = start_peer(run_perf);
	tap_result(control(&child, "enable\n"), "perf kvm stat: records");
	exits_sample(exits);
	run(&vmm);
	run(&vmm);
	exits_sample(exits);
	control(&child, "stop\n");
	waitpid(child.pid, NULL, 0);
	close_peer(&child);
	compare_report(&vmm, perf);
	unlink(PERF_FILE);
	end_vmm(&vmm);
}

static void run_tests(void)
{
	test_counts();
	test_halts();
	test_ready(false);
	test_ready(true);
	test_two();
	test_lost();
	test_short();
	test_slot_shares();
	test_full();
}

static void run_address_tests(void)
{
	test_addresses();
	test_many_addresses();
	test_cell_shares();
}

static int open_exits(bool addresses)
{
	struct kvmstats_probe probe = { 0 };
	int error = exits_open(&exits, addresses, &probe);

	if (error)
		tap_result(error == -ENODEV || error == -EOPNOTSUPP, "exits_open: %s; %s",
			   probe.why, probe.help);
	return error;
}

int main(int argc, char **argv)
{
	if (open_exits(false))
		return tap_end();
	run_tests();
	if (argc > 1)
		test_perf(argv[1]);
	exits_close(exits);
	if (open_exits(true))
		return tap_end();
	run_address_tests();
	exits_close(exits);
	return tap_end();
}
