# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti doctor: what stands in the way on this machine and on the servers of a pool."""
