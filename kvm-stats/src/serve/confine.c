// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "app.h"
#include "confine.h"
#include "logging.h"
#include "xalloc.h"

/* The range of systemd's dynamic users; a user namespace usually has it as well. */
#define FIRST_USER	61184
#define LAST_USER	65519

/* Return true if the user namespace has these users. */
static bool has_users(void)
{
	unsigned long long first, count;
	bool found = false;
	FILE *map = fopen("/proc/self/uid_map", "re");

	while (map && !found && fscanf(map, "%llu %*u %llu", &first, &count) == 2)
		found = first <= FIRST_USER && first + count > LAST_USER;
	if (map)
		fclose(map);
	return found;
}

/* Return a user ID that no account has. */
static uid_t choose_user(void)
{
	const unsigned int users = LAST_USER - FIRST_USER + 1;
	unsigned int i, start = 0;

	/* Two servers, or one and a leftover process of another, should not share it. */
	if (getrandom(&start, sizeof(start), GRND_NONBLOCK) < 0)
		start = getpid();
	for (i = 0; i < users; i++) {
		const uid_t user = FIRST_USER + (start + i) % users;

		if (!getpwuid(user) && !getgrgid(user))
			return user;
	}
	errx(STATUS_NOTHING, "no free user ID from %d to %d", FIRST_USER, LAST_USER);
}

bool needs_own_user(void)
{
	return !geteuid() && has_users();
}

void change_user(void)
{
	const uid_t user = choose_user();

	if (setgroups(0, NULL) || setresgid(user, user, user) || setresuid(user, user, user))
		err(STATUS_NOTHING, "cannot change to user ID %u; CAP_SETUID and CAP_SETGID, or another user than root, required",
		    user);
}

/* Let this process read files in the directory of a file. */
static void allow_directory(int rules, const char *path)
{
	struct landlock_path_beneath_attr rule = {
		.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE,
	};
	char *copy = check_alloc(strdup(path));

	rule.parent_fd = open(dirname(copy), O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (rule.parent_fd < 0 || syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0))
		warn("cannot read files in the directory of %s later", path);
	close(rule.parent_fd);
	free(copy);
}

/* Also where it is, if it is a symbolic link */
static void allow_file(int rules, const char *path)
{
	char *real = realpath(path, NULL);

	allow_directory(rules, path);
	if (real)
		allow_directory(rules, real);
	free(real);
}

/* Return false if the kernel has no Landlock. */
static bool limit_files(const struct server *s, const char *path)
{
	/* all of its first version */
	const uint64_t handled = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
	const int rules = syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0);
	unsigned int i;
	bool limited;

	if (rules < 0)
		return false;
	allow_file(rules, path);
	for (i = 0; i < s->files.nr; i++)
		allow_file(rules, s->files.file[i].path);
	limited = !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !syscall(SYS_landlock_restrict_self, rules, 0);
	close(rules);
	return limited;
}

static bool reads_all_files;

void change_reader(const struct server *s, const char *path)
{
	reads_all_files = limit_files(s, path);
	if (!reads_all_files)
		log_message(LOG_LEVEL_WARN, "this kernel has no Landlock: when another user's file replaces %s or the configuration, it is not read",
			    path);
	if (prctl(PR_SET_KEEPCAPS, reads_all_files, 0, 0, 0))
		err(STATUS_NOTHING, "cannot keep a capability");
	change_user();
}

void drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct kept[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (reads_all_files)
		kept[0].effective = kept[0].permitted = 1 << CAP_DAC_READ_SEARCH;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_capset, &header, kept))
		err(STATUS_NOTHING, "cannot give up capabilities");
}

/* Calls that act on other processes, start one, or duplicate a descriptor past the filter */
static const int forbidden[] = {
	SYS_clone, SYS_clone3, SYS_execve, SYS_execveat,
#ifdef SYS_fork
	SYS_fork, SYS_vfork, SYS_dup2,
#endif
	SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo,
	SYS_pidfd_open, SYS_pidfd_send_signal, SYS_pidfd_getfd,
	SYS_setpriority, SYS_ioprio_set, SYS_sched_setaffinity, SYS_sched_setattr,
	SYS_sched_setparam, SYS_sched_setscheduler,
	SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_process_madvise,
	SYS_migrate_pages, SYS_move_pages,
	SYS_dup, SYS_dup3, SYS_socketpair, SYS_io_uring_setup,
};

/* Calls that are forbidden if an argument has a value, or does not have it */
static const struct {
	int call;
	unsigned int argument;
	bool other;		/* each value but this one is forbidden */
	uint32_t value;		/* lower 32 bits; the kernel ignores the others */
} forbidden_values[] = {
	/* A descriptor that sends a signal when it is ready */
	{ SYS_fcntl, 1, false, F_SETOWN }, { SYS_fcntl, 1, false, F_SETOWN_EX },
	{ SYS_fcntl, 1, false, F_SETSIG }, { SYS_ioctl, 1, false, FIOASYNC },
	{ SYS_ioctl, 1, false, 0x8901 /* FIOSETOWN */ }, { SYS_ioctl, 1, false, 0x8902 /* SIOCSPGRP */ },
	{ SYS_fcntl, 1, false, F_DUPFD }, { SYS_fcntl, 1, false, F_DUPFD_CLOEXEC },
	/* Over a local socket, a process can send itself a descriptor. */
	{ SYS_socket, 0, false, AF_UNIX },
	/* The kernel takes 0 for the calling process. */
	{ SYS_prlimit64, 0, true, 0 },
};

/* Calls that stop a socket from listening, or filter its connections: the first argument */
static const int forbidden_listening[] = {
	SYS_shutdown, SYS_connect, SYS_listen, SYS_bind, SYS_setsockopt, SYS_ioctl, SYS_fcntl,
};

#define LOAD(field)	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LOW_HALF	0
#else
#define LOW_HALF	4
#endif
#define FILTER_MAX	512

struct call_filter {
	struct sock_filter code[FILTER_MAX];
	unsigned short n;
};

static void add_code(struct call_filter *f, struct sock_filter code)
{
	f->code[f->n++] = code;
}

/* Fail the call. */
static void add_failure(struct call_filter *f)
{
	add_code(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
}

/* Fail a call if its argument has a value, or does not have it. */
static void add_rule(struct call_filter *f, int call, unsigned int argument, bool other, uint32_t value)
{
	/* The accumulator holds the call again for the next rule. */
	add_code(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4));
	add_code(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, args[argument]) + LOW_HALF));
	add_code(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, other, !other));
	add_failure(f);
	add_code(f, (struct sock_filter)LOAD(nr));
}

void filter_calls(const struct server *s)
{
	struct call_filter f = { 0 };
	struct sock_fprog program;
	unsigned int i, j;

#ifdef __x86_64__
	/* The calls of i386 and x32 have other numbers. */
	add_code(&f, (struct sock_filter)LOAD(arch));
	add_code(&f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
	add_failure(&f);
	add_code(&f, (struct sock_filter)LOAD(nr));
	add_code(&f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1));
	add_failure(&f);
#else
	add_code(&f, (struct sock_filter)LOAD(nr));
#endif
	for (i = 0; i < sizeof(forbidden) / sizeof(*forbidden); i++) {
		add_code(&f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden[i], 0, 1));
		add_failure(&f);
	}
	for (i = 0; i < sizeof(forbidden_values) / sizeof(*forbidden_values); i++)
		add_rule(&f, forbidden_values[i].call, forbidden_values[i].argument,
			 forbidden_values[i].other, forbidden_values[i].value);
	/* abort() sends a signal to its own process. */
	add_rule(&f, SYS_kill, 0, true, getpid());
	add_rule(&f, SYS_tgkill, 0, true, getpid());
	for (i = 0; i < s->nr_listening; i++) {
		for (j = 0; j < sizeof(forbidden_listening) / sizeof(*forbidden_listening); j++)
			add_rule(&f, forbidden_listening[j], 0, false, s->listening[i]);
	}
	add_code(&f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	program = (struct sock_fprog){ .len = f.n, .filter = f.code };
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
		log_message(LOG_LEVEL_WARN, "the process that serves runs without a filter of system calls: %s",
			    strerror(errno));
}
