/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * VMs of other processes, with and without uevents: checks for each source that listens to
 * uevents. Included once, by the test of a source.
 */
#ifndef UEVENT_TEST_H
#define UEVENT_TEST_H

#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "probe_vm.h"
#include "tap.h"
#include "uevent.h"
#include "vm.h"

static char why[256];
/* Other VMs of this host cause uevents; with this the source receives none. */
static bool silent;

bool __real_uevents_news(struct uevents *events);
bool __wrap_uevents_news(struct uevents *events);
bool __wrap_uevents_news(struct uevents *events)
{
	return __real_uevents_news(events) && !silent;
}

/* Create a VM, report it, and on request create a child that has the VM open. */
static void run_maker(int from, int to)
{
	pid_t pid = getpid();
	struct probe_vm own;
	char c;

	if (probe_vm_open(&own, 1, why, sizeof(why)))
		return;
	while (write(to, &pid, sizeof(pid)) == sizeof(pid) &&
	       read(from, &c, 1) == 1 && (pid = fork()))
		;
	for (;;)
		pause();
}

static pid_t read_pid(const struct peer *maker)
{
	pid_t pid;

	if (read(maker->from, &pid, sizeof(pid)) != sizeof(pid))
		errx(1, "a VM of another process");
	return pid;
}

static struct peer start_maker(void)
{
	const struct peer maker = start_peer(run_maker);

	read_pid(&maker);
	return maker;
}

static pid_t start_heir(const struct peer *maker)
{
	need(write(maker->to, "", 1), "write");
	return read_pid(maker);
}

/* One with so many files that it costs to go through them */
static pid_t fork_neighbour(void)
{
	pid_t pid = fork_child();
	int i;

	if (pid)
		return pid;
	for (i = 0; i < 1000; i++)
		dup(STDERR_FILENO);
	for (;;)
		pause();
}

/* KVM says nothing of a VM that changes hands: its file is missed. */
static void test_heir(const char *source)
{
	pid_t heir, neighbour = fork_neighbour();
	struct peer maker;
	struct kvmstats *k;
	int i;

	if (kvmstats_open(&k, source, NULL, 0)) {
		tap_result(false, "the source %s", source);
		return;
	}
	maker = start_maker();
	/* the first ones look at all processes */
	for (i = 0; i < 5; i++)
		kvmstats_sample(k);
	silent = true;
	heir = start_heir(&maker);
	kvmstats_sample(k);
	tap_result(find_vm(k, maker.pid) && !find_vm(k, heir), "a VM is of the one that made it");
	end_peer(&maker);
	tap_result(!kvmstats_sample(k) && find_vm(k, heir) && !find_vm(k, heir)->ended,
		   "a VM is reported at once when another process has it");
	silent = false;
	kill(heir, SIGKILL);
	end_process(neighbour);
	kvmstats_close(k);
}

static bool is_told(void)
{
	int events = uevent_open();
	struct probe_vm own;
	bool told = false;

	if (events < 0)
		return false;
	if (!probe_vm_open(&own, PROBE_VCPU_ID, why, sizeof(why))) {
		told = uevent_of_kvm(events);
		probe_vm_close(&own);
		told = told && uevent_of_kvm(events);
	}
	close(events);
	return told;
}

/* Send the uevent of a destroyed VM from this process, which needs CAP_NET_ADMIN. */
static bool send_event(int from, int created)
{
	const struct sockaddr_nl to = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	char event[128];
	int size = snprintf(event, sizeof(event), "change@/devices/virtual/misc/kvm%cACTION=change%c"
			    "CREATED=%d%cCOUNT=0%cEVENT=destroy%cPID=1", 0, 0, created, 0, 0, 0) + 1;

	return sendto(from, event, size, 0, (void *)&to, sizeof(to)) == size;
}

/* Other VMs of this host cause real uevents: repeat until a moment without them. */
static void test_forged(void)
{
	int from = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);
	struct uevent_count *count = uevent_count_open();
	int events = uevent_open(), attempts = 1000;
	struct probe_vm own;
	uint64_t destroyed;
	bool sent, heard;

	do {
		sent = send_event(from, 1000000) && send_event(from, 2000000);
		heard = uevent_of_kvm(events);
	} while (sent && heard && --attempts);
	tap_result(sent && !heard &&
		   (!uevent_count_destroyed(count, &destroyed) || destroyed < 1000),
		   "uevents of processes are ignored");
	if (!probe_vm_open(&own, 1, why, sizeof(why)))
		probe_vm_close(&own);
	tap_result(uevent_of_kvm(events) && uevent_count_destroyed(count, &destroyed) && destroyed < 1000,
		   "the next ones of the kernel are not");
	uevent_count_close(count);
	close(events);
	close(from);
}

static void run_in_namespaces(int from, int to)
{
	if (!unshare(CLONE_NEWUSER | CLONE_NEWNET) && write(to, "", 1) == 1)
		pause();
}

/* To the network namespace of a new user namespace, as containers have it */
static bool enter_other_network(void)
{
	const struct peer peer = start_peer(run_in_namespaces);
	const int pidfd = syscall(SYS_pidfd_open, peer.pid, 0);
	char c;
	const bool entered = read(peer.from, &c, 1) == 1 && !setns(pidfd, CLONE_NEWNET);

	close(pidfd);
	end_peer(&peer);
	return entered;
}

/* Create a VM on request, and report it. */
static void run_idle(int from, int to)
{
	struct probe_vm own;
	char c;

	if (read(from, &c, 1) == 1 && !probe_vm_open(&own, 1, why, sizeof(why)) &&
	    write(to, &c, 1) == 1)
		pause();
}

/* The next message of the kernel is lost: our socket for them is small, and full. */
static bool fill_socket(void)
{
	const int size = 1;
	int fd, type, i, uevent = open("/sys/class/mem/null/uevent", O_WRONLY | O_CLOEXEC);
	socklen_t len = sizeof(type);
	bool full = false;

	for (fd = 0; fd < 1000; fd++) {
		if (!getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &type, &len) && type == AF_NETLINK &&
		    !getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &type, &len) &&
		    type == NETLINK_KOBJECT_UEVENT)
			full = !setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	}
	for (i = 0; full && i < 100; i++)
		full = write(uevent, "change", 6) == 6;
	close(uevent);
	return full;
}

/* A VM of an old process is reported at the next sample, with or without uevents. */
static void see_at_once(const char *source, const char *where, bool (*before)(void))
{
	const struct peer maker = start_peer(run_idle);
	struct kvmstats *k;
	int i;

	if (kvmstats_open(&k, source, NULL, 0)) {
		tap_result(false, "%s: the source %s", where, source);
		return;
	}
	for (i = 0; i < 5; i++)
		kvmstats_sample(k);
	if (before)
		tap_result(before(), "%s: there is no room for it", where);
	tap_result(ask_peer(&maker, 0) && !find_vm(k, maker.pid),
		   "%s: an old process creates a VM", where);
	kvmstats_sample(k);
	tap_result(find_vm(k, maker.pid), "%s: the VM is reported at the next sample", where);
	end_peer(&maker);
	kvmstats_close(k);
}

static void test_told(const char *source)
{
	pid_t neighbour = fork_neighbour();

	test_forged();
	tap_result(is_told(), "uevents report VM creation and destruction");
	see_at_once(source, "told", NULL);
	see_at_once(source, "told, and it is lost", fill_socket);
	tap_result(!unshare(CLONE_NEWNET) && is_told(), "also in another network namespace");
	tap_result(enter_other_network() && !is_told(), "but not in one of other users");
	see_at_once(source, "not told", NULL);
	end_process(neighbour);
}

#endif /* UEVENT_TEST_H */
