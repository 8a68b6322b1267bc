# SPDX-License-Identifier: GPL-2.0-only
"""`python3 -m nfsmulti.arguments COMMAND ...`: ends with status 10 if ./nfsmulti is to go on."""

import sys

from nfsmulti.arguments import told_first, understand
from nfsmulti.terminal import guard

guard()
if line := told_first(understand(sys.argv[1:])):
    print(line, file=sys.stderr)
sys.exit(10)
