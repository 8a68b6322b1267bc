/* SPDX-License-Identifier: GPL-2.0-only */
#include "stats/histogram.h"

enum { PER_OCTAVE = 1 << HISTOGRAM_BITS };

extern inline uint32_t histogram_bin(uint64_t value);
extern inline void histogram_add(struct histogram *histogram, uint64_t value);

/* The middle of its values. */
static uint64_t value_of(uint32_t bin)
{
	uint32_t shift;

	if (bin < 2 * PER_OCTAVE)
		return bin;
	shift = (bin >> HISTOGRAM_BITS) - 1;
	return ((uint64_t)(bin - (shift << HISTOGRAM_BITS)) << shift) + (1ull << (shift - 1));
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
			return value_of(bin) < histogram->max ? value_of(bin) : histogram->max;
	}
	return histogram->max;
}
