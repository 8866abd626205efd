// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures the cost of "exits" for each exit, and its memory. Also on a host whose KVM does
 * not report exits: kvm_pio, which every KVM on x86 reports, stands for kvm_exit and
 * kvm_entry, and a pointer and a number of struct kvm_vcpu for those of the VMCB. Needs root
 * and /dev/kvm.
 *
 * usage: exits_cost
 */
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#ifdef __x86_64__
#include "../lib/exits.c"
#include "abi.h"

#define EXITS		200000
#define CODE		0x1000
/* kvm_pio has the port where kvm_exit has the instruction set. */
#define PORT		EXITS_SVM

static struct exits e;

static void check(bool ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static int find_types(struct bpf_exit_layout *layout)
{
	struct bpf_kvm_types types;
	char why[256];
	int error;

	error = bpf_notifier_find(&layout->notifier, why, sizeof(why)) ?:
		bpf_types_find(&types, why, sizeof(why));
	if (error) {
		fprintf(stderr, "%s\n", why);
		return error;
	}
	layout->vcpu_id = types.layout.vcpu_id;
	layout->svm_vmcb = layout->notifier.vcpu_kvm;
	layout->ports = true;
	bpf_types_free(&types);
	return 0;
}

/* Let the guest write to a port as many times. */
static void run_guest(void)
{
	static const unsigned char guest[] = { 0xe6, PORT, 0xeb, 0xfc };
	struct kvm_userspace_memory_region region = { .memory_size = 0x10000 };
	struct kvm_regs regs = { .rip = CODE, .rflags = 2 };
	struct kvm_sregs sregs;
	int kvm, vm, vcpu, i;
	char *memory;

	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	check(kvm >= 0, "/dev/kvm");
	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	check(vm >= 0, "KVM_CREATE_VM");
	memory = mmap(NULL, region.memory_size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(memory != MAP_FAILED, "mmap");
	memcpy(memory + CODE, guest, sizeof(guest));
	region.userspace_addr = (uintptr_t)memory;
	check(!ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region), "memory");
	vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	check(vcpu >= 0, "KVM_CREATE_VCPU");
	check(!ioctl(vcpu, KVM_GET_SREGS, &sregs), "sregs");
	sregs.cs.selector = 0;
	sregs.cs.base = 0;
	check(!ioctl(vcpu, KVM_SET_SREGS, &sregs), "sregs");
	check(!ioctl(vcpu, KVM_SET_REGS, &regs), "regs");
	for (i = 0; i < EXITS; i++)
		check(!ioctl(vcpu, KVM_RUN, 0), "KVM_RUN");
	close(vcpu);
	close(vm);
	close(kvm);
}

/* Mean time of a program, nanoseconds */
static double mean(int fd)
{
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);

	check(!bpf_obj_get_info_by_fd(fd, &info, &size), "program");
	return info.run_cnt ? (double)info.run_time_ns / info.run_cnt : 0;
}

static unsigned long map_memory(const struct bpf_map *map)
{
	unsigned long bytes = 0;
	char path[64], line[128];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", bpf_map__fd(map));
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "memlock: %lu", &bytes);
	if (f)
		fclose(f);
	return bytes;
}

int main(void)
{
	const struct bpf_insn empty[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	struct bpf_program *exit_program, *entry_program;
	unsigned long memory = 0, count = 0;
	size_t i;
	struct bpf_map *map;
	double none, exit_ns, entry_ns, user_ns;
	int fd, stats;

	if (!allocate(&e) || find_types(&e.layout) || load_program(&e))
		return 1;
	exit_program = e.program->progs.exits_exit;
	entry_program = e.program->progs.exits_entry;
	fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, NULL, "GPL", empty, 2, NULL);
	stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	check(fd >= 0 && stats >= 0, "bpf");
	check(bpf_raw_tracepoint_open("kvm_pio", fd) >= 0 &&
	      bpf_program__attach_raw_tracepoint(exit_program, "kvm_pio") &&
	      bpf_program__attach_raw_tracepoint(entry_program, "kvm_pio") &&
	      bpf_program__attach_raw_tracepoint(e.program->progs.exits_userspace,
						 "kvm_userspace_exit"), "attach");
	run_guest();
	none = mean(fd);
	exit_ns = mean(bpf_program__fd(exit_program));
	entry_ns = mean(bpf_program__fd(entry_program));
	user_ns = mean(bpf_program__fd(e.program->progs.exits_userspace));
	bpf_object__for_each_map(map, e.program->obj)
		if (map != e.program->maps.cells)
			memory += map_memory(map);
	if (exits_sample(&e))
		return 1;
	printf("exits: %.0f ns for an exit: kvm_exit %.0f, kvm_entry %.0f, kvm_userspace_exit %.0f, without %.0f each for an empty program\n",
	       exit_ns + entry_ns + user_ns - 3 * none, exit_ns - none, entry_ns - none,
	       user_ns - none, none);
	for (i = 0; i < e.count; i++)
		count += e.rows[i].cell.tgid == (__u32)getpid() ? e.rows[i].cell.count : 0;
	if (count != EXITS) {
		fprintf(stderr, "%lu of %d exits\n", count, EXITS);
		return 1;
	}
	printf("exits: %.0f KiB in maps, and %.0f KiB for %d cells\n", memory / 1024.0,
	       map_memory(e.program->maps.cells) / 1024.0, EXITS_CELLS);
	return 0;
}
#else
int main(void)
{
	puts("exits: not measured: only x86 has kvm_pio");
	return 0;
}
#endif
