# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti compare: two runs of one scenario, cell by cell, with a verdict for a CI."""
