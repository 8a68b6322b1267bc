# SPDX-License-Identifier: GPL-2.0-only
"""Where the project keeps its things, and how files there are written, read and named."""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.terminal import visible

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
    return visible(str(path.relative_to(here) if path.is_relative_to(here) else path), line=True)


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


def write_whole(file: Path, text: str | bytes, within: Path | None = None) -> None:
    """Write a file anew: a link in its place is replaced, and what that leads to stays.

    It is there whole or not at all, whenever we are killed. Its folder must be there; `within` one
    that may be a stranger's, it is made, and no link below that is followed. Raises HarnessError.
    """
    data = text if isinstance(text, bytes) else text.encode(errors="surrogateescape")
    folder = _opened(file.parent, within or file.parent)
    part = f".{file.name}.{os.getpid()}.part"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(part, flags, 0o666, dir_fd=folder), "wb") as out:
            out.write(data)
        os.rename(part, file.name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(part, dir_fd=folder)
        raise HarnessError(f"{shown(file)}: {error.strerror}") from None
    finally:
        os.close(folder)


def _opened(folder: Path, within: Path) -> int:
    """Return a handle of a folder, as write_whole() says."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    at, inner = within, folder.parts[len(within.parts) :]
    if not folder.is_relative_to(within) or ".." in inner:
        raise HarnessError(f"{shown(folder)} does not lie in {shown(within)}")
    try:
        if inner:
            within.mkdir(parents=True, exist_ok=True)
        handle = os.open(within, flags)
        for name in inner:
            at, outer = at / name, handle
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=outer)
                handle = os.open(name, flags | os.O_NOFOLLOW, dir_fd=outer)
            finally:
                os.close(outer)
    except OSError as error:
        link = " (a link is not followed)" if at.is_symlink() and at != within else ""
        raise HarnessError(f"{shown(at)}: {error.strerror}{link}") from None
    return handle


def write_json(file: Path, data: Any) -> None:
    """Write `data` as JSON, as write_whole() does."""
    write_whole(file, json.dumps(data, indent="\t") + "\n")
