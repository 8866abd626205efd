// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test how KVM_HC_PV_PERF writes to guest memory: dirty rings never overflow, KVM_RUN never waits
 * for a page if userspace stops the vCPU, and memory that is read-only or deleted is an error.
 */
#include <alloca.h>
#include <asm/kvm_para.h>
#include <fcntl.h>
#include <linux/kvm_para.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "kselftest.h"
#include "kvm_util.h"
#include "processor.h"
#include "test_util.h"

#define PARAMETER	"/sys/module/kvm/parameters/pv_perf"
#define EVENTS		KVM_PV_PERF_MAX_EVENTS
#define ALL		((1 << EVENTS) - 1)
/* The slots: a page per event */
#define MEM_SLOT	10
#define MEM_GPA		0x40000000ull
#define PAGE		4096
/* Usually, opening an event takes less. */
#define PERIOD		(10 * KVM_PV_PERF_MIN_PERIOD)
/* KVM reserves this many entries of a dirty ring; below them, a guest may cause one per event. */
#define RESERVED	64
#define MOST_IN_USE(entries)	((entries) - RESERVED + EVENTS)
/* Operations of the guest other than a hypercall */
#define READ_RANDOMLY	100
#define SPIN		101

static u64 op, arg, nmis, rounds;
static s64 ret;
static struct kvm_pv_perf_attr attrs[EVENTS];

static struct kvm_vm *vm;
static struct kvm_vcpu *vcpu;
static char *mem;

static void guest_nmi(struct ex_regs *regs)
{
	nmis++;
}

static void guest_code(void)
{
	u64 i, seed = 1;

	for (;;) {
		while (op == SPIN)
			barrier();
		while (op == READ_RANDOMLY) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			for (i = (seed >> 33) % (EVENTS + 1); i; i--)
				kvm_hypercall(KVM_HC_PV_PERF, KVM_PV_PERF_READ_ALL, 1, 0, 0);
			kvm_hypercall(KVM_HC_PV_PERF, KVM_PV_PERF_READ_ALL, ALL, 0, 0);
			WRITE_ONCE(rounds, rounds + 1);
		}
		ret = kvm_hypercall(KVM_HC_PV_PERF, op, arg, 0, 0);
		GUEST_SYNC(0);
	}
}

static void set_op(u64 new_op, u64 new_arg)
{
	op = new_op;
	arg = new_arg;
	sync_global_to_guest(vm, op);
	sync_global_to_guest(vm, arg);
}

static void harvest(void);

/* Run until the guest has the result of a hypercall. */
static s64 finish(void)
{
	struct ucall uc;

	for (;;) {
		vcpu_run(vcpu);
		if (vcpu->run->exit_reason != KVM_EXIT_DIRTY_RING_FULL)
			break;
		harvest();
	}
	TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);
	TEST_ASSERT_EQ(get_ucall(vcpu, &uc), UCALL_SYNC);
	sync_global_from_guest(vm, ret);
	return ret;
}

static s64 call(u64 new_op, u64 new_arg)
{
	set_op(new_op, new_arg);
	return finish();
}

static struct kvm_pv_perf_slot *slot(int id)
{
	return (void *)(mem + id * PAGE);
}

static void open_event(int id, const char *stat, u64 period)
{
	attrs[id] = (struct kvm_pv_perf_attr) {
		.size = sizeof(attrs[id]),
		.id = id,
		.type = *stat ? KVM_PV_PERF_TYPE_STAT : KVM_PV_PERF_TYPE_SOFTWARE,
		.flags = KVM_PV_PERF_ENABLED,
		.config = *stat ? 0 : PERF_COUNT_SW_TASK_CLOCK,
		.period = period,
		.slot = MEM_GPA + id * PAGE,
	};
	snprintf(attrs[id].name, sizeof(attrs[id].name), "%s", stat);
	sync_global_to_guest(vm, attrs);
	TEST_ASSERT_EQ(call(KVM_PV_PERF_OPEN, addr_gva2gpa(vm, (unsigned long)&attrs[id])), 0);
}

/* Create a VM with a dirty ring of the smallest size, or without one; return its entries. */
static unsigned int create_vm(bool with_ring)
{
	u32 size = 0;

	vm = __vm_create(VM_SHAPE_DEFAULT, 1, 0);
	if (with_ring) {
		int cap = vm_check_cap(vm, KVM_CAP_DIRTY_LOG_RING_ACQ_REL) ?
			  KVM_CAP_DIRTY_LOG_RING_ACQ_REL : KVM_CAP_DIRTY_LOG_RING;

		for (size = PAGE; __vm_enable_cap(vm, cap, size); size *= 2)
			TEST_ASSERT(size < 1 << 20, "no dirty ring");
		vm->dirty_ring_size = size;
	}
	vcpu = vm_vcpu_add(vm, 0, guest_code);
	vm_install_exception_handler(vm, NMI_VECTOR, guest_nmi);
	vm_userspace_mem_region_add(vm, VM_MEM_SRC_ANONYMOUS, MEM_GPA, MEM_SLOT, EVENTS,
				    with_ring ? KVM_MEM_LOG_DIRTY_PAGES : 0);
	mem = addr_gpa2hva(vm, MEM_GPA);
	nmis = 0;
	rounds = 0;
	sync_global_to_guest(vm, nmis);
	sync_global_to_guest(vm, rounds);
	return size / sizeof(struct kvm_dirty_gfn);
}

static int run_immediately(void)
{
	int r;

	vcpu->run->immediate_exit = 1;
	r = __vcpu_run(vcpu) ? errno : 0;
	vcpu->run->immediate_exit = 0;
	return r;
}

/* Dirty rings */

static struct kvm_dirty_gfn *ring;
static unsigned int entries, next;
static char shadow[EVENTS][sizeof(struct kvm_pv_perf_slot)];

static void create_vm_with_ring(void)
{
	entries = create_vm(true);
	ring = vcpu_map_dirty_ring(vcpu);
	next = 0;
	memset(shadow, 0, sizeof(shadow));
}

static unsigned int count_used(void)
{
	unsigned int n = 0;

	while (n < entries && ring[(next + n) % entries].flags & KVM_DIRTY_GFN_F_DIRTY)
		n++;
	return n;
}

/* Harvest the ring of a vCPU that doesn't run; each slot that has changed must be in the ring. */
static void harvest(void)
{
	unsigned int used = count_used(), n, id, seen = 0;

	for (n = 0; n < used; n++, next++) {
		struct kvm_dirty_gfn *gfn = &ring[next % entries];

		if (gfn->slot == MEM_SLOT)
			seen |= 1 << gfn->offset;
		gfn->flags = KVM_DIRTY_GFN_F_RESET;
	}
	kvm_vm_reset_dirty_ring(vm);
	for (id = 0; id < EVENTS; id++) {
		if (!memcmp(shadow[id], slot(id), sizeof(*slot(id))))
			continue;
		TEST_ASSERT(seen & 1 << id, "slot %u has changed and is not in the ring", id);
		memcpy(shadow[id], slot(id), sizeof(*slot(id)));
	}
}

static void test_ring_of_stopped_vcpu(void)
{
	unsigned int id, i, used, most = 0;

	create_vm_with_ring();
	for (id = 0; id < EVENTS; id++)
		open_event(id, "", 0);
	harvest();
	for (i = 0; i < 100; i++) {
		TEST_ASSERT_EQ(run_immediately(), EINTR);
		used = count_used();
		most = max(most, used);
		if (!i)
			ksft_test_result(used <= EVENTS && used,
					 "dirty ring: KVM_RUN with immediate_exit marks each slot once (%u entries)\n",
					 used);
	}
	ksft_test_result(most <= MOST_IN_USE(entries),
			 "dirty ring: KVM_RUN with immediate_exit leaves the reserved entries free (%u of %u in use)\n",
			 most, entries);
	harvest();
	ksft_test_result(!call(KVM_PV_PERF_READ_ALL, ALL),
			 "dirty ring: the guest continues after the ring is harvested\n");
	kvm_vm_free(vm);
}

static void test_ring_without_change(void)
{
	create_vm_with_ring();
	open_event(0, "halt_exits", 0);
	harvest();
	TEST_ASSERT_EQ(run_immediately(), EINTR);
	TEST_ASSERT_EQ(call(KVM_PV_PERF_READ, 0), 0);
	ksft_test_result(!count_used(), "dirty ring: a slot that has not changed is not marked\n");
	kvm_vm_free(vm);
}

static void on_signal(int number)
{
}

static void test_ring_of_running_guest(void)
{
	struct itimerval timer = { { 0, 700 }, { 0, 700 } };
	unsigned int id, i, used, most = 0, full = 0;
	u64 before = 0;
	bool stuck = false;

	create_vm_with_ring();
	for (id = 0; id < EVENTS; id++)
		open_event(id, id % 2 ? "exits" : "", id % 4 ? 0 : KVM_PV_PERF_MIN_PERIOD);
	set_op(READ_RANDOMLY, 0);
	TEST_ASSERT_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
	for (i = 0; full < 200 && i < 100000; i++) {
		int r = __vcpu_run(vcpu);

		used = count_used();
		most = max(most, used);
		if (r) {
			TEST_ASSERT_EQ(errno, EINTR);
			continue;
		}
		TEST_ASSERT_EQ(vcpu->run->exit_reason, KVM_EXIT_DIRTY_RING_FULL);
		harvest();
		if (++full % 20)
			continue;
		sync_global_from_guest(vm, rounds);
		stuck |= rounds == before;
		before = rounds;
	}
	memset(&timer, 0, sizeof(timer));
	TEST_ASSERT_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
	ksft_test_result(most <= MOST_IN_USE(entries),
			 "dirty ring: READ_ALL, overflows and signals leave the reserved entries free (%u of %u in use)\n",
			 most, entries);
	ksft_test_result(full == 200 && !stuck,
			 "dirty ring: the guest continues after each full ring\n");
	kvm_vm_free(vm);
}

/* Missing pages */

static int uffd;
static bool stop_watching;
static bool waited;

static void resolve(void)
{
	struct uffdio_zeropage zero = { .range = { (unsigned long)mem, PAGE } };

	ioctl(uffd, UFFDIO_ZEROPAGE, &zero);
}

/* Resolve the fault of a KVM_RUN that waits for it, after some seconds. */
static void *watch(void *unused)
{
	int i;

	for (i = 0; i < 300 && !READ_ONCE(stop_watching); i++)
		usleep(10000);
	if (!READ_ONCE(stop_watching)) {
		WRITE_ONCE(waited, true);
		resolve();
	}
	return NULL;
}

static pthread_t watcher;

static void start_watching(void)
{
	waited = false;
	WRITE_ONCE(stop_watching, false);
	TEST_ASSERT_EQ(pthread_create(&watcher, NULL, watch, NULL), 0);
}

static bool end_watching(void)
{
	WRITE_ONCE(stop_watching, true);
	pthread_join(watcher, NULL);
	return waited;
}

static void remove_page(void)
{
	struct uffdio_register area = {
		.range = { (unsigned long)mem, PAGE },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	struct uffdio_api api = { .api = UFFD_API };

	uffd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	TEST_ASSERT(uffd >= 0, "userfaultfd fails");
	TEST_ASSERT_EQ(ioctl(uffd, UFFDIO_API, &api), 0);
	TEST_ASSERT_EQ(madvise(mem, PAGE, MADV_DONTNEED), 0);
	TEST_ASSERT_EQ(ioctl(uffd, UFFDIO_REGISTER, &area), 0);
}

static void create_vm_without_page(const char *stat)
{
	create_vm(false);
	open_event(0, stat, 0);
	remove_page();
}

static void free_vm_without_page(void)
{
	close(uffd);
	kvm_vm_free(vm);
}

static void *run_in_thread(void *unused)
{
	return (void *)(long)run_immediately();
}

static void test_stop_without_page(void)
{
	struct itimerval timer = { { 0, 0 }, { 0, 100000 } };
	struct kvm_signal_mask *mask = alloca(sizeof(*mask) + sizeof(u64));
	pthread_t thread;
	sigset_t set;
	void *r;

	create_vm_without_page("exits");
	start_watching();
	TEST_ASSERT_EQ(run_immediately(), EINTR);
	ksft_test_result(!end_watching(),
			 "missing page: KVM_RUN with immediate_exit doesn't wait\n");
	free_vm_without_page();

	create_vm_without_page("exits");
	set_op(SPIN, 0);
	start_watching();
	TEST_ASSERT_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
	TEST_ASSERT_EQ(__vcpu_run(vcpu), -1);
	TEST_ASSERT_EQ(errno, EINTR);
	ksft_test_result(!end_watching(),
			 "missing page: KVM_RUN that a signal ends doesn't wait\n");
	free_vm_without_page();

	create_vm_without_page("exits");
	start_watching();
	TEST_ASSERT_EQ(pthread_create(&thread, NULL, run_in_thread, NULL), 0);
	TEST_ASSERT_EQ(pthread_join(thread, &r), 0);
	TEST_ASSERT_EQ((long)r, EINTR);
	ksft_test_result(!end_watching(), "missing page: KVM_RUN by another thread doesn't wait\n");
	free_vm_without_page();

	create_vm_without_page("");
	set_op(KVM_PV_PERF_READ, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	start_watching();
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	TEST_ASSERT_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	mask->len = sizeof(u64);
	memset(mask->sigset, 0, sizeof(u64));
	vcpu_ioctl(vcpu, KVM_SET_SIGNAL_MASK, mask);
	TEST_ASSERT_EQ(__vcpu_run(vcpu), -1);
	TEST_ASSERT_EQ(errno, EINTR);
	ksft_test_result(!end_watching(),
			 "missing page: KVM_RUN with a pending signal doesn't wait\n");
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	free_vm_without_page();
}

static void test_page_without_wait(void)
{
	create_vm(false);
	open_event(0, "exits", 0);
	TEST_ASSERT_EQ(madvise(mem, PAGE, MADV_DONTNEED), 0);
	TEST_ASSERT_EQ(run_immediately(), EINTR);
	ksft_test_result(slot(0)->count,
			 "absent page: KVM_RUN with immediate_exit writes to it if that needs no wait\n");
	kvm_vm_free(vm);
}

static void test_hypercall_without_page(void)
{
	struct itimerval timer = { { 0, 0 }, { 0, 100000 } };
	u64 count;
	int i;

	create_vm(false);
	open_event(0, "hypercalls", 0);
	TEST_ASSERT_EQ(call(KVM_PV_PERF_READ, 0), 0);
	count = slot(0)->count;
	remove_page();
	start_watching();
	set_op(KVM_PV_PERF_READ, 0);
	/* Twice: the hypercall is repeated after each signal. */
	for (i = 0; i < 2; i++) {
		TEST_ASSERT_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
		TEST_ASSERT_EQ(__vcpu_run(vcpu), -1);
		TEST_ASSERT_EQ(errno, EINTR);
	}
	ksft_test_result(!end_watching(), "missing page: a signal ends the wait of a hypercall\n");
	resolve();
	ksft_test_result(!finish() && slot(0)->count == count + 3,
			 "missing page: the guest repeats the hypercall\n");

	/* The page comes while the hypercall waits. */
	TEST_ASSERT_EQ(madvise(mem, PAGE, MADV_DONTNEED), 0);
	start_watching();
	ksft_test_result(!call(KVM_PV_PERF_READ, 0) && end_watching() &&
			 slot(0)->count == count + 4,
			 "missing page: a hypercall waits for its page\n");
	free_vm_without_page();
}

static void test_overflow_without_page(void)
{
	struct itimerval timer = { { 0, 300000 }, { 0, 300000 } };
	int i;

	/* An overflow while the event was opened has caused an NMI: try again. */
	for (;;) {
		create_vm(false);
		open_event(0, "", PERIOD);
		if (!slot(0)->overflows)
			break;
		kvm_vm_free(vm);
	}
	remove_page();
	set_op(SPIN, 0);
	start_watching();
	TEST_ASSERT_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
	TEST_ASSERT_EQ(__vcpu_run(vcpu), -1);
	TEST_ASSERT_EQ(errno, EINTR);
	sync_global_from_guest(vm, nmis);
	ksft_test_result(!end_watching() && !nmis,
			 "missing page: an overflow doesn't wait, and injects no NMI\n");
	resolve();
	for (i = 0; i < 200 && !nmis; i++) {
		TEST_ASSERT_EQ(__vcpu_run(vcpu), -1);
		TEST_ASSERT_EQ(errno, EINTR);
		sync_global_from_guest(vm, nmis);
	}
	memset(&timer, 0, sizeof(timer));
	TEST_ASSERT_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
	ksft_test_result(nmis && slot(0)->overflows && slot(0)->state == KVM_PV_PERF_STATE_ON,
			 "missing page: the overflow is reported after the page is present\n");
	free_vm_without_page();
}

static void skip_missing_pages(void)
{
	int i;

	for (i = 0; i < 9; i++)
		ksft_test_result_skip("missing page: no userfaultfd\n");
}

/* Memory that cannot be written */

static void replace_memory(u32 flags)
{
	vm_mem_region_delete(vm, MEM_SLOT);
	vm_userspace_mem_region_add(vm, VM_MEM_SRC_ANONYMOUS, MEM_GPA, MEM_SLOT, EVENTS, flags);
	mem = addr_gpa2hva(vm, MEM_GPA);
}

static void test_invalid_memory(void)
{
	struct itimerval timer = { { 0, 0 }, { 0, 300000 } };

	create_vm(false);
	open_event(0, "exits", 0);
	open_event(1, "", PERIOD);
	replace_memory(KVM_MEM_READONLY);
	TEST_ASSERT_EQ(run_immediately(), EINTR);
	ksft_test_result(call(KVM_PV_PERF_READ, 0) == -KVM_EFAULT &&
			 call(KVM_PV_PERF_READ_ALL, 1) == -KVM_EFAULT,
			 "read-only memory: READ and READ_ALL fail with EFAULT\n");
	set_op(SPIN, 0);
	TEST_ASSERT_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
	TEST_ASSERT_EQ(__vcpu_run(vcpu), -1);
	TEST_ASSERT_EQ(errno, EINTR);
	replace_memory(0);
	ksft_test_result(!call(KVM_PV_PERF_READ, 1) && slot(1)->state == KVM_PV_PERF_STATE_ERROR,
			 "read-only memory: an overflow stops the event\n");
	ksft_test_result(!call(KVM_PV_PERF_READ, 0) && slot(0)->count,
			 "writable memory: READ succeeds again\n");
	vm_mem_region_move(vm, MEM_SLOT, MEM_GPA + EVENTS * PAGE);
	TEST_ASSERT_EQ(run_immediately(), EINTR);
	ksft_test_result(call(KVM_PV_PERF_READ, 0) == -KVM_EFAULT,
			 "moved memory: READ fails with EFAULT\n");
	vm_mem_region_delete(vm, MEM_SLOT);
	TEST_ASSERT_EQ(run_immediately(), EINTR);
	ksft_test_result(call(KVM_PV_PERF_READ, 0) == -KVM_EFAULT,
			 "deleted memory: READ fails with EFAULT\n");
	kvm_vm_free(vm);
}

int main(void)
{
	struct sigaction act = { .sa_handler = on_signal };
	int fd = open(PARAMETER, O_RDWR), user;
	char before;

	__TEST_REQUIRE(fd >= 0 && pread(fd, &before, 1, 0) == 1,
		       "no module parameter pv_perf of kvm");
	TEST_REQUIRE(kvm_has_cap(KVM_CAP_DIRTY_LOG_RING) ||
		     kvm_has_cap(KVM_CAP_DIRTY_LOG_RING_ACQ_REL));
	TEST_ASSERT_EQ(pwrite(fd, "Y", 1, 0), 1);
	TEST_ASSERT_EQ(sigaction(SIGALRM, &act, NULL), 0);
	TEST_ASSERT_EQ(sigaction(SIGUSR1, &act, NULL), 0);

	ksft_print_header();
	ksft_set_plan(21);
	test_ring_of_stopped_vcpu();
	test_ring_without_change();
	test_ring_of_running_guest();
	user = syscall(__NR_userfaultfd, O_CLOEXEC);
	if (user >= 0) {
		close(user);
		test_stop_without_page();
		test_hypercall_without_page();
		test_overflow_without_page();
	} else {
		skip_missing_pages();
	}
	test_page_without_wait();
	test_invalid_memory();
	TEST_ASSERT_EQ(pwrite(fd, &before, 1, 0), 1);
	ksft_finished();
}
