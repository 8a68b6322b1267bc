# SPDX-License-Identifier: GPL-2.0-only
"""The JSON schema of summary.json, as its classes have it: docs/summary.schema.json.

A later harness may add fields, so that unknown ones are allowed.
"""

import dataclasses
import json
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from nfsmulti.summary import SCHEMA, VERSION, Summary

_PLAIN = {
    str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null",
}  # fmt: skip


def text() -> str:
    """Return it as the file has it."""
    classes: dict[str, Any] = {}
    _of_class(Summary, classes)
    made = classes.pop("Summary")
    head = {"schema": {"const": SCHEMA}, "version": {"const": VERSION}}
    found = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        "properties": {**head, **made["properties"]},
        "required": [*head, *made["required"]],
        "$defs": classes,
    }
    return json.dumps(found, indent="\t") + "\n"


def _of_class(kind: type, classes: dict[str, Any]) -> None:
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind)
    missing = dataclasses.MISSING
    classes[kind.__name__] = {
        "description": " ".join((kind.__doc__ or "").split()),
        "type": "object",
        "properties": {one.name: _of_type(hints[one.name], classes) for one in fields},
        "required": [
            one.name for one in fields if one.default is missing and one.default_factory is missing
        ],
    }


def _of_type(kind: Any, classes: dict[str, Any]) -> dict[str, Any]:
    of, inner = get_origin(kind), get_args(kind)
    if of in (Union, types.UnionType):
        return {"anyOf": [_of_type(one, classes) for one in inner]}
    if of is Literal:
        return {"enum": list(inner)}
    if of is list:
        return {"type": "array", "items": _of_type(inner[0], classes)}
    if of is dict:
        return {"type": "object", "additionalProperties": _of_type(inner[1], classes)}
    if kind is Any:
        return {}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    _of_class(kind, classes)
    return {"$ref": f"#/$defs/{kind.__name__}"}
