// SPDX-License-Identifier: GPL-2.0-only
#include <crypt.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "access.h"
#include "app.h"
#include "login.h"

#define MAX_LOGINS		64
#define MAX_OF_ADDRESS		16
#define MAX_OF_USER		8	/* of one address */
#define FAILED_ADDRESSES	256	/* whose last failure is remembered */
#define DELAY_FACTOR		4	/* times the duration of bcrypt */

struct login {
	struct login *next;
	uint64_t address;
	char *user, *hash, *password;
	bool known;
	bool released;		/* login_end() was called while bcrypt ran */
	enum login_result result;
};

struct logins {
	pthread_t thread;
	int done;
	pthread_mutex_t lock;	/* protects the members below */
	pthread_cond_t wake;
	struct login *first, **end;
	struct login *running;
	bool stop;
	struct failure {
		uint64_t address, time, not_before;
	} failure[FAILED_ADDRESSES];
};

static void free_login(struct login *login)
{
	free(login->user);
	free(login->hash);
	if (login->password)
		explicit_bzero(login->password, strlen(login->password));
	free(login->password);
	free(login);
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

	for (i = 0; !failure && i < FAILED_ADDRESSES; i++) {
		if (!l->failure[i].time)
			failure = &l->failure[i];
	}
	for (i = 1; !failure && i < FAILED_ADDRESSES; i++) {
		if (l->failure[i].time < l->failure[oldest].time)
			oldest = i;
	}
	failure = failure ? failure : &l->failure[oldest];
	failure->address = address;
	failure->time = now;
	failure->not_before = now + DELAY_FACTOR * took;
}

/*
 * Return the first login that is not delayed, and remove it from the queue. If all are
 * delayed, return NULL and set *until to the end of the shortest delay.
 */
static struct login *next_login(struct logins *l, uint64_t now, uint64_t *until)
{
	struct login **at, *login;
	struct failure *failure;

	*until = UINT64_MAX;
	for (at = &l->first; (login = *at); at = &login->next) {
		failure = find_failure(l, login->address);
		if (failure && failure->not_before > now) {
			if (failure->not_before < *until)
				*until = failure->not_before;
			continue;
		}
		*at = login->next;
		if (l->end == &login->next)
			l->end = at;
		return login;
	}
	return NULL;
}

static bool verify(const struct login *login)
{
	struct crypt_data data;
	const char *hash;

	memset(&data, 0, sizeof(data));
	hash = crypt_r(login->password, login->hash, &data);
	return hash && access_same(login->hash, hash) && login->known;
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
	if (!correct)
		record_failure(l, login->address, end, end - begin);
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

static unsigned int count_of_address(const struct logins *l, uint64_t address,
				     const char *user)
{
	const struct login *i;
	unsigned int n = 0;

	for (i = l->first; i; i = i->next)
		n += i->address == address && (!user || !strcmp(i->user, user));
	return n;
}

/* Return the last login of the address that has most of them, and at least two. */
static struct login *find_most_frequent(const struct logins *l)
{
	struct login *i, *found = NULL;
	unsigned int n, most = 1;

	for (i = l->first; i; i = i->next) {
		n = count_of_address(l, i->address, NULL);
		if (n > most || (found && n == most && i->address == found->address)) {
			most = n;
			found = i;
		}
	}
	return found;
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
}

/* Make space for a login from this address. Return false if there is none. */
static bool reserve(struct logins *l, uint64_t address, const char *user)
{
	const uint64_t one = 1;
	unsigned int n = 0;
	struct login *i;

	if (count_of_address(l, address, user) >= MAX_OF_USER ||
	    count_of_address(l, address, NULL) >= MAX_OF_ADDRESS)
		return false;
	for (i = l->first; i; i = i->next)
		n++;
	if (n < MAX_LOGINS)
		return true;
	i = find_most_frequent(l);
	if (!i || i->address == address)
		return false;
	unlink_login(l, i);
	i->result = LOGIN_REJECTED;
	return write(l->done, &one, sizeof(one)) > 0;
}

struct login *login_begin(struct logins *l, uint64_t address, const char *user,
			  const char *hash, const char *password, bool known)
{
	struct login *login = calloc(1, sizeof(*login));

	if (!login)
		return NULL;
	login->address = address;
	login->user = strdup(user);
	login->hash = strdup(hash);
	login->password = strdup(password);
	login->known = known;
	pthread_mutex_lock(&l->lock);
	if (!login->user || !login->hash || !login->password || !reserve(l, address, user)) {
		free_login(login);
		login = NULL;
	} else {
		*l->end = login;
		l->end = &login->next;
		pthread_cond_signal(&l->wake);
	}
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
