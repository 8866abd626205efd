/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* KVM reports VM creation and destruction by uevents of its device. */
#ifndef KVMSTATS_UEVENT_H
#define KVMSTATS_UEVENT_H

#include <stdbool.h>
#include <stdint.h>

/* A socket to be closed, or a negative errno */
int uevent_open(void);

/* Whether there was one of KVM's since the last call, or may have been; fd < 0: true */
bool uevent_of_kvm(int fd);

/* For who looks for VMs at each sample */
struct uevents {
	int fd;			/* -1 if unavailable */
	bool expected;		/* there is news at the next sample */
};

void uevents_open(struct uevents *events);
void uevents_close(struct uevents *events);

/* Call after creating a VM: disables uevents if none was received. */
void uevents_check(struct uevents *events);

/*
 * Return whether VMs may have been created or destroyed since the previous sample, also at
 * the sample after: KVM sends the event before the process has the file.
 */
bool uevents_news(struct uevents *events);
void uevents_expect(struct uevents *events);

/* VMs that were destroyed, as KVM counts them */
struct uevent_count;
struct uevent_count *uevent_count_open(void);	/* NULL if unavailable */
void uevent_count_close(struct uevent_count *count);
/* Start to count now, after this process has tried KVM with VMs of its own. */
void uevent_count_restart(struct uevent_count *count);
/*
 * Set the number of VMs destroyed since then, without those of this process.
 * Return false until the first event, which has the numbers to start from.
 */
bool uevent_count_destroyed(struct uevent_count *count, uint64_t *destroyed);

#endif /* KVMSTATS_UEVENT_H */
