/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The worst problem of a VM over some time, in one word: for "top", "why" and the page of serve.
 */
#ifndef PROBLEM_H
#define PROBLEM_H

#include <stdbool.h>
#include <stdint.h>

#include "structures.h"

/* The worst last */
enum problem {
	PROBLEM_NONE,
	PROBLEM_ENDED,
	PROBLEM_POLLING,
	PROBLEM_EXITS,
	PROBLEM_STALLED,
	PROBLEM_STUCK,
	PROBLEM_THROTTLED,
	PROBLEM_STARVED,
	PROBLEM_FAILED,
	PROBLEMS
};

/* What a VM did */
struct problem_facts {
	uint16_t share[KVMSTATS_MODES];	/* permille of its vCPUs' time; all 0 if unknown */
	uint64_t exits;		/* per second and vCPU */
	uint64_t failed;	/* instructions that KVM could not emulate */
	bool ended;
};

struct judgement {
	enum problem problem;
	uint64_t weight;	/* among VMs with the same problem; the largest is the worst */
};

struct judgement judge_problem(const struct problem_facts *facts);

/*
 * The same for the activity of a VM in elapsed nanoseconds; failed: number of instructions that KVM
 * could not emulate.
 */
struct judgement judge_activity(const struct kvmstats_activity *activity, uint64_t elapsed,
				unsigned int vcpus, uint64_t failed, bool ended);

/* Return true if the host polls too much, also for a VM with a worse problem. */
bool judge_polling(const struct kvmstats_activity *activity);

/*
 * Return less than 0 if a is the worse one. A VM that is starved and one that is throttled differ
 * by their weights only.
 */
int compare_judgements(const struct judgement *a, const struct judgement *b);

/* Return one word, "" for PROBLEM_NONE; and what it means, as part of a sentence. */
const char *problem_name(enum problem problem);
const char *problem_meaning(enum problem problem);

#endif /* PROBLEM_H */
