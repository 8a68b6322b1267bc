# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti, the shell front end: usage, and what it says of packages that are missing."""

import os
import re
import shlex
import shutil
import signal
import sys
from pathlib import Path

import pytest
from engine_helpers import eventually

from nfsmulti.arguments import COMMANDS, told_first, understand
from nfsmulti.paths import PYTHON_TESTS, ROOT
from nfsmulti.processes import Completed, Process, find, run

_LAB_PACKAGES = "nfs-ganesha nfs-ganesha-vfs rpcbind"
_MEMORY_LAB_PACKAGES = "nfs-ganesha nfs-ganesha-mem"
_SECONDS = 240.0
_KERNEL_PACKAGES = "qemu-system-x86 nfs-common nfs-kernel-server rpcbind"


class Machine:
    """A machine of which the front end sees what we like: our programs come first on PATH."""

    def __init__(self, folder: Path, root: Path = ROOT):
        self.folder = folder
        self.root = root
        self.path = f"{folder}:{os.environ['PATH']}"

    def program(self, name: str, script: str) -> None:
        """Put a shell script in the place of a program."""
        file = self.folder / name
        file.unlink(missing_ok=True)  # not through a link to the machine's own
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def user(self, sudo: str = "exit 1") -> None:
        """Let the user be nobody special, whose sudo does so."""
        self.program("id", "echo 1000")
        self.program("sudo", sudo)

    def packages(self, all_but: str = "''") -> None:
        """Let all of Debian's packages be there, but for those of a shell's pattern."""
        listed = f'case $p in {all_but}) ;; *) echo "ii  $p";; esac'
        self.program("dpkg-query", f"shift 3; for p; do {listed}; done")

    def run(self, *arguments: str, env: dict[str, str] | None = None) -> Completed:
        """Run ./nfsmulti there."""
        # What the front end that runs these tests has set is not this machine's.
        ours = {"NFSMULTI_NO_INSTALL": "0", "NFSMULTI_BUILD_DIR": ""}
        variables = {"PATH": self.path, **ours, **(env or {})}
        return run([str(self.root / "nfsmulti"), *arguments], timeout=_SECONDS, env=variables)


def _copy(root: Path) -> Path:
    """Put the front end and the harness there."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PYTHON_TESTS / "nfsmulti", root / "python-tests/nfsmulti", ignore=ignored)
    shutil.copy(ROOT / "nfsmulti", root)
    return root


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine of root's, with a copy of the project that has built before.

    All packages are there; apt-get would be noticed.
    """
    root = _copy(tmp_path / "project")
    for folder in ("build/venv", "results/demo"):
        (root / folder).mkdir(parents=True)
    for made in ("CMakeLists.txt", "build/Makefile"):
        (root / made).touch()
    (tmp_path / "bin").mkdir()
    machine = Machine(tmp_path / "bin", root=root)
    machine.program("apt-get", "echo apt-get was run >&2; exit 9")
    machine.program("id", "echo 0")
    machine.packages()
    return machine


@pytest.fixture
def bare_machine(machine: Machine) -> Machine:
    """Return it with few packages, one of them removed but for its settings."""
    some = "echo 'ii  gcc'; echo 'rc  fio'; echo 'ii  fio-tools'; echo 'ii  cmake'"
    machine.program("dpkg-query", f'{some}; [ "$*" = "-W -f \\${{Version}} dpkg" ]')
    return machine


@pytest.fixture
def installed_machine(tmp_path: Path) -> Machine:
    """Return a machine with the package's files, called by a link; the cache is `cache`."""
    root, folder = _copy(tmp_path / "share"), tmp_path / "bin"
    (root / "python-tests/requirements-harness.lock").touch()
    folder.mkdir()
    (folder / "nfsmulti").symlink_to(root / "nfsmulti")
    machine = Machine(folder, root=folder)
    machine.packages()
    machine.program("cmake", "echo cmake was run >&2; exit 7")
    return machine


def _with_python(root: Path) -> None:
    """Let the environment of Python be up to date; it prints what it is given, as the system's."""
    main = root / "python-tests/nfsmulti/__main__.py"
    main.write_text("import sys; print('-m nfsmulti', *sys.argv[1:])")
    (root / "python-tests/requirements.lock").touch()
    version = "import sys; print(sys.version)"
    stamp = f'echo "$(sha256sum </dev/null) $(/usr/bin/python3 -c "{version}")" >stamp'
    run(["sh", "-c", f"mkdir bin; {stamp}"], timeout=60, cwd=root / "build/venv").check()
    Machine(root / "build/venv/bin").program("python", 'echo "$*"')


def test_usage_and_help_name_every_command_and_install_nothing(bare_machine: Machine) -> None:
    for made in ("build", "results"):  # by a build: here is a clone alone
        shutil.rmtree(bare_machine.root / made)
    before = set(bare_machine.root.rglob("*"))
    commands = (*COMMANDS, "build", "package")
    for arguments in ((), ("--help",), ("-h",), ("help",)):
        done = bare_machine.run(*arguments)
        assert done.status == 0, arguments
        assert all(f"\n  {command.split()[0]} " in done.stdout for command in commands), arguments
    for command in commands:
        done = bare_machine.run(*command.split(), "--help")
        assert (done.status, done.stderr) == (0, ""), command
        assert done.stdout.startswith(f"usage: ./nfsmulti {command}"), command
        inside = command in ("lab run", "lab exec", "lab kernel")
        assert ("-- COMMAND..." in done.stdout.partition("\n\n")[0]) == inside, command
    for words in ("frobnicate", "run dd --repet 4"):
        done = bare_machine.run(*words.split())
        assert (done.status, done.stdout) == (2, ""), words
        assert re.match(r"nfsmulti: .*there is no", done.stderr.splitlines()[-1]), words
    assert "--workload NAME" in bare_machine.run("run", "--help").stdout
    assert "  kernel " in bare_machine.run("lab").stdout
    (bare_machine.root / "CMakeLists.txt").write_text("project(nfsmulti VERSION 12.3.45)\n")
    assert bare_machine.run("--version").stdout == "nfsmulti 12.3.45\n"
    assert set(bare_machine.root.rglob("*")) == before


def test_who_may_not_install_is_told_what_is_missing(bare_machine: Machine) -> None:
    """A user without sudo, and whoever said --no-install, or set it."""
    bare_machine.program("sudo", "echo sudo was run >&2; exit 1")
    reading = ("report DIR", "compare", "history dd", "baseline show")  # which needs no engine
    commands = ("demo", "run dd", "test", "build", "bench stall", *reading)
    ways = [(words.split()[0], [*words.split(), "--no-install"], "0") for words in commands]
    ways += [("run", ["--no-install", "run", "dd"], "0"), ("run", ["run", "dd"], "1")]
    for command, words, variable in ways:
        done = bare_machine.run(*words, env={"NFSMULTI_NO_INSTALL": variable, "CI": "true"})
        assert done.status == 1, words
        assert f"missing Debian packages, needed by ./nfsmulti {command} " in done.stderr, words
        if command in ("test", "build"):  # the others ask what Python has
            assert ("python3-venv" in done.stderr) == (command == "test"), words
        assert ("libnfs-dev" in done.stderr) == (" ".join(words[:-1]) not in reading), words
        assert "was run" not in done.stderr, words
    bare_machine.user()
    named = bare_machine.run("build").stderr.split("sudo apt-get install --no-install-recommends ")
    assert {"fio", "libnfs-dev", "liburing-dev"} <= set(named[1].split())
    assert not {"gcc", "cmake", "nfs-ganesha", "python3-venv"} & set(named[1].split())
    assert "apt-get was run" not in named[0]


def test_a_command_asks_for_the_packages_of_its_servers(machine: Machine, tmp_path: Path) -> None:
    """A user's servers need no rpcbind, and a demo without namespaces none of NFS."""
    machine.user()
    machine.packages(all_but="nf*|qemu-*|krb5-*|rpcbind")
    file = tmp_path / "run.toml"
    file.write_text("mounts = true")
    machine.program("cmake", "exit 7")
    kerberos = "krb5-kdc krb5-admin-server krb5-user"
    for words, packages in (
        ("lab start", _MEMORY_LAB_PACKAGES),
        ("lab kernel --sec krb5p -- true", f"{_KERNEL_PACKAGES} {kerberos}"),
        ("lab run --per-connection=1gbit -- true", f"{_MEMORY_LAB_PACKAGES} nftables"),
        ("lab run -- sh --per-connection --wheels=/none", _MEMORY_LAB_PACKAGES),
        ("run dd --quick", _LAB_PACKAGES),
        ("run security", f"{_LAB_PACKAGES} {kerberos}"),
        ("run --quick fsperf", f"{_LAB_PACKAGES} {_KERNEL_PACKAGES}"),
        ("run connections", f"{_LAB_PACKAGES} nftables"),
        ("run latency --proto=tcp,rdma", _KERNEL_PACKAGES),
        (f"run connections --config {file}", _KERNEL_PACKAGES),
        ("demo", f"{_MEMORY_LAB_PACKAGES} nftables"),
    ):
        machine.program("unshare", "exit 0")
        done = machine.run(*words.split())
        assert done.status == 1, words
        once = " ".join(dict.fromkeys(packages.split()))
        assert done.stderr.endswith(f" --no-install-recommends {once}\n"), words
    file.write_text('pool = "nfs://nas/export"')
    mounted = "run connections --pool=nfs://nas/export --mounts"  # on this machine, in no guest
    for words in ("run dd --pool=nfs://nas/export", f"run dd --config={file}", mounted):
        assert "apt-get install" not in machine.run(*words.split()).stderr, words
    machine.program("unshare", "exit 1")
    assert _MEMORY_LAB_PACKAGES in machine.run("lab", "run", "--", "true").stderr
    assert "apt-get install" not in machine.run("demo").stderr


def test_what_fetches_the_guests_kernel_is_asked_for_until_that_is_there(
    machine: Machine,
) -> None:
    _with_python(machine.root)
    machine.program("cmake", "")
    machine.packages(all_but="mmdebstrap")
    machine.user()
    words = ("lab", "kernel", "--", "true")
    done = machine.run(*words)
    assert done.status == 1
    assert done.stderr.endswith(" --no-install-recommends mmdebstrap\n")
    on = (0, "-m nfsmulti lab kernel -- true\n")
    # The harness alone refuses this, in one line.
    done = machine.run("--no-install", *words)
    assert (done.status, done.stdout, done.stderr) == (*on, "")
    (machine.root / "build/kernel-lab/debian13").mkdir(parents=True)
    done = machine.run(*words)
    assert (done.status, done.stdout) == on


def test_other_systems_bring_what_they_have(machine: Machine) -> None:
    """Fedora has dpkg for those who make Debian's packages: without any it is no Debian."""
    machine.program("dpkg-query", "exit 1")
    machine.program("cmake", "echo cmake says what it lacks; exit 7")
    done = machine.run("build")
    assert (done.status, done.stdout) == (7, "cmake says what it lacks\n")
    assert done.stderr == ""


def test_what_apt_is_called_for_is_said_before_and_how_it_failed(bare_machine: Machine) -> None:
    failing = "echo E: no network >&2; exit 100"
    bare_machine.user(f'shift; [ "$1" = true ] || {{ {failing}; }}')
    done = bare_machine.run("build")
    assert done.status == 1
    before, after = done.stderr.split("E: no network\n")
    (line,) = before.splitlines()
    assert line.startswith("nfsmulti: apt-get installs ")
    assert "libnfs-dev" in line
    assert ": needed by ./nfsmulti build to build the engine" in line
    assert "or try:\nnfsmulti:   apt-get install --no-install-recommends " in after


def test_tests_go_on_without_the_labs_packages(machine: Machine) -> None:
    """Only those that build are missed."""
    machine.packages(all_but="nfs-*")
    machine.program("cmake", "exit 7")
    done = machine.run("test", "--no-install", env={"CI": ""})
    assert "nfsmulti: going on without them: their tests are skipped\n" in done.stderr
    assert "was run" not in done.stderr


def test_a_run_says_first_that_it_is_in_a_lab(bare_machine: Machine) -> None:
    lab = ("run connections", "run dd --seed 1")
    other = ("--lab", "--pool=nfs://127.0.0.1/a", "--resume", "--dry-run")
    for words in (*lab, "history dd", *(f"run dd {word}" for word in other)):
        told = "".join(told_first(understand(words.split())))
        for said in ("starts a lab on this machine", "--pool=nfs://SERVER/EXPORT"):
            assert (said in told) == (words in lab), words
    first, *_ = bare_machine.run("run", "dd", "--no-install").stderr.splitlines()
    assert [first] == told_first(understand(["run", "dd"]))


def test_a_run_says_first_which_commands_a_file_has_it_run(
    bare_machine: Machine, tmp_path: Path
) -> None:
    """What the command line gives instead is not run, and no newline makes a line of its own."""
    file = tmp_path / "run.toml"
    file.write_text(
        'pool = "nfs://nas/export"\nset = "rm -r /\\nnfsmulti: done"\nget = "uptime"\n'
        'server-command = "ssh nas"\nrestart = "reboot"\nlabel = "ls"\n'
    )
    words = ["run", "clients", f"--config={file}", "--get", "true", "--no-install"]
    done = bare_machine.run(*words)
    assert [line for line in done.stderr.splitlines() if "from --config" in line] == [
        "nfsmulti: a command from --config: --set=rm -r /\\nnfsmulti: done",
        "nfsmulti: a command from --config: --server-command=ssh nas",
        "nfsmulti: a command from --config: --restart=reboot",
    ]


@pytest.mark.parametrize("user", [True, False])
def test_a_demo_says_first_what_it_will_be(bare_machine: Machine, *, user: bool) -> None:
    bare_machine.program("id", f"echo {1000 if user else 0}")
    bare_machine.program("sudo", "exit 1")
    bare_machine.program("unshare", "echo 'unshare: unshare failed: Permitted by none' >&2; exit 1")
    done = bare_machine.run("demo", "--no-install")
    first, second, *others = done.stderr.splitlines()
    assert first.startswith("nfsmulti: not root" if user else "nfsmulti: no ")
    assert "leaves out real servers (nfs-ganesha)" in first
    assert "the whole demo needs root" in second
    assert ("sudo" in second) == user
    assert "nfs-ganesha" not in " ".join(others)
    assert done.status == 1


def test_no_install_fetches_no_source_of_fio(machine: Machine, tmp_path: Path) -> None:
    for program in ("apt-get", "apt-cache"):
        machine.program(program, f"touch {tmp_path / 'called'}; exit 9")
    (machine.folder / "dpkg-query").unlink()
    script = ["sh", str(ROOT / "cmake/fio-headers.sh"), find("fio"), str(tmp_path / "out"), "cmake"]
    done = run(script, timeout=60, env={"PATH": machine.path, "NFSMULTI_NO_INSTALL": "1"})
    assert done.status == 1
    assert done.stderr.startswith("fio's headers are not here, and --no-install keeps apt from")
    assert "-DFIO_SOURCE_DIR=DIRECTORY" in done.stderr
    assert not (tmp_path / "called").exists()


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def test_who_waits_says_so_and_goes_on(machine: Machine, tmp_path: Path) -> None:
    began, go, said = tmp_path / "began", tmp_path / "go", tmp_path / "said"
    machine.program("cmake", f"echo >{began}; while [ ! -e {go} ]; do sleep 0.05; done; exit 7")
    argv = [str(machine.root / "nfsmulti"), "build", "--no-install"]
    env = {"PATH": machine.path, "NFSMULTI_BUILD_DIR": ""}
    with Process(argv, env=env) as holder:
        assert holder.comes_up(lambda: bool(_text(began)), _SECONDS)
        with said.open("wb") as err, Process(argv, env=env, stderr=err) as process:
            waits = "nfsmulti: waiting for another ./nfsmulti\n"
            assert process.comes_up(lambda: _text(said) == waits, _SECONDS)
            go.touch()
            assert (holder.wait(_SECONDS), process.wait(_SECONDS)) == (7, 7)


def test_a_command_builds_what_it_needs_and_tells_how_far_it_is(
    machine: Machine, tmp_path: Path
) -> None:
    _with_python(machine.root)
    parts = [f"[{part:3}%] Building C object" for part in (1, 25, 30, 60, 99)]
    lines = shlex.join([*parts, "[abc%] Building", "[100%] Built target x"])
    called = tmp_path / "called"
    machine.program("cmake", f'echo "$*" >>{called}; printf "%s\\n" {lines}; exit ${{STATUS:-0}}')
    expected = "".join(f"nfsmulti: building the engine: {part} %\n" for part in (25, 60, 99))
    for words, targets in (
        ("run dd --lab", " --target nfsmulti"),
        ("bench stall", " --target nfsmulti nfs-sink"),
        ("test", ""),
    ):
        done = machine.run(*words.split(), "--no-install", env={"CI": ""})
        assert (done.status, done.stdout) == (0, f"-m nfsmulti {words}\n"), done.stderr
        assert done.stderr.endswith(expected), words
        assert re.search(rf"--parallel \d+{targets}\n$", called.read_text()), words
    failed = machine.run("doctor", "--no-install", env={"STATUS": "2"})
    assert failed.status == 1
    assert failed.stderr.endswith("nfsmulti: the engine did not build; see build/build.log\n")


_IMPORTED = ("jinja2", "matplotlib", "psutil", "rich", "scipy")


def test_a_run_takes_the_systems_python_or_names_two_remedies(
    machine: Machine, tmp_path: Path
) -> None:
    """It takes that which has all that a run imports; here no registry has what it lacks."""
    machine.program("cmake", "")
    root, wheels, lock = machine.root, tmp_path / "wheels", "requirements-harness.lock"
    _with_python(root)
    wheels.mkdir()
    (root / "python-tests" / lock).write_text(f"nothing==1 --hash=sha256:{'0' * 64}\n")
    shutil.rmtree(root / "build/venv")
    for name in _IMPORTED:
        (tmp_path / f"{name}.py").touch()
    env = {"PYTHONPATH": str(tmp_path), "CI": ""}
    done = machine.run("run", "dd", "--lab", env=env)
    assert done.stdout == "-m nfsmulti run dd --lab\n"
    assert not (root / "build/venv").exists()
    for lacking in _IMPORTED:
        # find_spec() says of it that there is none.
        lacks = f"import sys; sys.modules['{lacking}'] = None"
        (tmp_path / "sitecustomize.py").write_text(lacks)
        done = machine.run("report", "DIR", "--wheels", str(wheels), env=env)
        assert (done.status, done.stdout) == (1, ""), lacking
        assert done.stderr.splitlines()[-3:] == [
            f"nfsmulti: pip could not install python-tests/{lock}; see build/pip.log."
            " If this host cannot reach the registry of Python packages:",
            "nfsmulti:   sudo apt-get install --no-install-recommends "
            + " ".join(f"python3-{name}" for name in _IMPORTED),
            "nfsmulti:   or give the files of these packages: --wheels DIR (docs/offline.md)",
        ], lacking
        if lacking == _IMPORTED[0]:  # pip has failed: that nothing can be made is known sooner
            shutil.rmtree(root / "build/venv")
            (root / "build/venv").touch()


# The system's Python lacks a package that a run needs, and is long at making an environment.
_MAKES = """\
import os, sys, time

sys.modules["scipy"] = None
if "venv" in sys.orig_argv:
    with open("{}", "w") as file:
        file.write(str(os.getpid()))
    time.sleep(1000)
"""


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGTERM])
def test_what_makes_the_environment_ends_with_the_front_end(
    machine: Machine, tmp_path: Path, number: signal.Signals | None
) -> None:
    """Where the build beside it fails, and by a signal."""
    (machine.root / "python-tests/requirements-harness.lock").touch()
    began, go = tmp_path / "began", tmp_path / "go"
    (tmp_path / "sitecustomize.py").write_text(_MAKES.format(began))
    machine.program("cmake", f"while [ ! -e {go} ]; do sleep 0.05; done; exit 2")
    argv = ["env", "--default-signal=INT", str(machine.root / "nfsmulti")]
    argv += ["run", "dd", "--lab", "--no-install"]
    env = {"PATH": machine.path, "PYTHONPATH": str(tmp_path), "NFSMULTI_BUILD_DIR": ""}
    with Process(argv, env=env) as process:
        assert process.comes_up(lambda: bool(_text(began)), _SECONDS)
        if number:
            process.signal(number)
        go.touch()
        eventually(lambda: not process.running, _SECONDS)
        # Before the wait, which would end what is left.
        eventually(lambda: not Path("/proc", began.read_text()).exists(), _SECONDS)
        assert process.wait(_SECONDS) == (128 + number if number else 1)


def test_a_folder_of_wheels_must_be_there(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / "none"
    for words, said in (
        ([f"--wheels={folder}", "report", "DIR"], f"--wheels: there is no folder {folder}"),
        (["report", "DIR", "--wheels"], "--wheels: name the folder: --wheels DIR"),
    ):
        done = machine.run(*words)
        assert (done.status, done.stderr) == (1, f"nfsmulti: {said}\n")


def test_package_ends_with_the_line_that_installs(machine: Machine) -> None:
    root = machine.root
    packed = root / "build/package/nfsmulti_1_all.deb"
    packed.parent.mkdir()
    machine.program("dpkg-buildflags", "")
    machine.program("cmake", f'case "$*" in *"--target package") touch {packed} ;; esac')
    done = machine.run("package", "--no-install")
    assert done.stdout.endswith(f"Install with:\n  sudo apt install {packed}\n"), done.stderr
    assert "no shell completion in the package: pip could not install shtab; see" in done.stderr
    _with_python(root)  # the tests' environment, which has it
    assert machine.run("package", "--no-install").stderr == ""
    made = (root / "build/package/completion/zsh").read_text()
    assert made == "-B -m nfsmulti.arguments.completion zsh\n"


def test_a_shell_completes_commands_options_and_their_words(tmp_path: Path) -> None:
    made = {}
    for shell in ("bash", "zsh"):
        words = [sys.executable, "-m", "nfsmulti.arguments.completion", shell]
        made[shell] = run(words, timeout=60, env={"PYTHONPATH": str(PYTHON_TESTS)}).check().stdout
    assert made["zsh"].startswith("#compdef nfsmulti\n")
    (tmp_path / "bash").write_text(made["bash"])
    (tmp_path / "base").mkdir()
    script = 'source ./bash; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _shtab_nfsmulti'
    for line, found in (
        ("nfsmulti pack", "package"),
        ("nfsmulti run dd --lab", "--lab --label"),
        ("nfsmulti lab stat", "status"),
        ("nfsmulti lab kernel --xprtsec m", "mtls"),
        ("nfsmulti report ba", "base"),
    ):
        argv = ["bash", "-c", f'{script}; echo "${{COMPREPLY[*]}}"', "bash", *line.split()]
        assert run(argv, timeout=60, cwd=tmp_path).stdout == f"{found}\n", line


def test_what_apt_has_installed_is_written_down(machine: Machine) -> None:
    noted = machine.root / "build/installed-packages"
    noted.write_text("git\n")
    machine.packages(all_but="fio")
    machine.program("sh", f"rm -f {machine.folder}/sh")  # what root would run
    machine.program("cmake", "exit 7")
    machine.run("build")
    assert noted.read_text() == "git\nfio\n"


def test_a_build_of_another_place_is_configured_anew(machine: Machine, tmp_path: Path) -> None:
    """Else the Makefiles of a copy build what they were made for; those below build/, too."""
    root, copy = machine.root, tmp_path / "copy"
    (root / "build/Makefile").unlink()
    (root / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(nfsmulti NONE)\n"
        "file(WRITE ${CMAKE_BINARY_DIR}/told ${FIO_EXECUTABLE})\nadd_custom_target(nfsmulti)\n"
    )
    _with_python(root)
    told = machine.run("build", "-DFIO_EXECUTABLE=/bin/sh")
    assert (told.status, told.stderr) == (0, "")
    run(["cmake", "-S", str(root), "-B", str(root / "build/package")], timeout=60).check()
    there = Machine(machine.folder, root=shutil.copytree(root, copy, symlinks=True))
    done = there.run("doctor", "--no-install")
    assert (done.status, done.stdout) == (0, "-m nfsmulti doctor\n"), done.stderr
    assert done.stderr == (
        f"nfsmulti: {copy}/build was configured as {root}/build, for {root}: it is configured"
        " anew\nnfsmulti: building the engine (log: build/build.log)\n"
    )
    assert f"CMAKE_HOME_DIRECTORY:INTERNAL={copy}\n" in (copy / "build/CMakeCache.txt").read_text()
    assert (copy / "build/told").read_text() == "/bin/sh"
    assert not (copy / "build/package/CMakeCache.txt").exists()
    assert (copy / "results/demo").exists()
    assert there.run("doctor", "--no-install").stderr == ""


def test_an_installed_harness_refuses_what_needs_sources_or_a_compiler(
    installed_machine: Machine, tmp_path: Path
) -> None:
    """Fio's own nfs engine is built where the distribution's fio has none."""
    why = "needs the project's sources, and this nfsmulti is a package's: run it in a clone"
    for command in ("test", "faults", "soak", "build", "package"):
        done = installed_machine.run(command)
        assert (done.status, done.stderr) == (1, f"nfsmulti: {command} {why}\n")
    installed_machine.packages(all_but="gcc")
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = installed_machine.run("bench", "client-cost", "--no-install", env=env)
    assert done.status == 1
    assert done.stderr.endswith("  sudo apt-get install --no-install-recommends gcc\n")


def test_an_installed_harness_has_its_own_name_and_writes_to_the_users_cache(
    installed_machine: Machine, tmp_path: Path
) -> None:
    """The engine is where the package put it, and nothing is built."""
    package, state = tmp_path / "share", tmp_path / "cache/nfsmulti"
    harness = package / "python-tests/nfsmulti"
    (harness / "__main__.py").write_text(
        "import os, sys\n"
        "print(os.environ['NFSMULTI_STATE_DIR'], os.environ['NFSMULTI_BUILD_DIR'], sys.argv[1:])\n"
    )
    before, env = sorted(package.rglob("*")), {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    usage = installed_machine.run("help", env=env).stdout
    assert usage.startswith("usage: nfsmulti COMMAND")
    assert "./nfsmulti" not in usage
    assert f" {state}/.\n" in usage
    done = installed_machine.run("doctor", env=env)
    assert done.stdout == f"{state} {package}/build ['doctor']\n", done.stderr
    assert not (state / "venv").exists()
    assert sorted(package.rglob("*")) == before


def test_commands_import_no_more_python_packages_than_are_asked_for() -> None:
    """A lab's host has none (-S); a run's has none that only the tests' servers take."""
    own = ("test", "faults", "soak")
    called = {
        table["call"].partition(":")[0] for name, table in COMMANDS.items() if name not in own
    }
    lacks = "import sys; sys.modules.update(dict.fromkeys(['xdrlib3', 'cffi', 'pytest']))"
    for words in (
        ["-S", "-c", "import nfsmulti.doctor, nfsmulti.run.directory, nfsmulti.lab.commands"],
        ["-c", f"{lacks}; import {', '.join(sorted(called))}"],
    ):
        env = {"PYTHONPATH": str(PYTHON_TESTS)}
        run([sys.executable, *words], timeout=60, env=env).check()


# Python's own ways out of the locale C are closed.
_ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_commands_print_and_write_whatever_the_locale(tmp_path: Path) -> None:
    """Also where names of folders are not UTF-8."""
    machine = Machine(tmp_path)
    machine.program("cmake", "exit 0")  # the engine was built for these tests
    env = {**_ASCII, "NFSMULTI_NO_INSTALL": "1", "NFSMULTI_CELL_SECONDS": "0.1"}
    done = machine.run("doctor", "--pool=nfs://127.0.0.1:1/export", env=env)
    assert (done.stderr, done.status) == ("", 1)
    assert "\n      → " in done.stdout
    mount, results = (tmp_path / os.fsdecode(name) for name in (b"mo\xf6nt", b"r\xe9sults"))
    mount.mkdir()
    words = ["--quick", "--repeat=1", f"--pool={mount}", f"--results={results}"]
    done = machine.run("run", "oltp", *words, env=env)
    assert "/report.html\nNext: " in done.stdout, done.stderr
    (folder,) = (results / "oltp").iterdir()
    assert b"mo\xf6nt" in (folder / "report.md").read_bytes()
