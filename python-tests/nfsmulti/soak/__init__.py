# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti soak: write and verify over real servers while paths fail and return."""
