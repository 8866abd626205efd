// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which logins are verified next, and which are rejected. bcrypt is replaced by a function that
 * blocks until the test releases it, and the clock is stopped. Prints TAP.
 */
#include <arpa/inet.h>
#include <crypt.h>
#include <err.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "serve/login.h"
#include "tap.h"

#define HASH(cost)	"$2b$" cost "$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"
#define GUESSERS	100

static sem_t entered, may_verify;
static const char *verified;	/* the password that bcrypt has */
static unsigned int spent;	/* time of bcrypt, in times of cost 0 */
static bool unlimited;		/* bcrypt does not wait */

uint64_t __wrap_app_now(void);
uint64_t __wrap_app_now(void)
{
	return 1;
}

/* Use the same slots in each run, because two addresses may share one. */
ssize_t __wrap_getrandom(void *buf, size_t size, unsigned int flags);
ssize_t __wrap_getrandom(void *buf, size_t size, unsigned int flags)
{
	memset(buf, 0x5a, size);
	return size;
}

char *__wrap_crypt_r(const char *phrase, const char *setting, struct crypt_data *data);
char *__wrap_crypt_r(const char *phrase, const char *setting, struct crypt_data *data)
{
	spent += 1 << (10 * (setting[4] - '0') + setting[5] - '0');
	if (!unlimited) {
		verified = phrase;
		sem_post(&entered);
		sem_wait(&may_verify);
	}
	snprintf(data->output, sizeof(data->output), "%s",
		 strncmp(phrase, "right", 5) ? "*" : setting);
	return data->output;
}

static struct logins *start(void)
{
	struct logins *l = logins_start(eventfd(0, EFD_NONBLOCK));

	if (!l || sem_init(&entered, 0, 0) || sem_init(&may_verify, 0, 0))
		err(1, "start");
	unlimited = false;
	return l;
}

static void stop(struct logins *l)
{
	unlimited = true;
	sem_post(&may_verify);
	logins_stop(l);
}

static struct login *begin(struct logins *l, const char *address, const char *user,
			   const char *password)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	uint64_t networks[NETWORKS];

	if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
		address_networks((void *)&v4, networks);
	else if (inet_pton(AF_INET6, address, &v6.sin6_addr) == 1)
		address_networks((void *)&v6, networks);
	else
		errx(1, "%s", address);
	return login_begin(l, networks, user, password, HASH("05"), 5, true);
}

/* Let bcrypt end, and return the password that is verified next. */
static const char *next_password(void)
{
	sem_post(&may_verify);
	sem_wait(&entered);
	return verified;
}

/* Guess from addresses that format makes of numbers, and count the guesses that are rejected. */
static unsigned int guess(struct logins *l, const char *format, unsigned int first,
			  struct login *guesses[GUESSERS])
{
	unsigned int i, rejected = 0;
	char address[64];

	for (i = 0; i < GUESSERS; i++) {
		snprintf(address, sizeof(address), format, first + i);
		guesses[i] = begin(l, address, "user", "guess");
	}
	for (i = 0; i < GUESSERS; i++)
		rejected += login_result(l, guesses[i]) == LOGIN_REJECTED;
	return rejected;
}

static void test_addresses(const char *name, const char *format, const char *other)
{
	struct login *first[GUESSERS], *second[GUESSERS], *right;
	struct logins *l = start();
	unsigned int i, rejected;

	/* Each address has guessed once, and then there are more guesses than space. */
	rejected = guess(l, format, 1, first);
	sem_wait(&entered);
	for (i = 1; i < GUESSERS; i++)
		next_password();
	rejected += guess(l, format, 1, first);
	rejected += guess(l, format, 1, second);
	right = begin(l, other, "user", "right");
	tap_result(rejected && login_result(l, right) == LOGIN_PENDING &&
		   !strcmp(next_password(), "right"),
		   "%s: the right password is verified before all guesses", name);
	next_password();
	tap_result(login_result(l, right) == LOGIN_CORRECT, "%s: it is right", name);
	stop(l);
}

/* Addresses of one network that guess for the first time */
static void test_network(void)
{
	struct login *guesses[GUESSERS];
	struct logins *l = start();

	guess(l, "2001:db8:1:%x::1", 1, guesses);
	sem_wait(&entered);
	begin(l, "2001:db8:2:1::1", "user", "right");
	tap_result(!strcmp(next_password(), "right"),
		   "an address outside of a network that guesses comes first");
	begin(l, "2001:db8:1:f0::1", "user", "right in the network");
	tap_result(!strcmp(next_password(), "guess"), "one of that network waits for its turn");
	stop(l);
}

/* Users of the address that guesses */
static void test_user(void)
{
	struct login *guesses[GUESSERS], *right;
	struct logins *l = start();
	unsigned int i;

	guess(l, "192.0.2.1", 0, guesses);
	sem_wait(&entered);
	begin(l, "192.0.2.1", "other", "right of another");
	tap_result(!strcmp(next_password(), "right of another"),
		   "another user of the address comes first");
	right = begin(l, "192.0.2.1", "user", "right");
	begin(l, "192.0.2.1", "user", "guess");
	for (i = 0; i <= GUESSERS && strcmp(next_password(), "right"); i++)
		;
	next_password();
	tap_result(login_result(l, right) == LOGIN_CORRECT,
		   "the same user of the address is verified after %u guesses", i);
	stop(l);
}

static unsigned int cost_of(const char *hash, bool known, const char *password)
{
	const uint64_t networks[NETWORKS] = { 1 };
	struct logins *l = start();
	struct login *login;

	unlimited = true;
	spent = 0;
	login = login_begin(l, networks, "user", password, hash, 9, known);
	while (login_result(l, login) == LOGIN_PENDING)
		usleep(1000);
	tap_result(login_result(l, login) == (known && !strcmp(password, "right") ? LOGIN_CORRECT :
					     LOGIN_WRONG), "%.7s %s: the result", hash, password);
	login_end(l, login);
	stop(l);
	return spent;
}

int main(void)
{
	test_addresses("127.0.0.0/8", "127.0.0.%u", "192.0.2.1");
	test_addresses("IPv4 networks", "%u.2.3.4", "192.0.2.1");
	test_addresses("addresses of the same /24", "192.0.2.%u", "192.0.2.200");
	test_addresses("IPv6", "2001:db8:1:%x::1", "2001:db8:2::1");
	test_network();
	test_user();
	tap_result(cost_of(HASH("05"), true, "wrong") == 1 << 9 &&
		   cost_of(HASH("09"), true, "wrong") == 1 << 9 &&
		   cost_of(HASH("09"), false, "wrong") == 1 << 9 &&
		   cost_of(HASH("05"), false, "right") == 1 << 9,
		   "wrong passwords and unknown users cost as much as the costliest user");
	tap_result(cost_of(HASH("05"), true, "right") == 1 << 5, "right passwords cost no more");
	return tap_end();
}
