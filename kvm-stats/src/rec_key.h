/* SPDX-License-Identifier: GPL-2.0-only */
/* A key sample of a recording, as its writer and its readers keep it */
#ifndef REC_KEY_H
#define REC_KEY_H

#include "recording.h"

struct key_vcpu {
	uint32_t id;
	uint64_t *words;	/* VCPU_WORDS, then the values */
};

struct key_vm {
	uint64_t key;		/* as in struct kvmstats_vm */
	struct kvmstats_identity identity;
	unsigned int nth;
	uint64_t *words;	/* VM_WORDS, then the values */
	struct key_vcpu *vcpu;	/* by id */
	unsigned int vcpus, room, cursor;
};

struct key_sample {
	size_t vm_words, vcpu_words;	/* words per VM, and per vCPU */
	struct key_vm *vm;
	unsigned int vms, room, cursor;
};

/* Remove all VMs. */
void key_clear(struct key_sample *key);
void key_clear_vm(struct key_vm *vm);

/* Add a VM, or a vCPU with a higher id than the others. Words are all 0. Exits without memory. */
struct key_vm *key_add_vm(struct key_sample *key);
struct key_vcpu *key_add_vcpu(const struct key_sample *key, struct key_vm *vm, uint32_t id);

/* NULL if there is none; fast if they are asked for in order */
struct key_vm *key_find_vm(struct key_sample *key, uint64_t id);
struct key_vcpu *key_find_vcpu(struct key_vm *vm, uint32_t id);

#endif /* REC_KEY_H */
