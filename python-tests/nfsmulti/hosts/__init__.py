# SPDX-License-Identifier: GPL-2.0-only
"""Runs on several hosts at once, by fio's own client/server mode."""

from nfsmulti.hosts.host import Host, parse_hosts
from nfsmulti.hosts.remote import RemoteFio

__all__ = ["Host", "RemoteFio", "parse_hosts"]
