# SPDX-License-Identifier: GPL-2.0-only
"""A command's options as one object, where they are many or belong to several commands."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def by_fields(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command's last parameter, a dataclass, be filled by options: one for each field.

    Fields are written as typer has a command's parameters; all need a default.
    """
    *own, chosen = inspect.signature(command, eval_str=True).parameters.values()
    fields = inspect.signature(chosen.annotation, eval_str=True).parameters

    @functools.wraps(command)
    def called(**given: Any) -> None:
        values = {name: given.pop(name) for name in fields}
        command(**given, **{chosen.name: chosen.annotation(**values)})

    signature = inspect.Signature([*own, *fields.values()])
    called.__signature__ = signature  # type: ignore[attr-defined]
    return called
