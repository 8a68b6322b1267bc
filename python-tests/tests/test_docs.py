# SPDX-License-Identifier: GPL-2.0-only
"""README.md, docs/ and the manual page say what is so."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_c import CData, terms_rows, text, zeros

import made_docs
import messages
import site_files
from nfsmulti.arguments import COMMANDS, STORIES, understand
from nfsmulti.fiorun import Engine
from nfsmulti.paths import ROOT
from nfsmulti.processes import run

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
_README_LINES = 120
_SECONDS = 20.0

# A block of code and its kind; what has none is commands.
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


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


def test_the_site_has_every_page_and_what_lies_beside_them() -> None:
    named = set(re.findall(r"(\w[\w-]*\.md)", (ROOT / "mkdocs.yml").read_text()))
    assert named == {page.name for page in DOCS.glob("*.md")}
    text = "".join(map(Path.read_text, DOCS.glob("*.md")))
    targets = set(re.findall(r"\]\(\.\./([^)#]+)", text))
    assert targets
    assert targets - set(site_files.outside()) == set()


def test_pages_name_what_there_is() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= _README_LINES
    named = re.findall(r"`(\w+/[\w-]+\.[ch])`", (DOCS / "architecture.md").read_text())
    assert named
    assert [file for file in named if not (ROOT / "engine" / file).exists()] == []
    scenarios, manual = (DOCS / "scenarios.md").read_text(), made_docs.MANUAL.read_text()
    assert [name for name in STORIES if not re.search(rf"\b{name}\b", scenarios)] == []
    assert [job.stem for job in ROOT.glob("jobfiles/*.fio") if job.stem not in manual] == []


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
        elif words[0].startswith("build/"):
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
    if words[0] in ("build", "package", "--help"):  # the front end's; cmake's options
        return
    inner = words[words.index("--") + 1 :] if "--" in words else []
    if shlex.join(words).removesuffix(" --help") in {*COMMANDS, "lab", "bench"}:
        return  # it is only named
    understand(words)
    if inner[:1] == ["fio"]:
        _check_fio(inner, work)


# --- what is generated ---


def test_pictures_and_the_schema_of_summaries_are_as_made(tmp_path: Path) -> None:
    """A reference run that came later, or a field that changed: made_docs.py makes them again."""
    schema = made_docs.write_schema(tmp_path / "summary.schema.json")
    for drawn in (*made_docs.write_pictures(tmp_path), schema):
        assert drawn.read_bytes() == (DOCS / drawn.name).read_bytes(), drawn.name


def test_options_are_the_engines(tmp_path: Path) -> None:
    """An option or a message that changed: made_docs.py writes them again."""
    files = (made_docs.PAGE, made_docs.MANUAL, made_docs.MESSAGES)
    copies = [Path(shutil.copy(file, tmp_path)) for file in files]
    assert made_docs.write_options(*copies) == copies
    for copy, file in zip(copies, files, strict=True):
        assert copy.read_text() == file.read_text(), file.name


# --- figures ---


_INTERVAL = r"\d+\.\d+ \(\d+\.\d+ to \d+\.\d+\)"


def test_ratios_and_answers_are_of_the_reference_runs() -> None:
    """A reference run that came later: bring the pages up to date.

    Of `compare` the example is no reference run's, nor is that of clients that are not served.
    """
    reports = "".join(map(Path.read_text, ROOT.glob("results/reference/*/report.md")))
    texts = [
        re.sub(r"```text\n[^\n]*: worse\.\n.*?```", "", page.read_text(), flags=re.DOTALL)
        for page in PAGES
    ]
    quoted = {ratio for text in texts for ratio in re.findall(_INTERVAL, text)}
    told = (DOCS / "scenarios.md").read_text()
    answers = re.findall(r"^(?:> |\*)(.*\d.*?)\*?$", told, re.MULTILINE)
    assert quoted
    assert len(answers) > 4
    others = [one for one in (*quoted, *answers) if one not in reports]
    assert len(others) == 1
    assert "the server resets the others" in others[0]


# What a page quotes, with a group for each figure, and where these stand in the page of a reference
# run, or beside the labels of a picture; there they may be followed by others.
_RATIO = rf"({_INTERVAL})"
_QUOTED: list[tuple[str, str, str, str]] = [
    (
        "README.md", rf"krb5p takes {_RATIO} times",
        "security", rf"\| krb5p (?:\|[^|]*){{3}}\| {_RATIO}",
    ),
    (
        "docs/security.md", rf"{_RATIO} times the CPU with krb5i, {_RATIO} .*\n.* {_RATIO} times",
        "security", rf"\| (?:krb5i|krb5p|tls) (?:\|[^|]*){{3}}\| {_RATIO}",
    ),
    ("README.md", r"```text\n\$.*\n(.*)\n", "connections", r"## The answer\n\n(.*); uncapped"),
    *(
        (
            "README.md", rf"capped, 1 job +{count} +(\S+) +(\S+) +(\S+) +(\S+)\n",
            "connections", rf"capped, 1 job \| {count} \| (\S+).*? \| (\S+).*? \| (\S+) \| (\S+) ",
        )
        for count in (1, 4, 16)
    ),
    (
        "README.md", r"capped: (\S+), (\S+), (\S+), (\S+) and (\S+) times",
        "pool.svg", r"<!-- (\S+)x -->",
    ),
    ("README.md", r"capped at (.* Gbit/s)\n", "connections", r"each connection (.*) \(capped\)"),
    (
        "README.md", r"users see, (\S+) ms at p99; fio's rate_iops reports (\S+) ms\.\]",
        "stall", r"\n(\S+) ms at p99 .* rate_iops says (\S+) ms",
    ),
    (
        "README.md", r"every five wait (\S+) ms at p99; fio's `rate_iops` says (\S+) ms",
        "stall", r"\n(\S+) ms at p99 .* rate_iops says (\S+) ms",
    ),
    (
        "docs/scenarios.md", r"looked up (\d+) files .*\n.* 625 each did (\d+)",
        "metadata", r"lookup, filestat, (?:1 job|32 jobs), depth 1 \| (\d+)",
    ),
]  # fmt: skip
# The least and the most of the ratios of CPU that the picture of costs has, or these in per cent.
_COSTS = [
    ("README.md", r"([\d]+ to [\d]+) %\.\]", 100),
    ("docs/client-cost.md", r"([\d]+ to [\d]+) % of what", 100),
    ("README.md", r"workloads \| (.*) \| 1 \| not compared", 1),
]
# Of README's figures those that are ours to show: what fio is given and the limits are none.
_FIGURE = re.compile(
    r"(?<![\w.,])\d[\d.,]* ?(?:times|%|MB/s|IOPS|ms|Gbit/s|µs)(?!\w)|"
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten) (?:times|seconds)"
)


def _reference(name: str) -> str:
    folder = ROOT / "results/reference" / name
    return ((DOCS / name) if name.endswith(".svg") else folder / "report.md").read_text()


def _groups(pattern: str, text: str) -> list[str]:
    return [one for found in re.finditer(pattern, text) for one in found.groups()]


def test_a_figure_that_is_quoted_is_the_reference_runs() -> None:
    for page, pattern, name, there in _QUOTED:
        quoted = _groups(pattern, (ROOT / page).read_text())
        assert quoted, pattern
        assert quoted == _groups(there, _reference(name))[: len(quoted)], (page, pattern)


def test_costs_that_are_quoted_are_the_reference_runs() -> None:
    ratios = sorted(ratio.value for _, ratio in made_docs.cost_ratios())
    assert len(ratios) == 10
    for page, pattern, scale in _COSTS:
        least, most = (f"{scale * one:.{2 if scale == 1 else 0}f}" for one in ratios[::9])
        assert _groups(pattern, (ROOT / page).read_text()) == [f"{least} to {most}"], pattern


def test_what_flavors_cost_is_the_reference_runs() -> None:
    """In times the CPU of sys, the client's and the server's."""
    page = (DOCS / "security.md").read_text()
    workloads = _reference("security").partition("## Every flavor")[2].split("\n**")
    for flavor in ("krb5", "krb5i", "krb5p", "tls", "mtls"):
        (cells,) = _groups(rf"\n\| {flavor} \|(.*\|.*)\|\n", page)
        rows = {
            workload.partition(",")[0]: [one.strip(" ?\u2013") for one in row.split("|")]
            for workload in workloads
            for row in _groups(rf"\n\| {flavor} \|(.*)\|\n", workload)
        }
        asked = [rows[name][3] for name in ("64k-read", "64k-write", "1m-read", "4k-randread")]
        assert [one.strip() for one in cells.split("|")] == [*asked, rows["64k-read"][7]], flavor


def test_readme_quotes_no_figure_without_its_data() -> None:
    text = (ROOT / "README.md").read_text()
    quoted = [(page, pattern) for page, pattern, *_ in _QUOTED]
    quoted += [(page, pattern) for page, pattern, _ in _COSTS]
    held = [
        found.span()
        for page, pattern in quoted
        if page == "README.md"
        for found in re.finditer(pattern, text)
    ]
    asked = r"How much load at 1 ms|stall\.svg|within"
    alone = [
        line
        for figure in _FIGURE.finditer(text)
        for line in [text[text.rfind("\n", 0, figure.start()) + 1 : figure.end()]]
        if not any(begin <= figure.start() < end for begin, end in held)
        if not re.search(asked, line)
    ]
    assert alone == []


# --- messages ---

_PAGE = DOCS / "messages.md"


def _composed(lib: CData) -> Iterator[str]:
    """Yield what the engine says of a choice by its row of terms_table."""
    for term in terms_rows(lib):
        word = text(term.in_path or term.word).split()[0]
        values = [value for value in term.values if value.word]
        if term.refusal:
            refused = next(text(one.word) for one in values if one.value == term.refused)
            yield f"{word}={refused}{text(term.refusal)}"
        if term.in_path and values:
            pool, error = zeros("pool"), zeros("pool_error")
            lib.pool_parse(f"nfs://h/x?{word}=?".encode(), pool, error)
            yield text(error.reason)


def test_listed_messages_are_in_the_sources_and_composed_ones_listed(testlib: CData) -> None:
    composed = {*_composed(testlib)}
    printed = [*messages.engine(ROOT / "engine"), *messages.harness(ROOT), *composed]
    printed.append(messages.front_end(ROOT / "nfsmulti"))
    listed = messages.listed(_PAGE.read_text())
    assert [said for said in listed if not any(said in text for text in printed)] == []
    assert [text for text in sorted(composed) if not any(said in text for said in listed)] == []


def test_a_message_without_a_row_says_what_to_do() -> None:
    """A new message: let it end with what to do (messages.py has the rule), or add a row."""
    unlisted = messages.unlisted(_PAGE.read_text(), ROOT)
    assert [what for what, remedy in sorted(unlisted) if not remedy] == []
