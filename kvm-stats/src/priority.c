// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "priority.h"

/*
 * Loading the BPF programs takes up to 0.7 s without sleeping. The kernel itself interrupts
 * real-time threads after 0.95 s.
 */
#define REALTIME_MAX_US	1000000

static void end_realtime(int sig)
{
	const int saved = errno;

	sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 });
	errno = saved;
}

void raise_priority(void)
{
	const struct sigaction action = { .sa_handler = end_realtime, .sa_flags = SA_RESTART };
	struct rlimit limit;

	if (sched_getscheduler(0) != SCHED_OTHER || getpriority(PRIO_PROCESS, 0) != 0)
		return;
	setpriority(PRIO_PROCESS, 0, -20);
	/* Without this limit, a defect of kvm-stats would take a CPU from all VMs. */
	if (getrlimit(RLIMIT_RTTIME, &limit) || sigaction(SIGXCPU, &action, NULL))
		return;
	limit.rlim_cur = REALTIME_MAX_US;
	if (!setrlimit(RLIMIT_RTTIME, &limit))
		sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 });
}

void lower_priority(void)
{
	const int policy = sched_getscheduler(0);

	if (policy == SCHED_FIFO || policy == SCHED_RR)
		sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 });
	if (getpriority(PRIO_PROCESS, 0) < 0)
		setpriority(PRIO_PROCESS, 0, 0);
}
