// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which scrapers have received the last values of a VM. A scraper is a connection: address and
 * User-Agent of two Prometheus servers behind one address are the same. A client that closes its
 * connection may come back with another one, as it or as its twin, so last values stay for
 * ENDED_VM_TTL_NS after that.
 */
#include "app.h"
#include "serve/serve.h"

static void update_known(struct server *s)
{
	const uint64_t now = app_now();
	uint32_t known = 0;
	int i;

	for (i = 0; i < OTHER_SCRAPERS; i++) {
		if (s->scrapers[i] && now - s->scrapers[i]->scraped < ENDED_VM_TTL_NS)
			known |= 1U << i;
	}
	if (s->other_scrape && now - s->other_scrape < ENDED_VM_TTL_NS)
		known |= 1U << OTHER_SCRAPERS;
	s->model->scrapers = known;
}

void begin_scrape(struct server *s, struct connection *c, uint64_t sample)
{
	int i;

	c->scrapes = true;
	c->sample = sample;
	if (c->scraper >= 0)
		return;
	for (i = 0; i < OTHER_SCRAPERS && s->scrapers[i]; i++)
		;
	c->scraper = i;
	if (i < OTHER_SCRAPERS)
		s->scrapers[i] = c;
}

void end_scrape(struct server *s, struct connection *c)
{
	c->scraped = app_now();
	pthread_mutex_lock(&s->lock);
	if (c->scraper == OTHER_SCRAPERS)
		s->other_scrape = c->scraped;
	else
		model_scraped(s->model, 1U << c->scraper, c->sample);
	update_known(s);
	pthread_mutex_unlock(&s->lock);
}

void forget_scraper(struct server *s, struct connection *c)
{
	if (c->scraper < 0)
		return;
	pthread_mutex_lock(&s->lock);
	if (c->scraper < OTHER_SCRAPERS) {
		s->scrapers[c->scraper] = NULL;
		s->other_scrape = app_now();
		model_replace_scraper(s->model, 1U << c->scraper, 1U << OTHER_SCRAPERS);
	}
	update_known(s);
	pthread_mutex_unlock(&s->lock);
}
