// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzz what the keys of "top" do in a recording, with libFuzzer: the first byte is the number of keys,
 * which follow; the rest are chunks, whose checksums are corrected. Nothing in a line moves a cursor,
 * changes the direction of text or hides it, and the cursor is on a line.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../src/columns.h"
#include "../../src/view.h"
#include "chunks.h"
#include "errors.h"
#include "printable.h"

#define FIRST_FREE_FD	40

enum { RECORDING_FD = 30 };	/* stays open */

static const char *const filters[] = { "", "a", "*", "[", "second", "vmm:", "\\x1b", "\xe2\x80\xae" };

static void check_view(const struct view *view)
{
	unsigned int i;

	check_printable(view->head);
	check_printable(view->second);
	check_printable(view->titles);
	if (view->sums)
		check_printable(view->sums);
	for (i = 0; i < view->count; i++)
		check_printable(view->lines[i].text);
	if (view->selected && view->selected >= view->count)
		abort();
}

static void press(struct view *view, struct input *in, unsigned int key, unsigned int *width)
{
	const unsigned int n = key / 16;

	switch (key % 16) {
	case 0:
		if (n < view->count)
			view_choose(view, n);
		break;
	case 1:
		view_enter(view);
		break;
	case 2:
		view_leave(view);
		break;
	case 3:
		view_sort(view, n % 2 ? 1 : -1);
		break;
	case 4:
		view->reverse = n % 2;
		break;
	case 5:
		/* The first column stays. */
		view->hidden = 1U << (1 + n);
		break;
	case 6:
		strcpy(view->filter, filters[n % (sizeof(filters) / sizeof(*filters))]);
		break;
	case 7:
		input_next_nofail(in);
		break;
	case 8:
		input_seek_samples(in, (long)n - 8);
		break;
	case 9:
		if (input_has_time(in, input_time(in) + n * SECOND))
			input_seek_time(in, input_time(in) + n * SECOND);
		break;
	case 10:
		*width = 16 * n;
		break;
	case 11:
		view_open_selected(view, in);
		break;
	default:
		input_problem(in);
		input_new_problem(in);
		break;
	}
}

static void show(const uint8_t *keys, unsigned int count)
{
	const struct settings settings = { .from = "/proc/self/fd/30", .interval = SECOND };
	unsigned int i, width = 80;
	struct input in;
	struct view view;

	input_open(&in, &settings, INPUT_FIRST, false, 0);
	view_init(&view, &settings);
	view_make(&view, &in, width);
	for (i = 0; i < count; i++) {
		press(&view, &in, keys[i], &width);
		view_make(&view, &in, width);
		check_view(&view);
	}
	view_free(&view);
	input_close(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned int count;

	if (!size)
		return 0;
	count = data[0] < size - 1 ? data[0] : size - 1;
	if (fcntl(RECORDING_FD, F_GETFD) < 0 && dup2(memfd_create("recording", 0), RECORDING_FD) < 0)
		abort();
	write_chunks(RECORDING_FD, data + 1 + count, size - 1 - count);
	if (!setjmp(exited))
		show(data + 1, count);
	syscall(SYS_close_range, FIRST_FREE_FD, ~0U, 0);
	return 0;
}
