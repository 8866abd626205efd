// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzz what "serve --from" makes of a recording, with libFuzzer: the first byte has options, the rest
 * are chunks, whose checksums are corrected. Pages have no tags that a name could contain, and no
 * text has a control character.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../src/serve/http/page.h"
#include "../../src/serve/serve.h"
#include "../../src/text.h"
#include "chunks.h"
#include "errors.h"

#define MAX_PAGES	20
#define FIRST_FREE_FD	40

enum { RECORDING_FD = 30 };	/* stays open */

static struct server s;

static void check_text(struct buf *b, bool html)
{
	const char *c, *end = b->text + b->len;
	bool tag = false;
	uint32_t code;
	size_t n;

	if (b->failed)
		abort();
	buf_char(b, '\0');
	end = b->text + b->len - 1;
	for (c = b->text; c < end; c += n) {
		n = text_character(c, &code);
		if (!n || (code < ' ' && code != '\n') || code == 0x7f)
			abort();
		if (html && (code == '<' || code == '>') && tag != (code == '>'))
			abort();
		tag = code == '<' || (tag && code != '>');
	}
	buf_reset(b);
}

static void write_texts(void)
{
	struct page_request request = { .filter = "", .vm = "", .now = s.model->time, .interval = s.interval,
					.metrics_path = "/metrics" };
	const struct vm_series *e;
	struct buf b = { 0 };
	unsigned int i;

	for (i = 0; i < FORMATS; i++) {
		write_metrics(&b, s.model, i, s.model->served->codes);
		check_text(&b, false);
	}
	page_json(&b, s.model, request.now);
	check_text(&b, false);
	page_list(&b, s.model, &request);
	check_text(&b, true);
	request.all = true;
	page_list(&b, s.model, &request);
	check_text(&b, true);
	for (e = s.model->first, i = 0; e && i < MAX_PAGES; e = e->next, i++) {
		request.vm = request.filter = e->label;
		if (!page_vm(&b, s.model, &request))
			abort();
		check_text(&b, true);
		page_list(&b, s.model, &request);
		check_text(&b, true);
	}
	page_too_old(&b, s.model, &request, s.health);
	check_text(&b, true);
	buf_free(&b);
}

static void serve(void)
{
	static struct serve_settings serve_settings;
	const struct settings settings = { .serve = &serve_settings, .from = "/proc/self/fd/30", .interval = SECOND };

	s.model = model_new(&s.settings.model);
	if (!s.model)
		abort();
	input_open(&s.in, &settings, INPUT_FIRST, false, 0);
	s.follows = true;
	open_recorded_sums(&s, settings.from);
	catch_up(&s);
	write_texts();
	close_programs(&s.programs);
	observation_close(&s.observed[0]);
	observation_close(&s.observed[1]);
	input_close(&s.in);
	model_free(s.model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct serve_options *options = &s.settings.model;

	if (!size)
		return 0;
	if (fcntl(RECORDING_FD, F_GETFD) < 0 && dup2(memfd_create("recording", 0), RECORDING_FD) < 0)
		abort();
	write_chunks(RECORDING_FD, data + 1, size - 1);
	memset(&s, 0, sizeof(s));
	pthread_mutex_init(&s.lock, NULL);
	s.interval = SECOND;
	options->max_series = data[0] & 1 ? 3 : 1000;
	options->programs.owners = options->programs.exits = data[0] & 2 ? 5 : 0;
	options->programs.stalls = data[0] & 4;
	options->vcpus = data[0] & 8;
	options->absolute = data[0] & 16;
	if (!setjmp(exited))
		serve();
	syscall(SYS_close_range, FIRST_FREE_FD, ~0U, 0);
	return 0;
}
