/* SPDX-License-Identifier: GPL-2.0-only */
#include "stats/response.h"

#include "stats/json_line.h"

#include "util.h"

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

void response_join(struct response *sum, const struct latency *latency)
{
	histogram_join(&sum->lag, &latency->lag);
	histogram_join(&sum->service, &latency->response->service);
	histogram_join(&sum->wake_up, &latency->response->wake_up);
	sum->shared += latency->response->shared;
	sum->clamped += latency->response->clamped;
}

static void write_span(FILE *out, const char *word, const struct histogram *span)
{
	const char *comma = "";

	fputs(", ", out);
	latency_write(out, word, span);
	fprintf(out, ", \"%sbins\": {", word);
	for (uint32_t bin = 0; bin < HISTOGRAM_BINS; bin++)
		if (span->bins[bin]) {
			fprintf(out, "%s\"%" PRIu64 "\": %" PRIu64, comma, histogram_value(bin),
				span->bins[bin]);
			comma = ", ";
		}
	fputc('}', out);
}

void response_write(FILE *out, const char *job, uint32_t job_number,
		    const struct response *response)
{
	fputc('{', out);
	line_string(out, "kind", "response");
	line_string(out, "job", job);
	line_number(out, "job_number", job_number);
	line_number(out, "replies", response->service.count);
	line_number(out, "shared_stamps", response->shared);
	fprintf(out, "\"clamped_stamps\": %" PRIu64, response->clamped);
	if (response->lag.count)
		write_span(out, "lag_", &response->lag);
	write_span(out, "service_", &response->service);
	write_span(out, "wake_up_", &response->wake_up);
	fputs("}\n", out);
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
			 " (service is an upper bound: one stamp in %.1f replies)",
			 (double)service->count / (double)(service->count - response->shared));
}
