# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti lab kernel: what a command finds in the guest, what comes back, and that it ends."""

from __future__ import annotations

import io
import signal
import sys
from pathlib import Path

import pytest
from conftest import missing, run_harness
from engine_helpers import eventually, family

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.lab.kernel import GuestConfig, Mount, guest, run_in_guest, tree
from nfsmulti.lab.kernel.tree import KernelTree
from nfsmulti.paths import PYTHON_TESTS
from nfsmulti.processes import Completed, Identity, Process

_SECONDS = 240.0

pytestmark = pytest.mark.timeout(2 * _SECONDS)


@pytest.fixture(scope="module")
def kernel() -> KernelTree:
    """Give the kernel; this skips where what a guest needs is missing."""
    try:
        return guest.prepare()
    except MissingError as error:
        missing(error)


def _lab(*words: str, cwd: Path | None = None) -> Completed:
    return run_harness("lab", "kernel", *words, cwd=cwd, timeout=_SECONDS)


def test_command_is_at_home_and_changes_nothing(kernel: KernelTree, tmp_path: Path) -> None:
    """Output, status, folder, environment and results; nothing else comes back."""
    (tmp_path / "before").write_text("host's")
    (tmp_path / "results, all").mkdir()
    script = """
        echo out; echo err >&2; pwd; cat before; uname -r; id -u
        echo "$POOL"; cat /sys/class/infiniband/*/ports/1/state
        echo guest >before; echo guest >/etc/nfsmulti-guest; ls /etc/nfsmulti-guest
        echo kept >"$NFSMULTI_LAB_OUT/file"; cat "results, all/file"
        sleep 1000 & exit 7
    """
    done = _lab("--results", "results, all", "--", "sh", "-c", script, cwd=tmp_path)
    assert (done.status, done.stderr) == (7, "err\n")
    pool = "nfs://10.0.2.15/export,nfs://10.0.2.16/export"
    said = ["out", str(tmp_path), f"host's{kernel.release}", "0", pool, "4: ACTIVE"]
    assert done.stdout.splitlines() == [*said, "/etc/nfsmulti-guest", "kept"]
    assert (tmp_path / "before").read_text() == "host's"
    assert not Path("/etc/nfsmulti-guest").exists()
    assert (tmp_path / "results, all/file").read_text() == "kept\n"


@pytest.mark.usefixtures("kernel")
def test_mounts_and_a_signals_status() -> None:
    mounts = [
        "--mount=/mnt/a=vers=3,proto=rdma",
        "--mount=/mnt/b=vers=4.2,nconnect=2,address=10.0.2.16",
    ]
    script = 'echo "$NFSMULTI_POOLS"; grep " /mnt/" /proc/self/mounts; kill -TERM $$'
    done = _lab(*mounts, "--", "sh", "-c", script)
    assert done.status == 128 + signal.SIGTERM
    pools, first, second = done.stdout.splitlines()
    assert pools.endswith(" mounts:/mnt/a,/mnt/b")
    assert first.startswith("10.0.2.15:/export /mnt/a nfs ")
    assert ",proto=rdma,port=20049," in first
    assert second.startswith("10.0.2.16:/ /mnt/b nfs4 ")
    assert ",proto=tcp,nconnect=2," in second


def test_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(MissingError, match=r"(?s)qemu-system-x86_64 is not .* qemu-system-x86$"):
        guest.prepare()


@pytest.mark.usefixtures("kernel")
def test_timeout() -> None:
    """Also where the command never stops writing."""
    done = _lab("--timeout=0.5", "--", "yes")
    assert done.status == 124
    assert done.stdout.startswith("y\ny\n")
    assert done.stderr == "nfsmulti: the command did not end within 0.5 s\n"


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    ("number", "begun"),
    [(signal.SIGINT, False), (signal.SIGTERM, True), (signal.SIGKILL, False)],
)
def test_signals_end_the_guest(number: signal.Signals, begun: bool, tmp_path: Path) -> None:
    """While it boots, and when its command has `begun`."""
    words = ["lab", "kernel", "--", "sh", "-c", "echo begun; sleep 1000"]
    # A shell's background jobs, and what they start, ignore SIGINT.
    argv = ["env", "--default-signal=INT", sys.executable, "-m", "nfsmulti", *words]
    before = set(tree.FOLDER.glob("guest-*"))
    output = tmp_path / "out"
    with (
        output.open("wb") as out,
        Process(argv, env={"PYTHONPATH": str(PYTHON_TESTS)}, stdout=out, stderr=out) as process,
    ):
        eventually(lambda: _guests(process.pid), 30)
        eventually(lambda: not begun or output.read_text() == "begun\n", _SECONDS)
        (machine,) = _guests(process.pid)
        process.signal(number)
        assert process.wait(10) not in (0, None)
        eventually(lambda: not machine.alive())
    if number is not signal.SIGKILL:
        assert set(tree.FOLDER.glob("guest-*")) <= before


def _guests(pid: int) -> list[Identity]:
    """Give the QEMUs among what a harness has started."""
    names = {below: Path(f"/proc/{below}/comm").read_text() for below in family(pid)}
    return [Identity.of(below) for below, name in names.items() if name.startswith("qemu")]


def test_mount_that_fails_says_why(kernel: KernelTree) -> None:
    done = _lab("--mount=/mnt/a=vers=3,proto=nonsense", "--", "true")
    assert done.status == 1
    assert done.stderr.startswith("nfsmulti: the guest did not come up; it said:\n")
    assert "'nonsense'" in done.stderr
    assert kernel.release not in done.stderr


def _run_here() -> int:
    return run_in_guest(["true"], GuestConfig(), stdout=io.BytesIO(), stderr=io.BytesIO())


def test_broken_tree(kernel: KernelTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linux = tmp_path / "linux"
    monkeypatch.setattr(tree, "_LINUX", linux)
    (linux / "boot").mkdir(parents=True)
    with pytest.raises(HarnessError, match=r"linux is broken \(it has no kernel\)\n  delete"):
        _run_here()
    image = linux / "boot" / f"vmlinuz-{kernel.release}"
    image.write_bytes(b"no kernel")
    with pytest.raises(HarnessError, match=r"linux is broken \(.*modules.*\)\n  delete"):
        _run_here()
    (linux / "lib").symlink_to(kernel.folder / "lib")
    with pytest.raises(HarnessError, match=r"did not come up; it said:\n  qemu"):
        _run_here()


def test_no_install_fetches_no_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tree, "FOLDER", tmp_path / "lab")
    monkeypatch.setattr(tree, "_LINUX", tmp_path / "lab/linux")
    monkeypatch.setenv("NFSMULTI_NO_INSTALL", "1")
    with pytest.raises(MissingError, match="--no-install keeps apt from fetching it"):
        KernelTree.get()
    assert not list(tmp_path.glob("lab/linux*"))


@pytest.mark.parametrize(
    "download",
    ["echo E: no network >&2; exit 100", "echo rubbish >linux-image_1_amd64.deb", "exit 0"],
)
def test_interrupted_download_leaves_no_tree(
    download: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, script in {
        "apt-get": f'[ "$1" = update ] || {{ {download}; }}',
        "apt-cache": "echo '  Depends: linux-image-1'",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("NFSMULTI_NO_INSTALL", "0")
    monkeypatch.setattr(tree, "FOLDER", tmp_path / "lab")
    monkeypatch.setattr(tree, "_LINUX", tmp_path / "lab/linux")
    for _ in range(2):
        with pytest.raises(MissingError, match="kernel could not be fetched"):
            KernelTree.get()
        assert not (tmp_path / "lab/linux").exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"cpus": "0"}, "--cpus=0: "),
        ({"memory": "64"}, "--memory=64: "),
        ({"timeout": "0"}, "--timeout=0: "),
        ({"mount": "mnt=vers=3"}, "--mount=mnt=vers=3: write it like "),
        ({"mount": "/mnt/a"}, "--mount=/mnt/a: write it like "),
        ({"mount": "/mnt/a=vers=3,address=10.9.9.9"}, "the server's addresses are 10.0.2.15, "),
        ({"results": __file__}, "--results="),
    ],
)
def test_bad_options(options: dict[str, str], complaint: str) -> None:
    done = _lab(*(f"--{key}={value}" for key, value in options.items()), "--", "true")
    assert done.status == 1
    assert done.stderr.startswith("nfsmulti: ")
    assert complaint in done.stderr


@pytest.mark.parametrize(
    ("text", "options", "source"),
    [
        ("/m=vers=3,proto=tcp", "vers=3,proto=tcp,nolock", "10.0.2.15:/export"),
        ("/m=v3,rdma,lock", "v3,rdma,lock,port=20049", "10.0.2.15:/export"),
        ("/m=proto=rdma,port=1", "proto=rdma,port=1", "10.0.2.15:/"),
        (
            "/m=vers=4.1,proto=rdma6,address=fd02::15",
            "vers=4.1,proto=rdma6,port=20049",
            "[fd02::15]:/",
        ),
    ],
)
def test_mount_commands(text: str, options: str, source: str) -> None:
    assert Mount.parse(text).command == ["mount", "-t", "nfs", "-o", options, source, "/m"]
