/* SPDX-License-Identifier: GPL-2.0-only */
#include "stats/latency.h"

#include "stats/json_line.h"

const struct latency_percentile latency_percentiles[LATENCY_PERCENTILES] = {
	{50, "p50_us"}, {95, "p95_us"}, {99, "p99_us"}, {99.9, "p99_9_us"}, {99.99, "p99_99_us"}};

void latency_write(FILE *out, const char *prefix, const struct histogram *histogram)
{
	fprintf(out, "\"%smean_us\": %.3f, ", prefix, microseconds(histogram_mean(histogram)));
	for (int i = 0; i < LATENCY_PERCENTILES; i++)
		fprintf(out, "\"%s%s\": %.3f, ", prefix, latency_percentiles[i].key,
			microseconds(
				histogram_percentile(histogram, latency_percentiles[i].percent)));
	fprintf(out, "\"%smax_us\": %.3f", prefix, microseconds(histogram->max));
}
