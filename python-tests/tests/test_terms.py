# SPDX-License-Identifier: GPL-2.0-only
"""terms.h: what the table of options must have."""

from __future__ import annotations

from engine_c import CData, ffi


def test_each_member_has_a_row(testlib: CData) -> None:
    """A member without one is silently no option."""
    rows = set()
    number = 0
    while testlib.terms_table[number].word:
        rows.add(testlib.terms_table[number].at)
        number += 1
    members = {name: field.offset for name, field in ffi.typeof("struct terms").fields}
    assert [name for name, at in members.items() if at not in rows] == ["pad"]
