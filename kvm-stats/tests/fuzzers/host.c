// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzz what "why" reads on the host, with libFuzzer: files of procfs, of cgroups, of sysfs and of
 * libvirt. The input has the contents of files, with 0xff between them: the first byte of a file chooses
 * a text, the second one how much of it is kept, and the others follow. Nothing in a sentence or a
 * command moves a cursor, changes the direction of text or hides it.
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"
#include "printable.h"
#include "why.h"

#define VM_PID		7
#define OWNER_PID	8
#define THREAD		9	/* of the VM: a vCPU */

static char root[] = "/tmp/fuzz-host.XXXXXX";

#define V2_MOUNT	"30 24 0:26 / @/cg rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
#define V1_MOUNT	"30 24 0:26 / @/cg rw - cgroup cpu rw,cpu,cpuset,freezer,memory,name=systemd\n"
#define STAT		"7 (a) b) T 1 1 1 0 -1 4194560 1 1 1 1 7 7 7 7 20 0 3 0 99 1 1 1 1 1 1 1 1 1 1 1 1 0 0 0 0 17 1 0\n"

/* The files, and what they contain unless the input says otherwise; @ is the directory of this target. */
static const struct {
	const char *name, *text;
} files[] = {
	{ "proc/self/mountinfo", V2_MOUNT },
	{ "proc/7/cgroup", "0::/a/b.service\n4:cpu,cpuacct:/a/b.service\n5:cpuset:/a\n6:memory:/a\n" },
	{ "proc/8/cgroup", "0::/c.slice/d.service\n4:cpu:/c.slice/d.service\n" },
	{ "proc/9/cgroup", "0::/a/b.service\n4:cpu:/a/b.service\n5:cpuset:/a\n" },
	{ "proc/7/stat", STAT }, { "proc/8/stat", STAT }, { "proc/9/stat", STAT }, { "proc/8/task/8/stat", STAT },
	{ "proc/7/status", "Name:\ta\nVmSwap:\t  100 kB\nCpus_allowed_list:\t0\n" },
	{ "proc/9/status", "Cpus_allowed:\t1\nCpus_allowed_list:\t1-8191\n" },
	{ "proc/7/maps", "7f0000000000-7f0080000000 rw-s 00000000 08:01 42                /var/lib/a b\n" },
	{ "proc/7/mountinfo", "40 24 8:1 / /var rw - ext4 /dev/sda1 rw\n" },
	{ "proc/7/comm", "a\n" }, { "proc/8/comm", "d\n" }, { "proc/7/task/10/comm", "worker\n" },
	{ "proc/7/task/10/schedstat", "1 2 3\n" },
	{ "proc/stat", "cpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 9 5 6 7 8 9 10\n" },
	{ "proc/pressure/cpu", "some avg10=12.34 avg60=1.00 avg300=0.00 total=5\n" },
	{ "sys/devices/system/cpu/isolated", "0-1,5\n" }, { "sys/devices/system/cpu/possible", "0-3\n" },
	{ "sys/devices/system/cpu/online", "0-3\n" }, { "sys/devices/system/node/possible", "0-1\n" },
	{ "sys/module/kvm/parameters/halt_poll_ns", "200000\n" },
	{ "run/libvirt/qemu/web.pid", "7\n" },
	{ "run/libvirt/qemu/web.xml", "<uuid>00000000-1111-2222-3333-444444444444</uuid>" },
	{ "run/systemd/transient/b.service", "Slice=a\n" },
	{ "cg/a/cpu.max", "20000 100000\n" }, { "cg/a/cpu.weight", "50\n" }, { "cg/a/cpu.idle", "1\n" },
	{ "cg/a/cgroup.freeze", "1\n" }, { "cg/a/freezer.self_freezing", "1\n" }, { "cg/a/freezer.state", "FROZEN\n" },
	{ "cg/a/memory.high", "100\n" }, { "cg/a/memory.current", "100\n" },
	{ "cg/a/cpuset.cpus.effective", "0-2\n" }, { "cg/a/cpuset.effective_cpus", "0-2\n" },
	{ "cg/a/cpu.shares", "2\n" }, { "cg/a/cpu.cfs_quota_us", "20000\n" }, { "cg/a/cpu.cfs_period_us", "100000\n" },
	{ "cg/a/b.service/cpu.max", "max 100000\n" }, { "cg/a/b.service/cpu.weight", "100\n" },
	{ "cg/a/b.service/cpu.shares", "1024\n" }, { "cg/a/b.service/cpu.cfs_quota_us", "-1\n" },
	{ "cg/a/b.service/cpu.cfs_period_us", "100000\n" },
	{ "cg/c.slice/cpu.max", "max 100000\n" }, { "cg/c.slice/cpu.weight", "10000\n" },
	{ "cg/c.slice/cpu.shares", "1024\n" }, { "cg/c.slice/cpu.cfs_quota_us", "-1\n" },
	{ "cg/c.slice/cpu.cfs_period_us", "100000\n" }, { "cg/c.slice/d.service/cpu.max", "max 100000\n" },
	{ "cg/c.slice/d.service/cpu.weight", "100\n" }, { "cg/c.slice/d.service/cgroup.procs", "8\n" },
};
#define FILES	(sizeof(files) / sizeof(*files))

/* Other texts that the kernel or a user could write */
static const char *const texts[] = {
	"", V1_MOUNT, "30 24 0:26 /a @/cg rw - cgroup2 cgroup2 rw\n", V1_MOUNT V2_MOUNT, "0::/\n", "0::/../x\n",
	"0::/a/b.service/libvirt/vcpu0\n4:cpu:/a/b.service/libvirt/vcpu0\n5:cpuset:/a/vcpu0\n",
	"cpu0 100 2 3 4 5 6 7 80 9 10\ncpu1 1 200 3 18446744073709551615 5 6 7 8 9 10\n",
	"0::/user.slice/user-1.slice/user@1.service/app.slice/d.service\n", "0::/a/\x1b]0;x\x07\xe2\x80\xae.service\n",
	"some avg10=99999999999.99\n", "0\n", "1\n", "-1\n", "max\n", "18446744073709551615 18446744073709551615\n",
	"4294967295-4294967295\n", "8 (d) S 7 1 1 0 -1 4194560 1 1 1 1 7 7 7 7 20 0 3 0 99 1 1\n",
	"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope\n", "\x1b]0;x\x07\n", "thawed\n",
};
#define TEXTS	(sizeof(texts) / sizeof(*texts))

FILE *__real_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode)
{
	char here[2 * PATH_MAX];

	snprintf(here, sizeof(here), "%s%s", strncmp(path, root, strlen(root)) ? root : "", path);
	return __real_fopen64(here, mode);
}

static void make_directories(char *path)
{
	char *slash;

	for (slash = path + strlen(root); (slash = strchr(slash + 1, '/')); *slash = '/') {
		*slash = '\0';
		mkdir(path, 0755);
	}
}

/* Write one file, or remove it. Its first byte chooses a text. */
static void write_file(size_t file, const uint8_t *data, size_t size)
{
	const unsigned int which = size ? data[0] % (TEXTS + 2) : TEXTS;
	char path[PATH_MAX];
	const char *text, *at;
	size_t keep;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, files[file].name);
	unlink(path);
	if (which > TEXTS)
		return;
	f = fopen(path, "w");
	if (!f)
		err(1, "%s", path);
	text = which == TEXTS ? files[file].text : texts[which];
	at = strchr(text, '@');
	keep = strlen(text);
	/* The second byte says how much of the text is kept. */
	if (size > 1 && data[1] < keep)
		keep = data[1];
	if (at && at < text + keep)
		fprintf(f, "%.*s%s%.*s", (int)(at - text), text, root, (int)(text + keep - at - 1), at + 1);
	else
		fwrite(text, keep, 1, f);
	if (size > 2)
		fwrite(data + 2, size - 2, 1, f);
	fclose(f);
}

/* Write the files from one on, and return how many bytes they take. */
static size_t write_files(size_t first, size_t last, const uint8_t *data, size_t size)
{
	size_t at = 0, len;

	for (; first < last; first++) {
		for (len = 0; at + len < size && data[at + len] != 0xff; len++)
			;
		write_file(first, data + at, len);
		at += len + (at + len < size);
	}
	return at;
}

/* A sentence may have any name; "why" escapes it as a whole. */
static void check_sentence(const char *text)
{
	const size_t size = TEXT_SHOWN(strlen(text) + 1);
	char *shown = malloc(size);

	text_shown(text, shown, size);
	check_printable(shown);
	free(shown);
}

static void explain_cause(const struct why_rule *rule, const struct why_vm *why, const struct why_host *host)
{
	char *text = format_why(rule->text, why, host);
	struct remedy remedy = find_remedy(rule, why, host);

	check_sentence(text);
	check_sentence(remedy.text);
	check_printable(remedy.command);
	check_printable(remedy.undo);
	free(text);
	free_remedy(&remedy);
}

/* Explain also causes that are too small, or come after another one with the same time. */
static void explain(struct why_vm *why, const struct why_host *host)
{
	unsigned int i;

	find_causes(why, host);
	for (i = 0; i < why_rules_count; i++) {
		if (why_rules[i].time(why) && (!why_rules[i].when || why_rules[i].when(why, host)))
			explain_cause(&why_rules[i], why, host);
	}
}

static void examine(int proc, const uint8_t *data, size_t size)
{
	static struct window_vm window;
	struct kvmstats_vcpu vcpu[] = { { .id = 0, .tid = VM_PID }, { .id = 1, .tid = THREAD } };
	struct kvmstats_vcpu *const vcpus[] = { &vcpu[0], &vcpu[1] };
	struct kvmstats_vm vm = { .vcpus = 2, .vcpu = vcpus };
	struct blame_share owner = { .item.cost = SECOND / 2, .key = { "process", "d.service" }, .pid = OWNER_PID,
				     .cgroup = 1 };
	struct blame_victim waits = { .sum = { .items = &owner, .count = 1, .cost = SECOND / 2 } };
	struct stall_share stall = { .item.cost = SECOND / 2, .reason = STALL_MEMORY };
	struct stalls_vm stalls = { .sum = { .items = &stall, .count = 1, .cost = SECOND / 2 } };
	struct why_vm why = { .vm = &window, .waits = &waits, .stalls = &stalls };
	struct why_host host = { .cpus = 2, .live = true, .ran = 1000,
				 .wanted = 1000 + 10 * (size ? data[size - 1] : 0) };
	struct vcpu_place place;
	struct why_cpus *cpus;
	unsigned int i;

	vm.identity.pid = window.pid = VM_PID;
	strcpy(vm.identity.domain, "web");
	if (!identity_set_cgroup(&vm.identity, "/a/b.service", strlen("/a/b.service")))
		abort();
	window.vcpus = 2;
	window.elapsed = SECOND;
	window.activity.times.elapsed = 2 * SECOND;
	for (i = 0; i < KVMSTATS_MODES; i++)
		window.most[i] = window.activity.times.mode[i] = (size > i ? data[i] : 32 * i) * (SECOND / 256);
	cpus = begin_examination(proc, &vm);
	/* what has changed when the observation ends */
	write_files(0, FILES, data, size);
	examine_host(cpus, &vm, &host);
	examine_other_threads(cpus, &vm, &why);
	examine_vm(cpus, &vm, &vm, &why);
	explain(&why, &host);
	if (why.facts)
		free_facts(why.facts);
	end_examination(cpus);
	read_place(proc, THREAD, &place);
	find_state(proc, &vm);
	find_stuck_state(proc, &vm);
	if (host_now().cpu_pressure > 10099)
		abort();
	identity_clear(&vm.identity);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int proc = -1;
	char path[PATH_MAX];
	size_t i, at;

	if (proc < 0) {
		if (!mkdtemp(root))
			err(1, "%s", root);
		for (i = 0; i < FILES; i++) {
			snprintf(path, sizeof(path), "%s/%s", root, files[i].name);
			make_directories(path);
		}
		snprintf(path, sizeof(path), "%s/proc", root);
		proc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	at = write_files(0, FILES, data, size);
	examine(proc, data + at, size - at);
	return 0;
}
