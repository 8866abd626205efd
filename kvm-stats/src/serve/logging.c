// SPDX-License-Identifier: GPL-2.0-only
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "app.h"
#include "clock.h"
#include "json.h"
#include "logging.h"

static const char *const level_names[] = {
	[LOG_LEVEL_DEBUG] = "DEBUG", [LOG_LEVEL_INFO] = "INFO",
	[LOG_LEVEL_WARN] = "WARN", [LOG_LEVEL_ERROR] = "ERROR",
};

static enum log_level lowest_level;
static enum log_format log_format;

void logging_configure(enum log_level level, enum log_format format)
{
	lowest_level = level;
	log_format = format;
}

void log_message(enum log_level level, const char *format, ...)
{
	char time[TIME_SIZE], text[1024];
	struct buf line = { 0 };
	struct json json = { .buf = &line };
	va_list args;

	if (level < lowest_level)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	app_time_text(read_clock(CLOCK_REALTIME), time);
	switch (log_format) {
	case LOG_FORMAT_TEXT:
		buf_printf(&line, "kvm-stats: %s", text);
		break;
	case LOG_FORMAT_LOGFMT:
		buf_printf(&line, "time=%s level=%s msg=", time, level_names[level]);
		json_text(&json, NULL, text);
		break;
	case LOG_FORMAT_JSON:
		json_open(&json, NULL, '{');
		json_text(&json, "time", time);
		json_text(&json, "level", level_names[level]);
		json_text(&json, "msg", text);
		json_close(&json, '}');
		break;
	}
	buf_char(&line, '\n');
	/* One write, because the other process has the same standard error. */
	if (!line.failed && write(STDERR_FILENO, line.text, line.len) < 0)
		line.failed = true;
	buf_free(&line);
}
