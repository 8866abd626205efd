// SPDX-License-Identifier: GPL-2.0-only
#include <crypt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "serve/access.h"
#include "app.h"
#include "login.h"

#define FAILED_ADDRESSES	256	/* whose last failure is remembered */
#define DELAY_FACTOR		4	/* times the duration of bcrypt */
#define SLOTS			4096	/* counts of attempts for each kind of network */
#define HALF_LIFE		(60 * SECOND)	/* counts are halved */

/* Origins of a login that attempts are counted for: a user of an address, and its networks */
#define ORIGIN_ADDRESS		1
#define ORIGINS			(ORIGIN_ADDRESS + NETWORKS)

struct login {
	struct login *next;
	uint64_t origin[ORIGINS];
	char *hash, *password;
	unsigned int cost;
	bool known;
	bool released;		/* login_end() was called while bcrypt ran */
	enum login_result result;
};

struct logins {
	pthread_t thread;
	int done;
	uint64_t seed;		/* for the hash: clients cannot choose a slot */
	pthread_mutex_t lock;	/* protects the members below */
	pthread_cond_t wake;
	struct login *first, **end;
	unsigned int waiting, turn;
	struct login *running;
	bool stop;
	struct failure {
		uint64_t address, time, not_before;
	} failure[FAILED_ADDRESSES];
	uint32_t attempts[ORIGINS][SLOTS];
	uint64_t halved;
};

static void free_login(struct login *login)
{
	free(login->hash);
	if (login->password)
		explicit_bzero(login->password, strlen(login->password));
	free(login->password);
	free(login);
}

static uint32_t *attempts_of(struct logins *l, const struct login *login, unsigned int origin)
{
	uint64_t hash = (login->origin[origin] ^ l->seed) * HASH_FACTOR;

	hash = (hash ^ hash >> 32) * HASH_FACTOR;
	return &l->attempts[origin][(hash ^ hash >> 32) % SLOTS];
}

static void halve_attempts(struct logins *l, uint64_t now)
{
	unsigned int i, slot;

	if (now - l->halved < HALF_LIFE)
		return;
	l->halved = now;
	for (i = 0; i < ORIGINS; i++) {
		for (slot = 0; slot < SLOTS; slot++)
			l->attempts[i][slot] /= 2;
	}
}

/* Count an attempt until it is known to be right, so that abandoned ones count as well. */
static void count_attempt(struct logins *l, const struct login *login, int change)
{
	uint32_t *count;
	unsigned int i;

	for (i = 0; i < ORIGINS; i++) {
		count = attempts_of(l, login, i);
		if (change > 0 || *count)
			*count += change;
	}
}

/*
 * Return how often logins with the origins of this one were wrong. An attempt from a network
 * counts a quarter of one from a network within it, so those who have many addresses come
 * after those with one.
 */
static uint64_t rank_login(struct logins *l, const struct login *login)
{
	uint64_t rank = 0;
	unsigned int i;

	for (i = 0; i < ORIGINS; i++)
		rank = 4 * rank + *attempts_of(l, login, i);
	return rank;
}

/* Return the record of the last failure from this address, or NULL. */
static struct failure *find_failure(struct logins *l, uint64_t address)
{
	unsigned int i;

	for (i = 0; i < FAILED_ADDRESSES; i++) {
		if (l->failure[i].time && l->failure[i].address == address)
			return &l->failure[i];
	}
	return NULL;
}

static void record_failure(struct logins *l, uint64_t address, uint64_t now, uint64_t took)
{
	struct failure *failure = find_failure(l, address);
	unsigned int i, oldest = 0;

	/* The time of a record that is not in use is 0. */
	for (i = 1; i < FAILED_ADDRESSES; i++) {
		if (l->failure[i].time < l->failure[oldest].time)
			oldest = i;
	}
	failure = failure ? failure : &l->failure[oldest];
	failure->address = address;
	failure->time = now;
	/* Waiting logins already delay each other. */
	failure->not_before = now + DELAY_FACTOR * took / (l->waiting + 1);
}

static void unlink_login(struct logins *l, const struct login *login)
{
	struct login **at = &l->first;

	while (*at && *at != login)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = login->next;
	if (!*at)
		l->end = at;
	l->waiting--;
}

static bool is_delayed(struct logins *l, const struct login *login, uint64_t now, uint64_t *until)
{
	const struct failure *failure = find_failure(l, login->origin[ORIGIN_ADDRESS]);

	if (!failure || failure->not_before <= now)
		return false;
	if (failure->not_before < *until)
		*until = failure->not_before;
	return true;
}

/*
 * Return a login that is not delayed, and remove it from the queue: every second time one with
 * the fewest wrong logins before it, of several the newest, otherwise the newest and the oldest
 * of all in turn. If all are delayed, return NULL and set *until to the end of the shortest delay.
 */
static struct login *next_login(struct logins *l, uint64_t now, uint64_t *until)
{
	const bool best = l->turn % 2 == 0, oldest = l->turn % 4 == 3;
	struct login *login, *next = NULL;

	*until = UINT64_MAX;
	for (login = l->first; login && !(oldest && next); login = login->next) {
		if (!is_delayed(l, login, now, until) &&
		    (!next || !best || rank_login(l, login) <= rank_login(l, next)))
			next = login;
	}
	if (next) {
		l->turn++;
		unlink_login(l, next);
	}
	return next;
}

/*
 * Wrong logins take as long as one with the cost of login->cost: bcrypt's time doubles with each
 * step of the cost, so the times from one cost to another and of the first again add up to it.
 */
static bool verify(const struct login *login)
{
	unsigned int cost = bcrypt_cost(login->hash);
	struct crypt_data data;
	char setting[64];
	const char *hash;

	memset(&data, 0, sizeof(data));
	hash = crypt_r(login->password, login->hash, &data);
	if (hash && access_same(login->hash, hash) && login->known)
		return true;
	for (; cost < login->cost; cost++) {
		snprintf(setting, sizeof(setting), "%.4s%02u%s", login->hash, cost, login->hash + 6);
		crypt_r(login->password, setting, &data);
	}
	return false;
}

static void run_login(struct logins *l, struct login *login)
{
	const uint64_t one = 1, begin = app_now();
	uint64_t end;
	bool correct;

	l->running = login;
	pthread_mutex_unlock(&l->lock);
	correct = verify(login);
	end = app_now();
	pthread_mutex_lock(&l->lock);
	l->running = NULL;
	login->result = correct ? LOGIN_CORRECT : LOGIN_WRONG;
	if (correct)
		count_attempt(l, login, -1);
	else
		record_failure(l, login->origin[ORIGIN_ADDRESS], end, end - begin);
	if (login->released)
		free_login(login);
	else if (write(l->done, &one, sizeof(one)) < 0)
		l->stop = true;
}

static void *verify_logins(void *arg)
{
	struct logins *l = arg;
	struct timespec until;
	struct login *login;
	uint64_t time;

	pthread_mutex_lock(&l->lock);
	while (!l->stop) {
		login = next_login(l, app_now(), &time);
		if (login) {
			run_login(l, login);
		} else if (time == UINT64_MAX) {
			pthread_cond_wait(&l->wake, &l->lock);
		} else {
			until = (struct timespec){ .tv_sec = time / SECOND,
						   .tv_nsec = time % SECOND };
			pthread_cond_timedwait(&l->wake, &l->lock, &until);
		}
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

struct logins *logins_start(int done)
{
	struct logins *l = calloc(1, sizeof(*l));
	pthread_condattr_t attr;

	if (!l)
		return NULL;
	l->done = done;
	if (getrandom(&l->seed, sizeof(l->seed), 0) != sizeof(l->seed))
		l->seed = app_now();
	l->end = &l->first;
	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->wake, &attr);
	pthread_condattr_destroy(&attr);
	if (pthread_create(&l->thread, NULL, verify_logins, l)) {
		free(l);
		return NULL;
	}
	return l;
}

void logins_stop(struct logins *l)
{
	pthread_mutex_lock(&l->lock);
	l->stop = true;
	pthread_cond_signal(&l->wake);
	pthread_mutex_unlock(&l->lock);
	pthread_join(l->thread, NULL);
	pthread_cond_destroy(&l->wake);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static void set_origins(struct login *login, const uint64_t networks[NETWORKS], const char *user)
{
	login->origin[0] = hash_text(networks[0], user);
	memcpy(login->origin + ORIGIN_ADDRESS, networks, NETWORKS * sizeof(*networks));
}

struct login *login_begin(struct logins *l, const uint64_t networks[NETWORKS], const char *user,
			  const char *password, const char *hash, unsigned int cost, bool known)
{
	struct login *login = calloc(1, sizeof(*login));

	if (!login)
		return NULL;
	set_origins(login, networks, user);
	login->hash = strdup(hash);
	login->password = strdup(password);
	login->cost = cost;
	login->known = known;
	if (!login->hash || !login->password) {
		free_login(login);
		return NULL;
	}
	pthread_mutex_lock(&l->lock);
	halve_attempts(l, app_now());
	count_attempt(l, login, 1);
	*l->end = login;
	l->end = &login->next;
	l->waiting++;
	pthread_cond_signal(&l->wake);
	pthread_mutex_unlock(&l->lock);
	return login;
}

enum login_result login_result(struct logins *l, const struct login *login)
{
	enum login_result result;

	pthread_mutex_lock(&l->lock);
	result = login->result;
	pthread_mutex_unlock(&l->lock);
	return result;
}

void login_end(struct logins *l, struct login *login)
{
	pthread_mutex_lock(&l->lock);
	if (l->running == login) {
		login->released = true;
	} else {
		unlink_login(l, login);
		free_login(login);
	}
	pthread_mutex_unlock(&l->lock);
}
