// SPDX-License-Identifier: GPL-2.0-only
/*
 * uml-ptrace.c - what Debian's user-mode kernel lacks of ptrace(2), by LD_PRELOAD
 *
 * The kernel sets 2696 bytes of a process's registers (HOST_FP_SIZE). A processor with AMX has 11
 * KB, and its kernel refuses to set a part of them: the rest is added here, which is zero where no
 * process uses it. And when the user-mode kernel is killed, its processes are to end with it;
 * without PTRACE_O_EXITKILL their next system call would be the host's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

#define OLD_SETOPTIONS 21 /* of Linux 2.4; all kernels know it, and glibc does not */

/* The registers in XSAVE's own layout; `size` is what the host has, 0 before it has told that. */
static char registers[1 << 16];
static size_t size;

static long (*glibcs)(enum __ptrace_request request, ...);

/* Asks the host how large the registers are. */
static void learn_size(pid_t pid)
{
	struct iovec all = {registers, sizeof(registers)};

	if (glibcs(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &all) == 0)
		size = all.iov_len;
	memset(registers, 0, sizeof(registers));
}

static long set_registers(pid_t pid, struct iovec *part)
{
	struct iovec all = {registers, size};

	if (size <= part->iov_len)
		return glibcs(PTRACE_SETREGSET, pid, NT_X86_XSTATE, part);
	memcpy(registers, part->iov_base, part->iov_len);
	return glibcs(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &all);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list words;

	if (!glibcs)
		*(void **)&glibcs = dlsym(RTLD_NEXT, "ptrace");
	va_start(words, request);
	pid_t pid = va_arg(words, pid_t);
	long address = va_arg(words, long);
	void *data = va_arg(words, void *);
	va_end(words);

	switch ((int)request) {
	case PTRACE_GETREGSET:
		if (size == 0 && address == NT_X86_XSTATE)
			learn_size(pid);
		break;
	case PTRACE_SETREGSET:
		if (address == NT_X86_XSTATE)
			return set_registers(pid, data);
		break;
	case OLD_SETOPTIONS:
	case PTRACE_SETOPTIONS: data = (void *)((long)data | PTRACE_O_EXITKILL); break;
	}
	return glibcs(request, pid, address, data);
}
