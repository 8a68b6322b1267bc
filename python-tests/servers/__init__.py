# SPDX-License-Identifier: GPL-2.0-only
"""Servers for tests and benchmarks: none is more than its clients need.

sink/ is nfs-sink, in C, which costs next to nothing: for benchmarks. core/ reads calls and writes
replies for it, and for the simulator's server (python-tests/sim/). scripted/ answers as a test or a
fault tells it to, and what uses it is above both. rpc.py has RPC's records and XDR. tls_proxy.py
puts TLS before a server that has none, for tests and for a lab; record_proxy.py changes single RPC
records on their way. listening.py has what those in Python listen by.
"""
