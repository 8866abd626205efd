// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/btf.h>

#include "bpf_iterator.h"
#include "bpf_layout.h"
#include "statistic.h"

#define VMLINUX "/sys/kernel/btf/vmlinux"
/* The module; on x86 the one that kvm-amd and kvm-intel use. */
#define KVM "/sys/kernel/btf/kvm"

struct types {
	struct btf *vmlinux;
	struct btf *kvm;	/* NULL: KVM is built in, or the kernel is 5.10 */
	char *why;
	size_t why_size;
};

#define fail(types, error, ...) \
	(snprintf((types)->why, (types)->why_size, __VA_ARGS__), -(error))

/*
 * A structure of this name. The module's own come first: of a kvm.ko that is
 * not the kernel's, they are other ones than vmlinux has.
 */
static const struct btf_type *find_struct(const struct types *types,
					  const char *name)
{
	const struct btf *btf = types->kvm ?: types->vmlinux;
	__u32 id;

	for (id = btf__type_cnt(btf) - 1; id; id--) {
		const struct btf_type *type = btf__type_by_id(btf, id);

		if (btf_is_struct(type) &&
		    !strcmp(btf__name_by_offset(btf, type->name_off), name))
			return type;
	}
	return NULL;
}

/* Without typedefs, const and the like. */
static const struct btf_type *resolve(const struct btf *btf, __u32 id)
{
	int resolved = btf__resolve_type(btf, id);

	return resolved < 0 ? NULL : btf__type_by_id(btf, resolved);
}

/* The offset of a member of a structure in bytes; it has to have this size. */
static int find_member(const struct types *types, const char *struct_name,
		       const char *name, __u32 *offset, __u32 *size, __u32 expected)
{
	const struct btf *btf = types->kvm ?: types->vmlinux;
	const struct btf_type *type = find_struct(types, struct_name);
	const struct btf_member *member;
	__s64 len;
	int i;

	if (!type)
		return fail(types, ENOENT, "the kernel's type information has no struct %s: %s",
			    struct_name, types->kvm ? "neither the kernel's own nor the kvm module's" :
			    "is the kvm module loaded?");
	for (i = 0; i < btf_vlen(type); i++) {
		member = &btf_members(type)[i];
		if (strcmp(btf__name_by_offset(btf, member->name_off), name))
			continue;
		len = btf__resolve_size(btf, member->type);
		if (len < 0 || len > BPF_VALUES_MAX || (expected && len != expected) ||
		    btf_member_bit_offset(type, i) % 8)
			return fail(types, EPROTO, "struct %s: %s has an unexpected size, %lld",
				    struct_name, name, (long long)len);
		*offset = btf_member_bit_offset(type, i) / 8;
		if (size)
			*size = len;
		return 0;
	}
	return fail(types, ENOENT, "struct %s has no member %s", struct_name, name);
}

/*
 * A kernel without descriptors has names only. What is not in the table, as of other
 * kernels than ours, is judged by its name.
 */
static void describe(struct kvmstats_desc *desc)
{
	const struct statistic *known = statistic_find(KVMSTATS_VCPU, desc->name);
	const size_t len = strlen(desc->name);

	if (!known)
		known = statistic_find(KVMSTATS_VM, desc->name);
	if (known) {
		desc->type = known->type;
		desc->unit = known->unit;
		desc->exponent = known->exponent;
		return;
	}
	if (!strncmp(desc->name, "max_", 4))
		desc->type = KVMSTATS_PEAK;
	if (!strcmp(desc->name, "guest_mode"))
		desc->type = KVMSTATS_INSTANT;
	if (len > 3 && !strcmp(desc->name + len - 3, "_ns")) {
		desc->unit = KVMSTATS_SECONDS;
		desc->exponent = -9;
	}
}

struct list {
	struct kvmstats_desc *desc;
	unsigned int count;
};

static int add_member(const struct types *types, struct list *list,
		      const char *name, __u32 offset, __u32 count)
{
	struct kvmstats_desc *more;

	more = realloc(list->desc, (list->count + 1) * sizeof(*more));
	if (!more)
		return fail(types, ENOMEM, "%s", strerror(ENOMEM));
	list->desc = more;
	more += list->count++;
	*more = (struct kvmstats_desc){ .name = name, .offset = offset, .size = count };
	describe(more);
	return 0;
}

/* The u64s of a structure, and of those in it that have no name of their own. */
static int add_members(const struct types *types, struct list *list,
		       const struct btf_type *type, __u32 base)
{
	const struct btf *btf = types->kvm ?: types->vmlinux;
	int i, error;

	for (i = 0; i < btf_vlen(type); i++) {
		const struct btf_member *member = &btf_members(type)[i];
		const char *name = btf__name_by_offset(btf, member->name_off);
		const struct btf_type *inner = resolve(btf, member->type);
		__u32 offset = base + btf_member_bit_offset(type, i) / 8;
		__u32 count = 1;
		__s64 size;

		if (!inner)
			return fail(types, EPROTO, "the type of statistic %s is broken", name);
		/* Since 5.14 what all architectures count is in "generic". */
		if (btf_is_composite(inner) && (!*name || !strcmp(name, "generic"))) {
			error = add_members(types, list, inner, offset);
			if (error)
				return error;
			continue;
		}
		if (btf_is_array(inner)) {
			count = btf_array(inner)->nelems;
			size = btf__resolve_size(btf, btf_array(inner)->type);
		} else {
			size = btf__resolve_size(btf, member->type);
		}
		if (size != sizeof(__u64))
			return fail(types, EPROTO, "statistic %s is no u64: %lld bytes",
				    name, (long long)size);
		error = add_member(types, list, name, offset, count);
		if (error)
			return error;
	}
	return 0;
}

static int make_table(const struct types *types, const char *struct_name,
		      struct kvmstats_table **table)
{
	const struct btf_type *type = find_struct(types, struct_name);
	struct list list = { NULL, 0 };
	int error;

	if (!type)
		return fail(types, ENOENT, "the kernel's type information has no struct %s",
			    struct_name);
	error = add_members(types, &list, type, 0);
	if (!error) {
		*table = table_make(list.desc, list.count);
		if (!*table)
			error = fail(types, ENOMEM, "%s", strerror(ENOMEM));
	}
	free(list.desc);
	return error;
}

static int find(const struct types *types, struct bpf_kvm_types *found)
{
	struct bpf_layout *layout = &found->layout;
	const __u32 pointer = btf__pointer_size(types->vmlinux);

	return	find_member(types, "kvm", "mm", &layout->vm_mm, NULL, pointer) ?:
		find_member(types, "kvm", "stat", &layout->vm_stat,
			    &layout->vm_stat_size, 0) ?:
		find_member(types, "kvm_vcpu", "kvm", &layout->vcpu_kvm, NULL, pointer) ?:
		find_member(types, "kvm_vcpu", "vcpu_id", &layout->vcpu_id, NULL,
			    sizeof(int)) ?:
		find_member(types, "kvm_vcpu", "pid", &layout->vcpu_pid, NULL, pointer) ?:
		find_member(types, "kvm_vcpu", "stat", &layout->vcpu_stat,
			    &layout->vcpu_stat_size, 0) ?:
		make_table(types, "kvm_vm_stat", &found->vm) ?:
		make_table(types, "kvm_vcpu_stat", &found->vcpu);
}

static int find_all(struct bpf_kvm_types *found, char *why, size_t size)
{
	struct types types = { .why = why, .why_size = size };
	int error;

	memset(found, 0, sizeof(*found));
	types.vmlinux = btf__parse(VMLINUX, NULL);
	if (!types.vmlinux) {
		error = errno;
		if (error == ENOENT)
			return fail(&types, error,
				    "this kernel has no type information: no " VMLINUX
				    " (CONFIG_DEBUG_INFO_BTF)");
		return fail(&types, error, VMLINUX ": %s", strerror(error));
	}
	types.kvm = btf__parse_split(KVM, types.vmlinux);
	if (!types.kvm && errno != ENOENT)
		error = fail(&types, errno, KVM ": %s", strerror(errno));
	else
		error = find(&types, found);
	if (error)
		bpf_types_free(found);
	btf__free(types.kvm);
	btf__free(types.vmlinux);
	return error;
}

int bpf_types_find(struct bpf_kvm_types *found, char *why, size_t size)
{
	char said[COMPLAINT_SIZE];
	int error;

	/* We have words of our own for what libbpf says. */
	bpf_complaints(said);
	error = find_all(found, why, size);
	bpf_complaints(NULL);
	return error;
}

void bpf_types_free(struct bpf_kvm_types *types)
{
	kvmstats_free_table(types->vm);
	kvmstats_free_table(types->vcpu);
	memset(types, 0, sizeof(*types));
}
