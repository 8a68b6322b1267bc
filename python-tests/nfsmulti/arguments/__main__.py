# SPDX-License-Identifier: GPL-2.0-only
"""`python3 -m nfsmulti.arguments COMMAND ...`: ends with status_of() if ./nfsmulti is to go on."""

import sys

from nfsmulti.arguments import status_of, told_first, understand
from nfsmulti.terminal import guard

guard()
understood = understand(sys.argv[1:])
for line in told_first(understood):
    print(line, file=sys.stderr)
sys.exit(status_of(understood))
