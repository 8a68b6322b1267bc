# SPDX-License-Identifier: GPL-2.0-only
"""Machines that lack something: functions in C that stand before the C library's.

They are for Case.before and preloaded(), which put preload.h before them.
"""

import re

BIND = "int bind(int fd, const struct sockaddr *address, socklen_t length)"
CONNECT = "int connect(int fd, const struct sockaddr *to, socklen_t length)"
EPOLL_CTL = "int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)"
SEND = "ssize_t send(int fd, const void *bytes, size_t length, int flags)"


def fails(function: str, when: str, error: str) -> str:
    """Return a function that fails with an errno where `when` holds, which may count in `calls`."""
    name, parameters = re.findall(r"(\w+)\((.*)\)", function)[0]
    arguments = ", ".join(re.findall(r"(\w+)(?:,|$)", parameters))
    return f"""
{function}
{{
	static atomic_int calls;

	if ({when}) {{
		errno = {error};
		return -1;
	}}
	return REAL({name})({arguments});
}}
"""


def clock_ahead(seconds: str) -> str:
    """Return a clock that is ahead by the value of an expression."""
    return f"""
int clock_gettime(clockid_t clock, struct timespec *now)
{{
	int error = (int)syscall(SYS_clock_gettime, clock, now);

	now->tv_sec += {seconds};
	return error;
}}
"""
