// SPDX-License-Identifier: GPL-2.0-only
/*
 * Choose which connection to close when there are too many: the one that has been idle,
 * or has read nothing of its response, for longest, from the address with most
 * connections. So a new connection always finds space, and a client that opens thousands
 * of them evicts its own first.
 */
#include <linux/tcp.h>
#include <netinet/in.h>

#include "app.h"
#include "serve/serve.h"

void unlink_connection(struct server *s, struct connection *c)
{
	*c->back = c->next;
	if (c->next)
		c->next->back = c->back;
	else
		s->end = c->back;
}

void move_to_end(struct server *s, struct connection *c)
{
	if (c->back)
		unlink_connection(s, c);
	c->next = NULL;
	c->back = s->end;
	*s->end = c;
	s->end = &c->next;
}

unsigned int address_bucket(uint64_t key)
{
	key *= HASH_FACTOR;
	return (key ^ key >> 32) % ADDRESS_BUCKETS;
}

/* Return true if the client has received more of its response since the last check. */
static bool is_reading(struct connection *c)
{
	uint64_t before = c->acked;
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (c->state != STATE_ANSWERING ||
	    getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return false;
	c->acked = info.tcpi_bytes_acked;
	return c->acked != before;
}

static struct connection *next_in_bucket(struct connection *c, unsigned int bucket)
{
	while (c && (address_bucket(c->address) != bucket || c->closed))
		c = c->next;
	return c;
}

/*
 * The first connection of the address with most of them, unless its client reads: a
 * scraper with the address of a flood gets its response if it reads some of it before the
 * next EVICT_THRESHOLD connections arrive.
 */
struct connection *find_connection_to_evict(struct server *s)
{
	unsigned int most = 0, left, i;
	struct connection *c, *next;

	for (i = 1; i < ADDRESS_BUCKETS; i++) {
		if (s->of_bucket[i] > s->of_bucket[most])
			most = i;
	}
	c = next_in_bucket(s->first, most);
	/* If all clients read, one is evicted nevertheless. */
	for (left = s->of_bucket[most]; left > 1 && is_reading(c); left--) {
		next = next_in_bucket(c->next, most);
		move_to_end(s, c);
		c = next;
	}
	return c;
}
