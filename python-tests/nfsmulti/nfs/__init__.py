# SPDX-License-Identifier: GPL-2.0-only
"""The paths of a pool, and the few RPC and NFS calls by which the harness itself asks a server."""
