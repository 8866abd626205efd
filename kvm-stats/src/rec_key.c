// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "rec_key.h"
#include "xalloc.h"

static uint64_t *make_words(size_t count)
{
	return check_alloc(calloc(count, sizeof(uint64_t)));
}

void key_clear_vm(struct key_vm *vm)
{
	while (vm->vcpus)
		free(vm->vcpu[--vm->vcpus].words);
	free(vm->vcpu);
	free(vm->words);
	identity_clear(&vm->identity);
}

void key_clear(struct key_sample *key)
{
	while (key->vms)
		key_clear_vm(&key->vm[--key->vms]);
	free(key->vm);
	key->vm = NULL;
	key->room = 0;
}

struct key_vm *key_add_vm(struct key_sample *key)
{
	struct key_vm *vm;

	if (key->vms == key->room) {
		key->room = 2 * key->room + 4;
		key->vm = check_alloc(realloc(key->vm, key->room * sizeof(*key->vm)));
	}
	vm = &key->vm[key->vms++];
	memset(vm, 0, sizeof(*vm));
	vm->words = make_words(key->vm_words);
	return vm;
}

struct key_vcpu *key_add_vcpu(const struct key_sample *key, struct key_vm *vm, uint32_t id)
{
	struct key_vcpu *vcpu;

	if (vm->vcpus == vm->room) {
		vm->room = 2 * vm->room + 2;
		vm->vcpu = check_alloc(realloc(vm->vcpu, vm->room * sizeof(*vm->vcpu)));
	}
	vcpu = &vm->vcpu[vm->vcpus++];
	vcpu->id = id;
	vcpu->words = make_words(key->vcpu_words);
	return vcpu;
}

struct key_vm *key_find_vm(struct key_sample *key, uint64_t id)
{
	unsigned int i;

	for (i = 0; i < key->vms; i++) {
		struct key_vm *vm = &key->vm[key->cursor++ % key->vms];

		if (vm->key == id)
			return vm;
	}
	return NULL;
}

struct key_vcpu *key_find_vcpu(struct key_vm *vm, uint32_t id)
{
	unsigned int i;

	for (i = 0; i < vm->vcpus; i++) {
		struct key_vcpu *vcpu = &vm->vcpu[vm->cursor++ % vm->vcpus];

		if (vcpu->id == id)
			return vcpu;
	}
	return NULL;
}
