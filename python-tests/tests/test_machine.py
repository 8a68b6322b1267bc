# SPDX-License-Identifier: GPL-2.0-only
"""What is told of this machine, and what it does not permit that a lab needs."""

import sys
from pathlib import Path

import pytest
from conftest import missing, needs_privileges

from nfsmulti import machine
from nfsmulti.errors import MissingError
from nfsmulti.lab import Lab, LabConfig
from nfsmulti.machine import device, versions
from nfsmulti.paths import PYTHON_TESTS
from nfsmulti.processes import run

_ASK = "from nfsmulti import machine; print(machine.missing_privileges())"
_SECONDS = 60.0


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


# --- what a lab needs ---


def _missing(*enter: str) -> str:
    needs_privileges()
    argv = [*enter, sys.executable, "-c", _ASK]
    done = run(argv, timeout=_SECONDS, env={"PYTHONPATH": str(PYTHON_TESTS)})
    return done.check().stdout.strip()


def test_capabilities_that_are_missing() -> None:
    for taken, named in (
        ("-sys_admin", "no CAP_SYS_ADMIN"),
        ("-net_admin", "no CAP_NET_ADMIN"),
        ("-sys_admin,-net_admin", "no CAP_SYS_ADMIN and CAP_NET_ADMIN"),
    ):
        assert _missing("setpriv", f"--bounding-set={taken}", "--inh-caps=-all") == named


def test_another_user() -> None:
    needs_privileges()
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    script = machine.PRIVILEGES.read_text()  # which that user may be kept from reading
    assert run([*user, "sh"], timeout=_SECONDS, stdin=script).check().stdout == "not root\n"


def test_root_of_a_user_namespace() -> None:
    if run(["unshare", "-r", "true"], timeout=_SECONDS).status:
        missing(MissingError("no user namespaces"))
    assert _missing("unshare", "-r") == "root of a user namespace alone"


def test_a_lab_says_what_is_missing_before_it_starts_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "missing_privileges", lambda: "no CAP_NET_ADMIN")
    lab = Lab(LabConfig(1))
    with pytest.raises(MissingError, match="not permitted here: no CAP_NET_ADMIN"):
        lab.start()
    assert not lab.folder.exists()
