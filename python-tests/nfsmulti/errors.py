# SPDX-License-Identifier: GPL-2.0-only
"""What the harness raises, and how a user reads it."""


class HarnessError(Exception):
    """Something failed: what and where in `what`, what to do about it in `remedy`."""

    def __init__(self, what: str, remedy: str | None = None):
        super().__init__(what if remedy is None else f"{what}\n  {remedy}")
        self.what = what
        self.remedy = remedy


class MissingError(HarnessError):
    """A component that this machine lacks. Tests skip on it, or fail where CI is set."""
