# SPDX-License-Identifier: GPL-2.0-only
"""terms.h: what the table of options must have."""

from __future__ import annotations

from engine_c import CData, ffi, terms_rows


def test_each_member_has_a_row(testlib: CData) -> None:
    """A member without one is silently no option."""
    rows = {term.at for term in terms_rows(testlib)}
    members = {name: field.offset for name, field in ffi.typeof("struct terms").fields}
    assert [name for name, at in members.items() if at not in rows] == ["pad", "given"]
