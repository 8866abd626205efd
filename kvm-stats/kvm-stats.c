// SPDX-License-Identifier: GPL-2.0-only
/*
 * kvm-stats: the statistics of running VMs, from outside of their VMMs.
 *
 * This file has the commands. Finding (find.h), reading (read.h) and showing
 * (show.h, top.h, screen.h) know nothing of each other, but for the texts that
 * are made of what was read; source.h joins the first two.
 */
#include <err.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "show.h"
#include "top.h"

#define USAGE	2	/* exit status for wrong arguments */

static const char help[] =
"kvm-stats - show the statistics that KVM keeps of VMs and vCPUs\n"
"\n"
"  kvm-stats list                the processes that have VMs\n"
"  kvm-stats describe PID        which statistics there are, for programs\n"
"  kvm-stats show PID            all values of all VMs and vCPUs of a process\n"
"  kvm-stats top [-d SECONDS] [-n COUNT] PID\n"
"                                what moves, and how fast: every SECONDS (1),\n"
"                                COUNT times, else until q, ^C or the VM's end\n"
"\n"
"The VMM needs not help: its descriptors are taken with pidfd_getfd(2), which\n"
"asks for the permission to ptrace it, and its vCPUs are not disturbed. A kernel\n"
"that opens statistics only for the VMM itself (one with KVM_GET_STATS_FD and\n"
"without KVM_STATS_GETFD) shows those that the VMM holds open.\n"
"\n"
"describe prints a line for each statistic,\n"
"  SCOPE NAME TYPE UNIT BASE EXPONENT OFFSET SIZE BUCKET_SIZE\n"
"with SCOPE vm or vcpu; TYPE cumulative, instant, peak, linear_hist or log_hist;\n"
"UNIT none, bytes, seconds, cycles or boolean, of which a value counts BASE\n"
"(pow10 or pow2) to the EXPONENT; OFFSET in bytes, within the data of the VM or\n"
"vCPU; SIZE in 64-bit values; BUCKET_SIZE of linear histograms. What it does not\n"
"know is a number.\n"
"\n"
"show and top print values exactly, and times in seconds. Of a histogram, show\n"
"prints the buckets that are not empty and top the number of samples. Rates are\n"
"per second, and only of cumulative statistics. top leaves out what is 0, shows\n"
"the VMs and vCPUs that there were at its start, and prints its tables one below\n"
"the other if its input or output is not a terminal. Where a process has several\n"
"VMs, @ and the number of its descriptor tell them apart.\n"
"\n"
"Exit status: 0; 1 if there is nothing to see, with the reason; 2 for wrong\n"
"arguments.\n";

static pid_t parse_pid(int argc, char **argv)
{
	char *end;
	long pid;

	if (argc != 1)
		errx(USAGE, "%s (see kvm-stats --help)",
		     argc ? "only one PID, please" : "PID is missing");
	errno = 0;
	pid = strtol(argv[0], &end, 10);
	if (errno || *end || pid <= 0 || pid > INT_MAX)
		errx(USAGE, "not a PID: '%s'", argv[0]);
	return pid;
}

static void list_one(pid_t pid, const struct kvm_fd *list, int n)
{
	char comm[32];

	find_comm(pid, comm, sizeof(comm));
	printf("%-8d %-16s %4d %6d\n", pid, comm, count_fds(list, n, KVM_FD_VM),
	       count_fds(list, n, KVM_FD_VCPU));
}

static void command_list(int argc, char **argv)
{
	int denied;

	if (argc)
		errx(USAGE, "list takes no arguments, but '%s'", argv[0]);
	printf("%-8s %-16s %4s %6s\n", "PID", "COMMAND", "VMS", "VCPUS");
	denied = find_vmms(list_one);
	if (denied < 0)
		errx(1, "/proc: %s", strerror(-denied));
	fflush(stdout);
	if (denied)
		warnx("some processes cannot be seen: permission denied (%d)", denied);
}

static void command_describe(int argc, char **argv)
{
	struct sources s;

	sources_open(&s, parse_pid(argc, argv));
	show_table("vm", &s.table[KVM_FD_VM]);
	show_table("vcpu", &s.table[KVM_FD_VCPU]);
}

static void command_show(int argc, char **argv)
{
	struct sources s;
	unsigned int i;

	sources_open(&s, parse_pid(argc, argv));
	sources_read(&s);
	for (i = 0; i < s.count; i++)
		show_source(&s.source[i]);
}

static void command_top(int argc, char **argv)
{
	unsigned long count = 0;
	double seconds = 1;
	struct sources s;
	char *end;
	int c;

	/* the command stands where getopt() expects a program */
	opterr = 0;
	while ((c = getopt(argc + 1, argv - 1, "d:n:")) != -1) {
		errno = 0;
		switch (c) {
		case 'd':
			seconds = strtod(optarg, &end);
			if (end == optarg || *end || !(seconds >= 0.01) ||
			    seconds > 86400)
				errx(USAGE, "-d: not a number from 0.01 to 86400: '%s'",
				     optarg);
			break;
		case 'n':
			count = strtoul(optarg, &end, 10);
			if (errno || *end || !count || *optarg == '-')
				errx(USAGE, "-n: not a number above 0: '%s'",
				     optarg);
			break;
		default:
			errx(USAGE, "option -%c is unknown or incomplete (see kvm-stats --help)",
			     optopt);
		}
	}
	sources_open(&s, parse_pid(argc + 1 - optind, argv - 1 + optind));
	top(&s, seconds, count);
}

static const struct {
	const char *name;
	void (*run)(int argc, char **argv);
} commands[] = {
	{ "list", command_list },
	{ "describe", command_describe },
	{ "show", command_show },
	{ "top", command_top },
	{ NULL, NULL }
};

int main(int argc, char **argv)
{
	unsigned int i;

	if (argc < 2)
		errx(USAGE, "list, describe, show or top? (see kvm-stats --help)");

	if (!strcmp(argv[1], "--help")) {
		fputs(help, stdout);
	} else {
		for (i = 0; commands[i].name; i++) {
			if (!strcmp(commands[i].name, argv[1]))
				break;
		}
		if (!commands[i].name)
			errx(USAGE, "unknown command '%s' (see kvm-stats --help)",
			     argv[1]);
		commands[i].run(argc - 2, argv + 2);
	}
	if (fflush(stdout) || ferror(stdout))
		err(1, "standard output");
	return 0;
}
