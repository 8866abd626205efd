// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <bpf/bpf.h>

#include "bpf_check.h"
#include "bpf_iterator.h"
#include "bpf_program.h"
#include "privileges.h"

int bpf_program_open(unsigned int kinds,
		     int (*load)(void *arg, const struct bpf_program_layout *layout),
		     void *arg, struct kvmstats_probe *p)
{
	struct bpf_program_layout layout;
	char complaint[COMPLAINT_SIZE];
	int error;

	if (!privileges_first_pid_namespace()) {
		snprintf(p->why, sizeof(p->why), "this process is in a PID namespace");
		snprintf(p->help, sizeof(p->help),
			 "run it in the host's PID namespace, such as hostPID of a pod");
		return -EOPNOTSUPP;
	}
	error = bpf_program_layout_find(kinds, &layout, p->why, sizeof(p->why));
	if (error && !bpf_explain_shortage(error, p))
		snprintf(p->help, sizeof(p->help), "%s", error == -ENODEV ?
			 "load kvm_amd or kvm_intel" :
			 "use Linux 5.17 or later with CONFIG_DEBUG_INFO_BTF, and load KVM");
	if (error)
		return error;
	bpf_complaints(complaint);
	error = load(arg, &layout);
	bpf_complaints(NULL);
	if (error) {
		snprintf(p->why, sizeof(p->why), "loading the BPF program: %s%s%s%s",
			 strerror(-error), *complaint ? " (" : "", complaint,
			 *complaint ? ")" : "");
		bpf_explain_load(error, p);
	}
	return error;
}

int bpf_program_read(int map, void *keys, size_t key_size, void *values, size_t value_size,
		     size_t space, size_t *count)
{
	__u64 position;
	int error = 0;

	*count = 0;
	while (!error && *count < space) {
		__u32 n = space - *count;

		error = bpf_map_lookup_batch(map, *count ? &position : NULL, &position,
					     keys + *count * key_size,
					     values + *count * value_size, &n, NULL);
		if (error && errno != ENOENT)
			return -errno;
		*count += n;
	}
	return 0;
}
