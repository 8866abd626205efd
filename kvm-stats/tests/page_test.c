// SPDX-License-Identifier: GPL-2.0-only
/* The API without memory for its text. Prints TAP. */
#include <string.h>

#include "serve/http/page.h"
#include "tap.h"

int main(void)
{
	struct serve_options options = { 0 };
	struct model *m = model_new(&options);
	struct buf b = { .failed = true };

	m->unread[0] = m->unread[1] = 1;
	page_json(&b, m, 0);
	tap_result(b.failed && !b.len, "without memory, nothing is read or written");
	b.failed = false;
	page_json(&b, m, 0);
	buf_char(&b, '\0');
	tap_result(strstr(b.text, "\"unreadable\":[{\"number\":1,") && strstr(b.text, "},{\"number\":1,"),
		   "reasons are separated by commas: %s", b.text);
	buf_free(&b);
	model_free(m);
	return tap_end();
}
