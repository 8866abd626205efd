// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The path of a cgroup has any length, and many copies of an identity exist: they share one text
 * and count its users. Only one thread may use them, as all objects of a struct kvmstats.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "structures.h"

struct shared_text {
	unsigned int users;
	char text[];
};

static void release_text(struct shared_text *text)
{
	if (text && !--text->users)
		free(text);
}

const char *identity_cgroup(const struct kvmstats_identity *identity)
{
	return identity->cgroup ? identity->cgroup->text : "";
}

bool identity_set_cgroup(struct kvmstats_identity *identity, const char *path, size_t len)
{
	struct shared_text *text = malloc(sizeof(*text) + len + 1);

	if (!text)
		return false;
	text->users = 1;
	memcpy(text->text, path, len);
	text->text[len] = '\0';
	release_text(identity->cgroup);
	identity->cgroup = text;
	return true;
}

void identity_copy(struct kvmstats_identity *to, const struct kvmstats_identity *from)
{
	if (from->cgroup)
		from->cgroup->users++;
	release_text(to->cgroup);
	*to = *from;
}

void identity_clear(struct kvmstats_identity *identity)
{
	release_text(identity->cgroup);
	memset(identity, 0, sizeof(*identity));
}

bool identity_equals(const struct kvmstats_identity *a, const struct kvmstats_identity *b)
{
#define SAME(text, size) !strcmp(a->text, b->text) &&
	return IDENTITY_TEXTS(SAME) a->pid == b->pid && a->vm_id == b->vm_id &&
	       a->started == b->started && !strcmp(identity_cgroup(a), identity_cgroup(b));
}
