// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/btf.h>

#include "bpf_iterator.h"
#include "bpf_layout.h"
#include "bpf_program.h"
#include "statistic.h"

#define VMLINUX "/sys/kernel/btf/vmlinux"
/* The module; on x86 the one that kvm-amd and kvm-intel use. */
#define KVM "/sys/kernel/btf/kvm"

/* The structure that was found last: a search takes a millisecond, and each has several members. */
struct known_struct {
	const struct btf *btf;
	const struct btf_type *type;
};

struct types {
	struct btf *vmlinux;
	struct btf *kvm;	/* NULL: KVM is built in, or the kernel is 5.10 */
	struct known_struct *known;
	char *why;
	size_t why_size;
};

#define fail(types, error, ...) \
	(snprintf((types)->why, (types)->why_size, __VA_ARGS__), -(error))

static bool has_struct_name(const struct btf *btf, const struct btf_type *type, const char *name)
{
	return btf_is_struct(type) && !strcmp(btf__name_by_offset(btf, type->name_off), name);
}

/*
 * A structure of this name. The module's own come first: of a kvm.ko that is
 * not the kernel's, they are other ones than vmlinux has.
 */
static const struct btf_type *find_struct(const struct types *types,
					  const char *name)
{
	const struct btf *btf = types->kvm ?: types->vmlinux;
	struct known_struct *known = types->known;
	__u32 id;

	if (known->btf == btf && has_struct_name(btf, known->type, name))
		return known->type;
	for (id = btf__type_cnt(btf) - 1; id; id--) {
		const struct btf_type *type = btf__type_by_id(btf, id);

		if (has_struct_name(btf, type, name)) {
			*known = (struct known_struct){ btf, type };
			return type;
		}
	}
	return NULL;
}

/* Without typedefs, const and the like. */
static const struct btf_type *resolve(const struct btf *btf, __u32 id)
{
	int resolved = btf__resolve_type(btf, id);

	return resolved < 0 ? NULL : btf__type_by_id(btf, resolved);
}

/* Return the offset of a structure member in bytes; the member must have this size. */
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
 * A kernel without descriptors has names only. Derive the type of a statistic that is not
 * in the table, such as one of another kernel, from its name.
 */
static void describe_member(struct kvmstats_desc *desc)
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
	describe_member(more);
	return 0;
}

/* Add the u64s of a structure, including those of its unnamed members. */
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
			return fail(types, EPROTO, "statistic %s: not a u64 but %lld bytes",
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

/* The offset of the list node of a vCPU's preempt notifier */
static int find_notifier_node(const struct types *types, __u32 *offset)
{
	__u32 link = 0;
	int error;

	error = find_member(types, "kvm_vcpu", "preempt_notifier", offset, NULL, 0) ?:
		find_member(types, "preempt_notifier", "link", &link, NULL, 0);
	*offset += link;
	return error;
}

/* Find the vCPUs of a VM: an array before Linux 5.16. */
static int find_vcpus(const struct types *types, struct bpf_layout *layout)
{
	if (!find_member(types, "kvm", "vcpu_array", &layout->vm_vcpus, NULL, 0))
		return 0;
	layout->is_array = 1;
	if (find_member(types, "kvm", "vcpus", &layout->vm_vcpus, NULL, 0))
		return -ENOENT;
	*types->why = '\0';
	return 0;
}

static int find_kvm_types(const struct types *types, struct bpf_kvm_types *found)
{
	struct bpf_layout *layout = &found->layout;
	const __u32 pointer = btf__pointer_size(types->vmlinux);

	return	find_member(types, "kvm", "mm", &layout->vm_mm, NULL, pointer) ?:
		find_member(types, "kvm", "userspace_pid", &layout->vm_creator, NULL,
			    sizeof(int)) ?:
		find_member(types, "kvm", "users_count", &layout->vm_users, NULL,
			    sizeof(int)) ?:
		find_vcpus(types, layout) ?:
		find_member(types, "kvm", "stat", &layout->vm_stat,
			    &layout->vm_stat_size, 0) ?:
		find_member(types, "kvm_vcpu", "kvm", &layout->vcpu_kvm, NULL, pointer) ?:
		find_member(types, "kvm_vcpu", "vcpu_id", &layout->vcpu_id, NULL,
			    sizeof(int)) ?:
		find_member(types, "kvm_vcpu", "vcpu_idx", &layout->vcpu_index, NULL,
			    sizeof(int)) ?:
		find_member(types, "kvm_vcpu", "pid", &layout->vcpu_pid, NULL, pointer) ?:
		find_member(types, "kvm_vcpu", "stat", &layout->vcpu_stat,
			    &layout->vcpu_stat_size, 0) ?:
		find_notifier_node(types, &layout->vcpu_notifier) ?:
		make_table(types, "kvm_vm_stat", &found->vm) ?:
		make_table(types, "kvm_vcpu_stat", &found->vcpu);
}

static int open_types(struct types *types)
{
	int error;

	types->vmlinux = btf__parse(VMLINUX, NULL);
	if (!types->vmlinux) {
		error = errno;
		if (error == ENOENT)
			return fail(types, error,
				    "this kernel has no type information: no " VMLINUX
				    " (CONFIG_DEBUG_INFO_BTF)");
		return fail(types, error, VMLINUX ": %s", strerror(error));
	}
	types->kvm = btf__parse_split(KVM, types->vmlinux);
	if (!types->kvm && errno != ENOENT) {
		error = fail(types, errno, KVM ": %s", strerror(errno));
		btf__free(types->vmlinux);
		return error;
	}
	return 0;
}

static void close_types(struct types *types)
{
	btf__free(types->kvm);
	btf__free(types->vmlinux);
}

static int find_all(struct bpf_kvm_types *found, char *why, size_t size)
{
	struct known_struct known = { 0 };
	struct types types = { .known = &known, .why = why, .why_size = size };
	int error;

	memset(found, 0, sizeof(*found));
	error = open_types(&types);
	if (error)
		return error;
	error = find_kvm_types(&types, found);
	if (error)
		bpf_types_free(found);
	close_types(&types);
	return error;
}

/* A function or a tracepoint that a program needs */
struct need {
	const char *name;
	__u32 kind;
	const char *missing;
};

#define TRACEPOINT(name) \
	{ "btf_trace_" #name, BTF_KIND_TYPEDEF, "tracepoint " #name " is missing" }

static int check_needs(const struct types *types, const struct need *needs, size_t count)
{
	const struct btf *btf = types->kvm ?: types->vmlinux;
	size_t i;

	for (i = 0; i < count; i++)
		if (btf__find_by_name_kind(btf, needs[i].name, needs[i].kind) < 0)
			return fail(types, EOPNOTSUPP, "%s", needs[i].missing);
	return 0;
}

static int find_notifier(const struct types *types, struct bpf_program_layout *found)
{
	const __u32 pointer = btf__pointer_size(types->vmlinux);

	return	find_notifier_node(types, &found->vcpu_notifier) ?:
		find_member(types, "kvm_vcpu", "kvm", &found->vcpu_kvm, NULL, pointer) ?:
		find_member(types, "kvm_vcpu", "pid", &found->vcpu_pid, NULL, pointer);
}

static int find_blame(const struct types *types, struct bpf_program_layout *found)
{
	static const struct need needs[] = {
		TRACEPOINT(sched_switch),
		TRACEPOINT(sched_wakeup),
		TRACEPOINT(sched_migrate_task),
		{ "bpf_loop", BTF_KIND_FUNC,
		  "BPF helper bpf_loop is missing; Linux 5.17 or later required" },
	};
	__u32 unused;

	return check_needs(types, needs, sizeof(needs) / sizeof(*needs)) ?:
	       find_member(types, "task_struct", "preempt_notifiers", &unused, NULL, 0) ?:
	       find_member(types, "sched_entity", "cfs_rq", &unused, NULL, 0) ?:
	       find_member(types, "sched_info", "run_delay", &unused, NULL, 0) ?:
	       find_member(types, "task_struct", "sched_task_group", &unused, NULL, 0) ?:
	       find_notifier(types, found);
}

#ifdef __x86_64__
/* The arguments of kvm_exit differ: up to Linux 5.16, the reason is the first one. */
static int check_arguments(const struct types *types)
{
	const struct btf *btf = types->kvm ?: types->vmlinux;
	const struct btf_type *type;
	int id;

	id = btf__find_by_name_kind(btf, "btf_trace_kvm_exit", BTF_KIND_TYPEDEF);
	type = resolve(btf, id);
	if (type && btf_is_ptr(type))
		type = resolve(btf, type->type);
	if (!type || !btf_is_func_proto(type))
		return fail(types, EPROTO, "tracepoint kvm_exit has no prototype");
	/* the first argument is the program's context */
	if (btf_vlen(type) != 3)
		return fail(types, EOPNOTSUPP,
			    "tracepoint kvm_exit has %d arguments; Linux 5.17 or later required",
			    btf_vlen(type) - 1);
	return 0;
}

/* The types of a module that uses kvm, or of the kernel if it is built in */
static bool open_vendor(const struct types *types, const char *name, struct types *vendor)
{
	char path[64];

	*vendor = *types;
	if (!types->kvm)
		return true;
	snprintf(path, sizeof(path), KVM "_%s", name);
	vendor->kvm = btf__parse_split(path, types->vmlinux);
	return vendor->kvm;
}

static int find_svm(const struct types *types, struct bpf_program_layout *found)
{
	__u32 control = 0, code = 0;
	int error;

	error = find_member(types, "vcpu_svm", "vmcb", &found->svm_vmcb, NULL,
			    btf__pointer_size(types->vmlinux)) ?:
		find_member(types, "vmcb", "control", &control, NULL, 0) ?:
		find_member(types, "vmcb_control_area", "exit_code", &code, NULL, 0);
	found->vmcb_exit_code = control + code;
	return error;
}

static int find_vmx(const struct types *types, struct bpf_program_layout *found)
{
	__u32 vt = 0;
	int error;

	if (!find_member(types, "vcpu_vmx", "exit_reason", &found->vmx_exit_reason, NULL,
			 sizeof(__u32)))
		return 0;
	error = find_member(types, "vcpu_vmx", "vt", &vt, NULL, 0) ?:
		find_member(types, "vcpu_vt", "exit_reason", &found->vmx_exit_reason, NULL,
			    sizeof(__u32));
	found->vmx_exit_reason += vt;
	return error;
}

/* Find the offsets of a vendor's module if it is loaded; count the modules found. */
static int find_vendor(const struct types *types, const char *module, const char *struct_name,
		       int (*find)(const struct types *types, struct bpf_program_layout *found),
		       struct bpf_program_layout *found, int *count)
{
	struct types vendor;
	int error = 0;

	if (!open_vendor(types, module, &vendor))
		return 0;
	if (find_struct(&vendor, struct_name)) {
		error = find(&vendor, found);
		++*count;
	}
	if (types->kvm) {
		btf__free(vendor.kvm);
		types->known->btf = NULL;
	}
	return error;
}

static int find_reason(const struct types *types, struct bpf_program_layout *found)
{
	static const struct need needs[] = {
		TRACEPOINT(kvm_pio),
		TRACEPOINT(kvm_fast_mmio),
	};
	int error, count = 0;

	found->ports = true;
	error = check_needs(types, needs, sizeof(needs) / sizeof(*needs)) ?:
		check_arguments(types) ?:
		find_vendor(types, "amd", "vcpu_svm", find_svm, found, &count) ?:
		find_vendor(types, "intel", "vcpu_vmx", find_vmx, found, &count);
	if (!error && !count)
		return fail(types, ENODEV,
			    "this host's KVM does not report exits: neither kvm_amd nor kvm_intel is loaded");
	return error;
}
#elif defined(__aarch64__)
/* The reason is an argument of kvm_exit. */
static int find_reason(const struct types *types, struct bpf_program_layout *found)
{
	return 0;
}
#else
static int find_reason(const struct types *types, struct bpf_program_layout *found)
{
	return fail(types, EOPNOTSUPP, "exit reasons of this architecture are not supported");
}
#endif

static int find_exits(const struct types *types, struct bpf_program_layout *found)
{
	static const struct need needs[] = {
		TRACEPOINT(kvm_exit),
		TRACEPOINT(kvm_entry),
		TRACEPOINT(kvm_userspace_exit),
		TRACEPOINT(kvm_vcpu_wakeup),
		TRACEPOINT(kvm_mmio),
		TRACEPOINT(sched_process_exit),
	};

	return check_needs(types, needs, sizeof(needs) / sizeof(*needs)) ?:
	       find_notifier(types, found) ?:
	       find_member(types, "kvm_vcpu", "vcpu_id", &found->vcpu_id, NULL, sizeof(int)) ?:
	       find_reason(types, found);
}

static int find_stalls(const struct types *types, struct bpf_program_layout *found)
{
	static const struct need needs[] = {
		TRACEPOINT(sched_switch),
		{ "bpf_task_pt_regs", BTF_KIND_FUNC,
		  "BPF helper bpf_task_pt_regs is missing; Linux 5.15 or later required" },
	};
	__u32 stat = 0, generic = 0, blocking = 0;
	int error;

	error = check_needs(types, needs, sizeof(needs) / sizeof(*needs)) ?:
		find_notifier(types, found) ?:
		find_member(types, "kvm_vcpu", "stat", &stat, NULL, 0) ?:
		find_member(types, "kvm_vcpu_stat", "generic", &generic, NULL, 0) ?:
		find_member(types, "kvm_vcpu_stat_generic", "blocking", &blocking, NULL,
			    sizeof(__u64));
	found->vcpu_blocking = stat + generic + blocking;
	return error;
}

int bpf_types_find(struct bpf_kvm_types *found, char *why, size_t size)
{
	char said[COMPLAINT_SIZE];
	int error;

	/* Replace libbpf's message. */
	bpf_complaints(said);
	error = find_all(found, why, size);
	bpf_complaints(NULL);
	return error;
}

int bpf_program_layout_find(unsigned int kinds, struct bpf_program_layout *found,
			    char *why, size_t size)
{
	struct known_struct known = { 0 };
	struct types types = { .known = &known, .why = why, .why_size = size };
	char complaint[COMPLAINT_SIZE];
	int error;

	memset(found, 0, sizeof(*found));
	bpf_complaints(complaint);
	error = open_types(&types);
	if (!error) {
		error = (kinds & BPF_BLAME ? find_blame(&types, found) : 0) ?:
			(kinds & BPF_EXITS ? find_exits(&types, found) : 0) ?:
			(kinds & BPF_STALLS ? find_stalls(&types, found) : 0);
		close_types(&types);
	}
	bpf_complaints(NULL);
	return error;
}

void bpf_types_free(struct bpf_kvm_types *types)
{
	kvmstats_free_table(types->vm);
	kvmstats_free_table(types->vcpu);
	memset(types, 0, sizeof(*types));
}
