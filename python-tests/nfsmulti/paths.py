# SPDX-License-Identifier: GPL-2.0-only
"""Where the project keeps its things, and how files there are written, read and named."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from nfsmulti.errors import HarnessError, MissingError

_Made = TypeVar("_Made")
_BLOCK = 1 << 20
ROOT = Path(__file__).resolve().parents[2]
PYTHON_TESTS = ROOT / "python-tests"
JOBFILES = ROOT / "jobfiles"
# Of a package's files nothing is written: then ./nfsmulti names the folder for what we make.
_STATE = os.environ.get("NFSMULTI_STATE_DIR")
COMMAND = "nfsmulti" if _STATE else "./nfsmulti"
BUILD = Path(_STATE) if _STATE else ROOT / "build"
RESULTS = Path.cwd() / "results" if _STATE else ROOT / "results"
LABS = BUILD / "lab"


def build_dir() -> Path:
    """Return the folder that holds the engine: NFSMULTI_BUILD_DIR, or build/."""
    return Path(os.environ.get("NFSMULTI_BUILD_DIR") or BUILD).resolve()


def built(name: str, folder: Path | None = None) -> Path:
    """Return what the engine's build, or another in `folder`, has made; raises MissingError."""
    file = (folder or build_dir()) / name
    if not file.exists():
        raise MissingError(f"{file} is not built", "./nfsmulti build")
    return file


def needs_sources(what: str) -> None:
    """Raise HarnessError where there are none: `what` reads or writes them, or compiles."""
    if _STATE:
        raise HarnessError(
            f"{what} needs the project's sources, and this nfsmulti is a package's:"
            " run it in a clone"
        )


def as_typed(text: str) -> str:
    """Return what one types in a clone as it is typed here: what a package installed has names."""
    if not _STATE:
        return text
    words = {
        "./nfsmulti build": "install the package fio-engine-nfsmulti again",
        "./nfsmulti": COMMAND,
        "external:./build/libnfsmulti.so": "nfsmulti",
        "./build/libnfsmulti.so": "nfsmulti",
        " jobfiles/": f" {JOBFILES}/",
    }
    for ours, installed in words.items():
        text = text.replace(ours, installed)
    return text


def shown(path: Path) -> str:
    """Return `path` as a user would type it: relative to the working folder where it lies below."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def engine_as_typed() -> str:
    """Return the engine as one types it after --ioengine=: the packages' engine has a name."""
    if _STATE and build_dir() == (ROOT / "build").resolve():
        return "nfsmulti"
    engine = shown(build_dir() / "libnfsmulti.so")
    return f"external:{engine if engine.startswith('/') else './' + engine}"


def portable(text: str) -> str:
    """Take this machine's folder out of the paths in a text."""
    return text.replace(f"{ROOT}/", "")


def write_files(folder: Path, files: Mapping[str, int]) -> None:
    """Write data, not holes, which a server would not have to read."""
    block = bytes(range(256)) * (_BLOCK // 256)
    for name, size in files.items():
        file = folder / name
        with contextlib.suppress(FileNotFoundError):
            if file.stat().st_size >= size:
                continue
        with file.open("wb") as out:
            for begin in range(0, size, _BLOCK):
                out.write(block[: min(_BLOCK, size - begin)])


def write_whole(file: Path, text: str) -> None:
    """Write a text in the place of what the file held; its folder must be there.

    The file is there whole or not at all, whenever we are killed.
    """
    part = file.with_name(f".{file.name}.part")
    part.write_text(text)
    part.replace(file)


def write_json(file: Path, data: Any) -> None:
    """Write `data` as JSON, as write_whole() does."""
    write_whole(file, json.dumps(data, indent="\t") + "\n")


def made(kind: type[_Made], data: Mapping[str, Any]) -> _Made:
    """Make a dataclass of an object of JSON; fields that it does not know are dropped."""
    known = {one.name for one in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in data.items() if name in known})
