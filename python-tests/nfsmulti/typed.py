# SPDX-License-Identifier: GPL-2.0-only
"""Files of others: read up to a limit, and as the dataclasses that their JSON was made of."""

import contextlib
import dataclasses
import functools
import json
import lzma
import math
import os
import stat
import types
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from nfsmulti.errors import HarnessError
from nfsmulti.paths import shown
from nfsmulti.terminal import visible

_Kind = TypeVar("_Kind")
_MOST_MIB = 128  # of a file, unpacked: forty times those of the largest reference run
_DEEPEST = 16  # of objects in objects whose members nobody knows
_TOO_DEEP = "too many objects or lists in each other"
_DIGITS = 20
_WORDS = {type(None): "null", bool: "true or false", int: "an integer", float: "a number"}
_WORDS |= {str: "a text", list: "a list", tuple: "a list", dict: "an object"}
_FIGURES: dict[Any, set[type]] = {int: {int}, float: {int, float}}
_hints = functools.cache(get_type_hints)


def read_text(file: Path, errors: str = "strict") -> str:
    """Return the text of a file, unpacked where its name ends in .xz.

    Raises FileNotFoundError where there is none, and HarnessError where it is no regular file,
    cannot be read, is no UTF-8 or holds more than any file of ours.
    """
    most = _MOST_MIB << 20
    try:  # a FIFO is opened without waiting for who writes to it
        with open(file, "rb", opener=lambda *how: os.open(how[0], how[1] | os.O_NONBLOCK)) as plain:
            if not stat.S_ISREG(os.fstat(plain.fileno()).st_mode):
                raise HarnessError(f"{shown(file)} is no regular file")
            if file.suffix == ".xz":
                with lzma.open(plain) as packed:
                    data = packed.read(most + 1)
            else:
                data = plain.read(most + 1)
        if len(data) > most:
            raise HarnessError(f"{shown(file)} holds more than {_MOST_MIB} MiB: no file of ours")
        return data.decode(errors=errors)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise HarnessError(f"{shown(file)}: {error.strerror or error}") from None
    except (EOFError, MemoryError, ValueError, lzma.LZMAError) as error:
        raise HarnessError(f"{shown(file)}: {error or 'needs too much memory'}") from None


def load(file: Path) -> Any:
    """Return the JSON in a file; raises as read_text() and parse() do."""
    return parse(read_text(file), f"{shown(file)}: ")


def parse(text: str, where: str) -> Any:
    """Return what is JSON, without NaN and the like. Raises HarnessError, which `where` begins."""
    try:
        return json.loads(text, parse_constant=_number, parse_float=_number, parse_int=_integer)
    except RecursionError:
        raise HarnessError(f"{where}{_TOO_DEEP}") from None
    except ValueError as error:
        raise HarnessError(f"{where}no JSON: {error}") from None


def _number(word: str) -> float:
    if not math.isfinite(value := float(word)):
        raise ValueError(f"{word[:_DIGITS]} is no number that can be counted with")
    return value


def _integer(word: str) -> int:
    if len(word) > _DIGITS:
        raise ValueError(f"{word[:_DIGITS]}… is too large a number")
    return int(word)


def load_as(kind: type[_Kind], file: Path) -> _Kind:
    """Return the JSON in a file as read() does; raises as load() does."""
    return read(kind, load(file), f"{shown(file)}: ")


def read(kind: type[_Kind], data: Any, where: str = "") -> _Kind:
    """Return JSON as a `kind`, of whose dataclasses unknown members are dropped.

    Numbers that are all that may stand in a place count something, and are not below 0. Raises
    HarnessError, which begins with `where` and the place.
    """
    return cast(_Kind, _read(kind, data, where, _DEEPEST))


def _read(kind: Any, data: Any, where: str, deep: int) -> Any:
    of, inner = get_origin(kind), get_args(kind)
    if of in (Union, types.UnionType):  # of plain values, or of one kind and None
        named = next(one for one in inner if one is not type(None))
        return _read(type(data) if type(data) in inner else named, data, where, deep)
    if dataclasses.is_dataclass(kind) and isinstance(data, dict):
        return _read_object(kind, data, where, deep)
    if not deep:
        raise _wrong(where, _TOO_DEEP)
    if kind is Any:
        kind = of = type(data)
        inner = (Any, Any)
    if of is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        try:
            return kind(data) if of is not Literal else inner[inner.index(data)]
        except ValueError:
            raise _wrong(where, f"{data!r:.40} is unknown") from None
    if of in (list, dict) and isinstance(data, of) and inner[-1] in _FIGURES:
        values = data.values() if isinstance(data, dict) else data
        if {*map(type, values)} <= _FIGURES[inner[-1]] and min(values, default=0) >= 0:
            return data  # by far the most: each alone would take ten times as long
    if of in (list, tuple, Sequence) and isinstance(data, list):
        found = [_read(inner[0], one, f"{where}[{at}]", deep - 1) for at, one in enumerate(data)]
        return tuple(found) if of is tuple else found
    if of is dict and isinstance(data, dict):
        return {
            name: _read(inner[1], one, f"{where}.{visible(name, line=True):.40}", deep - 1)
            for name, one in data.items()
        }
    if type(data) is kind or type(data) in _FIGURES.get(kind, ()):
        return data
    raise _wrong(where, f"{data!r:.40} is not {_WORDS.get(of or kind, 'an object')}")


def _read_object(kind: Any, data: Any, where: str, deep: int) -> Any:
    given, lacking = {}, []
    for one in dataclasses.fields(kind):
        if one.name in data:
            value = _read(_hints(kind)[one.name], data[one.name], f"{where}.{one.name}", deep)
            if type(value) in _FIGURES and value < 0:
                raise _wrong(f"{where}.{one.name}", f"{value} is below 0")
            given[one.name] = value
        elif one.default is one.default_factory is dataclasses.MISSING:
            lacking.append(one.name)
    if lacking:
        raise _wrong(where, f"it lacks {', '.join(lacking)}")
    return kind(**given)


def _wrong(where: str, what: str) -> HarnessError:
    return HarnessError(f"{where.removesuffix(': ')}: {what}")


@contextlib.contextmanager
def understood(folder: Path) -> Iterator[None]:
    """Raise HarnessError where what is done with the figures of a run fails: they are of none."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise HarnessError(f"{shown(folder)}: its figures are not of a run: {error!r}") from error
