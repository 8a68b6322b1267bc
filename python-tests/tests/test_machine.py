# SPDX-License-Identifier: GPL-2.0-only
"""What a run's report and the tests' header say of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from nfsmulti.machine import device, versions
from nfsmulti.processes import run


def test_libnfs_is_the_one_that_the_engine_loads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def link(name: str, *words: str) -> None:
        run(["gcc", "-shared", *words, "-o", name], timeout=60, cwd=tmp_path).check()

    link("libnfs.so.99.1", "-Wl,-soname,libnfs.so.99")
    (tmp_path / "libnfs.so.99").symlink_to("libnfs.so.99.1")
    link("libnfsmulti.so", "-Wl,--no-as-needed,-rpath,$ORIGIN", "libnfs.so.99")
    monkeypatch.setenv("NFSMULTI_BUILD_DIR", str(tmp_path))
    assert versions()["libnfs"] == "libnfs.so.99.1"
    (tmp_path / "libnfs.so.99").unlink()
    assert versions()["libnfs"] == "not found"


@pytest.mark.parametrize(
    ("speed", "rate"), [("25000\n", 25 * 10**9), ("-1\n", None), ("0\n", None)]
)
def test_a_device_may_not_know_its_rate(
    speed: str, rate: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bit/s, of Mbit/s; a virtual machine's often tells -1."""
    monkeypatch.setattr(Path, "read_text", lambda _: speed)
    assert device("127.0.0.1") == (("lo", rate) if rate else None)
