/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sums of VMs over several samples of a BPF program: a sum has items with a cost, such as the
 * owners of a VM's waits or the reasons of its exits. A VM that takes the place of one that has
 * exited continues its sum. The VMs of the BPF program are found by the threads of their vCPUs.
 */
#ifndef SUMS_H
#define SUMS_H

#include "app.h"
#include "bpf/threads.bpf.h"
#include "container_of.h"
#include "recording.h"

/* VMs whose labels and sums are kept after they have exited */
#define MAX_EXITED	1024
/* Items of a sum, besides the others, if they can have any number of keys */
#define MAX_ITEMS	256

/* The first member of each item; its key follows. */
struct sum_item {
	uint64_t group;		/* sorts items before their cost does */
	uint64_t cost;		/* nanoseconds */
	uint64_t growth;	/* increase in cost since list_items() or keep_growth() */
	uint64_t recent;	/* list_items(): cost of the last minutes, weighted by age */
	bool listed;		/* has series */
};

/* The sum of a VM; the first member of each sum */
struct sum {
	char label[LABEL_SIZE];
	char name[128];		/* identity.name */
	pid_t pid;
	unsigned int nth;	/* number in its process */
	/* the VM before it: its end can be reported in the sample of its successor */
	pid_t ended_pid;
	unsigned int ended_nth;
	bool live;
	uint64_t elapsed;	/* time of its vCPUs, see add_elapsed() */
	uint64_t cost;		/* sum over all items */
	void *items;		/* by group, then the most expensive first */
	size_t count, room;
	unsigned int listed;	/* number of items */
};

struct sums;
struct threads;

struct sums_type {
	/* bytes per structure that begins with struct sums, per sum, per item, and per key */
	size_t all_size, size, item_size, key_size;
	const void *other;	/* key of the items beyond MAX_ITEMS or the recorded ones; NULL if they are not added up */
	void (*release)(struct sum *sum);	/* free what a sum has besides items, or NULL */
	void (*clear)(struct sum *sum);		/* set to 0 what it adds up besides items, or NULL */
	/* Load the BPF program, or use the shared one: as blame_open() */
	int (*open)(struct sums *sums, struct threads *shared, const struct kvmstats_vm *first,
		    struct kvmstats_probe *p);
	/* Read the BPF program's sums. Return 0 or a negative errno. */
	int (*read)(struct sums *sums);
	/* After a sample of the VMs, which may be newer: add up the sums of the selected VMs. */
	void (*add)(struct sums *sums, const struct kvmstats_vm *first, char **args, int n);
	void (*close)(struct sums *sums);	/* close the BPF program */
	/* Write an item to a recording; read one and add its cost. take sets t->wrong if it cannot. */
	void (*put)(const void *item, struct bytes *b);
	void (*take)(struct sums *sums, struct sum *sum, struct rec_bytes *t);
	/* As put and take, for the other members of a sum; NULL if it has none */
	void (*put_sum)(const struct sum *sum, struct bytes *b);
	void (*take_sum)(struct sum *sum, struct rec_bytes *t);
};

struct known_vm {
	struct blame_vm vm;
	char label[LABEL_SIZE];	/* label of its sum, if it is selected */
	bool live, selected;
};

/* The first member of struct blame_sum, exits_sum and stalls_sum; all 0 while closed */
struct sums {
	const struct sums_type *type;
	bool continues;		/* a VM continues the sum of a VM with its name that exited */
	void *sum;		/* the most expensive first, after each sample */
	size_t count, room;
	struct known_vm *known;	/* label of each VM of the kernel */
	size_t known_count, known_room;
	size_t dropped;		/* sums of VMs that have exited, beyond MAX_EXITED */
	struct recording *rec;	/* instead of a BPF program, or NULL */
};

static inline void *sum_at(const struct sums *sums, size_t i)
{
	return (char *)sums->sum + i * sums->type->size;
}

static inline void *item_at(const struct sums *sums, const struct sum *sum, size_t i)
{
	return sum->items ? (char *)sum->items + i * sums->type->item_size : NULL;
}

/* Begin with empty sums, of a BPF program or of a recording. shared: see threads_share(), or NULL */
int open_sums(struct sums *sums, const struct sums_type *type, struct threads *shared,
	      const struct kvmstats_vm *first, struct kvmstats_probe *p);
void read_recorded_sums(struct sums *sums, const struct sums_type *type, struct recording *rec);

/* Close the BPF program, and free the sums. */
void close_sums(struct sums *sums);

/* Remove all items, and keep the VMs. */
void clear_sums(struct sums *sums);

/* As read and add of struct sums_type; in a recording, the sums of its present sample */
static inline int read_sums(struct sums *sums)
{
	return sums->rec ? 0 : sums->type->read(sums);
}

static inline void add_sums(struct sums *sums, const struct kvmstats_vm *first, char **args, int n)
{
	sums->type->add(sums, first, args, n);
}

/*
 * Write the first items of each VM whose cost is at least so much, and the others as one if their
 * type has a key for it, for the next sample of a recording, and begin again with empty sums.
 */
void record_sums(struct sums *sums, struct recorder *r, char kind, size_t items, uint64_t least);

/* In add of a type: begin_sums(), and add what record_sums() has written for this sample. */
void take_recorded_sums(struct sums *sums, char kind, const struct kvmstats_vm *first,
			char **args, int n);

/*
 * After a sample: find the VMs of all sums, or those that take their places, and add sums,
 * all 0, of other selected VMs. threads: those of vCPUs that the BPF program has seen.
 * Standard error reports each VM that continues the sum of another one.
 */
void begin_sums(struct sums *sums, const struct kvmstats_vm *first, char **args, int n,
		const struct blame_thread *threads, size_t count);

/* Add the time since the last sample to the sums, or set that of a VM. */
void add_elapsed(const struct sums *sums, const struct kvmstats_vm *first);
void set_elapsed(const struct sums *sums, const struct kvmstats_vm *vm, uint64_t elapsed);

/* Add to the cost of the item with this key, and return the item. Exits without memory. */
void *add_cost(const struct sums *sums, struct sum *sum, const void *key, uint64_t cost);

/* Sort sums and items; remove the last sums of VMs that have exited beyond MAX_EXITED. */
void end_sums(struct sums *sums);
void sort_items(const struct sums *sums, struct sum *sum);

/* Remove the sums of VMs that have exited, unless keep returns true. */
void forget_sums(struct sums *sums, bool (*keep)(void *arg, const struct sum *sum), void *arg);

/* The sum of a VM as the kernel knows it; NULL if it is not selected */
void *find_kernel_sum(const struct sums *sums, const struct blame_vm *vm);

/* The sum that a VM of the sample continues; NULL if there is none */
void *find_sum(const struct sums *sums, const struct kvmstats_vm *vm);

/* The sum with this label; NULL if there is none */
void *find_labelled_sum(const struct sums *sums, const char *label);

/* The label of a VM, or of the first one of its process if kvm is 0; NULL if unknown */
const char *find_label(const struct sums *sums, uint64_t kvm, uint32_t tgid);

/*
 * After a sample, which covers the time elapsed: list at most max items, those with the largest
 * recent costs. One that is listed is replaced only by one with twice its cost, so series seldom
 * change. Return by how much the cost of the other items has grown.
 */
uint64_t list_items(const struct sums *sums, struct sum *sum, unsigned int max, uint64_t elapsed);

/* Keep the growth of all items as their recent cost; their growth begins at 0 again. */
void keep_growth(const struct sums *sums);

#endif /* SUMS_H */
