// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "remedy.h"
#include "text.h"
#include "xalloc.h"

static const char *const remedy_names[REMEDIES] = {
	[REMEDY_SENTENCE] = "", [REMEDY_WEIGHT_UNIT] = "weight-unit", [REMEDY_WEIGHT_FILE] = "weight-file",
	[REMEDY_NICE] = "nice", [REMEDY_POLICY] = "policy", [REMEDY_QUOTA_UNIT] = "quota-unit",
	[REMEDY_QUOTA_FILE] = "quota-file", [REMEDY_QUOTA_LIBVIRT] = "quota-libvirt",
	[REMEDY_AFFINITY] = "affinity", [REMEDY_AFFINITY_LIBVIRT] = "affinity-libvirt",
	[REMEDY_CONTINUE] = "continue", [REMEDY_THAW_UNIT] = "thaw-unit", [REMEDY_THAW_FILE] = "thaw-file",
	[REMEDY_POLLING] = "polling",
};

const char *remedy_name(enum remedy_kind kind)
{
	return remedy_names[kind];
}

static void open_remedy_part(struct remedy_draft *draft)
{
	draft->part = check_alloc(open_memstream(&draft->part_text, &draft->sizes[1]));
	draft->undo = check_alloc(open_memstream(&draft->undo_text, &draft->sizes[2]));
}

void begin_remedy(struct remedy_draft *draft)
{
	*draft = (struct remedy_draft){ .remedy.command = check_alloc(strdup("")),
					.remedy.undo = check_alloc(strdup("")) };
	draft->text = check_alloc(open_memstream(&draft->remedy.text, &draft->sizes[0]));
	open_remedy_part(draft);
}

static void close_remedy_part(struct remedy_draft *draft)
{
	if (fclose(draft->part) || fclose(draft->undo))
		check_alloc(NULL);
}

/* Return both, with a separator if neither is empty. Frees them. */
static char *join_commands(char *first, const char *separator, char *second)
{
	char *both;

	if (asprintf(&both, "%s%s%s", first, *first && *second ? separator : "", second) < 0)
		check_alloc(NULL);
	free(first);
	free(second);
	return both;
}

void end_remedy_part(struct remedy_draft *draft, enum remedy_kind kind)
{
	close_remedy_part(draft);
	draft->remedy.command = join_commands(draft->remedy.command, " && ", draft->part_text);
	draft->remedy.undo = join_commands(draft->undo_text, " && ", draft->remedy.undo);
	draft->remedy.kind = kind;
	open_remedy_part(draft);
}

void drop_remedy_command(struct remedy_draft *draft)
{
	*draft->remedy.command = *draft->remedy.undo = '\0';
	draft->remedy.kind = REMEDY_SENTENCE;
	draft->remedy.gain = 0;
}

static bool is_shown_unchanged(const char *text)
{
	const size_t size = TEXT_SHOWN(strlen(text) + 1);
	char *shown = check_alloc(malloc(size));
	bool same;

	text_shown(text, shown, size);
	same = !strcmp(text, shown);
	free(shown);
	return same;
}

struct remedy end_remedy(struct remedy_draft *draft)
{
	struct remedy *remedy = &draft->remedy;

	close_remedy_part(draft);
	free(draft->part_text);
	free(draft->undo_text);
	if (fclose(draft->text))
		check_alloc(NULL);
	if (!is_shown_unchanged(remedy->command) || !is_shown_unchanged(remedy->undo))
		drop_remedy_command(draft);
	return *remedy;
}

void free_remedy(struct remedy *remedy)
{
	free(remedy->text);
	free(remedy->command);
	free(remedy->undo);
}

void put_quoted(FILE *f, const char *word)
{
	const char *c;

	for (c = word; isalnum((unsigned char)*c) || (*c && strchr("@%_+=:,./-", *c)); c++)
		;
	if (!*c && c > word) {
		fputs(word, f);
		return;
	}
	putc('\'', f);
	for (c = word; *c; c++)
		fputs(*c == '\'' ? "'\\''" : (char[]){ *c, '\0' }, f);
	putc('\'', f);
}
