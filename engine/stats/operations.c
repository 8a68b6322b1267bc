/* SPDX-License-Identifier: GPL-2.0-only */
#include "stats/operations.h"

#include "stats/json_line.h"
#include "stats/latency.h"

static double iops(const struct operations_label *label, const struct operations *operations)
{
	return label->span ? (double)operations->latency.count * 1e9 / (double)label->span : 0;
}

void operations_write(FILE *out, const struct operations_label *label,
		      const struct operations *operations)
{
	const struct histogram *latency = &operations->latency;

	fputc('{', out);
	line_string(out, "kind", "operation");
	line_string(out, "job", label->job);
	line_number(out, "job_number", label->job_number);
	line_string(out, "operation", label->name);
	line_number(out, "ops", latency->count);
	line_number(out, "errors", operations->errors);
	fprintf(out, "\"iops\": %.3f, ", iops(label, operations));
	latency_write(out, "", latency);
	fputs("}\n", out);
}

void operations_tell(char line[OPERATIONS_LINE], const struct operations_label *label,
		     const struct operations *operations)
{
	const struct histogram *latency = &operations->latency;
	int used = snprintf(line, OPERATIONS_LINE,
			    "%s: %" PRIu64 " done, %" PRIu64
			    " errors, IOPS=%.0f, latency (usec): mean=%.1f",
			    label->name, latency->count, operations->errors,
			    iops(label, operations), microseconds(histogram_mean(latency)));

	for (int i = 0; i < LATENCY_PERCENTILES && used < OPERATIONS_LINE; i++)
		used += snprintf(line + used, OPERATIONS_LINE - (size_t)used, ", p%g=%.1f",
				 latency_percentiles[i].percent,
				 microseconds(histogram_percentile(
					 latency, latency_percentiles[i].percent)));
}
