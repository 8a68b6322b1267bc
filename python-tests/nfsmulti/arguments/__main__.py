# SPDX-License-Identifier: GPL-2.0-only
"""`python3 -m nfsmulti.arguments COMMAND ...`: ends with status 10 if ./nfsmulti is to go on."""

import sys

from nfsmulti.arguments import understand

understand(sys.argv[1:])
sys.exit(10)
