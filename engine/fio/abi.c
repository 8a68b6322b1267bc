/* SPDX-License-Identifier: GPL-2.0-only */
/* abi.c - refuses a fio that this engine was not compiled for. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fio.h"
#include "options.h"

#include "abi.h"
#include "built-for.h"

/* A member of struct thread_options. Its offset in our headers, `off`, must equal off1, off2 or
 * off3 (by `n`) of the option in fio. */
struct expected {
	const char *option;
	unsigned int n;
	size_t off;
};

#define OFF(member) offsetof(struct thread_options, member)

/* Must list all members of struct thread_options that the engine reads. It also lists some that are
 * spread over the structure, so that a member inserted anywhere moves a listed one. */
static const struct expected expected[] = {
	{"name", 1, OFF(name)},
	{"directory", 1, OFF(directory)},
	{"filename", 1, OFF(filename)},
	{"rw", 1, OFF(td_ddir)},
	{"ioengine", 1, OFF(ioengine)},
	{"iodepth", 1, OFF(iodepth)},
	{"iodepth_low", 1, OFF(iodepth_low)},
	{"iodepth_batch", 1, OFF(iodepth_batch)},
	{"iodepth_batch_complete_min", 1, OFF(iodepth_batch_complete_min)},
	{"iodepth_batch_complete_max", 1, OFF(iodepth_batch_complete_max)},
	{"io_submit_mode", 1, OFF(io_submit_mode)},
	{"serialize_overlap", 1, OFF(serialize_overlap)},
	{"size", 1, OFF(size)},
	{"io_size", 1, OFF(io_size)},
	{"filesize", 1, OFF(file_size_low)},
	{"filesize", 2, OFF(file_size_high)},
	{"offset", 1, OFF(start_offset)},
	{"fill_device", 1, OFF(fill_device)},
	{"file_append", 1, OFF(file_append)},
	{"bs", 1, OFF(bs[DDIR_READ])},
	{"bs", 2, OFF(bs[DDIR_WRITE])},
	{"bs", 3, OFF(bs[DDIR_TRIM])},
	{"bsrange", 1, OFF(min_bs[DDIR_READ])},
	{"bsrange", 2, OFF(max_bs[DDIR_READ])},
	{"bs_unaligned", 1, OFF(bs_unaligned)},
	{"norandommap", 1, OFF(norandommap)},
	{"nrfiles", 1, OFF(nr_files)},
	{"fsync", 1, OFF(fsync_blocks)},
	{"fdatasync", 1, OFF(fdatasync_blocks)},
	{"end_fsync", 1, OFF(end_fsync)},
	{"fsync_on_close", 1, OFF(fsync_on_close)},
	{"create_fsync", 1, OFF(create_fsync)},
	{"create_serialize", 1, OFF(create_serialize)},
	{"create_on_open", 1, OFF(create_on_open)},
	{"create_only", 1, OFF(create_only)},
	{"allow_file_create", 1, OFF(allow_create)},
	{"allow_mounted_write", 1, OFF(allow_mounted_write)},
	{"pre_read", 1, OFF(pre_read)},
	{"invalidate", 1, OFF(invalidate_cache)},
	{"direct", 1, OFF(odirect)},
	{"sync", 1, OFF(sync_io)},
	{"overwrite", 1, OFF(overwrite)},
	{"unlink", 1, OFF(unlink)},
	{"unlink_each_loop", 1, OFF(unlink_each_loop)},
	{"loops", 1, OFF(loops)},
	{"numjobs", 1, OFF(numjobs)},
	{"thread", 1, OFF(use_thread)},
	{"runtime", 1, OFF(timeout)},
	{"ramp_time", 1, OFF(ramp_time)},
	{"time_based", 1, OFF(time_based)},
	{"mem", 1, OFF(mem_type)},
	{"iomem_align", 1, OFF(mem_align)},
	{"verify", 1, OFF(verify)},
	{"do_verify", 1, OFF(do_verify)},
	{"verify_only", 1, OFF(verify_only)},
	{"verify_state_load", 1, OFF(verify_state)},
	{"trim_percentage", 1, OFF(trim_percentage)},
	{"trim_backlog", 1, OFF(trim_backlog)},
	{"thinktime", 1, OFF(thinktime)},
	{"flow", 1, OFF(flow)},
	{"latency_target", 1, OFF(latency_target)},
	{"lat_percentiles", 1, OFF(lat_percentiles)},
	{"disable_lat", 1, OFF(disable_lat)},
	{"disable_slat", 1, OFF(disable_slat)},
	{"write_lat_log", 1, OFF(lat_log_file)},
	{"write_bw_log", 1, OFF(bw_log_file)},
	{"write_iops_log", 1, OFF(iops_log_file)},
	{"log_avg_msec", 1, OFF(log_avg_msec)},
	{"log_entries", 1, OFF(log_entries)},
	{"rate", 1, OFF(rate[DDIR_READ])},
	{"rate", 2, OFF(rate[DDIR_WRITE])},
	{"rate", 3, OFF(rate[DDIR_TRIM])},
	{"rate_iops", 1, OFF(rate_iops[DDIR_READ])},
	{"rate_iops", 2, OFF(rate_iops[DDIR_WRITE])},
	{"rate_iops", 3, OFF(rate_iops[DDIR_TRIM])},
	{"rate_min", 1, OFF(ratemin[DDIR_READ])},
	{"rate_min", 2, OFF(ratemin[DDIR_WRITE])},
	{"rate_min", 3, OFF(ratemin[DDIR_TRIM])},
	{"rate_iops_min", 1, OFF(rate_iops_min[DDIR_READ])},
	{"rate_iops_min", 2, OFF(rate_iops_min[DDIR_WRITE])},
	{"rate_iops_min", 3, OFF(rate_iops_min[DDIR_TRIM])},
	{"steadystate_duration", 1, OFF(ss_dur)},
	{"exitall_on_error", 1, OFF(exitall_error)},
	{"rwmixread", 1, OFF(rwmix[DDIR_READ])},
	{"rwmixwrite", 1, OFF(rwmix[DDIR_WRITE])},
	{"write_iolog", 1, OFF(write_iolog_file)},
	{"read_iolog", 1, OFF(read_iolog_file)},
	{"read_iolog_chunked", 1, OFF(read_iolog_chunked)},
	{"replay_no_stall", 1, OFF(no_stall)},
	{"lockfile", 1, OFF(file_lock_mode)},
	{"zero_buffers", 1, OFF(zero_buffers)},
	{"refill_buffers", 1, OFF(refill_buffers)},
	{"group_reporting", 1, OFF(group_reporting)},
	{"ignore_error", 1, OFF(ignore_error_nr)},
	{"log_prio", 1, OFF(log_prio)}, /* the last or nearly the last member in every version */
};

/* Returns false and fills `why` where fio has the member at another offset than our headers. */
static bool member_fits(const struct abi_fio *fio, const struct expected *e, char *why, size_t size)
{
	const struct fio_option *o = fio->options, *end = o + fio->options_size / sizeof(*o);
	size_t off;

	while (o < end && o->name && strcmp(o->name, e->option) != 0)
		o++;
	if (o == end || !o->name) {
		snprintf(why, size, "it has no option '%s'", e->option);
		return false;
	}
	off = e->n == 1 ? o->off1 : e->n == 2 ? o->off2 : o->off3;
	if (off != e->off) {
		snprintf(why, size, "its option '%s' is at offset %zu, but at %zu in the headers",
			 e->option, off, e->off);
		return false;
	}
	return true;
}

const char *abi_compare(const struct abi_fio *fio, char *why, size_t size)
{
	const char *built_for = NFSMULTI_FIO_VERSION;
	char what[160];

	if (fio->version && strcmp(fio->version, built_for) != 0) {
		snprintf(why, size, "built for %s, but this is %s", built_for, fio->version);
		return why;
	}
	if (!fio->version || !fio->options) {
		snprintf(why, size, "built for %s, but this program does not export fio's symbols",
			 built_for);
		return why;
	}

	/* Only a table of the same size has entries of our size, which member_fits() can walk. */
	if (fio->options_size != sizeof(fio_options)) {
		snprintf(why, size,
			 "built with headers of %s that do not fit this %s: "
			 "its option table has %zu bytes, but %zu in the headers",
			 built_for, fio->version, fio->options_size, sizeof(fio_options));
		return why;
	}
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		if (!member_fits(fio, &expected[i], what, sizeof(what))) {
			snprintf(why, size, "built with headers of %s that do not fit this %s: %s",
				 built_for, fio->version, what);
			return why;
		}
	}
	return NULL;
}

/* Uses dlsym(3): an engine that refers to a missing symbol would not load, and could not report
 * that. The table's size is in the dynamic symbol table; C offers no way to get it. */
void abi_running(struct abi_fio *fio)
{
	const ElfW(Sym) *sym = NULL;
	Dl_info info;

	*fio = (struct abi_fio){
		.version = dlsym(RTLD_DEFAULT, "fio_version_string"),
		.options = dlsym(RTLD_DEFAULT, "fio_options"),
	};
	if (fio->options && dladdr1(fio->options, &info, (void **)&sym, RTLD_DL_SYMENT) && sym)
		fio->options_size = sym->st_size;
}

const char *abi_check(char *why, size_t size)
{
	struct abi_fio fio;
	char program[512];
	ssize_t len;
	size_t used;

	abi_running(&fio);
	if (!abi_compare(&fio, why, size))
		return NULL;

	len = readlink("/proc/self/exe", program, sizeof(program) - 1);
	if (len < 0)
		len = snprintf(program, sizeof(program), "fio");
	program[len] = '\0';

	used = strlen(why);
	snprintf(why + used, size - used,
		 " (%s); rebuild it: cmake -S '%s' -B build -DFIO_EXECUTABLE='%s'"
		 " && cmake --build build",
		 program, NFSMULTI_SOURCE_DIR, program);
	return why;
}
