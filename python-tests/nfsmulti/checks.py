# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti test: pytest over everything, each engine test once per build."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from nfsmulti.paths import BUILD, ROOT
from nfsmulti.processes import run

_SECONDS = 20.0


def run_tests(
    context: typer.Context,
    quick: Annotated[
        bool,
        typer.Option(help="The inner loop: no second compiler, no sanitizers, no clang-tidy."),
    ] = False,
) -> None:
    """Check format and lint, build with gcc and clang, run all tests, then under sanitizers.

    Everything is a pytest test, so other options go to pytest: -k EXPR, -x, --lf, a test's file.
    What this machine lacks is skipped by name, and fails where CI=true.
    """
    env = dict(os.environ)
    env["PYTEST_DEBUG_TEMPROOT"] = str(BUILD)
    argv = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), *context.args]
    if quick:
        argv.append("--quick")
    else:
        # A library with AddressSanitizer can be loaded only where its runtime came first.
        env["LD_PRELOAD"] = _sanitizer_runtime()
        env["ASAN_OPTIONS"] = "detect_leaks=0"
    os.chdir(ROOT)
    os.execve(sys.executable, argv, env)


def _sanitizer_runtime() -> str:
    """Give the files of gcc's AddressSanitizer, and of the C++ library, whose throw it wraps."""
    names = ("libasan.so", "libstdc++.so.6")
    found = [run(["gcc", f"-print-file-name={name}"], timeout=_SECONDS).check() for name in names]
    return ":".join(done.stdout.strip() for done in found)
