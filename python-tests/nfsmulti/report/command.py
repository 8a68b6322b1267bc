# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti report: pages of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nfsmulti import kept, typed
from nfsmulti.paths import RESULTS, shown
from nfsmulti.report import pages


def report(folders: Sequence[Path], *, published: bool) -> None:
    """Write the pages of these runs, or of the newest, and print where."""
    for folder in folders or [kept.newest(RESULTS)]:
        with typed.understood(folder):
            pages.write(folder, published=published)
        print(shown((folder / pages.HTML).resolve()))
