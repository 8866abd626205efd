/* SPDX-License-Identifier: GPL-2.0-only */
/* A FUSE file system with one file, whose contents arrive late or never, for tests */
#ifndef FUSE_H
#define FUSE_H

#include <err.h>
#include <errno.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>

#define FUSE_FILE_NODE	2
#define FUSE_PAGE_SIZE	4096

static inline void fuse_answer_error(int fuse, const struct fuse_in_header *in, int error,
				     const void *data, size_t size)
{
	char buf[sizeof(struct fuse_out_header) + FUSE_PAGE_SIZE];
	const struct fuse_out_header out = {
		.len = sizeof(out) + size, .error = -error, .unique = in->unique,
	};

	memcpy(buf, &out, sizeof(out));
	if (size)
		memcpy(buf + sizeof(out), data, size);
	if (write(fuse, buf, out.len) < 0 && errno != ENOENT)
		err(1, "FUSE");
}

static inline void fuse_answer(int fuse, const struct fuse_in_header *in, const void *data, size_t size)
{
	fuse_answer_error(fuse, in, 0, data, size);
}

/*
 * Serve a directory with one file whose pages have the same contents, and arrive after
 * delay_us. Without a page, none arrives, and readers wait for the request, not for the page.
 */
static inline void fuse_serve(int fuse, unsigned int pages, const void *page, unsigned int delay_us)
{
	const struct fuse_attr directory = { .ino = FUSE_ROOT_ID, .mode = S_IFDIR | 0755, .nlink = 2 };
	const struct fuse_attr file = { .ino = FUSE_FILE_NODE, .mode = S_IFREG | 0644, .nlink = 1,
					.size = pages * FUSE_PAGE_SIZE };
	static char buf[1 << 20];
	const struct fuse_in_header *in = (void *)buf;

	while (read(fuse, buf, sizeof(buf)) >= (ssize_t)sizeof(*in)) {
		switch (in->opcode) {
		case FUSE_INIT:
			fuse_answer(fuse, in, &(struct fuse_init_out){
				.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION,
				.max_readahead = page ? FUSE_PAGE_SIZE : 0,
				.flags = page ? FUSE_ASYNC_READ : 0,
				.max_write = FUSE_PAGE_SIZE }, sizeof(struct fuse_init_out));
			break;
		case FUSE_LOOKUP:
			fuse_answer(fuse, in, &(struct fuse_entry_out){
				.nodeid = FUSE_FILE_NODE, .attr = file }, sizeof(struct fuse_entry_out));
			break;
		case FUSE_GETATTR:
			fuse_answer(fuse, in, &(struct fuse_attr_out){
				.attr = in->nodeid == FUSE_FILE_NODE ? file : directory },
			       sizeof(struct fuse_attr_out));
			break;
		case FUSE_OPEN:
			fuse_answer(fuse, in, &(struct fuse_open_out){ 0 },
			       sizeof(struct fuse_open_out));
			break;
		case FUSE_READ:
			if (!page)
				break;
			usleep(delay_us);
			fuse_answer(fuse, in, page, FUSE_PAGE_SIZE);
			break;
		case FUSE_FORGET:
			break;
		default:
			fuse_answer_error(fuse, in, ENOSYS, NULL, 0);
		}
	}
}

/*
 * Mount such a file system, whose server is another process: the kernel ends requests when it
 * exits. Nothing else ends a thread that waits, not even SIGKILL. Return 0 or -1.
 */
static inline int fuse_mount(int fuse, const char *folder, unsigned int pages, const void *page,
			     unsigned int delay_us)
{
	char options[128];
	pid_t server;

	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
	if (mount("late", folder, "fuse", MS_NOSUID | MS_NODEV, options))
		return -1;
	server = fork();
	if (!server) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fuse_serve(fuse, pages, page, delay_us);
		_exit(0);
	}
	close(fuse);
	return server < 0 ? -1 : 0;
}

#endif /* FUSE_H */
