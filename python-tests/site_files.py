# SPDX-License-Identifier: GPL-2.0-only
"""Hooks of MkDocs: what docs/ links to beside it is part of the site."""

from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_OUTSIDE = (
    "jobfiles/*.fio",
    "packaging/Containerfile",
    "packaging/kubernetes-job.yaml",
    "results/README.md",
    "results/reference/*/*.md",
    "results/reference/**/*.png",
)


def outside() -> list[str]:
    """Return the files, as paths from the project's folder; pages among them are shown as pages."""
    return sorted(str(file.relative_to(ROOT)) for glob in _OUTSIDE for file in ROOT.glob(glob))


def on_files(files: Any, config: Any) -> None:
    """Add them to the site, where the project has them."""
    from mkdocs.structure.files import File

    for path in outside():
        files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links from docs/ lead there: in the site docs/ is the top."""
    return markdown.replace("](../", "](")
