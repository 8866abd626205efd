/* SPDX-License-Identifier: GPL-2.0-only */
/* Cost of BPF programs and maps, as measured by the kernel */
#ifndef BPF_COST_H
#define BPF_COST_H

#include <stdint.h>
#include <stdio.h>
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define COST_ROUNDS	20
#define COST_SWITCHES	20000

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

/* Let two processes wake each other through pipes. */
static inline void switch_threads(void)
{
	int there[2], back[2], i;
	char c = 0;
	pid_t pid;

	if (pipe(there) || pipe(back))
		return;
	pid = fork();
	/* Another owner, so that each switch starts a segment. */
	if (!pid)
		prctl(PR_SET_NAME, "other");
	for (i = 0; i < COST_SWITCHES / 2; i++) {
		if (!pid && read(there[0], &c, 1) == 1 && write(back[1], &c, 1) == 1)
			continue;
		if (pid && write(there[1], &c, 1) == 1 && read(back[0], &c, 1) == 1)
			continue;
		break;
	}
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	for (i = 0; i < 2; i++) {
		close(there[i]);
		close(back[i]);
	}
}

/* Return the cost of the program in nanoseconds: its best round less that of an empty program. */
static inline double measure_events(int program, int empty, void (*work)(void))
{
	double best = 1e9;
	int i;

	for (i = 0; i < COST_ROUNDS; i++) {
		const struct runs a = read_runs(program), e = read_runs(empty);
		double ns;

		work();
		ns = mean_ns(a, read_runs(program)) - mean_ns(e, read_runs(empty));
		if (ns < best)
			best = ns;
	}
	return best;
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
