/* SPDX-License-Identifier: GPL-2.0-only */
#include "stats/histogram.h"

enum { PER_OCTAVE = 1 << HISTOGRAM_BITS };

/* Values below PER_OCTAVE have a bin each; of a larger one the leading bits count. */
static uint32_t bin_of(uint64_t value)
{
	uint32_t shift;

	if (value < PER_OCTAVE)
		return (uint32_t)value;
	if (value >> HISTOGRAM_TOP)
		return HISTOGRAM_BINS - 1;
	shift = 63 - (uint32_t)__builtin_clzll(value) - HISTOGRAM_BITS;
	return (shift << HISTOGRAM_BITS) + (uint32_t)(value >> shift);
}

/* The middle of its values. */
static uint64_t value_of(uint32_t bin)
{
	uint32_t shift;

	if (bin < 2 * PER_OCTAVE)
		return bin;
	shift = (bin >> HISTOGRAM_BITS) - 1;
	return ((uint64_t)(bin - (shift << HISTOGRAM_BITS)) << shift) + (1ull << (shift - 1));
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
	histogram->count++;
	histogram->sum += value;
	if (value > histogram->max)
		histogram->max = value;
	histogram->bins[bin_of(value)]++;
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
