# SPDX-License-Identifier: GPL-2.0-only
"""README.md, docs/ and the manual page say what is so."""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import messages
import pytest
from conftest import call_harness

import site_files
from nfsmulti.arguments import COMMANDS, STORIES, understand
from nfsmulti.fiorun import Engine
from nfsmulti.paths import PYTHON_TESTS, ROOT
from nfsmulti.processes import run
from nfsmulti.report import documents

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
_README_LINES = 120
_SECONDS = 20.0

# A block of code and its kind; what has none is commands.
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= _README_LINES


# --- links ---


def _prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return _BLOCK.sub("", page.read_text())


def _anchors(page: Path) -> set[str]:
    """Return what its headings can be linked to by, as GitHub and MkDocs make it of them."""
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_resolve() -> None:
    for page in PAGES:
        text = re.sub(r"`[^`\n]*`", "", _prose(page))
        for target in re.findall(r"\]\((?!https://)([^)\s]+)\)", text):
            name, _, anchor = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            assert file.exists(), (page, target)
            assert not anchor or anchor in _anchors(file), (page, target)


def test_architecture_names_files_that_there_are() -> None:
    named = re.findall(r"`(\w+/[\w-]+\.[ch])`", (DOCS / "architecture.md").read_text())
    assert named
    assert [file for file in named if not (ROOT / "engine" / file).exists()] == []


def test_every_page_is_in_the_site() -> None:
    named = set(re.findall(r"(\w[\w-]*\.md)", (ROOT / "mkdocs.yml").read_text()))
    assert named == {page.name for page in DOCS.glob("*.md")}


def test_what_lies_beside_the_pages_is_in_the_site() -> None:
    text = "".join(map(Path.read_text, DOCS.glob("*.md")))
    targets = set(re.findall(r"\]\(\.\./([^)#]+)", text))
    assert targets
    assert targets - set(site_files.outside()) == set()


# --- commands ---

_JOB_PAGE = DOCS / "quickstart.md"
# What a test cannot run: it changes the machine, needs a server, or is another tool's.
_NOT_TRIED = {
    "apt", "apt-get", "chromium", "cmake", "echo", "export", "git", "mkdocs", "modprobe", "mount",
    "grep", "kadmin", "openssl", "pip", "python3", "rdma", "ssh", "valgrind", "vserver",
}  # fmt: skip


def _commands(page: Path) -> Iterator[list[str]]:
    """Yield the commands in a page's blocks and sentences, as words, without comments."""
    for line in re.findall(r"`((?:\./nfsmulti|fio -)[^`\n]*)`", _prose(page)):
        yield shlex.split(line)
    for kind, block in _BLOCK.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines() if not kind else ():
            if words := shlex.split(line, comments=True):
                yield words


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the paths of the pages' commands exist."""
    folder = tmp_path_factory.mktemp("commands")
    for name in ("build", "results/dd/TIME", "results/dd/LATER"):
        (folder / name).mkdir(parents=True)
    (folder / "FILE.c").touch()
    (folder / "build/libnfsmulti.so").symlink_to(Engine.built().library)
    (folder / "jobfiles").symlink_to(ROOT / "jobfiles")
    (job,) = [text for kind, text in _BLOCK.findall(_JOB_PAGE.read_text()) if kind == "ini"]
    (folder / "job.fio").write_text(job.replace("/usr/local/lib/fio/", "./build/"))
    return folder


def test_commands_parse(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    for words in (words for page in PAGES for words in _commands(page)):
        if words[0] == "fio":
            _check_fio(words, work)
        elif words[0] == "./nfsmulti":
            _check_harness(words[1:], work)
        elif words[0].startswith("build/docs/"):
            assert Path(words[0]).name in _NOT_TRIED
        elif words[0].startswith("./build/"):
            assert (Engine.built().library.parent / words[0].removeprefix("./build/")).exists()
        else:
            assert words[0] in _NOT_TRIED, shlex.join(words)


def _check_fio(words: list[str], work: Path) -> None:
    """Let fio parse a command, with the engine; a client's names job files that it would send."""
    if words == ["fio", "--server"]:
        return
    if words[1].startswith("--enghelp="):
        assert run(words, timeout=_SECONDS, cwd=work).status == 0
        return
    words = [word for word in words if not word.startswith("--client=")]
    words = list(dict.fromkeys(words))
    done = run([*words, "--parse-only"], timeout=_SECONDS, cwd=work)
    assert done.status == 0, done.stderr + done.stdout


def _check_harness(words: list[str], work: Path) -> None:
    """Parse a command of the harness, and the fio that it may run."""
    if words[0] in ("build", "package", "uninstall", "--help"):  # the front end's; cmake's options
        return
    inner = words[words.index("--") + 1 :] if "--" in words else []
    if (named := shlex.join(words).removesuffix(" --help")) in COMMANDS or named in (
        "lab",
        "bench",
    ):
        return  # it is only named
    understand(words)
    if inner[:1] == ["fio"]:
        _check_fio(inner, work)


def test_help_is_wrapped_by_the_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where that is narrower than the lines of docstrings."""
    monkeypatch.setenv("COLUMNS", "80")
    for words in (["run"], ["lab", "kernel"], ["faults"], ["soak"], ["demo"]):
        prose = (
            call_harness(*words, "--help")
            .stdout.partition("arguments:")[0]
            .partition("options:")[0]
            .splitlines()
        )
        for line, after in itertools.pairwise(prose):
            if line.strip() and after.strip():
                assert len(line.rstrip()) + 1 + len(after.split()[0]) > 78, (words, line)


# --- what is generated ---


def test_pictures_show_the_reference_runs(tmp_path: Path) -> None:
    """A reference run that came later: ./nfsmulti report --picture draws them again."""
    for drawn in documents.write_pictures(tmp_path):
        assert drawn.read_bytes() == (DOCS / drawn.name).read_bytes(), drawn.name


def test_options_are_the_engines(tmp_path: Path) -> None:
    """An option that changed: ./nfsmulti report --options writes page and manual again."""
    for file in (documents.PAGE, documents.MANUAL):
        shutil.copy(file, tmp_path)
    page, manual = tmp_path / documents.PAGE.name, tmp_path / documents.MANUAL.name
    for written in documents.write_options(page, manual):
        before = {"options.md": documents.PAGE, "nfsmulti.7": documents.MANUAL}[written.name]
        assert written.read_text() == before.read_text()


def test_every_scenario_is_named_where_one_looks_for_it() -> None:
    text = (DOCS / "scenarios.md").read_text()
    assert [name for name in STORIES if not re.search(rf"\b{name}\b", text)] == []


def test_manual_names_every_job_file() -> None:
    manual = documents.MANUAL.read_text()
    assert [job.stem for job in ROOT.glob("jobfiles/*.fio") if job.stem not in manual] == []


# --- figures ---


def test_figures_are_of_the_reference_runs() -> None:
    """A reference run that came later: bring the pages' ratios up to date.

    Of `compare` the example is no reference run's.
    """
    reports = "".join(map(Path.read_text, ROOT.glob("results/reference/*/report.md")))
    interval = re.compile(r"\d+\.\d+ \(\d+\.\d+ to \d+\.\d+\)")
    texts = [re.sub(r"```text\nA: .*?```", "", page.read_text(), flags=re.DOTALL) for page in PAGES]
    quoted = {ratio for text in texts for ratio in interval.findall(text)}
    assert quoted
    assert sorted(ratio for ratio in quoted if ratio not in reports) == []


def test_the_verdict_quoted_is_the_reference_runs() -> None:
    (quote,) = re.findall(r"(?:^> .*\n)+", (DOCS / "scenarios.md").read_text(), re.MULTILINE)
    report = (ROOT / "results/reference/connections/report.md").read_text()
    assert " ".join(quote.replace("> ", " ").split()) in " ".join(report.split())


def test_readme_gives_the_range_of_cpu_per_operation() -> None:
    ratios = [ratio.value for _, ratio in documents.cost_ratios()]
    text = (ROOT / "README.md").read_text()
    assert len(ratios) == 10
    assert f"| {min(ratios):.2f} to {max(ratios):.2f} | 1 |" in text
    assert f"{100 * min(ratios):.0f} to {100 * max(ratios):.0f} %" in text


# --- messages ---

_PAGE = DOCS / "messages.md"
# Words of the engine that are no message: of its option table, its traces and statistics, of the
# programs beside it, and what only a programmer meets.
_NO_MESSAGES = re.compile(
    r"Usage: |trace: |\{?\"|nfsmulti |nfsmulti-rdma: |nfsmulti-export: |… connection… on|… … … … |"
    r"… reads, |… metadata operations, |…: … done, |meta_mix: beside |TLS: … conn|"
    r"Kerberos: … conn|crypto: … … of|"
    r"arrivals: …: offered |not sustained \(responses | due … ns, lag |… with …: …$|"
    r"entries of \"…\": …|… … in |, and making those |"
    r"each call fits into one Send|"
    r"…: column …| \(tenths of a second\)|…: port …: …|"
    r"RPC Packet not accepted|Server responded: "  # libnfs's, which are translated
)
_FEWEST_BLANKS = 3  # in what counts as a message


def _listed() -> list[str]:
    """Return the messages of the page: code in the first column of its tables."""
    rows = re.findall(r"^\| (`.*?`) \| ", _PAGE.read_text(), re.MULTILINE)
    return [message for row in rows for message in re.findall(r"`([^`]+)`", row)]


def test_listed_messages_are_in_the_sources() -> None:
    printed = [*messages.engine(ROOT / "engine"), *messages.harness(PYTHON_TESTS / "nfsmulti")]
    printed.append(messages.front_end(ROOT / "nfsmulti"))
    assert [said for said in _listed() if not any(said in text for text in printed)] == []


def test_the_engines_messages_are_listed() -> None:
    """A new message of the engine: give it a row in docs/messages.md."""
    options = set(messages.engine_file(ROOT / "engine/fio/engine_options.c"))
    found = {text for text in messages.engine(ROOT / "engine") if text.count(" ") >= _FEWEST_BLANKS}
    found = {text for text in found - options if not _NO_MESSAGES.match(text)}
    listed = _listed()
    assert [text for text in sorted(found) if not any(said in text for said in listed)] == []


def test_the_harness_refusals_are_listed() -> None:
    """A new refusal of the harness: give it a row in docs/messages.md."""
    found = set(messages.refusals(PYTHON_TESTS / "nfsmulti"))
    found = {text for text in found if text.count(" ") >= _FEWEST_BLANKS}
    listed = _listed()
    assert [text for text in sorted(found) if not any(said in text for said in listed)] == []
