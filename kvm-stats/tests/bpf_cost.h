/* SPDX-License-Identifier: GPL-2.0-only */
/* Cost of BPF programs and maps, as measured by the kernel */
#ifndef BPF_COST_H
#define BPF_COST_H

#include <stdint.h>
#include <stdio.h>
#include <bpf/bpf.h>
#include <linux/bpf.h>

/* Runs of a program since it was loaded, while BPF_STATS_RUN_TIME is enabled */
struct runs {
	uint64_t ns, count;
};

static inline struct runs read_runs(int program)
{
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);

	bpf_obj_get_info_by_fd(program, &info, &size);
	return (struct runs){ info.run_time_ns, info.run_cnt };
}

/* Mean nanoseconds of a run between two reads */
static inline double mean_ns(struct runs before, struct runs after)
{
	return (double)(after.ns - before.ns) / (after.count - before.count);
}

/*
 * Attach an empty program to a raw tracepoint, which shows the cost of calling a program.
 * Return its fd, and the fd of its link.
 */
static inline int load_empty(const char *tracepoint, int *link)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "empty", "GPL", insns, 2, NULL);

	*link = fd < 0 ? fd : bpf_raw_tracepoint_open(tracepoint, fd);
	return fd;
}

/* Bytes of a map, 0 if the kernel does not report them */
static inline unsigned long map_memory(int map)
{
	unsigned long bytes = 0;
	char path[64], line[128];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", map);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "memlock: %lu", &bytes);
	if (f)
		fclose(f);
	return bytes;
}

#endif /* BPF_COST_H */
