/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nfsmulti-sim - the engine's requests (fio/job_io.c and what it calls), group/, nfs/, client/ and
 * wire/ on a simulated network, server and clock, in one thread: one job for each seed.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "job.h"
#include "util.h"
#include "world.h"

struct options {
	uint64_t seed, jobs;
	uint32_t ios;
	bool trace;
};

static uint64_t number(const char *text)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 10);

	if (end == text || *end) {
		fprintf(stderr, "nfsmulti-sim: '%s' is no number\n", text);
		exit(2);
	}
	return value;
}

static const char about[] =
	"Runs one simulated job for each seed from --seed on, and says how many failures they "
	"lived through. At the first job for which something does not hold it says which seed that "
	"was, and the fewest I/Os that show it.";

static const struct argp_option names[] = {
	{"seed", 's', "N", 0, "the first seed (default 1)", 0},
	{"jobs", 'j', "N", 0, "jobs to run (default 1000)", 0},
	{"ios", 'i', "N", 0, "I/Os of a job (default 1000)", 0},
	{"trace", 'T', NULL, 0, "print what happens", 0},
	{0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 's': options->seed = number(text); break;
	case 'j': options->jobs = number(text); break;
	case 'i': options->ios = (uint32_t)number(text); break;
	case 'T': options->trace = true; break;
	default: return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* The fewest I/Os with which the seed's job still fails. */
static uint32_t shorten(uint64_t seed, uint32_t ios)
{
	uint32_t good = 0;

	while (good + 1 < ios) {
		uint32_t middle = good + (ios - good) / 2;

		job_run(seed, middle, false);
		if (*world.violation)
			ios = middle;
		else
			good = middle;
	}
	return ios;
}

static int tell_failed(const struct options *options, uint64_t seed)
{
	printf("seed %" PRIu64 ": %s\n", seed, world.violation);
	fflush(stdout);
	printf("see it: nfsmulti-sim --seed %" PRIu64 " --jobs 1 --ios %u --trace\n", seed,
	       shorten(seed, options->ios));
	return 1;
}

/* Of one job: those that it was to notice. */
static uint64_t count_failures(void)
{
	uint64_t sum = 0;

	for (int i = 0; i <= FAILED_KDC; i++)
		sum += world.failures[i];
	return sum;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {.options = names, .parser = parse, .doc = about};
	struct options options = {.seed = 1, .jobs = 1000, .ios = 1000};
	uint64_t ios = 0, failures = 0;

	argp_err_exit_status = 2; /* as the programs beside fio have it */
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	for (uint64_t i = 0; i < options.jobs; i++) {
		ios += job_run(options.seed + i, options.ios, options.trace);
		if (*world.violation)
			return tell_failed(&options, options.seed + i);
		failures += count_failures();
	}
	printf("%" PRIu64 " jobs, %" PRIu64 " I/Os, %" PRIu64 " failures\n", options.jobs, ios,
	       failures);
	return 0;
}
