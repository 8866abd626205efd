// SPDX-License-Identifier: GPL-2.0-only
/*
 * KVM statistics: the tables made from <linux/kvm_stats_defs.h>, and the file
 * through which user space reads the counters of a VM or a vCPU.
 *
 * The format is described in Documentation/virt/kvm/stats.rst.
 */

#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kvm_host.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#define KVM_DEBUGFS		.mode = 0644
#define KVM_DEBUGFS_RO		.mode = 0444
#define KVM_DEBUGFS_AS(_name)	.mode = 0644, .debugfs_name = _name
#define KVM_DEBUGFS_RO_AS(_name) .mode = 0444, .debugfs_name = _name
#define KVM_NO_DEBUGFS		.mode = 0

const struct kvm_stats_debugfs_item debugfs_entries[] = {
#define KVM_VM_STAT(_member, _type, _unit, _exponent, _debugfs, _words)		\
	{									\
		.name = #_member,						\
		.offset = offsetof(struct kvm, stat._member),			\
		.kind = KVM_STAT_VM,						\
		_debugfs							\
	},
#define KVM_VCPU_STAT(_member, _type, _unit, _exponent, _debugfs, _words)	\
	{									\
		.name = #_member,						\
		.offset = offsetof(struct kvm_vcpu, stat._member),		\
		.kind = KVM_STAT_VCPU,						\
		_debugfs							\
	},
#include <linux/kvm_stats_defs.h>
	{ }
};

/* The number of buckets is in the size of the member. */
#define KVM_STATS_FLAGS_CUMULATIVE		KVM_STATS_TYPE_CUMULATIVE
#define KVM_STATS_FLAGS_INSTANT			KVM_STATS_TYPE_INSTANT
#define KVM_STATS_FLAGS_PEAK			KVM_STATS_TYPE_PEAK
#define KVM_STATS_FLAGS_LOG_HIST(_buckets)	KVM_STATS_TYPE_LOG_HIST

#define KVM_STATS_DESC(_struct, _member, _flags, _unit, _exponent)		\
	{									\
		.flags = (_flags) | KVM_STATS_UNIT_##_unit |			\
			 KVM_STATS_BASE_POW10,					\
		.exponent = _exponent,						\
		/* C takes a name that leaves no room for its NUL. */		\
		.size = sizeof_field(struct _struct, _member) / sizeof(u64) +	\
			BUILD_BUG_ON_ZERO(sizeof(#_member) > KVM_STATS_NAME_SIZE), \
		.offset = offsetof(struct _struct, _member),			\
		.name = #_member,						\
	},

static const struct kvm_stats_desc kvm_vm_stats_desc[] = {
#define KVM_VM_STAT(_member, _type, _unit, _exponent, ...)			\
	KVM_STATS_DESC(kvm_vm_stat, _member, KVM_STATS_FLAGS_##_type, _unit,	\
		       _exponent)
#include <linux/kvm_stats_defs.h>
};

static const struct kvm_stats_desc kvm_vcpu_stats_desc[] = {
#define KVM_VCPU_STAT(_member, _type, _unit, _exponent, ...)			\
	KVM_STATS_DESC(kvm_vcpu_stat, _member, KVM_STATS_FLAGS_##_type, _unit,	\
		       _exponent)
#include <linux/kvm_stats_defs.h>
};

/*
 * A member without a line in the defs would have no descriptor: compare with
 * the sum of the sizes of those that have one. There is no padding between char.
 */
struct kvm_vm_stats_size {
#define KVM_VM_STAT(_member, ...) char _member[sizeof_field(struct kvm_vm_stat, _member)];
#include <linux/kvm_stats_defs.h>
};

struct kvm_vcpu_stats_size {
#define KVM_VCPU_STAT(_member, ...) char _member[sizeof_field(struct kvm_vcpu_stat, _member)];
#include <linux/kvm_stats_defs.h>
};

static_assert(sizeof(struct kvm_vm_stat) == sizeof(struct kvm_vm_stats_size));
static_assert(sizeof(struct kvm_vcpu_stat) == sizeof(struct kvm_vcpu_stats_size));

/**
 * struct kvm_stats_segment - a part of a statistics file
 * @start: bytes from the start of the file
 * @end: bytes from the start of the file to the byte behind it
 * @data: where the bytes are, NULL if they are in the object
 * @offset: bytes from the start of the object, if they are there
 *
 * The object is the struct kvm or struct kvm_vcpu the file was opened on.
 * What lies between two segments reads as zeros.
 */
struct kvm_stats_segment {
	size_t start;
	size_t end;
	const void *data;
	size_t offset;
};

#define KVM_STATS_SEGMENTS	4

/**
 * struct kvm_stats_file - a kind of statistics file
 * @fops: its operations, by which an open file finds its kind
 * @segment: its parts, in the order of the file
 */
struct kvm_stats_file {
	struct file_operations fops;
	struct kvm_stats_segment segment[KVM_STATS_SEGMENTS];
};

static const struct kvm_stats_file *kvm_stats_file(const struct file *file)
{
	return container_of(file->f_op, const struct kvm_stats_file, fops);
}

static size_t kvm_stats_size(const struct kvm_stats_file *stats_file)
{
	return stats_file->segment[KVM_STATS_SEGMENTS - 1].end;
}

/*
 * The counters change while they are copied, and no lock would keep a vCPU from
 * counting: every value is live, between values nothing is promised.
 *
 * This is no read_iter: for as few bytes as these an iterator costs more than
 * the copy.
 */
static ssize_t kvm_stats_read(struct file *file, char __user *buf, size_t len,
			      loff_t *ppos)
{
	const struct kvm_stats_file *stats_file = kvm_stats_file(file);
	const struct kvm_stats_segment *seg = stats_file->segment;
	const size_t size = kvm_stats_size(stats_file);
	size_t pos, end, n, left = 0;
	ssize_t copied;

	if (*ppos >= size)
		return 0;
	pos = *ppos;
	end = pos + min(len, size - pos);

	while (pos < end && !left) {
		if (pos >= seg->end) {
			seg++;
			continue;
		}
		if (pos < seg->start) {
			n = min(end, seg->start) - pos;
			left = clear_user(buf, n);
		} else {
			const void *data = seg->data ?: file->private_data + seg->offset;

			n = min(end, seg->end) - pos;
			left = copy_to_user(buf, data + (pos - seg->start), n);
		}
		buf += n - left;
		pos += n - left;
	}

	copied = pos - *ppos;
	*ppos = pos;
	return !copied && left ? -EFAULT : copied;
}

/*
 * All the values at once is what a reader asks for again and again. That needs
 * no look at the segments, and a copy of constant size no hardened usercopy
 * check, which would cost more than the copy.
 */
static __always_inline ssize_t
kvm_stats_read_values(struct file *file, char __user *buf, size_t len,
		      loff_t *ppos, const void *values, const size_t size)
{
	if (*ppos + size == kvm_stats_size(kvm_stats_file(file)) &&
	    len >= size && !copy_to_user(buf, values, size)) {
		*ppos += size;
		return size;
	}
	return kvm_stats_read(file, buf, len, ppos);
}

static ssize_t kvm_vm_stats_read(struct file *file, char __user *buf,
				 size_t len, loff_t *ppos)
{
	struct kvm *kvm = file->private_data;

	return kvm_stats_read_values(file, buf, len, ppos, &kvm->stat,
				     sizeof(kvm->stat));
}

static ssize_t kvm_vcpu_stats_read(struct file *file, char __user *buf,
				   size_t len, loff_t *ppos)
{
	struct kvm_vcpu *vcpu = file->private_data;

	return kvm_stats_read_values(file, buf, len, ppos, &vcpu->stat,
				     sizeof(vcpu->stat));
}

static loff_t kvm_stats_llseek(struct file *file, loff_t offset, int whence)
{
	return fixed_size_llseek(file, offset, whence,
				 kvm_stats_size(kvm_stats_file(file)));
}

static int kvm_vm_stats_release(struct inode *inode, struct file *file)
{
	struct kvm *kvm = file->private_data;

	kvm_put_kvm(kvm);
	return 0;
}

static int kvm_vcpu_stats_release(struct inode *inode, struct file *file)
{
	struct kvm_vcpu *vcpu = file->private_data;

	kvm_put_kvm(vcpu->kvm);
	return 0;
}

#ifdef CONFIG_PROC_FS
static void kvm_vm_stats_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct kvm *kvm = file->private_data;

	seq_printf(m, "kvm-stats-id:\t%s\n", kvm->stats_id);
}

static void kvm_vcpu_stats_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct kvm_vcpu *vcpu = file->private_data;

	seq_printf(m, "kvm-stats-id:\t%s\n", vcpu->stats_id);
}
#else
#define kvm_vm_stats_show_fdinfo	NULL
#define kvm_vcpu_stats_show_fdinfo	NULL
#endif

#define KVM_STATS_CONST(_start, _len, _data)					\
	{ .start = _start, .end = (_start) + (_len), .data = _data }

#define KVM_STATS_LIVE(_start, _object, _member)				\
	{									\
		.start = _start,						\
		.end = (_start) + sizeof_field(struct _object, _member),	\
		.offset = offsetof(struct _object, _member),			\
	}

/* A file: the two segments of its first block, the descriptors, the values. */
#define KVM_STATS_FILE(_kind, _object, _desc_offset, _first, _second)		\
	{									\
		.fops = {							\
			.read = kvm_##_kind##_stats_read,			\
			.llseek = kvm_stats_llseek,				\
			.release = kvm_##_kind##_stats_release,			\
			.show_fdinfo = kvm_##_kind##_stats_show_fdinfo,		\
		},								\
		.segment = {							\
			_first,							\
			_second,						\
			KVM_STATS_CONST(_desc_offset,				\
					sizeof(kvm_##_kind##_stats_desc),	\
					kvm_##_kind##_stats_desc),		\
			KVM_STATS_LIVE(_desc_offset +				\
				       sizeof(kvm_##_kind##_stats_desc),	\
				       _object, stat),				\
		}								\
	}

/* The id stands not here but in the object: each has its own. */
#define KVM_STATS_HEADER(_desc)							\
	{									\
		.name_size = KVM_STATS_NAME_SIZE,				\
		.count = ARRAY_SIZE(_desc),					\
		.desc_offset = sizeof(struct kvm_stats_getfd_header),			\
		.data_offset = sizeof(struct kvm_stats_getfd_header) + sizeof(_desc),	\
	}

static const struct kvm_stats_getfd_header kvm_vm_stats_header =
	KVM_STATS_HEADER(kvm_vm_stats_desc);
static const struct kvm_stats_getfd_header kvm_vcpu_stats_header =
	KVM_STATS_HEADER(kvm_vcpu_stats_desc);

#define KVM_STATS_GETFD_FILE(_kind, _object)					\
	KVM_STATS_FILE(_kind, _object, sizeof(struct kvm_stats_getfd_header),		\
		KVM_STATS_LIVE(offsetof(struct kvm_stats_getfd_header, id),		\
			       _object, stats_id),				\
		KVM_STATS_CONST(offsetof(struct kvm_stats_getfd_header, name_size),	\
			sizeof(struct kvm_stats_getfd_header) -			\
				offsetof(struct kvm_stats_getfd_header, name_size),	\
			&kvm_##_kind##_stats_header.name_size))

#define KVM_STATS_FD_ID_OFFSET		sizeof(struct kvm_stats_header)
#define KVM_STATS_FD_DESC_OFFSET	(KVM_STATS_FD_ID_OFFSET + KVM_STATS_NAME_SIZE)

#define KVM_STATS_FD_HEADER(_desc)						\
	{									\
		.name_size = KVM_STATS_NAME_SIZE,				\
		.num_desc = ARRAY_SIZE(_desc),					\
		.id_offset = KVM_STATS_FD_ID_OFFSET,				\
		.desc_offset = KVM_STATS_FD_DESC_OFFSET,			\
		.data_offset = KVM_STATS_FD_DESC_OFFSET + sizeof(_desc),	\
	}

static const struct kvm_stats_header kvm_vm_stats_fd_header =
	KVM_STATS_FD_HEADER(kvm_vm_stats_desc);
static const struct kvm_stats_header kvm_vcpu_stats_fd_header =
	KVM_STATS_FD_HEADER(kvm_vcpu_stats_desc);

#define KVM_GET_STATS_FD_FILE(_kind, _object)					\
	KVM_STATS_FILE(_kind, _object, KVM_STATS_FD_DESC_OFFSET,		\
		KVM_STATS_CONST(0, sizeof(struct kvm_stats_header),		\
				&kvm_##_kind##_stats_fd_header),		\
		KVM_STATS_LIVE(KVM_STATS_FD_ID_OFFSET, _object, stats_id))

/* By the ioctl: KVM_STATS_GETFD or KVM_GET_STATS_FD. */
enum {
	KVM_STATS_ABI_GETFD,
	KVM_STATS_ABI_FD,
	KVM_STATS_ABIS
};

static struct kvm_stats_file kvm_vm_stats_files[KVM_STATS_ABIS] = {
	[KVM_STATS_ABI_GETFD] = KVM_STATS_GETFD_FILE(vm, kvm),
	[KVM_STATS_ABI_FD] = KVM_GET_STATS_FD_FILE(vm, kvm),
};

static struct kvm_stats_file kvm_vcpu_stats_files[KVM_STATS_ABIS] = {
	[KVM_STATS_ABI_GETFD] = KVM_STATS_GETFD_FILE(vcpu, kvm_vcpu),
	[KVM_STATS_ABI_FD] = KVM_GET_STATS_FD_FILE(vcpu, kvm_vcpu),
};

static int kvm_stats_getfd(const char *name, struct kvm_stats_file *stats_file,
			   void *object, struct kvm *kvm)
{
	struct file *file;
	int fd;

	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;

	/* As soon as the fd is visible another thread may close it. */
	kvm_get_kvm(kvm);
	file = anon_inode_getfile(name, &stats_file->fops, object, O_RDONLY);
	if (IS_ERR(file)) {
		kvm_put_kvm_no_destroy(kvm);
		put_unused_fd(fd);
		return PTR_ERR(file);
	}
	file->f_mode |= FMODE_LSEEK | FMODE_PREAD;
	fd_install(fd, file);

	return fd;
}

/**
 * kvm_stats_ioctl - open the statistics of a VM or a vCPU
 * @kvm: the VM
 * @vcpu: the vCPU, NULL for the statistics of the VM
 * @ioctl: the number the VM or vCPU fd was called with
 * @arg: the argument; for KVM_STATS_GETFD it must be 0, room for later scopes
 *
 * To be called before anything else looks at the ioctl. It takes no lock, in
 * particular not vcpu->mutex, which a vCPU holds as long as it is in KVM_RUN.
 * It does not compare kvm->mm: whoever got hold of the fd may know how often
 * the vCPU exits, and an agent that watches a VMM from outside needs that.
 *
 * Return: an fd, -ENOIOCTLCMD if @ioctl is neither KVM_STATS_GETFD nor
 * KVM_GET_STATS_FD, -EINVAL for a wrong @arg, -EMFILE, -ENFILE or -ENOMEM.
 */
long kvm_stats_ioctl(struct kvm *kvm, struct kvm_vcpu *vcpu,
		     unsigned int ioctl, unsigned long arg)
{
	char name[] = "kvm-vcpu-stats:0123456789";
	int abi;

	switch (ioctl) {
	case KVM_STATS_GETFD:
		if (arg)
			return -EINVAL;
		abi = KVM_STATS_ABI_GETFD;
		break;
	case KVM_GET_STATS_FD:
		abi = KVM_STATS_ABI_FD;
		break;
	default:
		return -ENOIOCTLCMD;
	}

	if (!vcpu)
		return kvm_stats_getfd("kvm-vm-stats", &kvm_vm_stats_files[abi],
				       kvm, kvm);

	/* "kvm-PID/vcpu-ID" has the number; to print it takes long. */
	strscpy(name + strlen("kvm-vcpu-stats:"),
		strrchr(vcpu->stats_id, '-') + 1, sizeof("0123456789"));
	return kvm_stats_getfd(name, &kvm_vcpu_stats_files[abi], vcpu, kvm);
}

/**
 * kvm_stats_init - let open statistics files hold the module
 * @module: the module that implements KVM for this CPU
 */
void kvm_stats_init(struct module *module)
{
	int abi;

	for (abi = 0; abi < KVM_STATS_ABIS; abi++) {
		kvm_vm_stats_files[abi].fops.owner = module;
		kvm_vcpu_stats_files[abi].fops.owner = module;
	}
}
