/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* KVM tells everybody that a VM was made or has ended, by events of its device. */
#ifndef KVMSTATS_UEVENT_H
#define KVMSTATS_UEVENT_H

#include <stdbool.h>

/* A socket to be closed, or a negative errno */
int uevent_open(void);

/* Whether there was one of KVM's since the last call, or may have been; fd < 0: true */
bool uevent_of_kvm(int fd);

#endif /* KVMSTATS_UEVENT_H */
