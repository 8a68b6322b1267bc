# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti report: pages of runs, and what it makes of the documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nfsmulti import kept, typed
from nfsmulti.paths import RESULTS, needs_sources, shown
from nfsmulti.report import documents, pages


def report(folders: Sequence[Path], *, published: bool, picture: bool, options: bool) -> None:
    """Write what was asked for, and print where."""
    if not (folders or published or picture or options):
        folders = [kept.newest(RESULTS)]
    of_all = published and not folders
    for option, given in {"published": of_all, "picture": picture, "options": options}.items():
        if given:
            needs_sources(f"report --{option}")
    for folder in folders:
        with typed.understood(folder):
            pages.write(folder, published=published)
        print(shown((folder / pages.HTML).resolve()))
    if of_all:
        print(shown(pages.write_published(RESULTS)))
    if picture:
        print(*map(shown, documents.write_pictures()), sep="\n")
    if options:
        print(*map(shown, documents.write_options()), sep="\n")
