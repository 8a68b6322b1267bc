# SPDX-License-Identifier: GPL-2.0-only
"""SIGTERM and SIGHUP end the harness the way Ctrl-C does: everything it holds is let go."""

import signal
import types


def end_politely() -> None:
    """Turn SIGTERM and SIGHUP into SystemExit, with the status that a shell would give."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)


def _leave(number: int, _: types.FrameType | None) -> None:
    raise SystemExit(128 + number)
