# SPDX-License-Identifier: GPL-2.0-only
"""`python -m nfsmulti`, the command line that ./nfsmulti hands over to."""

import contextlib
import importlib
import os
import select
import signal
import sys
from collections.abc import Sequence

from nfsmulti.arguments import understand
from nfsmulti.errors import HarnessError
from nfsmulti.paths import as_typed
from nfsmulti.processes import end_politely
from nfsmulti.terminal import guard

_STDOUT = 1


def carry_out(words: Sequence[str]) -> None:
    """Run one command. Raises HarnessError, or SystemExit with a status of the command's own."""
    understood = understand(words)
    module, name = understood.function.split(":")
    getattr(importlib.import_module(module), name)(**understood.values)


def _is_read() -> bool:
    """Tell whether somebody reads what we print, which `| head` ends; else it is dropped."""
    with contextlib.suppress(BrokenPipeError):
        print(end="", flush=True)
    poll = select.poll()
    poll.register(_STDOUT, 0)
    if not poll.poll(0):
        return True
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)
    return False


def main() -> None:
    """Run one command. Exit status: 0, the command's own, 1 for an error, 2 for bad usage."""
    end_politely()
    guard()
    try:
        carry_out(sys.argv[1:])
    except HarnessError as error:
        print(as_typed(f"nfsmulti: {error}"), file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        if _is_read():  # then it was another pipe
            raise
        sys.exit(128 + signal.SIGPIPE)
    finally:
        _is_read()


if __name__ == "__main__":
    main()
