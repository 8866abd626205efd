// SPDX-License-Identifier: GPL-2.0-only
#include "problem.h"
#include "thresholds.h"

static const struct {
	const char *name, *meaning;
} problems[PROBLEMS] = {
	[PROBLEM_NONE] = { "", "" },
	[PROBLEM_ENDED] = { "ended", "the VM no longer exists" },
	[PROBLEM_POLLING] = { "polling", "halt polling of the host takes longer than the guest runs" },
	[PROBLEM_EXITS] = { "exits", "the guest exits very often" },
	[PROBLEM_STALLED] = { "stalled", "its vCPUs are blocked in the VMM or the kernel, not for a CPU" },
	[PROBLEM_STUCK] = { "stuck", "no vCPU is run: the VMM is paused or stopped, or waits" },
	[PROBLEM_THROTTLED] = { "throttled", "the CPU quota of its cgroup is used up" },
	[PROBLEM_STARVED] = { "starved", "its vCPUs wait for a CPU" },
	[PROBLEM_FAILED] = { "failed", "KVM cannot emulate an instruction of the guest" },
};

static bool polls_too_much(const uint16_t share[KVMSTATS_MODES])
{
	return share[KVMSTATS_POLL] >= POLLING_PERMILLE && share[KVMSTATS_POLL] > share[KVMSTATS_RUN];
}

/*
 * A VM that is stuck weighs less than one that waits: many are paused on purpose, and only their
 * VMMs know that.
 */
struct judgement judge_problem(const struct problem_facts *facts)
{
	const unsigned int ready = facts->share[KVMSTATS_READY];
	const unsigned int throttled = facts->share[KVMSTATS_THROTTLED];

	if (facts->ended)
		return (struct judgement){ PROBLEM_ENDED, 0 };
	if (facts->failed)
		return (struct judgement){ PROBLEM_FAILED, facts->failed };
	/* The larger one decides about the remedy. */
	if (ready >= throttled && ready >= READY_CRITICAL_PERMILLE)
		return (struct judgement){ PROBLEM_STARVED, ready + throttled };
	if (throttled >= THROTTLED_CRITICAL_PERMILLE)
		return (struct judgement){ PROBLEM_THROTTLED, ready + throttled };
	if (facts->share[KVMSTATS_OTHER] >= STUCK_PERMILLE)
		return (struct judgement){ PROBLEM_STUCK, facts->share[KVMSTATS_OTHER] };
	if (facts->share[KVMSTATS_OTHER] >= STALLED_PERMILLE)
		return (struct judgement){ PROBLEM_STALLED, facts->share[KVMSTATS_OTHER] };
	if (facts->exits >= EXIT_STORM_PER_SECOND)
		return (struct judgement){ PROBLEM_EXITS, facts->exits };
	if (polls_too_much(facts->share))
		return (struct judgement){ PROBLEM_POLLING, facts->share[KVMSTATS_POLL] };
	/* Noise does not change the order of VMs. */
	return (struct judgement){
		PROBLEM_NONE, ready + throttled >= READY_NOTICED_PERMILLE ? ready + throttled : 0
	};
}

static void set_shares(const struct kvmstats_activity *activity, uint16_t share[KVMSTATS_MODES])
{
	unsigned int i;

	for (i = 0; i < KVMSTATS_MODES; i++)
		share[i] = kvmstats_permille(activity->times.mode[i], activity->times.elapsed);
}

bool judge_polling(const struct kvmstats_activity *activity)
{
	uint16_t share[KVMSTATS_MODES];

	set_shares(activity, share);
	return polls_too_much(share);
}

struct judgement judge_activity(const struct kvmstats_activity *activity, uint64_t elapsed,
				unsigned int vcpus, uint64_t failed, bool ended)
{
	struct problem_facts facts = { .failed = failed, .ended = ended };

	set_shares(activity, facts.share);
	if (vcpus)
		facts.exits = kvmstats_rate(activity->event[KVMSTATS_EXITS], elapsed) / 1000 / vcpus;
	return judge_problem(&facts);
}

static int rank(enum problem problem)
{
	switch (problem) {
	case PROBLEM_ENDED:
		return -1;
	case PROBLEM_THROTTLED:
		return PROBLEM_STARVED;
	default:
		return problem;
	}
}

int compare_judgements(const struct judgement *a, const struct judgement *b)
{
	if (rank(a->problem) != rank(b->problem))
		return rank(a->problem) > rank(b->problem) ? -1 : 1;
	return (a->weight < b->weight) - (a->weight > b->weight);
}

const char *problem_name(enum problem problem)
{
	return problems[problem].name;
}

const char *problem_meaning(enum problem problem)
{
	return problems[problem].meaning;
}
