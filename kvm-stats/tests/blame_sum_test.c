// SPDX-License-Identifier: GPL-2.0-only
/*
 * How "blame" names those who ran while a VM waited, adds up waits, and keeps both in recordings, with a
 * BPF program and files of /proc that the test makes up. Prints TAP.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "blame_sum.h"
#include "rec_encode.h"
#include "tap.h"

#define WEB	100		/* process with two VMs, web and web#2 */
#define DB	200
#define LONG	"0123456789012345678901234567890123456789012345678901234567890123456789"

/* The BPF program */
static struct blame_row rows[2];
static size_t nr_rows;
static struct blame_thread threads[3];
static struct blame_vm ended_vms[2];
static struct blame_waits ended_waits[2];
static size_t nr_ended;
static struct blame_cgroup cgroup;
static uint64_t exited;
static int open_error, read_error;

/* /proc/PID/cgroup of the process that ran, NULL if there is none */
static const char *cgroup_file;

int blame_open(struct blame **blame, struct threads *shared, const struct kvmstats_vm *first,
	       struct kvmstats_probe *p)
{
	*blame = NULL;
	return open_error;
}

void blame_close(struct blame *blame)
{
}

void blame_enter(struct blame *blame, const struct kvmstats_vm *first)
{
}

int blame_sample(struct blame *blame)
{
	return read_error;
}

const struct blame_row *blame_rows(const struct blame *blame, size_t *n)
{
	*n = nr_rows;
	return rows;
}

const struct blame_thread *blame_threads(const struct blame *blame, size_t *n)
{
	*n = sizeof(threads) / sizeof(*threads);
	return threads;
}

struct blame_counts blame_counts(const struct blame *blame)
{
	return (struct blame_counts){ 0 };
}

/* vCPUs with an even TID have no entry. */
bool blame_lists(const struct blame *blame, uint32_t tid)
{
	return tid % 2;
}

uint64_t blame_take_exited(struct blame *blame, uint32_t tgid, uint64_t most)
{
	const uint64_t taken = exited < most ? exited : most;

	exited -= taken;
	return taken;
}

size_t blame_ended_waits(const struct blame *blame, const struct blame_vm **vms, const struct blame_waits **waits)
{
	*vms = ended_vms;
	*waits = ended_waits;
	return nr_ended;
}

#define UNKNOWN_CGROUP	99

bool blame_cgroup(const struct blame *blame, uint64_t id, struct blame_cgroup *found)
{
	if (!id || id == UNKNOWN_CGROUP)
		return false;
	*found = cgroup;
	return true;
}

FILE *__wrap_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode)
{
	FILE *f;
	int fd;

	if (!cgroup_file || !*cgroup_file || (strcmp(path, "/proc/77/cgroup") && strcmp(path, "/proc/0/cgroup")))
		return NULL;
	fd = memfd_create("cgroup", MFD_CLOEXEC);
	f = fd < 0 ? NULL : fdopen(fd, "w+");
	if (!f || fputs(cgroup_file, f) < 0)
		err(1, "%s", path);
	rewind(f);
	return f;
}

/* The VMs of the host */
static struct kvmstats_vcpu vcpu[3];
static struct kvmstats_vcpu *vcpus[3] = { &vcpu[0], &vcpu[1], &vcpu[2] };
static struct kvmstats_vm vm[3];

static void begin_host(void)
{
	static const char *const labels[] = { "web", "web#2", "db" };
	unsigned int i;

	memset(vm, 0, sizeof(vm));
	memset(vcpu, 0, sizeof(vcpu));
	for (i = 0; i < 3; i++) {
		vm[i].next = i < 2 ? &vm[i + 1] : NULL;
		vm[i].identity.pid = i < 2 ? WEB : DB;
		vm[i].nth = i == 1 ? 2 : 1;
		vm[i].vcpus = 1;
		vm[i].vcpu = &vcpus[i];
		strcpy(vm[i].identity.label, labels[i]);
		strcpy(vm[i].identity.name, labels[i]);
		vcpu[i].tid = 11 + 2 * i;
		threads[i] = (struct blame_thread){ .vm = { i + 1, vm[i].identity.pid, 0 }, .tid = vcpu[i].tid };
	}
	memset(rows, 0, sizeof(rows));
	nr_rows = nr_ended = 0;
	memset(&cgroup, 0, sizeof(cgroup));
	cgroup_file = NULL;
}

static void open_sum(struct blame_sum *sum, enum blame_by by)
{
	struct kvmstats_probe probe;

	memset(sum, 0, sizeof(*sum));
	sum->by = by;
	open_sums(&sum->sums, &blame_sums, NULL, vm, &probe);
}

static struct blame_victim *victim_of(const struct blame_sum *sum, const char *label)
{
	return container_of((struct sum *)find_labelled_sum(&sum->sums, label), struct blame_victim, sum);
}

/* Who ran while "web" waited, and how it is named */
#define UNIT	"backup.service"
static const struct naming {
	enum blame_by by;
	struct blame_owner owner;
	const char *cgroup, *parent, *file;
	const char *kind, *name;
	bool clean;
} namings[] = {
	{ BLAME_BY_UNIT, { 1, "", WEB, BLAME_VCPU }, "", "", NULL, "self", "vCPUs" },
	{ BLAME_BY_VM, { 1, "", WEB, BLAME_VCPU }, "", "", NULL, "self", "all threads" },
	{ BLAME_BY_UNIT, { 2, "", WEB, BLAME_VCPU }, "", "", NULL, "vm", "web#2" },
	{ BLAME_BY_UNIT, { 3, "", DB, BLAME_VCPU }, "", "", NULL, "vm", "db" },
	{ BLAME_BY_UNIT, { 9, "", 300, BLAME_VCPU }, "", "", NULL, "vm", "process 300" },
	{ BLAME_BY_UNIT, { 0, "worker", WEB, BLAME_VMM }, "", "", NULL, "self", "worker" },
	{ BLAME_BY_VM, { 0, "worker", WEB, BLAME_VMM }, "", "", NULL, "self", "all threads" },
	{ BLAME_BY_UNIT, { 0, "worker", DB, BLAME_VMM }, "", "", NULL, "vm", "db" },
	{ BLAME_BY_UNIT, { 5, "worker", 300, BLAME_VMM }, UNIT, "system.slice", NULL, "process", UNIT },
	{ BLAME_BY_UNIT, { 5, "tar", 0, BLAME_PROCESS }, UNIT, "system.slice", NULL, "process", UNIT },
	{ BLAME_BY_VM, { 5, "tar", 0, BLAME_PROCESS }, UNIT, "system.slice", NULL, "process", "all processes" },
	{ BLAME_BY_THREAD, { 5, "tar", 0, BLAME_PROCESS }, UNIT, "system.slice", NULL, "process", "tar (" UNIT ")" },
	{ BLAME_BY_UNIT, { 5, "tar", 0, BLAME_PROCESS }, "payload", UNIT, NULL, "process", UNIT },
	{ BLAME_BY_UNIT, { 5, "tar", 0, BLAME_PROCESS }, "a.scope", UNIT, NULL, "process", "a.scope" },
	{ BLAME_BY_UNIT, { 5, "tar", 0, BLAME_PROCESS }, "a.slice", "b.slice", NULL, "process", "tar (a.slice)" },
	{ BLAME_BY_UNIT, { 5, "tar", 0, BLAME_PROCESS }, ".service", "", NULL, "process", "tar (.service)" },
	{ BLAME_BY_UNIT, { 5, "tar", 0, BLAME_PROCESS }, "", "", NULL, "process", "tar" },
	{ BLAME_BY_UNIT, { 5, "fifteen letters", 0, BLAME_PROCESS }, "x", "", NULL, "process", "fifteen letters (x)" },
	{ BLAME_BY_UNIT, { 5, "", 0, BLAME_PROCESS }, "x", "", NULL, "process", "other commands (x)" },
	/* The path of the process can be read. */
	{ BLAME_BY_UNIT, { 5, "tar", 0, BLAME_PROCESS }, UNIT, "system.slice", "0::/system.slice/" UNIT "\n", "process", UNIT },
	{ BLAME_BY_UNIT, { 5, "tar", 0, BLAME_PROCESS }, UNIT, "app.slice",
	  "0::/user.slice/user-1.slice/user@1.service/app.slice/" UNIT "\n", "process", "user@1.service" },
	{ BLAME_BY_UNIT, { 5, "tar", 0, BLAME_PROCESS }, UNIT, "system.slice",
	  "0::/docker/ab/system.slice/" UNIT "\n", "process", "tar (docker/ab/system.slice/" UNIT ")" },
	{ BLAME_BY_THREAD, { 5, "tar", 0, BLAME_PROCESS }, UNIT, "system.slice",
	  "0::/docker/ab/system.slice/" UNIT "\n", "process", "tar (docker/ab/system.slice/" UNIT ")" },
	{ BLAME_BY_UNIT, { 5, "tar", 0, BLAME_PROCESS }, UNIT, "system.slice",
	  "1:cpu:/else\n0::/a.slice/" UNIT "\n2:x:/b.service/" UNIT, "process", UNIT },
	{ BLAME_BY_UNIT, { 5, "tar", 0, BLAME_PROCESS }, UNIT, "system.slice", "0::/a/other\nno path\n", "process", UNIT },
	{ BLAME_BY_UNIT, { 5, "tar", 0, BLAME_PROCESS }, UNIT, LONG, "0::/" LONG LONG "/" LONG "/" UNIT "\n", "process", NULL },
	{ BLAME_BY_UNIT, { 5, "tar", 0, BLAME_PROCESS }, UNIT, "", "\n0::/a.service/" UNIT "\n", "process", "a.service" },
	{ BLAME_BY_UNIT, { 5, "tar", 0, BLAME_PROCESS }, UNIT, "", "", "process", UNIT },
	{ BLAME_BY_UNIT, { 5, "tar", 0, BLAME_PROCESS }, "", UNIT, "0::/a.scope/\n", "process", UNIT },
	{ BLAME_BY_UNIT, { 0, "tar", 0, BLAME_PROCESS }, UNIT, "", NULL, "process", "tar" },
	{ BLAME_BY_UNIT, { 0, "kworker", 0, BLAME_KERNEL }, "", "", NULL, "kernel", "kworker" },
	{ BLAME_BY_VM, { 0, "kworker", 0, BLAME_KERNEL }, "", "", NULL, "kernel", "all threads" },
	{ BLAME_BY_UNIT, { 0, "vhost-100", 0, BLAME_KERNEL }, "", "", NULL, "self", "vhost-100" },
	{ BLAME_BY_UNIT, { 0, "vhost-200", 0, BLAME_KERNEL }, "", "", NULL, "vm", "db" },
	{ BLAME_BY_UNIT, { 0, "kvm-pit/200", 0, BLAME_KERNEL }, "", "", NULL, "vm", "db" },
	{ BLAME_BY_UNIT, { 0, "vhost-300", 0, BLAME_KERNEL }, "", "", NULL, "kernel", "vhost-300" },
	{ BLAME_BY_UNIT, { 5, "", 0, BLAME_QUOTA }, "emulator", "vm.scope", NULL, "quota", "vm.scope" },
	{ BLAME_BY_UNIT, { 5, "", 0, BLAME_QUOTA }, "machine.slice", "x", NULL, "quota", "machine.slice" },
	{ BLAME_BY_UNIT, { UNKNOWN_CGROUP, "", 0, BLAME_QUOTA }, UNIT, "", NULL, "quota", "" },
	{ BLAME_BY_UNIT, { 0, "", 0, BLAME_QUOTA }, "", "", NULL, "quota", "a cgroup further above" },
	{ BLAME_BY_UNIT, { 0, "", 0, BLAME_STEAL }, "", "", NULL, "steal", "hypervisor of this host" },
	{ BLAME_BY_UNIT, { 0, "", 0, BLAME_IDLE }, "", "", NULL, "idle", "CPU wakeup latency" },
	{ BLAME_BY_UNIT, { 0, "", 0, BLAME_OVERFLOW }, "", "", NULL, "unknown", "more owners than counted" },
	{ BLAME_BY_UNIT, { 0, "", 0, BLAME_UNSEEN }, "", "", NULL, "unknown", "not seen yet" },
	{ BLAME_BY_UNIT, { 0, "", 0, BLAME_UNKNOWN }, "", "", NULL, "unknown", "lost events" },
	{ BLAME_BY_UNIT, { 0, "", 0, 0 }, "", "", NULL, "unknown", "lost events" },
	{ BLAME_BY_UNIT, { 0, "", 0, 99 }, "", "", NULL, "unknown", "lost events" },
	{ BLAME_BY_UNIT, { 5, "a\n\x7f\xff\u00e4", 0, BLAME_PROCESS }, "", "", NULL, "process", "a\n\x7f\xff\u00e4" },
	{ BLAME_BY_UNIT, { 5, "a\n\x7f\xff\u00e4", 0, BLAME_PROCESS }, "", "", NULL, "process", "a???\u00e4", true },
	{ BLAME_BY_UNIT, { 5, "a b", 0, BLAME_PROCESS }, "", "", NULL, "process", "a b", true },
};

static void test_naming(const struct naming *n)
{
	const struct blame_share *share;
	struct blame_victim *victim;
	struct blame_sum sum;
	const char *cut;

	begin_host();
	open_sum(&sum, n->by);
	sum.clean = n->clean;
	snprintf(cgroup.name, sizeof(cgroup.name), "%s", n->cgroup);
	snprintf(cgroup.parent, sizeof(cgroup.parent), "%s", n->parent);
	cgroup_file = n->file;
	rows[0] = (struct blame_row){
		.pair = { { 1, WEB, 0 }, n->owner }, .growth = 7, .pid = n->file ? 77 : 0, .starter = 5,
	};
	nr_rows = 1;
	add_sums(&sum.sums, vm, NULL, 0);
	victim = victim_of(&sum, "web");
	share = blame_share_at(victim, 0);
	/* The end of a path is shown if all of it has no space. */
	cut = LONG "/" UNIT ")";
	tap_result(victim->sum.count == 1 && victim->sum.cost == 7 && share->item.cost == 7 &&
		   !strcmp(share->key.kind, n->kind) &&
		   (n->name ? !strcmp(share->key.name, n->name) :
		    strlen(share->key.name) > strlen(cut) &&
		    !strcmp(share->key.name + strlen(share->key.name) - strlen(cut), cut)) &&
		   share->pid == rows[0].pid && share->starter == (n->file ? 5U : 0) &&
		   share->cgroup == (n->file ? n->owner.id : 0),
		   "kind %u, '%s' in %s/%s: %s %s", n->owner.kind, n->owner.comm, n->parent, n->cgroup,
		   share->key.kind, n->clean || n->owner.comm[1] != '\n' ? share->key.name : "as it is");
	close_sums(&sum.sums);
}

/* Threads of a process with two VMs: those of no VM belong to the one that waits. */
static void test_second_vm(void)
{
	static const struct {
		struct blame_owner owner;
		const char *kind, *name;
	} cases[] = {
		{ { 0, "worker", WEB, BLAME_VMM }, "self", "worker" },
		{ { 0, "vhost-100", 0, BLAME_KERNEL }, "self", "vhost-100" },
		{ { 2, "", WEB, BLAME_VCPU }, "self", "vCPUs" },
		{ { 1, "", WEB, BLAME_VCPU }, "vm", "web" },
	};
	const struct blame_share *share;
	struct blame_sum sum;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		begin_host();
		open_sum(&sum, BLAME_BY_UNIT);
		rows[0] = (struct blame_row){ .pair = { { 2, WEB, 0 }, cases[i].owner }, .growth = 7 };
		nr_rows = 1;
		add_sums(&sum.sums, vm, NULL, 0);
		share = blame_share_at(victim_of(&sum, "web#2"), 0);
		tap_result(!strcmp(share->key.kind, cases[i].kind) && !strcmp(share->key.name, cases[i].name),
			   "the second VM of a process waits: %s %s", share->key.kind, share->key.name);
		close_sums(&sum.sums);
	}
}

/* A row of a process in a cgroup; return the name of the owner. */
static const char *name_of(struct blame_sum *sum, uint64_t id, const char *name, const char *file)
{
	static struct blame_key key;
	struct blame_victim *victim;

	strcpy(cgroup.name, name);
	cgroup_file = file;
	rows[0] = (struct blame_row){ .pair = { { 1, WEB, 0 }, { id, "tar", 0, BLAME_PROCESS } }, .growth = 7, .pid = file ? 77 : 0 };
	nr_rows = 1;
	clear_sums(&sum->sums);
	add_sums(&sum->sums, vm, NULL, 0);
	victim = victim_of(sum, "web");
	key = blame_share_at(victim, 0)->key;
	return key.name;
}

#define PATH_SPACE	(OWNER_NAME_SIZE - 18)	/* the longest path that is shown, with the '\0' */

#define KEPT		20

/* Paths and names that have just enough space */
static void test_long_paths(void)
{
	char file[2 * PATH_SPACE + 64], path[PATH_SPACE + 64], name[sizeof(cgroup.name)];
	struct blame_sum sum;
	const char *found;
	unsigned int i, right = 0;

	begin_host();
	open_sum(&sum, BLAME_BY_UNIT);
	/* A unit of the longest name, and a longer name that is none */
	memset(path, 'a', sizeof(path));
	strcpy(path + PATH_SPACE - sizeof(".service"), ".service");
	for (i = 0; i < 2; i++) {
		sprintf(file, "0::/%s%s/" UNIT "\n", path, i ? "x" : "");
		found = name_of(&sum, 10 + i, UNIT, file);
		tap_result(i ? !strncmp(found, "tar (a", 6) : !strcmp(found, path), "directory of %zu characters: %s",
			   strlen(path) + i, found);
	}
	/* The path without the first "/" */
	for (i = 0; i < 2; i++) {
		memset(path, 'b', sizeof(path));
		strcpy(path + PATH_SPACE - 1 + i - strlen("/" UNIT), "/" UNIT);
		sprintf(file, "0::/%s\n", path);
		found = name_of(&sum, 20 + i, UNIT, file);
		tap_result(!strncmp(found, "tar (", 5) && !strncmp(found + 5, path + i, PATH_SPACE - 1) &&
			   !strcmp(found + 5 + PATH_SPACE - 1, ")"), "path of %zu characters: %s", strlen(path), found);
	}
	/* The BPF program has the beginning of a name that is too long. */
	memset(name, 'c', sizeof(name));
	strcpy(name + sizeof(name) - sizeof(UNIT), UNIT);
	sprintf(file, "0::/a.service/%sx\n", name);
	found = name_of(&sum, 30, name, file);
	tap_result(!strcmp(found, "a.service"), "a name that is cut off: %s", found);
	sprintf(file, "0::/a.service/%s\n", name);
	file[strlen(file) - 2] = 'f';
	found = name_of(&sum, 31, name, file);
	tap_result(!strcmp(found, name), "another name: %s", found);
	/* Paths are kept by the number of the cgroup. */
	for (i = 0; i < 2 * KEPT; i++) {
		sprintf(file, "0::/%u.service/" UNIT "\n", i % KEPT);
		found = name_of(&sum, 100 + i % KEPT * 7 % KEPT, UNIT, i < KEPT ? file : NULL);
		right += found == strstr(found, strtok(file + 4, "/")) && i >= KEPT;
	}
	tap_result(right == KEPT, "paths of %u cgroups are kept", right);
	close_sums(&sum.sums);
}

/* A cgroup's path is read once, of another cgroup again. */
static void test_paths(void)
{
	const struct blame_share *share;
	struct blame_sum sum;

	begin_host();
	open_sum(&sum, BLAME_BY_UNIT);
	strcpy(cgroup.name, UNIT);
	cgroup_file = "0::/a.service/" UNIT "\n";
	rows[0] = (struct blame_row){
		.pair = { { 1, WEB, 0 }, { 5, "tar", 0, BLAME_PROCESS } }, .growth = 7, .pid = 77,
	};
	nr_rows = 1;
	add_sums(&sum.sums, vm, NULL, 0);
	cgroup_file = NULL;
	rows[0].pid = 0;
	add_sums(&sum.sums, vm, NULL, 0);
	share = blame_share_at(victim_of(&sum, "web"), 0);
	tap_result(!strcmp(share->key.name, "a.service") && share->item.cost == 14 && share->pid == 77,
		   "the path of a cgroup is kept: %s, PID %u", share->key.name, share->pid);
	rows[0].pair.owner.id = 6;
	cgroup_file = "0::/b.service/" UNIT "\n";
	rows[0].growth = 20;
	add_sums(&sum.sums, vm, NULL, 0);
	share = blame_share_at(victim_of(&sum, "web"), 0);
	tap_result(!strcmp(share->key.name, UNIT) && share->item.cost == 20, "another cgroup has its own: %s",
		   share->key.name);
	rows[0].growth = 0;
	add_sums(&sum.sums, vm, NULL, 0);
	tap_result(victim_of(&sum, "web")->sum.cost == 34, "an owner that did not run again costs nothing");
	close_sums(&sum.sums);
}

static void test_waits(void)
{
	struct blame_waits all, none = { 0 };
	struct blame_victim *victim;
	struct blame_sum sum;

	begin_host();
	open_sum(&sum, BLAME_BY_UNIT);
	ended_vms[0] = threads[0].vm;
	ended_waits[0] = (struct blame_waits){ .ns = 3000, .longest = 2000, .bucket = { [0] = 1, [1] = 1 } };
	nr_ended = 1;
	threads[0].open = 5000;
	threads[2].open = 600;
	add_sums(&sum.sums, vm, NULL, 0);
	nr_ended = 0;
	ended_waits[0].longest = 1;
	threads[0].open = 9000;
	add_sums(&sum.sums, vm, NULL, 0);
	victim = victim_of(&sum, "web");
	all = all_waits(victim);
	tap_result(victim->ended.ns == 3000 && victim->ended.longest == 2000 && count_waits(&victim->ended) == 2,
		   "waits that ended are added once");
	tap_result(victim->open.ns == 9000 && victim->open.bucket[4] == 1 && count_waits(&victim->open) == 1,
		   "an open wait has its length so far, and its bucket");
	tap_result(all.ns == 12000 && all.longest == 9000 && count_waits(&all) == 3 && mean_wait(&all) == 4000,
		   "all waits: the longest is the open one, the mean of three is 4 us");
	victim = victim_of(&sum, "db");
	tap_result(victim->open.ns == 600 && victim->open.bucket[0] == 1 && !victim->ended.ns,
		   "another VM has its own");
	tap_result(!count_waits(&victim_of(&sum, "web#2")->open), "a vCPU that does not wait has none");
	tap_result(!mean_wait(&none), "no wait has the mean 0");
	clear_sums(&sum.sums);
	tap_result(!count_waits(&victim_of(&sum, "web")->ended), "sums that are cleared have no waits");
	nr_ended = 1;
	ended_vms[0] = (struct blame_vm){ 99, 300, 0 };
	add_sums(&sum.sums, vm, NULL, 0);
	tap_result(!count_waits(&victim_of(&sum, "web")->ended) && !count_waits(&victim_of(&sum, "db")->ended),
		   "waits of an unknown process are not counted");
	ended_vms[0] = (struct blame_vm){ 99, DB, 0 };
	add_sums(&sum.sums, vm, NULL, 0);
	tap_result(count_waits(&victim_of(&sum, "db")->ended) == 2,
		   "those of a VM that was never listed belong to one of its process");
	ended_vms[0] = ended_vms[1] = threads[0].vm;
	ended_waits[0].longest = 9;
	ended_waits[1] = (struct blame_waits){ .longest = 5, .bucket[2] = 1 };
	nr_ended = 2;
	add_sums(&sum.sums, vm, NULL, 0);
	tap_result(victim_of(&sum, "web")->ended.longest == 9 && count_waits(&victim_of(&sum, "web")->ended) == 3,
		   "the longest of several waits is kept");
	close_sums(&sum.sums);
}

/* Return what "web" has waited without an entry. */
static uint64_t unseen(const struct blame_sum *sum)
{
	const struct blame_victim *victim = victim_of(sum, "web");
	const struct blame_share *share = find_owner(victim, "unknown");

	return share ? share->item.cost : 0;
}

static void wait_more(unsigned int i, uint64_t ready, uint64_t throttled)
{
	vcpu[i].last.times.mode[KVMSTATS_READY] = ready;
	vcpu[i].last.times.mode[KVMSTATS_THROTTLED] = throttled;
	vm[i].times.mode[KVMSTATS_READY] += ready;
	vm[i].times.mode[KVMSTATS_THROTTLED] += throttled;
}

/* Return the PID of a process that has exited. */
static pid_t end_process(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	return pid;
}

static void test_unseen(void)
{
	struct blame_sum sum;
	pid_t gone = end_process(), successor = end_process();

	begin_host();
	open_sum(&sum, BLAME_BY_UNIT);
	vm[0].identity.pid = gone;
	threads[0].vm.tgid = gone;
	wait_more(0, 50, 0);
	add_sums(&sum.sums, vm, NULL, 0);
	tap_result(!unseen(&sum), "waits before the first sample are not counted");
	wait_more(0, 30, 10);
	add_sums(&sum.sums, vm, NULL, 0);
	tap_result(!unseen(&sum), "a vCPU with an entry is not unseen");
	vcpu[0].tid = 12;
	wait_more(0, 30, 10);
	add_sums(&sum.sums, vm, NULL, 0);
	tap_result(unseen(&sum) == 40, "a vCPU without one has waited unseen: %llu ns", (unsigned long long)unseen(&sum));
	vcpu[0].tid = 0;
	wait_more(0, 5, 0);
	add_sums(&sum.sums, vm, NULL, 0);
	tap_result(unseen(&sum) == 40, "a vCPU that no thread has run did not wait");
	/* 85 ns since the first sample, of which 40 are known, and 30 were charged to threads that exited */
	vm[0].ended = true;
	exited = 30;
	add_sums(&sum.sums, vm, NULL, 0);
	tap_result(unseen(&sum) == 55, "a VM that has ended has the waits that were not charged: %llu ns",
		   (unsigned long long)unseen(&sum));
	add_sums(&sum.sums, vm, NULL, 0);
	tap_result(unseen(&sum) == 55, "and only once: %llu ns", (unsigned long long)unseen(&sum));
	vm[0].times.mode[KVMSTATS_READY] -= 10;
	add_sums(&sum.sums, vm, NULL, 0);
	tap_result(unseen(&sum) == 55, "and no more if its time decreases: %llu ns", (unsigned long long)unseen(&sum));

	/* A successor that no sample has seen before its end */
	sum.sums.continues = true;
	vm[0].identity.pid = successor;
	vm[0].ended = false;
	vm[0].times = (struct kvmstats_times){ 0 };
	vcpu[0] = (struct kvmstats_vcpu){ .tid = 11 };
	add_sums(&sum.sums, vm, NULL, 0);
	wait_more(0, 70, 0);
	vm[0].ended = true;
	exited = 60;
	add_sums(&sum.sums, vm, NULL, 0);
	tap_result(unseen(&sum) == 65, "a successor has its own waits: %llu ns", (unsigned long long)unseen(&sum));
	vm[0].times.mode[KVMSTATS_READY] -= 5;
	add_sums(&sum.sums, vm, NULL, 0);
	tap_result(unseen(&sum) == 65, "more was charged than it waited: %llu ns", (unsigned long long)unseen(&sum));
	close_sums(&sum.sums);

	begin_host();
	open_sum(&sum, BLAME_BY_UNIT);
	vm[0].vcpus = 2;
	add_sums(&sum.sums, vm, NULL, 0);
	vcpu[1].tid = 14;
	wait_more(0, 30, 10);
	wait_more(1, 7, 1);
	add_sums(&sum.sums, vm, NULL, 0);
	tap_result(unseen(&sum) == 8, "the second vCPU has no entry: %llu ns", (unsigned long long)unseen(&sum));
	tap_result(!find_owner(victim_of(&sum, "web"), "unknown")->pid, "an unknown owner has no PID");
	vm[0].identity.pid = getpid();
	vm[0].vcpus = 0;
	add_sums(&sum.sums, vm, NULL, 0);
	vm[0].ended = true;
	wait_more(0, 30, 10);
	add_sums(&sum.sums, vm, NULL, 0);
	tap_result(unseen(&sum) == 8, "the process of a VM that has ended exists: its waits may be charged later");
	close_sums(&sum.sums);

	/* The end of a VM in the sample of its successor */
	begin_host();
	open_sum(&sum, BLAME_BY_UNIT);
	sum.sums.continues = true;
	vm[0].identity.pid = gone;
	vm[1].ended = true;
	add_sums(&sum.sums, vm, NULL, 0);
	vcpu[0].tid = 12;
	wait_more(0, 40, 0);
	add_sums(&sum.sums, vm, NULL, 0);
	vm[0].ended = true;
	vm[0].times.mode[KVMSTATS_READY] += 10;
	vm[1].ended = false;
	vm[1].identity.pid = successor;
	strcpy(vm[1].identity.name, "web");
	add_sums(&sum.sums, vm, NULL, 0);
	tap_result(unseen(&sum) == 50, "a successor in the same sample: %llu ns", (unsigned long long)unseen(&sum));
	close_sums(&sum.sums);
}

/* Of too many owners, the others are one. */
static void test_others(void)
{
	struct blame_key key = { .kind = "process" };
	struct blame_victim victim = { 0 };
	const struct blame_share *other;
	struct blame_share *share;
	struct blame_sum sum;
	unsigned int i;

	begin_host();
	open_error = -5;
	open_sum(&sum, BLAME_BY_UNIT);
	tap_result(open_sums(&sum.sums, &blame_sums, NULL, vm, NULL) == -5,
		   "the error of a BPF program that cannot be loaded");
	open_error = 0;
	read_error = -7;
	tap_result(read_sums(&sum.sums) == -7, "the error of one that cannot be read");
	read_error = 0;
	for (i = 0; i < MAX_ITEMS + 2; i++) {
		snprintf(key.name, sizeof(key.name), "%u", i);
		share = add_cost(&sum.sums, &victim.sum, &key, i + 1);
		share->pid = share->starter = 77;
	}
	other = find_owner(&victim, "other");
	tap_result(other && other->item.cost == 3 && !other->pid && !other->starter && !*other->key.name,
		   "others have no PID, and the costs of all");
	free(victim.sum.items);
	close_sums(&sum.sums);
}

/* A recording keeps owners and waits. */
static void test_recording(void)
{
	struct blame_share share = { .item.cost = 5000000, .key = { "process", UNIT }, .pid = 77 };
	struct blame_victim from = { .ended = { .ns = 7000, .longest = 4000, .bucket = { 1, [3] = 2, [23] = 3 } } };
	const struct blame_share *taken;
	struct bytes bytes = { .unit = 1000 };
	struct blame_victim *victim;
	struct blame_sum sum;
	struct rec_bytes t;

	begin_host();
	open_sum(&sum, BLAME_BY_UNIT);
	add_sums(&sum.sums, vm, NULL, 0);
	victim = victim_of(&sum, "web");
	blame_sums.put(&share, &bytes);
	blame_sums.put_sum(&from.sum, &bytes);
	t = (struct rec_bytes){ .unit = 1000, .at = bytes.data, .end = bytes.data + bytes.size };
	blame_sums.take(&sum.sums, &victim->sum, &t);
	taken = blame_share_at(victim, 0);
	tap_result(!strcmp(taken->key.kind, "process") && !strcmp(taken->key.name, UNIT) && taken->pid == 77 &&
		   taken->item.cost == 5000000, "a recorded owner is the same");
	blame_sums.take_sum(&victim->sum, &t);
	tap_result(!memcmp(&victim->ended, &from.ended, sizeof(from.ended)) && t.at == t.end && !t.wrong,
		   "recorded waits are the same");
	t = (struct rec_bytes){ .unit = 1000, .at = bytes.data, .end = bytes.data + bytes.size - 1 };
	blame_sums.take(&sum.sums, &victim->sum, &t);
	blame_sums.take_sum(&victim->sum, &t);
	tap_result(t.wrong && victim->ended.ns == 7000, "waits that are cut off are not added");
	free(bytes.data);
	share.pid = 0;
	bytes = (struct bytes){ .unit = 1000 };
	blame_sums.put(&share, &bytes);
	t = (struct rec_bytes){ .unit = 1000, .at = bytes.data, .end = bytes.data + bytes.size };
	blame_sums.take(&sum.sums, &victim->sum, &t);
	taken = blame_share_at(victim, 0);
	tap_result(taken->pid == 77 && taken->item.cost == 15000000, "a process stays known when none was recorded");
	free(bytes.data);
	close_sums(&sum.sums);
}

/* The owners of all VMs: those of a VM itself have its name. */
static void test_total(void)
{
	struct blame_victim total = { 0 };
	struct blame_sum sum;
	size_t i, right = 0;

	begin_host();
	open_sum(&sum, BLAME_BY_UNIT);
	rows[0] = (struct blame_row){ .pair = { { 1, WEB, 0 }, { 1, "", WEB, BLAME_VCPU } }, .growth = 7, .pid = WEB };
	rows[1] = (struct blame_row){ .pair = { { 3, DB, 0 }, { 1, "", WEB, BLAME_VCPU } }, .growth = 20 };
	nr_rows = 2;
	ended_vms[0] = threads[2].vm;
	ended_waits[0] = (struct blame_waits){ .ns = 3000, .longest = 2000, .bucket = { [0] = 2 } };
	nr_ended = 1;
	threads[0].open = 5000;
	add_sums(&sum.sums, vm, NULL, 0);
	blame_sum_total(&sum.sums, &total.sum);
	for (i = 0; i < total.sum.count; i++)
		right += !strcmp(blame_share_at(&total, i)->key.kind, "vm") &&
			 !strcmp(blame_share_at(&total, i)->key.name, "web") &&
			 blame_share_at(&total, i)->item.cost == 27 && blame_share_at(&total, i)->pid == WEB;
	tap_result(total.sum.count == 1 && right == 1, "who ran for itself and for others is one owner: %zu", total.sum.count);
	tap_result(total.ended.ns == 3000 && total.open.ns == 5000, "the waits of all VMs are added up");
	free(total.sum.items);
	tap_result(!find_owner(NULL, "vm"), "no VM has no owner");
	tap_result(find_owner(victim_of(&sum, "db"), "process vm") == blame_share_at(victim_of(&sum, "db"), 0) &&
		   !find_owner(victim_of(&sum, "db"), "process kernel"), "an owner is found by its kind");
	rows[0] = (struct blame_row){ .pair = { { 3, DB, 0 }, { .kind = BLAME_STEAL } }, .growth = 100 };
	nr_rows = 1;
	add_sums(&sum.sums, vm, NULL, 0);
	tap_result(find_owner(victim_of(&sum, "db"), "vm") == blame_share_at(victim_of(&sum, "db"), 1), "also if it is the second one");
	total = (struct blame_victim){ 0 };
	blame_sum_total(&sum.sums, &total.sum);
	tap_result(total.sum.count == 2 && blame_share_at(&total, 0)->item.cost == 100 && blame_share_at(&total, 1)->item.cost == 27,
		   "a VM has its owners in the total");
	free(total.sum.items);
	clear_sums(&sum.sums);
	rows[0] = (struct blame_row){ .pair = { { 1, WEB, 0 }, { .kind = BLAME_STEAL } }, .growth = 10 };
	rows[1] = (struct blame_row){ .pair = { { 2, WEB, 0 }, { .kind = BLAME_IDLE } }, .growth = 6 };
	nr_rows = 2;
	add_sums(&sum.sums, vm, NULL, 0);
	rows[0] = (struct blame_row){ .pair = { { 3, DB, 0 }, { .kind = BLAME_IDLE } }, .growth = 6 };
	nr_rows = 1;
	add_sums(&sum.sums, vm, NULL, 0);
	total = (struct blame_victim){ 0 };
	blame_sum_total(&sum.sums, &total.sum);
	tap_result(total.sum.count == 2 && blame_share_at(&total, 0)->item.cost == 12 && blame_share_at(&total, 1)->item.cost == 10,
		   "the most expensive owner of all VMs is the first");
	free(total.sum.items);
	close_sums(&sum.sums);
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
	const int first = free_file();
	size_t i;

	for (i = 0; i < sizeof(namings) / sizeof(*namings); i++)
		test_naming(&namings[i]);
	test_second_vm();
	test_long_paths();
	test_paths();
	test_waits();
	test_unseen();
	test_recording();
	test_others();
	test_total();
	tap_result(free_file() == first, "all files are closed");
	return tap_end();
}
