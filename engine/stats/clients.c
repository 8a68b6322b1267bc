/* SPDX-License-Identifier: GPL-2.0-only */
#include "stats/clients.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "stats/json_line.h"
#include "util.h"

/* --- how evenly --- */

struct evenness {
	uint32_t served;
	uint64_t least, most;				/* operations */
	double sum, squares;				/* of operations */
	const struct client_figures *slowest, *fastest; /* by their p50; NULL: none was served */
};

static double p50(const struct client_figures *client)
{
	return microseconds(histogram_percentile(client->rtt, 50));
}

static struct evenness compare(const struct client_figures *clients, uint32_t count)
{
	struct evenness all = {.least = UINT64_MAX};

	for (uint32_t i = 0; i < count; i++) {
		const struct client_figures *one = &clients[i];
		double done = (double)one->operations;

		all.least = min_of(all.least, one->operations);
		all.most = max_of(all.most, one->operations);
		all.sum += done;
		all.squares += done * done;
		if (!one->operations)
			continue;
		all.served++;
		if (!all.slowest || p50(one) > p50(all.slowest))
			all.slowest = one;
		if (!all.fastest || p50(one) < p50(all.fastest))
			all.fastest = one;
	}
	return all;
}

static void tell_served(char *line, const struct client_figures *clients, uint32_t count)
{
	const struct evenness all = compare(clients, count);
	int used = snprintf(line, CLIENTS_LINE,
			    "clients: %" PRIu32 " of %" PRIu32 " served, %" PRIu64 " to %" PRIu64
			    " operations each, Jain's index %.4f",
			    all.served, count, all.least, all.most,
			    all.served ? all.sum * all.sum / count / all.squares : 0);

	if (all.served)
		snprintf(line + used, (size_t)(CLIENTS_LINE - used),
			 "; p50 (usec): %.1f (client %" PRIu32 ") to %.1f (client %" PRIu32 ")",
			 p50(all.fastest), all.fastest->number, p50(all.slowest),
			 all.slowest->number);
}

/* --- how soon they are back --- */

static const uint64_t WITHIN[] = {1 * SEC, 5 * SEC, 10 * SEC, 30 * SEC, 90 * SEC};
enum { WITHINS = sizeof(WITHIN) / sizeof(*WITHIN) };

struct returns {
	uint32_t away, not_back;  /* clients that lost their connection; those not back */
	uint32_t within[WITHINS]; /* clients that were back within that time */
	const struct client_figures *slowest; /* of those that are back; NULL: none is */
};

static struct returns count_returns(const struct client_figures *clients, uint32_t count)
{
	struct returns returns = {0};

	for (uint32_t i = 0; i < count; i++) {
		const struct outages *outages = clients[i].outages;
		bool back = outages_over(outages);

		returns.away += outages->count > 0;
		returns.not_back += !back;
		if (!outages->count || !back)
			continue;
		for (int n = 0; n < WITHINS; n++)
			returns.within[n] += outages->longest <= WITHIN[n];
		if (!returns.slowest || outages->longest > returns.slowest->outages->longest)
			returns.slowest = &clients[i];
	}
	return returns;
}

/* Rounded down: 100 % is all of them. */
static double per_cent(uint32_t count, uint32_t all)
{
	return floor(1000.0 * count / all) / 10;
}

static bool tell_returns(char *line, const struct client_figures *clients, uint32_t count)
{
	const struct returns all = count_returns(clients, count);
	int used;

	if (!all.away)
		return false;
	used = snprintf(line, CLIENTS_LINE,
			"clients: %" PRIu32 " of %" PRIu32 " lost their connection; back within "
			"1, 5, 10, 30, 90 s: %.1f, %.1f, %.1f, %.1f, %.1f %%",
			all.away, count, per_cent(all.within[0], all.away),
			per_cent(all.within[1], all.away), per_cent(all.within[2], all.away),
			per_cent(all.within[3], all.away), per_cent(all.within[4], all.away));
	if (all.slowest)
		used += snprintf(line + used, (size_t)(CLIENTS_LINE - used),
				 "; slowest: client %" PRIu32 " after %.3f s", all.slowest->number,
				 (double)all.slowest->outages->longest / SEC);
	if (all.not_back)
		snprintf(line + used, (size_t)(CLIENTS_LINE - used),
			 "; not back: %" PRIu32 " of them", all.not_back);
	return true;
}

/* --- causes --- */

static bool has_cause(const struct client_figures *client)
{
	return !client->operations || !outages_over(client->outages);
}

static bool is_alike(const struct client_figures *one, const struct client_figures *other)
{
	return has_cause(one) && has_cause(other) && !one->operations == !other->operations &&
	       !strcmp(one->why, other->why);
}

/* How many clients are like client `at`; 0 if an earlier one is: it has counted them. */
static uint32_t count_alike(const struct client_figures *clients, uint32_t count, uint32_t at)
{
	uint32_t first = 0, alike = 0;

	while (!is_alike(&clients[first], &clients[at]))
		first++;
	for (uint32_t i = at; first == at && i < count; i++)
		alike += is_alike(&clients[i], &clients[at]);
	return alike;
}

static bool tell_cause(char *line, const struct client_figures *clients, uint32_t count,
		       uint32_t at)
{
	const struct client_figures *client = &clients[at];
	uint32_t alike = has_cause(client) ? count_alike(clients, count, at) : 0;

	if (alike)
		snprintf(line, CLIENTS_LINE,
			 client->operations ? "clients: %" PRIu32 " not back: %s"
					    : "clients: %" PRIu32 " not served: %s",
			 alike, client->why);
	return alike;
}

void clients_tell(const struct client_figures *clients, uint32_t count,
		  void (*say)(const char *line))
{
	char line[CLIENTS_LINE];
	bool did_io = false;

	for (uint32_t i = 0; i < count && !did_io; i++)
		did_io = clients[i].operations || clients[i].errors;
	tell_served(line, clients, count);
	say(line);
	if (did_io && tell_returns(line, clients, count))
		say(line);
	for (uint32_t i = 0; did_io && i < count; i++)
		if (tell_cause(line, clients, count, i))
			say(line);
}
