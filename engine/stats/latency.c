/* SPDX-License-Identifier: GPL-2.0-only */
#include "stats/latency.h"

#include <stdlib.h>

#include "stats/json_line.h"
#include "util.h"

extern inline uint32_t histogram_bin(uint64_t value);
extern inline void histogram_count(struct histogram *histogram, uint32_t bin);
extern inline void histogram_add(struct histogram *histogram, uint64_t value);

/* The middle of a bin's values. */
static uint64_t histogram_value(uint32_t bin)
{
	uint32_t shift;

	if (bin < 2 * HISTOGRAM_PART)
		return bin;
	shift = (bin >> HISTOGRAM_BITS) - 1;
	return ((uint64_t)(bin - (shift << HISTOGRAM_BITS)) << shift) + (1ull << (shift - 1));
}

uint64_t *histogram_new_part(struct histogram *histogram, uint32_t part)
{
	return histogram->parts[part] = calloc(HISTOGRAM_PART, sizeof(**histogram->parts));
}

void histogram_free(struct histogram *histogram)
{
	for (uint32_t part = 0; part < HISTOGRAM_PARTS; part++)
		free(histogram->parts[part]);
	*histogram = (struct histogram){0};
}

static uint64_t counted(const struct histogram *histogram, uint32_t bin)
{
	const uint64_t *part = histogram->parts[bin / HISTOGRAM_PART];

	return part ? part[bin % HISTOGRAM_PART] : 0;
}

static void join_part(struct histogram *sum, const struct histogram *one, uint32_t part)
{
	uint64_t *bins = sum->parts[part];

	if (!one->parts[part] || (!bins && !(bins = histogram_new_part(sum, part))))
		return;
	for (uint32_t bin = 0; bin < HISTOGRAM_PART; bin++)
		bins[bin] += one->parts[part][bin];
}

void histogram_join(struct histogram *sum, const struct histogram *one)
{
	sum->count += one->count;
	sum->sum += one->sum;
	sum->max = max_of(sum->max, one->max);
	for (uint32_t part = 0; part < HISTOGRAM_PARTS; part++)
		join_part(sum, one, part);
}

uint64_t histogram_mean(const struct histogram *histogram)
{
	return histogram->count ? histogram->sum / histogram->count : 0;
}

uint64_t histogram_percentile(const struct histogram *histogram, double percent)
{
	double wanted = percent / 100 * (double)histogram->count;
	uint64_t seen = 0;

	for (uint32_t bin = 0; bin < HISTOGRAM_BINS; bin++) {
		seen += counted(histogram, bin);
		if (seen && (double)seen >= wanted)
			return min_of(histogram_value(bin), histogram->max);
	}
	return histogram->max;
}

const struct latency_percentile latency_percentiles[] = {
	{50, "p50_us"},	    {95, "p95_us"},	  {99, "p99_us"},
	{99.9, "p99_9_us"}, {99.99, "p99_99_us"}, {0, NULL},
};
const struct latency_percentile latency_client_percentiles[] = {
	{50, "p50_us"}, {99, "p99_us"}, {0, NULL}};

void latency_write(FILE *out, const char *prefix, const struct histogram *histogram,
		   const struct latency_percentile *percentiles)
{
	fprintf(out, "\"%smean_us\": %.3f, ", prefix, microseconds(histogram_mean(histogram)));
	for (; percentiles->key; percentiles++)
		fprintf(out, "\"%s%s\": %.3f, ", prefix, percentiles->key,
			microseconds(histogram_percentile(histogram, percentiles->percent)));
	fprintf(out, "\"%smax_us\": %.3f, ", prefix, microseconds(histogram->max));
}

void latency_free(struct latency *latency)
{
	histogram_free(&latency->lag);
	histogram_free(&latency->wait);
	histogram_free(&latency->rtt);
	histogram_free(&latency->response.service);
	histogram_free(&latency->response.wake_up);
}

void response_received(struct response *response, uint64_t stamp, uint64_t now)
{
	response->sound = stamp && stamp <= now;
	response->age = response->sound ? now - stamp : 0;
	response->used = false;
}

void response_add(struct response *response, uint64_t rtt)
{
	uint64_t wake_up = min_of(response->age, rtt);

	histogram_add(&response->service, rtt - wake_up);
	histogram_add(&response->wake_up, wake_up);
	response->clamped += !response->sound || response->age > rtt;
	response->shared += response->used;
	response->used = true;
}

void response_join(struct latency *sum, const struct latency *one)
{
	histogram_join(&sum->lag, &one->lag);
	histogram_join(&sum->response.service, &one->response.service);
	histogram_join(&sum->response.wake_up, &one->response.wake_up);
	sum->response.shared += one->response.shared;
	sum->response.clamped += one->response.clamped;
}

static void write_span(FILE *out, const char *word, const struct histogram *span)
{
	const char *comma = "";

	latency_write(out, word, span, latency_percentiles);
	fprintf(out, "\"%sbins\": {", word);
	for (uint32_t bin = 0; bin < HISTOGRAM_BINS; bin++)
		if (counted(span, bin)) {
			fprintf(out, "%s\"%" PRIu64 "\": %" PRIu64, comma, histogram_value(bin),
				counted(span, bin));
			comma = ", ";
		}
	fputs("}, ", out);
}

void response_write(FILE *out, const struct line_job *job, const struct latency *latency)
{
	const struct response *response = &latency->response;

	line_begin(out, "response", job);
	line_number(out, "replies", response->service.count);
	line_number(out, "shared_stamps", response->shared);
	line_number(out, "clamped_stamps", response->clamped);
	if (latency->lag.count)
		write_span(out, "lag_", &latency->lag);
	write_span(out, "service_", &response->service);
	write_span(out, "wake_up_", &response->wake_up);
	line_end(out);
}

void response_tell(char line[RESPONSE_LINE], const struct response *response)
{
	const struct histogram *service = &response->service, *wake_up = &response->wake_up;
	double all = (double)max_of(service->sum + wake_up->sum, (uint64_t)1);
	int used = snprintf(line, RESPONSE_LINE,
			    "response: service p99 %.3f ms, wake-up p99 %.3f ms: this client adds "
			    "%.1f %% of the mean",
			    (double)histogram_percentile(service, 99) / MSEC,
			    (double)histogram_percentile(wake_up, 99) / MSEC,
			    100 * (double)wake_up->sum / all);

	if (response->shared > service->count / 10)
		snprintf(line + used, (size_t)(RESPONSE_LINE - used),
			 " (service is an upper bound: %.1f replies share a stamp on average)",
			 (double)service->count / (double)(service->count - response->shared));
}
