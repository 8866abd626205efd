// SPDX-License-Identifier: GPL-2.0-only
/*
 * Record the statistics files of a VMM's VMs, for replay.c:
 *
 *	record PID SAMPLES >FILE
 *
 * one sample a second, the first after one. By KVM_STATS_GETFD, or on kernels
 * without it from the files that the VMM has open. Lines:
 *
 *	order little|big
 *	head vm|vcpu HEX		the file before its values: once
 *	sample TIME			nanoseconds
 *	vm NUMBER PID HEX		its values
 *	vcpu ID TID RUN READY HEX	of the VM before; times: nanoseconds
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi.h"
#include "clock.h"
#include "privileges.h"
#include "file.h"
#include "proc.h"

#define MAX_FDS		64

struct source {
	struct kvm_fd from;
	int fd;
	struct file_layout layout;
	uint64_t vm;
	pid_t tid;
};

static struct source sources[MAX_FDS];
static int nr_sources;
static struct kvmstats_table *tables[KVMSTATS_SCOPES];

static enum kvmstats_scope scope_of(const struct source *s)
{
	return s->from.kind == KVM_FD_VM || s->from.kind == KVM_FD_VM_STATS ?
	       KVMSTATS_VM : KVMSTATS_VCPU;
}

static void print_bytes(int fd, size_t from, size_t size)
{
	unsigned char byte;
	size_t i;

	for (i = 0; i < size; i++) {
		if (pread(fd, &byte, 1, from + i) != 1)
			err(1, "pread");
		printf("%02x", byte);
	}
	putchar('\n');
}

static void add(int pidfd, const struct kvm_fd *from, pid_t tid)
{
	static const char * const names[] = { "vm", "vcpu" };
	struct source *s = &sources[nr_sources];
	enum kvmstats_scope scope;
	const char *wrong;
	int fd;

	s->from = *from;
	s->tid = tid;
	fd = proc_take_fd(pidfd, from);
	s->fd = fd < 0 ? -1 : from->kind == KVM_FD_VM || from->kind == KVM_FD_VCPU ?
		privileges_getfd(privileges_stats_ioctls().getfd, fd, ABI_SCOPE_OWN) : fd;
	if (s->fd < 0)
		return;
	s->vm = proc_fdinfo(s->fd, "kvm-stats-vm");
	wrong = file_read_layout(s->fd, &s->layout);
	scope = scope_of(s);
	if (!wrong && !tables[scope]) {
		wrong = file_read_table(s->fd, &s->layout, &tables[scope]);
		printf("head %s ", names[scope]);
		print_bytes(s->fd, 0, s->layout.data_offset);
	}
	if (wrong)
		errx(1, "%s", wrong);
	nr_sources++;
}

static void print_values(const struct source *s)
{
	print_bytes(s->fd, s->layout.data_offset, tables[scope_of(s)]->data_size);
}

static void print_vcpu(pid_t pid, const struct source *s)
{
	unsigned long long run = 0, ready = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, s->tid);
	f = s->tid ? fopen(path, "r") : NULL;
	if (f && fscanf(f, "%llu %llu", &run, &ready) != 2)
		run = ready = 0;
	if (f)
		fclose(f);
	printf("vcpu %d %d %llu %llu ", s->from.id, s->tid, run, ready);
	print_values(s);
}

static void sample(pid_t pid)
{
	int i, j;

	printf("sample %llu\n", (unsigned long long)read_clock(CLOCK_MONOTONIC));
	for (i = 0; i < nr_sources; i++) {
		if (scope_of(&sources[i]) != KVMSTATS_VM)
			continue;
		printf("vm %llu %d ", (unsigned long long)sources[i].vm, pid);
		print_values(&sources[i]);
		for (j = 0; j < nr_sources; j++) {
			if (scope_of(&sources[j]) == KVMSTATS_VCPU &&
			    sources[j].vm == sources[i].vm)
				print_vcpu(pid, &sources[j]);
		}
	}
}

int main(int argc, char **argv)
{
	const uint16_t one = 1;
	struct kvm_fd list[MAX_FDS];
	pid_t pid, tid[MAX_FDS] = { 0 };
	int i, j, n, proc, pidfd, samples;
	bool held;
	long all;

	if (argc != 3)
		errx(2, "usage: record PID SAMPLES");
	pid = atoi(argv[1]);
	samples = atoi(argv[2]);
	proc = open("/proc", O_RDONLY);
	pidfd = proc_pidfd(pid);
	n = proc_kvm_fds(proc, pid, list, MAX_FDS, &all);
	if (pidfd < 0 || n < 0 || n > MAX_FDS)
		errx(1, "process %d: does not exist or cannot be inspected", pid);
	printf("order %s\n", *(const char *)&one ? "little" : "big");
	sleep(1);
	proc_vcpu_threads(proc, pid, list, n, true, tid);
	for (i = 0; i < n; i++) {
		if (list[i].kind == KVM_FD_VM || list[i].kind == KVM_FD_VCPU)
			add(pidfd, &list[i], tid[i]);
	}
	for (i = 0, held = !nr_sources; held && i < n; i++) {
		if (list[i].kind != KVM_FD_VM_STATS && list[i].kind != KVM_FD_VCPU_STATS)
			continue;
		for (j = 0; j < n; j++) {
			if (list[j].kind == KVM_FD_VCPU && list[j].id == list[i].id)
				break;
		}
		add(pidfd, &list[i], j < n ? tid[j] : 0);
	}
	if (!nr_sources)
		errx(1, "nothing to record of process %d", pid);
	for (i = 0; i < samples; i++) {
		if (i)
			sleep(1);
		sample(pid);
	}
	return 0;
}
