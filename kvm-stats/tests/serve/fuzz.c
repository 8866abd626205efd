// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzz the parsers of headers and the writers of untrusted strings with libFuzzer. The first
 * byte chooses the function.
 */
#include <stdlib.h>

#include "json.h"
#include "serve/write.h"

/* The output is valid UTF-8, and contains no unescaped quote. */
static void check(const struct buf *b, bool label)
{
	size_t i, n;

	for (i = 0; i < b->len; i += n) {
		n = utf8_length(b->text + i);
		if (!n || i + n > b->len)
			abort();
		if (n == 1 && (b->text[i] == '"' || (unsigned char)b->text[i] < ' '))
			abort();
		if (b->text[i] != '\\')
			continue;
		/* together with the escaped character */
		if (!strchr(label ? "\\\"n" : "\\\"u", b->text[i + 1]))
			abort();
		n = 2;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct buf b = { 0 };
	enum format format;

	if (!size || !text) {
		free(text);
		return 0;
	}
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	switch (data[0] % 6) {
	case 0:
		format = accept_format(text);
		if (format != FORMAT_TEXT && format != FORMAT_OPENMETRICS)
			abort();
		/* OpenMetrics must be requested by name. */
		if (format == FORMAT_OPENMETRICS && !strcasestr(text, "openmetrics-text"))
			abort();
		break;
	case 1:
		if (accept_gzip(text) && !strcasestr(text, "gzip") && !strchr(text, '*'))
			abort();
		break;
	case 2:
		buf_label(&b, text);
		buf_char(&b, '\0');
		b.len--;
		check(&b, true);
		break;
	case 3:
		json_text(&(struct json){ .buf = &b }, NULL, text);
		/* without the quotes */
		b.text[--b.len] = '\0';
		check(&(struct buf){ .text = b.text + 1, .len = b.len - 1 }, false);
		break;
	case 4:
		buf_html(&b, text);
		if (memchr(b.text ? b.text : "", '<', b.len) ||
		    memchr(b.text ? b.text : "", '"', b.len))
			abort();
		break;
	case 5:
		buf_url(&b, text);
		if (b.len < strlen(text) || b.len > 3 * strlen(text))
			abort();
		buf_char(&b, '\0');
		if (strspn(b.text, "%-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") !=
		    b.len - 1)
			abort();
		break;
	}
	buf_free(&b);
	free(text);
	return 0;
}
