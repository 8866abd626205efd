// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzz the library with libFuzzer: a source and an order of functions from the input,
 * and a /proc whose files appear, change and vanish.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core.h"
#include "identity.h"
#include "proc.h"
#include "readers.h"

#define PIDS	3
#define TIDS	4

static const uint8_t *at, *end;
static char root[] = "/tmp/fuzz-library.XXXXXX";
static int proc;

/* Files of this input: the next one starts without them. */
#define MAX_CREATED	512
static char created[MAX_CREATED][64];
static unsigned int nr_created;

static uint8_t byte(void)
{
	return at < end ? *at++ : 0;
}

/* A number of any size, mostly a small one */
static uint64_t number(void)
{
	uint64_t n = byte();

	while (n > 255 - 7 && at < end)
		n = n * 131 + byte();
	return n << byte() % 40;
}

/* Texts that the kernel could write, and command lines with \1 instead of 0 */
static const char *const texts[] = {
	"CPU 1/KVM\n", "vcpu0\n", "IO iothread1\n", "vhost-42\n", "1000000 2000000 3\n",
	"16 0x3 0xae80 0x0 0x0 0x0 0x0 0x7ffe 0x7f00\n", "running\n",
	"0::/machine.slice/machine-qemu\\x2d1\\x2da.scope\n", "anon_inode:kvm-vcpu:1",
	"1 (a) b) S 1 1 1 0 -1 4194560 1 1 1 1 7 7 7 7 20 0 3 0 99 1 1 1 1 1 1 1 1 1 1 1 1\n",
	"4:memory:/kata_overhead/x\n", "anon_inode:kvm-vm",
	"qemu-system-x86_64\1-name\1guest=a,,b,debug-threads=on\1-uuid\1"
	"00000000-1111-2222-3333-444444444444\1-smbios\1type=1,uuid=x",
	"kvm\1-name\1a", "firecracker\1--id\1a", "lkvm\1run\1-n\1a",
	"cloud-hypervisor\1--api-socket\1path=/run/a/clh.sock\1--platform\1uuid="
	"00000000-1111-2222-3333-444444444444",
	"cloud-hypervisor\1--api-socket=/run/a-api.sock", "crosvm\1run\1--name=a\1-s\1/run/b.sock",
	"crosvm\1run\1-s\1/run/b.sock", "stratovirt\1-name\1a", "qemu-system-x86_64\1-avd\1a", "qemu-system-i386\1@a",
	"VBoxHeadless\1--comment\1a\1--startvm\1" "00000000-1111-2222-3333-444444444444",
	"0::/kubepods.slice/kubepods-pod00000000_1111_2222_3333_444444444444.slice/crio-0123456789"
	"abcdef0123456789abcdef0123456789abcdef0123456789abcdef012345.scope\n",
	"0::/kubepods/burstable/pod00000000-1111-2222-3333-444444444444/x\n",
	"0::/system.slice/containerd.service/kubepods-pod0.slice:cri-containerd:1\n",
	"0::/machine/a.partition/qemu-1-a.libvirt-qemu\n", "0::/qemu.slice/100.scope\n",
	"0::/../../podx/docker-1.scope\n", "0::/kata_overhead/1\n4:cpu:/kubepods/pod1\n",
};
#define TEXTS	(sizeof(texts) / sizeof(*texts))

/* Copy a text, and return its size. */
static size_t copy_text(char *to, size_t size, unsigned int which)
{
	char *separator;
	size_t len;

	snprintf(to, size, "%s", texts[which % TEXTS]);
	len = strlen(to);
	while ((separator = memchr(to, 1, len)))
		*separator = '\0';
	return len;
}

/* The identity that these texts, or the rest of the input, make up */
static void read_identity(void)
{
	char comm[64], cmdline[512], cgroups[512];
	struct kvmstats_identity identity;
	size_t len = copy_text(cmdline, sizeof(cmdline), byte());
	unsigned int at_byte = byte(), i;

	copy_text(comm, sizeof(comm), byte());
	copy_text(cgroups, sizeof(cgroups), byte());
	for (i = byte() % 8; i && len; i--) {
		cmdline[at_byte % len] = byte();
		cgroups[at_byte % (strlen(cgroups) + 1)] ^= byte() % 8;
		at_byte += byte();
	}
	identity_from_proc(comm, cmdline, len, cgroups, 42, &identity);
	if (!memchr(identity.name, 0, sizeof(identity.name)) || identity.pod_uid[36] ||
	    identity.container_id[64])
		abort();
	identity_clear(&identity);
}

/* Files of /proc: the first byte of their content chooses a text that the kernel could write. */
static void change_file(void)
{
	static const char *const names[] = {
		"comm", "cmdline", "cgroup", "stat", "status", "schedstat", "syscall", "fd/3", "fd/4",
	};
	const unsigned int which = byte(), where = byte(), what = byte();
	char path[64], text[512];
	size_t len = what % 40 * 5;
	int fd;

	if (where & 1)
		snprintf(path, sizeof(path), "%u/task/%u/%s", 1 + where / 2 % PIDS, 1 + where / 8 % TIDS,
			 names[which % 9]);
	else
		snprintf(path, sizeof(path), "%u/%s", 1 + where / 2 % PIDS, names[which % 9]);
	unlinkat(proc, path, 0);
	if (what < 40)
		return;
	if (what < 40 + TEXTS) {
		len = copy_text(text, sizeof(text), what - 40);
	} else {
		len = len < (size_t)(end - at) ? len : (size_t)(end - at);
		memcpy(text, at, len);
		text[len] = '\0';
		at += len;
	}
	snprintf(created[nr_created++ % MAX_CREATED], sizeof(*created), "%s", path);
	if (strstr(path, "fd/")) {
		symlinkat(text, proc, path);
		return;
	}
	fd = openat(proc, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0 && write(fd, text, len) < 0)
		abort();
	if (fd >= 0)
		close(fd);
}

static int fuzz_open(struct kvmstats *k, void **state, struct kvmstats_probe *p)
{
	static const struct kvmstats_desc vm[] = {
		{ .name = "remote_tlb_flush", .size = 1 },
		{ .name = "pages_4k", .type = KVMSTATS_INSTANT, .size = 1, .offset = 8 },
	};
	static const struct kvmstats_desc vcpu[] = {
		{ .name = "exits", .size = 1 },
		{ .name = "halt_exits", .size = 1, .offset = 8 },
		{ .name = "halt_wait_ns", .unit = KVMSTATS_SECONDS, .exponent = -9, .size = 1, .offset = 16 },
		{ .name = "halt_poll_success_ns", .unit = KVMSTATS_SECONDS, .exponent = -9, .size = 1,
		  .offset = 24 },
		{ .name = "blocking", .type = KVMSTATS_INSTANT, .unit = KVMSTATS_BOOLEAN, .size = 1,
		  .offset = 32 },
		{ .name = "halt_wait_hist", .type = KVMSTATS_LOG_HIST, .size = 8, .offset = 40 },
	};

	return core_set_table(k, KVMSTATS_VM, table_make(vm, 2)) ?:
	       core_set_table(k, KVMSTATS_VCPU, table_make(vcpu, 6));
}

static void report_vcpu(struct kvmstats *k, struct core_vm *vm)
{
	const unsigned int how = byte();
	struct core_vcpu *vcpu = core_vcpu(k, vm, byte() % 6, byte() % (TIDS + 1));
	uint64_t values[13] = { 0 };
	unsigned int i;

	for (i = 0; i < 13 && how & 1; i++)
		values[i] = number();
	if (how & 2)
		core_vcpu_set(vcpu, values, sizeof(values));
	else
		memcpy(core_vcpu_values(vcpu), values, sizeof(values));
	if (how & 4)
		core_vcpu_idle(vcpu, read_clock(CLOCK_MONOTONIC));
	else if (how & 8)
		core_vcpu_times(vcpu, &(struct thread_times){
			.time = read_clock(CLOCK_MONOTONIC), .has_run = how & 16, .has_ready = how & 32,
			.has_throttled = how & 64, .run = number(), .ready = number(),
			.throttled = number(), .turns = byte(),
			.up_to_date = how & 128, .state = byte() % 5, .asleep = number(),
			.lost = number(), .cpu = byte(), .has_sleeps = how & 16, .sleeps = byte(),
			.born = how & 32 ? read_clock(CLOCK_MONOTONIC) - byte() : 0,
		});
}

static int fuzz_sample(struct kvmstats *k, void *state)
{
	unsigned int vms = byte() % 4, vcpus, flags;
	struct core_vm *vm;

	while (vms--) {
		flags = byte();
		vm = core_vm(k, flags % 5, 1 + flags / 5 % PIDS);
		vcpus = byte() % 4;
		if (flags & 64)
			core_vm_number(k, vm, byte());
		if (flags & 128)
			core_vm_process(vm, number(), "comm");
		memcpy(core_vm_values(vm), (uint64_t []){ number(), number() }, 16);
		while (vcpus--)
			report_vcpu(k, vm);
		if (byte() == 1)
			core_vm_ended(vm);
		if (byte() == 1)
			core_vm_set_ambiguous(vm, true);
	}
	if (byte() == 1)
		core_unread(k, byte() % KVMSTATS_REASONS, "unreadable");
	return byte() == 255 ? core_problem(k, -EIO, "failed") : 0;
}

static void fuzz_release(void *state) {}
static void fuzz_close(struct kvmstats *k, void *state) {}

static const struct source_ops source_fuzz = {
	.name = "fuzz", .what = "", .open = fuzz_open, .sample = fuzz_sample,
	.release_files = fuzz_release, .close = fuzz_close,
};
const struct source_ops *const source_list[] = { &source_fuzz, NULL };

static void check_times(const struct kvmstats_times *times)
{
	uint64_t sum = 0;
	int i;

	for (i = 0; i < KVMSTATS_MODES; i++)
		sum += kvmstats_times_mode(times, i) + 0 * kvmstats_times_known(times, i);
	if (sum != kvmstats_times_elapsed(times))
		abort();
}

static void walk(struct kvmstats *k)
{
	struct kvmstats_vm *vm, *other;
	const char *why;
	uint64_t n;
	int i;

	for (vm = kvmstats_first(k); vm; vm = kvmstats_next(vm)) {
		for (other = kvmstats_first(k); other != vm; other = kvmstats_next(other)) {
			/* A VM that exists takes over the label of one that has ended in this sample. */
			if (!strcmp(kvmstats_vm_label(other), kvmstats_vm_label(vm)) && !other->ended && !vm->ended)
				abort();
		}
		for (i = 0; kvmstats_vm_vcpu(vm, i); i++) {
			kvmstats_vcpu_id(kvmstats_vm_vcpu(vm, i));
			check_times(kvmstats_vcpu_times(kvmstats_vm_vcpu(vm, i)));
			check_times(kvmstats_vcpu_last_times(kvmstats_vm_vcpu(vm, i)));
			kvmstats_activity_event(kvmstats_vcpu_activity(kvmstats_vm_vcpu(vm, i)), i % 5);
			kvmstats_vcpu_values(kvmstats_vm_vcpu(vm, i));
			kvmstats_vcpu_totals(kvmstats_vm_vcpu(vm, i));
		}
		check_times(kvmstats_vm_last_times(vm));
		for (i = 0; i < KVMSTATS_EVENTS; i++) {
			kvmstats_activity_event(kvmstats_vm_activity(vm), i);
			kvmstats_activity_known(kvmstats_vm_activity(vm), i);
			kvmstats_event_name(i);
		}
		for (i = 0; i < KVMSTATS_ROLES; i++)
			kvmstats_vm_other_threads(vm, i);
		kvmstats_rate(number(), number());
		kvmstats_permille(number(), number());
	}
	kvmstats_problem(k);
	kvmstats_source_why(k);
	kvmstats_unobserved(k, &n);
	kvmstats_failed_reads(k, &why);
	for (i = 0; i < KVMSTATS_REASONS; i++)
		kvmstats_failed_reads_by_reason(k, i, &why);
}

static void read_proc(void)
{
	struct kvm_fd list[4] = { { KVM_FD_VCPU, 0, 3 }, { KVM_FD_VCPU, 1, 4 } };
	const pid_t pid = 1 + byte() % (PIDS + 1);
	pid_t tid[4] = { 0 };
	int n, folder = proc_fd_folder(proc, pid);
	long all = 0;

	proc_count_fds(proc, pid, folder);
	proc_count_fds(proc, pid, -1);
	if (folder >= 0)
		close(folder);
	proc_started(proc, pid);
	proc_vcpu_threads(proc, pid, list, 2, byte() & 1, tid);
	n = proc_kvm_fds(proc, pid, list, 4, &all);
	if (n >= 0 && n > all)
		abort();
}

static void make_root(void)
{
	char path[64];
	int pid, tid;

	if (!mkdtemp(root))
		err(1, "%s", root);
	proc = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (pid = 1; pid <= PIDS; pid++) {
		static const char *const dirs[] = { "%d", "%d/fd", "%d/task" };
		int i;

		for (i = 0; i < 3; i++) {
			snprintf(path, sizeof(path), dirs[i], pid);
			mkdirat(proc, path, 0700);
		}
		for (tid = 1; tid <= TIDS; tid++) {
			snprintf(path, sizeof(path), "%d/task/%d", pid, tid);
			mkdirat(proc, path, 0700);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kvmstats *k[2] = { NULL }, **handle;

	at = data;
	end = data + size;
	if (!proc)
		make_root();
	while (at < end) {
		handle = &k[byte() & 1];
		if (!*handle && kvmstats_open(handle, NULL, root, 0))
			abort();
		switch (byte() % 9) {
		case 0:
			kvmstats_close(*handle);
			*handle = NULL;
			break;
		case 1:
			kvmstats_set_keep(*handle, number());
			break;
		case 2:
			kvmstats_release_files(*handle);
			break;
		case 3:
			read_proc();
			break;
		case 4:
			walk(*handle);
			break;
		case 5:
			change_file();
			break;
		case 6:
			read_identity();
			break;
		default:
			kvmstats_sample(*handle);
			break;
		}
	}
	kvmstats_close(k[0]);
	kvmstats_close(k[1]);
	for (; nr_created; nr_created--)
		unlinkat(proc, created[(nr_created - 1) % MAX_CREATED], 0);
	return 0;
}
