# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti run: carries out a scenario, cell by cell."""
