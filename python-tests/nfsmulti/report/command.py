# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nfsmulti.paths import RESULTS, shown
from nfsmulti.report import pages
from nfsmulti.report import published as overview


def report(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR...", help="Folders of runs: results/SCENARIO/TIME."),
    ] = None,
    published: Annotated[
        bool,
        typer.Option(
            "--published",
            help="Make results/README.md: all published figures and the reference runs', side by"
            " side.",
        ),
    ] = False,
    picture: Annotated[
        bool,
        typer.Option(
            "--picture", help="Draw README's pictures, docs/*.svg, out of the reference runs."
        ),
    ] = False,
    options: Annotated[
        bool,
        typer.Option(
            "--options", help="Bring docs/options.md and nfsmulti(7) in step with the engine."
        ),
    ] = False,
) -> None:
    """Make the reports of runs again: report.md, report.html and plots/, from summary.json.

    report.html is self-contained: it can be mailed, and opens without a network.
    """
    if not (folders or published or picture or options):
        raise typer.BadParameter("name the folder of a run, --published, --picture or --options")
    for folder in folders or []:
        pages.write(folder)
        print(shown((folder / pages.HTML).resolve()))
    if published:
        print(shown(overview.write(RESULTS)))
    if picture:
        from nfsmulti.report import picture as drawn

        print(*map(shown, drawn.write()), sep="\n")
    if options:
        from nfsmulti import optionpages

        print(*map(shown, optionpages.write()), sep="\n")
