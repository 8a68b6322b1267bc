# SPDX-License-Identifier: GPL-2.0-only
"""`python -m nfsmulti`, which ./nfsmulti hands over to."""

from nfsmulti.cli import main

main()
