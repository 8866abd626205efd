/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* KVM tells everybody that a VM was made or has ended, by events of its device. */
#ifndef KVMSTATS_UEVENT_H
#define KVMSTATS_UEVENT_H

#include <stdbool.h>

/* A socket to be closed, or a negative errno */
int uevent_open(void);

/* Whether there was one of KVM's since the last call, or may have been; fd < 0: true */
bool uevent_of_kvm(int fd);

/* For who looks for VMs at each sample */
struct uevents {
	int fd;			/* -1: nothing is heard */
	bool expected;		/* there is news at the next sample */
};

void uevents_open(struct uevents *events);
void uevents_close(struct uevents *events);

/* A VM was made meanwhile: if that was not heard, nothing is. */
void uevents_check(struct uevents *events);

/*
 * Whether a VM may have come or gone since the sample before; so it is also at the sample
 * after one: KVM tells of a new VM before its process has its file.
 */
bool uevents_news(struct uevents *events);
void uevents_expect(struct uevents *events);

#endif /* KVMSTATS_UEVENT_H */
