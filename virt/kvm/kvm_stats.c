// SPDX-License-Identifier: GPL-2.0-only
/*
 * KVM statistics: the table made from <linux/kvm_stats_defs.h>, and the files
 * through which user space reads the counters of a VM or a vCPU.
 *
 * A file of KVM_STATS_GETFD with n statistics, where its bytes are. Numbers are
 * in the byte order of the CPU; Documentation/virt/kvm/stats.rst has the rules.
 *
 *      0   char id[64]		"kvm-25/vcpu-0"     struct
 *     64   u32 name_size	48                  kvm_stats_getfd_header
 *     68   u32 count		n
 *     72   u32 desc_offset	80
 *     76   u32 data_offset	80 + n * 64
 *
 *     80   u32 flags		type, unit, base    struct kvm_stats_desc
 *     84   s16 exponent                            of the first statistic
 *     86   u16 size		1: how many u64
 *     88   u32 offset		0: after data_offset
 *     92   u32 bucket_size	0
 *     96   char name[48]	"halt_successful_poll"
 *
 *    144   the descriptor of the second statistic, and so on, 64 bytes each
 *
 *     80 + n * 64   the values, u64 each, without holes
 *
 * A file of KVM_GET_STATS_FD differs in what is in front of the descriptors:
 *
 *      0   u32 flags		0                   struct kvm_stats_header
 *      4   u32 name_size	48
 *      8   u32 num_desc	n
 *     12   u32 id_offset	24
 *     16   u32 desc_offset	72
 *     20   u32 data_offset	72 + n * 64
 *     24   char id[48]
 *     72   the descriptor of the first statistic
 *
 * A file of KVM_STATS_GETFD with the scope KVM_STATS_VCPUS is that of a vCPU with
 * two statistics more, vcpu_id and vcpu_tid, and with the values of one vCPU
 * after those of another.
 */

#include <linux/anon_inodes.h>
#include <linux/fault-inject-usercopy.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/instrumented.h>
#include <linux/kvm_host.h>
#include <linux/nospec.h>
#include <linux/poll.h>
#include <linux/rculist.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#define KVM_DEBUGFS		.mode = 0644
#define KVM_DEBUGFS_RO		.mode = 0444
#define KVM_DEBUGFS_AS(_name)	.mode = 0644, .debugfs_name = _name
#define KVM_DEBUGFS_RO_AS(_name) .mode = 0444, .debugfs_name = _name
#define KVM_NO_DEBUGFS		.mode = 0

/*
 * What a type is in a descriptor. For example, the line
 *
 *   KVM_VCPU_STAT(halt_wait_hist, LOG_HIST(32), SECONDS, -9, ...)
 *
 * makes of KVM_STATS_FLAGS_##_type here KVM_STATS_FLAGS_LOG_HIST(32), which is
 * KVM_STATS_TYPE_LOG_HIST; and of KVM_STATS_ARRAY_##_type in <linux/kvm_stats.h>
 * KVM_STATS_ARRAY_LOG_HIST(32), which is [32]. So the member of struct
 * kvm_vcpu_stat is u64 halt_wait_hist[32], and its size says how many buckets.
 */
#define KVM_STATS_FLAGS_CUMULATIVE		KVM_STATS_TYPE_CUMULATIVE
#define KVM_STATS_FLAGS_INSTANT			KVM_STATS_TYPE_INSTANT
#define KVM_STATS_FLAGS_PEAK			KVM_STATS_TYPE_PEAK
#define KVM_STATS_FLAGS_LOG_HIST(_buckets)	KVM_STATS_TYPE_LOG_HIST

const struct kvm_stats_item kvm_stats_items[] = {
#define KVM_VM_STAT(_member, _type, _unit, _exponent, _debugfs, _words)		\
	{									\
		.name = #_member,						\
		.kind = KVM_STAT_VM,						\
		.offset = offsetof(struct kvm, stat._member),			\
		.size = sizeof_field(struct kvm, stat._member),			\
		.flags = KVM_STATS_FLAGS_##_type | KVM_STATS_UNIT_##_unit |	\
			 KVM_STATS_BASE_POW10,					\
		.exponent = _exponent,						\
		_debugfs							\
	},
#define KVM_VCPU_STAT(_member, _type, _unit, _exponent, _debugfs, _words)	\
	{									\
		.name = #_member,						\
		.kind = KVM_STAT_VCPU,						\
		.offset = offsetof(struct kvm_vcpu, stat._member),		\
		.size = sizeof_field(struct kvm_vcpu, stat._member),		\
		.flags = KVM_STATS_FLAGS_##_type | KVM_STATS_UNIT_##_unit |	\
			 KVM_STATS_BASE_POW10,					\
		.exponent = _exponent,						\
		_debugfs							\
	},
#include <linux/kvm_stats_defs.h>
	{ }
};

/* How many statistics there are of each kind. */
enum {
	KVM_VM_STATS = 0
#define KVM_VM_STAT(...)	+ 1
#include <linux/kvm_stats_defs.h>
};

enum {
	KVM_VCPU_STATS = 0
#define KVM_VCPU_STAT(...)	+ 1
#include <linux/kvm_stats_defs.h>
};

/* The bytes of all members that have a line: there is no other member, no hole. */
enum {
	KVM_VM_STATS_SIZE = 0
#define KVM_VM_STAT(_member, ...)	+ sizeof_field(struct kvm_vm_stat, _member)
#include <linux/kvm_stats_defs.h>
};

enum {
	KVM_VCPU_STATS_SIZE = 0
#define KVM_VCPU_STAT(_member, ...)	+ sizeof_field(struct kvm_vcpu_stat, _member)
#include <linux/kvm_stats_defs.h>
};

static_assert(sizeof(struct kvm_vm_stat) == KVM_VM_STATS_SIZE);
static_assert(sizeof(struct kvm_vcpu_stat) == KVM_VCPU_STATS_SIZE);

/* C takes a name that leaves no room for its NUL. */
#define KVM_VM_STAT(_member, ...)	static_assert(sizeof(#_member) <= KVM_STATS_NAME_SIZE);
#define KVM_VCPU_STAT(_member, ...)	static_assert(sizeof(#_member) <= KVM_STATS_NAME_SIZE);
#include <linux/kvm_stats_defs.h>

static struct kvm_stats_desc kvm_vm_stats_desc[KVM_VM_STATS];
/* The last two are those that only a file of all vCPUs has. */
static struct kvm_stats_desc kvm_vcpu_stats_desc[KVM_VCPU_STATS + 2];

/* A row of the values of all vCPUs: what is from here on in a struct kvm_vcpu. */
#define KVM_VCPU_ROW_OFFSET	offsetof(struct kvm_vcpu, stat)
#define KVM_VCPU_ROW_SIZE	(offsetofend(struct kvm_vcpu, stats_tid) - KVM_VCPU_ROW_OFFSET)

static_assert(sizeof(struct kvm_vcpu_stat) + 2 * sizeof(u64) == KVM_VCPU_ROW_SIZE);

/**
 * struct kvm_stats_part - a part of what is in front of the values
 * @start: bytes from the start of the file
 * @end: bytes from the start of the file to the byte after it
 * @data: where the bytes are, NULL for the id of the VM or vCPU
 *
 * What is between two parts reads as zeros.
 */
struct kvm_stats_part {
	size_t start;
	size_t end;
	const void *data;
};

/**
 * struct kvm_stats_file - a kind of statistics file
 * @fops: its operations, by which an open file finds its kind
 * @of_vcpu: whether file->private_data is a struct kvm_vcpu, not a struct kvm
 * @part: header, id and descriptors, in the order of the file
 * @data_offset: bytes from the start of the file to the values
 * @getfd: what is at the start of a file of KVM_STATS_GETFD, but for the id
 * @stats_fd: what is at the start of a file of KVM_GET_STATS_FD
 */
struct kvm_stats_file {
	struct file_operations fops;
	bool of_vcpu;
	struct kvm_stats_part part[3];
	size_t data_offset;
	union {
		struct kvm_stats_getfd_header getfd;
		struct kvm_stats_header stats_fd;
	};
};

static const struct kvm_stats_file *kvm_stats_file(const struct file *file)
{
	return container_of(file->f_op, const struct kvm_stats_file, fops);
}

static struct kvm *kvm_stats_kvm(const struct file *file)
{
	struct kvm_vcpu *vcpu = file->private_data;

	return kvm_stats_file(file)->of_vcpu ? vcpu->kvm : file->private_data;
}

static const char *kvm_stats_id(const struct file *file)
{
	struct kvm_vcpu *vcpu = file->private_data;
	struct kvm *kvm = file->private_data;

	return kvm_stats_file(file)->of_vcpu ? vcpu->stats_id : kvm->stats_id;
}

/* Header, id and descriptors: as much of them as there is from *ppos on. */
static ssize_t kvm_stats_read_front(struct file *file, char __user *buf,
				    size_t len, loff_t *ppos)
{
	const struct kvm_stats_file *stats_file = kvm_stats_file(file);
	const struct kvm_stats_part *part = stats_file->part;
	const size_t start = *ppos;
	const size_t end = start + min(len, stats_file->data_offset - start);
	size_t pos = start, n, left = 0;

	while (pos < end && !left) {
		if (pos >= part->end) {
			part++;
			continue;
		}
		if (pos < part->start) {
			n = min(end, part->start) - pos;
			left = clear_user(buf, n);
		} else {
			const void *data = part->data ?: kvm_stats_id(file);

			n = min(end, part->end) - pos;
			left = copy_to_user(buf, data + (pos - part->start), n);
		}
		buf += n - left;
		pos += n - left;
	}

	*ppos = pos;
	return left && pos == start ? -EFAULT : pos - start;
}

/*
 * copy_to_user() without the check for hardened usercopy, which costs more than
 * the copy: that @from and @n are within the counters is checked by the callers,
 * as is access_ok().
 *
 * Return: how many bytes were not copied.
 */
static __always_inline unsigned int
kvm_stats_copy(char __user *buf, const void *from, unsigned int n)
{
	if (should_fail_usercopy())
		return n;
	/*
	 * The counters change meanwhile, and no lock would keep a vCPU from
	 * counting: every value is live, between values nothing is promised.
	 */
	return data_race(({
		instrument_copy_to_user(buf, from, n);
		raw_copy_to_user(buf, from, n);
	}));
}

/*
 * What begins in front of the values, or behind them. Where the front ends the
 * file's own read goes on.
 */
static noinline ssize_t kvm_stats_read_elsewhere(struct file *file, char __user *buf,
						 size_t len, loff_t *ppos)
{
	const size_t data_offset = kvm_stats_file(file)->data_offset;
	ssize_t front, n;

	if (*ppos >= data_offset)
		return 0;
	front = kvm_stats_read_front(file, buf, len, ppos);
	if (front < 0 || *ppos < data_offset)
		return front;
	n = file->f_op->read(file, buf + front, len - front, ppos);
	return n < 0 ? front : front + n;
}

/*
 * The values of one VM or vCPU. This is no read_iter: for as few bytes as these
 * an iterator costs more than the copy.
 */
static __always_inline ssize_t
kvm_stats_read(struct file *file, char __user *buf, size_t len, loff_t *ppos,
	       const void *values, const size_t size)
{
	/* In front of the values this is more than any size. */
	const u64 pos = *ppos - kvm_stats_file(file)->data_offset;
	unsigned int left;

	if (unlikely(pos >= size))
		return kvm_stats_read_elsewhere(file, buf, len, ppos);
	len = min_t(size_t, len, size - pos);
	if (unlikely(!access_ok(buf, len)))
		return -EFAULT;
	left = kvm_stats_copy(buf, values + pos, len);
	if (unlikely(left)) {
		if (left == len)
			return -EFAULT;
		len -= left;
	}
	*ppos += len;
	return len;
}

static ssize_t kvm_vm_stats_read(struct file *file, char __user *buf,
				 size_t len, loff_t *ppos)
{
	const struct kvm *kvm = file->private_data;

	return kvm_stats_read(file, buf, len, ppos, &kvm->stat, sizeof(kvm->stat));
}

static ssize_t kvm_vcpu_stats_read(struct file *file, char __user *buf,
				   size_t len, loff_t *ppos)
{
	const struct kvm_vcpu *vcpu = file->private_data;

	return kvm_stats_read(file, buf, len, ppos, &vcpu->stat, sizeof(vcpu->stat));
}

/* Whether a signal has come or another task waits for the CPU. */
static __always_inline bool kvm_stats_interrupted(void)
{
	/* What is missed after this row is seen after the next one. */
	return unlikely(data_race(current_thread_info()->flags &
				  (_TIF_NEED_RESCHED | _TIF_SIGPENDING)));
}

static const void *kvm_vcpu_row(const struct list_head *vcpu)
{
	return (const void *)list_entry(vcpu, struct kvm_vcpu, stats_vcpus) +
	       KVM_VCPU_ROW_OFFSET;
}

/*
 * A row for each vCPU, in the order of their creation. They are never taken from
 * the list, nor freed, before the last file is closed; new ones come at its end.
 */
static ssize_t kvm_vcpus_stats_read(struct file *file, char __user *buf,
				    size_t len, loff_t *ppos)
{
	const size_t data_offset = kvm_stats_file(file)->data_offset;
	const struct kvm *kvm = file->private_data;
	const struct list_head *vcpus = &kvm->stats_vcpus, *vcpu;
	const ssize_t last_whole = len - KVM_VCPU_ROW_SIZE;
	unsigned int n, left = 0;
	ssize_t copied = 0;
	u64 pos;

	if (unlikely(*ppos < data_offset))
		return kvm_stats_read_elsewhere(file, buf, len, ppos);
	if (unlikely(!access_ok(buf, len)))
		return -EFAULT;

	pos = *ppos - data_offset;
	vcpu = READ_ONCE(vcpus->next);
	for (; vcpu != vcpus && pos >= KVM_VCPU_ROW_SIZE; pos -= KVM_VCPU_ROW_SIZE)
		vcpu = READ_ONCE(vcpu->next);
	if (vcpu == vcpus)
		return 0;

	/* The end of a row. */
	if (unlikely(pos)) {
		n = min_t(size_t, len, KVM_VCPU_ROW_SIZE - pos);
		left = kvm_stats_copy(buf, kvm_vcpu_row(vcpu) + pos, n);
		copied = n - left;
		if (left)
			goto out;
		vcpu = READ_ONCE(vcpu->next);
		if (vcpu == vcpus)
			goto out;
	}

	/* Whole rows: what is done here is done for each vCPU. */
	while (copied <= last_whole) {
		left = kvm_stats_copy(buf + copied, kvm_vcpu_row(vcpu),
				      KVM_VCPU_ROW_SIZE);
		if (unlikely(left)) {
			copied += KVM_VCPU_ROW_SIZE - left;
			goto out;
		}
		copied += KVM_VCPU_ROW_SIZE;
		if (kvm_stats_interrupted()) {
			if (fatal_signal_pending(current))
				goto out;
			cond_resched();
		}
		vcpu = READ_ONCE(vcpu->next);
		if (vcpu == vcpus)
			goto out;
	}

	/* The start of a row. */
	n = len - copied;
	if (n) {
		left = kvm_stats_copy(buf + copied, kvm_vcpu_row(vcpu), n);
		copied += n - left;
	}
out:
	if (unlikely(left && !copied))
		return -EFAULT;
	*ppos += copied;
	return copied;
}

/*
 * What is at @pos of a file: returns where that is, NULL for zeros, and in *@n how
 * many bytes from there on belong together, 0 at the end of the file.
 */
static const void *kvm_stats_at(const struct file *file, u64 pos, size_t *n)
{
	const struct kvm_stats_file *stats_file = kvm_stats_file(file);
	const struct kvm_stats_part *part = stats_file->part;
	const struct kvm_vcpu *vcpu = file->private_data;
	const struct kvm *kvm = file->private_data;

	if (pos < stats_file->data_offset) {
		while (pos >= part->end)
			part++;
		if (pos < part->start) {
			*n = part->start - pos;
			return NULL;
		}
		*n = part->end - pos;
		return (part->data ?: kvm_stats_id(file)) + (pos - part->start);
	}

	pos -= stats_file->data_offset;
	if (stats_file->fops.read == kvm_vcpus_stats_read) {
		list_for_each_entry_lockless(vcpu, &kvm->stats_vcpus, stats_vcpus) {
			if (pos < KVM_VCPU_ROW_SIZE) {
				*n = KVM_VCPU_ROW_SIZE - pos;
				return kvm_vcpu_row(&vcpu->stats_vcpus) + pos;
			}
			pos -= KVM_VCPU_ROW_SIZE;
		}
		*n = 0;
		return NULL;
	}
	if (stats_file->of_vcpu) {
		*n = sizeof(vcpu->stat) - min_t(u64, pos, sizeof(vcpu->stat));
		return (const void *)&vcpu->stat + pos;
	}
	*n = sizeof(kvm->stat) - min_t(u64, pos, sizeof(kvm->stat));
	return (const void *)&kvm->stat + pos;
}

/*
 * For what comes with an iterator: io_uring, readv() and preadv(). Memory of the
 * calling process is written by the file's own read, which is faster; a buffer that
 * is registered with io_uring is not mapped there.
 */
static ssize_t kvm_stats_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct file *file = iocb->ki_filp;
	ssize_t copied = 0, done;
	const void *from;
	size_t n;

	while (iov_iter_count(to)) {
		if (iter_is_iovec(to)) {
			const struct iovec iov = iov_iter_iovec(to);

			n = iov.iov_len;
			done = file->f_op->read(file, iov.iov_base, n, &iocb->ki_pos);
			if (done < 0)
				return copied ?: done;
			iov_iter_advance(to, done);
		} else {
			from = kvm_stats_at(file, iocb->ki_pos, &n);
			n = min(n, iov_iter_count(to));
			if (!n)
				break;
			/* As kvm_stats_copy(): the counters change meanwhile. */
			done = from ? data_race(copy_to_iter(from, n, to)) :
				      iov_iter_zero(n, to);
			iocb->ki_pos += done;
		}
		copied += done;
		if (done < n)
			break;
	}
	return copied;
}

static loff_t kvm_vm_stats_llseek(struct file *file, loff_t offset, int whence)
{
	return fixed_size_llseek(file, offset, whence,
				 kvm_stats_file(file)->data_offset +
				 sizeof(struct kvm_vm_stat));
}

static loff_t kvm_vcpu_stats_llseek(struct file *file, loff_t offset, int whence)
{
	return fixed_size_llseek(file, offset, whence,
				 kvm_stats_file(file)->data_offset +
				 sizeof(struct kvm_vcpu_stat));
}

static loff_t kvm_vcpus_stats_llseek(struct file *file, loff_t offset, int whence)
{
	loff_t size = kvm_stats_file(file)->data_offset;
	const struct kvm *kvm = file->private_data;
	const struct kvm_vcpu *vcpu;

	list_for_each_entry_lockless(vcpu, &kvm->stats_vcpus, stats_vcpus)
		size += KVM_VCPU_ROW_SIZE;
	return fixed_size_llseek(file, offset, whence, size);
}

/* There are always values; EPOLLHUP says that they will not change any more. */
static __poll_t kvm_stats_poll(struct file *file, poll_table *wait)
{
	struct kvm *kvm = kvm_stats_kvm(file);

	poll_wait(file, &kvm->stats_wait, wait);
	/* Pairs with kvm_stats_end(): who sees the end reads final values. */
	if (smp_load_acquire(&kvm->destroyed))
		return EPOLLIN | EPOLLRDNORM | EPOLLHUP;
	return EPOLLIN | EPOLLRDNORM;
}

/**
 * kvm_stats_end - tell the readers of statistics that the VM has gone
 * @kvm: the VM; nothing of it counts any more
 */
void kvm_stats_end(struct kvm *kvm)
{
	/* Pairs with kvm_stats_poll(). */
	smp_store_release(&kvm->destroyed, true);
	/* All of them: wake_up_poll() leaves out those after the first EPOLLEXCLUSIVE. */
	__wake_up(&kvm->stats_wait, TASK_NORMAL, 0, poll_to_key(EPOLLHUP));
}

static int kvm_stats_release(struct inode *inode, struct file *file)
{
	kvm_drop(kvm_stats_kvm(file));
	return 0;
}

#ifdef CONFIG_PROC_FS
static void kvm_stats_show_fdinfo(struct seq_file *m, struct file *file)
{
	seq_printf(m, "kvm-stats-id:\t%s\n", kvm_stats_id(file));
	seq_printf(m, "kvm-stats-vm:\t%llu\n", kvm_stats_kvm(file)->stats_vm);
}
#else
#define kvm_stats_show_fdinfo	NULL
#endif

/* By the ioctl that opens a file. */
enum kvm_stats_abi {
	KVM_STATS_ABI_GETFD,
	KVM_STATS_ABI_STATS_FD,
	KVM_STATS_ABIS
};

static struct kvm_stats_file kvm_vm_stats_file[] = {
	[0 ... KVM_STATS_ABIS - 1] = {
		.fops = {
			.read = kvm_vm_stats_read,
			.read_iter = kvm_stats_read_iter,
			.llseek = kvm_vm_stats_llseek,
			.poll = kvm_stats_poll,
			.release = kvm_stats_release,
			.show_fdinfo = kvm_stats_show_fdinfo,
		},
	},
};

static struct kvm_stats_file kvm_vcpu_stats_file[] = {
	[0 ... KVM_STATS_ABIS - 1] = {
		.fops = {
			.read = kvm_vcpu_stats_read,
			.read_iter = kvm_stats_read_iter,
			.llseek = kvm_vcpu_stats_llseek,
			.poll = kvm_stats_poll,
			.release = kvm_stats_release,
			.show_fdinfo = kvm_stats_show_fdinfo,
		},
		.of_vcpu = true,
	},
};

static struct kvm_stats_file kvm_vcpus_stats_file = {
	.fops = {
		.read = kvm_vcpus_stats_read,
		.read_iter = kvm_stats_read_iter,
		.llseek = kvm_vcpus_stats_llseek,
		.poll = kvm_stats_poll,
		.release = kvm_stats_release,
		.show_fdinfo = kvm_stats_show_fdinfo,
	},
};

/* A file as it will be at its first read; nobody has the fd yet. */
static struct file *kvm_stats_open(const char *name, struct kvm_stats_file *stats_file,
				   void *object, struct kvm *kvm)
{
	struct file *file;

	file = anon_inode_getfile(name, &stats_file->fops, object, O_RDONLY);
	if (IS_ERR(file))
		return file;
	kvm_grab(kvm);
	/* A read waits for nothing: io_uring need not hand it to a worker thread. */
	file->f_mode |= FMODE_LSEEK | FMODE_PREAD | FMODE_NOWAIT;
	return file;
}

static int kvm_stats_getfd(const char *name, struct kvm_stats_file *stats_file,
			   void *object, struct kvm *kvm)
{
	struct file *file;
	int fd;

	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;

	file = kvm_stats_open(name, stats_file, object, kvm);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		return PTR_ERR(file);
	}
	fd_install(fd, file);
	return fd;
}

/**
 * kvm_stats_ioctl - open the statistics of a VM or a vCPU
 * @kvm: the VM
 * @vcpu: the vCPU, NULL if the ioctl is one of the VM
 * @ioctl: the number the VM or vCPU fd was called with, KVM_STATS_GETFD or
 *	KVM_GET_STATS_FD
 * @arg: for KVM_STATS_GETFD the scope, 0 (what the fd is itself) or
 *	KVM_STATS_VCPUS
 *
 * It takes no lock, in particular not vcpu->mutex, which a vCPU holds as long as
 * it is in KVM_RUN. It does not compare kvm->mm: whoever got hold of the fd may
 * know how often the vCPU exits, and an agent that watches a VMM from outside
 * needs that.
 *
 * Return: an fd, -EINVAL for a scope there is not, -EMFILE, -ENFILE or -ENOMEM.
 */
long kvm_stats_ioctl(struct kvm *kvm, struct kvm_vcpu *vcpu,
		     unsigned int ioctl, unsigned long arg)
{
	static const char prefix[] = { "kvm-vcpu-stats:" };
	char name[sizeof("kvm-vcpu-stats:4294967295")];
	char *start = name + sizeof(name) - 1;
	unsigned int id;
	enum kvm_stats_abi abi;

	abi = ioctl == KVM_GET_STATS_FD ? KVM_STATS_ABI_STATS_FD : KVM_STATS_ABI_GETFD;
	if (abi == KVM_STATS_ABI_GETFD && arg == KVM_STATS_VCPUS && !vcpu)
		return kvm_stats_getfd("kvm-vcpus-stats", &kvm_vcpus_stats_file,
				       kvm, kvm);
	if (abi == KVM_STATS_ABI_GETFD && arg)
		return -EINVAL;

	if (!vcpu)
		return kvm_stats_getfd("kvm-vm-stats", &kvm_vm_stats_file[abi], kvm, kvm);

	/* The name from its end: snprintf() would be a tenth of the whole. */
	*start = '\0';
	for (id = vcpu->vcpu_id; id > 9; id /= 10)
		*--start = '0' + id % 10;
	*--start = '0' + id;
	start -= strlen(prefix);
	memcpy(start, prefix, strlen(prefix));
	return kvm_stats_getfd(start, &kvm_vcpu_stats_file[abi], vcpu, kvm);
}

/*
 * The VM with the smallest number greater than @number. The newest VM is the first
 * of the list, so it takes one look to see that there is no newer one; the search
 * starts at the end of the list that is likely to be nearer. It need not look for
 * the other end, where there is a VM on which it stops.
 */
static struct kvm *kvm_stats_find(u64 number)
{
	struct kvm *newest, *oldest, *kvm;

	lockdep_assert_held(&kvm_lock);
	newest = list_first_entry_or_null(&vm_list, struct kvm, vm_list);
	if (!newest || newest->stats_vm <= number)
		return NULL;

	oldest = list_last_entry(&vm_list, struct kvm, vm_list);
	if (number < oldest->stats_vm + (newest->stats_vm - oldest->stats_vm) / 2) {
		kvm = oldest;
		while (kvm->stats_vm <= number)
			kvm = list_prev_entry(kvm, vm_list);
		return kvm;
	}
	kvm = newest;
	while (list_next_entry(kvm, vm_list)->stats_vm > number)
		kvm = list_next_entry(kvm, vm_list);
	return kvm;
}

/*
 * The process that created the VM, 0 if it has ended: its number may be that of
 * another process by now.
 */
static u32 kvm_stats_pid(struct kvm *kvm)
{
	u32 number = 0;

	rcu_read_lock();
	if (pid_task(kvm->stats_pid, PIDTYPE_TGID))
		number = pid_nr(kvm->stats_pid);
	rcu_read_unlock();
	return number;
}

/**
 * kvm_stats_next - open the statistics of the next VM of the host
 * @argp: the argument of KVM_STATS_NEXT
 *
 * VMs are numbered when they are put on vm_list, so a VM that is there all the
 * time is found, and one that is found has a greater number than those before.
 * It does not hold kvm_lock when it copies or allocates: the file's count of the
 * VM's memory keeps what it found.
 *
 * Return: an fd, -EPERM for whoever may not monitor the system, -EINVAL, -EFAULT,
 * -ENOENT if there is no further VM, -EMFILE, -ENFILE or -ENOMEM. An error leaves
 * the argument as it was.
 */
long kvm_stats_next(struct kvm_stats_next __user *argp)
{
	const size_t answer = offsetofend(struct kvm_stats_next, pid);
	struct kvm_stats_next asked, next;
	unsigned long left;
	struct kvm *found;
	struct file *file;
	int fd;

	if (!perfmon_capable())
		return -EPERM;
	if (copy_from_user(&asked, argp, sizeof(asked)))
		return -EFAULT;
	if (asked.scope > KVM_STATS_VCPUS || asked.reserved[0] || asked.reserved[1])
		return -EINVAL;

	next = asked;
	mutex_lock(&kvm_lock);
	found = kvm_stats_find(asked.vm);
	if (found) {
		kvm_grab(found);
		next.vm = found->stats_vm;
		next.pid = kvm_stats_pid(found);
	}
	mutex_unlock(&kvm_lock);
	if (!found)
		return -ENOENT;

	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		goto out;
	if (next.scope == KVM_STATS_VCPUS)
		file = kvm_stats_open("kvm-vcpus-stats", &kvm_vcpus_stats_file,
				      found, found);
	else
		file = kvm_stats_open("kvm-vm-stats",
				      &kvm_vm_stats_file[KVM_STATS_ABI_GETFD],
				      found, found);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		fd = PTR_ERR(file);
		goto out;
	}
	left = copy_to_user(argp, &next, answer);
	if (left) {
		fput(file);
		put_unused_fd(fd);
		fd = -EFAULT;
		/* The first bytes may have been written: put back what was there. */
		left = copy_to_user(argp, &asked, answer);
		goto out;
	}
	fd_install(fd, file);
out:
	kvm_drop(found);
	return fd;
}

static void kvm_stats_init_desc(struct kvm_stats_desc *desc,
				const struct kvm_stats_item *item, size_t values)
{
	desc->flags = item->flags;
	desc->exponent = item->exponent;
	desc->size = item->size / sizeof(u64);
	desc->offset = item->offset - values;
	strscpy(desc->name, item->name, sizeof(desc->name));
}

static void kvm_stats_init_descs(void)
{
	struct kvm_stats_desc *vm_desc = kvm_vm_stats_desc;
	struct kvm_stats_desc *vcpu_desc = kvm_vcpu_stats_desc;
	const struct kvm_stats_item *item;
	static const struct kvm_stats_item vcpus_items[] = {
		{
			.name = "vcpu_id",
			.offset = offsetof(struct kvm_vcpu, stats_vcpu_id),
			.size = sizeof(u64),
			.flags = KVM_STATS_TYPE_INSTANT,
		}, {
			.name = "vcpu_tid",
			.offset = offsetof(struct kvm_vcpu, stats_tid),
			.size = sizeof(u64),
			.flags = KVM_STATS_TYPE_INSTANT,
		}, { }
	};

	for (item = kvm_stats_items; item->name; item++) {
		if (item->kind == KVM_STAT_VM)
			kvm_stats_init_desc(vm_desc++, item, offsetof(struct kvm, stat));
		else
			kvm_stats_init_desc(vcpu_desc++, item,
					    offsetof(struct kvm_vcpu, stat));
	}
	for (item = vcpus_items; item->name; item++)
		kvm_stats_init_desc(vcpu_desc++, item, offsetof(struct kvm_vcpu, stat));
}

static void kvm_stats_init_getfd(struct kvm_stats_file *stats_file,
				 const struct kvm_stats_desc *desc, size_t count)
{
	struct kvm_stats_getfd_header *header = &stats_file->getfd;
	const size_t name_size = offsetof(struct kvm_stats_getfd_header, name_size);

	header->name_size = KVM_STATS_NAME_SIZE;
	header->count = count;
	header->desc_offset = sizeof(*header);
	header->data_offset = sizeof(*header) + count * sizeof(*desc);
	stats_file->data_offset = header->data_offset;

	stats_file->part[0] = (struct kvm_stats_part) {
		.start = offsetof(struct kvm_stats_getfd_header, id),
		.end = offsetof(struct kvm_stats_getfd_header, id) + KVM_STATS_ID_SIZE,
	};
	stats_file->part[1] = (struct kvm_stats_part) {
		.start = name_size,
		.end = sizeof(*header),
		.data = (void *)header + name_size,
	};
	stats_file->part[2] = (struct kvm_stats_part) {
		.start = header->desc_offset,
		.end = header->data_offset,
		.data = desc,
	};
}

static void kvm_stats_init_stats_fd(struct kvm_stats_file *stats_file,
				    const struct kvm_stats_desc *desc, size_t count)
{
	struct kvm_stats_header *header = &stats_file->stats_fd;

	header->name_size = KVM_STATS_NAME_SIZE;
	header->num_desc = count;
	header->id_offset = sizeof(*header);
	header->desc_offset = header->id_offset + KVM_STATS_NAME_SIZE;
	header->data_offset = header->desc_offset + count * sizeof(*desc);
	stats_file->data_offset = header->data_offset;

	stats_file->part[0] = (struct kvm_stats_part) {
		.start = 0,
		.end = sizeof(*header),
		.data = header,
	};
	stats_file->part[1] = (struct kvm_stats_part) {
		.start = header->id_offset,
		.end = header->id_offset + KVM_STATS_ID_SIZE,
	};
	stats_file->part[2] = (struct kvm_stats_part) {
		.start = header->desc_offset,
		.end = header->data_offset,
		.data = desc,
	};
}

#ifdef CONFIG_KVM_PV_PERF
/**
 * kvm_stats_vcpu_desc - find the descriptor of a statistic of vCPUs
 * @index: its number in the order of the file, as a guest or user space has it
 *
 * Return: the descriptor, whose offset is in bytes from the start of
 * vcpu->stat; NULL behind the last one
 */
const struct kvm_stats_desc *kvm_stats_vcpu_desc(unsigned int index)
{
	if (index >= KVM_VCPU_STATS)
		return NULL;
	return &kvm_vcpu_stats_desc[array_index_nospec(index, KVM_VCPU_STATS)];
}
#endif

/**
 * kvm_stats_init - fill what is in front of the values of the files
 * @module: the module that implements KVM for this CPU, held by open files
 */
void kvm_stats_init(struct module *module)
{
	int abi;

	kvm_stats_init_descs();
	kvm_stats_init_getfd(&kvm_vm_stats_file[KVM_STATS_ABI_GETFD],
			     kvm_vm_stats_desc, KVM_VM_STATS);
	kvm_stats_init_getfd(&kvm_vcpu_stats_file[KVM_STATS_ABI_GETFD],
			     kvm_vcpu_stats_desc, KVM_VCPU_STATS);
	kvm_stats_init_stats_fd(&kvm_vm_stats_file[KVM_STATS_ABI_STATS_FD],
				kvm_vm_stats_desc, KVM_VM_STATS);
	kvm_stats_init_stats_fd(&kvm_vcpu_stats_file[KVM_STATS_ABI_STATS_FD],
				kvm_vcpu_stats_desc, KVM_VCPU_STATS);
	for (abi = 0; abi < KVM_STATS_ABIS; abi++) {
		kvm_vm_stats_file[abi].fops.owner = module;
		kvm_vcpu_stats_file[abi].fops.owner = module;
	}
	kvm_stats_init_getfd(&kvm_vcpus_stats_file, kvm_vcpu_stats_desc,
			     ARRAY_SIZE(kvm_vcpu_stats_desc));
	kvm_vcpus_stats_file.fops.owner = module;
}
