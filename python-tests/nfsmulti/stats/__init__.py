# SPDX-License-Identifier: GPL-2.0-only
"""Statistics of repeated runs: pure functions of figures, which know no scenario."""
