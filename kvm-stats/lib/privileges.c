// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <linux/capability.h>

#include "abi.h"
#include "privileges.h"
#include "probe_vm.h"
#include "proc.h"

/* The first line of a file that has this in it, "" if there is none. */
static bool find_line(const char *path, const char *text, char *line, int size)
{
	FILE *file = fopen(path, "re");
	bool found = false;

	while (file && !found && fgets(line, size, file))
		found = strstr(line, text);
	if (file)
		fclose(file);
	if (!found)
		*line = '\0';
	return found;
}

static __attribute__((format(printf, 2, 3)))
void add(char *text, const char *format, ...)
{
	const size_t size = sizeof(((struct kvmstats_probe *)0)->why);
	size_t len = strlen(text);
	va_list args;

	if (len && len + 2 < size) {
		strcpy(text + len, "; ");
		len += 2;
	}
	va_start(args, format);
	vsnprintf(text + len, size - len, format, args);
	va_end(args);
}

bool privileges_capable(int capability)
{
	unsigned long long mask = 0;
	char line[256];

	find_line("/proc/self/status", "CapEff:", line, sizeof(line));
	sscanf(line, "CapEff: %llx", &mask);
	return mask >> capability & 1;
}

bool privileges_first_user_namespace(void)
{
	char line[256];

	/* All numbers there are, mapped to themselves */
	return find_line("/proc/self/uid_map", "4294967295", line, sizeof(line));
}

bool privileges_first_pid_namespace(void)
{
	char link[32] = "";

	/* Its inode has the same number in every kernel (PROC_PID_INIT_INO). */
	return readlink("/proc/self/ns/pid", link, sizeof(link) - 1) < 0 ||
	       !strcmp(link, "pid:[4026531836]");
}

bool privileges_confidential(void)
{
	char line[256];

	/* The level in brackets is the one in force. */
	return find_line("/sys/kernel/security/lockdown", "[confidentiality]", line,
			 sizeof(line));
}

unsigned long long privileges_memlock(void)
{
	struct rlimit limit = { 0 };

	getrlimit(RLIMIT_MEMLOCK, &limit);
	return limit.rlim_cur / 1024;
}

/* The option hidepid= of the host's /proc, "" if it has none. */
static void find_hidepid(const struct kvmstats *k, char *value, size_t size)
{
	char fd[32], proc[256], mount[300], line[1024], *option;
	FILE *file = fopen("/proc/self/mountinfo", "re");
	ssize_t len;

	*value = '\0';
	snprintf(fd, sizeof(fd), "/proc/self/fd/%d", core_proc(k));
	len = readlink(fd, proc, sizeof(proc) - 1);
	snprintf(mount, sizeof(mount), " %.*s ", (int)(len < 0 ? 0 : len), proc);
	/* The last mount is the visible one. */
	while (file && len > 0 && fgets(line, sizeof(line), file)) {
		if (!strstr(line, mount) || !strstr(line, " - proc "))
			continue;
		option = strstr(strstr(line, " - proc "), "hidepid=");
		snprintf(value, size, "%.*s", option ? (int)strcspn(option, ",\n") : 0,
			 option ? option : "");
	}
	if (file)
		fclose(file);
}

void privileges_names(const struct kvmstats *k, struct kvmstats_probe *p)
{
	char hidepid[32];

	find_hidepid(k, hidepid, sizeof(hidepid));
	if (!*hidepid || !strcmp(hidepid, "hidepid=0") || !strcmp(hidepid, "hidepid=off") ||
	    privileges_capable(CAP_SYS_PTRACE))
		return;
	add(p->why, "names and times of other users' VMs are hidden: /proc has %s", hidepid);
	add(p->help, "give it CAP_SYS_PTRACE, or the group of /proc's option gid=");
}

/* Return KVM's answer for an extension, -1 if it cannot be asked. */
static int extension(int number)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), answer;

	if (kvm < 0)
		return -1;
	answer = ioctl(kvm, ABI_CHECK_EXTENSION, number);
	close(kvm);
	return answer;
}

/*
 * Only kernels with the series show the VM or the vCPU in fdinfo of mainline's statistics files.
 * The numbers of its capabilities and ioctls are not assigned: other kernels may use them.
 */
static bool has_kernel_series(void)
{
	struct probe_vm own;
	char why[64];
	bool found;

	if (probe_vm_open(&own, PROBE_VCPU_ID, why, sizeof(why)))
		return false;
	found = (own.vm_stats >= 0 && proc_fdinfo(own.vm_stats, "kvm-stats-vm")) ||
		(own.vcpu_stats >= 0 && proc_fdinfo(own.vcpu_stats, "kvm-stats-vcpu"));
	probe_vm_close(&own);
	return found;
}

struct stats_ioctls privileges_stats_ioctls(void)
{
	struct stats_ioctls ioctls = { ABI_STATS_GETFD, ABI_STATS_NEXT, extension(ABI_CAP_STATS) };

	if (!ioctls.flags) {
		ioctls.getfd = ABI_STATS_GETFD_5_10;
		ioctls.next = ABI_STATS_NEXT_5_10;
		ioctls.flags = extension(ABI_CAP_STATS_5_10);
	}
	if (ioctls.flags > 0 && (!(ioctls.flags & ABI_CAP_STATS_GETFD) ||
				 !privileges_stats_detached() || !has_kernel_series()))
		ioctls.flags = 0;
	return ioctls;
}

bool privileges_stats_detached(void)
{
	int flags = extension(ABI_CAP_GET_STATS_FD);

	return flags > 0 && (flags & ABI_STATS_FD_DETACHED);
}

int privileges_getfd(unsigned long getfd, int fd, uint32_t scope)
{
	struct abi_getfd args = { .scope = scope };

	return getfd == ABI_STATS_GETFD ? ioctl(fd, getfd, &args) :
	       ioctl(fd, getfd, (unsigned long)scope);
}

/* As the kernel says, also where there is no /dev/kvm to be opened, as in containers */
static bool no_kvm(const struct kvmstats *k)
{
	char path[48], line[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/misc", core_proc(k));
	return !access(path, R_OK) && !find_line(path, " kvm\n", line, sizeof(line));
}

int privileges_borrow(const struct kvmstats *k, struct kvmstats_probe *p)
{
	const bool ptrace = privileges_capable(CAP_SYS_PTRACE);
	int getfd = privileges_stats_ioctls().flags;
	struct rlimit files = { 0 };
	char yama[8] = "0";

	if (no_kvm(k)) {
		add(p->why, "there is no KVM");
		add(p->help, "load kvm_amd, kvm_intel or what this machine has");
		return -ENODEV;
	}
	if (!getfd && !extension(ABI_CAP_GET_STATS_FD)) {
		add(p->why, "this kernel has no statistics files");
		add(p->help, "use the source bpf, or Linux 5.14 or later");
		return -ENODEV;
	}
	if (!getfd)
		add(p->why, "sees only files that a VMM keeps open, as QEMU does from 8.1 for vCPUs");

	find_line("/proc/sys/kernel/yama/ptrace_scope", "", yama, sizeof(yama));
	if (atoi(yama) > 2 || (atoi(yama) == 2 && !ptrace)) {
		*p->why = '\0';
		add(p->why, "Yama forbids to look into other processes (kernel.yama.ptrace_scope is %d)",
		    atoi(yama));
		add(p->help, atoi(yama) > 2 ? "only a reboot ends that" :
		    "run it as root, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH");
		return -EPERM;
	}
	if (!ptrace || !privileges_capable(CAP_DAC_READ_SEARCH)) {
		add(p->why, atoi(yama) && !ptrace ?
		    "sees only its own children (kernel.yama.ptrace_scope is 1)" :
		    "sees only processes of the same user");
		add(p->help, "run it as root, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH");
	}
	getrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_max < 4096) {
		add(p->why, "has %llu files at most, one for each VM and vCPU",
		    (unsigned long long)files.rlim_max);
		add(p->help, "raise RLIMIT_NOFILE");
	}
	return 0;
}
