# SPDX-License-Identifier: GPL-2.0-only
"""Tests marked `kernel_lab` run in the guest of ./nfsmulti lab kernel, all in one boot.

A pytest that is asked for these alone (-m kernel_lab) runs there as a whole, with its arguments.
Its JUnit file is the only one that it writes on the host. Any other pytest skips them.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.lab.guest import GuestConfig, inside, run_in_guest

_MARK = "kernel_lab"
_WHY = pytest.StashKey[str]()
# Of what a test may take: a guest that says nothing of one, nor of another try, for longer hangs.
_SILENCE = 1.5


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Run this pytest in the guest and give its status; None: here."""
    if inside() or config.option.markexpr != _MARK or config.option.collectonly:
        return None
    argv = [sys.executable, "-m", "pytest", *config.invocation_params.args]
    # Without a test there is no boot; and a guest that dies leaves no JUnit file.
    look = [*argv, "--collect-only", "-q", f"--junitxml={os.devnull}"]
    chosen = subprocess.run(look, stdout=subprocess.PIPE, check=False)
    if chosen.returncode:
        sys.stdout.buffer.write(chosen.stdout)
        return chosen.returncode
    junit = config.option.xmlpath
    results = Path(junit).absolute().parent if junit else None
    silence = _SILENCE * float(config.getini("timeout"))
    try:
        return run_in_guest(argv, GuestConfig(results=results, silence=silence))
    except MissingError as error:
        if os.environ.get("CI") != "true":
            config.stash[_WHY] = str(error)
            return None
        print(f"nfsmulti: {error}", file=sys.stderr)
        return pytest.ExitCode.TESTS_FAILED
    except HarnessError as error:
        print(f"nfsmulti: {error}", file=sys.stderr)
        return pytest.ExitCode.INTERNAL_ERROR


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip them outside of the guest."""
    why = config.stash.get(_WHY, f"it runs in the guest, by -m {_MARK} alone")
    for item in items:
        if not inside() and item.get_closest_marker(_MARK):
            item.add_marker(pytest.mark.skip(why))
