# SPDX-License-Identifier: GPL-2.0-only
"""Files that are there whole or not at all, whenever the harness is killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_json(file: Path, data: Any) -> None:
    """Write `data` as JSON in the place of what the file held; its folder must be there."""
    part = file.with_name(f".{file.name}.part")
    part.write_text(json.dumps(data, indent="\t") + "\n")
    part.replace(file)
