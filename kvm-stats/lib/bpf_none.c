// SPDX-License-Identifier: LGPL-2.1-or-later
/* Replaces the source "bpf" if it was not built. */
#include <errno.h>
#include <stdio.h>

#include "source.h"

int bpf_none_explain(struct kvmstats_probe *p)
{
	snprintf(p->why, sizeof(p->why), "this program was built without it");
	snprintf(p->help, sizeof(p->help), "build it where clang, bpftool and libbpf are");
	return -EOPNOTSUPP;
}

static int bpf_open(struct kvmstats *k, void **state, struct kvmstats_probe *p)
{
	return bpf_none_explain(p);
}

const struct source_ops source_bpf = {
	.name = "bpf",
	.what = "a BPF program that looks at the open files of all processes",
	.open = bpf_open,
};
