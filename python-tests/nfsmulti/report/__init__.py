# SPDX-License-Identifier: GPL-2.0-only
"""Reports of runs: tables and plots beside the published figures."""
