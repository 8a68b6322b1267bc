# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti lab kernel: what a command finds in the guest, what comes back, and that it ends."""

import contextlib
import io
import math
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import or_skip, run_harness
from engine_helpers import eventually, family

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.lab import guest, kernel_security, kernel_server
from nfsmulti.lab import kernels as machine
from nfsmulti.lab.guest import GuestConfig, Mount, run_in_guest
from nfsmulti.lab.kernels import KernelTree, Machine
from nfsmulti.paths import PYTHON_TESTS
from nfsmulti.processes import Completed, Identity, Process

_SECONDS = 600.0  # for a boot, on a slow machine too

pytestmark = pytest.mark.timeout(2 * _SECONDS)
boots = pytest.mark.full


@pytest.fixture(scope="module")
def kernel() -> Iterator[Machine]:
    """Yield the machine; this skips where what a guest needs is missing."""
    with or_skip():
        yield Machine()


def _lab(*words: str, cwd: Path | None = None) -> Completed:
    return run_harness("lab", "kernel", *words, cwd=cwd, timeout=_SECONDS)


# What a command does to reach this machine's loopback.
_ASKS = """{python} -c "import socket
print(socket.create_connection(('10.0.3.2', {port})).recv(9))"
"""


@boots
def test_command_is_at_home_and_changes_nothing(kernel: Machine, tmp_path: Path) -> None:
    """Output, folder, processors, environment, mounts, results and network; a signal's status.

    Nothing else is left.
    """
    (tmp_path / "before").write_text("host's")
    (tmp_path / "results, all").mkdir()
    script = """
        echo out; echo err >&2; pwd; cat before; uname -r; id -u
        nproc; awk '/^MemTotal/ {print $2 < 2 ^ 20}' /proc/meminfo
        echo "$POOL"; cat /sys/class/infiniband/*/ports/1/state
        echo guest >before; echo guest >/etc/nfsmulti-guest; ls /etc/nfsmulti-guest
        echo kept >"$NFSMULTI_LAB_OUT/file"; cat "results, all/file"
        echo "$NFSMULTI_POOLS"; grep " /mnt/" /proc/self/mounts
        {asks}
        sleep 1000 & kill -TERM $$
    """
    options = [
        "--network",
        "--cpus=2",
        "--memory=1024",
        "--results=results, all",
        "--mount=/mnt/a=vers=3,proto=rdma",
        "--mount=/mnt/b=vers=4.2,nconnect=2,address=10.0.2.16",
    ]
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as threads:
        asks = _ASKS.format(python=sys.executable, port=server.getsockname()[1])
        script = script.replace("{asks}", asks)
        ran = threads.submit(_lab, *options, "--", "sh", "-c", script, cwd=tmp_path)
        server.settimeout(_SECONDS)
        client, _ = server.accept()
        with client:
            client.sendall(b"reached")
        done = ran.result()
    assert done.status == 128 + signal.SIGTERM
    # A guest whose clock was found wrong is booted again, and said to be.
    said = [line for line in done.stderr.splitlines() if not line.endswith("booting it again")]
    assert said == ["err", "Terminated"]  # the second is the shell's
    *before, pools, first, second, reached = done.stdout.splitlines()
    pool = "nfs://10.0.2.15/export,nfs://10.0.2.16/export"
    said = ["out", str(tmp_path), f"host's{kernel.tree.release}", "0", "2", "1", pool]
    said += ["4: ACTIVE"]
    assert before == [*said, "/etc/nfsmulti-guest", "kept"]
    assert pools.endswith(" mounts:/mnt/a,/mnt/b")
    assert first.startswith("10.0.2.15:/export /mnt/a nfs ")
    assert ",proto=rdma,port=20049," in first
    assert second.startswith("10.0.2.16:/ /mnt/b nfs4 ")
    assert ",proto=tcp,nconnect=2," in second
    assert reached == "b'reached'"
    assert (tmp_path / "before").read_text() == "host's"
    assert not Path("/etc/nfsmulti-guest").exists()
    assert (tmp_path / "results, all/file").read_text() == "kept\n"


class _Boot:
    """Stands for QEMU and for the clock: each 100 s it writes to one of the guest's files.

    By our clock each file that it writes is ten seconds younger than the guest's beginning. By
    writing to `end` QEMU ends.
    """

    def __init__(self, folder: Path, *writes: tuple[str, str]):
        self._folder, self._writes = folder, iter(writes)
        self._now = 0.0
        (folder / "share").mkdir(parents=True)
        (folder / "share/stdout").touch()
        begun = folder / "share/begun"
        begun.write_text("10.00 0.00\n")
        os.utime(begun, (0, 0))

    def monotonic(self) -> float:
        """Return the time, in seconds."""
        return self._now

    def wait(self, _: float) -> int | None:
        """Let the time pass until the next; give the status where QEMU has one."""
        self._now += 100.0
        assert self._now < 2000.0, "a limit is not kept"
        name, text = next(self._writes, ("machine", ""))
        if name == "end":
            return -signal.SIGKILL
        with (self._folder / name).open("a") as file:
            file.write(text)
        os.utime(self._folder / name, (10, 10))
        return None

    def follow(self, timeout: float = math.inf, silence: float = math.inf) -> int:
        """Follow it; what it prints is passed on to nobody."""
        process: Any = self
        with (self._folder / "share/stdout").open("rb", buffering=0) as output:
            following = guest._Guest(self._folder, process, [(output, io.BytesIO())])
            return following.follow(timeout, silence)


def test_a_guest_may_be_slow_but_neither_silent_nor_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its command never stops writing."""
    ready, talks = ("share/ready", "20.00"), [("console", "words\n")] * 5
    died, writes = [("machine", "oops\n"), ("end", "")], [("share/stdout", "y\n")] * 9
    boot = _Boot(tmp_path / "slow", *talks, ready, ("share/status", "3"))
    monkeypatch.setattr(guest, "time", boot)
    assert boot.follow() == 3
    for written, limits, complaint in (
        ([("console", "last")], {}, "the guest was silent for 180 s; it said:\n  last"),
        ([ready, *died], {}, "the guest ended before the command; it said:\n  oops"),
        ([ready, *writes], {"timeout": 450.0}, "the command did not end within 450 s"),
        ([ready], {"silence": 150.0}, "the guest was silent for 150 s; it said nothing"),
    ):
        boot = _Boot(tmp_path / complaint, *written)
        monkeypatch.setattr(guest, "time", boot)
        with pytest.raises(HarnessError, match=f"^{re.escape(complaint)}$"):
            boot.follow(**limits)


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what the guests run that run_in_guest() would boot."""
    found: list[str] = []
    kernel = SimpleNamespace(described=str, tree=SimpleNamespace(programs="/programs"))
    monkeypatch.setattr(guest, "Machine", lambda: kernel)
    monkeypatch.setattr(guest, "_boot", lambda _, script, *__: found.append(script))
    return found


_WRONG = r"the guest's clock counts 30\.0 s in 10\.0 s", r"\n  try again.*"
_CRASHED = (
    r"the guest did not come up",
    r"; it said:\n  Kernel panic - not syncing: Fatal exception",
)


@pytest.mark.usefixtures("scripts")
@pytest.mark.parametrize(
    ("writes", "what", "more"),
    [
        ([("share/ready", "40.00"), ("share/status", "0")], *_WRONG),
        ([("console", "Kernel panic - not syncing: Fatal exception\n"), ("end", "")], *_CRASHED),
    ],
)
def test_what_goes_wrong_by_chance_is_booted_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    writes: list[tuple[str, str]],
    what: str,
    more: str,
) -> None:
    """Its command does not run, and each further boot is noted in one line."""
    folders = map(str, range(3))
    monkeypatch.setattr(
        guest, "_boot", lambda *_: _Boot(tmp_path / next(folders), *writes).follow()
    )
    with pytest.raises(HarnessError, match=rf"^{what}{more}$"):
        run_in_guest(["true"], GuestConfig())
    assert re.fullmatch(rf"(nfsmulti: {what}: booting it again\n){{2}}", capsys.readouterr().err)
    assert not [*tmp_path.glob("*/share/go")]


def test_security_is_set_up_around_the_command(
    scripts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its programs are; what of these is missing is named before a boot."""
    with monkeypatch.context() as there:
        there.setattr(guest, "find", str)
        run_in_guest(["true"], GuestConfig(sec="krb5p", xprtsec="tls"))
    assert scripts.pop().endswith(" -m nfsmulti.lab.kernel_security krb5p tls true\n")
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    for config, program in (
        (GuestConfig(sec="krb5"), "krb5kdc"),
        (GuestConfig(xprtsec="tls"), "openssl"),
    ):
        with pytest.raises(MissingError, match=f"{program} is not installed"):
            run_in_guest(["true"], config)
    assert not scripts


def test_a_folder_that_goes_while_others_are_removed_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "FOLDER", tmp_path)
    (tmp_path / "guest-killed").mkdir()
    gone = tmp_path / "guest-gone"
    monkeypatch.setattr(Path, "glob", lambda *_: iter([gone, tmp_path / "guest-killed"]))
    with guest._folder() as mine:
        assert {file for file in tmp_path.iterdir() if file.is_dir()} == {mine}
    assert not mine.exists()


def test_a_command_has_mounts_pools_and_its_own_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NFSMULTI_POOLS", "lab:a one:b mounts:/m")
    monkeypatch.setattr(kernel_security, "end_politely", lambda: None)
    monkeypatch.setattr(kernel_security, "exported", contextlib.nullcontext)
    monkeypatch.setattr(kernel_security, "_KEYS", str(tmp_path))
    monkeypatch.setattr(kernel_security, "_MOUNTING", ["touch", str(tmp_path / "mounted")])
    script = f'ls {tmp_path}/mounted; echo "$POOL"; echo "$NFSMULTI_POOLS"; kill -TERM $$'
    monkeypatch.setattr("sys.argv", ["", "sys", "none", "sh", "-c", script])
    with pytest.raises(SystemExit) as ended:
        kernel_security._main()
    assert ended.value.code == 128 + signal.SIGTERM
    one, other = (f"nfs://{host}/?version=4.1&sec=sys&xprtsec=none" for host in guest.ADDRESSES)
    pools = f"lab:{one},{other} one:{one} mounts:/m"
    assert capfd.readouterr().out.splitlines() == [f"{tmp_path}/mounted", f"{one},{other}", pools]
    assert [entry.name for entry in tmp_path.iterdir()] == ["mounted"]
    monkeypatch.setattr("sys.argv", ["", "sys", "none", "true"])
    with pytest.raises(SystemExit, match=r"^0$"):
        kernel_security._main()


@boots
@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_end_the_guest(number: signal.Signals, tmp_path: Path) -> None:
    words = ["lab", "kernel", "--", "sleep", "1000"]
    # A shell's background jobs, and what they start, ignore SIGINT.
    argv = ["env", "--default-signal=INT", sys.executable, "-m", "nfsmulti", *words]
    with (
        (tmp_path / "out").open("wb") as out,
        Process(argv, env={"PYTHONPATH": str(PYTHON_TESTS)}, stdout=out, stderr=out) as process,
    ):
        eventually(lambda: _guests(process.pid), _SECONDS)
        (machine,) = _guests(process.pid)
        (folder,) = re.findall(r"path=([^\0]+)/console", _command_line(machine.pid))
        process.signal(number)
        assert process.wait(_SECONDS) not in (0, None)
        eventually(lambda: not machine.alive(), _SECONDS)
    if number is not signal.SIGKILL:
        assert not Path(folder).exists()


def _command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def _guests(pid: int) -> list[Identity]:
    """Return the QEMUs among what a harness has started, from when they have their arguments."""
    found = []
    for below in family(pid):
        with contextlib.suppress(OSError):  # it has just ended
            comm = Path(f"/proc/{below}/comm").read_text()
            if comm.startswith("qemu") and _command_line(below):
                found.append(Identity.of(below))
    return found


@boots
def test_mount_that_fails_says_why(kernel: Machine) -> None:
    done = _lab("--mount=/mnt/a=vers=3,proto=nonsense", "--", "true")
    assert done.status == 1
    assert done.stderr.startswith("nfsmulti: the guest did not come up; it said:\n")
    assert "'nonsense'" in done.stderr
    assert kernel.tree.release not in done.stderr


_FETCH = """\
#!/bin/sh
printf '%s\\n' "$@" >"$0.said"
while [ $# -gt 2 ]; do shift; done # to the folder
{fetch}
"""


def test_a_tree_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is fetched against the user's will, nor kept of a download that failed.

    It goes by the way that this machine's apt goes, and may be root's.
    """
    tree, fetching = tmp_path / "lab/debian13", tmp_path / "mmdebstrap"
    monkeypatch.setattr(machine, "FOLDER", tree.parent)
    monkeypatch.setenv("NFSMULTI_NO_INSTALL", "1")
    with pytest.raises(MissingError, match="--no-install keeps apt from fetching it"):
        KernelTree.get()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("NFSMULTI_NO_INSTALL", "0")
    proxy = 'Acquire::http::Proxy "http://127.0.0.1:9";'
    (tmp_path / "apt.conf").write_text(proxy)
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    # A lab has no way to Debian's packages.
    remedy = r"outside of it, by \S*nfsmulti lab kernel -- true$"
    begun = 'mkdir -p "$1/boot"; echo rubbish >"$1/boot/vmlinuz-6.12"'
    for fetch in ("exit 100", begun, begun):  # the last finds what the one before has left
        fetching.write_text(_FETCH.format(fetch=fetch))
        fetching.chmod(0o755)
        with pytest.raises(MissingError, match=rf"(?s)kernel could not be fetched: .*{remedy}"):
            KernelTree.get()
        assert not tree.exists()
        said = (tmp_path / "mmdebstrap.said").read_text().splitlines()
        assert {"--skip=check/chrootless", f"--aptopt={proxy}"} <= {*said}
        assert "nfsmulti: mmdebstrap fetches Debian 13's kernel, for the" in capsys.readouterr().err
    tree.mkdir()
    with pytest.raises(HarnessError, match=r"debian13 is broken \(its modules\)\n  delete"):
        KernelTree.get()
    (tree / "lib/modules/6.12").mkdir(parents=True)
    with pytest.raises(HarnessError, match=r"debian13 is broken \(.*not found.*\)\n  delete"):
        KernelTree.get().modules_for(["9p"])


def test_mounts_are_what_the_server_has() -> None:
    for text, options, source in (
        ("/m=vers=3,proto=tcp", "vers=3,proto=tcp,nolock", "10.0.2.15:/export"),
        ("/m=v3,rdma,lock", "v3,rdma,lock,port=20049", "10.0.2.15:/export"),
        ("/m=proto=rdma,port=1", "proto=rdma,port=1", "10.0.2.15:/"),
        ("/m=proto=rdma6,address=fd02::15", "proto=rdma6,port=20049", "[fd02::15]:/"),
    ):
        found = Mount.parse(text).command
        assert found == ["mount", "-t", "nfs", "-o", options, source, "/m"]
    clear = Mount.parse("/m=sec=sys,xprtsec=none,address=fd02::15")
    kerberos: dict[str, Any] = {"sec": "krb5"}
    tls: dict[str, Any] = {"xprtsec": "tls"}
    for security in ({}, kerberos, tls):
        assert GuestConfig(mounts=(clear,), **security).mounts == (clear,)
    for text, security, complaint in (
        ("m=vers=3", {}, "--mount=m=vers=3: write it like /mnt/a=vers=3,proto=rdma"),
        ("/m", {}, "--mount=/m: write it like /mnt/a=vers=3,proto=rdma"),
        ("/m=address=10.9.9.9,v3", {}, "--mount=.*: the server's addresses are 10.0.2.15, .*"),
        ("/m=vers=4.1,sec=krb5p", tls, "--mount=/m: sec=krb5p needs --sec"),
        ("/m=xprtsec=mtls", kerberos, "--mount=/m: xprtsec=mtls needs --xprtsec"),
        ("/m=sec=krb5,address=fd02::15", kerberos, ".*sec=krb5 has no key for fd02::15"),
    ):
        with pytest.raises(HarnessError, match=f"^{complaint}$"):
            GuestConfig(mounts=(Mount.parse(text),), **security)


def test_the_servers_programs_are_told_where_they_or_a_mount_do_not_come_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What they say is not the command's. A mount's own words stand beside them."""

    def denied(argv: Sequence[str], *, timeout: float) -> Completed:
        return Completed([*argv], 32, "", "mount.nfs: access denied\n")

    def serves(_: int) -> bool:
        return bool((tmp_path / "sh.log").read_text())

    monkeypatch.setattr(kernel_server, "run", denied)
    with kernel_server.Program(["sh", "-c", "echo a >&2; exec sleep 1000"], serves, tmp_path) as it:
        monkeypatch.setattr(kernel_server, "_SECONDS", 0.0)
        with pytest.raises(HarnessError) as failed:
            it.mount(tmp_path / "mount", "vers=3", "sec=krb5")
        monkeypatch.undo()
    said = "mount said:\n  mount.nfs: access denied; sh said:\n  a"
    assert str(failed.value) == f"the guest's kernel does not mount with sec=krb5; {said}"
    with (
        pytest.raises(HarnessError, match=r"^the guest's sh did not start; it said:\n  b$"),
        kernel_server.Program(["sh", "-c", "echo b >&2"], lambda _: False, tmp_path),
    ):
        pass
    assert capfd.readouterr() == ("", "")
