// SPDX-License-Identifier: GPL-2.0-only
/*
 * KVM statistics: the table made from <linux/kvm_stats_defs.h>, and the files
 * through which user space reads the counters of a VM or a vCPU.
 *
 * The layout of a file of KVM_STATS_GETFD with n statistics. Numbers are in the
 * byte order of the CPU; Documentation/virt/kvm/stats.rst has the rules.
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
 *     80 + n * 64   the values, a u64 each, without holes
 *
 * A file of KVM_GET_STATS_FD differs in the bytes before the descriptors:
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
 * A file of KVM_STATS_GETFD with the scope KVM_STATS_SCOPE_VCPUS is like that of a vCPU,
 * with two more statistics, vcpu_id and vcpu_tid, and with one row of values for
 * each vCPU.
 */

#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
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
 * The flags of a type. For example, with the line
 *
 *   DEFINE_VCPU_STAT(halt_wait_hist, LOG_HIST(32), SECONDS, -9, ...)
 *
 * KVM_STATS_FLAGS_##_type below is KVM_STATS_FLAGS_LOG_HIST(32), that is,
 * KVM_STATS_TYPE_LOG_HIST; and KVM_STATS_ARRAY_##_type in <linux/kvm_stats.h> is
 * KVM_STATS_ARRAY_LOG_HIST(32), that is, [32]. So the member of struct
 * kvm_vcpu_stat is u64 halt_wait_hist[32], and its size gives the number of buckets.
 */
#define KVM_STATS_FLAGS_CUMULATIVE		KVM_STATS_TYPE_CUMULATIVE
#define KVM_STATS_FLAGS_INSTANT			KVM_STATS_TYPE_INSTANT
#define KVM_STATS_FLAGS_PEAK			KVM_STATS_TYPE_PEAK
#define KVM_STATS_FLAGS_LOG_HIST(_buckets)	KVM_STATS_TYPE_LOG_HIST

const struct kvm_stats_item kvm_stats_items[] = {
#define DEFINE_VM_STAT(_member, _type, _unit, _exponent, _debugfs, _words)	\
	{									\
		.name = #_member,						\
		.kind = KVM_STAT_KIND_VM,					\
		.offset = offsetof(struct kvm, stat._member),			\
		.size = sizeof_field(struct kvm, stat._member),			\
		.flags = KVM_STATS_FLAGS_##_type | KVM_STATS_UNIT_##_unit |	\
			 KVM_STATS_BASE_POW10,					\
		.exponent = _exponent,						\
		_debugfs							\
	},
#define DEFINE_VCPU_STAT(_member, _type, _unit, _exponent, _debugfs, _words)	\
	{									\
		.name = #_member,						\
		.kind = KVM_STAT_KIND_VCPU,					\
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

/* The number of statistics of each kind. */
enum {
	NR_KVM_VM_STATS = 0
#define DEFINE_VM_STAT(...)	+ 1
#include <linux/kvm_stats_defs.h>
};

enum {
	NR_KVM_VCPU_STATS = 0
#define DEFINE_VCPU_STAT(...)	+ 1
#include <linux/kvm_stats_defs.h>
};

/* The size of all members that have a line: no other member exists, and no hole. */
enum {
	KVM_VM_STATS_SIZE = 0
#define DEFINE_VM_STAT(_member, ...)	+ sizeof_field(struct kvm_vm_stat, _member)
#include <linux/kvm_stats_defs.h>
};

enum {
	KVM_VCPU_STATS_SIZE = 0
#define DEFINE_VCPU_STAT(_member, ...)	+ sizeof_field(struct kvm_vcpu_stat, _member)
#include <linux/kvm_stats_defs.h>
};

static_assert(sizeof(struct kvm_vm_stat) == KVM_VM_STATS_SIZE);
static_assert(sizeof(struct kvm_vcpu_stat) == KVM_VCPU_STATS_SIZE);

/* C accepts a name that leaves no room for its NUL. */
#define DEFINE_VM_STAT(_member, ...)	static_assert(sizeof(#_member) <= KVM_STATS_NAME_SIZE);
#define DEFINE_VCPU_STAT(_member, ...)	static_assert(sizeof(#_member) <= KVM_STATS_NAME_SIZE);
#include <linux/kvm_stats_defs.h>

static struct kvm_stats_desc kvm_vm_stats_desc[NR_KVM_VM_STATS];
/* Only a file of all vCPUs has the last two. */
static struct kvm_stats_desc kvm_vcpu_stats_desc[NR_KVM_VCPU_STATS + 2];

/* The values of a vCPU in a file of all vCPUs: this part of struct kvm_vcpu. */
#define KVM_STATS_ROW_OFFSET	offsetof(struct kvm_vcpu, stat)
#define KVM_STATS_ROW_SIZE	(offsetofend(struct kvm_vcpu, stats_tid) - KVM_STATS_ROW_OFFSET)

static_assert(sizeof(struct kvm_vcpu_stat) + 2 * sizeof(u64) == KVM_STATS_ROW_SIZE);

/**
 * struct kvm_stats_region - a region of the metadata, which precedes the values
 * @start: offset in the file
 * @end: offset in the file of the byte after it
 * @data: where the bytes are, NULL for the id of the VM or vCPU
 *
 * A gap between two regions reads as zeros.
 */
struct kvm_stats_region {
	size_t start;
	size_t end;
	const void *data;
};

/**
 * struct kvm_stats_file - a kind of statistics file
 * @fops: its file operations, by which an open file finds its kind
 * @kind: KVM_STAT_KIND_VCPU if file->private_data is a struct kvm_vcpu, otherwise it is
 *	a struct kvm
 * @region: header, id and descriptors, in the order of the file
 * @data_offset: offset of the values in the file
 * @data_size: size of the values, 0 if there is a row of them for each vCPU
 * @getfd: the start of a file of KVM_STATS_GETFD, except for the id
 * @stats_fd: the start of a file of KVM_GET_STATS_FD, except for the id
 */
struct kvm_stats_file {
	struct file_operations fops;
	enum kvm_stat_kind kind;
	struct kvm_stats_region region[3];
	size_t data_offset;
	size_t data_size;
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

	return kvm_stats_file(file)->kind == KVM_STAT_KIND_VCPU ?
	       vcpu->kvm : file->private_data;
}

static const char *kvm_stats_id(const struct file *file)
{
	struct kvm_vcpu *vcpu = file->private_data;
	struct kvm *kvm = file->private_data;

	return kvm_stats_file(file)->kind == KVM_STAT_KIND_VCPU ?
	       vcpu->stats_id : kvm->stats_id;
}

/* Header, id and descriptors: as much of them as there is at *ppos. */
static ssize_t kvm_stats_read_metadata(struct file *file, char __user *buf,
				       size_t len, loff_t *ppos)
{
	const struct kvm_stats_file *stats_file = kvm_stats_file(file);
	const struct kvm_stats_region *region = stats_file->region;
	const size_t start = *ppos;
	const size_t end = start + min(len, stats_file->data_offset - start);
	size_t pos = start, n, left = 0;

	while (pos < end && !left) {
		if (pos >= region->end) {
			region++;
			continue;
		}
		if (pos < region->start) {
			n = min(end, region->start) - pos;
			left = clear_user(buf, n);
		} else {
			const void *data = region->data ?: kvm_stats_id(file);

			n = min(end, region->end) - pos;
			left = copy_to_user(buf, data + (pos - region->start), n);
		}
		buf += n - left;
		pos += n - left;
	}

	*ppos = pos;
	return left && pos == start ? -EFAULT : pos - start;
}

/* Return the number of bytes that were not copied. */
static __always_inline unsigned int
kvm_stats_copy(char __user *buf, const void *from, unsigned int n)
{
	/*
	 * The counters change concurrently, as no lock stops a vCPU from counting.
	 * Each value is live; consistency across values is not guaranteed.
	 */
	return data_race(copy_to_user(buf, from, n));
}

/*
 * Handle reads that start outside of the values. ->read() returns the values after
 * the metadata.
 */
static noinline ssize_t kvm_stats_read_slow(struct file *file, char __user *buf,
					    size_t len, loff_t *ppos)
{
	const size_t data_offset = kvm_stats_file(file)->data_offset;
	ssize_t done, n;

	if (*ppos >= data_offset)
		return 0;
	done = kvm_stats_read_metadata(file, buf, len, ppos);
	if (done < 0 || *ppos < data_offset)
		return done;
	n = file->f_op->read(file, buf + done, len - done, ppos);
	return n < 0 ? done : done + n;
}

/*
 * The values of one VM or vCPU. Not a read_iter: for so few bytes an iterator costs
 * more than the copy.
 */
static __always_inline ssize_t
kvm_stats_read(struct file *file, char __user *buf, size_t len, loff_t *ppos,
	       const void *values, const size_t size)
{
	/* Before the values this wraps around, and exceeds any size. */
	const u64 pos = *ppos - kvm_stats_file(file)->data_offset;
	unsigned int left;

	if (unlikely(pos >= size))
		return kvm_stats_read_slow(file, buf, len, ppos);
	len = min_t(size_t, len, size - pos);
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

/* Whether a signal is pending, or another task waits for the CPU. */
static __always_inline bool kvm_stats_interrupted(void)
{
	/* A flag that is missed after this row is seen after the next one. */
	return unlikely(data_race(current_thread_info()->flags &
				  (_TIF_NEED_RESCHED | _TIF_SIGPENDING)));
}

static const void *kvm_stats_row(const struct list_head *vcpu)
{
	return (const void *)list_entry(vcpu, struct kvm_vcpu, stats_entry) +
	       KVM_STATS_ROW_OFFSET;
}

/*
 * A row for each vCPU, in the order of their creation. vCPUs are neither removed
 * from the list nor freed before the last file is closed; new ones are appended.
 */
static ssize_t kvm_vcpus_stats_read(struct file *file, char __user *buf,
				    size_t len, loff_t *ppos)
{
	const size_t data_offset = kvm_stats_file(file)->data_offset;
	const struct kvm *kvm = file->private_data;
	const struct list_head *vcpus = &kvm->stats_vcpus, *vcpu;
	const ssize_t last_whole = len - KVM_STATS_ROW_SIZE;
	unsigned int n, left = 0;
	ssize_t copied = 0;
	u64 pos;

	if (unlikely(*ppos < data_offset))
		return kvm_stats_read_slow(file, buf, len, ppos);

	pos = *ppos - data_offset;
	vcpu = READ_ONCE(vcpus->next);
	for (; vcpu != vcpus && pos >= KVM_STATS_ROW_SIZE; pos -= KVM_STATS_ROW_SIZE)
		vcpu = READ_ONCE(vcpu->next);
	if (vcpu == vcpus)
		return 0;

	/* The end of a row. */
	if (unlikely(pos)) {
		n = min_t(size_t, len, KVM_STATS_ROW_SIZE - pos);
		left = kvm_stats_copy(buf, kvm_stats_row(vcpu) + pos, n);
		copied = n - left;
		if (left)
			goto out;
		vcpu = READ_ONCE(vcpu->next);
		if (vcpu == vcpus)
			goto out;
	}

	/* Whole rows: this is the loop whose cost grows with the number of vCPUs. */
	while (copied <= last_whole) {
		left = kvm_stats_copy(buf + copied, kvm_stats_row(vcpu),
				      KVM_STATS_ROW_SIZE);
		if (unlikely(left)) {
			copied += KVM_STATS_ROW_SIZE - left;
			goto out;
		}
		copied += KVM_STATS_ROW_SIZE;
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
		left = kvm_stats_copy(buf + copied, kvm_stats_row(vcpu), n);
		copied += n - left;
	}
out:
	if (unlikely(left && !copied))
		return -EFAULT;
	*ppos += copied;
	return copied;
}

/*
 * Where the bytes at @pos of a file are, NULL if they are zeros. *@n becomes the
 * number of bytes that are contiguous there, 0 at the end of the file.
 */
static const void *kvm_stats_at(const struct file *file, u64 pos, size_t *n)
{
	const struct kvm_stats_file *stats_file = kvm_stats_file(file);
	const struct kvm_stats_region *region = stats_file->region;
	const struct kvm_vcpu *vcpu = file->private_data;
	const struct kvm *kvm = file->private_data;

	if (pos < stats_file->data_offset) {
		while (pos >= region->end)
			region++;
		if (pos < region->start) {
			*n = region->start - pos;
			return NULL;
		}
		*n = region->end - pos;
		return (region->data ?: kvm_stats_id(file)) + (pos - region->start);
	}

	pos -= stats_file->data_offset;
	if (!stats_file->data_size) {
		list_for_each_entry_lockless(vcpu, &kvm->stats_vcpus, stats_entry) {
			if (pos < KVM_STATS_ROW_SIZE) {
				*n = KVM_STATS_ROW_SIZE - pos;
				return kvm_stats_row(&vcpu->stats_entry) + pos;
			}
			pos -= KVM_STATS_ROW_SIZE;
		}
		*n = 0;
		return NULL;
	}
	*n = stats_file->data_size - min_t(u64, pos, stats_file->data_size);
	if (stats_file->kind == KVM_STAT_KIND_VCPU)
		return (const void *)&vcpu->stat + pos;
	return (const void *)&kvm->stat + pos;
}

/*
 * For callers that have an iterator: io_uring, readv() and preadv(). Memory of the
 * calling process is filled by the faster read of the file; a buffer that is
 * registered with io_uring is not mapped there.
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
			/* As in kvm_stats_copy(): the counters change concurrently. */
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

static loff_t kvm_stats_llseek(struct file *file, loff_t offset, int whence)
{
	const struct kvm_stats_file *stats_file = kvm_stats_file(file);
	loff_t size = stats_file->data_offset + stats_file->data_size;
	const struct kvm *kvm = kvm_stats_kvm(file);
	const struct kvm_vcpu *vcpu;

	if (!stats_file->data_size) {
		list_for_each_entry_lockless(vcpu, &kvm->stats_vcpus, stats_entry)
			size += KVM_STATS_ROW_SIZE;
	}
	return fixed_size_llseek(file, offset, whence, size);
}

/* Values are always there; EPOLLHUP means that they no longer change. */
static __poll_t kvm_stats_poll(struct file *file, poll_table *wait)
{
	struct kvm *kvm = kvm_stats_kvm(file);

	poll_wait(file, &kvm->stats_wait, wait);
	/* Pairs with kvm_stats_notify_destroyed(): values read after EPOLLHUP are final. */
	if (smp_load_acquire(&kvm->stats_final))
		return EPOLLIN | EPOLLRDNORM | EPOLLHUP;
	return EPOLLIN | EPOLLRDNORM;
}

/* Notify readers of the VM's destruction: its values no longer change. */
void kvm_stats_notify_destroyed(struct kvm *kvm)
{
	/* Pairs with kvm_stats_poll(). */
	smp_store_release(&kvm->stats_final, true);
	/* Wake all: wake_up_poll() stops after the first waiter with EPOLLEXCLUSIVE. */
	wake_up_all(&kvm->stats_wait);
}

static int kvm_stats_release(struct inode *inode, struct file *file)
{
	kvm_put_stats_mem(kvm_stats_kvm(file));
	return 0;
}

#ifdef CONFIG_PROC_FS
static void kvm_stats_show_fdinfo(struct seq_file *m, struct file *file)
{
	seq_printf(m, "kvm-stats-id:\t%s\n", kvm_stats_id(file));
	seq_printf(m, "kvm-stats-vm:\t%llu\n", kvm_stats_kvm(file)->stats_vm_id);
}
#else
#define kvm_stats_show_fdinfo	NULL
#endif

/* The ioctls that open a file. */
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
			.llseek = kvm_stats_llseek,
			.poll = kvm_stats_poll,
			.release = kvm_stats_release,
			.show_fdinfo = kvm_stats_show_fdinfo,
		},
		.data_size = sizeof(struct kvm_vm_stat),
	},
};

static struct kvm_stats_file kvm_vcpu_stats_file[] = {
	[0 ... KVM_STATS_ABIS - 1] = {
		.fops = {
			.read = kvm_vcpu_stats_read,
			.read_iter = kvm_stats_read_iter,
			.llseek = kvm_stats_llseek,
			.poll = kvm_stats_poll,
			.release = kvm_stats_release,
			.show_fdinfo = kvm_stats_show_fdinfo,
		},
		.kind = KVM_STAT_KIND_VCPU,
		.data_size = sizeof(struct kvm_vcpu_stat),
	},
};

static struct kvm_stats_file kvm_vcpus_stats_file = {
	.fops = {
		.read = kvm_vcpus_stats_read,
		.read_iter = kvm_stats_read_iter,
		.llseek = kvm_stats_llseek,
		.poll = kvm_stats_poll,
		.release = kvm_stats_release,
		.show_fdinfo = kvm_stats_show_fdinfo,
	},
};

/* Create a file that is ready to be read, before its fd is installed. */
static struct file *kvm_stats_open(const char *name, struct kvm_stats_file *stats_file,
				   void *object, struct kvm *kvm)
{
	struct file *file;

	file = anon_inode_getfile(name, &stats_file->fops, object, O_RDONLY);
	if (IS_ERR(file))
		return file;
	kvm_get_stats_mem(kvm);
	/* A read never waits, so io_uring needs no worker thread for it. */
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

/*
 * Open the statistics of a VM, or of a vCPU if @vcpu is not NULL, and return an fd.
 * @arg is the scope of KVM_STATS_GETFD, 0 or KVM_STATS_SCOPE_VCPUS.
 *
 * Take no lock, in particular not vcpu->mutex, which is held while a vCPU is in
 * KVM_RUN. Don't compare kvm->mm: any process that has the fd may know how often the
 * vCPU exits, and an agent that monitors a VMM from outside depends on it.
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
	if (abi == KVM_STATS_ABI_GETFD && arg == KVM_STATS_SCOPE_VCPUS && !vcpu)
		return kvm_stats_getfd("kvm-vcpus-stats", &kvm_vcpus_stats_file,
				       kvm, kvm);
	if (abi == KVM_STATS_ABI_GETFD && arg)
		return -EINVAL;

	if (!vcpu)
		return kvm_stats_getfd("kvm-vm-stats", &kvm_vm_stats_file[abi], kvm, kvm);

	/* Written backwards: snprintf() would be a tenth of the cost of opening. */
	*start = '\0';
	for (id = vcpu->vcpu_id; id > 9; id /= 10)
		*--start = '0' + id % 10;
	*--start = '0' + id;
	start -= strlen(prefix);
	memcpy(start, prefix, strlen(prefix));
	return kvm_stats_getfd(start, &kvm_vcpu_stats_file[abi], vcpu, kvm);
}

/*
 * Find the VM with the smallest id greater than @id. The newest VM is first in
 * the list, so one comparison shows that no newer one exists. The search starts at the
 * end of the list that is likely to be nearer, and always finds a VM to stop at
 * before it reaches the other end.
 */
static struct kvm *kvm_stats_find(u64 id)
{
	struct kvm *newest, *oldest, *kvm;

	lockdep_assert_held(&kvm_lock);
	newest = list_first_entry_or_null(&vm_list, struct kvm, vm_list);
	if (!newest || newest->stats_vm_id <= id)
		return NULL;

	oldest = list_last_entry(&vm_list, struct kvm, vm_list);
	if (id < oldest->stats_vm_id + (newest->stats_vm_id - oldest->stats_vm_id) / 2) {
		kvm = oldest;
		while (kvm->stats_vm_id <= id)
			kvm = list_prev_entry(kvm, vm_list);
		return kvm;
	}
	kvm = newest;
	while (list_next_entry(kvm, vm_list)->stats_vm_id > id)
		kvm = list_next_entry(kvm, vm_list);
	return kvm;
}

/*
 * Return the PID of the process that created the VM, 0 if it has exited: the PID may
 * have been reused.
 */
static u32 kvm_stats_pid(struct kvm *kvm)
{
	u32 pid = 0;

	rcu_read_lock();
	if (pid_task(kvm->stats_pid, PIDTYPE_TGID))
		pid = pid_nr(kvm->stats_pid);
	rcu_read_unlock();
	return pid;
}

/*
 * Open the statistics of the next VM of the host, and return an fd. An error leaves
 * the argument as it was.
 *
 * VMs get their ids when they are put on vm_list: a VM that exists all the time is
 * found, and after all those with smaller ids. kvm_lock is not held while
 * this copies or allocates; the reference to the VM's memory keeps what was found.
 */
long kvm_stats_next(struct kvm_stats_next __user *argp)
{
	struct kvm_stats_next in, out;
	struct kvm *found;
	struct file *file;
	int fd;

	if (!perfmon_capable())
		return -EPERM;
	if (copy_from_user(&in, argp, sizeof(in)))
		return -EFAULT;
	if (in.scope > KVM_STATS_SCOPE_VCPUS || in.reserved[0] || in.reserved[1])
		return -EINVAL;

	out = in;
	mutex_lock(&kvm_lock);
	found = kvm_stats_find(in.vm);
	if (found) {
		kvm_get_stats_mem(found);
		out.vm = found->stats_vm_id;
		out.pid = kvm_stats_pid(found);
	}
	mutex_unlock(&kvm_lock);
	if (!found)
		return -ENOENT;

	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		goto put_mem;
	if (out.scope == KVM_STATS_SCOPE_VCPUS)
		file = kvm_stats_open("kvm-vcpus-stats", &kvm_vcpus_stats_file,
				      found, found);
	else
		file = kvm_stats_open("kvm-vm-stats",
				      &kvm_vm_stats_file[KVM_STATS_ABI_GETFD],
				      found, found);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		fd = PTR_ERR(file);
		goto put_mem;
	}
	/* A part may have been written if this fails. */
	if (copy_to_user(argp, &out, offsetofend(struct kvm_stats_next, pid))) {
		fput(file);
		put_unused_fd(fd);
		fd = -EFAULT;
		goto put_mem;
	}
	fd_install(fd, file);
put_mem:
	kvm_put_stats_mem(found);
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
		if (item->kind == KVM_STAT_KIND_VM)
			kvm_stats_init_desc(vm_desc++, item, offsetof(struct kvm, stat));
		else
			kvm_stats_init_desc(vcpu_desc++, item,
					    offsetof(struct kvm_vcpu, stat));
	}
	for (item = vcpus_items; item->name; item++)
		kvm_stats_init_desc(vcpu_desc++, item, offsetof(struct kvm_vcpu, stat));
}

static void kvm_stats_init_region(struct kvm_stats_region *region, size_t start,
				  size_t size, const void *data)
{
	region->start = start;
	region->end = start + size;
	region->data = data;
}

/* Fill in header, descriptors and owner of a kind of file. */
static void kvm_stats_init_file(struct kvm_stats_file *stats_file, enum kvm_stats_abi abi,
				const struct kvm_stats_desc *desc, size_t count,
				struct module *module)
{
	struct kvm_stats_getfd_header *getfd = &stats_file->getfd;
	struct kvm_stats_header *stats_fd = &stats_file->stats_fd;
	struct kvm_stats_region *region = stats_file->region;
	const size_t id_size = sizeof(getfd->id);
	const size_t desc_size = count * sizeof(*desc);
	size_t desc_offset;

	if (abi == KVM_STATS_ABI_STATS_FD) {
		desc_offset = sizeof(*stats_fd) + KVM_STATS_NAME_SIZE;
		stats_fd->name_size = KVM_STATS_NAME_SIZE;
		stats_fd->num_desc = count;
		stats_fd->id_offset = sizeof(*stats_fd);
		stats_fd->desc_offset = desc_offset;
		stats_fd->data_offset = desc_offset + desc_size;
		kvm_stats_init_region(region++, 0, sizeof(*stats_fd), stats_fd);
		kvm_stats_init_region(region++, sizeof(*stats_fd), KVM_STATS_ID_SIZE, NULL);
	} else {
		desc_offset = sizeof(*getfd);
		getfd->name_size = KVM_STATS_NAME_SIZE;
		getfd->count = count;
		getfd->desc_offset = desc_offset;
		getfd->data_offset = desc_offset + desc_size;
		kvm_stats_init_region(region++, 0, KVM_STATS_ID_SIZE, NULL);
		kvm_stats_init_region(region++, id_size, sizeof(*getfd) - id_size,
				      (void *)getfd + id_size);
	}
	kvm_stats_init_region(region, desc_offset, desc_size, desc);
	stats_file->data_offset = desc_offset + desc_size;
	stats_file->fops.owner = module;
}

#ifdef CONFIG_KVM_PV_PERF
/*
 * The descriptor of a statistic of vCPUs, by its position in the file, which may come
 * from a guest or from user space. NULL if there is none. The offset in it counts from
 * the start of vcpu->stat.
 */
const struct kvm_stats_desc *kvm_stats_vcpu_desc(unsigned int index)
{
	if (index >= NR_KVM_VCPU_STATS)
		return NULL;
	return &kvm_vcpu_stats_desc[array_index_nospec(index, NR_KVM_VCPU_STATS)];
}
#endif

/* @module implements KVM for this CPU, and is pinned by open files. */
void kvm_stats_init(struct module *module)
{
	enum kvm_stats_abi abi;

	kvm_stats_init_descs();
	for (abi = 0; abi < KVM_STATS_ABIS; abi++) {
		kvm_stats_init_file(&kvm_vm_stats_file[abi], abi, kvm_vm_stats_desc,
				    NR_KVM_VM_STATS, module);
		kvm_stats_init_file(&kvm_vcpu_stats_file[abi], abi, kvm_vcpu_stats_desc,
				    NR_KVM_VCPU_STATS, module);
	}
	kvm_stats_init_file(&kvm_vcpus_stats_file, KVM_STATS_ABI_GETFD,
			    kvm_vcpu_stats_desc, ARRAY_SIZE(kvm_vcpu_stats_desc), module);
}
