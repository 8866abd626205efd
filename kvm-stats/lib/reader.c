// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "privileges.h"
#include "reader.h"

int reader_open(struct reader *r)
{
	memset(r, 0, sizeof(*r));
	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	r->detached = privileges_stats_detached();
	return r->epoll < 0 ? -errno : 0;
}

void reader_close(struct reader *r)
{
	close(r->epoll);
	free(r->values);
}

static bool make_value_room(struct reader *r, size_t size)
{
	uint64_t *more;

	if (size <= r->room)
		return true;
	more = realloc(r->values, size);
	if (!more)
		return false;
	r->values = more;
	r->room = size;
	return true;
}

/* Nanoseconds after which fdinfo is read again: a vCPU can move to another thread. */
#define ROWS_REREAD	10000000000ULL

/* On 5.10, a row is a vCPU's values, then two more: which vCPU it is, and its thread. */
static const char *split_row(struct reader *r, struct kvmstats_table **table)
{
	const struct kvmstats_desc *id = kvmstats_find(*table, "vcpu_id");
	const struct kvmstats_desc *tid = kvmstats_find(*table, "vcpu_tid");
	struct kvmstats_table *vcpu;

	if (!id || !tid || id != &(*table)->desc[(*table)->count - 2] || tid != id + 1 ||
	    (*table)->count < 3)
		return "a file of all vCPUs does not say which vCPU a row is";
	r->id_word = id->offset / sizeof(uint64_t);
	r->tid_word = tid->offset / sizeof(uint64_t);
	vcpu = table_make((*table)->desc, (*table)->count - 2);
	kvmstats_free_table(*table);
	*table = vcpu;
	return vcpu ? NULL : strerror(ENOMEM);
}

static const char *first_of_kind(struct kvmstats *k, struct reader *r, int fd,
				 enum file_kind kind, const struct file_layout *layout)
{
	enum kvmstats_scope scope = kind == FILE_VM ? KVMSTATS_VM : KVMSTATS_VCPU;
	const struct kvmstats_table *have = kvmstats_table(k, scope);
	struct kvmstats_table *table;
	struct stat_group group[GROUPS];
	const char *wrong;
	size_t size;

	wrong = file_read_table(fd, layout, &table);
	if (wrong)
		return wrong;
	size = table->data_size;
	if (kind == FILE_VCPUS && layout->row_size) {
		if (layout->row_size < size)
			wrong = "a row is shorter than its values";
		size = layout->row_size;
		stat_groups_find(table, group);
		r->exits = group[KVMSTATS_EXITS];
	} else if (kind == FILE_VCPUS) {
		wrong = split_row(r, &table);
	}
	if (!wrong && have && have->data_size != table->data_size)
		wrong = "files of one kernel differ";
	if (!wrong && !make_value_room(r, size))
		wrong = strerror(ENOMEM);
	if (wrong) {
		kvmstats_free_table(table);
		return wrong;
	}
	core_set_table(k, scope, table);
	r->kind[kind].known = true;
	r->kind[kind].layout = *layout;
	r->kind[kind].size = size;
	return NULL;
}

const char *reader_add(struct kvmstats *k, struct reader *r, int fd,
		       enum file_kind kind, struct stats_file *file,
		       struct gone *gone, bool *tells)
{
	/* EPOLLHUP comes without being asked for */
	struct epoll_event event = { .events = 0, .data.ptr = gone };
	struct file_layout *layout = &file->layout;
	const char *wrong;
	int ret;

	wrong = file_read_layout(fd, layout);
	if (!wrong && !r->kind[kind].known)
		wrong = first_of_kind(k, r, fd, kind, layout);
	else if (!wrong && (layout->count != r->kind[kind].layout.count ||
			    layout->row_size != r->kind[kind].layout.row_size ||
			    layout->name_size != r->kind[kind].layout.name_size))
		wrong = "files of one kernel differ";
	if (wrong) {
		close(fd);
		file->fd = -1;
		return wrong;
	}
	/* Without the flag, files pin their VM. Released kernels cannot poll them (EPERM). */
	ret = epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &event);
	if (tells)
		*tells = !ret && r->detached;
	file->fd = fd;
	file->row = NULL;
	file->rows = 0;
	return NULL;
}

int reader_watch(struct reader *r, int fd, struct gone *gone)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = gone };

	return epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

void reader_drop(struct stats_file *file)
{
	if (file->fd < 0)
		return;
	close(file->fd);
	free(file->row);
	file->fd = -1;
}

void reader_poll(struct reader *r)
{
	struct epoll_event events[64];
	struct gone *gone;
	int i, n;

	/* Reported descriptors are no longer watched, so the loop terminates. */
	while ((n = epoll_wait(r->epoll, events, 64, 0)) > 0) {
		bool news = false;

		for (i = 0; i < n; i++) {
			gone = events[i].data.ptr;
			news |= !gone->hup;
			gone->hup = true;
		}
		if (!news)
			break;
	}
}

struct core_vm *reader_vm(struct kvmstats *k, struct reader *r,
			  const struct stats_file *file, uint64_t key, pid_t pid)
{
	const char *wrong = file_read_values(file->fd, &file->layout, r->values,
					     r->kind[FILE_VM].size);
	struct core_vm *vm = NULL;

	if (!wrong) {
		vm = core_vm(k, key, pid);
		if (vm)
			memcpy(core_vm_values(vm), r->values, r->kind[FILE_VM].size);
		else
			wrong = strerror(ENOMEM);
	}
	if (wrong)
		core_unread(k, KVMSTATS_FORMAT, "a VM of process %d: %s", pid, wrong);
	return vm;
}

static struct core_vcpu *report_vcpu(struct kvmstats *k, struct core_vm *vm, uint32_t id,
				     pid_t tid, const uint64_t *values)
{
	struct core_vcpu *vcpu = core_vcpu(k, vm, id, tid);

	if (vcpu)
		core_vcpu_set(vcpu, values, kvmstats_table(k, KVMSTATS_VCPU)->data_size);
	return vcpu;
}

static bool vcpu_unread(struct kvmstats *k, const struct core_vm *vm, const char *wrong)
{
	if (wrong)
		core_unread(k, KVMSTATS_FORMAT, "a vCPU of process %d: %s", core_vm_pid(vm),
			    wrong);
	return !wrong;
}

struct core_vcpu *reader_vcpu(struct kvmstats *k, struct reader *r, const struct stats_file *file,
			      struct core_vm *vm, uint32_t id, pid_t tid)
{
	const char *wrong = file_read_values(file->fd, &file->layout, r->values,
					     r->kind[FILE_VCPU].size);
	struct core_vcpu *vcpu = NULL;

	if (!wrong) {
		vcpu = report_vcpu(k, vm, id, tid, r->values);
		if (!vcpu)
			wrong = strerror(ENOMEM);
	}
	vcpu_unread(k, vm, wrong);
	return vcpu;
}

/* Return true if the ids and threads of n rows have to be read, again. */
static bool rows_due(const struct kvmstats *k, struct stats_file *file, int n)
{
	bool missing = false;
	int i;

	for (i = 0; i < n && i < file->rows; i++)
		missing |= !file->row[i].tid;
	/* The thread shows when a vCPU first runs, some never do: look ever more seldom. */
	if (!missing)
		file->reads = 0;
	else if (++file->reads < 8 || !(file->reads & (file->reads - 1)))
		return true;
	return file->rows < n || core_now(k) - file->rows_read >= ROWS_REREAD;
}

/* Get the ids and threads of n rows from fdinfo; NULL, or what is wrong. */
static const char *read_rows(struct kvmstats *k, struct stats_file *file, int n)
{
	int rows;

	if (!rows_due(k, file, n))
		return NULL;
	rows = proc_rows(core_proc(k), file->fd, &file->row);
	file->rows = rows < 0 ? 0 : rows;
	file->rows_read = core_now(k);
	if (rows < 0)
		return strerror(-rows);
	return rows < n ? "fdinfo has not all vCPUs" : NULL;
}

bool reader_vcpus(struct kvmstats *k, struct reader *r, struct stats_file *file,
		  struct core_vm *vm)
{
	size_t row = r->kind[FILE_VCPUS].size, at;
	const char *wrong = NULL;
	ssize_t n;

	/* A full buffer may not be all: there can be new vCPUs. */
	for (;;) {
		do {
			n = pread(file->fd, r->values, r->room, file->layout.data_offset);
		} while (n < 0 && errno == EINTR);
		if (n < 0)
			return vcpu_unread(k, vm, strerror(errno));
		if (n + row <= r->room)
			break;
		if (!make_value_room(r, 2 * r->room + row))
			return vcpu_unread(k, vm, strerror(ENOMEM));
	}
	if (n % row)
		wrong = "the file ends in the middle of a row";
	else if (file->layout.row_size)
		wrong = read_rows(k, file, n / row);
	for (at = 0; !wrong && at < (size_t)n; at += row) {
		const uint64_t *values = r->values + at / sizeof(uint64_t);
		const struct proc_row *from = file->layout.row_size ? &file->row[at / row] : NULL;
		uint32_t id = from ? from->id : values[r->id_word];
		pid_t tid = from ? from->tid : (pid_t)values[r->tid_word];
		struct core_vcpu *vcpu = report_vcpu(k, vm, id, tid, values);

		if (vcpu && from && core_vcpu_lacks_thread(vcpu))
			file->row[at / row].tid = 0;
		if (!vcpu)
			wrong = strerror(ENOMEM);
		/* fdinfo does not show threads that have exited or are not visible either. */
		else if (!tid && !(from && stat_group_sum(&r->exits, values)))
			core_vcpu_idle(vcpu, core_now(k));
	}
	return vcpu_unread(k, vm, wrong);
}
