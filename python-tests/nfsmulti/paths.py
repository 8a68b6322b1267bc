# SPDX-License-Identifier: GPL-2.0-only
"""Where the project keeps its things."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON_TESTS = ROOT / "python-tests"
JOBFILES = ROOT / "jobfiles"
RESULTS = ROOT / "results"
BUILD = ROOT / "build"
LABS = BUILD / "lab"


def build_dir() -> Path:
    """Give the folder that holds the engine: NFSMULTI_BUILD_DIR, or build/."""
    return Path(os.environ.get("NFSMULTI_BUILD_DIR") or BUILD).resolve()


def shown(path: Path) -> str:
    """Give `path` as a user would type it: relative to the working folder where it lies below."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def portable(text: str) -> str:
    """Take this machine's folder out of the paths in a text."""
    return text.replace(f"{ROOT}/", "")
