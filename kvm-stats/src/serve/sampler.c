// SPDX-License-Identifier: GPL-2.0-only
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app.h"
#include "clock.h"
#include "confine.h"
#include "logging.h"
#include "notify.h"
#include "priority.h"
#include "rec_encode.h"
#include "sampler.h"
#include "stop.h"

#define RETRY_INTERVAL	(10 * SECOND)
#define MESSAGE_INTERVAL	(SECOND / 100)	/* between reads of the server's messages */
#define STOP_NS		SECOND		/* for a server that was asked to end */
#define WORK_NS		(5 * SECOND)	/* a server is replaced after this or --max-age */

/* A BPF program is loaded again after it failed, or KVM changed. */
struct retry {
	uint64_t next;			/* when */
	unsigned int source_changes;	/* when it was loaded */
	char why[256];			/* why it does not work, as printed; "" if it works */
};

static struct sampler {
	struct server *s;
	struct kvmstats *k;
	struct host host;		/* at the last sample */
	struct programs programs;
	struct retry retry[PROGRAMS];
	struct recorder *recorder;
	uint64_t sampled;		/* when the last sample ended, by app_now() */
	char doctor[2048];
	uint64_t next_diagnosis;
	pid_t server;			/* 0 if none runs */
	int socket;			/* to the server; -1 once it is killed */
	bool ready;			/* a server has started to serve */
	bool reloaded;			/* the server is replaced for a new configuration */
	uint64_t restart;		/* when the next server may start */
	uint64_t read;			/* when the messages of the server may be read */
	uint64_t worked;		/* when the server has worked, without the time of samples */
	uint64_t notified;		/* when the watchdog was notified, by app_now() */
} this_sampler;

/*
 * Store the report of doctor, which explains why no source works. Some of its probes
 * create a VM, so they run at intervals only.
 */
static void diagnose(struct sampler *sampler)
{
	struct kvmstats_probe probe;
	size_t n = 0;
	unsigned int i;

	if (app_now() < sampler->next_diagnosis)
		return;
	sampler->next_diagnosis = app_now() + RETRY_INTERVAL;
	*sampler->doctor = '\0';
	for (i = 0; !probe_source(i, NULL, &probe); i++) {
		if (n < sizeof(sampler->doctor))
			n += snprintf(sampler->doctor + n, sizeof(sampler->doctor) - n, "%s: %s%s%s\n", probe.name,
				      probe.why, *probe.help ? ": " : "", probe.help);
	}
}

/* As open_programs(), to be tried again later */
static void load_programs(struct sampler *sampler, unsigned int wanted, struct kvmstats_probe probe[PROGRAMS])
{
	unsigned int i;

	open_programs(&sampler->programs, wanted, EXITS_BY_REASON, kvmstats_first(sampler->k), probe);
	for (i = 0; i < PROGRAMS; i++) {
		if (!(wanted >> i & 1))
			continue;
		sampler->retry[i].source_changes = kvmstats_source_changes(sampler->k);
		sampler->retry[i].next = app_now() + RETRY_INTERVAL;
	}
	sampler->programs.blame.clean = true;
}

/* Load the programs that do not work, for the samples after this one; report why they do not. */
static void retry_programs(struct sampler *sampler)
{
	struct kvmstats_probe probe[PROGRAMS] = { 0 };
	unsigned int i, due = 0;

	for (i = 0; i < PROGRAMS; i++)
		due |= (exports_program(sampler->s, i) && !sampler->programs.open[i] &&
			app_now() >= sampler->retry[i].next) << i;
	if (!due)
		return;
	load_programs(sampler, due, probe);
	for (i = 0; i < PROGRAMS; i++) {
		char *why = sampler->retry[i].why;
		const bool works = sampler->programs.open[i];

		if (!(due >> i & 1))
			continue;
		if (!works && strcmp(probe[i].why, why))
			log_message(LOG_LEVEL_WARN, "%s: %s%s%s; will retry", program_names[i], probe[i].why,
				    *probe[i].help ? "; " : "", probe[i].help);
		snprintf(why, sizeof(sampler->retry[i].why), "%s", works ? "" : probe[i].why);
	}
}

static void load_exits_or_exit(struct sampler *sampler)
{
	struct kvmstats_probe probe[PROGRAMS] = { 0 };
	const struct kvmstats_probe *exits = &probe[PROGRAM_EXITS];

	load_programs(sampler, 1 << PROGRAM_EXITS, probe);
	if (!sampler->programs.open[PROGRAM_EXITS])
		errx(STATUS_NOTHING, "--exits: %s%s%s", exits->why, *exits->help ? "; " : "", exits->help);
}

/* Read the charges before a sample of the VMs, which may be newer. */
static void read_loaded_sums(struct sampler *sampler)
{
	unsigned int i;

	for (i = 0; i < PROGRAMS; i++) {
		/* The program may have the offsets of another module. */
		if (!sampler->programs.open[i] ||
		    (kvmstats_source_changes(sampler->k) == sampler->retry[i].source_changes &&
		     !read_sums(sampler->programs.open[i])))
			continue;
		close_sums(sampler->programs.open[i]);
		sampler->programs.open[i] = NULL;
		sampler->retry[i].next = app_now() + RETRY_INTERVAL;
	}
}

/* Write the recording of a sample to standard output, which is a file in memory. */
static void write_stream(struct sampler *sampler, bool failed, uint64_t begin, bool no_source)
{
	struct bytes report = { 0 };
	unsigned int i;

	sampler->host = host_now();
	sampler->sampled = app_now();
	if (lseek(STDOUT_FILENO, 0, SEEK_SET) || ftruncate(STDOUT_FILENO, 0))
		err(STATUS_NOTHING, "cannot write a sample");
	for (i = 0; i < PROGRAMS; i++) {
		if (!sampler->programs.open[i])
			continue;
		record_sums(sampler->programs.open[i], sampler->recorder, program_kinds[i], MAX_ITEMS, 0);
		forget_sums(sampler->programs.open[i], NULL, NULL);
	}
	bytes_number(&report, sampler->sampled - begin);
	bytes_number(&report, read_cpu_time(RUSAGE_SELF) + read_cpu_time(RUSAGE_CHILDREN));
	bytes_number(&report, failed);
	bytes_number(&report, sampler->host.cpu_pressure);
	bytes_text(&report, no_source ? sampler->doctor : kvmstats_problem(sampler->k));
	recorder_add(sampler->recorder, RECORDED_REPORT, &report);
	free(report.data);
	recorder_sample(sampler->recorder, sampler->k, sampler->host, app_wall(sampler->sampled));
}

static void sample_host(struct sampler *sampler)
{
	const uint64_t begin = app_now();
	bool failed, no_source;

	read_loaded_sums(sampler);
	failed = kvmstats_sample(sampler->k);
	add_programs(&sampler->programs, kvmstats_first(sampler->k), NULL, 0);
	no_source = !strcmp(kvmstats_source(sampler->k), "none");
	if (no_source)
		diagnose(sampler);
	write_stream(sampler, failed, begin, no_source);
	if (!no_source)
		retry_programs(sampler);
}

/* Update the model in this process. */
static void read_stream(struct sampler *sampler)
{
	struct server *s = sampler->s;

	lseek(STDIN_FILENO, 0, SEEK_SET);
	if (!s->in.rec) {
		s->in.rec = recording_of_own(sampler->k);
		open_recorded_sums(s, "-");
	}
	if (!recording_fetch(s->in.rec))
		errx(STATUS_NOTHING, "cannot read a sample");
	recording_skip(s->in.rec, sampler->host);
	update_model(s, 0, false);
}

/*
 * Kill the server, which has ended or does not do its work; wait_or_fork() starts its successor.
 * problem: what it does, NULL if it has ended
 */
static void kill_server(struct sampler *sampler, const char *problem)
{
	if (problem)
		log_message(LOG_LEVEL_ERROR, "%s", problem);
	close(sampler->socket);
	sampler->socket = -1;
	kill(sampler->server, SIGKILL);
}

/* Return when a server that does no work is replaced: it would only serve errors by then. */
static uint64_t work_end(const struct sampler *sampler, uint64_t since)
{
	return since + (sampler->s->settings.max_age > WORK_NS ? sampler->s->settings.max_age : WORK_NS);
}

/* Send the sample to the server, and wait for it if it is slow. */
static void send_stream(struct sampler *sampler)
{
	struct pollfd poll_fds[] = {
		{ .fd = sampler->socket, .events = POLLOUT }, { .fd = stop_fd(), .events = POLLIN },
	};
	const uint64_t end = work_end(sampler, read_clock(CLOCK_MONOTONIC));
	const off_t size = lseek(STDOUT_FILENO, 0, SEEK_CUR);
	uint64_t now;
	off_t at = 0;

	while (sampler->socket >= 0 && at < size && !poll_fds[1].revents) {
		if (sendfile(sampler->socket, STDOUT_FILENO, &at, size - at) >= 0)
			continue;
		now = read_clock(CLOCK_MONOTONIC);
		if (errno != EAGAIN || (now < end && poll(poll_fds, 2, (end - now) / 1000000 + 1) < 0))
			break;
		if (now >= end)
			kill_server(sampler, "the process that serves reads no samples");
	}
}

static bool is_kept(const struct server *s, int fd)
{
	unsigned int i;

	for (i = 0; i < s->nr_listening; i++) {
		if (fd == s->listening[i])
			return true;
	}
	return fd <= STDERR_FILENO || fd == s->model->proc;
}

/* Close the remaining files of the sampler. */
static void close_inherited(const struct server *s)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;

	if (!dir)
		err(STATUS_NOTHING, "cannot read /proc/self/fd");
	while ((entry = readdir(dir))) {
		if (atoi(entry->d_name) != dirfd(dir) && !is_kept(s, atoi(entry->d_name)))
			close(atoi(entry->d_name));
	}
	closedir(dir);
}

/* Return true in the child. */
static bool start_server(struct sampler *sampler)
{
	const pid_t parent = getpid();
	int pair[2];

	sampler->restart = read_clock(CLOCK_MONOTONIC) + SECOND;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		err(STATUS_NOTHING, "cannot start to serve");
	sampler->server = fork();
	if (sampler->server < 0)
		err(STATUS_NOTHING, "cannot start to serve");
	if (sampler->server) {
		sampler->worked = sampler->read = read_clock(CLOCK_MONOTONIC);
		close(pair[1]);
		sampler->socket = pair[0];
		fcntl(sampler->socket, F_SETFL, O_NONBLOCK);
		recorder_restart(sampler->recorder);
		return false;
	}
	/* Clients must not take the CPUs from the VMs. */
	lower_priority();
	if (sampler->s->own_user)
		change_user();
	/* A change of the user would reset it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(STATUS_NOTHING);
	sampler->s->only_samples = false;
	sampler->s->model->proc = core_proc(sampler->k);
	recording_continue(sampler->s->in.rec);
	close_programs(&sampler->programs);
	recorder_close(sampler->recorder);
	dup2(pair[1], STDIN_FILENO);
	dup2(pair[1], STDOUT_FILENO);
	close_inherited(sampler->s);
	return true;
}

/*
 * Forget a server that has ended. The first one reports why it cannot start. Later ones may be able
 * to.
 */
static void reap_server(struct sampler *sampler)
{
	int status;

	/* Don't wait: the kernel may not be able to end it yet. */
	if (waitpid(sampler->server, &status, WNOHANG) != sampler->server)
		return;
	if (!sampler->ready)
		exit(WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_NOTHING);
	if (!sampler->reloaded)
		log_message(LOG_LEVEL_ERROR, "the process that serves has ended (%s %d); starting another one",
			    WIFSIGNALED(status) ? "signal" : "status",
			    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	sampler->reloaded = false;
	sampler->server = 0;
}

/* Read web.yml again if it was changed, for a server that may not read it, and replace the server. */
static void reload(struct sampler *sampler)
{
	const unsigned int generation = sampler->s->config_generation;

	if (!sampler->ready || sampler->socket < 0 || !sampler->s->own_user)
		return;
	reload_config(sampler->s, app_now());
	if (sampler->s->config_generation == generation)
		return;
	sampler->reloaded = true;
	sampler->restart = 0;
	kill_server(sampler, NULL);
}

/* Notify systemd's watchdog, however often the server asks for it, but only while samples are taken. */
static void notify_watchdog(struct sampler *sampler)
{
	const uint64_t now = app_now();

	if (!sampler->s->watchdog || now - sampler->notified < sampler->s->watchdog ||
	    now - sampler->sampled > 2 * sampler->s->settings.max_age)
		return;
	sampler->notified = now;
	notify("WATCHDOG=1");
}

/*
 * Read the messages of the server, which anyone may have sent who has taken it over. Return true
 * if a sample is wanted now.
 */
static bool handle_messages(struct sampler *sampler)
{
	char messages[4096];
	const ssize_t n = read(sampler->socket, messages, sizeof(messages));

	sampler->read = read_clock(CLOCK_MONOTONIC) + MESSAGE_INTERVAL;
	if (n <= 0) {
		kill_server(sampler, NULL);
		return false;
	}
	if (!sampler->ready && memchr(messages, SERVER_READY, n)) {
		sampler->ready = true;
		sampler->notified = app_now();
		notify("READY=1");
	}
	if (memchr(messages, SERVER_WORKS, n)) {
		sampler->worked = read_clock(CLOCK_MONOTONIC);
		notify_watchdog(sampler);
	}
	/* Wanted while the last one was taken: it may have been taken long ago. */
	return memchr(messages, SAMPLE_WANTED, n) && sample_is_due(sampler->s, sampler->sampled);
}

/*
 * Wait for the time of the next sample, a request for it, or a signal. Return true in a new
 * child.
 */
static bool wait_or_fork(struct sampler *sampler, uint64_t *next)
{
	struct pollfd poll_fds[] = { { .fd = stop_fd(), .events = POLLIN }, { .events = POLLIN } };
	uint64_t note = app_note_time(*next), now, until;
	int n;

	while (!stop_requested()) {
		now = read_clock(CLOCK_MONOTONIC);
		reload(sampler);
		if (sampler->socket >= 0 && now >= work_end(sampler, sampler->worked))
			kill_server(sampler, "the process that serves does not work");
		if (sampler->server && sampler->socket < 0)
			reap_server(sampler);
		if (!sampler->server && now >= sampler->restart && start_server(sampler))
			return true;
		if (now >= *next)
			break;
		if (now >= note) {
			source_note(sampler->k);
			note = NOTED;
		}
		/* when the server may start, has ended, or may have sent more messages */
		until = !sampler->server ? sampler->restart : sampler->socket < 0 ? now + MESSAGE_INTERVAL : sampler->read;
		until = until > now && until < *next ? until : *next;
		until = note < until ? note : until;
		poll_fds[1].fd = sampler->server && now >= sampler->read ? sampler->socket : -1;
		n = ppoll(poll_fds, 2, &(struct timespec){ (until - now) / SECOND,
							   (until - now) % SECOND }, NULL);
		if (n > 0 && !poll_fds[0].revents && handle_messages(sampler)) {
			*next = app_now();
			break;
		}
	}
	return false;
}

static void stop_sampler(struct sampler *sampler)
{
	const uint64_t end = read_clock(CLOCK_MONOTONIC) + STOP_NS;

	notify("STOPPING=1");
	/* The server ends at the end of its input. */
	if (sampler->socket >= 0)
		shutdown(sampler->socket, SHUT_RDWR);
	while (sampler->server && !waitpid(sampler->server, NULL, WNOHANG) && read_clock(CLOCK_MONOTONIC) < end)
		nanosleep(&(struct timespec){ .tv_nsec = MESSAGE_INTERVAL }, NULL);
	if (sampler->server)
		kill(sampler->server, SIGKILL);
	close_programs(&sampler->programs);
	kvmstats_close(sampler->k);
	exit(STATUS_OK);
}

/* Open a file in memory as output and input. */
static void open_streams(void)
{
	const int fd = memfd_create("sample", MFD_CLOEXEC);

	if (fd < 0 || dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
		err(STATUS_NOTHING, "cannot create a file in memory");
}

void fork_server(struct server *s)
{
	struct sampler *sampler = &this_sampler;
	uint64_t next = app_now(), begin;

	sampler->s = s;
	sampler->socket = -1;
	s->live = s->only_samples = true;
	s->own_user = needs_own_user();
	/* A server with the user ID of this process must not write its files in /proc. */
	prctl(PR_SET_DUMPABLE, 0);
	open_streams();
	open_sockets(s);
	if (kvmstats_open(&sampler->k, NULL, NULL, KVMSTATS_WAIT))
		errx(STATUS_NOTHING, "out of memory");
	if (exports_program(s, PROGRAM_EXITS))
		load_exits_or_exit(sampler);
	s->in.k = sampler->k;
	sampler->recorder = recorder_open("-", 0);
	sample_host(sampler);
	read_stream(sampler);
	for (;;) {
		/* If samples take longer than the interval, don't catch up. */
		next += s->interval;
		if (next < app_now())
			next = app_now() + s->interval;
		if (wait_or_fork(sampler, &next))
			return;
		if (stop_requested())
			stop_sampler(sampler);
		begin = read_clock(CLOCK_MONOTONIC);
		sample_host(sampler);
		send_stream(sampler);
		read_stream(sampler);
		/* The messages of the server were not read. */
		sampler->worked += read_clock(CLOCK_MONOTONIC) - begin;
	}
}
