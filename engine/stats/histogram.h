/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * histogram.h - latencies, counted in bins: 64 to each power of two, as fio has them, so that a
 * percentile is off by less than 1 %.
 */
#pragma once

#include <stdint.h>

enum {
	HISTOGRAM_BITS = 6, /* of a value, behind its highest one, that tell its bin */
	HISTOGRAM_TOP = 44, /* values from 2^44 ns on, which is five hours, are in the last bin */
	HISTOGRAM_BINS = (HISTOGRAM_TOP - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS,
};

/* Of zeros at first. Values are nanoseconds. */
struct histogram {
	uint64_t count, sum, max;
	uint64_t bins[HISTOGRAM_BINS];
};

/* Values below 2^HISTOGRAM_BITS have a bin each; of a larger one the leading bits count. */
inline uint32_t histogram_bin(uint64_t value)
{
	uint32_t shift;

	if (value < 1u << HISTOGRAM_BITS)
		return (uint32_t)value;
	if (value >> HISTOGRAM_TOP)
		return HISTOGRAM_BINS - 1;
	shift = 63 - (uint32_t)__builtin_clzll(value) - HISTOGRAM_BITS;
	return (shift << HISTOGRAM_BITS) + (uint32_t)(value >> shift);
}

/* Inline: it is done for each I/O. */
inline void histogram_add(struct histogram *histogram, uint64_t value)
{
	histogram->count++;
	histogram->sum += value;
	if (value > histogram->max)
		histogram->max = value;
	histogram->bins[histogram_bin(value)]++;
}

/* The middle of a bin's values. */
uint64_t histogram_value(uint32_t bin);

/* Adds what one has counted to another. */
void histogram_join(struct histogram *sum, const struct histogram *one);

/* 0 where nothing was counted; `percent` from 0 to 100. */
uint64_t histogram_mean(const struct histogram *histogram);
uint64_t histogram_percentile(const struct histogram *histogram, double percent);
