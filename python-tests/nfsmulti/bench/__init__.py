# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti bench: what the client costs, measured beside fio's own engines, run by run."""
