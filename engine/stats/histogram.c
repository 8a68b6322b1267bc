/* SPDX-License-Identifier: GPL-2.0-only */
#include "stats/histogram.h"

#include "util.h"

enum { PER_OCTAVE = 1 << HISTOGRAM_BITS };

extern inline uint32_t histogram_bin(uint64_t value);
extern inline void histogram_add(struct histogram *histogram, uint64_t value);

uint64_t histogram_value(uint32_t bin)
{
	uint32_t shift;

	if (bin < 2 * PER_OCTAVE)
		return bin;
	shift = (bin >> HISTOGRAM_BITS) - 1;
	return ((uint64_t)(bin - (shift << HISTOGRAM_BITS)) << shift) + (1ull << (shift - 1));
}

void histogram_join(struct histogram *sum, const struct histogram *one)
{
	sum->count += one->count;
	sum->sum += one->sum;
	sum->max = max_of(sum->max, one->max);
	for (uint32_t bin = 0; bin < HISTOGRAM_BINS; bin++)
		sum->bins[bin] += one->bins[bin];
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
		seen += histogram->bins[bin];
		if (seen && (double)seen >= wanted)
			return min_of(histogram_value(bin), histogram->max);
	}
	return histogram->max;
}
