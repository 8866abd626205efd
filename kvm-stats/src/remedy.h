/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A remedy for a cause of lost time: a sentence, and a command if this host can run one.
 * tests/remedies executes each kind of command, and measures how much it wins.
 */
#ifndef REMEDY_H
#define REMEDY_H

#include <stdbool.h>
#include <stdio.h>

/* Kinds of commands. Each is a scenario of tests/remedies. */
enum remedy_kind {
	REMEDY_SENTENCE,	/* no command */
	REMEDY_WEIGHT_UNIT,	/* weight of a unit of systemd */
	REMEDY_WEIGHT_FILE,	/* weight of another cgroup */
	REMEDY_NICE,		/* nice of threads */
	REMEDY_POLICY,		/* a real-time or idle policy of threads */
	REMEDY_QUOTA_UNIT,
	REMEDY_QUOTA_FILE,
	REMEDY_QUOTA_LIBVIRT,
	REMEDY_AFFINITY,	/* CPUs of threads */
	REMEDY_AFFINITY_LIBVIRT,
	REMEDY_CONTINUE,	/* a process that a signal stopped */
	REMEDY_THAW_UNIT,
	REMEDY_THAW_FILE,
	REMEDY_POLLING,
	REMEDIES
};

struct remedy {
	enum remedy_kind kind;
	char *text;		/* a sentence, "" if nothing is known */
	char *command;		/* runs in sh as it is; "" if there is none */
	char *undo;		/* command that brings the old state back */
	unsigned int gain;	/* thousandths of a CPU that it wins at most; 0: unknown */
};

/* A remedy while it is written. A command consists of parts, which are undone in reverse order. */
struct remedy_draft {
	struct remedy remedy;
	bool ends_cause;
	unsigned int most;	/* thousandths of a CPU that another limit leaves; 0 without one */
	FILE *text, *part, *undo;	/* the last two of the current part */
	char *part_text, *undo_text;
	size_t sizes[3];
};

/* All functions exit without memory. */
void begin_remedy(struct remedy_draft *draft);

/* End the part in draft->part and draft->undo, and begin another one. */
void end_remedy_part(struct remedy_draft *draft, enum remedy_kind kind);

/* Keep the sentence only: the parts that have ended win nothing. */
void drop_remedy_command(struct remedy_draft *draft);

/*
 * Return the remedy, which the caller passes to free_remedy(). Without a part, it is a sentence. A
 * command is dropped if a terminal could show another one, because a name has such characters.
 */
struct remedy end_remedy(struct remedy_draft *draft);
void free_remedy(struct remedy *remedy);

/* Return the name of a kind for JSON: one word, "" for a sentence. */
const char *remedy_name(enum remedy_kind kind);

/* Write a word that a shell does not change. */
void put_quoted(FILE *f, const char *word);

#endif /* REMEDY_H */
