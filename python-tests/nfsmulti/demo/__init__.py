# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti demo: three published workloads on one path and on a pool, side by side."""
