// SPDX-License-Identifier: GPL-2.0-only
/*
 * VMs that live for less than a sample: short_vms VMS [SOURCE]. Starts VMs of 50 ms, two at
 * once, each in its own process with the name short-vm. One of two processes exits in the
 * thread of the vCPU, the other one after this thread. Each VM reports its exits, from its own
 * statistics file, and the CPU time of its vCPU's thread.
 *
 * With a source, the library takes a sample every 300 ms; prints TAP. All sources count the VMs
 * of which they have no values. With bpf, the exits of each VM must equal its report. One VM in
 * a hundred may lack its last values if the kernel reports that it skipped both programs that
 * keep them: Linux 7.0 and later can preempt a program before it disables preemption. Without a
 * source, prints "EXITS NANOSECONDS". Needs root and /dev/kvm.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core.h"
#include "probe_vm.h"
#include "tap.h"
#include "vm.h"

#define LIFE_NS		50000000ULL
#define SAMPLE_NS	300000000ULL
#define AT_ONCE		2
#define NAME		"short-vm"

struct report {
	pid_t pid;
	uint64_t exits, run;
};

struct child {
	struct probe_vm vm;
	struct report *report;
	bool exit_in_thread;
};

static void *run_vcpu(void *arg)
{
	struct child *child = arg;
	const uint64_t end = read_clock(CLOCK_MONOTONIC) + LIFE_NS;

	probe_vm_run(&child->vm);
	while (read_clock(CLOCK_MONOTONIC) < end && probe_vm_step(&child->vm))
		;
	child->report->exits = read_stat(child->vm.vcpu_stats, "exits");
	child->report->run = read_clock(CLOCK_THREAD_CPUTIME_ID);
	if (child->exit_in_thread)
		_exit(0);
	return NULL;
}

static pid_t start_vm(struct report *report, bool exit_in_thread)
{
	struct child child = { .report = report, .exit_in_thread = exit_in_thread };
	const pid_t pid = fork_child();
	pthread_t thread;
	char why[200];

	if (pid)
		return pid;
	prctl(PR_SET_NAME, NAME);
	if (probe_vm_open(&child.vm, 0, why, sizeof(why)) ||
	    pthread_create(&thread, NULL, run_vcpu, &child))
		_exit(1);
	pthread_join(thread, NULL);
	_exit(0);
}

/* Start VMs until all have run. Returns the number of processes that have exited. */
static unsigned int run_vms(struct report *reports, unsigned int vms, unsigned int *started,
			    unsigned int *exited, int options)
{
	while (*started < vms && *started - *exited < AT_ONCE) {
		reports[*started].pid = start_vm(&reports[*started], *started % 2);
		++*started;
	}
	while (*exited < *started && waitpid(-1, NULL, options) > 0)
		++*exited;
	return *exited;
}

/* CPU time of all processes of VMs: the upper bound of the time of their vCPUs */
static uint64_t children_time(void)
{
	struct rusage usage;

	getrusage(RUSAGE_CHILDREN, &usage);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000ULL +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000ULL;
}

/* How often the kernel skipped a program of this process */
static unsigned int count_skipped(void)
{
	DIR *dir = opendir("/proc/self/fdinfo");
	unsigned int n, skipped = 0;
	struct dirent *entry;
	char path[300], line[128];
	FILE *f;

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", entry->d_name);
		f = fopen(path, "re");
		while (f && fgets(line, sizeof(line), f))
			if (sscanf(line, "recursion_misses: %u", &n) == 1)
				skipped += n;
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	return skipped;
}

/* The VMs in the samples, each with the sums of its exits and run time */
struct observed {
	struct report *vms;
	unsigned int count, ended;
};

/* Find the VM of this process, or add it. */
static struct report *find_report(struct observed *observed, pid_t pid)
{
	unsigned int i = 0;

	while (i < observed->count && observed->vms[i].pid != pid)
		i++;
	if (i == observed->count)
		observed->vms[observed->count++].pid = pid;
	return &observed->vms[i];
}

static void add_sample(struct kvmstats *k, struct observed *observed)
{
	const struct kvmstats_vm *vm;
	struct report *to;

	kvmstats_sample(k);
	for (vm = kvmstats_first(k); vm; vm = vm->next) {
		if (strcmp(vm->identity.name, NAME))
			continue;
		to = find_report(observed, vm->identity.pid);
		to->exits += vm->sum.event[KVMSTATS_EXITS];
		to->run += vm->sum.times.mode[KVMSTATS_RUN] + vm->sum.times.mode[KVMSTATS_POLL];
		observed->ended += vm->ended;
	}
}

/* Compare the values of each VM with its own account. */
static void check_values(struct observed *observed, const struct report *reports,
			 unsigned int vms)
{
	const unsigned int skipped = count_skipped();
	struct report sum = { 0 }, truth = { 0 };
	const uint64_t most = children_time();
	const struct report *vm;
	unsigned int i, lost = 0;

	for (i = 0; i < vms; i++) {
		vm = find_report(observed, reports[i].pid);
		if (vm->exits != reports[i].exits) {
			printf("# VM %u: %lu exits, by its own account %lu\n", i, vm->exits,
			       reports[i].exits);
			lost++;
			continue;
		}
		sum.exits += vm->exits;
		sum.run += vm->run;
		truth.run += reports[i].run;
	}
	tap_result(sum.exits >= vms - lost && lost <= vms / 100 && 2 * lost <= skipped,
		   "the exits of %u of %u VMs equal their own account: %lu, the kernel skipped a program %u times",
		   vms - lost, vms, sum.exits, skipped);
	/* Own accounts end before the threads exit, which takes time as well. */
	tap_result(sum.run <= most + most / 100 && sum.run >= truth.run - truth.run / 100,
		   "CPU time of %u VMs: %.3f s, by their own account %.3f s, of all processes %.3f s",
		   vms - lost, sum.run / 1e9, truth.run / 1e9, most / 1e9);
	tap_result(observed->ended <= vms && observed->ended >= vms - lost,
		   "%u of %u VMs ended", observed->ended, vms);
}

/* The other programs of this host may create VMs as well. */
static void check_unobserved(struct kvmstats *k, unsigned int missed)
{
	uint64_t unobserved = 0;
	unsigned int i;

	/* The kernel destroys a VM after its process has exited, and then reports it. */
	for (i = 0; i < 100 && kvmstats_unobserved(k, &unobserved) && unobserved < missed; i++) {
		usleep(100000);
		kvmstats_sample(k);
	}

	if (!kvmstats_unobserved(k, &unobserved))
		printf("# not run, VMs without values: no uevents\n");
	else
		tap_result(unobserved >= missed, "at least %u VMs without values are counted: %lu",
			   missed, unobserved);
}

static void test(const char *source, struct report *reports, unsigned int vms)
{
	struct observed observed = { .vms = calloc(2 * vms, sizeof(struct report)) };
	unsigned int started = 0, exited = 0;
	struct kvmstats *k;
	uint64_t next;

	tap_result(!kvmstats_open(&k, source, NULL, 0), "the source %s works", source);
	if (tap_failed)
		return;
	add_sample(k, &observed);
	next = read_clock(CLOCK_MONOTONIC) + SAMPLE_NS;
	while (run_vms(reports, vms, &started, &exited, WNOHANG) < vms) {
		if (read_clock(CLOCK_MONOTONIC) >= next) {
			add_sample(k, &observed);
			next += SAMPLE_NS;
		}
		usleep(1000);
	}
	/* The last VMs may be reported as ended one sample later. */
	add_sample(k, &observed);
	add_sample(k, &observed);
	check_unobserved(k, observed.count < vms ? vms - observed.count : 0);
	if (strcmp(source, "bpf"))
		printf("# %u of %u VMs ended\n", observed.ended, vms);
	else
		check_values(&observed, reports, vms);
	free(observed.vms);
	kvmstats_close(k);
}

int main(int argc, char **argv)
{
	const unsigned int vms = argc > 1 ? atoi(argv[1]) : 0;
	unsigned int i, started = 0, exited = 0;
	struct report *reports, sum = { 0 };

	if (!vms || argc > 3)
		errx(2, "usage: short_vms VMS [SOURCE]");
	reports = mmap(NULL, vms * sizeof(*reports), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (reports == MAP_FAILED)
		return 1;
	if (argc == 3) {
		test(argv[2], reports, vms);
		return tap_end();
	}
	while (run_vms(reports, vms, &started, &exited, 0) < vms)
		;
	for (i = 0; i < vms; i++) {
		sum.exits += reports[i].exits;
		sum.run += reports[i].run;
	}
	printf("%lu %lu\n", sum.exits, sum.run);
	return 0;
}
