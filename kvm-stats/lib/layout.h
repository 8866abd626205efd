/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The layout of the public structures on 64-bit hosts, as guaranteed by libkvmstats.so.1: a
 * row is never changed or removed. Structures without a SIZE are allocated by the library
 * only, and may get members at the end.
 */
#ifndef KVMSTATS_LAYOUT_H
#define KVMSTATS_LAYOUT_H

#include "kvmstats.h"

#if UINTPTR_MAX > UINT32_MAX

#define SIZE(type, bytes)							\
	_Static_assert(sizeof(struct type) == (bytes), "size of struct " #type)
#define AT(type, member, bytes)							\
	_Static_assert(offsetof(struct type, member) == (bytes),		\
		       "offset of " #member " in struct " #type)

SIZE(kvmstats_desc, 64);
AT(kvmstats_desc, name, 0);
AT(kvmstats_desc, type, 8);
AT(kvmstats_desc, unit, 12);
AT(kvmstats_desc, base, 16);
AT(kvmstats_desc, exponent, 20);
AT(kvmstats_desc, size, 24);
AT(kvmstats_desc, offset, 28);
AT(kvmstats_desc, bucket_size, 32);

AT(kvmstats_table, count, 0);
AT(kvmstats_table, desc, 8);
AT(kvmstats_table, data_size, 16);

SIZE(kvmstats_identity, 1216);
AT(kvmstats_identity, label, 0);
AT(kvmstats_identity, name, 128);
AT(kvmstats_identity, domain, 256);
AT(kvmstats_identity, uuid, 384);
AT(kvmstats_identity, vmm, 421);
AT(kvmstats_identity, machine, 453);
AT(kvmstats_identity, pod_uid, 581);
AT(kvmstats_identity, container_id, 618);
AT(kvmstats_identity, cgroup, 683);
AT(kvmstats_identity, pid, 940);
AT(kvmstats_identity, vm_id, 944);
AT(kvmstats_identity, started, 952);

SIZE(kvmstats_times, 96);
AT(kvmstats_times, elapsed, 0);
AT(kvmstats_times, known, 8);
AT(kvmstats_times, mode, 16);

SIZE(kvmstats_activity, 224);
AT(kvmstats_activity, times, 0);
AT(kvmstats_activity, known, 96);
AT(kvmstats_activity, event, 104);

AT(kvmstats_vcpu, id, 0);
AT(kvmstats_vcpu, tid, 4);
AT(kvmstats_vcpu, first_sample, 8);
AT(kvmstats_vcpu, values, 16);
AT(kvmstats_vcpu, before, 24);
AT(kvmstats_vcpu, last, 32);
AT(kvmstats_vcpu, times, 256);
AT(kvmstats_vcpu, total, 352);

AT(kvmstats_vm, next, 0);
AT(kvmstats_vm, nth, 8);
AT(kvmstats_vm, identity, 16);
AT(kvmstats_vm, first_sample, 1232);
AT(kvmstats_vm, ended, 1233);
AT(kvmstats_vm, time, 1240);
AT(kvmstats_vm, elapsed, 1248);
AT(kvmstats_vm, values, 1256);
AT(kvmstats_vm, before, 1264);
AT(kvmstats_vm, vcpus_ambiguous, 1272);
AT(kvmstats_vm, vcpus, 1276);
AT(kvmstats_vm, vcpu, 1280);
AT(kvmstats_vm, vcpu_sum, 1288);
AT(kvmstats_vm, vcpu_growth, 1296);
AT(kvmstats_vm, sum, 1304);
AT(kvmstats_vm, times, 1528);
AT(kvmstats_vm, vcpu_total, 1624);
AT(kvmstats_vm, total, 1632);
AT(kvmstats_vm, ended_at, 1640);

SIZE(kvmstats_options, 88);
AT(kvmstats_options, source, 0);
AT(kvmstats_options, proc, 8);
AT(kvmstats_options, wait, 16);

SIZE(kvmstats_probe, 600);
AT(kvmstats_probe, name, 0);
AT(kvmstats_probe, what, 8);
AT(kvmstats_probe, works, 16);
AT(kvmstats_probe, why, 17);
AT(kvmstats_probe, help, 273);

#undef SIZE
#undef AT

#endif /* 64 bits */

#endif /* KVMSTATS_LAYOUT_H */
