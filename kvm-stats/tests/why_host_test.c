// SPDX-License-Identifier: GPL-2.0-only
/*
 * What "why" reads of a host about a VM in trouble: CPUs, cpusets, libvirt, scheduling policies and memory,
 * in a directory with files of /proc, /sys, /run and cgroups that the test makes up. Prints TAP.
 */
#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "scratch.h"
#include "stalls_sum.h"
#include "tap.h"
#include "why.h"
#include "window.h"

#define PID	4711
#define TID	4720	/* of the first vCPU */
#define VCPUS	3	/* at most; two in most cases */

static const char *affinity[VCPUS];	/* such as "0-3"; NULL: the thread has exited */
static struct thread_policy policy[VCPUS];	/* tid 0: the thread has exited */

FILE *__real_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode)
{
	char here[2 * PATH_MAX];

	snprintf(here, sizeof(here), "%s%s", strncmp(path, top, strlen(top)) ? top : "", path);
	return __real_fopen64(here, mode);
}

/* All files belong to this user. */
static uid_t file_owner;

int __real_fstat64(int fd, struct stat *st);
int __wrap_fstat64(int fd, struct stat *st);
int __wrap_fstat64(int fd, struct stat *st)
{
	const int error = __real_fstat64(fd, st);

	st->st_uid = file_owner;
	return error;
}

int __wrap_sched_getaffinity(pid_t tid, size_t size, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t tid, size_t size, cpu_set_t *set)
{
	const char *list = tid - TID < VCPUS ? affinity[tid - TID] : NULL;
	unsigned int first, last;
	int used;

	CPU_ZERO_S(size, set);
	for (; list && *list; list += used + (list[used] == ',')) {
		if (sscanf(list, "%u-%u%n", &first, &last, &used) < 2) {
			sscanf(list, "%u%n", &first, &used);
			last = first;
		}
		for (; first <= last; first++)
			CPU_SET_S(first, size, set);
	}
	return list ? 0 : -1;
}

bool __wrap_read_thread_policy(pid_t tid, struct thread_policy *found);
bool __wrap_read_thread_policy(pid_t tid, struct thread_policy *found)
{
	*found = policy[tid - TID];
	return found->tid;
}

/* The VM */
static struct kvmstats_vcpu vcpu[VCPUS];
static struct kvmstats_vcpu *vcpus[VCPUS] = { &vcpu[0], &vcpu[1], &vcpu[2] };
static struct kvmstats_vm vm;
static struct window_vm window;
static struct why_vm why;

/* Jiffies of four CPUs, busy and idle; a negative number: offline */
static void put_stat(const int busy[4], const int idle[4], const int steal[4])
{
	char text[1024];
	unsigned int i;
	int n;

	n = sprintf(text, "cpu  9 9 9 9 9 9 9 9 9 9\n");
	for (i = 0; i < 4; i++) {
		if (busy[i] >= 0)
			n += sprintf(text + n, "cpu%u %d 1 1 %d %d 1 1 %d 0 0\n", i, busy[i], idle[i] - idle[i] / 4, idle[i] / 4,
				     steal[i]);
	}
	sprintf(text + n, "cpu%u 1 1 1 1 1 1 1 1 0 0\nintr 9\n", MAX_CPUS);
	put(text, "/proc/stat");
}

static struct why_cpus *cpus;
static struct why_host host;

/* Each test reads from the same directory. */
static int open_proc(void)
{
	static int proc = -1;
	char path[128];

	put("", "/proc/self/mountinfo");
	sprintf(path, "%s/proc", top);
	if (proc < 0)
		proc = open(path, O_RDONLY | O_DIRECTORY);
	if (proc < 0)
		err(1, "%s", path);
	return proc;
}

/* Observe: 100 jiffies per CPU, of which so many were idle. */
static void observe(const int idle[4])
{
	const int zero[4] = { 0 };
	unsigned int i;
	int busy[4];

	put_stat((const int[4]){ 10, 10, 10, 10 }, (const int[4]){ 20, 20, 20, 20 }, zero);
	cpus = begin_examination(open_proc(), &vm);
	for (i = 0; i < 4; i++)
		busy[i] = 110 - idle[i];
	put_stat(busy, (const int[4]){ 20 + idle[0], 20 + idle[1], 20 + idle[2], 20 + idle[3] }, zero);
	memset(&host, 0, sizeof(host));
	examine_host(cpus, &vm, &host);
}

static void begin_vm(void)
{
	unsigned int i;

	memset(&vm, 0, sizeof(vm));
	memset(&why, 0, sizeof(why));
	memset(&window, 0, sizeof(window));
	vm.identity.pid = PID;
	vm.vcpus = 2;
	vm.vcpu = vcpus;
	for (i = 0; i < VCPUS; i++) {
		vcpu[i].id = i;
		vcpu[i].tid = TID + i;
		affinity[i] = "0-3";
		policy[i] = (struct thread_policy){ .tid = TID + i };
	}
	window.elapsed = 1000;
	window.activity.times.mode[KVMSTATS_READY] = 5000;
	why.vm = &window;
}

/* Examine the VM with a mounted hierarchy of v2, in which its threads are in this cgroup. */
static void examine(const char *cgroup)
{
	char text[4096];
	unsigned int i;

	snprintf(text, sizeof(text), "30 24 0:26 / %s/tree rw - cgroup2 cgroup rw\n", top);
	put(text, "/proc/self/mountinfo");
	snprintf(text, sizeof(text), "0::%s\n", cgroup);
	put(text, "/proc/%d/cgroup", PID);
	for (i = 0; i < VCPUS; i++)
		put(i < vm.vcpus ? text : NULL, "/proc/%d/cgroup", TID + i);
	examine_vm(cpus, &vm, &vm, &why);
}

static void end(void)
{
	free_facts(why.facts);
	end_examination(cpus);
}

static void test_host(void)
{
	const int zero[4] = { 0 };
	char path[128];

	begin_vm();
	put_stat((const int[4]){ 10, 10, -1, 10 }, (const int[4]){ 20, 50, 0, 20 }, (const int[4]){ 5, 9, 0, 5 });
	cpus = begin_examination(open_proc(), &vm);
	/* CPU 2 is new, CPU 3 went offline; idle and stolen time of CPU 1 decreased, as they may. */
	put_stat((const int[4]){ 40, 200, 10, -1 }, (const int[4]){ 80, 40, 90, 0 }, (const int[4]){ 15, 5, 0, 0 });
	put("200000\n", "/sys/module/kvm/parameters/halt_poll_ns");
	memset(&host, 0, sizeof(host));
	examine_host(cpus, &vm, &host);
	/* CPU 0: 100, of which 60 idle and 10 stolen; CPU 1: 176 */
	tap_result(host.idle == 60 * 1000 / 276 && host.steal == 10 * 1000 / 276, "idle %u and steal %u permille",
		   host.idle, host.steal);
	tap_result(host.halt_poll_ns == 200000 && host.halt_poll_writable, "halt_poll_ns, which can be changed");
	end();
	put("many\n", "/sys/module/kvm/parameters/halt_poll_ns");
	sprintf(path, "%s/sys/module/kvm/parameters/halt_poll_ns", top);
	chmod(path, 0444);
	observe(zero);
	tap_result(!host.halt_poll_ns && !host.halt_poll_writable, "no number, and a file that is read-only");
	tap_result(!host.idle && !host.steal, "a host that is busy");
	end();
	put("many\n", "/sys/module/kvm/parameters/halt_poll_ns");
	cpus = begin_examination(open_proc(), &vm);
	host.halt_poll_ns = 5;
	examine_host(cpus, &vm, &host);
	tap_result(!host.halt_poll_ns, "no number after one");
	end();
	put(NULL, "/sys/module/kvm/parameters/halt_poll_ns");
	observe((const int[4]){ 100, 100, 100, 100 });
	tap_result(!host.halt_poll_ns && !host.halt_poll_writable, "a kernel that does not poll");
	tap_result(host.idle == 1000, "a host that is idle");
	end();

	put_stat((const int[4]){ 10, 10, 10, 10 }, (const int[4]){ 20, 20, 20, 20 }, zero);
	cpus = begin_examination(open_proc(), &vm);
	/* Only CPU 0 has time; idle time of the others increased, as it may. */
	put_stat((const int[4]){ 60, 0, 0, 0 }, (const int[4]){ 70, 30, 30, 30 }, zero);
	examine_host(cpus, &vm, &host);
	tap_result(host.idle == 500, "CPUs without time do not count: idle %u permille", host.idle);
	end();

	put(NULL, "/proc/stat");
	cpus = begin_examination(open_proc(), &vm);
	examine_host(cpus, &vm, &host);
	tap_result(!host.idle && !host.steal, "a host without a file of its CPUs");
	end();
	end_examination(NULL);
}

/* CPUs of two vCPUs, and what larger sets would win: CPUs 2 and 3 are idle for half and all of the time. */
#define V2	"/machine.slice/a.scope"
static const struct affinity_case {
	const char *what, *may[2];
	const char *effective, *partition, *slice_effective, *slice_partition, *isolated;
	unsigned int cpus;
	const char *list;
	bool differ;
	const char *could[2];
	unsigned int unpin_gain, idle_elsewhere, idle_within;
	bool is_isolated;
} affinities[] = {
	{ "all CPUs", { "0-3", "0-3" }, NULL, NULL, NULL, NULL, "", 4, "0-3", false, { "0-3", "0-3" }, 0, 0, 375, false },
	{ "one CPU", { "0", "0" }, NULL, NULL, NULL, NULL, "", 1, "0", false, { "0-3", "0-3" }, 1500, 500, 0, false },
	{ "two sets", { "0-1", "2" }, NULL, NULL, NULL, NULL, "", 1, "2", true, { "0-3", "0-3" }, 1500, 375, 166, false },
	{ "two sets of one size", { "0", "2" }, NULL, NULL, NULL, NULL, "", 1, "0", true, { "0-3", "0-3" }, 1500, 375, 250, false },
	{ "a thread that exited", { NULL, "0,2-3" }, NULL, NULL, NULL, NULL, "", 3, "0,2-3", false, { "0-3", NULL }, 0, 0, 500,
	  false },
	{ "a cpuset", { "0", "0" }, "0-1,3\n", NULL, NULL, NULL, "", 1, "0", false, { "0-1,3", "0-1,3" }, 1000, 500, 0, false },
	{ "a cpuset that is smaller than the affinity", { "0-1", "0-1" }, "0\n", NULL, NULL, NULL, "", 2, "0-1", false,
	  { "0-1", "0-1" }, 0, 750, 0, false },
	{ "a partition", { "0", "0" }, "0-1\n", "root\n", NULL, NULL, "", 1, "0", false, { "0-1", "0-1" }, 0, 0, 0, false },
	{ "a partition above", { "0", "0" }, "0-1\n", "member\n", "0-2\n", "root\n", "", 1, "0", false, { "0-1", "0-1" }, 0, 250,
	  0, false },
	{ "an isolated partition", { "0", "0" }, "0-1\n", "isolated\n", "0-2\n", "root\n", "", 1, "0", false,
	  { "0-1", "0-1" }, 0, 0, 0, true },
	{ "an isolated partition above", { "0", "0" }, "0-1\n", "member\n", "0-2\n", "isolated\n", "", 1, "0", false,
	  { "0-1", "0-1" }, 0, 250, 0, true },
	{ "isolated CPUs elsewhere", { "0-1", "0-1" }, NULL, NULL, NULL, NULL, "3\n", 2, "0-1", false, { "0-2", "0-2" }, 500, 500,
	  0, false },
	{ "on isolated CPUs", { "2-3", "2-3" }, NULL, NULL, NULL, NULL, "1-3,9999\n", 2, "2-3", false, { "0,2-3", "0,2-3" }, 0, 0,
	  750, true },
	{ "isolated CPUs, one by one", { "2", "2" }, NULL, NULL, NULL, NULL, "1,3\n", 1, "2", false, { "0,2", "0,2" }, 0, 0, 500, false },
	{ "a list of isolated CPUs with an error", { "2", "2" }, NULL, NULL, NULL, NULL, "1 3\n", 1, "2", false,
	  { "0,2-3", "0,2-3" }, 1000, 500, 500, false },
	{ "more isolated CPUs than there can be", { "0-2", "0-2" }, NULL, NULL, NULL, NULL, "3-99999\n", 3, "0-2", false,
	  { "0-2", "0-2" }, 0, 0, 166, false },
	{ "no file of isolated CPUs", { "0-2", "3" }, NULL, NULL, NULL, NULL, NULL, 1, "3", true, { "0-3", "0-3" }, 1500, 375, 375,
	  false },
	{ "fewer CPUs first", { "3", "0-2" }, NULL, NULL, NULL, NULL, "", 1, "3", true, { "0-3", "0-3" }, 1500, 375, 375, false },
	{ "CPUs that are offline", { "0-7", "0-7" }, NULL, NULL, NULL, NULL, "", 4, "0-3", false, { "0-3", "0-3" }, 0, 0, 375,
	  false },
};

static void test_affinity(const struct affinity_case *c)
{
	unsigned int i, right = 0, n = 0;
	struct vcpu_cpus *v;

	begin_vm();
	memcpy(affinity, c->may, sizeof(c->may));
	put(c->isolated, "/sys/devices/system/cpu/isolated");
	put("", "/tree" V2 "/cpuset.cpus");
	put(c->effective, "/tree" V2 "/cpuset.cpus.effective");
	put(c->partition, "/tree" V2 "/cpuset.cpus.partition");
	put(c->slice_effective, "/tree/machine.slice/cpuset.cpus.effective");
	put(c->slice_partition, "/tree/machine.slice/cpuset.cpus.partition");
	observe((const int[4]){ 0, 0, 50, 100 });
	examine(V2);
	for (i = 0; i < why.facts->nr_vcpus; i++) {
		v = &why.facts->vcpus[i];
		while (n < vm.vcpus && !c->may[n])
			n++;
		right += v->tid == (pid_t)(TID + n) && v->id == n && v->isolated == c->is_isolated &&
			 !strcmp(v->could, c->could[i]);
		n++;
	}
	tap_result(right == why.facts->nr_vcpus && right == vm.vcpus - !c->may[0], "%s: could run on %s", c->what,
		   why.facts->vcpus[0].could);
	tap_result(why.cpus == c->cpus && !strcmp(why.cpu_list, c->list) && why.cpus_differ == c->differ,
		   "%s: %u CPUs, %s", c->what, why.cpus, why.cpu_list);
	tap_result(why.unpin_gain == c->unpin_gain && why.idle_elsewhere == c->idle_elsewhere &&
		   why.idle_within == c->idle_within, "%s: %u to win, idle %u elsewhere, %u within", c->what,
		   why.unpin_gain, why.idle_elsewhere, why.idle_within);
	end();
}

/* Two vCPUs on one of several CPUs between which the kernel does not move them */
static void put_last_cpu(unsigned int n, int cpu, char state)
{
	char text[256];

	sprintf(text, "%u (a ) b) %c 1 1 1 0 -1 4194560 1 1 1 1 7 7 7 7 20 0 3 0 99 1 1 1 1 1 1 1 0 0 0 0 0 0 0 0 17 %d 0 0\n",
		TID + n, state, cpu);
	put(text, "/proc/%u/stat", TID + n);
}

static void test_spread(void)
{
	static const struct {
		const char *what;
		const char *isolated;
		int cpu[VCPUS];		/* -2: no file; -3: no such vCPU; -4: a file without a CPU */
		uint64_t ready;
		unsigned int gain;
		const char *idle;	/* of the last vCPU */
		const char *may[VCPUS];	/* "1-3" by default */
	} cases[] = {
		{ "both on CPU 1", "1-3\n", { 1, 1, -3 }, 5000, 1000, "3" },
		{ "a gain is at most what was waited", "1-3\n", { 1, 1, -3 }, 300, 300, "3" },
		{ "each on its own", "1-3\n", { 1, 2, -3 }, 5000, 0, "" },
		{ "one on the idle CPU already", "1-3\n", { 3, 3, -3 }, 5000, 500, "2" },
		{ "CPUs that are not isolated", "", { 1, 1, -3 }, 5000, 0, "" },
		{ "a thread without a CPU", "1-3\n", { -1, 1, 1 }, 5000, 0, "" },
		{ "a thread without a file", "0-3\n", { -2, 0, -3 }, 5000, 0, "", { "0-3", "0-3" } },
		{ "a CPU that cannot be", "1-3\n", { 99999, 1, -3 }, 5000, 0, "" },
		{ "both on CPU 0", "0-3\n", { 0, 0, -3 }, 5000, 1000, "3", { "0-3", "0-3" } },
		{ "CPU 0 is idle", "0-3\n", { 3, 3, -3 }, 5000, 1000, "0", { "0-3", "0-3" } },
		{ "of two idle CPUs, the first", "0-3\n", { 1, 1, -3 }, 5000, 1000, "0", { "0-3", "0-3" } },
		{ "no idle CPU", "1-3\n", { 2, 2, -3 }, 5000, 0, "", { "1-2", "1-2" } },
		{ "one of two finds an idle CPU", "1-3\n", { 1, 1, 1 }, 5000, 0, "", { "1,3", "1,3", "1,3" } },
		{ "three on CPU 1", "1-3\n", { 1, 1, 1 }, 5000, 1500, "2" },
		{ "CPUs of the vCPU itself", "0-3\n", { 1, 1, 3 }, 5000, 500, "", { "1", "1-2", "0,3" } },
		{ "a thread whose file is too short", "0-3\n", { -4, 0, -3 }, 5000, 0, "", { "0-3", "0-3" } },
	};
	const struct vcpu_cpus *v;
	unsigned int i, n;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		begin_vm();
		window.activity.times.mode[KVMSTATS_READY] = cases[i].ready;
		put(cases[i].isolated, "/sys/devices/system/cpu/isolated");
		put(NULL, "/tree" V2 "/cpuset.cpus.effective");
		put(NULL, "/tree" V2 "/cpuset.cpus.partition");
		put(NULL, "/tree/machine.slice/cpuset.cpus.partition");
		for (n = 0; n < VCPUS && cases[i].cpu[n] != -3; n++) {
			affinity[n] = cases[i].may[n] ?: "1-3";
			put_last_cpu(n, cases[i].cpu[n], 'R');
			if (cases[i].cpu[n] == -2 || cases[i].cpu[n] == -4)
				put(cases[i].cpu[n] == -2 ? NULL : "1 (a) R 1\n", "/proc/%u/stat", TID + n);
		}
		vm.vcpus = n;
		observe((const int[4]){ 100, 0, 50, 100 });
		examine(V2);
		v = &why.facts->vcpus[n - 1];
		tap_result(why.spread_gain == cases[i].gain && !*why.facts->vcpus[0].idle &&
			   (!cases[i].gain || !strcmp(v->idle, cases[i].idle)),
			   "isolated CPUs, %s: %u to win, the last vCPU on CPU '%s'", cases[i].what, why.spread_gain, v->idle);
		end();
	}
	for (n = 0; n < VCPUS; n++)
		put(NULL, "/proc/%u/stat", TID + n);
}

/* The name of a list of CPUs that is too long ends in dots. */
static void test_long_list(void)
{
	const char *const lists[] = { "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42,44",
				      "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42,144" };
	char text[16384];
	unsigned int i;
	int n;

	for (i = 0; i < 2; i++) {
		begin_vm();
		affinity[0] = affinity[1] = lists[i];
		for (n = 0, *text = '\0'; n < 145; n++)
			sprintf(text + strlen(text), "cpu%d 1 1 1 1 1 1 1 1 0 0\n", n);
		put(text, "/proc/stat");
		cpus = begin_examination(open_proc(), &vm);
		for (n = 0, *text = '\0'; n < 145; n++)
			sprintf(text + strlen(text), "cpu%d 9 1 1 1 1 1 1 1 0 0\n", n);
		put(text, "/proc/stat");
		examine_host(cpus, &vm, &host);
		examine(V2);
		tap_result(strlen(lists[i]) == CPU_LIST_SIZE - 1 + i && !strncmp(why.cpu_list, lists[i], 60) &&
			   !strcmp(why.cpu_list + 60, i ? "..." : ",44"), "a list of %zu characters: %s", strlen(lists[i]),
			   why.cpu_list);
		end();
	}
}

/* Threads of the VMM that are not vCPUs: they waited for 50 ns. */
static void test_other_threads(void)
{
	begin_vm();
	put("5 20 1\n", "/proc/%d/task/%d/schedstat", PID, PID);
	put("0 0 0\n", "/proc/%d/task/%d/schedstat", PID, TID);
	put("IO iothread1\n", "/proc/%d/comm", PID);
	cpus = begin_examination(open_proc(), &vm);
	examine_other_threads(cpus, &vm, &why);
	tap_result(!why.others.tid, "before the end of the observation, nothing is known about other threads");
	put("15 70 2\n", "/proc/%d/task/%d/schedstat", PID, PID);
	examine_host(cpus, &vm, &host);
	examine_other_threads(cpus, &vm, &why);
	tap_result(why.others.tid == PID && why.others.waited == 50 && why.others.ran == 10 &&
		   !strcmp(why.others.comm, "IO iothread1"), "thread %d, '%s', waited for %u ns", why.others.tid,
		   why.others.comm, (unsigned int)why.others.waited);
	end();
	put(NULL, "/proc/%d/task/%d/schedstat", PID, PID);
	put(NULL, "/proc/%d/task/%d/schedstat", PID, TID);
}

/* libvirt's directory must say that this process is the domain. */
#define UUID	"c7a5fdbd-edaf-9455-926a-d65c16db1809"
static void test_libvirt(void)
{
	static const struct {
		const char *what, *domain, *pid, *xml, *uuid;
		const char *cgroup, *found;
		uid_t owner;
	} cases[] = {
		{ "a domain", "web", "4711\n", "<x>\n<domain type='kvm'>\n <uuid>" UUID "</uuid>\n", UUID,
		  "/machine.slice/a.scope/libvirt/vcpu0", "/machine.slice/a.scope/libvirt" },
		{ "a cgroup that is not a vCPU's", "web", "4711\n", "<domain >\n<uuid>" UUID "</uuid>\n", UUID, "/machine.slice", "" },
		{ "files of a user", "web", "4711\n", "<domain >\n<uuid>" UUID "</uuid>\n", "", "/machine.slice", "", 1000 },
		{ "another process", "web", "4712\n", "<domain >\n<uuid>" UUID "</uuid>\n", "", "/machine.slice", "" },
		{ "no PID", "web", "x\n", "<domain >\n<uuid>" UUID "</uuid>\n", "", "/machine.slice", "" },
		{ "no file", "web", NULL, "<domain >\n<uuid>" UUID "</uuid>\n", "", "/machine.slice", "" },
		{ "no domain", "", "4711\n", "<domain >\n<uuid>" UUID "</uuid>\n", "", "/machine.slice", "" },
		{ "no domain, and files without a name", "", "4711\n", NULL, "", "/machine.slice", "" },
		{ "a cgroup that looks like a vCPU's", "web", "4711\n", "<domain >\n<uuid>" UUID "</uuid>\n", UUID,
		  "/machine.slice/a.scope/libvirt/vcpx0", "" },
		{ "no description", "web", "4711\n", NULL, "", "/machine.slice", "" },
		{ "an empty line", "web", "4711\n", "<domain >\n\n<uuid>" UUID "</uuid>\n", UUID, "/machine.slice", "" },
		{ "two UUIDs", "web", "4711\n", "<domain >\n<uuid>" UUID "</uuid>\n<uuid>0" UUID "</uuid>\n"
		  "<uuid>0000000-0000-0000-0000-0000000000000</uuid>\n", UUID, "/machine.slice", "" },
		{ "a path as a name", "../web", "4711\n", "<domain >\n<uuid>" UUID "</uuid>\n", "", "/machine.slice", "" },
		{ "a UUID before the domain", "web", "4711\n", "<uuid>" UUID "</uuid>\n", "", "/machine.slice", "" },
		{ "a UUID that is too short", "web", "4711\n", "<domain >\n<uuid>c7a5</uuid>\n", "", "/machine.slice", "" },
		{ "a UUID that is an option", "web", "4711\n", "<domain >\n<uuid>-7a5fdbd-edaf-9455-926a-d65c16db1809</uuid>\n", "",
		  "/machine.slice", "" },
	};
	unsigned int i;

	/* Of "../web" and of no name */
	put("4711\n", "/run/libvirt/web.pid");
	put("<domain >\n<uuid>" UUID "</uuid>\n", "/run/libvirt/web.xml");
	put("4711\n", "/run/libvirt/qemu/.pid");
	put("<domain >\n<uuid>" UUID "</uuid>\n", "/run/libvirt/qemu/.xml");
	put("100\n", "/tree/machine.slice/a.scope/libvirt/vcpx0/cpu.weight");
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		begin_vm();
		vm.vcpus = 1;
		strcpy(vm.identity.domain, cases[i].domain);
		file_owner = cases[i].owner;
		put(cases[i].pid, "/run/libvirt/qemu/web.pid");
		put(cases[i].xml, "/run/libvirt/qemu/web.xml");
		put("100\n", "/tree/machine.slice/a.scope/libvirt/vcpu0/cpu.weight");
		put("100\n", "/tree/machine.slice/cpu.weight");
		observe((const int[4]){ 0, 0, 0, 0 });
		examine(cases[i].cgroup);
		tap_result(!strcmp(why.facts->uuid, cases[i].uuid) &&
			   !strcmp(why.facts->domain ? strstr(why.facts->domain, "/machine") : "", cases[i].found),
			   "libvirt, %s: '%s', cgroup '%s'", cases[i].what, why.facts->uuid,
			   why.facts->domain ? why.facts->domain : "");
		end();
	}

	begin_vm();
	vm.identity.pid = 1;
	strcpy(vm.identity.domain, "web");
	put("x\n", "/run/libvirt/qemu/web.pid");
	put("<domain >\n<uuid>" UUID "</uuid>\n", "/run/libvirt/qemu/web.xml");
	observe((const int[4]){ 0, 0, 0, 0 });
	examine("/machine.slice");
	tap_result(!*why.facts->uuid, "libvirt, no PID for process 1: '%s'", why.facts->uuid);
	end();
}

/* libvirt changes the cpuset that it has for each vCPU: that above it counts. */
static void test_libvirt_cpusets(void)
{
	static const struct {
		const char *cgroup;
		bool is_domain;
		const char *could;
	} cases[] = {
		{ "/machine.slice/a.scope/libvirt/vcpu0", true, "0-1" },
		{ "/machine.slice/a.scope/libvirt/vcpu0", false, "0" },
		{ "/machine.slice/a.scope/libvirt/vcpx0", true, "0" },
	};
	unsigned int i;

	put("", "/sys/devices/system/cpu/isolated");
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		begin_vm();
		affinity[0] = affinity[1] = "0";
		if (cases[i].is_domain)
			strcpy(vm.identity.domain, "web");
		put("4711\n", "/run/libvirt/qemu/web.pid");
		put("<domain >\n<uuid>" UUID "</uuid>\n", "/run/libvirt/qemu/web.xml");
		put("", "/tree%s/cpuset.cpus", cases[i].cgroup);
		put("0\n", "/tree%s/cpuset.cpus.effective", cases[i].cgroup);
		put("", "/tree/machine.slice/a.scope/libvirt/cpuset.cpus");
		put("0-1\n", "/tree/machine.slice/a.scope/libvirt/cpuset.cpus.effective");
		observe((const int[4]){ 0, 0, 0, 0 });
		examine(cases[i].cgroup);
		tap_result(!strcmp(why.facts->vcpus[0].could, cases[i].could), "%s, %s libvirt: could run on %s", cases[i].cgroup,
			   cases[i].is_domain ? "of" : "not of", why.facts->vcpus[0].could);
		end();
	}
}

#define SECOND_NS	1000000000ULL

/* A process that started 100 s ago */
static void put_process(pid_t pid, const char *name, const char *cgroup)
{
	struct timespec now;
	char text[256];

	clock_gettime(CLOCK_BOOTTIME, &now);
	sprintf(text, "%d (%s) R 1 1 1 0 -1 4194560 1 1 1 1 7 7 7 7 20 0 3 0 %lld 1 1\n", pid, name,
		(now.tv_sec - 100LL) * sysconf(_SC_CLK_TCK));
	put(text, "/proc/%u/stat", pid);
	sprintf(text, "%s\n", name);
	put(text, "/proc/%u/comm", pid);
	sprintf(text, "0::%s\n", cgroup);
	put(text, "/proc/%u/cgroup", pid);
}

/* The owner of the waits that the contest is about, and the time of small owners that are one side of it */
static void test_owners(void)
{
	static const struct {
		const char *what;
		struct {
			const char *kind, *name;
			pid_t pid;
			unsigned int seconds;
		} shares[6];
		unsigned int vcpus;
		int owner;
		unsigned int side;
		const char *comm;	/* of the owner's process */
	} cases[] = {
		{ "no process", { { "idle", "", 0, 10 } }, 2, -1, 0, "" },
		{ "one process", { { "process", "cc", 81, 3 }, { "idle", "", 0, 9 } }, 2, 0, 0, "cc" },
		{ "one process after others", { { "idle", "", 0, 7 }, { "process", "cc", 81, 3 } }, 2, 1, 0, "cc" },
		{ "another name", { { "process", "ld", 81, 3 } }, 2, 0, 0, "" },
		{ "a process that ran since its start", { { "process", "cc", 81, 180 } }, 2, 0, 0, "cc" },
		{ "a process that is younger", { { "process", "cc", 81, 240 } }, 2, 0, 0, "" },
		{ "another VM", { { "vm", "web", 81, 4 }, { "process", "ld", 82, 2 }, { "process", "cc", 81, 2 },
				  { "idle", "", 0, 7 } }, 2, 0, 0, "cc" },
		{ "another VM between small ones", { { "process", "tar", 83, 4 }, { "idle", "", 0, 9 }, { "vm", "web", 81, 3 },
						     { "process", "ld", 82, 3 } }, 2, 0, 0, "tar" },
		{ "small ones together", { { "process", "tar", 83, 4 }, { "idle", "", 0, 9 }, { "process", "sh", 0, 2 },
					   { "process", "cc", 81, 3 }, { "process", "ld", 82, 2 } }, 2, 3, 5, "cc" },
		{ "small ones that are too few", { { "process", "tar", 83, 4 }, { "idle", "", 0, 10 }, { "process", "sh", 0, 3 },
						   { "process", "cc", 81, 3 }, { "process", "ld", 82, 1 } }, 2, 0, 0, "tar" },
		{ "small ones without cgroups", { { "process", "sh", 84, 2 }, { "idle", "", 0, 9 }, { "process", "sh", 85, 2 } }, 2,
		  0, 0, "" },
		{ "a VM without vCPUs", { { "process", "cc", 81, 10 } }, 0, 0, 0, "" },
	};
	static struct blame_share shares[100];
	struct blame_victim waits;
	unsigned int i, n;

	put("100\n", "/tree/machine.slice/cpu.weight");
	put("100\n", "/tree/work.slice/cpu.weight");
	put("100\n", "/tree/batch.slice/cpu.weight");
	put_process(81, "cc", "/work.slice/x");
	put_process(82, "ld", "/work.slice/y");
	put_process(83, "tar", "/batch.slice");
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		begin_vm();
		memset(&waits, 0, sizeof(waits));
		memset(shares, 0, sizeof(shares));
		for (n = 0; n < 6 && cases[i].shares[n].kind; n++) {
			strcpy(shares[n].key.kind, cases[i].shares[n].kind);
			strcpy(shares[n].key.name, cases[i].shares[n].name);
			shares[n].pid = cases[i].shares[n].pid;
			shares[n].item.cost = cases[i].shares[n].seconds * SECOND_NS;
			waits.sum.cost += shares[n].item.cost;
		}
		waits.sum.items = shares;
		waits.sum.count = n;
		why.waits = &waits;
		vm.vcpus = cases[i].vcpus;
		observe((const int[4]){ 0, 0, 0, 0 });
		examine("/machine.slice");
		tap_result(why.facts->owner == (cases[i].owner < 0 ? NULL : &shares[cases[i].owner]) &&
			   why.facts->side_ns == cases[i].side * SECOND_NS && !strcmp(why.facts->contest.comm, cases[i].comm),
			   "owners, %s: %d, side of %u s, process '%s'", cases[i].what,
			   why.facts->owner ? (int)(why.facts->owner - shares) : -1,
			   (unsigned int)(why.facts->side_ns / SECOND_NS), why.facts->contest.comm);
		end();
	}

	/* Of many small owners, the first 64 are taken. */
	begin_vm();
	memset(&waits, 0, sizeof(waits));
	for (n = 0; n < 100; n++) {
		strcpy(shares[n].key.kind, "process");
		shares[n].pid = n ? 81 : 83;
		shares[n].item.cost = SECOND_NS;
	}
	waits.sum.items = shares;
	waits.sum.count = 100;
	waits.sum.cost = 100 * SECOND_NS;
	why.waits = &waits;
	observe((const int[4]){ 0, 0, 0, 0 });
	examine("/machine.slice");
	tap_result(why.facts->owner == &shares[1] && why.facts->side_ns == 63 * SECOND_NS,
		   "of many small owners, the first ones count: side of %u s", (unsigned int)(why.facts->side_ns / SECOND_NS));
	end();
}

/* Facts that are read only if a cause needs them */
static void test_conditions(void)
{
	static const struct {
		const char *what;
		unsigned int ready, throttled, other;
		pid_t tid;
		unsigned int quotas, frozen;
		bool other_quota;
	} cases[] = {
		{ "nothing was lost", 0, 0, 0, 0, 0, 0, false },
		{ "READY", 1, 0, 0, 0, 1, 0, false },
		{ "THROT", 0, 1, 0, 0, 1, 0, false },
		{ "OTHER", 0, 0, 1, 0, 0, 1, false },
		{ "another thread waited", 0, 0, 0, 4799, 0, 0, true },
	};
	static const struct {
		unsigned int ready, elapsed, gain;
	} waits[] = { { 1000, 1000, 1000 }, { 1000, 0, 0 }, { 5000, 1000, 2500 } };
	unsigned int i;

	put("50000 100000\n", "/tree/machine.slice/cpu.max");
	put("1\n", "/tree/machine.slice/cgroup.freeze");
	put("100\n", "/tree/emulator/cpu.weight");
	put("50000 100000\n", "/tree/emulator/cpu.max");
	put("0::/emulator\n", "/proc/4799/cgroup");
	put("0::/emulator\n", "/proc/0/cgroup");
	put_last_cpu(0, 1, 'R');
	put_last_cpu(1, 1, 'R');
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		begin_vm();
		memset(window.activity.times.mode, 0, sizeof(window.activity.times.mode));
		window.activity.times.mode[KVMSTATS_READY] = cases[i].ready;
		window.activity.times.mode[KVMSTATS_THROTTLED] = cases[i].throttled;
		window.activity.times.mode[KVMSTATS_OTHER] = cases[i].other;
		why.others = (struct other_use){ .elapsed = 100, .ran = 50, .tid = cases[i].tid };
		observe((const int[4]){ 0, 0, 0, 0 });
		examine("/machine.slice");
		tap_result(why.facts->nr_quotas == cases[i].quotas && why.facts->nr_frozen == cases[i].frozen &&
			   !why.facts->other_quota == !cases[i].other_quota, "%s: %u quotas, %u frozen cgroups, %s of other threads",
			   cases[i].what, why.facts->nr_quotas, why.facts->nr_frozen, why.facts->other_quota ? "one" : "none");
		tap_result(!why.state && !why.swap, "%s: running threads have no state, nothing is in swap", cases[i].what);
		end();
	}
	put_last_cpu(0, 1, 'T');
	put_last_cpu(1, 1, 'T');
	begin_vm();
	observe((const int[4]){ 0, 0, 0, 0 });
	examine("/machine.slice");
	tap_result(why.state == 'T', "all threads are stopped: '%c'", why.state ?: '-');
	end();
	begin_vm();
	vm.vcpus = 3;
	affinity[0] = affinity[2] = "1";
	affinity[1] = "2";
	observe((const int[4]){ 0, 0, 0, 0 });
	examine("/machine.slice");
	free_facts(why.facts);
	examine_vm(cpus, &vm, &vm, &why);
	tap_result(why.facts->cgroups, "facts of a second VM have the cgroups of the host");
	tap_result(why.cpus_differ, "one vCPU has other CPUs than the first and the last");
	end();
	for (i = 0; i < 3; i++) {
		begin_vm();
		affinity[0] = affinity[1] = "1";
		window.activity.times.mode[KVMSTATS_READY] = waits[i].ready;
		window.elapsed = waits[i].elapsed;
		observe((const int[4]){ 100, 0, 50, 100 });
		examine("/machine.slice");
		tap_result(why.unpin_gain == waits[i].gain, "a gain of %u, at most what was waited", why.unpin_gain);
		end();
	}
}

static void test_policies(void)
{
	static const struct {
		const char *what;
		struct thread_policy of[2];
		unsigned int threads;
		pid_t slowest;
	} cases[] = {
		{ "the same", { { TID, .nice = 0 }, { TID + 1, .nice = 0 } }, 2, TID },
		{ "nicer first", { { TID, .nice = 5 }, { TID + 1, .nice = 0 } }, 2, TID },
		{ "nicer second", { { TID, .nice = 0 }, { TID + 1, .nice = 1 } }, 2, TID + 1 },
		{ "idle second", { { TID, .nice = 19 }, { TID + 1, .policy = SCHED_IDLE } }, 2, TID + 1 },
		{ "idle first", { { TID, .policy = SCHED_IDLE }, { TID + 1, .nice = 19 } }, 2, TID },
		{ "one has exited", { { 0 }, { TID + 1, .nice = -5 } }, 1, TID + 1 },
	};
	unsigned int i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		begin_vm();
		memcpy(policy, cases[i].of, sizeof(cases[i].of));
		observe((const int[4]){ 0, 0, 0, 0 });
		examine(V2);
		tap_result(why.facts->nr_threads == cases[i].threads && why.facts->slowest.tid == cases[i].slowest,
			   "policies, %s: thread %d has the lowest weight", cases[i].what, why.facts->slowest.tid);
		end();
	}
	begin_vm();
	vcpu[0].tid = 0;
	observe((const int[4]){ 0, 0, 0, 0 });
	examine(V2);
	tap_result(why.facts->nr_threads == 1 && why.facts->nr_vcpus == 1 && why.facts->vcpus[0].id == 1,
		   "a vCPU that no thread has run is left out");
	end();
	begin_vm();
	vm.ended = true;
	observe((const int[4]){ 0, 0, 0, 0 });
	examine_vm(cpus, &vm, &vm, &why);
	tap_result(!why.facts, "a VM that has ended is not examined");
	end();
}

static void test_memory(void)
{
	struct stall_share share = { .item.cost = 5, .reason = STALL_MEMORY };
	struct stalls_vm stalls = { .sum = { .items = &share, .count = 1 } };
	char path[128], other[128];

	begin_vm();
	why.stalls = &stalls;
	put("Name:\tqemu\nVmRSS:\t 9 kB\nVmSwap:\t    5 kB\n", "/proc/%d/status", PID);
	put("", "/proc/%d/fd/0", PID);
	sprintf(path, "%s/proc/%d/fd/7", top, PID);
	if (symlink("anon_inode:[userfaultfd]", path))
		err(1, "%s", path);
	sprintf(other, "%s/proc/%d/fd/5", top, PID);
	if (symlink("/a/path/with/more/characters/than/a/link/of/an/anonymous/file/has", other))
		err(1, "%s", other);
	put("100\n", "/tree/machine.slice/memory.high");
	put("100\n", "/tree/machine.slice/memory.current");
	put("max\n", "/tree" V2 "/memory.high");
	put("100\n", "/tree" V2 "/memory.current");
	observe((const int[4]){ 0, 0, 0, 0 });
	examine(V2);
	tap_result(why.swap == 5 << 10, "%llu bytes are swapped out", (unsigned long long)why.swap);
	tap_result(why.facts->userfaultfd, "the VMM has a userfaultfd");
	tap_result(why.facts->memory_limit && !strcmp(why.facts->memory_limit, "machine.slice"),
		   "a cgroup above is at memory.high: %s", why.facts->memory_limit ? why.facts->memory_limit : "none");
	tap_result(!why.facts->memory_file, "no file has its memory");
	end();

	begin_vm();
	why.stalls = &stalls;
	unlink(path);
	put("Name:\tqemu\nVmRSS:\t 9 kB\n", "/proc/%d/status", PID);
	put("100\n", "/tree" V2 "/memory.high");
	put("7f0000000000-7f0001000000 rw-p 00000000 08:01 99 /srv/memory\n", "/proc/%d/maps", PID);
	put("1 1 8:1 / /srv rw - ext4 /dev/sdb1 rw\n", "/proc/%d/mountinfo", PID);
	observe((const int[4]){ 0, 0, 0, 0 });
	examine(V2);
	tap_result(!why.swap && !why.facts->userfaultfd, "nothing is swapped out, and there is no userfaultfd");
	tap_result(why.facts->memory_file && !strcmp(why.facts->memory_file->path, "/srv/memory"), "a file has its memory");
	tap_result(why.facts->memory_limit && !strcmp(why.facts->memory_limit, "a.scope"),
		   "of two cgroups at memory.high, the nearest: %s", why.facts->memory_limit ? why.facts->memory_limit : "none");
	end();

	begin_vm();
	vm.identity.pid = PID + 1;
	why.stalls = &stalls;
	observe((const int[4]){ 0, 0, 0, 0 });
	examine(V2);
	tap_result(!why.swap && !why.facts->userfaultfd && !why.facts->memory_file, "a process whose files cannot be read");
	end();

	begin_vm();
	share.reason = STALL_LOCK;
	why.stalls = &stalls;
	observe((const int[4]){ 0, 0, 0, 0 });
	examine(V2);
	tap_result(!why.facts->memory_limit, "memory is not examined if it cost no time");
	end();
}

/* Return the lowest number of a file that is not open. */
static int free_file(void)
{
	const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

int main(void)
{
	unsigned int i;
	int file;

	make_top();
	open_proc();
	file = free_file();
	test_host();
	for (i = 0; i < sizeof(affinities) / sizeof(*affinities); i++)
		test_affinity(&affinities[i]);
	test_spread();
	test_long_list();
	test_other_threads();
	test_libvirt();
	test_libvirt_cpusets();
	test_owners();
	test_policies();
	test_conditions();
	test_memory();
	tap_result(free_file() == file, "all files are closed");
	remove_top();
	return tap_end();
}
