# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti lab kernel: what a command finds in the guest, what comes back, and that it ends."""

import contextlib
import io
import itertools
import math
import os
import re
import shutil
import signal
import socket
import sys
import time
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
from nfsmulti.processes import Completed, Identity, Process, run

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
    """Output, folder, environment, mounts, results and the network; a signal's status.

    Nothing else is left.
    """
    (tmp_path / "before").write_text("host's")
    (tmp_path / "results, all").mkdir()
    script = """
        echo out; echo err >&2; pwd; cat before; uname -r; id -u
        echo "$POOL"; cat /sys/class/infiniband/*/ports/1/state
        echo guest >before; echo guest >/etc/nfsmulti-guest; ls /etc/nfsmulti-guest
        echo kept >"$NFSMULTI_LAB_OUT/file"; cat "results, all/file"
        echo "$NFSMULTI_POOLS"; grep " /mnt/" /proc/self/mounts
        {asks}
        sleep 1000 & kill -TERM $$
    """
    options = [
        "--network",
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
    said = ["out", str(tmp_path), f"host's{kernel.tree.release}", "0", pool, "4: ACTIVE"]
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


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(MissingError, match="busybox is not installed"):
        Machine()


def _share(folder: Path, ready: str = "20.00") -> Path:
    """Make a guest's share, in which it has begun ten seconds ago, by its clock and by ours.

    `soon` becomes the file that says when it was ready, by its clock: that is ten seconds later.
    """
    share = folder / "share"
    share.mkdir(parents=True)
    now = time.time()
    for name, uptime, ours in (("begun", "10.00", now - 10), ("soon", ready, now)):
        (share / name).write_text(f"{uptime} 0.00\n")
        os.utime(share / name, (ours, ours))
    return share


def _follow(folder: Path, script: str, **limits: float) -> int:
    """Follow a shell in the place of QEMU; its folder holds what a guest's does."""
    share = _share(folder)
    with (
        (share / "stdout").open("x+b", buffering=0) as output,
        (folder / "machine").open("wb") as said,
        Process(["sh", "-c", f"cd {folder}; {script}"], stdout=said, stderr=said) as process,
    ):
        config = GuestConfig(**limits)  # type: ignore[arg-type]
        machine = guest._Guest(folder, process, [(output, io.BytesIO())])
        return machine.follow(config.timeout, config.silence)


class _Boot:
    """Stands for QEMU and for the clock: in each 100 s it writes to one of the guest's files."""

    def __init__(self, folder: Path, *writes: tuple[str, str]):
        self._folder, self._writes = folder, iter(writes)
        self._now = 0.0
        _share(folder)
        (folder / "machine").touch()

    def monotonic(self) -> float:
        """Return the time, in seconds."""
        return self._now

    def wait(self, _: float) -> None:
        """Let the time pass until the next."""
        self._now += 100.0
        name, text = next(self._writes, ("machine", ""))
        with (self._folder / name).open("a") as file:
            file.write(text)


def test_a_boot_may_take_long_but_not_be_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def follow(name: str, *writes: tuple[str, str]) -> int:
        boot: Any = _Boot(tmp_path / name, *writes)
        monkeypatch.setattr(guest, "time", boot)
        return guest._Guest(tmp_path / name, boot, []).follow(math.inf, math.inf)

    talks = [("console", "words\n")] * 5
    assert follow("talks", *talks, ("share/ready", "20.00"), ("share/status", "3")) == 3
    with pytest.raises(HarnessError, match=r"was silent for 180 s; it said:\n  last words$"):
        follow("hangs", ("console", "last words"))


def test_a_guest_that_dies_takes_its_command_along(tmp_path: Path) -> None:
    complaint = r"^the guest ended before the command; it said:\n  oops$"
    with pytest.raises(HarnessError, match=complaint):
        _follow(tmp_path, "mv share/soon share/ready; echo oops; kill -KILL $$")


def test_limits_of_a_command(tmp_path: Path) -> None:
    """Also where it never stops writing."""
    ready = "mv share/soon share/ready"
    writes = "while :; do echo y; done >>share/stdout"
    for limit, script, complaint in (
        ("timeout", writes, "the command did not end within 0.5 s"),
        ("silence", "sleep 100", "the guest was silent for 0.5 s; it said nothing"),
    ):
        with pytest.raises(HarnessError, match=f"^{re.escape(complaint)}$"):
            _follow(tmp_path / limit, f"{ready}; {script}", **{limit: 0.5})


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


def test_a_wrong_clock_has_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each further boot is noted in one line."""
    share = _share(tmp_path, ready="40.00")
    (share / "soon").rename(share / "ready")

    def boot(*_: Any) -> int:
        guest._hold_clocks(share / "begun", share / "ready")
        return 0

    kernel = SimpleNamespace(described=str, tree=SimpleNamespace(programs="/programs"))
    monkeypatch.setattr(guest, "Machine", lambda: kernel)
    monkeypatch.setattr(guest, "_boot", boot)
    what = r"the guest's clock counts 30\.0 s in 10\.0 s"
    with pytest.raises(HarnessError, match=rf"^{what}\n  try again"):
        run_in_guest(["true"], GuestConfig())
    assert re.fullmatch(rf"(nfsmulti: {what}: booting it again\n){{2}}", capsys.readouterr().err)


def test_security_is_set_up_around_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its programs are; what of these is missing is named before a boot."""
    scripts: list[str] = []
    kernel = SimpleNamespace(described=str, tree=SimpleNamespace(programs="/programs"))
    monkeypatch.setattr(guest, "Machine", lambda: kernel)
    monkeypatch.setattr(guest, "_boot", lambda _, script, *__: scripts.append(script))
    monkeypatch.setattr(guest, "find", str)
    run_in_guest(["true"], GuestConfig(sec="krb5p", xprtsec="tls"))
    assert scripts[0].endswith(" -m nfsmulti.lab.kernel_security krb5p tls true\n")
    monkeypatch.setenv("NFSMULTI_LAB_GUEST", "of a test")
    assert guest.described() == "of a test"
    monkeypatch.undo()
    monkeypatch.setattr(guest, "Machine", lambda: kernel)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    for config, program in (
        (GuestConfig(sec="krb5"), "krb5kdc"),
        (GuestConfig(xprtsec="tls"), "openssl"),
    ):
        with pytest.raises(MissingError, match=f"{program} is not installed"):
            run_in_guest(["true"], config)


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
def test_a_wrong_clock_is_booted_again(
    kernel: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a kernel that has measured the processor's frequency wrongly takes for a second.

    Its command has not run. The next boot, which would be as any other, is none.
    """
    del kernel
    wrong = machine._KERNEL_WORDS + " tsc_early_khz=400000"
    monkeypatch.setattr("nfsmulti.lab.kernels._KERNEL_WORDS", wrong)
    boots = iter([guest._boot, lambda *_: 7])
    monkeypatch.setattr(guest, "_boot", lambda *args: next(boots)(*args))
    said = io.BytesIO()
    assert run_in_guest(["echo", "ran"], GuestConfig(timeout=_SECONDS), stdout=said) == 7
    assert said.getvalue() == b""
    note = r"nfsmulti: the guest's clock counts \S+ s in \S+ s: booting it again\n"
    assert re.fullmatch(note, capsys.readouterr().err)


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


def _run_here() -> int:
    return run_in_guest(["true"], GuestConfig(), stdout=io.BytesIO(), stderr=io.BytesIO())


@boots
def test_broken_tree(kernel: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linux, modules = tmp_path / "debian13", kernel.tree.modules
    monkeypatch.setattr(machine, "FOLDER", tmp_path)
    linux.mkdir()
    with pytest.raises(HarnessError, match=r"debian13 is broken \(its modules\)\n  delete"):
        _run_here()
    (linux / "lib/modules" / modules.name).mkdir(parents=True)
    with pytest.raises(HarnessError, match=r"debian13 is broken \(.* not found .*\)\n  delete"):
        _run_here()
    shutil.rmtree(linux / "lib")
    (linux / "lib").symlink_to(modules.parents[1])
    with pytest.raises(HarnessError, match=r"did not come up; it said:\n  qemu"):
        _run_here()


def test_no_install_fetches_no_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "FOLDER", tmp_path / "lab")
    monkeypatch.setenv("NFSMULTI_NO_INSTALL", "1")
    with pytest.raises(MissingError, match="--no-install keeps apt from fetching it"):
        KernelTree.get()
    assert not list(tmp_path.glob("lab/debian13*"))


_APT = """\
#!/bin/sh
case "$*" in
indextargets*) echo file:///mirror ;;
*update) ;;
*) {download} ;;
esac
"""


@pytest.mark.parametrize(
    "download",
    ["echo E: no network >&2; exit 100", "echo rubbish >linux-image_1_amd64.deb", "exit 0"],
)
def test_interrupted_download_leaves_no_tree(
    download: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text(_APT.format(download=download))
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("NFSMULTI_NO_INSTALL", "0")
    monkeypatch.setattr(machine, "FOLDER", tmp_path / "lab")
    for _ in range(2):
        # A lab has no way to Debian's packages.
        remedy = r"outside of it, by \S*nfsmulti lab kernel -- true$"
        with pytest.raises(MissingError, match=rf"(?s)kernel could not be fetched: .*{remedy}"):
            KernelTree.get()
        assert not (tmp_path / "lab/debian13").exists()
        assert "nfsmulti: apt-get fetches Debian 13's kernel, for the" in capsys.readouterr().err


def test_a_kernel_has_an_index_of_modules_and_boots_uncompressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/vmlinuz-6.12").touch()
    done: list[Sequence[str | Path]] = []

    def ran(argv: list[str], **_: Any) -> Completed:
        done.append(argv)
        return Completed(argv, 0, "", "")

    monkeypatch.setattr(machine, "run", ran)
    monkeypatch.setattr(machine, "_uncompress", lambda *files: done.append(files))
    machine._complete(tmp_path)
    image, zstd = tmp_path / "boot/vmlinuz-6.12", tmp_path / "programs/zstd"
    assert done == [["depmod", "-b", str(tmp_path), "6.12"], (image, zstd)]
    assert zstd.exists()


def test_a_kernel_that_is_packed_otherwise(tmp_path: Path) -> None:
    """That is no trouble of the network's."""
    (image := tmp_path / "vmlinuz-7").write_bytes(bytes(1024))
    said = r"^vmlinuz-7 is not packed by zstd, as the lab takes it$"
    with pytest.raises(HarnessError, match=said):
        machine._uncompress(image, tmp_path / "zstd")


def test_what_the_servers_programs_say_is_not_the_commands(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is told where one does not start."""

    def serves(_: int) -> bool:
        return bool((tmp_path / "sh.log").read_text())

    with kernel_server.Program(["sh", "-c", "echo a >&2; exec sleep 1000"], serves, tmp_path):
        pass
    said = "^the guest's sh did not start; it said:\n  b$"
    with (
        pytest.raises(HarnessError, match=said),
        kernel_server.Program(["sh", "-c", "echo b >&2"], lambda _: False, tmp_path),
    ):
        pass
    assert capfd.readouterr() == ("", "")


def test_a_mount_that_does_not_come_up_is_told_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside those of the program that helps it."""

    def denied(argv: Sequence[str], *, timeout: float) -> Completed:
        return Completed([*argv], 32, "", "mount.nfs: access denied\n")

    monkeypatch.setattr(kernel_server, "run", denied)
    monkeypatch.setattr(kernel_server, "_SECONDS", 0.0)
    with (
        kernel_server.Program(["sh", "-c", "exec sleep 1000"], lambda _: True, tmp_path) as helper,
        pytest.raises(HarnessError) as failed,
    ):
        helper.mount(tmp_path / "mount", "vers=3", "sec=krb5")
    said = "mount said:\n  mount.nfs: access denied; sh said nothing"
    assert str(failed.value) == f"the guest's kernel does not mount with sec=krb5; {said}"


def test_bad_mounts() -> None:
    for text, complaint in (
        ("mnt=vers=3", "--mount=mnt=vers=3: write it like "),
        ("/mnt/a", "--mount=/mnt/a: write it like "),
        ("/mnt/a=vers=3,address=10.9.9.9", "the server's addresses are 10.0.2.15, "),
    ):
        with pytest.raises(HarnessError, match=complaint):
            Mount.parse(text)


@pytest.mark.parametrize(
    ("text", "options", "complaint"),
    [
        ("vers=4.1,sec=krb5p", {"xprtsec": "tls"}, "sec=krb5p needs --sec"),
        ("vers=3,sec=sys,xprtsec=mtls", {"sec": "krb5"}, "xprtsec=mtls needs --xprtsec"),
        ("sec=krb5,address=fd02::15", {"sec": "krb5"}, "sec=krb5 has no key for fd02::15"),
        ("xprtsec=tls,address=fd02::15", {"xprtsec": "tls"}, "xprtsec=tls has no key for fd02::15"),
    ],
)
def test_mounts_ask_for_what_the_server_has(
    text: str, options: dict[str, Any], complaint: str
) -> None:
    mount = Mount.parse(f"/mnt/a={text}")
    with pytest.raises(HarnessError, match=f"^--mount=/mnt/a: {complaint}$"):
        GuestConfig(mounts=(mount,), **options)
    clear = Mount.parse("/mnt/a=sec=sys,xprtsec=none,address=fd02::15")
    assert GuestConfig(mounts=(clear,), **options).mounts == (clear,)


_SHARED = ",security_model=none,multidevs=remap"
_READS_SETTINGS = """\
busybox() { echo "$@"; }; mount() { echo "$@"; }; mkdir() { :; }
. ./settings
echo "$RELEASE $MODULES $PROGRAMS"
echo "$NETWORK $ADDRESSES $ADDRESS6 $EXPORT ${EXPORT_OPTIONS%,no_subtree_check}"
echo "$RESULTS, $SECURED"
mount_host /h; mount_results /r; mount_wanted
"""


def test_a_guest_is_what_it_was_asked_for(tmp_path: Path) -> None:
    """What QEMU is given, and what init.sh reads."""
    kernel = object.__new__(Machine)
    kernel.tree = KernelTree(Path("/tree"), "6.12")
    results = tmp_path / "a, b"
    shares = {machine.HOST: Path("/"), "results": results}
    words = kernel.command(tmp_path, 2, 512, True, shares)
    given = {word: value for word, value in itertools.pairwise(words) if word != "-device"}
    devices = [value for word, value in itertools.pairwise(words) if word == "-device"]
    assert devices == [
        "virtio-net-pci,netdev=network,romfile=",
        *(f"virtio-9p-pci,fsdev={name},mount_tag={name}" for name in shares),
    ]
    assert (given["-netdev"], given["-smp"], given["-m"]) == (
        "user,id=network,net=10.0.3.0/24", "2", "512",
    )  # fmt: skip
    assert f"local,id=host,path=/,readonly=on{_SHARED}" in words
    assert f"local,id=results,path={tmp_path}/a,, b,readonly=off{_SHARED}" in words
    mounts = (Mount.parse("/m=vers=3"),)
    config = GuestConfig(mounts=mounts, results=results, network=True, xprtsec="tls")
    (tmp_path / "settings").write_text(guest._settings(kernel, config, shares))
    told = run(["sh", "-euc", _READS_SETTINGS], timeout=_SECONDS, cwd=tmp_path).check().stdout
    assert told.splitlines() == [
        "6.12 /tree/lib/modules/6.12 /tree/programs",
        "yes 10.0.2.15 10.0.2.16 fd02::15 /export rw,no_root_squash,insecure,fsid=0",
        f"{results}, yes",
        f"mount {' '.join(kernel.mount('host'))} /h",
        f"mount {' '.join(kernel.mount('results'))} /r",
        "-t nfs -o vers=3,nolock 10.0.2.15:/export /m",
    ]


def test_modules_come_after_those_that_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "builtin x\ninsmod /m/9pnet.ko \ninsmod /m/9p.ko.xz\ninsmod /m/9pnet.ko \n"
    monkeypatch.setattr(machine, "run", lambda argv, **_: Completed(argv, 0, said, ""))
    found = KernelTree(Path("/tree"), "6.12").modules_for(["9p"])
    assert found == [Path("/m/9pnet.ko"), Path("/m/9p.ko.xz")]


def test_refusal_of_an_option() -> None:
    done = _lab(f"--results={__file__}", "--", "true")
    assert done.status == 1
    assert done.stderr.startswith(f"nfsmulti: --results={__file__}: ")


_V41 = "vers=4.1,proto=rdma6"


def test_mount_commands() -> None:
    for text, options, source in (
        ("/m=vers=3,proto=tcp", "vers=3,proto=tcp,nolock", "10.0.2.15:/export"),
        ("/m=v3,rdma,lock", "v3,rdma,lock,port=20049", "10.0.2.15:/export"),
        ("/m=proto=rdma,port=1", "proto=rdma,port=1", "10.0.2.15:/"),
        (f"/m={_V41},address=fd02::15", f"{_V41},port=20049", "[fd02::15]:/"),
    ):
        found = Mount.parse(text).command
        assert found == ["mount", "-t", "nfs", "-o", options, source, "/m"]
