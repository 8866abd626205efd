// SPDX-License-Identifier: GPL-2.0-only
/*
 * PID 1 of the test machine. Execute the tab-separated lines of /lab/plan,
 *
 *	verdict NODE		open the result channel
 *	module FILE		load a kernel module
 *	test NAME PROGRAM ARG...	run a program
 *
 * and write these lines to the result channel:
 *
 *	begin NAME
 *	| TEXT			a line of the program's output
 *	> TEXT			output without a newline so far
 *	exit NAME STATUS	the exit status as in a shell
 *	end			the last line
 *
 * PID 1 exits on any error, which makes the kernel panic: "end" is missing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define MAX_ARGS 64

static FILE *verdict;

static void die(const char *what)
{
	fprintf(stderr, "init: %s: %s\n", what, strerror(errno));
	/* Print the message before the panic. */
	tcdrain(STDERR_FILENO);
	exit(1);
}

static void mount_at(const char *type, const char *path)
{
	mkdir(path, 0755);
	if (mount(type, path, type, 0, NULL))
		die(path);
}

static void open_verdict(const char *node)
{
	struct termios raw;
	int i, fd = -1;

	/* The kernel may still be probing its devices. */
	for (i = 0; i < 600 && fd < 0; i++) {
		if (i)
			usleep(100000);
		fd = open(node, O_RDWR | O_NOCTTY | O_CLOEXEC);
		if (fd < 0 && errno != ENOENT && errno != ENODEV)
			break;
	}
	if (fd < 0)
		die(node);
	/* Turn off the translation of newlines. */
	if (!tcgetattr(fd, &raw)) {
		cfmakeraw(&raw);
		tcsetattr(fd, TCSANOW, &raw);
	}
	verdict = fdopen(fd, "w");
	if (!verdict)
		die(node);
}

static void load_module(const char *file)
{
	int fd = open(file, O_RDONLY);

	if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
		die(file);
	close(fd);
}

/* Report output of the program without waiting for the rest of a line. */
static void report(const char *text, size_t len)
{
	while (len) {
		const char *newline = memchr(text, '\n', len);
		size_t part = newline ? (size_t)(newline - text) : len;

		fputs(newline ? "| " : "> ", verdict);
		fwrite(text, 1, part, verdict);
		fputc('\n', verdict);
		part += !!newline;
		text += part;
		len -= part;
	}
	fflush(verdict);
}

static void on_sigchld(int sig)
{
}

/* Report output until the program has exited and the pipe is closed; return the wait status. */
static int follow(pid_t pid, int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	bool running = true;
	char text[4096];
	sigset_t none;
	int status;
	ssize_t len;

	sigemptyset(&none);
	for (;;) {
		/* SIGCHLD is blocked outside of ppoll(), so none is lost. */
		int reaped, end;

		while ((reaped = waitpid(-1, &end, WNOHANG)) > 0) {
			if (reaped != pid)
				continue;
			status = end;
			running = false;
			/* Kill the remaining children, which keep the pipe open. */
			kill(-1, SIGKILL);
		}
		if (!running && poll_fd.fd < 0)
			return status;
		if (ppoll(&poll_fd, 1, NULL, &none) < 0) {
			if (errno == EINTR)
				continue;
			die("ppoll");
		}
		len = read(fd, text, sizeof(text));
		if (len > 0)
			report(text, len);
		else
			poll_fd.fd = -1;
	}
}

static int run(char **argv)
{
	int fds[2], status;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		setsid();
		dup2(fds[1], STDOUT_FILENO);
		dup2(fds[1], STDERR_FILENO);
		execv(argv[0], argv);
		fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	close(fds[1]);
	status = follow(pid, fds[0]);
	close(fds[0]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void run_test(const char *name, char **argv)
{
	fprintf(verdict, "begin %s\n", name);
	fflush(verdict);
	fprintf(verdict, "exit %s %d\n", name, run(argv));
	fflush(verdict);
}

static void follow_plan(void)
{
	FILE *plan = fopen("/lab/plan", "r");
	char *line = NULL;
	size_t size = 0;

	if (!plan)
		die("/lab/plan");
	while (getline(&line, &size, plan) > 0) {
		char *args[MAX_ARGS + 1], *rest = line;
		int n = 0;

		line[strcspn(line, "\n")] = '\0';
		while (n < MAX_ARGS && (args[n] = strsep(&rest, "\t")))
			n++;
		args[n] = NULL;
		if (n == 2 && !strcmp(args[0], "verdict"))
			open_verdict(args[1]);
		else if (n == 2 && !strcmp(args[0], "module"))
			load_module(args[1]);
		else if (n > 2 && !strcmp(args[0], "test"))
			run_test(args[1], args + 2);
		else
			die(args[0]);
	}
}

int main(void)
{
	sigset_t child;

	mount_at("devtmpfs", "/dev");
	mount_at("proc", "/proc");
	mount_at("sysfs", "/sys");
	mount_at("debugfs", "/sys/kernel/debug");
	mount_at("tmpfs", "/tmp");
	setenv("PATH", "/lab/bin:/usr/bin:/bin:/usr/sbin:/sbin", 1);

	signal(SIGCHLD, on_sigchld);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);

	follow_plan();

	fputs("end\n", verdict);
	fflush(verdict);
	tcdrain(fileno(verdict));
	reboot(RB_AUTOBOOT);
	die("reboot");
}
