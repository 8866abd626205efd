// SPDX-License-Identifier: GPL-2.0-only
/*
 * Count torn values: reads that saw half of a write
 *
 *	kvm_stats_torn [-m MILLISECONDS of each figure]
 *
 * The kernel copies statistics to user space while vCPUs write them. Whether a
 * u64 can be torn depends on the CPU's way of copying, and on where the buffer
 * is. So do here what happens there, as fast as possible: one thread writes
 * words of eight equal bytes to the pages of a file, another reads the file, and
 * counts the words that have different bytes. This needs no KVM. Then repeat the
 * test with the statistics of a running vCPU, where a torn value is a step back,
 * if they are supported and a guest can run.
 *
 * The guarantee is that nothing is torn on a 64-bit host if buffer and offset are
 * multiples of 8, and on powerpc the length is one of 16. All other results, and
 * all results on an emulated CPU, are only figures.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/compiler.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest_exits.h"
#include "kselftest.h"
#include "kvm_stats.h"
#include "kvm_util.h"
#include "stats_test.h"
#include "test_util.h"

#define VCPU_ID		0

/*
 * About as many as the values of a vCPU on x86. The last one of an odd number may be
 * copied in halves on powerpc, see arch/powerpc/lib/copyuser_power7.S.
 */
#define WORDS		132

static unsigned long milliseconds = 200;

static bool stop;
static unsigned long writes;

static void *write_words(void *arg)
{
	uint64_t *words = arg;
	uint8_t byte = 0;
	int i;

	while (!READ_ONCE(stop)) {
		for (i = 0; i < WORDS; i++)
			WRITE_ONCE(words[i], byte * 0x0101010101010101ULL);
		byte++;
		WRITE_ONCE(writes, writes + 1);
	}
	return NULL;
}

/* Read words to @shift bytes after a multiple of 8; return how many are torn. */
static unsigned long read_words(int fd, int shift, unsigned long *total)
{
	static char buf[(WORDS + 1) * sizeof(uint64_t)] __aligned(8);
	const ssize_t size = WORDS * sizeof(uint64_t);
	const uint64_t end = now_ns() + milliseconds * 1000000ULL;
	unsigned long torn = 0;
	uint64_t word;
	int i;

	*total = 0;
	while (now_ns() < end) {
		TEST_ASSERT(pread(fd, buf + shift, size, 0) == size,
			    "pread, errno: %i", errno);
		for (i = 0; i < WORDS; i++) {
			memcpy(&word, buf + shift + i * sizeof(word), sizeof(word));
			torn += word != (word & 0xff) * 0x0101010101010101ULL;
		}
		*total += WORDS;
	}
	return torn;
}

static void test_copy(void)
{
	const size_t size = WORDS * sizeof(uint64_t);
	unsigned long torn, total, all = 0;
	pthread_t writer;
	void *words;
	int fd, shift;

	fd = memfd_create("kvm_stats_torn", 0);
	TEST_ASSERT(fd >= 0 && !ftruncate(fd, size), "memfd, errno: %i", errno);
	words = must_succeed(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	TEST_ASSERT(!pthread_create(&writer, NULL, write_words, words),
		    "pthread_create");
	for (shift = 0; shift < sizeof(uint64_t); shift++) {
		torn = read_words(fd, shift, &total);
		all += total;
		if (!shift && cpu_copies_whole_words())
			ok(!torn, "copies to an aligned buffer: %lu of %lu words torn",
			   torn, total);
		else
			ksft_print_msg("copies to a buffer at 8n + %d: %lu of %lu words torn\n",
				       shift, torn, total);
	}
	WRITE_ONCE(stop, true);
	pthread_join(writer, NULL);
	ok(all && writes, "%lu words were read while each was written %lu times",
	   all, writes);
	munmap(words, size);
	close(fd);
}

static bool stopped;

static void *run_guest(void *arg)
{
	const int vcpu_fd = vcpu_get_fd(arg, VCPU_ID);

	while (!READ_ONCE(stop))
		TEST_ASSERT(ioctl(vcpu_fd, KVM_RUN, NULL) >= 0 || errno == EINTR,
			    "KVM_RUN, errno: %i", errno);
	WRITE_ONCE(stopped, true);
	return NULL;
}

static void on_signal(int sig)
{
}

/* Stop the guest with signals: it may run without exits, and one may precede KVM_RUN. */
static void stop_guest(pthread_t runner)
{
	WRITE_ONCE(stop, true);
	while (!READ_ONCE(stopped)) {
		pthread_kill(runner, SIGUSR1);
		usleep(10000);
	}
	pthread_join(runner, NULL);
}

/*
 * Read the values of a vCPU, which only grow; return the number of steps back.
 * Either that value or the previous one was torn: continue with an intact one.
 */
static unsigned long read_values(const struct kvm_stats *stats, int shift,
				 unsigned long *total)
{
	const size_t size = kvm_stats_data_size(stats);
	const uint64_t end = now_ns() + milliseconds * 1000000ULL;
	uint64_t *last = calloc(1, size);
	char *buf = malloc(size + sizeof(uint64_t));
	unsigned long torn = 0;
	uint32_t i;

	TEST_ASSERT(last && buf, "No memory");
	*total = 0;
	while (now_ns() < end) {
		TEST_ASSERT(pread(stats->fd, buf + shift, size, stats->data_offset) ==
			    (ssize_t)size, "pread, errno: %i", errno);
		for (i = 0; i < stats->count; i++) {
			const struct kvm_stats_desc *desc = kvm_stats_desc(stats, i);
			uint64_t value;

			if ((desc->flags & KVM_STATS_TYPE_MASK) !=
			    KVM_STATS_TYPE_CUMULATIVE)
				continue;
			memcpy(&value, buf + shift + desc->offset, sizeof(value));
			torn += value < last[i];
			last[i] = value < last[i] ?
				  kvm_stats_value(stats, desc->name) : value;
			++*total;
		}
	}
	free(last);
	free(buf);
	return torn;
}

static void test_statistics(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	unsigned long torn, total;
	struct kvm_stats stats;
	struct kvm_vm *vm;
	pthread_t runner;

	vm = vm_create_guest(VCPU_ID, guest_exits);
	kvm_stats_open_stats_fd(&stats, vcpu_get_fd(vm, VCPU_ID));
	sigaction(SIGUSR1, &action, NULL);
	stop = false;
	TEST_ASSERT(!pthread_create(&runner, NULL, run_guest, vm), "pthread_create");

	torn = read_values(&stats, 0, &total);
	if (cpu_copies_whole_words())
		ok(!torn, "statistics read to an aligned buffer: %lu of %lu torn",
		   torn, total);
	else
		ksft_print_msg("statistics read to an aligned buffer: %lu of %lu torn\n",
			       torn, total);
	torn = read_values(&stats, 1, &total);
	ksft_print_msg("statistics read to an odd buffer: %lu of %lu torn\n",
		       torn, total);

	stop_guest(runner);
	kvm_stats_close(&stats);
	kvm_vm_free(vm);
}

int main(int argc, char *argv[])
{
	int opt;

	while ((opt = getopt(argc, argv, "m:")) != -1) {
		milliseconds = opt == 'm' ? strtoul(optarg, NULL, 0) : 0;
		if (!milliseconds) {
			fprintf(stderr, "usage: %s [-m MILLISECONDS of each figure]\n",
				argv[0]);
			return 2;
		}
	}

	setbuf(stdout, NULL);
	ksft_print_header();
	test_copy();
	if (kvm_check_cap(KVM_CAP_BINARY_STATS_FD) > 0 && guest_exit_stats())
		test_statistics();
	else
		ksft_print_msg("no running guest to read the statistics of\n");
	if (!cpu_copies_whole_words())
		ksft_print_msg("this CPU does not copy words as a whole: figures only\n");

	ksft_set_plan(ksft_test_num());
	ksft_exit(!ksft_get_fail_cnt());
}
