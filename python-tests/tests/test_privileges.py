# SPDX-License-Identifier: GPL-2.0-only
"""What a lab needs and a process is not permitted is named."""

from __future__ import annotations

import sys

import pytest
from conftest import missing, needs_privileges

from nfsmulti import machine
from nfsmulti.errors import MissingError
from nfsmulti.lab import Lab
from nfsmulti.paths import PYTHON_TESTS
from nfsmulti.processes import run

_ASK = "from nfsmulti import machine; print(machine.missing_privileges())"
_SECONDS = 60.0


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
    lab = Lab()
    with pytest.raises(MissingError, match="not permitted here: no CAP_NET_ADMIN"):
        lab.start()
    assert not lab.folder.exists()
